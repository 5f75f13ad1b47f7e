"""Layouts of T5's checkpoints: which output is theirs, what repositories hold beside it, and what is refused."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from export.errors import CheckpointError
from tests.samples.checkpoints import reference, source_of
from tests.samples.export_folders import configured, edit, renamed

pytestmark = pytest.mark.families
SOURCE = torch.tensor([[5, 17, 9, 40, 1], [8, 8, 1, 0, 0]])
VISIBLE = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
TARGET = torch.tensor([[0, 30, 12, 7], [0, 4, 4, 99]])
OUTPUT, BIAS = "lm_head.weight", "encoder.block.{}.layer.0.SelfAttention.relative_attention_bias.weight"


def holding(**tensors):
    def hold(folder):
        save_file(load_file(folder / "model.safetensors") | tensors, folder / "model.safetensors", {"format": "pt"})

    return hold


def output_of(folder, scale=0.0):
    """Write the embedding's matrix as the output's, with noise."""
    shared = load_file(folder / "model.safetensors")["shared.weight"]
    noise = torch.randn(shared.shape, generator=torch.Generator().manual_seed(0))
    holding(**{OUTPUT: shared + scale * noise})(folder)


def spelled(projection):
    """Say the form of feed-forwards by their key of older releases alone."""

    def spell(it):
        it["feed_forward_proj"] = projection
        for key in ("dense_act_fn", "is_gated_act"):
            it.pop(key, None)

    return lambda folder: edit(folder, "config.json", spell)


def without_output(folder):
    renamed(lambda name: [] if name == OUTPUT else [name])(folder)


@torch.no_grad()
def answers(folder):
    """Return our logits and the reference library's, in float64."""
    traced = source_of(folder).traced.double()
    theirs = reference(folder)(SOURCE, attention_mask=VISIBLE.long(), decoder_input_ids=TARGET)
    return traced.observe(SOURCE, VISIBLE, TARGET).answer, theirs.logits


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("t5", lambda folder: output_of(folder)),
        ("t5", configured(tie_word_embeddings=False)),
        ("t5", configured(scale_decoder_outputs=False)),
        ("t5-1.1", without_output),
        ("t5-1.1", configured(tie_word_embeddings=False, scale_decoder_outputs=False)),
        ("t5-1.1", configured(dense_act_fn="relu")),
        ("t5", spelled("gelu")),
        ("t5-1.1", spelled("gated-relu")),
        ("mt5", without_output),
        ("mt5", configured(tie_word_embeddings=True)),
        ("umt5", configured(tie_word_embeddings=False, scale_decoder_outputs=None)),
        ("umt5", configured(scalable_attention=True)),
    ],
)
def test_what_a_folder_says_of_its_output_and_activation_is_what_the_reference_library_makes_of_it(saved, name, change):
    folder = saved(name)
    change(folder)
    ours, theirs = answers(folder)
    assert (ours - theirs).abs().max() <= 1e-6 * theirs.abs().max()


@pytest.mark.parametrize("kept", ["encoder", "decoder"])
def test_the_shared_matrix_may_have_any_of_its_names(saved, kept):
    folder = saved("t5")
    wanted, _ = answers(folder)
    renamed(lambda name: [f"{kept}.embed_tokens.weight" if name == "shared.weight" else name])(folder)
    ours, _ = answers(folder)
    assert torch.equal(ours, wanted)


def test_a_bias_of_looking_at_the_source_which_old_checkpoints_hold_is_set_aside(saved):
    folder, name = saved("t5"), "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    holding(**{name: torch.zeros(8, 3)})(folder)
    assert source_of(folder).made_by["set_aside"] == name


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("t5", configured(feed_forward_proj="gated-swiglu"), "feed_forward_proj: must be one of .* behind gated-, "),
        ("t5", configured(is_decoder=True), "config.json: is_decoder: Input should be False"),
        ("t5", configured(encoder_attention_type="local"), "encoder_attention_type: not known of t5"),
        ("t5", configured(is_gated_act=True), "weights: left over .*DenseReluDense.wi.weight"),
        ("t5", configured(num_decoder_layers=3), "missing decoder.block.2"),
        ("t5", configured(relative_attention_num_buckets=2), "buckets of distances: must be at least 2 for each"),
        ("t5", configured(relative_attention_max_distance=4), "farthest distance: must be beyond the 4"),
        ("t5", configured(d_kv=5), "SelfAttention.q.weight must be "),
        ("t5", lambda folder: output_of(folder, 0.1), "left over lm_head.weight .not the same as head.weight"),
        ("t5", holding(**{BIAS.format(1): torch.zeros(8, 3)}), "left over " + BIAS.format(1)),
        ("umt5", renamed(lambda name: [] if name == BIAS.format(1) else [name]), "missing " + BIAS.format(1)),
    ],
)  # fmt: skip
def test_what_is_not_a_t5_is_refused_by_name(saved, name, change, words):
    folder = saved(name)
    change(folder)
    with pytest.raises(CheckpointError, match=words):
        source_of(folder)


def test_texts_are_as_long_as_the_configuration_or_the_tokenizer_says_or_else_512_tokens(saved):
    folder = saved("t5")
    assert source_of(folder).text.max_tokens == 40
    edit(folder, "config.json", lambda it: it.pop("n_positions"))
    assert (source_of(folder).text.max_tokens, source_of(folder).generation.max_new_tokens) == (512, 512)
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 30}')
    assert source_of(folder).text.max_tokens == 30
