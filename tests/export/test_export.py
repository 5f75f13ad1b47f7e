"""The exporter on small models of its own: every check must be able to fail, and a failure leaves nothing behind."""

import dataclasses
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from tokenizers import Tokenizer
from torch import nn

from contract.artifact import read_artifact
from contract.manifest import Generation, ImageRule, TextRule
from export.bundled import SOURCES
from export.checkpoints.tokenizers.tokenizer import characters
from export.checks.verify import Ledger, verify
from export.errors import ExportError
from export.graphs.cleanup import optimize, part
from export.graphs.torch_export import trace
from export.pack import Graphs
from export.pipeline import export, write_graphs
from export.tasks.generation import text_to_text
from export.tasks.image import image_model
from model.transformer import PRE_NORM, StackSizes, Transformer, TransformerConfig, marian, vaswani
from model.vit import ViT, ViTConfig, vit
from model.vocabularies import ALPHABET, END, MASK, MASK_TOKEN, SPECIALS, START, encode
from tests.conftest import ROOT

VIT = ViTConfig((8, 12), 1, patch=(4, 4), width=16, layers=2, heads=2, hidden=32, classes=3)
STACK = StackSizes(layers=2, heads=2, hidden=32)
TRANSFORMER = TransformerConfig(len(SPECIALS) + len(ALPHABET), length=48, width=16, encoder=STACK, decoder=STACK)


def sharpened(module):
    """Weights large enough that attention is not uniform, or every bug passes."""
    torch.manual_seed(0)
    for parameter in module.parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, std=1.5 / parameter.shape[1] ** 0.5)
    return module.eval()


def classifier(model=None):
    rule = ImageRule(height=8, width=12, channels=1, locate="middle", resize=(8, 12), mean=(0.5,), std=(0.25,))
    return image_model(
        "small",
        model or sharpened(vit(VIT)),
        VIT,
        family="vit",
        task="image-classification",
        rule=rule,
        labels=("a", "b", "c"),
        made_by={},
    )


def translator(model=None, config=TRANSFORMER):
    return text_to_text(
        "pair",
        model or sharpened(vaswani(config)),
        config,
        family="transformer",
        tokenizer=characters(SPECIALS, ALPHABET),
        text=TextRule(tokenizer="tokenizer.json", max_tokens=48),
        rules=Generation(start=1, end=2, max_new_tokens=12, caches=(), memory=()),
        made_by={},
    )


@pytest.fixture(scope="module", params=["classifier", "translator", "pre-norm, untied"])
def source(request):
    if request.param == "pre-norm, untied":
        config = dataclasses.replace(TRANSFORMER, target_vocabulary=TRANSFORMER.vocabulary)
        head = nn.Linear(config.width, config.vocabulary, bias=False)
        return translator(sharpened(marian(config, PRE_NORM, scale=config.width**0.5, head=head)), config)
    return {"classifier": classifier, "translator": translator}[request.param]()


@pytest.fixture(scope="module")
def folder(source, tmp_path_factory):
    return written(source, tmp_path_factory.mktemp("graphs"))


@pytest.fixture(scope="module")
def graphs(source, folder):
    return {plan.role: onnx.load(folder / f"{plan.role}.onnx", load_external_data=False) for plan in source.plans}


def written(source, folder):
    with Graphs(folder) as graphs:
        write_graphs(source, graphs)
    return folder


def opened(folder):
    return lambda role: ort.InferenceSession(folder / f"{role}.onnx")


def test_every_role_of_a_random_model_is_verified(source, folder):
    worst = verify(source, opened(folder))
    assert max(worst.values()) < 1e-4
    assert worst["row sums"] < 1e-5
    assert ("cached = uncached" in worst) == (source.generation is not None)


def test_graphs_say_nothing_of_the_machine_they_were_made_on(graphs):
    for graph in graphs.values():
        text = graph.SerializeToString()
        assert str(ROOT).encode() not in text
        assert b"stack_trace" not in text
        assert b".py" not in text


def test_axes_have_the_names_of_the_manifest(source, graphs):
    for plan in source.plans:
        values = [*graphs[plan.role].graph.input, *graphs[plan.role].graph.output]
        for port, value in zip((*plan.inputs, *plan.outputs), values, strict=True):
            axes = tuple(axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim)
            assert (port.name, port.axes) == (value.name, axes)


