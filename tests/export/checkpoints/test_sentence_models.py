"""Folders that sentence-transformers saves give the vectors that it gives, whatever stands behind pooling."""

import dataclasses
import json
import warnings

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer, SparseEncoder
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Dropout, Pooling
from sentence_transformers.sparse_encoder.modules import SpladePooling
from tokenizers import Tokenizer

from export.checkpoints.reading.sentence_transformers import LEGACY_POOLINGS, LOGS, POOLINGS, WORD_POOLINGS
from tests.samples.checkpoints import sharpened, source_of
from tests.samples.export_folders import edit

PROMPTS = {"query": "low: ", "document": ""}
TEXTS = ["the cat sat", "a dog and a bird ran high", "", "x", "the old house was not very good, not bad"]
BEHIND = {
    "nothing": lambda: [],
    "a layer": lambda: [Dense(16, 8)],
    "layers": lambda: [
        Dense(16, 24, bias=False, activation_function=torch.nn.GELU()),
        Dense(24, 24, use_residual=True, activation_function=torch.nn.ReLU()),
        Normalize(),
        Dropout(0.5),
        Dense(24, 12, use_residual=True, activation_function=torch.nn.Identity()),
        Dense(12, 9, activation_function=torch.nn.SiLU()),
        Normalize(),
    ],
}


