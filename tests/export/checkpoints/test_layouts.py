"""Checkpoints as older releases and hubs hold them: other names, other keys, the same model."""
# a table reads by its rows

import dataclasses
import json
import re
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import AutoImageProcessor, AutoTokenizer, BertTokenizer

from contract.generation import Bias, Sampling
from export.checkpoints.reading.generation_config import DISABLING_VALUES, IRRELEVANT_KEYS, SUPPORTED_KEYS
from export.errors import CheckpointError
from model.parts.positions import sinusoids
from tests.samples.checkpoints import CASES, T, dino, reference, source_of
from tests.samples.export_command import export_command
from tests.samples.export_folders import configured, edit, renamed, without


def added(tensors):
    def add(folder):
        save_file(load_file(folder / "model.safetensors") | tensors(), folder / "model.safetensors")

    return add


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


def gemma_of_release_4(folder):
    def change(config):
        del config["layer_types"], config["rope_parameters"]
        scaling = {"rope_type": "linear", "factor": 2.0}
        config |= {"rope_theta": 500, "rope_local_base_freq": 30, "rope_scaling": scaling}
        config |= {"sliding_window_pattern": 3, "cache_implementation": "hybrid"}

    edit(folder, "config.json", change)


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


def nested_processor(folder):
    own = json.loads((folder / "preprocessor_config.json").read_text())
    (folder / "preprocessor_config.json").unlink()
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": own, "processor_class": "X"}))