def test_predict_has_no_map_among_its_outputs_and_attention_all_of_them(source, graphs):
    kinds = [kind.kind for kind in source.attention]
    assert [value.name for value in graphs["predict"].graph.output] == ["logits"]
    shown = [name for kind in kinds for name in (kind, f"{kind}.diagnostics")]
    assert [value.name for value in graphs["attention"].graph.output] == ["logits", *shown]


def test_equal_weights_lie_once_in_the_file_that_the_roles_share(source, graphs, folder):
    held = sum(parameter.numel() * 4 for parameter in source.plan("predict").module.parameters())
    assert (folder / "weights.bin").stat().st_size < 1.5 * held + 4096 * 100  # pages between tensors
    for graph in graphs.values():
        assert all(len(tensor.raw_data) < 1024 for tensor in graph.graph.initializer)
        assert {
            entry.value
            for tensor in graph.graph.initializer
            for entry in tensor.external_data
            if entry.key == "location"
        } == {"weights.bin"}


def tampered(graph, change):
    copy = onnx.ModelProto()
    copy.CopyFrom(graph)
    change(copy.graph)
    return copy


def traced(source):
    return trace(source.base, source.traced)


def test_a_promised_output_that_is_gone_is_noticed():
    source = classifier()
    graph = tampered(traced(source), lambda graph: graph.output.pop())
    with pytest.raises(ExportError, match=r"attention: promised outputs \['logits', 'encoder\.blocks\.0\.attention', "):
        optimize(graph, source.base)


def test_a_fixed_axis_of_another_size_is_noticed():
    source = classifier()

    def widen(graph):
        graph.output[0].type.tensor_type.shape.dim[1].dim_value = 4

    with pytest.raises(ExportError, match="predict: logits must have an axis of 3"):
        part(tampered(traced(source), widen), source.plan("predict"))


def test_an_attention_that_is_gone_is_noticed():
    source = classifier()
    plan = dataclasses.replace(source.base, attentions=5)
    with pytest.raises(ExportError, match="attention: must attend 5 times, the graph does 2 times"):
        optimize(traced(source), plan)


class Changed:
    """A session whose answers were changed."""

    def __init__(self, session, change):
        self.session, self.change = session, change

    def run(self, names, feed):
        out = self.change(dict(zip(names, self.session.run(names, feed), strict=True)), feed)
        return [out[name] for name in names]

    def get_inputs(self):
        return self.session.get_inputs()


def added(name, number):
    return lambda out, feed: out | {name: out[name] + np.float32(number)}


