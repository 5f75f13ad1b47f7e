"""Layouts of encoders of text: names and files that repositories have, and what is refused of their configurations."""

import json

import pytest
from safetensors.torch import save_file
from tokenizers import Tokenizer

from export.checkpoints.families import check_type
from export.errors import CheckpointError
from tests.samples.checkpoints import reference, source_of
from tests.samples.export_folders import configured, renamed, without
from tests.samples.export_marian import ENGLISH, sentences, train

pytestmark = pytest.mark.families
ELECTRA = {"model_type": "electra", "architectures": ["ElectraForPreTraining"]}


def parameters(source):
    return {name: parameter.sum().item() for name, parameter in source.traced.named_parameters()}


@pytest.mark.parametrize("name", ["nomic-bert-mask", "gte-mask", "jina-v3"])
def test_names_of_the_reference_library_s_modules_are_read_as_those_that_it_writes(saved, name):
    folder = saved(name)
    written = parameters(source_of(folder))
    held = reference(folder).float().state_dict()
    assert any(".self_attn.q_proj." in one for one in held)
    unshared = {one: tensor.clone() for one, tensor in held.items() if not one.endswith("position_ids")}
    save_file(unshared, folder / "model.safetensors")
    assert parameters(source_of(folder)) == written


@pytest.mark.parametrize("name", ["deberta-v2-features", "albert-features"])
def test_a_sentencepiece_model_is_enough_of_a_tokenizer(saved, name):
    folder, albert = saved(name), name.startswith("albert")
    pieces = {"bos_id": -1, "eos_id": -1, "pad_id": 0, "control_symbols": ["[CLS]", "[SEP]", "[MASK]"]}
    unknown = {"unk_id": 1} if albert else {"unk_id": 3, "unk_piece": "[UNK]", "pad_piece": "[PAD]"}
    without("tokenizer.json")(folder)
    file = folder / ("spiece.model" if albert else "spm.model")
    train(file, sentences(ENGLISH, 300, 1), model_type="unigram", vocab_size=130, **pieces, **unknown)
    tokens = Tokenizer.from_str(source_of(folder).tokenizer).encode("the old house").tokens
    assert (tokens[0], tokens[1], tokens[-1]) == ("[CLS]", "▁the", "[SEP]")


def test_what_finds_replaced_words_is_exported_as_a_body_alone(saved):
    words = "architectures: ElectraForPreTraining is not supported.*add --task feature-extraction for the body alone"
    with pytest.raises(CheckpointError, match=words):
        check_type(ELECTRA, None)
    check_type(ELECTRA, "feature-extraction")
    folder = saved("electra-features")
    renamed(lambda name: [f"electra.{name}", "discriminator_predictions.dense.weight"][: 2 if "query" in name else 1])
    configured(**ELECTRA)(folder)
    assert source_of(folder, task="feature-extraction").task == "feature-extraction"


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("modernbert", "classifier_pooling", "max"),
        ("modernbert", "rope_parameters", {"full_attention": {"rope_type": "yarn", "factor": 4.0}}),
        ("modernbert", "layer_types", ["full_attention", "chunked_attention"] * 2),
        ("deberta-v2", "conv_kernel_size", 3),
        ("deberta-v2", "pos_att_type", ["c2p"]),
        ("deberta-v2", "pos_att_type", None),
        ("deberta-v2", "share_att_key", False),
        ("deberta-v2", "position_biased_input", True),
        ("deberta-v2", "relative_attention", False),
        ("deberta-v2", "norm_rel_ebd", "rms"),
        ("albert", "inner_group_num", 0),
        ("nomic-bert", "num_experts", 8),
        ("nomic-bert", "prenorm", True),
        ("nomic-bert", "rotary_emb_interleaved", True),
        ("nomic-bert", "rotary_emb_fraction", 0.5),
        ("nomic-bert-features", "rotary_emb_base", 10_000),
        ("gte", "rope_scaling", {"type": "dynamic", "factor": 2.0}),
        ("gte", "logn_attention_scale", True),
        ("eurobert", "head_dim", 16),
        ("eurobert", "clf_pooling", "mean"),
        ("jina-v3", "lora_adaptations", ["retrieval.query"]),
        ("prelayernorm", "position_embedding_type", "relative_key"),
    ],
)
def test_what_is_not_computed_is_refused_by_name(saved, name, key, value):
    folder = saved(name)
    configured(**{key: value})(folder)
    with pytest.raises(CheckpointError, match=rf"config.json: {key}"):
        source_of(folder)


def test_angles_of_longer_texts_are_those_of_the_authors(saved):
    folder = saved("gte-features")
    configured(rope_theta=500, rope_scaling={"type": "ntk", "factor": 8.0})(folder)
    made_by = source_of(folder).made_by
    assert (made_by["definition"], made_by["theta"], made_by["stretch"]) == ("new", 500.0, 8.0)


def test_what_is_missing_is_named_as_the_checkpoint_names_it(saved):
    folder = saved("albert-tags")
    renamed(lambda name: [] if name.endswith("ffn.weight") else [name])(folder)
    missing = r"missing albert\.encoder\.albert_layer_groups\.0\.albert_layers\.0\.ffn\.weight$"
    with pytest.raises(CheckpointError, match=missing):
        source_of(folder)


def test_a_family_that_is_not_read_is_refused_before_anything_else(saved):
    folder = saved("electra")
    configured(model_type="mobilebert")(folder)
    config = json.loads((folder / "config.json").read_text())
    with pytest.raises(CheckpointError, match=r"config.json: model_type must be one of .*, given 'mobilebert'"):
        check_type(config, None)
