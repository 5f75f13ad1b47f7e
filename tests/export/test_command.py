"""The command: what is wrong with a request or a checkpoint is one line, its exit status 2, and nothing is written."""

# ruff: noqa: E501 # a table reads by its rows

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import torch
from safetensors.torch import load_file, save_file

from export.bundled import SOURCES
from export.checkpoints.families import FAMILIES
from export.command import METHODS_TO_LEAVE_OUT, OPSETS, PRECISIONS, TASKS, _parser, main, read_arguments
from export.errors import ExportError
from export.graphs.tracing.torch_export import DEFAULT_OPSET, SUPPORTED_OPSETS
from export.plan import OPTIONAL_METHODS, Precision
from tests.conftest import ROOT
from tests.samples.export_command import export_command
from tests.samples.export_folders import edit, put, without
from tests.samples.export_models import classifier


def test_the_command_refuses_names_it_does_not_know(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert export_command("toaster", "--to", tmp_path / "artifacts") == 2
    said = capsys.readouterr().err
    assert "toaster: not exported: NAME: is no bundled model and no folder, the hub cannot be reached" in said
    assert not (tmp_path / "artifacts").exists()


def test_the_command_names_the_bundled_model_that_was_meant_and_asks_no_hub(tmp_path):
    given = [sys.executable, "-m", "export", "digts", "--to", tmp_path / "artifacts"]
    done = subprocess.run(given, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "digts: not exported: NAME: is no bundled model and no folder; did you mean digits?\n"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dtes", "is no bundled model and no folder; did you mean dates?"),
        ("dates-plain", "attends to nothing, so there are no maps to export"),
        *((path, "there is no such folder") for path in ("./nowhere", "../no/where", "/nowhere")),
    ],
)
def test_a_wrong_name_is_refused_where_the_arguments_are_read_before_anything_is_installed(
    monkeypatch, capsys, name, words
):
    monkeypatch.setattr("sys.argv", ["export", "digits", name])
    with pytest.raises(SystemExit) as ended:
        read_arguments()
    assert (ended.value.code, capsys.readouterr().err) == (2, f"{name}: not exported: NAME: {words}\n")


