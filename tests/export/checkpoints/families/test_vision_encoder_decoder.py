"""Layouts of checkpoints that write of pictures: what repositories hold, and what is refused."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from export.errors import CheckpointError
from tests.samples.checkpoints import IMAGE_TO_TEXT_TOKENS, source_of
from tests.samples.export_folders import configured, edit

pytestmark = pytest.mark.families
OUTPUT, TOKENS = "decoder.output_projection.weight", "decoder.model.decoder.embed_tokens.weight"
OF_RELEASE_4 = {
    "_name_or_path": "", "bad_words_ids": None, "chunk_size_feed_forward": 0, "diversity_penalty": 0.0,
    "do_sample": False, "early_stopping": False, "encoder_no_repeat_ngram_size": 0, "is_encoder_decoder": False,
    "length_penalty": 1.0, "max_length": 20, "min_length": 0, "no_repeat_ngram_size": 0, "num_beam_groups": 1,
    "num_beams": 1, "num_return_sequences": 1, "output_scores": False, "pruned_heads": {},
    "remove_invalid_values": False, "repetition_penalty": 1.0, "return_dict_in_generate": False, "temperature": 1.0,
    "tie_encoder_decoder": False,
    "top_k": 50, "top_p": 1.0, "torchscript": False, "typical_p": 1.0, "use_bfloat16": False,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1},
}  # fmt: skip
"""What releases 4 wrote of every configuration."""


def part(name, **keys):
    return lambda folder: edit(folder, "config.json", lambda it: it[name].update(keys))


def holding(**tensors):
    def hold(folder):
        save_file(load_file(folder / "model.safetensors") | tensors, folder / "model.safetensors", {"format": "pt"})

    return hold


def old(folder):
    """Write the keys of release 4 into both parts, and no file of rules."""

    def write(it):
        it["encoder"].update(OF_RELEASE_4)
        it["decoder"].update(OF_RELEASE_4, **IMAGE_TO_TEXT_TOKENS)
        it.update(processor_class="TrOCRProcessor", vocab_size=300, torch_dtype="float32")
        for key in IMAGE_TO_TEXT_TOKENS:
            it.pop(key, None)

    edit(folder, "config.json", write)
    (folder / "generation_config.json").unlink()


def test_a_folder_of_an_older_release_is_the_same_model_with_the_rules_of_its_decoder(saved):
    folder = saved("trocr-small")
    new = source_of(folder)
    old(folder)
    found = source_of(folder)
    inputs = found.base.example(found.verified_at[1], seed=1)
    with torch.no_grad():
        assert torch.equal(*(one.traced(*inputs)[0] for one in (new, found)))
    rules = found.generation
    assert (rules.start, rules.ends, rules.padding) == (2, (2,), 1)
    assert (rules.default_length, rules.max_new_tokens) == (20, 40)


def test_what_a_whole_configuration_says_is_before_what_its_decoder_says(saved):
    folder = saved("trocr-small")
    old(folder)
    configured(max_length=9, num_beams=3)(folder)
    assert (source_of(folder).generation.default_length, source_of(folder).generation.num_beams) == (9, 3)


def test_an_output_that_repeats_the_embedding_and_what_is_not_looked_at_are_set_aside(saved):
    folder = saved("trocr")
    embedding = load_file(folder / "model.safetensors")[TOKENS]
    holding(**{OUTPUT: embedding, "decoder.model.decoder.embed_positions._float_tensor": torch.zeros(1)})(folder)
    source = source_of(folder)
    pool = (f"encoder.pooler.dense.{one}" for one in ("bias", "weight"))
    assert set(source.made_by["set_aside"].split()) == {
        *pool, "decoder.model.decoder.embed_positions._float_tensor"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("trocr", part("encoder", model_type="donut-swin"), "one of vit, deit, beit, dinov2, given 'donut-swin'"),
        ("trocr", part("encoder", model_type="vision-encoder-decoder"), "encoder.model_type must be one of"),
        ("trocr", part("decoder", model_type="bert"), "decoder.model_type must be one of trocr, gpt2, given 'bert'"),
        ("trocr", part("decoder", wishful=1), "decoder.wishful: not known of trocr, .* add: --ignore wishful"),
        ("trocr", part("encoder", wishful=1), "encoder.wishful: not known of vit, "),
        ("trocr", part("decoder", d_model=0), "decoder.d_model: Input should be greater than 0, given '0'"),
        ("trocr", part("decoder", is_decoder=False), "decoder.is_decoder: Input should be True, given 'False'"),
        ("trocr", part("decoder", cross_attention_hidden_size=24), "must be the encoder's 16, given 24"),
        ("trocr", part("decoder", cross_attention_hidden_size=None), "missing enc_to_dec_proj"),
        ("trocr", holding(**{OUTPUT: torch.ones(300, 24)}), f"left over {OUTPUT} .not the same as"),
        ("trocr-large", part("decoder", use_learned_position_embeddings=True), "missing .*embed_positions.weight"),
        ("trocr", part("encoder", image_size=[8, 10]), "makes images of 8x12, but config.json says 8x10"),
        ("trocr", configured(encoder=None), "config.json: encoder: Input should be an object, given 'None'"),
    ],
)  # fmt: skip
def test_what_is_not_read_is_refused_by_name(saved, name, change, words):
    folder = saved(name)
    change(folder)
    with pytest.raises(CheckpointError, match=words):
        source_of(folder)


def test_keys_of_a_part_can_be_ignored(saved):
    folder = saved("trocr")
    part("decoder", wishful=1)(folder)
    assert source_of(folder, ignored=("wishful",)).name == "it"


def test_another_size_of_pictures_has_another_grid(saved):
    kinds = {kind.name: (kind.grid, kind.prefix) for kind in source_of(saved("trocr"), image=(16, 12)).attention}
    assert kinds == {"encoder": ((4, 3), 1), "decoder": (None, 0), "cross": ((4, 3), 1)}
