"""Verification accepts right graphs, and says what differs in wrong ones."""

import contextlib
import dataclasses
import functools
import weakref

import numpy as np
import onnx
import pytest
import torch

from export.checks.comparison import Ledger
from export.checks.reference import keeping_no_maps
from export.checks.trials import EXTENTS, rounds_of
from export.checks.verify import FACTOR, _DerivedGraphs, _single_float_error, _verify, verify
from export.errors import ExportError, MethodError
from export.plan import OPTIONAL_METHODS, Source
from export.tasks.ports import MAX_VERIFIED_TOKENS
from model.architectures.gpt import GPTConfig
from model.architectures.transformer import Transformer, vaswani
from model.architectures.vit import ViT, vit
from tests.samples.export_models import TRANSFORMER, VIT, classifier, continuer, opened, sharpened, translator, written


class Counted:
    """A session that tells whether it is still held."""

    def __init__(self, session):
        self.run, self.get_inputs = session.run, session.get_inputs
        self.io_binding, self.run_with_iobinding = session.io_binding, session.run_with_iobinding


def test_every_role_of_a_random_model_is_verified_with_one_session_at_a_time(source, folder, monkeypatch):
    opens, held, steps, told, kept = opened(folder), [], [], [], []
    observe = type(source.traced).observe

    def counting(role):
        assert not [one for one in held if one()], f"{role}: another session is held"
        session = Counted(opens(role))
        held.append(weakref.ref(session))
        return session

    @contextlib.contextmanager
    def step(name):
        steps.append(name)
        yield lambda what: told.append(f"{name}: {what}")

    def observing(self, *inputs):
        observed = observe(self, *inputs)
        kept.append(sum(weights.numel() for kind in observed.weights for weights in kind))
        return observed

    monkeypatch.setattr(type(source.traced), "observe", observing)
    worst = verify(source, counting, step=step)
    assert FACTOR not in worst
    assert max(worst.values()) < 1e-4
    assert worst["row sums"] < 1e-5
    assert ("cached = uncached" in worst) == (source.generation is not None)
    assert kept.count(0) == bool(source.verified_longest), "of the longest input, no weights are kept"
    assert len(held) >= len(source.plans)
    roles = {plan.role for plan in source.plans}
    assert roles <= set(steps)
    last = f"shape {len(source.verified_at)} of {len(source.verified_at)}: "
    assert roles == {what.partition(":")[0] for what in told if last in what}, "who waits sees each shape of each graph"


def test_answers_are_the_same_where_no_weights_are_kept():
    source = translator()
    inputs = source.plan("predict").example(source.verified_at[-1], 1)
    with torch.no_grad():
        wanted = source.traced.observe(*inputs)
        with keeping_no_maps(source.traced):
            found = source.traced.observe(*inputs)
        again = source.traced.observe(*inputs)
    assert torch.equal(found.answer, wanted.answer)
    for kind, none, same in zip(wanted.weights, found.weights, again.weights, strict=True):
        for weights, empty, whole in zip(kind, none, same, strict=True):
            assert empty.shape == (*weights.shape[:-1], 0)
            assert torch.equal(weights, whole)


class Changed:
    """A session whose answers were changed."""

    def __init__(self, session, change):
        self.session, self.change = session, change

    def run(self, names, feed):
        out = self.change(dict(zip(names, self.session.run(names, feed), strict=True)), feed)
        return [out[name] for name in names]

    def get_inputs(self):
        return self.session.get_inputs()


def changing(folder, role, change):
    """Return what opens the sessions of a folder, of which one role's answers are changed."""
    opens = opened(folder)
    return lambda wanted: Changed(opens(wanted), change) if wanted == role else opens(wanted)


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


@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("name", CHANGES)
def test_verification_says_what_differs_by_how_much_at_which_shape(name, extent, small):
    (source, folder), (role, change, words) = small, CHANGES[name]
    with pytest.raises(ExportError) as failed:
        verify(source, changing(folder, role, change), extent=extent)
    assert str(failed.value).startswith(words)


LONG = 96  # tokens, more than maps are verified at
DECODERS = {
    "caches that are encoded": (
        lambda: continuer(GPTConfig(40, length=LONG, width=16, layers=1, heads=2, hidden=16)),
        "cached = uncached: must agree within .* at step 95 of",
    ),
    "caches that are empty": (
        lambda: translator(config=dataclasses.replace(TRANSFORMER, length=LONG), most=LONG),
        "decode: logits: must agree within .* capacity 96",
    ),
}


@pytest.mark.parametrize("name", DECODERS)
def test_a_step_that_is_wrong_at_far_places_alone_is_refused(name, tmp_path):
    make, words = DECODERS[name]
    source = functools.reduce(Source.without, (*OPTIONAL_METHODS, "inside"), make())
    folder = written(source, tmp_path)
    verify(source, opened(folder))

    one_more_from(folder / "decode.onnx", MAX_VERIFIED_TOKENS + 1)
    with pytest.raises(ExportError, match=words):
        verify(source, opened(folder))


