"""Decoders answer at the tokens that they are asked for, and compute no other row of logits."""

import functools

import numpy as np
import onnx
import pytest
import torch

from contract.manifest import ANSWERED, GRADIENT_METHODS
from export.tasks.generation import VERIFIED_ANSWERS
from model.architectures.gpt import GPTConfig
from model.vocabularies import ALPHABET, SPECIALS
from tests.samples.export_models import continuer, opened, translator, written

WORDS = len(SPECIALS) + len(ALPHABET)
BATCH, TOKENS = 3, 9
MODELS = {
    "continuer": lambda: continuer(GPTConfig(WORDS, length=24, width=16, layers=2, heads=2, hidden=32)),
    "translator": translator,
}


@functools.cache
def defined(name):
    """Return a source, and what it is fed: every token of a target is another one."""
    rng = np.random.default_rng(3)
    feed = {
        "source": rng.integers(4, WORDS, (BATCH, 6)),
        "source_visible": np.arange(6) < np.array([[6], [3], [4]]),
        "target": np.stack([rng.permutation(np.arange(4, 4 + TOKENS)) for _ in range(BATCH)]),
    }
    source = MODELS[name]()
    return source, {port.name: feed[port.name] for port in source.base.inputs if port.name in feed}


@functools.cache
def logits(name):
    """Return the logits of all tokens, by the model alone in float64."""
    source, feed = defined(name)
    model = source.traced.model.double()
    with torch.no_grad():
        found, _ = model(*map(torch.from_numpy, feed.values()))
    model.float()
    return found.numpy()


@pytest.fixture(scope="module", params=MODELS)
def made(request, tmp_path_factory):
    """The name of a model, and the folder of its graphs."""
    source, _ = defined(request.param)
    return request.param, written(source, tmp_path_factory.mktemp(request.param))


def asked(source, role, feed, **more):
    """Return what a graph is fed: controls that are not given are 0, or empty."""
    known = {**feed, **more}
    sizes = {"batch": BATCH}
    return {
        port.name: np.asarray(known.get(port.name, np.zeros([sizes.get(axis, 0) for axis in port.axes])), port.dtype)
        for port in source.plan(role).inputs
    }


def special(source, feed):
    """Return the inputs of an attention graph by which no token is special."""
    lengths = {kind.name: feed[kind.fed.removesuffix("_input")].shape[1] for kind in source.attention}
    return {f"{name}.special": np.zeros((BATCH, length), bool) for name, length in lengths.items()}


@pytest.mark.parametrize("role", ["predict", "attention"])
@pytest.mark.parametrize(
    "places",
    [
        [[TOKENS - 1]] * BATCH,
        [[0], [4], [TOKENS - 1]],
        [[7, 0, 7, 3], [1, 1, 1, 1], [8, 6, 4, 2]],
        np.tile(np.arange(TOKENS), (BATCH, 1)),
        np.zeros((BATCH, 0)),
    ],
)
def test_a_decoder_answers_at_the_tokens_that_it_is_asked_for(made, role, places):
    name, folder = made
    source, feed = defined(name)
    given = asked(source, role, feed, **special(source, feed), **{ANSWERED: places})
    (found,) = opened(folder)(role).run(["logits"], given)
    wanted = np.take_along_axis(logits(name), np.asarray(places, np.int64)[:, :, None], axis=1)
    assert found.shape == (BATCH, np.shape(places)[1], WORDS)
    np.testing.assert_allclose(found, wanted, atol=1e-4)


@pytest.mark.parametrize("role", ["relevance", "libra"])
@pytest.mark.parametrize("first", [0, 4, TOKENS - BATCH])
def test_a_graph_that_explains_a_score_answers_at_its_position_alone(made, role, first):
    """Of a batch, each at a position of its own; libra's score is the logit there, or a difference of two."""
    name, folder = made
    source, feed = defined(name)
    positions = first + np.arange(BATCH)
    explained, against = np.array([5, 9, 2]), np.array([-1, 4, -1])
    rows = {"rows": positions[:, None]} if role == "relevance" else {}
    outputs = ["logits"] if role == "relevance" else ["logits", "score"]
    given = asked(source, role, feed, position=positions, explained=explained, against=against, **rows)
    found, *scores = opened(folder)(role).run(outputs, given)
    wanted = logits(name)[np.arange(BATCH), positions]
    assert found.shape == (BATCH, 1, WORDS)
    np.testing.assert_allclose(found[:, 0], wanted, atol=1e-4)
    for score in scores:
        own = wanted[np.arange(BATCH), explained]
        np.testing.assert_allclose(score, own - np.where(against < 0, 0, wanted[np.arange(BATCH), against]), atol=1e-4)


@pytest.mark.parametrize("role", ["predict", "attention", *GRADIENT_METHODS])
def test_no_graph_computes_logits_of_tokens_that_nobody_asked_for(made, role):
    name, folder = made
    source, feed = defined(name)
    graph = onnx.load(folder / f"{role}.onnx", load_external_data=False)
    known = {value.name for value in graph.graph.output}
    names = [one for node in graph.graph.node for one in node.output if one and one not in known]
    graph.graph.output.extend(map(onnx.helper.make_empty_tensor_value_info, names))
    (folder / "every.onnx").write_bytes(graph.SerializeToString())
    blank = {f"baseline.{one}": array for one, array in feed.items()}
    places = {ANSWERED: [[TOKENS // 2]] * BATCH, "position": [TOKENS // 2] * BATCH, "rows": [[0]] * BATCH}
    given = asked(source, role, feed, **special(source, feed), **blank, **places, point=[0.5] * BATCH)
    shapes = {array.shape for array in opened(folder)("every").run(None, given)}
    assert (BATCH, 1, WORDS) in shapes
    assert (BATCH, TOKENS, WORDS) not in shapes


def test_the_last_token_is_among_those_that_are_verified():
    for name in MODELS:
        source, _ = defined(name)
        names = [port.name for port in source.base.inputs]
        for sizes in (*source.verified_at, source.verified_longest):
            places = source.base.example(sizes, 1)[names.index(ANSWERED)]
            assert places.shape == (sizes["batch"], sizes[ANSWERED])
            assert (places[:, -1] == sizes["target"] - 1).all()
            assert ((places >= 0) & (places < sizes["target"])).all()
        assert source.verified_longest[ANSWERED] == VERIFIED_ANSWERS