CHANGES = {
    "a weight off by a little": (
        "attention",
        added("encoder", 1e-3),
        "raw: encoder: must agree within 0.0001",
    ),
    "logits off by a little": ("attention", added("logits", 1e-3), "attention: logits: must agree within"),
    "not a number": ("attention", added("logits", np.nan), "attention: logits: must agree"),
    "a row lost": (
        "attention",
        lambda out, feed: out | {"logits": out["logits"][:-1]},
        "attention: logits: must have shape",
    ),
    "a batch baked in": (
        "attention",
        lambda out, feed: out | {"encoder": out["encoder"][:1].repeat(len(out["encoder"]), axis=0)},
        "raw: encoder: must agree within 0.0001",
    ),
    "an entropy off by a little": ("attention", added("encoder.diagnostics", 1e-2), "diagnostics: encoder: must agree"),
    "a tenth of the relevance": (
        "relevance",
        lambda out, feed: out | {"encoder": np.where(out["encoder"] >= 1, out["encoder"], out["encoder"] / 10)},
        "relevance: encoder: must agree within",
    ),
    "relevance off by a little": ("relevance", added("encoder", 1e-3), "relevance: encoder: must agree within"),
    "a prediction of its own": ("predict", added("logits", 1e-3), "predict: logits: must agree within"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_verification_says_what_differs_by_how_much_at_which_shape(name, small):
    (source, folder), (role, change, words) = small, CHANGES[name]

    def changed(wanted):
        session = opened(folder)(wanted)
        return Changed(session, change) if wanted == role else session

    with pytest.raises(ExportError) as failed:
        verify(source, changed)
    assert str(failed.value).startswith(words)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A classifier and the folder of its graphs."""
    source = classifier()
    return source, written(source, tmp_path_factory.mktemp("small"))


class Constant(ViT):
    """A model of which one map does not depend on its input."""

    def forward(self, pixels, recalls=None):
        logits, maps = super().forward(pixels, recalls)
        last = "encoder.blocks.1.attention"  # one layer of two is enough
        return logits, maps | {last: torch.zeros_like(maps[last]) + 1 / maps[last].shape[-1]}


def test_a_constant_map_is_refused(tmp_path):
    model = sharpened(vit(VIT))
    model.__class__ = Constant
    source = classifier(model).without("relevance")  # there is no gradient of it
    with pytest.raises(ExportError, match="attention: encoder is the same for two different inputs"):
        verify(source, opened(written(source, tmp_path)))


class Leaky(Transformer):
    """An encoder that sees padding: it agrees with itself at every shape, but not alone with in a batch."""

    def encode(self, source, source_visible, recalls=None):
        return super().encode(source, torch.ones_like(source_visible), recalls)


def test_padding_that_leaks_is_refused(tmp_path):
    model = sharpened(vaswani(TRANSFORMER))
    model.__class__ = Leaky
    source = translator(model)
    with pytest.raises(ExportError, match=r": alone = in a padded batch: must agree within .* at row \d of"):
        verify(source, opened(written(source, tmp_path)))


def test_sizes_to_verify_must_differ_from_the_traced_ones():
    source = dataclasses.replace(classifier(), tried=({"batch": 2},) * 3)
    with pytest.raises(ExportError, match="sizes to verify must differ from the traced ones"):
        verify(source, dict.fromkeys(("predict", "attention")).get)


@pytest.mark.parametrize("tried", [({"batch": 3}, {"batch": 4}), ({"batch": 3}, {"batch": 4}, {"batch": 1})])
def test_there_must_be_three_sizes_and_the_last_a_batch(tried):
    with pytest.raises(ExportError, match="verification needs 3 sizes, the last of a batch"):
        verify(dataclasses.replace(classifier(), tried=tried), dict.fromkeys(("predict", "attention")).get)


def test_an_axis_that_was_baked_in_is_noticed():
    source = classifier()

    def bake(graph):
        graph.output[0].type.tensor_type.shape.dim[0].dim_value = 2

    with pytest.raises(ExportError, match="predict: logits must vary in batch, given 2 always"):
        part(tampered(traced(source), bake), source.plan("predict"))


def test_a_ledger_keeps_the_worst():
    ledger = Ledger()
    for difference in (1e-6, 3e-6, 2e-6):
        ledger.compare("it", np.array([difference]), np.array([0.0]), "here")
    assert ledger.worst == {"it": pytest.approx(3e-6)}


# The whole command


def test_the_same_input_gives_the_same_bytes(tmp_path):
    first, second = (export(classifier(), "1", tmp_path / name) for name in ("a", "b"))
    assert {path.name: path.read_bytes() for path in first.iterdir()} == {
        path.name: path.read_bytes() for path in second.iterdir()
    }


def test_an_artifact_is_whole_and_readable_and_nothing_is_left_beside_it(tmp_path, capsys):
    target = export(translator(), "7", tmp_path)
    assert sorted(path.name for path in target.iterdir()) == sorted(
        [
            "manifest.json",
            "predict.onnx",
            "attention.onnx",
            "relevance.onnx",
            "encode.onnx",
            "decode.onnx",
            "tokenizer.json",
            "weights.bin",
        ]
    )
    assert [path.name for path in target.parent.iterdir()] == ["7"]
    manifest = read_artifact(target).manifest
    assert manifest.graphs.keys() == {"predict", "attention", "relevance", "encode", "decode"}
    assert manifest.verified["cached = uncached"] < 1e-4
    said = capsys.readouterr().out
    for step in ("trace", "weights", "verify", "pack"):
        assert f"  {step}" in said


def test_a_failed_verification_leaves_no_artifact_and_the_old_one_in_place(tmp_path, monkeypatch):
    old = export(classifier(), "1", tmp_path)
    before = (old / "manifest.json").read_bytes()
    monkeypatch.setattr("export.__main__.verify", lambda *_: (_ for _ in ()).throw(ExportError("no")))
    for version in ("1", "2"):
        with pytest.raises(ExportError):
            export(classifier(), version, tmp_path)
    assert [path.name for path in old.parent.iterdir()] == ["1"]
    assert (old / "manifest.json").read_bytes() == before


def test_an_artifact_replaces_the_one_of_its_version(tmp_path):
    export(classifier(), "1", tmp_path)
    assert read_artifact(export(classifier(sharpened(vit(VIT))), "1", tmp_path)).manifest.version == "1"


def command(*arguments):
    return subprocess.run([sys.executable, "-m", "export", *arguments], cwd=ROOT, capture_output=True, text=True)


def test_the_command_refuses_names_it_does_not_know(tmp_path):
    done = command("toaster", "--to", str(tmp_path / "artifacts"))
    assert done.returncode == 2
    assert "toaster: not exported: NAME: is no bundled model and no folder, the hub cannot be reached" in done.stderr
    assert not (tmp_path / "artifacts").exists()


@pytest.mark.parametrize("version", ["../../escaped", "a/b", "", " ", "-1"])
def test_the_command_refuses_versions_that_are_no_names(tmp_path, version):
    done = command("digits", f"--version={version}", "--to", str(tmp_path / "artifacts"))
    assert done.returncode == 2
    assert "version: must be letters, digits" in done.stderr
    assert not (tmp_path / "artifacts").exists()


def test_the_command_lists_what_it_knows():
    listed = command("--list").stdout.split("\n")
    for name in ("digits", "dates", "minilm", "vit", "dinov2_with_registers", "distilbert", "gpt2", "marian"):
        assert any(line.strip().startswith(name) for line in listed)


def test_a_failure_of_the_command_is_one_line_and_not_zero(tmp_path, monkeypatch, capsys):
    from export import __main__ as main

    monkeypatch.setattr(
        main, "verify", lambda *_: (_ for _ in ()).throw(ExportError("encoder differs by 3 at batch 1"))
    )
    monkeypatch.setattr(main, "SOURCES", {"small": classifier})
    monkeypatch.setattr(sys, "argv", ["export", "small", "--to", str(tmp_path)])
    assert main.main() == 1
    assert capsys.readouterr().err == "small: not exported: encoder differs by 3 at batch 1\n"
    assert not list(tmp_path.iterdir())


# The tokenizer


def test_the_exported_tokenizer_gives_the_indices_that_training_used():
    tokenizer = Tokenizer.from_str(characters(SPECIALS, ALPHABET))
    texts = [
        "23 March 2021",
        "ÄÖ ß\n\t💥",
        "",
        "[END][PAD]",
        "\u2019\u2013\u2018",
        "\u0130stanbul"[1:],
        ALPHABET.upper(),
    ]
    for text in texts:
        encoding = tokenizer.encode(text)
        assert encoding.ids == encode(text)
        assert encoding.offsets == [(place, place + 1) for place in range(len(text))]


def test_specials_stand_around_a_text_that_cannot_hold_them():
    tokenizer = Tokenizer.from_str(characters(SPECIALS, ALPHABET, around="[START] $A [END]"))
    encoding = tokenizer.encode("[END] 1")
    assert encoding.ids == [START, *encode("[END] 1"), END]
    assert encoding.special_tokens_mask == [1, *[0] * 7, 1]
    assert encoding.offsets[1:-1] == [(place, place + 1) for place in range(7)]


def test_a_mask_is_one_token_where_it_is_written_as_it_is():
    tokenizer = Tokenizer.from_str(characters(SPECIALS, ALPHABET, mask=MASK_TOKEN))
    assert tokenizer.encode("1[MASK] 2").ids == [*encode("1"), MASK, *encode(" 2")]
    assert tokenizer.encode("[mask]").ids == encode("[mask]")
    assert Tokenizer.from_str(characters(SPECIALS, ALPHABET)).encode("[MASK]").ids == encode("[MASK]")


@pytest.mark.parametrize(("name", "ends"), [("dates-mlm", (END,)), ("dates-clm", ())])
def test_a_line_becomes_the_tokens_that_its_model_was_trained_on(name, ends):
    source = SOURCES[name]()
    written = "MARCH 3, 2021 = 2021-03-03"
    assert Tokenizer.from_str(source.tokenizer).encode(written).ids == [START, *encode(written), *ends]
    assert source.text.max_tokens == source.base.module.model.embed.positions.weight.shape[0]


def test_decoding_undoes_encoding():
    tokenizer = Tokenizer.from_str(characters(SPECIALS, ALPHABET))
    assert tokenizer.decode(tokenizer.encode("2021-03-23").ids) == "2021-03-23"
