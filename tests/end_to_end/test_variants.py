"""Every variant, shallower than the catalogue's and with sharp weights: exported, verified and served as defined."""

import contextlib
import dataclasses
import functools
import json

import numpy as np
import pytest
import torch

from contract.artifact import read_artifact
from contract.generation import Generation
from contract.input_rules import ImageRule, TextRule
from export.checkpoints.reading.tokenizers.tokenizer import character_tokenizer
from export.pipeline import export
from export.tasks.alignment import AlignedDecoder, aligned_text, cross_kind
from export.tasks.image import image_model
from model.architectures.convolutional import ConvolutionalConfig, convolutional
from model.architectures.recurrent import RecurrentConfig, recurrent_text
from model.architectures.vit_variants import VARIANTS
from model.methods import explanations
from model.vocabularies import ALPHABET, END, SPECIALS, START, encode
from tests.samples.attention_reference import sharpen
from tests.samples.detectors import encoded
from tests.samples.exports import once
from tests.samples.http_requests import PNG, results
from tests.samples.in_process import in_process
from tests.samples.traces import traces_kept

pytestmark = pytest.mark.families
SIDE = 28
LABELS = tuple("0123456789")
RECURRENT = RecurrentConfig(
    len(SPECIALS) + len(ALPHABET), length=20, target_length=5, embedding=8, source=12, alignment=8, width=10, readout=6
)
CONVOLUTIONAL = ConvolutionalConfig(RECURRENT.vocabulary, length=20, width=12, encoder=2, decoder=2, kernel=3)
RULES = Generation(start=START, end=END, max_new_tokens=5, caches=(), memory=())
REFUSED = {"digits-re-attention": "rollout", "digits-hard": "relevance"}
"""What a variant cannot serve."""


def variant(name):
    """A variant of two layers, and its configuration."""
    one = VARIANTS[name]
    config = dataclasses.replace(one.config, layers=2)
    return sharpen(one.compose(config)).float(), config


def image_source(name):
    model, config = variant(name)
    rule = ImageRule(
        height=SIDE, width=SIDE, channels=1, locate="middle", resize=(SIDE, SIDE), mean=(0.15,), std=(0.3,)
    )
    return image_model(
        name, model, config, family="vit", task="image-classification", rule=rule, labels=LABELS, made_by={}
    )


def text_source(name):
    if name == "recurrent":
        model, kind = recurrent_text(RECURRENT), cross_kind(("decoder.attention",), "source", joined=False)
        memory = {"decoder.attention.key": 8, "decoder.attention.value": 12, "memory.state": 10}
        states, unrolled = {"decoder.state": 10}, RECURRENT.target_length
    else:
        maps = tuple(f"decoder.blocks.{layer}.attention" for layer in range(2))
        model, kind = convolutional(CONVOLUTIONAL), cross_kind(maps, "source", joined=True)
        memory, unrolled = {"memory.key": 12, "memory.value": 12}, None
        states = {f"decoder.blocks.{layer}": 12 for layer in range(2)}
    decoder = AlignedDecoder(kind, RECURRENT.vocabulary, memory, states, unrolled)
    return aligned_text(
        name, sharpen(model).float(), decoder, family=name, rules=RULES, made_by={},
        tokenizer=character_tokenizer(SPECIALS, ALPHABET), text=TextRule(tokenizer="tokenizer.json", max_tokens=20),
    )  # fmt: skip


SOURCES = dict.fromkeys(VARIANTS, image_source) | {"recurrent": text_source, "convolutional": text_source}
USUAL = ("digits-axial", "digits-parallel", "digits-re-attention")
"""What no other model does: two parallel attentions, one of them along lines, and rows that do not add up to one."""


def usually_few(names):
    """Return names as parameters of tests, of which all but USUAL are slow."""
    return [pytest.param(name, marks=pytest.mark.slow if name not in USUAL else ()) for name in names]


@pytest.fixture(scope="module")
def artifact():
    """What returns the folder of a variant's artifact, which was verified as it was exported."""

    @functools.cache
    def of(name):
        def make(folder):
            with traces_kept():
                export(SOURCES[name](name), "1", folder)

        return once(f"variant-{name}", make) / name

    return of


@pytest.fixture(scope="module")
def client(artifact, tmp_path_factory):
    """What returns a client of a service with one variant."""
    with contextlib.ExitStack() as running:

        @functools.cache
        def of(name):
            folder = tmp_path_factory.mktemp("variant")
            (folder / name).symlink_to(artifact(name))
            return running.enter_context(in_process(folder))

        yield of


@pytest.fixture(scope="module")
def picture():
    """Some bytes as pixels: sent as they are, every cell differs from every other."""
    return np.random.default_rng(0).integers(0, 256, (SIDE, SIDE), np.uint8)


def ask(client, name, picture, **options):
    return client(name).post(f"/v1/models/{name}/attention", params=options, content=encoded(picture), headers=PNG)