def whole_processor(kind):
    """As the reference library saves a processor of pictures and texts: what it says of pictures lies in it."""

    def save(folder):
        tokens = BertTokenizer(vocab={"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "[PAD]": 3, "[MASK]": 4})
        kind(image_processor=AutoImageProcessor.from_pretrained(folder), tokenizer=tokens).save_pretrained(folder)
        (folder / "preprocessor_config.json").unlink()
        assert "image_processor" in json.loads((folder / "processor_config.json").read_text())

    return save


def fast_processor(folder):
    """As version 4 saved one that runs in torchvision: with all keys that it knows."""
    nulls = "crop_size do_center_crop do_convert_rgb do_pad pad_size device disable_grouping input_data_format"

    def change(it):
        kind = f"{it.pop('image_processor_type', 'ViTImageProcessor')}Fast"
        others = dict.fromkeys((*nulls.split(), "return_tensors")) | {"data_format": "channels_first"}
        it.update({**others, **it, "image_processor_type": kind, "default_to_square": True})

    edit(folder, "preprocessor_config.json", change)


def named_filter(folder):
    names = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
    edit(folder, "preprocessor_config.json", lambda it: it.update(resample=names[it.get("resample", 2)]))


def under_another_name(usual, other):
    """As `safetensors.save_model` writes it: a matrix that modules share has one of its names, whichever."""

    def change(folder):
        tensors = load_file(folder / "model.safetensors")
        (held,) = [one for name, one in tensors.items() if name == f"{usual}.weight"]
        kept = {name: one for name, one in tensors.items() if one.shape != held.shape or not one.equal(held)}
        save_file({**kept, f"{other}.weight": held}, folder / "model.safetensors")

    return change


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
    "a model that was wrapped": ("bert", renamed(lambda name: [f"module._orig_mod.{name}"])),
    "a processor among others": ("vit", nested_processor),
    "a filter by its name": ("vit", named_filter),
    "a processor of pictures and texts": ("vit", whole_processor(T.TrOCRProcessor)),
    "a processor of pictures and texts for a DeiT": ("deit", whole_processor(T.TrOCRProcessor)),
    "a processor of pictures and texts for a DINOv2": ("dinov2", whole_processor(T.CLIPProcessor)),
    "a processor of pictures and texts for a Swin": ("swin", whole_processor(T.DonutProcessor)),
    "a processor of pictures and texts for a DETR": ("detr", whole_processor(T.CLIPProcessor)),
    "a processor of pictures and texts for a YOLOS": ("yolos", whole_processor(T.CLIPProcessor)),
    "a processor of version 4 in torchvision": ("vit", fast_processor),
    "a shared matrix under the name of GPT-2's head": ("gpt2", under_another_name("transformer.wte", "lm_head")),
    "a shared matrix under the name of BERT's head": (
        "bert-mask",
        under_another_name("bert.embeddings.word_embeddings", "cls.predictions.decoder"),
    ),
    "a shared matrix under the name of BART's encoder": (
        "bart",
        under_another_name("model.shared", "model.encoder.embed_tokens"),
    ),
    "what trainers note in a configuration": (
        "llama",
        configured(unsloth_fixed=True, unsloth_version="2025.3.1", _flash_attn_2_enabled=True, max_sequence_length=9),
    ),
    "what a conversion of GGUF notes in a configuration": (
        "llama",
        configured(_model_name_or_path="Small 1M", unk_token_id=0, bos_token_id=1, eos_token_id=2),
    ),
    "a Gemma of release 4": ("gemma3", gemma_of_release_4),
    "a Phi that says which biases it has not": (
        "phi3",
        configured(attention_bias=False, mlp_bias=False, lm_head_bias=False, pretraining_tp=1),
    ),
    "a Pegasus as published": ("pegasus", configured(do_blenderbot_90_layernorm=False, extra_pos_embeddings=1)),
    "a shared matrix under the name of BART's head": ("bart", under_another_name("model.shared", "lm_head")),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_older_layout_is_the_same_model(checkpoints, tmp_path, layout):
    name, change = LAYOUTS[layout]
    folder = shutil.copytree(checkpoints(name), tmp_path / name)
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


def test_logits_may_have_no_bias_and_names_no_prefix(checkpoints, tmp_path):
    folder = shutil.copytree(checkpoints("bart"), tmp_path / "bart")
    renamed(lambda name: [] if name == "final_logits_bias" else [name.removeprefix("model.")])(folder)
    assert not source_of(folder).plan("predict").module.model.head.bias.any()


@pytest.mark.parametrize("change", [{"id2label": {"0": "score"}}, {"problem_type": "multi_label_classification"}])
def test_a_label_alone_and_labels_that_do_not_exclude_each_other_are_sigmoids(checkpoints, tmp_path, change):
    folder = shutil.copytree(checkpoints("bert"), tmp_path / "bert")
    assert source_of(folder).scores == "softmax"
    configured(**change)(folder)
    if "id2label" in change:
        added(lambda: {"classifier.weight": torch.ones(1, 16), "classifier.bias": torch.ones(1)})(folder)
    assert source_of(folder).scores == "sigmoid"


def test_a_wrapper_of_some_names_alone_stays_and_is_named(checkpoints, tmp_path):
    folder = shutil.copytree(checkpoints("bert"), tmp_path / "bert")
    renamed(lambda name: [f"module.{name}" if "pooler" in name else name])(folder)
    with pytest.raises(CheckpointError, match=r"left over module\.bert\.pooler"):
        source_of(folder)


def test_a_folder_of_an_adapter_says_how_it_is_merged(checkpoints, tmp_path):
    folder = shutil.copytree(checkpoints("bert"), tmp_path / "bert")
    (folder / "config.json").rename(folder / "adapter_config.json")
    with pytest.raises(CheckpointError, match=r"adapter_config.json: is that of an adapter.*merge_and_unload"):
        source_of(folder)


def test_a_regression_answers_its_numbers_as_they_are(checkpoints, tmp_path):
    folder = shutil.copytree(checkpoints("bert"), tmp_path / "bert")
    configured(problem_type="regression")(folder)
    assert source_of(folder).scores == "identity"


def test_names_of_classes_that_are_no_texts_are_written_as_json_writes_them(checkpoints, tmp_path):
    folder = shutil.copytree(checkpoints("bert"), tmp_path / "bert")
    names = [1, False, None, ["a", 1.5], "b"]
    count = len(source_of(folder).labels)
    configured(id2label={str(at): name for at, name in enumerate(names[:count])}, num_labels=None)(folder)
    assert source_of(folder).labels == ("1", "false", "null", '["a", 1.5]', "b")[:count]


@pytest.mark.parametrize(("setting", "field"), [("do_lower_case", "lowercase"), ("strip_accents", "strip_accents")])
def test_the_tokenizer_s_settings_hold_over_its_file(checkpoints, tmp_path, setting, field):
    folder = shutil.copytree(checkpoints("bert"), tmp_path / "bert")
    (folder / "tokenizer_config.json").write_text(json.dumps({setting: True}))
    edit(folder, "tokenizer.json", lambda it: it["normalizer"].__setitem__(field, False))
    assert json.loads(source_of(folder).tokenizer)["normalizer"][field] is True


@pytest.mark.parametrize("settings", [None, {"tokenizer_class": "BertTokenizer"}, {"model_max_length": 40}])
def test_settings_that_a_tokenizer_lacks_are_those_of_its_class(checkpoints, tmp_path, settings):
    """What `AutoTokenizer` makes of the same folder."""
    folder = shutil.copytree(checkpoints("bert"), tmp_path / "bert")
    edit(folder, "tokenizer.json", lambda it: it["normalizer"].update(lowercase=False, strip_accents=False))
    (folder / "tokenizer_config.json").unlink(missing_ok=True)
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    ours = Tokenizer.from_str(source_of(folder).tokenizer)
    theirs = AutoTokenizer.from_pretrained(folder)
    for text in ("the cat sat", "The CAT Sat", "thé cät"):
        assert ours.encode(text).ids == theirs(text)["input_ids"]
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    assert json.loads(source_of(folder).tokenizer)["normalizer"]["lowercase"] is False


def bert_processing(content):
    content["post_processor"] = {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]}


def in_a_sequence(content):
    content["post_processor"] = {"type": "Sequence", "processors": [content["post_processor"]]}


TYPED = ["input_ids", "token_type_ids", "attention_mask"]


@pytest.mark.parametrize(
    ("settings", "processor", "second"),
    [
        ({}, None, 1),
        ({"tokenizer_class": "BertTokenizer"}, None, 1),
        ({"tokenizer_class": "BertTokenizer", "model_input_names": ["input_ids", "attention_mask"]}, None, 0),
        ({"tokenizer_class": "DistilBertTokenizer"}, None, 0),
        ({"tokenizer_class": "TokenizersBackend"}, None, 0),
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, None, 0),
        ({"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": TYPED}, None, 1),
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, in_a_sequence, 0),
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, bert_processing, 0),
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, lambda it: it.update(post_processor=None), 0),
    ],
)
def test_types_of_a_pair_are_those_that_the_reference_library_feeds(saved, settings, processor, second):
    folder = saved("bert")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    if processor:
        edit(folder, "tokenizer.json", processor)
    source = source_of(folder)
    ours = Tokenizer.from_str(source.tokenizer).encode("the cat sat", "a dog ran")
    theirs = AutoTokenizer.from_pretrained(folder)("the cat sat", "a dog ran", return_tensors="pt")
    assert ours.ids == theirs["input_ids"][0].tolist()
    assert ours.type_ids[-1] == second
    assert [place is None for place in ours.sequence_ids] == [special == 1 for special in ours.special_tokens_mask]
    with torch.no_grad():
        wanted = reference(folder)(**theirs).logits
        visible = torch.ones(1, len(ours.ids), dtype=torch.bool)
        found = source.traced(torch.tensor([ours.ids]), visible, torch.tensor([ours.type_ids]))[0]
    assert (found - wanted).abs().max() < 1e-5