def quietly(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def saved_by_the_library(folder, target, pooling, behind, **more):
    """Save a model of modules, with weights of their own; return the model."""
    modules = [Transformer(str(folder)), Pooling(16, pooling), *behind]
    for module in modules[2:]:
        sharpened(module, 5)
    model = quietly(lambda: SentenceTransformer(modules=modules, device="cpu", **more))
    model.save(str(target))
    return model


def as_older_releases(folder):
    """Write the folder as releases before 5 did."""
    moved = "sentence_transformers.models."
    edit(folder, "modules.json", lambda it: [one.update(type=moved + one["type"].rpartition(".")[2]) for one in it])
    flags = {mode: flag for flag, mode in LEGACY_POOLINGS.items()}

    def older_pooling(it):
        mode = it.pop("pooling_mode")
        it.update(word_embedding_dimension=it.pop("embedding_dimension"), include_prompt=True)
        it.update({flag: flag == flags[mode] for flag in flags.values()})

    edit(folder, "1_Pooling/config.json", older_pooling)
    for file in folder.glob("*_Dense/config.json"):
        content = json.loads(file.read_text())
        file.write_text(json.dumps({name: one for name, one in content.items() if not name.startswith("module_")}))
    for file in folder.glob("*_Normalize/config.json"):
        file.unlink()


def far(found, wanted):
    return np.abs(found - wanted).max() / max(1, np.abs(wanted).max())


def vectors(source):
    """What the definition makes of the texts, in one padded batch."""
    tokenizer = Tokenizer.from_str(source.tokenizer)
    tokenizer.enable_padding()
    found = tokenizer.encode_batch([source.text.prompt + text for text in TEXTS])
    arrays = [[one.ids for one in found], [one.attention_mask for one in found], [one.type_ids for one in found]]
    tokens, visible, types = map(torch.tensor, arrays)
    with torch.no_grad():
        return source.traced(tokens, visible.bool(), types)[0].numpy()


@pytest.mark.parametrize("form", ["today", "older"])
@pytest.mark.parametrize(
    ("pooling", "behind"), [*((one, "nothing") for one in POOLINGS), ("mean", "a layer"), ("lasttoken", "layers")]
)
def test_vectors_are_those_of_the_library(checkpoints, tmp_path, pooling, behind, form):
    model = saved_by_the_library(checkpoints("bert"), tmp_path, pooling, BEHIND[behind]())
    if form == "older":
        as_older_releases(tmp_path)
    source = source_of(tmp_path)
    wanted = model.encode(TEXTS)
    assert source.traced.model.width == wanted.shape[1]
    assert far(vectors(source), wanted) < 5e-6
    (kind,) = source.attention
    assert kind.pooled == {"cls": "first", "lasttoken": "last"}.get(pooling, "all")


def saved_by_the_sparse_library(folder, target, **options):
    """Save a sparse encoder; return the model."""
    modules = [Transformer(str(folder), transformer_task="fill-mask"), SpladePooling(**options)]
    more = {"prompts": PROMPTS, "default_prompt_name": "query"}
    model = quietly(lambda: SparseEncoder(modules=modules, device="cpu", **more))
    model.save(str(target))
    return model


@pytest.mark.parametrize("form", ["today", "older"])
@pytest.mark.parametrize("activation", LOGS)
@pytest.mark.parametrize("pooling", WORD_POOLINGS)
def test_weights_of_words_are_those_of_the_library(checkpoints, tmp_path, pooling, activation, form):
    model = saved_by_the_sparse_library(
        checkpoints("bert-mask"), tmp_path, pooling_strategy=pooling, activation_function=activation
    )
    if form == "older":
        edit(tmp_path, "modules.json", lambda it: it[0].update(type="sentence_transformers.models.MLMTransformer"))
        (tmp_path / "sentence_bert_config.json").unlink()
        edit(tmp_path, "1_SpladePooling/config.json", lambda it: it.update(word_embedding_dimension=130))
    source = source_of(tmp_path)
    assert (source.task, source.scores, source.attention[0].pooled) == ("sparse-embedding", "identity", "all")
    assert (source.text.prompt, source.traced.model.width) == ("low: ", 130)
    wanted = model.encode(TEXTS, convert_to_sparse_tensor=False).numpy()
    assert 0 < (wanted == 0).mean() < 1
    found = vectors(source)
    assert far(found, wanted) < 5e-6
    assert ((found != 0) == (wanted != 0)).all()


def test_a_masked_language_model_is_exported_as_a_sparse_encoder_where_that_is_asked_for(checkpoints, tmp_path):
    folder = checkpoints("bert-mask")
    assert source_of(folder).task == "fill-mask"
    model = saved_by_the_sparse_library(folder, tmp_path)  # with the pooling that is usual
    source = source_of(folder, task="sparse-embedding")
    source.text.prompts.update(PROMPTS)
    source = dataclasses.replace(source, inputs=(source.text.model_copy(update={"default_prompt": "query"}),))
    assert far(vectors(source), model.encode(TEXTS, convert_to_sparse_tensor=False).numpy()) < 5e-6


def test_the_default_prompt_stands_before_every_text_and_a_vector_is_cut_after_all_modules(checkpoints, tmp_path):
    modules = [Dense(16, 12), Normalize()]
    more = {"prompts": PROMPTS, "default_prompt_name": "query", "truncate_dim": 5}
    model = saved_by_the_library(checkpoints("bert"), tmp_path, "mean", modules, **more)
    source = source_of(tmp_path)
    assert (source.text.prompts, source.text.default_prompt, source.text.prompt) == (PROMPTS, "query", "low: ")
    assert source.made_by["truncate_dim"] == 5
    wanted = model.encode(TEXTS)
    assert wanted.shape == (len(TEXTS), 5)
    assert (np.linalg.norm(wanted, axis=1) < 0.99).any()  # the library does not normalise again
    assert far(vectors(source), wanted) < 5e-6
    edit(tmp_path, "config_sentence_transformers.json", lambda it: it.update(default_prompt_name=None, truncate_dim=99))
    source = source_of(tmp_path)
    assert (source.text.prompts, source.text.prompt, source.traced.model.width) == (PROMPTS, "", 12)


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("2_Dense/config.json", {"in_features": 15}, "2_Dense/config.json: in_features must be 16, given 15"),
        ("2_Dense/config.json", {"out_features": 7}, r"2_Dense/linear.weight must be \[7, 16\], given \[8, 16\]"),
        ("2_Dense/config.json", {"bias": False}, "weights: left over 2_Dense/linear.bias"),
        ("2_Dense/config.json", {"use_residual": True}, "weights: missing 2_Dense/residual.weight"),
        ("config_sentence_transformers.json", {"prompts": {"query": "low " * 40}, "default_prompt_name": "query"},
         "the prompt 'query': must leave room for a text in 40 tokens, given 43 with one"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(checkpoints, tmp_path, file, change, words):
    saved_by_the_library(checkpoints("bert"), tmp_path, "mean", [Dense(16, 8)])
    edit(tmp_path, file, lambda it: it.update(change))
    with pytest.raises(Exception, match=words):
        source_of(tmp_path)


def test_a_layer_that_is_a_pickle_says_how_it_is_converted(checkpoints, tmp_path):
    saved_by_the_library(checkpoints("bert"), tmp_path, "mean", [Dense(16, 8)])
    (tmp_path / "2_Dense/model.safetensors").rename(tmp_path / "2_Dense/pytorch_model.bin")
    with pytest.raises(Exception, match=r"2_Dense/pytorch_model.bin: is not read, since .* make model.safetensors"):
        source_of(tmp_path)
