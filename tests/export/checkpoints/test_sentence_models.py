"""Folders that sentence-transformers saves give the vectors that it gives, whatever stands behind pooling."""

import dataclasses
import json
import shutil
import warnings

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer, SparseEncoder
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Dropout, Pooling
from sentence_transformers.sparse_encoder.modules import SpladePooling
from tokenizers import Tokenizer

from export.checkpoints.reading.sentence_transformers import LEGACY_POOLINGS, LOGS, POOLINGS, WORD_POOLINGS
from tests.samples import rankers
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
        given = (tokens, visible.bool(), types)[: len(source.plan("predict").inputs)]
        return source.traced(*given)[0].numpy()


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


GEMMA = [
    lambda: Dense(16, 24, bias=False, activation_function=torch.nn.Identity()),
    lambda: Dense(24, 16, bias=False, activation_function=torch.nn.Identity()),
    Normalize,
]
"""What stands behind the mean in EmbeddingGemma."""


@pytest.mark.parametrize(
    ("name", "pooling", "behind", "side"),
    [("qwen3-features", "lasttoken", [Normalize], "left"), ("qwen3-features", "lasttoken", [], "right"),
     ("qwen3-features", "weightedmean", [], "right"), ("gemma3-features", "mean", GEMMA, "right")],
)  # fmt: skip
def test_vectors_of_decoders_are_those_of_the_library(checkpoints, tmp_path, name, pooling, behind, side):
    folder, saved = tmp_path / "body", tmp_path / "saved"
    shutil.copytree(checkpoints(name), folder)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "padding_side": side}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    more = {"prompts": PROMPTS, "default_prompt_name": "query"}
    model = saved_by_the_library(folder, saved, pooling, [make() for make in behind], **more)
    source = source_of(saved)
    assert (source.task, source.text.prompts, source.text.prompt) == ("feature-extraction", PROMPTS, "low: ")
    assert far(vectors(source), model.encode(TEXTS)) < 5e-6
    (kind,) = source.attention
    assert kind.pooled == {"lasttoken": "last"}.get(pooling, "all")
    settings = json.loads((saved / "sentence_bert_config.json").read_text())
    settings["modality_config"]["message"] = {"method": "forward", "format": "flat"}
    (saved / "sentence_bert_config.json").write_text(json.dumps(settings))
    with pytest.raises(Exception, match=r"sentence_bert_config.json: modality_config must be of texts that are no"):
        source_of(saved)


def scored(source, pairs):
    """The logits that the definition gives pairs, one by one, in float64."""
    tokenizer, model = Tokenizer.from_str(source.tokenizer), source.traced.double()
    rows = [tokenizer.encode(source.text.pair.text(*pair), add_special_tokens=False).ids for pair in pairs]
    with torch.no_grad():
        given = [torch.tensor([row]) for row in rows]
        return torch.cat([model(row, torch.ones_like(row, dtype=torch.bool))[0][:, 0] for row in given]).numpy()


def test_a_decoder_ranks_as_the_library_and_as_its_card_say(tmp_path):
    folder, saved = tmp_path / "plain", tmp_path / "saved"
    folder.mkdir()
    rankers.save(folder)
    by_itself = source_of(folder, task="text-classification")
    logits = scored(by_itself, rankers.PAIRS)
    assert np.ptp(logits) > 0.1, "pairs of one score would show little"
    wanted = rankers.by_the_card(folder, rankers.PAIRS)
    assert np.abs(1 / (1 + np.exp(-logits)) - wanted).max() < 1e-7
    prompts = {"prompts": {"web": rankers.INSTRUCTION, "own": "old"}, "default_prompt_name": "own"}
    model = quietly(lambda: rankers.save_by_the_library(folder, saved, **prompts))
    source = source_of(saved)
    assert (source.task, source.labels, source.scores) == ("text-classification", ("yes",), "sigmoid")
    assert far(scored(source, rankers.PAIRS), model.predict(rankers.PAIRS, activation_fn=torch.nn.Identity())) < 5e-6
    assert far(scored(by_itself, rankers.PAIRS), model.predict(
        rankers.PAIRS, prompt_name="web", activation_fn=torch.nn.Identity())) < 5e-6  # fmt: skip
    edit(saved, "config_sentence_transformers.json", lambda it: it.update(activation_fn="torch.nn.Identity"))
    with pytest.raises(Exception, match="activation_fn must be Sigmoid or Identity"):
        source_of(saved)
    named = "torch.nn.modules.linear.Identity"
    edit(saved, "config_sentence_transformers.json", lambda it: it.update(activation_fn=named))
    assert source_of(saved).scores == "identity"
    edit(saved, "config_sentence_transformers.json", lambda it: it["prompts"].update(own="old " * 400))
    with pytest.raises(Exception, match=r"around a query and a document: must leave room for a text in 320 tokens"):
        source_of(saved)
    assert source_of(folder).task == "text-generation"


def test_a_classifier_whose_pairs_are_messages_ranks_as_the_library_says(tmp_path):
    folder, saved = tmp_path / "plain", tmp_path / "saved"
    folder.mkdir()
    rankers.save(folder, transformers.Qwen3ForSequenceClassification, num_labels=1)
    prompts = {"prompts": {"own": "old"}, "default_prompt_name": "own"}
    model = quietly(lambda: rankers.save_by_the_library(folder, saved, "sequence-classification", **prompts))
    source = source_of(saved)
    assert (source.labels, source.scores, source.text.pair.between) == (("LABEL_0",), "sigmoid", "\n<Document>: ")
    assert far(scored(source, rankers.PAIRS), model.predict(rankers.PAIRS, activation_fn=torch.nn.Identity())) < 5e-6
    assert source_of(folder).text.pair is None


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