def test_a_folder_of_a_cross_encoder_is_a_classifier(saved):
    folder = saved("bert")
    (folder / "modules.json").write_text(json.dumps([{"type": "x.Transformer", "path": ""}]))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"model_type": "CrossEncoder"}))
    assert source_of(folder).task == "text-classification"


@pytest.mark.parametrize("name", ["detr", "conditional-detr", "table-transformer", "gpt2-untied", "qwen3", "bert"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_that_are_stored_as_half_floats_are_not_rounded_again(saved, tmp_path, name, dtype):
    halves, floats = saved(name), tmp_path / "floats"
    tensors = {name: tensor.to(dtype) for name, tensor in load_file(halves / "model.safetensors").items()}
    shutil.copytree(halves, floats)
    for folder, kind in ((halves, dtype), (floats, torch.float32)):
        save_file({name: tensor.to(kind) for name, tensor in tensors.items()}, folder / "model.safetensors")
    read, wanted = (source_of(folder).base.module.state_dict() for folder in (halves, floats))
    assert all(torch.equal(read[name].float(), tensor) for name, tensor in wanted.items())


def test_an_older_bart_is_forced_to_begin_as_its_configuration_says(saved):
    folder = saved("bart")
    (folder / "generation_config.json").unlink(missing_ok=True)
    edit(folder, "config.json", lambda it: it.pop("forced_bos_token_id", None))
    configured(bos_token_id=0, eos_token_id=2, decoder_start_token_id=2, force_bos_token_to_be_generated=True)(folder)
    assert source_of(folder).generation.forced_first == 0
    configured(force_bos_token_to_be_generated=False)(folder)
    assert source_of(folder).generation.forced_first is None


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ({}, Sampling(top_k=50, top_p=1.0, by_default=False)),
        (
            {"temperature": 0.5, "top_k": 3, "top_p": 0.9},
            Sampling(temperature=0.5, top_k=3, top_p=0.9, by_default=False),
        ),
        ({"do_sample": False, "temperature": 0.0, "top_k": 0}, Sampling(top_p=1.0, by_default=False)),
        ({"do_sample": True, "top_k": None, "temperature": 0.7}, Sampling(temperature=0.7, top_k=50, top_p=1.0)),
        ({"do_sample": True, "temperature": 0.0}, Sampling(top_k=50, top_p=1.0, by_default=False)),
    ],
)
def test_how_tokens_are_drawn_is_read_though_they_are_not_drawn_by_default(saved, written, wanted):
    """As `GenerationConfig` of the transformers library has it, whose `generate` draws among 50."""
    folder = saved("gpt2")
    edit(folder, "generation_config.json", lambda it: [it.pop(one, None) for one in ("do_sample", "top_k", "top_p")])
    edit(folder, "generation_config.json", lambda it: it.update(written))
    assert source_of(folder).generation.sampling == wanted