def defined(name, picture):
    """Logits and maps of the definition, in float64."""
    model, _ = variant(name)
    pixels = (torch.from_numpy(picture).double()[None, None] / 255 - 0.15) / 0.3
    return model.double()(pixels)


@pytest.mark.parametrize("name", usually_few(SOURCES))
def test_an_export_is_within_a_hundred_thousandth_of_its_definition(artifact, name):
    manifest = read_artifact(artifact(name) / "1").manifest
    figures = {what: value for what, value in manifest.verified.items() if what.startswith(("raw", "rollout"))}
    assert figures
    assert {what: value for what, value in figures.items() if value > 1e-5} == {}
    assert manifest.verified["attention: alone = in a padded batch"] <= 1e-5


@pytest.mark.parametrize("name", usually_few(VARIANTS))
def test_a_variant_serves_the_weights_of_its_definition(client, picture, name):
    asked = {"kind": "encoder", "heads": "all", "layers": "all", "queries": "all", "digits": 8}
    shown = results(ask(client, name, picture, **asked))[0]["attention"]["maps"]
    _, maps = defined(name, picture)
    found = {one["name"]: torch.tensor(one["values"]) for one in shown}
    assert found.keys() == maps.keys()
    for path, weights in found.items():
        assert (weights - maps[path][0]).abs().max() <= 1e-5
    assert all(one["normalized"] == (name != "digits-re-attention") for one in shown)


@pytest.mark.parametrize("method", ["rollout", "relevance", "norm"])
@pytest.mark.parametrize("name", usually_few(VARIANTS))
def test_a_method_is_served_or_refused_by_name(client, picture, name, method):
    answer = ask(client, name, picture, method=method, digits=8)
    if REFUSED.get(name) == method:
        assert answer.status_code == 422
        assert answer.json()["detail"].startswith(f"method {method}: needs ")
        return
    (one,) = results(answer)[0]["attention"]["maps"]
    if method == "norm":
        return
    logits, maps = defined(name, picture)
    layers = list(maps.values())
    if method == "relevance":
        gradients = torch.autograd.grad(logits.max(), layers)
        layers = [explanations.relevance_of(*pair) for pair in zip(layers, gradients, strict=True)]
    else:
        layers = [one.mean(1) for one in layers]
    if name in ("digits-parallel", "digits-axial"):  # two side by side are one layer
        layers = [sum(pair) for pair in zip(layers[::2], layers[1::2], strict=True)]
    eye, joint = torch.eye(17).double(), torch.eye(17).double()[None]
    for layer in layers:
        mixed = layer + eye
        joint = (mixed / mixed.sum(-1, keepdim=True) if method == "rollout" else mixed) @ joint
    assert (torch.tensor(one["values"])[0, 0] - joint[0, 0]).abs().max() <= 3e-5
    assert (joint[0, 0, 1:].max() - joint[0, 0, 1:].min()) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["recurrent", "convolutional"])
def test_a_date_is_generated_with_the_weights_of_the_definition(client, name):
    """Greedy, step by step, as the definition in float64 chooses; and of the chosen text one pass gives the maps."""
    model = text_source(name).traced.aligning.model.double()
    text = "3 may 2003"
    source = torch.tensor([encode(text)])
    visible, target = torch.ones_like(source, dtype=torch.bool), torch.tensor([[START]])
    with torch.no_grad():
        for _ in range(RULES.max_new_tokens):
            logits, maps = model(source, visible, target)
            target = torch.cat((target, logits[:, -1:].argmax(-1)), 1)
            if target[0, -1] == END:
                break
    body = {"inputs": [text, "x"], "attention": {"heads": "all", "layers": "all", "digits": 8}}
    result, _ = results(client(name).post(f"/v1/models/{name}/generate", json=body))
    tokens = [one["token"] for one in result["sequences"][0]["tokens"]] if "sequences" in result else None
    tokens = tokens or [one["token"] for one in result["tokens"]]
    assert tokens == [int(one) for one in target[0, 1:] if one != END]
    for a_map in result["attention"]["maps"]:
        weights = maps[a_map["name"]][0]
        assert (torch.tensor(a_map["values"]) - weights).abs().max() <= 1e-5
    assert len(result["attention"]["maps"]) == len(maps)


@pytest.mark.slow
def test_a_model_that_convolves_or_recurs_says_what_it_cannot_show(client):
    for method in ("rollout", "relevance"):
        body = {"inputs": ["3 may 2003"], "attention": {"method": method}}
        answer = client("recurrent").post("/v1/models/recurrent/generate", json=body)
        assert answer.status_code == 422
        assert answer.json()["detail"].startswith(f"method {method}: needs ")


@pytest.mark.parametrize("name", usually_few(VARIANTS))
def test_what_is_side_by_side_is_said(artifact, name):
    kind = read_artifact(artifact(name) / "1").manifest.attention[0]
    assert kind.abreast == (2 if name in ("digits-parallel", "digits-axial") else 1)
    assert kind.normalized == (name != "digits-re-attention")
    assert json.loads((artifact(name) / "1" / "manifest.json").read_text())["schema_version"] == 6