def one_more_from(file, place):
    """Let a step answer logits that are larger by one where a token stands at a place or behind it."""
    model = onnx.load(file, load_external_data=False)
    nodes = model.graph.node
    at = next(index for index, node in enumerate(nodes) if "logits" in node.output)
    nodes[at].output[:] = ["right" if name == "logits" else name for name in nodes[at].output]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(place), "place"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "behind"))
    for count, node in enumerate(
        (
            onnx.helper.make_node("GreaterOrEqual", ["position", "place"], ["far"]),
            onnx.helper.make_node("Cast", ["far"], ["more"], to=onnx.TensorProto.FLOAT),
            onnx.helper.make_node("Unsqueeze", ["more", "behind"], ["of_each"]),
            onnx.helper.make_node("Add", ["right", "of_each"], ["logits"]),
        )
    ):
        nodes.insert(at + 1 + count, node)
    onnx.save(model, file)


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
    source = classifier(model).without("relevance").without("inside")  # there is no gradient of it, and no score
    with pytest.raises(ExportError, match="attention: encoder is the same for two different inputs"):
        verify(source, opened(written(source, tmp_path)))


class Leaky(Transformer):
    """An encoder that sees padding: it agrees with itself at every shape, but not alone with in a batch."""

    def encode(self, source, source_visible, recalls=None):
        return super().encode(source, torch.ones_like(source_visible), recalls)


def of_one_pass(source):
    """Return a source without the graphs that generate: those take most of a second to trace."""
    plans = tuple(plan for plan in source.plans if plan.role not in ("encode", "decode"))
    return dataclasses.replace(source, plans=plans, generation=None)


def test_padding_that_leaks_is_refused(tmp_path):
    model = sharpened(vaswani(TRANSFORMER))
    model.__class__ = Leaky
    source = of_one_pass(functools.reduce(Source.without, OPTIONAL_METHODS, translator(model)))
    with pytest.raises(ExportError, match=r": alone = in a padded batch: must agree within .* at row \d of"):
        verify(source, opened(written(source, tmp_path)))


def very_sharp(factor):
    torch.manual_seed(0)
    model = sharpened(vaswani(TRANSFORMER))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("query.weight", "key.weight")):
                parameter.mul_(factor)
    return translator(model)


@pytest.fixture(scope="module")
def sharp(tmp_path_factory):
    """A translator that single floats compute less exactly than 1e-4, and the folder of its graphs."""
    source = of_one_pass(very_sharp(SHARPNESS).without("relevance"))
    return source, written(source, tmp_path_factory.mktemp("sharp"))


SHARPNESS = 4


def test_what_single_floats_cannot_compute_is_compared_with_their_own_error_and_recorded(sharp):
    source, folder = sharp
    with pytest.raises(ExportError, match="must agree within"):
        _verify(source, opened(folder), Ledger())
    worst = verify(source, opened(folder))
    assert 1 < worst[FACTOR] <= 100


def test_an_explanation_is_compared_with_the_definition_s_own_error_where_single_floats_err_more():
    made = classifier()
    graphs, own = _DerivedGraphs(made, made.traced.double(), rounds_of(made), Ledger()), {"error": 3e-4}

    def compare(ledger, found, wanted):
        ledger.compare("integrated: encoder", *found, *wanted, "one shape")

    def defined(traced):
        exact = next(traced.parameters()).dtype is torch.float64
        return [np.full(4, 0.5 if exact else 0.5 + own["error"])]

    def check(difference, ledger=graphs.ledger):
        graphs._compare_within_own_error("integrated", compare, [np.full(4, 0.5 + difference)], defined, ledger)

    check(9e-5)
    assert graphs.ledger.worst == {"integrated: encoder": pytest.approx(9e-5)}
    check(1e-3)
    assert graphs.ledger.worst[f"integrated: {FACTOR}"] == pytest.approx(12)
    with pytest.raises(MethodError, match=r"must agree within 0\.0012, differs by 0\.0013"):
        check(1.3e-3)
    own["error"] = 0.01
    with pytest.raises(MethodError, match=r"must agree within 0\.0001"):
        check(1e-3)
    with pytest.raises(MethodError, match="must agree within"):
        check(1, Ledger("fp16"))


def test_what_single_floats_err_is_measured_at_the_longest_too(monkeypatch):
    source, lengths = continuer(GPTConfig(40, length=LONG, width=16, layers=1, heads=2, hidden=16)), []
    observe = type(source.traced).observe

    def observing(self, *inputs):
        lengths.append(inputs[0].shape[1])
        return observe(self, *inputs)

    monkeypatch.setattr(type(source.traced), "observe", observing)
    assert 0 < _single_float_error(source) < 1
    assert lengths[-2:] == [LONG, LONG]


def test_what_single_floats_err_of_four_bits_is_that_of_rounded_matrices():
    source = continuer(GPTConfig(40, length=LONG, width=32, layers=1, heads=2, hidden=32))
    assert 0 < _single_float_error(source, "int4") < 1


def test_what_differs_by_more_than_single_floats_err_is_refused(sharp):
    source, folder = sharp
    with pytest.raises(ExportError, match="raw: encoder: must agree within"):
        verify(source, changing(folder, "attention", added("encoder", 0.1)))


def test_a_model_that_is_too_sharp_for_single_floats_is_refused_with_that_reason(sharp, monkeypatch):
    monkeypatch.setattr("export.checks.verify._single_float_error", lambda *_: 1000.0)
    with pytest.raises(ExportError, match=r"must agree within .*; the model is too sharp for single floats"):
        verify(sharp[0], opened(sharp[1]))