WRITTEN = {
    "eos_token_id": [2, 7], "repetition_penalty": 1.2, "encoder_repetition_penalty": 1.1, "no_repeat_ngram_size": 3,
    "encoder_no_repeat_ngram_size": 4, "bad_words_ids": [[5], [6, 8], [2]], "sequence_bias": [[[9, 3], -1.5]],
    "exponential_decay_length_penalty": [5, 1.25], "num_return_sequences": 2, "num_beams": 4, "do_sample": False,
    "min_p": 0.1, "top_h": 0.4, "typical_p": 0.9, "epsilon_cutoff": 0.01, "eta_cutoff": 0.02, "max_cache_len": 9,
    "suppress_tokens": [1],
}  # fmt: skip
MEANT = {
    "end": (2, 7), "repetition_penalty": 1.2, "source_penalty": 1.1, "no_repeat_ngram": 3, "source_no_repeat_ngram": 4,
    "bad_words": ((6, 8),), "suppressed": (1, 5), "biases": (Bias(tokens=(9, 3), bias=-1.5),),
    "length_decay": (5, 1.25), "num_return_sequences": 2, "num_beams": 4,
}  # fmt: skip
CUTS = {"min_p": 0.1, "top_h": 0.4, "typical_p": 0.9, "epsilon_cutoff": 0.01, "eta_cutoff": 0.02}


def test_what_a_file_says_of_generation_is_obeyed(saved):
    folder = saved("gpt2")
    edit(folder, "generation_config.json", lambda it: (it.clear(), it.update(WRITTEN)))
    rules = source_of(folder).generation
    assert {name: getattr(rules, name) for name in MEANT} == MEANT
    assert {name: getattr(rules.sampling, name) for name in CUTS} == CUTS


def test_no_key_of_generation_is_dropped_without_a_word():
    """Of those that the transformers library has, and that it has had."""
    read = {*SUPPORTED_KEYS, *DISABLING_VALUES, *IRRELEVANT_KEYS}
    theirs = {name for name in vars(T.GenerationConfig()) if not name.startswith("_")}
    assert theirs <= read
    assert not {*SUPPORTED_KEYS} & {*DISABLING_VALUES, *IRRELEVANT_KEYS}