@pytest.mark.parametrize("version", ["../../escaped", "a/b", "", " ", "-1"])
def test_the_command_refuses_versions_that_are_no_names(tmp_path, monkeypatch, capsys, version):
    monkeypatch.setattr("sys.argv", ["export", "digits", f"--version={version}", "--to", str(tmp_path / "artifacts")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "version: must be letters, digits" in capsys.readouterr().err
    assert not (tmp_path / "artifacts").exists()


def test_the_command_lists_what_it_knows(capsys):
    assert export_command("--list") == 0
    listed = capsys.readouterr().out.split("\n")
    for name in ("digits", "dates", "minilm", "vit", "dinov2_with_registers", "distilbert", "gpt2", "marian"):
        assert any(line.strip().startswith(name) for line in listed)


def test_a_list_of_which_the_first_line_was_read_ends_without_a_trace():
    given, buffered = [sys.executable, "-m", "export", "--list"], {**os.environ, "PYTHONUNBUFFERED": ""}
    pipe = subprocess.PIPE
    process = subprocess.Popen(given, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, env=buffered)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(60) == 128 + signal.SIGPIPE
    process.stderr.close()


def test_arguments_have_the_choices_of_what_is_imported_later():
    assert OPSETS == SUPPORTED_OPSETS
    assert f"(default: {DEFAULT_OPSET})" in _parser().format_help()
    assert get_args(Precision) == PRECISIONS
    assert METHODS_TO_LEAVE_OUT == OPTIONAL_METHODS
    assert sorted({task for one in FAMILIES.values() for task in one.tasks}) == TASKS


def test_a_failure_of_the_command_is_one_line_and_not_zero(tmp_path, monkeypatch, capsys):
    def differing(*_):
        raise ExportError("encoder differs by 3 at batch 1")

    monkeypatch.setattr("export.verification.verify", differing)
    monkeypatch.setattr("contract.names.BUNDLED", ("small",))
    monkeypatch.setitem(SOURCES, "small", classifier)
    assert export_command("small", "--to", tmp_path) == 1
    assert capsys.readouterr().err == "small: not exported: encoder differs by 3 at batch 1\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [[], ["--fast-jpeg"]])
def test_fast_jpeg_is_a_part_of_the_image_rule(options, monkeypatch):
    exported = []
    monkeypatch.setattr("export.pipeline.export", lambda source, *_, **__: exported.append(source))
    assert export_command("digits", *options) == 0
    assert exported[0].image.fast_jpeg == bool(options)


def test_fast_jpeg_is_for_images(capsys):
    assert export_command("dates", "--fast-jpeg") == 2
    assert capsys.readouterr().err == "dates: not exported: --fast-jpeg: is for models that take images\n"


IN_8_BITS = "--precision", "int8"


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        (IN_8_BITS, "explain_in_float", False),
        ([*IN_8_BITS, "--explain", "float"], "explain_in_float", True),
        ([*IN_8_BITS, "--calibrate", "docs"], "calibrate", Path("docs")),
        (["--without", "relevance", "--without", "norm"], "without", ["relevance", "norm"]),
        (
            ["--methods", "raw,rollout,libra"],
            "without",
            ["norm", "relevance", "integrated", "similar", "parts", "saliency"],
        ),
        (
            ["--methods", "norm,parts"],
            "without",
            ["rollout", "relevance", "libra", "integrated", "similar", "saliency"],
        ),
        (
            ["--methods", "raw, relevance"],
            "without",
            ["rollout", "norm", "libra", "integrated", "similar", "parts", "saliency"],
        ),
    ],
)
def test_an_option_is_handed_on_and_methods_that_are_not_listed_are_left_out(monkeypatch, options, name, value):
    asked = []
    monkeypatch.setattr("export.pipeline.export", lambda *_, **given: asked.append(given[name]))
    monkeypatch.setattr("contract.names.BUNDLED", ("small",))
    monkeypatch.setitem(SOURCES, "small", classifier)
    assert export_command("small", *options) == 0
    assert asked == [value]


