"""Checkpoints as older releases and hubs hold them: other names, other keys, the same model."""
# a table reads by its rows

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from export.checkpoints.checkpoint import open_checkpoint
from export.checkpoints.families import FAMILIES
from export.checkpoints.family import ExportOptions
from export.errors import CheckpointError
from model.layers import sinusoids
from tests.samples.export_folders import edit, without


def renamed(change):
    """Write every tensor under the names that `change` makes of its own."""

    def rename(folder):
        held = load_file(folder / "model.safetensors")
        save_file(
            {new: tensor.clone() for name, tensor in held.items() for new in change(name)}, folder / "model.safetensors"
        )

    return rename


def added(tensors):
    def add(folder):
        save_file(load_file(folder / "model.safetensors") | tensors(), folder / "model.safetensors")

    return add


def configured(**keys):
    return lambda folder: edit(folder, "config.json", lambda it: it.update(keys))


def each(*changes):
    return lambda folder: [change(folder) for change in changes]


def gamma(name):
    return [name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")]


def with_copy(name):
    return [name, "cls.predictions.decoder.weight"] if name.endswith("word_embeddings.weight") else [name]


def one_bias(name):
    return [] if name == "lm_head.bias" else ["lm_head.bias" if name == "lm_head.decoder.bias" else name]


def causal_mask():
    masks = {f"h.{layer}.attn.bias": torch.ones(1, 1, 48, 48).tril() for layer in range(3)}
    return masks | {f"h.{layer}.attn.masked_bias": torch.tensor(-1e4) for layer in range(3)}


def stored_sinusoids(dtype):
    table = sinusoids(40, 16, interleaved=False).to(dtype)
    return lambda: {f"model.{side}.embed_positions.weight": table.clone() for side in ("encoder", "decoder")}


def in_halves(folder):
    held = load_file(folder / "model.safetensors")
    save_file({name: tensor.half() for name, tensor in held.items()}, folder / "model.safetensors")


def rules_in_config(folder):
    rules = json.loads((folder / "generation_config.json").read_text())
    edit(folder, "config.json", lambda it: it.update(rules))
    (folder / "generation_config.json").unlink()


def surplus_token(folder):
    """As where a mask was added to the tokenizer, but never to the model."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)

    def add(it):
        it["added_tokens"].append({"id": 300, "content": "<gap>", "special": True, **flags})
        it["model"]["vocab"]["<gap>"] = 300

    edit(folder, "tokenizer.json", add)


def old_processor(folder):
    def rename(it):
        it["feature_extractor_type"] = it.pop("image_processor_type").replace("ImageProcessor", "FeatureExtractor")

    edit(folder, "preprocessor_config.json", rename)


OLD_BERT = {"pooler_fc_size": 768, "pooler_type": "first_token_transform", "directionality": "bidi"}
LAYOUTS = {
    "norms of TensorFlow": ("bert-mask", renamed(gamma)),
    "keys of older BERTs": ("bert-mask", configured(**OLD_BERT, gradient_checkpointing=False)),
    "a mask that is not named": ("bert-mask", without("tokenizer_config.json")),
    "a key that is null": ("bert-mask", configured(wishful=None)),
    "positions counted": ("bert", added(lambda: {"bert.embeddings.position_ids": torch.arange(40)[None]})),
    "a copy of the embedding": ("bert-mask", renamed(with_copy)),
    "a bias under one name": ("roberta-mask", renamed(one_bias)),
    "GPT-2 with its causal mask": (
        "gpt2",
        each(
            renamed(lambda name: [name.removeprefix("transformer.")]),
            added(causal_mask),
            configured(n_ctx=48, n_special=0, predict_special_tokens=True),
        ),
    ),
    "sinusoids": ("marian", added(stored_sinusoids(torch.float32))),
    "sinusoids in half precision": ("marian", added(stored_sinusoids(torch.float16))),
    "rules of generation in the configuration": (
        "marian",
        each(
            rules_in_config,
            configured(normalize_embedding=False, static_position_embeddings=True, add_bias_logits=False),
        ),
    ),
    "a token that the model has no row for": ("bart", surplus_token),
    "half precision": ("bert", in_halves),
    "a DeiT without its distillation token, which is a ViT": (
        "vit",
        each(
            renamed(lambda name: [name.replace("vit.", "deit.", 1)]),
            configured(model_type="deit", architectures=["DeiTForImageClassification"]),
        ),
    ),
    "a processor of the past": ("vit", old_processor),
}


def source_of(folder):
    """What the command would export; tracing it is tested elsewhere."""
    checkpoint = open_checkpoint(str(folder), None)
    return FAMILIES[checkpoint.config["model_type"]].source(checkpoint, ExportOptions("it"))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_older_layout_is_the_same_model(families, tmp_path, layout):
    name, change = LAYOUTS[layout]
    folder = shutil.copytree(families / "checkpoints" / name, tmp_path / name)
    old = source_of(folder)
    change(folder)
    new = source_of(folder)
    inputs = old.base.example(old.verified_at[1], seed=1)
    with torch.no_grad():
        answers = [one.traced(*inputs) for one in (old, new)]
    for before, after in zip(*answers, strict=True):
        assert (before - after).abs().max() <= (2e-2 if layout == "half precision" else 0)
    for field in ("labels", "scores", "image", "text", "generation", "attention", "tokenizer", "target_tokenizer"):
        assert getattr(old, field) == getattr(new, field), field


def test_logits_may_have_no_bias_and_names_no_prefix(families, tmp_path):
    folder = shutil.copytree(families / "checkpoints" / "bart", tmp_path / "bart")
    renamed(lambda name: [] if name == "final_logits_bias" else [name.removeprefix("model.")])(folder)
    assert not source_of(folder).plan("predict").module.model.head.bias.any()


@pytest.mark.parametrize("change", [{"id2label": {"0": "score"}}, {"problem_type": "multi_label_classification"}])
def test_a_label_alone_and_labels_that_do_not_exclude_each_other_are_sigmoids(families, tmp_path, change):
    folder = shutil.copytree(families / "checkpoints" / "bert", tmp_path / "bert")
    assert source_of(folder).scores == "softmax"
    configured(**change)(folder)
    if "id2label" in change:
        added(lambda: {"classifier.weight": torch.ones(1, 16), "classifier.bias": torch.ones(1)})(folder)
    assert source_of(folder).scores == "sigmoid"


@pytest.mark.parametrize(("setting", "field"), [("do_lower_case", "lowercase"), ("strip_accents", "strip_accents")])
def test_the_tokenizer_s_settings_hold_over_its_file(families, tmp_path, setting, field):
    folder = shutil.copytree(families / "checkpoints" / "bert", tmp_path / "bert")
    (folder / "tokenizer_config.json").write_text(json.dumps({setting: True}))
    edit(folder, "tokenizer.json", lambda it: it["normalizer"].__setitem__(field, False))
    assert json.loads(source_of(folder).tokenizer)["normalizer"][field] is True


def test_a_folder_of_a_cross_encoder_is_a_classifier(families, tmp_path):
    folder = shutil.copytree(families / "checkpoints" / "bert", tmp_path / "bert")
    (folder / "modules.json").write_text(json.dumps([{"type": "x.Transformer", "path": ""}]))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"model_type": "CrossEncoder"}))
    assert source_of(folder).task == "text-classification"
    declared = {"model_type": "CrossEncoder", "activation_fn": "torch.nn.modules.linear.Identity"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(declared))
    with pytest.raises(CheckpointError, match=r"config_sentence_transformers.json: activation_fn must be Sigmoid"):
        source_of(folder)