def test_a_tokenizer_without_settings_has_those_of_barts_class(saved):
    folder = saved("bart")
    edit(folder, "tokenizer.json", lambda it: it["pre_tokenizer"].update(add_prefix_space=True))
    (folder / "tokenizer_config.json").unlink(missing_ok=True)
    ours, theirs = Tokenizer.from_str(source_of(folder).tokenizer), AutoTokenizer.from_pretrained(folder)
    for text in ("cat dog", " cat", "the cat"):
        assert ours.encode(text).ids == theirs(text)["input_ids"]


def tokenized(**settings):
    return lambda folder: edit(folder, "tokenizer_config.json", lambda it: it.update(settings))


def no_number(folder):
    edit(folder, "tokenizer.json", lambda it: it["added_tokens"][0].update(id="0"))


def cut_at_the_left(folder):
    cut = {"direction": "Left", "max_length": 8, "strategy": "LongestFirst", "stride": 0}
    edit(folder, "tokenizer.json", lambda it: it.update(truncation=cut))


QUERY = "bert.encoder.layer.0.attention.self.query.weight"


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("m2m-100", configured(pad_token_id=3), "config.json: pad_token_id: Input should be 1, given '3'"),
        ("roberta", no_number, "tokenizer.json: added_tokens must be objects whose id is"),
        (
            "roberta",
            tokenized(additional_special_tokens=["<s>", "cat"]),
            "tokenizer_config.json: additional_special_tokens: 'cat' must be an added token of",
        ),
        (
            "roberta",
            tokenized(extra_special_tokens={"animal": {"content": "dog"}}),
            "tokenizer_config.json: extra_special_tokens: 'dog' must be an added",
        ),
        ("roberta", tokenized(split_special_tokens=True), "tokenizer_config.json: split_special_tokens must be false"),
        ("bert", cut_at_the_left, "tokenizer.json: truncation.direction must be Right, given 'Left'"),
        (
            "bert",
            added(lambda: {QUERY: torch.full((16, 16), torch.nan)}),
            f"weights: {QUERY} must hold finite numbers, and holds NaN",
        ),
    ],
)
def test_what_a_checkpoint_must_not_hold_is_refused_by_name(saved, name, change, words):
    folder = saved(name)
    change(folder)
    with pytest.raises(CheckpointError, match=words):
        source_of(folder)


SIGMOID, IDENTITY = "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"
DECLARATIONS = {
    "file": lambda name: (
        lambda folder: (folder / "config_sentence_transformers.json").write_text(
            json.dumps({"model_type": "CrossEncoder", "activation_fn": name})
        )
    ),
    "config": lambda name: configured(sentence_transformers={"version": "5.1.0", "activation_fn": name}),
    "older config": lambda name: configured(sbert_ce_default_activation_function=name),
}


def test_a_decoder_s_folder_of_sentence_transformers_embeds_unless_it_shall_continue_texts(saved):
    folder = saved("qwen3")
    (folder / "modules.json").write_text(json.dumps([{"type": "x.Transformer", "path": ""}]))
    assert source_of(folder).task == "feature-extraction"
    assert source_of(folder, task="text-generation").task == "text-generation"


def test_a_gemma_whose_tokens_all_see_each_other_continues_no_texts(saved):
    folder = saved("gemma3-features")
    assert source_of(folder).task == "feature-extraction"
    with pytest.raises(CheckpointError, match="tokens must not see those behind them"):
        source_of(folder, task="text-generation")
    configured(architectures=["Gemma3ForCausalLM"])(folder)
    assert source_of(folder).task == "feature-extraction"
    with pytest.raises(CheckpointError, match="tokens must not see those behind them"):
        source_of(folder, task="text-classification")


def test_near_layers_of_a_decoder_must_not_see_what_is_behind(saved):
    folder = saved("mistral-features")
    configured(is_causal=False)(folder)
    with pytest.raises(CheckpointError, match="is_causal: must be true where layers see the last tokens alone"):
        source_of(folder)