FOR_FEW_BITS = "--samples and --force: are for --precision int8 and int4"
FOR_8_BITS = "--calibrate and --explain: are for --precision int8"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--explain", "float"], FOR_8_BITS),
        (["--precision", "int4", "--calibrate", "docs"], FOR_8_BITS),
        (["--without", "raw"], "argument --without: invalid choice: 'raw'"),
        (["--methods", "raw,lime"], "argument --methods: must be of raw, rollout, norm, relevance, libra, integrated, "
         "similar, parts, saliency, separated by commas, given 'lime'"),
        (["--methods", ""], "separated by commas, given ''"),
        (["--methods", "raw", "--without", "norm"], "--methods and --without: give one of them"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together_are_refused(capsys, options, words):
    assert export_command("digits", *options) == 2
    assert words in capsys.readouterr().err


def run(capsys, tmp_path, folder, *options):
    """Run the command; return its exit status and what it said on stderr, having checked that nothing is left."""
    status = export_command(folder, "--to", tmp_path / "out", *options)
    if status:
        assert not (tmp_path / "out").exists()
    return status, capsys.readouterr().err


def tensors(change):
    def spoil(folder):
        held = load_file(folder / "model.safetensors")
        change(held)
        save_file(held, folder / "model.safetensors")

    return spoil


def cut_short(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def larger_tokenizer(folder):
    edit(folder, "tokenizer.json", lambda it: it["model"]["vocab"].__setitem__("surplus", 5000))


FAULTS = {
    "no config": ("bert", without("config.json"), "config.json: must be in the checkpoint's folder, and is not"),
    "config of a list": ("bert", lambda folder: (folder / "config.json").write_text("[]"), "config.json: must be a JSON"),
    "no JSON": ("bert", lambda folder: (folder / "config.json").write_text("{"), "config.json: cannot be read as JSON"),
    "unknown model": (
        "bert",
        put("config.json", "model_type", "mamba"),
        f"config.json: model_type must be one of {', '.join(FAMILIES)}, given 'mamba'",
    ),
    "a key nobody knows": (
        "bert",
        put("config.json", "rotary", True),
        "config.json: rotary: not known of bert, so the effect is not reproduced; if there is none, add: --ignore rotary",
    ),
    "an unsupported value": (
        "bert",
        put("config.json", "position_embedding_type", "relative_key"),
        "config.json: position_embedding_type: Input should be 'absolute', given 'relative_key'",
    ),
    "an unknown activation": ("bert", put("config.json", "hidden_act", "xielu"), "config.json: hidden_act: must be one of gelu"),
    "a problem that is not known": ("bert", put("config.json", "problem_type", "ranking"), "config.json: problem_type: Input should be"),
    "a decoder": ("bert", put("config.json", "is_decoder", True), "config.json: is_decoder: Input should be False"),
    "heads that do not divide": (
        "bert",
        put("config.json", "num_attention_heads", 3),
        "attention: width must be a multiple of heads, given width 16 and 3 heads",
    ),
    "another width": (
        "bert",
        put("config.json", "hidden_size", 32),
        "weights: bert.embeddings.word_embeddings.weight must be [130, 32], given [130, 16]",
    ),
    "more layers than there are": (
        "bert",
        put("config.json", "num_hidden_layers", 3),
        "weights: missing bert.encoder.layer.2.attention.self.query.weight; missing",
    ),
    "fewer layers than there are": (
        "bert",
        put("config.json", "num_hidden_layers", 1),
        "weights: left over bert.encoder.layer.1.attention",
    ),
    "more classes than there are": (
        "bert",
        put("config.json", "id2label", {str(index): str(index) for index in range(4)}),
        "weights: classifier.weight must be [4, 16], given [3, 16]",
    ),
    "labels with a gap": (
        "bert",
        put("config.json", "id2label", {"0": "a", "2": "b", "3": "c"}),
        "config.json: id2label must name the classes 0 to 2",
    ),
    "weights that were cut": ("bert", cut_short, "model.safetensors: cannot be read as safetensors, is it whole?"),
    "no weights": ("bert", without("model.safetensors"), "model.safetensors: must be in the checkpoint's folder"),
    "a tensor too many": (
        "bert",
        tensors(lambda held: held.__setitem__("bert.surplus", torch.ones(2))),
        "weights: left over bert.surplus",
    ),
    "a tensor that is missing": (
        "bert",
        tensors(lambda held: held.pop("classifier.bias")),
        "weights: missing classifier.bias",
    ),
    "a copy that is none": (
        "bert-mask",
        tensors(lambda held: held.__setitem__("cls.predictions.decoder.weight", torch.ones(130, 16))),
        "weights: left over cls.predictions.decoder.weight (not the same as embed.tokens.weight)",
    ),
    "no tokenizer": ("bert", without("tokenizer.json"), "tokenizer.json: must be in the checkpoint's folder"),
    "a tokenizer that is none": (
        "bert",
        lambda folder: (folder / "tokenizer.json").write_text("{}"),
        "tokenizer.json: is no tokenizer",
    ),
    "a tokenizer that does not fit": (
        "bert",
        larger_tokenizer,
        "tokenizer.json: token 5000 does not fit the model's vocabulary of 130",
    ),
    "a mask that there is not": (
        "bert-mask",
        lambda folder: (without("tokenizer_config.json")(folder), (folder / "tokenizer.json").write_text((folder / "tokenizer.json").read_text().replace("[MASK]", "[GAP]"))),
        "tokenizer_config.json: must name a mask_token",
    ),
    "a pooling that is not supported": (
        "distilbert-features",
        put("1_Pooling/config.json", "pooling_mode", ["cls", "max"]),
        "1_Pooling/config.json: pooling_mode must be one of cls, mean, max, mean_sqrt_len_tokens, weightedmean, lasttoken, given cls, max",
    ),
    "a module that is not supported": (
        "bert-features",
        lambda folder: edit(folder, "modules.json", lambda it: it.append({"type": "x.LSTM", "path": "3_LSTM"})),
        "modules.json: must be Transformer, Pooling and then Dense, Normalize, Dropout, given Transformer, Pooling, Normalize, LSTM",
    ),
    "no processor": ("vit", without("preprocessor_config.json"), "preprocessor_config.json: must be in the checkpoint's folder"),
    "a processor of another size": (
        "vit",
        put("preprocessor_config.json", "size", {"height": 16, "width": 12}),
        "preprocessor_config.json: makes images of 16x12, but config.json says 8x12; say which with --image-size",
    ),
    "a processor's key nobody knows": (
        "vit",
        put("preprocessor_config.json", "do_mirror", True),
        "preprocessor_config.json: do_mirror",
    ),
    "patches that do not fit": (
        "vit",
        lambda folder: (put("config.json", "image_size", [8, 13])(folder), put("preprocessor_config.json", "size", {"height": 8, "width": 13})(folder)),
        "config.json: image: sides must be multiples of the patch's 4x4, given 8x13; say another size with --image-size",
    ),
    "a penalty that is not supported": (
        "gpt2",
        put("generation_config.json", "diversity_penalty", 1.3),
        "generation_config.json: diversity_penalty is not supported, given 1.3; to do without it, add: --ignore",
    ),
    "bad words that are no lists": (
        "bart",
        put("generation_config.json", "bad_words_ids", [4, 5]),
        "generation_config.json: bad_words_ids must be a list of lists of tokens, given [4, 5]",
    ),
    "a bad word outside the vocabulary": (
        "bart",
        put("generation_config.json", "bad_words_ids", [[4, 300]]),
        "generation_config.json: token 300 is outside the vocabulary of 300",
    ),
    "a penalty of nothing": (
        "gpt2",
        put("generation_config.json", "encoder_repetition_penalty", 0.0),
        "generation_config.json: encoder_repetition_penalty: Input should be greater than 0, given '0.0'",
    ),
    "more texts than are found": (
        "gpt2",
        put("generation_config.json", "num_return_sequences", 3),
        "generation_config.json: num_return_sequences 3 needs do_sample or as many num_beams, given 1",
    ),
    "a token outside the vocabulary": (
        "bart",
        put("generation_config.json", "forced_bos_token_id", 300),
        "generation_config.json: token 300 is outside the vocabulary of 300",
    ),
    "a rule nobody knows": (
        "bart",
        put("generation_config.json", "wishful", 1),
        "generation_config.json: wishful is not known; if it changes nothing, add: --ignore wishful",
    ),
    "norms before without the last": (
        "bart",
        put("config.json", "normalize_before", True),
        "config.json: add_final_layer_norm must be as normalize_before",
    ),
    "no length at all": ("bart", put("generation_config.json", "num_beams", 0), "generation_config.json: num_beams: Input should be"),
    "tokens that are no list": ("bart", put("generation_config.json", "suppress_tokens", 5), "generation_config.json: suppress_tokens must be a list"),
    "a temperature of words": (
        "gpt2",
        lambda folder: (put("generation_config.json", "do_sample", True)(folder), put("generation_config.json", "temperature", "hot")(folder)),
        "generation_config.json: temperature: Input should be a valid number",
    ),
    "a projection that was cut": (
        "gpt2",
        tensors(lambda held: held.__setitem__("transformer.h.0.attn.c_attn.bias", torch.ones(4))),
        "weights: transformer.h.0.attn.c_attn.bias must be 3 tensors joined, given [4]",
    ),
    "whole numbers for weights": (
        "bert",
        tensors(lambda held: held.__setitem__("classifier.bias", torch.ones(3, dtype=torch.int8))),
        "weights: classifier.bias must hold floating point numbers, given torch.int8",
    ),
    "a size that no machine has": ("bert", put("config.json", "vocab_size", 10**15), "config.json: vocab_size: Input should be less than"),
    "a size that the weights do not have": ("bert", put("config.json", "hidden_size", 10**8), "config.json: its sizes, and --image-size, must fit the weights"),
    "a type that is no name": ("bert", put("config.json", "model_type", []), "config.json: model_type must be one of"),
    "a pooling that is lost": ("bert-features", without("1_Pooling/config.json"), "modules.json: Pooling must have a folder"),
    "a pointer": (
        "bert",
        lambda folder: (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n"),
        "model.safetensors: is a pointer of git-lfs; fetch the file itself",
    ),
    "a pair that the model cannot take": ("bert", lambda folder: (put("config.json", "type_vocab_size", 1)(folder), tensors(lambda held: held.__setitem__("bert.embeddings.token_type_embeddings.weight", torch.ones(1, 16)))(folder)), "tokenizer.json: gives a second text type 1"),
    "no sentence pieces": ("marian", without("target.spm"), "target.spm"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_that_names_it(checkpoint, capsys, tmp_path, fault):
    name, spoil, words = FAULTS[fault]
    folder = checkpoint(name)
    spoil(folder)
    capsys.readouterr()  # what the reference library says as it writes
    status, said = run(capsys, tmp_path, folder)
    assert status == 2
    assert said.startswith(f"{folder}: not exported: {words}")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        (
            "bert",
            ["--task", "text-generation"],
            "--task: bert serves text-classification, token-classification, question-answering, fill-mask, sparse-embedding, "
            "feature-extraction",
        ),
        ("bert", ["--image-size", "64"], "--image-size: bert takes no images"),
        (
            "vit",
            ["--image-size", "18"],
            "config.json: image: sides must be multiples of the patch's 4x4, given 18x18; say another size with --image-size",
        ),
        ("bert", ["--revision", "main"], "--revision: is for names on the hub, given a folder"),
    ],
)
def test_an_option_that_does_not_apply_is_refused(checkpoint, capsys, tmp_path, name, options, words):
    status, said = run(capsys, tmp_path, checkpoint(name), *options)
    assert (status, said.startswith(f"{tmp_path / 'given'}: not exported: {words}")) == (2, True), said


@pytest.fixture
def exported(monkeypatch):
    """The sources that the command would have exported."""
    sources = []
    monkeypatch.setattr("export.pipeline.export", lambda source, *_, **__: sources.append(source))
    return sources


def test_a_key_that_the_user_knows_not_to_matter_is_ignored(checkpoint, exported):
    folder = checkpoint("bert")
    put("config.json", "my_training_run", "17")(folder)
    assert export_command(folder, "--ignore", "my_training_run", "--name", "mine") == 0
    assert exported[0].name == "mine"


def test_the_last_layer_of_another_task_is_set_aside_and_said(checkpoint, exported, capsys):
    assert export_command(checkpoint("bert"), "--task", "feature-extraction") == 0
    assert "not used by feature-extraction: bert.pooler.dense.bias" in capsys.readouterr().out
    assert "classifier.weight" in str(exported[0].made_by["set_aside"])


def test_a_folder_that_cannot_be_written_to_is_one_line(checkpoint, capsys):
    assert export_command(checkpoint("bert"), "--to", "/proc/nowhere") == 2
    said = capsys.readouterr().err
    assert ": not exported: /proc/nowhere: " in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(("name", "status"), [pytest.param("SIGINT", 130, marks=pytest.mark.slow), ("SIGTERM", 143)])
def test_a_signal_leaves_nothing_behind(checkpoint, tmp_path, name, status):
    given = [sys.executable, "-m", "export", str(checkpoint("bert")), "--to", str(tmp_path / "out")]
    process = subprocess.Popen(given, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "parameters" not in process.stdout.readline():  # the workshop is open, the first graph is being traced
        assert process.poll() is None
    process.send_signal(getattr(signal, name))
    process.communicate(timeout=60)
    assert process.returncode in (status, 1)  # a library may turn an interrupt in its midst into an error of its own
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (put("config.json", "model_type", "mamba"), "config.json: model_type must be one of vit, "),
        (without("model.safetensors"), "model.safetensors: must be in the checkpoint's folder, and is not"),
    ],
)
def test_what_the_files_of_a_folder_decide_is_said_before_pytorch_is_loaded(
    checkpoint, monkeypatch, capsys, fault, words
):
    fault(folder := checkpoint("bert"))
    monkeypatch.setitem(sys.modules, "torch", None)  # an import of it fails
    for module in [name for name in sys.modules if name.startswith(("export.checkpoints", "export.pipeline"))]:
        monkeypatch.delitem(sys.modules, module)
    assert export_command(folder, "--dry-run") == 2
    assert words in capsys.readouterr().err


def test_a_dry_run_says_what_would_be_exported_and_writes_nothing(checkpoint, tmp_path, capsys):
    assert export_command(checkpoint("bert"), "--to", tmp_path / "out", "--max-tokens", 9, "--dry-run") == 0
    said = capsys.readouterr()
    assert "  takes     texts of at most 9 tokens\n" in said.out
    assert f"  would go  to {tmp_path}/out/given/1\n" in said.out
    assert said.err == ""
    assert not (tmp_path / "out").exists()


@pytest.fixture
def cache(checkpoint, monkeypatch, tmp_path):
    """A cache of the hub that holds one repository, and no network."""
    folder = tmp_path / "hub" / "models--somebody--small-bert"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("c0ffee" * 6 + "c0ff")
    shutil.copytree(checkpoint("bert"), folder / "snapshots" / ("c0ffee" * 6 + "c0ff"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))  # read from the environment
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.mark.usefixtures("cache")
def test_a_name_on_the_hub_works_from_its_cache_and_pins_the_revision(exported):
    assert export_command("somebody/small-bert") == 0
    (source,) = exported
    assert (source.made_by["hub"], source.made_by["revision"]) == ("somebody/small-bert", "c0ffee" * 6 + "c0ff")
    assert source.name == "small-bert"


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("name", ["somebody/unknown", "unknown"])
def test_a_name_on_the_hub_without_a_network_is_one_line(tmp_path, capsys, name):
    assert export_command(name, "--to", tmp_path / "out") == 2
    assert capsys.readouterr().err == (
        f"{name}: not exported: NAME: is no bundled model and no folder, the hub cannot be reached, and its cache does "
        "not hold it; give the folder of a checkpoint that was downloaded elsewhere\n"
    )
    assert not (tmp_path / "out").exists()


def texts(source):
    return [(one.text, one.text_pair) if one.text_pair else one.text for one in source.examples]


def card(front):
    return lambda folder: (folder / "README.md").write_text(f"---\n{front}\n---\n# Prose that nobody checked\n")


def test_a_checkpoint_has_the_examples_of_its_card_and_no_word_of_its_prose(checkpoint, exported, capsys):
    folder = checkpoint("bert")
    card("widget:\n- text: It rained.\n- {text: Tea, text_pair: Coffee}\n- src: https://example.com/a.png\n- 3")(folder)
    assert export_command(folder) == 0
    assert texts(exported[0]) == ["It rained.", ("Tea", "Coffee")]
    assert (exported[0].about, exported[0].order) == (None, 100)
    said = capsys.readouterr().out
    assert "README.md: example left out: src is an address, which is not fetched; see --example" in said
    assert "README.md: example left out: must have a text" in said


@pytest.mark.parametrize("front", [None, "license: mit", "widget: [", "widget:\n- text: It rained."])
def test_a_checkpoint_without_fitting_examples_has_those_of_its_task(checkpoint, exported, capsys, front):
    folder = checkpoint("bert-mask")
    if front is not None:
        card(front)(folder)
    assert export_command(folder) == 0
    assert texts(exported[0]) == ["The cat sat on the [MASK].", "It [MASK] all [MASK]."]
    said = capsys.readouterr().out
    assert ("README.md: is not read: ParserError" in said) == (front == "widget: [")
    assert ("README.md: example left out: must hold [MASK], given none" in said) == (
        front == "widget:\n- text: It rained."
    )


def test_examples_about_and_order_are_given_by_the_command(checkpoint, exported, capsys):
    folder = checkpoint("bert")
    card("widget: [")(folder)
    options = ["--about", " Judges a text. ", "--order", "3", "--example", "It rained.", "--example", "Tea?"]
    assert export_command(folder, *options) == 0
    assert texts(exported[0]) == ["It rained.", "Tea?"]
    assert (exported[0].about, exported[0].order) == ("Judges a text.", 3)
    assert "README.md" not in capsys.readouterr().out  # whoever names examples need not mend a card


def test_a_bundled_model_takes_other_examples(exported):
    seven, photo = "tests/data/digits/seven.png", "tests/data/digits/four.webp"
    assert export_command("digits", "--example", ROOT / seven, "--example", ROOT / photo) == 0
    assert export_command("dates", "--example", "3 may 2021", "--order", "0") == 0
    digits, dates = exported
    assert digits.example_files == {
        "example-0.png": (ROOT / seven).read_bytes(), "example-1.webp": (ROOT / photo).read_bytes(),
    }  # fmt: skip
    assert texts(dates) == ["3 may 2021"]
    assert (digits.order, dates.order) == (1, 0)
    assert all(source.about for source in exported)


def test_the_last_line_is_the_command_that_serves_what_was_exported(exported, capsys, tmp_path, monkeypatch):
    to = tmp_path / "two words"
    assert export_command("digits", "--to", to) == 0
    python = Path(sys.executable).relative_to(ROOT) if Path(sys.executable).is_relative_to(ROOT) else sys.executable
    assert capsys.readouterr().out.splitlines()[-1] == f"to serve: REGARD_ARTIFACTS='{to}' {python} -m service"
    monkeypatch.chdir(tmp_path)
    assert export_command("digits", "--to", "out") == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"to serve: REGARD_ARTIFACTS=out {sys.executable} -m service"


def test_a_checkpoint_of_colour_images_has_photographs_as_examples(checkpoint, exported, capsys):
    assert export_command(checkpoint("vit")) == 0
    assert [one.image for one in exported[0].examples] == [f"example-{number}.jpg" for number in range(4)]
    assert "no examples" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--about", ""], "argument --about: must be a line of 1 to 300 characters"),
        (["--about", "a" * 301], "argument --about: must be a line of 1 to 300 characters"),
        (["--about", "two\nlines"], "argument --about: must be a line of 1 to 300 characters"),
        (["--order=-1"], "argument --order: must be a whole number from 0 to 1000000"),
        (["--order", "1000001"], "argument --order: must be a whole number from 0 to 1000000"),
        (["--order", "1.5"], "argument --order: must be a whole number from 0 to 1000000"),
        (["--example", "a" * 2001], "dates: not exported: --example: must have 1 to 2000 characters, given 2001"),
        (["--example", "a" * 200], "dates: not exported: --example: must have 1 to 96 tokens, given 200"),
        (["--example", "3 may"] * 13, "dates: not exported: --example: at most 12 times, given 13"),
        (["digits", "--example", "3 may"], "--example: is for one NAME at a time"),
        (["digits", "--about", "Reads."], "--about: is for one NAME at a time"),
        (["digits", "--order", "1"], "--order: is for one NAME at a time"),
    ],
)
def test_what_is_said_of_a_model_has_bounds(exported, capsys, options, words):
    assert export_command("dates", *options) == 2
    assert words in capsys.readouterr().err
    assert not exported