@pytest.mark.parametrize(
    ("name", "key", "value", "words"),
    [
        ("llama", "rope_scaling", {"type": "dynamic", "factor": 2.0}, "rope_scaling: Input tag 'dynamic'"),
        ("llama", "rope_interleaved", True, "rope_interleaved: Input should be False"),
        ("qwen2", "use_mrope", True, "use_mrope: Input should be False"),
        ("qwen2", "layer_types", ["full_attention"], "layer_types must be of 2 layers, given 1"),
        ("smollm3", "no_rope_layers", [1], "no_rope_layers must be of 4 layers, given 1"),
        ("phi3", "rope_scaling", {"type": "longrope"}, "rope_scaling.rope_type: Input should be 'default'"),
        ("gemma3", "final_logit_softcapping", 30.0, "final_logit_softcapping: Input should be null"),
        ("phi3", "attention_bias", True, "attention_bias: Input should be False"),
        ("mistral", "num_key_value_heads", 3, "heads must be a multiple of key heads, given 4 and 3"),
    ],
)
def test_what_a_decoder_does_not_compute_is_refused_by_name(saved, name, key, value, words):
    folder = saved(name)
    configured(**{key: value})(folder)
    with pytest.raises(CheckpointError, match=words):
        source_of(folder)


@pytest.mark.parametrize("name", ["vit", "llama", "bart"])
@pytest.mark.parametrize("key", ["quantization_config", "quantization"])
def test_quantized_weights_are_refused_with_what_to_do(saved, name, key):
    folder = saved(name)
    configured(**{key: {"quant_method": "gptq", "bits": 4}}, unknown=1)(folder)
    with pytest.raises(CheckpointError, match=f"{key}: weights must not be quantized; export the checkpoint that"):
        source_of(folder)


@pytest.mark.parametrize("declare", DECLARATIONS)
def test_a_cross_encoder_s_activation_is_read_wherever_it_is_declared(saved, declare):
    folder = saved("bert")
    for activation, several in ((SIGMOID, "sigmoid"), (IDENTITY, "softmax")):
        DECLARATIONS[declare](activation)(folder)
        assert source_of(folder).scores == several
    DECLARATIONS[declare]("torch.nn.modules.activation.Tanh")(folder)
    with pytest.raises(
        CheckpointError, match=r"json: .* must be Sigmoid or Identity, given 'torch.nn.modules.activation"
    ):
        source_of(folder)


@pytest.mark.parametrize("declare", DECLARATIONS)
@pytest.mark.parametrize(("activation", "scores"), [(SIGMOID, "sigmoid"), (IDENTITY, "identity")])
def test_a_cross_encoder_s_only_label_is_a_probability_or_a_raw_score(saved, declare, activation, scores):
    folder = saved("bert")
    configured(id2label={"0": "LABEL_0"})(folder)
    added(lambda: {"classifier.weight": torch.ones(1, 16), "classifier.bias": torch.ones(1)})(folder)
    DECLARATIONS[declare](activation)(folder)
    assert source_of(folder).scores == scores


@pytest.mark.parametrize(
    ("name", "architecture", "words"),
    [
        (
            "bert",
            "BertForMultipleChoice",
            r"of bert there are \.\.\.ForSequenceClassification \(text-classification\)",
        ),
        ("bert", "BertForNextSentencePrediction", "or add --task feature-extraction for the body alone"),
        (
            "bart",
            "BartForQuestionAnswering",
            r"of bart there are .*ForSequenceClassification \(text-classification\)",
        ),
        ("gpt2", "GPT2ForTokenClassification", r"of gpt2 there are .*\.\.\.LMHeadModel \(text-generation\)"),
        ("llama", "LlamaForQuestionAnswering", r"of llama there are \.\.\..*ForCausalLM \(text-generation\)"),
        ("vit", "ViTForMaskedImageModeling", r"of vit there are \.\.\."),
    ],
)
def test_an_architecture_of_another_task_is_named_before_anything_else(saved, capsys, name, architecture, words):
    folder = saved(name)
    configured(architectures=[architecture], wishful=1)(folder)
    (folder / "model.safetensors").unlink()
    assert export_command(folder, "--to", folder / "out") == 2
    said = capsys.readouterr().err
    assert f"not exported: config.json: architectures: {architecture} is not supported; " in said
    assert re.search(words, said)


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_an_architecture_that_is_ignored_does_not_say_the_task(saved, capsys, name):
    folder = saved(name)
    configured(architectures=["SomethingOfMyOwn"], wishful=1)(folder)
    status = export_command(folder, "--to", folder / "out", "--ignore", "architectures")
    assert status == 2
    assert "config.json: architectures do not say what for; add --task, one of" in capsys.readouterr().err


@pytest.mark.parametrize("named", [["BertModel"], ["BertForMultipleChoice"]])
def test_a_task_that_is_asked_for_is_tried_whatever_the_architecture(saved, named):
    folder = saved("bert")
    configured(architectures=named)(folder)
    assert source_of(folder, task="feature-extraction").task == "feature-extraction"


@pytest.mark.parametrize(
    ("key", "value"),
    [("position_embedding_type", "relative_key"), ("problem_type", "ranking"), ("is_decoder", True), ("wishful", 1)],
)
def test_a_key_is_ignored_whether_the_reader_knows_it_or_not(saved, key, value):
    folder = saved("bert")
    configured(**{key: value})(folder)
    with pytest.raises(CheckpointError, match=f"config.json: {key}"):
        source_of(folder)
    source_of(folder, ignored=(key,))


@pytest.mark.parametrize("said", [{}, {"eos_token_id": None}])
def test_the_end_is_that_of_the_file_of_generation_alone(saved, said):
    """As the reference has it, which goes on to the longest text where that file has none."""
    folder = saved("bart")
    configured(eos_token_id=2)(folder)
    assert source_of(folder).generation.ends == (2,)
    assert source_of(folder, ignored=("eos_token_id",)).generation.ends == ()
    edit(folder, "generation_config.json", lambda it: [it.pop("eos_token_id"), it.update(said)])
    assert source_of(folder).generation.ends == ()
    model = T.BartForConditionalGeneration.from_pretrained(folder)
    assert model.generation_config.eos_token_id is None


PUBLISHED_MARIAN = {
    "_num_labels": 3, "add_bias_logits": False, "add_final_layer_norm": False, "classif_dropout": 0.0,
    "classifier_dropout": 0.0, "extra_pos_embeddings": 58101, "gradient_checkpointing": False, "init_std": 0.02,
    "normalize_before": False, "normalize_embedding": False, "num_hidden_layers": 6, "static_position_embeddings": True,
}  # fmt: skip


def test_a_published_marian_is_read(saved):
    folder = saved("marian")
    old = source_of(folder)
    configured(**PUBLISHED_MARIAN)(folder)
    assert source_of(folder).made_by["encoder.layers"] == old.made_by["encoder.layers"]


def test_there_may_be_no_register_tokens(tmp_path):
    kind, config = T.Dinov2WithRegistersForImageClassification, T.Dinov2WithRegistersConfig
    case = dataclasses.replace(CASES["dinov2-registers"], model=dino(kind, config, num_register_tokens=0, image_size=8))
    case.save(tmp_path)
    assert 0 in load_file(tmp_path / "model.safetensors")["dinov2_with_registers.embeddings.register_tokens"].shape
    source = source_of(tmp_path)
    (pixels,) = source.base.example(source.verified_at[1], seed=1)
    mean, std = (torch.tensor(source.image.model_dump()[name]) for name in ("mean", "std"))
    with torch.no_grad():
        wanted = reference(tmp_path)(((pixels / 255 - mean) / std).permute(0, 3, 1, 2).double()).logits
        assert (source.traced(pixels)[0] - wanted).abs().max() < 1e-5


@pytest.mark.parametrize("name", ["bert", "distilbert"])
def test_a_folder_with_a_vocabulary_alone_is_read(saved, name):
    folder = saved(name)
    words = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in sorted(words, key=words.get)))
    tokenizer = Tokenizer.from_str(source_of(folder).tokenizer)
    assert tokenizer.encode("a good dog").ids == AutoTokenizer.from_pretrained(folder)("a good dog")["input_ids"]
