"""Everything that is read off attention, of the artifacts themselves, against definitions that share nothing with them.

What the bundled models see comes from our definitions in float64, what checkpoints see from the reference library; the
methods come from `tests/samples/explanations_reference.py`, gradients from autograd.
"""

import re
from dataclasses import dataclass, field

import numpy as np
import onnxruntime as ort
import pytest
import torch

from contract.artifact import read_artifact
from contract.manifest import FIGURES, FUSIONS, GRAPH_METHODS
from export.bundled import SOURCES
from model.vocabularies import START, encode
from tests.samples import explanations_reference
from tests.samples.checkpoints import CASES, reference

BUNDLED = ("digits", "dates")
BATCHES = (1, 3, 8)
TOLERANCE = 1e-5
GRADIENT = 3e-5
"""Of relevance. All but one are well within 1e-5; on the sharpest, of values up to 41, the graph is 9.7e-6 off, and the
reference library's own autograd in single floats 1.2e-5."""
LENGTHS = np.array([11, 3, 7, 1, 9, 5, 10, 2])
WRITTEN = (
    "Wednesday, 23 September 1998", "3/4/21", "12th of May 2007", "jan 9", "2020-02-29", "the 1st of July, '76",
    "31.12.1999", "may 2003",
)  # fmt: skip
TARGET = 7
FUSED = FUSIONS[1:]

POOLING = {"bert-features": "mean_sqrt_length", "distilbert-features": "max"}
"""Of folders that declare one, and a normalisation with it; the others take the mean."""

PROJECTIONS = {
    "vit": {"encoder": (r"layers\.\d+\.attention", "v_proj", "o_proj")},
    "dinov2": {"encoder": (r"layer\.\d+\.attention", "v_proj", "o_proj")},
    "bert": {"encoder": (r"layer\.\d+\.attention", "self.value", "output.dense")},
    "distilbert": {"encoder": (r"layer\.\d+\.attention", "v_lin", "out_lin")},
    "gpt2": {"decoder": (r"h\.\d+\.attn", "c_attn", "c_proj")},
    "bart": {
        "encoder": (r"encoder\.layers\.\d+\.self_attn", "v_proj", "out_proj"),
        "decoder": (r"decoder\.layers\.\d+\.self_attn", "v_proj", "out_proj"),
        "cross": (r"decoder\.layers\.\d+\.encoder_attn", "v_proj", "out_proj"),
    },
}
"""Where the reference library keeps its attentions, and in each the projection of values and the one that joins."""
PROJECTIONS |= {
    "deit": PROJECTIONS["vit"],
    "dinov2_with_registers": PROJECTIONS["dinov2"],
    "roberta": PROJECTIONS["bert"],
    "marian": PROJECTIONS["bart"],
}


@dataclass(repr=False)
class Seen:
    """What a model saw of one batch, in float64: its answer and weights as autograd knows them, and the values."""

    feed: dict[str, np.ndarray]
    answer: torch.Tensor
    weights: dict[str, list[torch.Tensor]]
    """Of each kind, (batch, heads, query, key) a layer."""
    values: dict[str, list[np.ndarray]]
    """The same, (batch, heads, key, width of a head)."""
    joining: dict[str, list[np.ndarray]]
    """The same, (heads x width of a head, width)."""

    def maps(self, kind):
        return [layer.detach().numpy() for layer in self.weights[kind]]


@dataclass(repr=False)
class Model:
    """An artifact, and what it must see."""

    artifact: object
    see: object
    """Takes what the graphs are fed; returns what was seen."""
    sessions: dict = field(default_factory=dict)
    known: dict = field(default_factory=dict)

    @property
    def manifest(self):
        return self.artifact.manifest

    def run(self, role, feed):
        """Return a graph's outputs by name."""
        graph = self.manifest.graphs[role]
        if role not in self.sessions:
            options = ort.SessionOptions()
            options.intra_op_num_threads = 1
            self.sessions[role] = ort.InferenceSession(self.artifact.path(graph.file), options)
        given = {port.name: feed[port.name] for port in graph.inputs}
        return dict(zip((port.name for port in graph.outputs), self.sessions[role].run(None, given), strict=True))

    def seen(self, batch, *, whole=False):
        """Return what is seen of a batch, its texts of mixed lengths, or all of one."""
        if (batch, whole) not in self.known:
            self.known[batch, whole] = self.see(self.feed(batch, whole))
        return self.known[batch, whole]

    def feed(self, batch, whole):
        """Draw what the graph of predictions takes."""
        manifest, rng = self.manifest, np.random.default_rng(batch)
        if manifest.image:
            rule = manifest.image
            shape = (batch, rule.height, rule.width, rule.channels)
            return {"pixels": rng.integers(0, 256, shape, dtype=np.uint8) * (rng.random(shape) < 0.4).astype(np.uint8)}
        if manifest.name == "dates":
            texts = WRITTEN[:1] * batch if whole else WRITTEN[:batch]
            lengths = np.array([len(text) for text in texts])
            source = np.zeros((batch, lengths.max()), np.int64)
            for row, text in zip(source, texts, strict=True):
                row[: len(text)] = encode(text)
            if whole:
                source[:, 2:8] = rng.integers(4, 75, (batch, 6))
            dates = (f"{year}-0{year % 9 + 1}-17" for year in range(1990, 1990 + batch))
            target = np.array([[START, *encode(date)] for date in dates])
        else:
            lengths = np.full(batch, LENGTHS[0]) if whole else LENGTHS[:batch]
            vocabulary = int(manifest.made_by.get("target_vocabulary", manifest.made_by["vocabulary"]))
            source = rng.integers(6, int(manifest.made_by["vocabulary"]), (batch, lengths.max()))
            target = rng.integers(6, vocabulary, (batch, TARGET))
        ports = {port.name for port in manifest.graphs["predict"].inputs}
        shown = np.arange(lengths.max()) < lengths[:, None]
        feed = {
            "source": source,
            "source_visible": shown,
            "source_types": rng.integers(0, int(manifest.made_by.get("types", 0)) or 1, source.shape),
            "masked": np.stack((np.zeros(batch, np.int64), lengths - 1), 1),
            "target": target,
        }
        return {name: array for name, array in feed.items() if name in ports}

    def lengths(self, kind, seen):
        """Return how many of a kind's queries each row of a batch has, and no padding after them."""
        if kind.query == "source":
            return seen.feed["source_visible"].sum(1)
        layer = seen.weights[kind.kind][0]
        return np.full(layer.shape[0], layer.shape[2])

    def ask(self, seen, method="raw", fusion="each", *, discard=0, diagnose=False, special=None, **asked):
        """Return what the attention graph returns; `asked` are (layers, rows, heads) of kinds, or None for nothing."""
        controls = {"method": GRAPH_METHODS.index(method), "fusion": FUSIONS.index(fusion)}
        feed = {
            **seen.feed,
            **{name: np.array(value) for name, value in controls.items()},
            "diagnose": np.array(diagnose),
        }
        for kind in self.manifest.attention:
            batch, _, _, keys = seen.weights[kind.kind][0].shape
            for name, indices in zip(("layers", "rows", "heads"), asked.get(kind.kind, ([0], [], [])), strict=True):
                feed[f"{kind.kind}.{name}"] = np.array(indices, np.int64)
            none = np.zeros((batch, keys), bool)
            feed[f"{kind.kind}.discard"] = np.array(discard)
            feed[f"{kind.kind}.special"] = none if special is None else special[kind.kind]
        return self.run("attention", feed)


# What is seen


def of_bundled(name):
    """Our definition, its parameters read by their names."""
    traced = SOURCES[name]().traced.double()
    parameters = dict(traced.model.named_parameters())

    def see(feed):
        answer, weights, values = traced.observe(*(torch.from_numpy(array) for array in feed.values()))
        kinds = [kind.kind for kind in traced.kinds]
        joining = {
            kind.kind: [parameters[f"{path}.output.weight"].detach().numpy().T for path in kind.maps]
            for kind in traced.kinds
        }
        arrays = [[value.detach().numpy() for value in layers] for layers in values]
        return Seen(
            feed, answer, dict(zip(kinds, weights, strict=True)), dict(zip(kinds, arrays, strict=True)), joining
        )

    return see


def of_checkpoint(name, folder, manifest):
    """The reference library, its values caught as they are projected."""
    theirs = reference(folder / "checkpoints" / name)
    heads = {kind.kind: kind.heads for kind in manifest.attention}
    modules = dict(theirs.named_modules())
    caught, joining = {}, {}

    def catch(kind, layer):
        def hook(module, given, value):
            width = joining[kind][layer].shape[0]  # of gpt2, query, key and value lie side by side
            split = value[..., -width:].detach().unflatten(-1, (heads[kind], -1))
            caught[kind, layer] = split.transpose(1, 2).numpy()

        return hook

    for kind, (path, value, joined) in PROJECTIONS[manifest.family].items():
        found = [name for name in modules if re.search(rf"(^|\.){path}$", name)]
        outputs = [modules[f"{attention}.{joined}"].weight.detach().numpy() for attention in found]
        joining[kind] = [weight if manifest.family == "gpt2" else weight.T for weight in outputs]
        for layer, attention in enumerate(found):
            modules[f"{attention}.{value}"].register_forward_hook(catch(kind, layer))

    def see(feed):
        out = _asked(name, theirs, manifest, {port: torch.from_numpy(array) for port, array in feed.items()})
        if "encoder" in heads and "decoder" in heads:
            stacks = (out.encoder_attentions, out.decoder_attentions, out.cross_attentions)
        else:
            stacks = (out.attentions,)
        weights = {kind: list(stack) for kind, stack in zip(heads, stacks, strict=True)}
        values = {kind: [caught[kind, layer] for layer in range(len(stack))] for kind, stack in weights.items()}
        return Seen(feed, _answer(name, manifest, out, feed), weights, values, joining)

    see.model = theirs
    return see


def _asked(name, model, manifest, given):
    if manifest.image:
        rule = manifest.image
        normal = (given["pixels"].double() / 255 - torch.tensor(rule.mean)) / torch.tensor(rule.std)
        more = {"interpolate_pos_encoding": True} if name == "vit-larger" else {}
        return model(normal.permute(0, 3, 1, 2), output_attentions=True, **more)
    if manifest.task == "text-generation":
        return model(given["target"], output_attentions=True)
    shown = given["source_visible"]
    if manifest.task == "text2text-generation":
        more = {"decoder_input_ids": given["target"]}
        return model(given["source"], attention_mask=shown.long(), output_attentions=True, **more)
    padded = given["source"].where(shown, model.config.pad_token_id or 0)
    more = {"token_type_ids": given["source_types"]} if "source_types" in given else {}
    return model(padded, attention_mask=shown.long(), output_attentions=True, **more)


def _answer(name, manifest, out, feed):
    if manifest.task == "feature-extraction":
        if manifest.image:
            return out.pooler_output
        found = pooled(out.last_hidden_state, feed["source_visible"], POOLING.get(name, "mean"))
        return found / found.norm(dim=1, keepdim=True) if name in POOLING else found
    logits = out.prediction_logits if hasattr(out, "prediction_logits") else out.logits
    if manifest.task == "fill-mask":
        return torch.stack([row[places] for row, places in zip(logits, torch.from_numpy(feed["masked"]), strict=True)])
    return logits


def pooled(states, visible, pooling):
    """Each pooling by its definition, of rows of different length."""
    rows = [state[torch.from_numpy(shown)] for state, shown in zip(states, visible, strict=True)]
    pool = {
        "mean": lambda row: row.mean(0),
        "max": lambda row: row.amax(0),
        "mean_sqrt_length": lambda row: row.sum(0) / len(row) ** 0.5,
    }[pooling]
    return torch.stack([pool(row) for row in rows])


@pytest.fixture(scope="module", params=[*BUNDLED, *CASES])
def model(request):
    name = request.param
    root = request.getfixturevalue("artifacts" if name in BUNDLED else "families")
    artifact = read_artifact((root if name in BUNDLED else root / "artifacts") / name / "1")
    see = of_bundled(name) if name in BUNDLED else of_checkpoint(name, root, artifact.manifest)
    return Model(artifact, see)


# Comparing


def close(ours, theirs, what, tolerance=TOLERANCE):
    assert ours.shape == theirs.shape, what
    limit = tolerance * max(1.0, np.abs(theirs).max(initial=0))
    assert np.abs(ours - theirs).max(initial=0) <= limit, what


def held(model, kind, seen, rows, ours, theirs, what):
    """Compare maps (batch, heads, layers, rows, key) but for rows of padding; what is hidden is exactly 0."""
    assert ours.shape == theirs.shape, what
    real = np.asarray(rows) < model.lengths(kind, seen)[:, None]  # (batch, row)
    ours, theirs = (np.moveaxis(array, 3, 1)[real] for array in (ours, theirs))
    close(ours, theirs, what)
    assert (ours[theirs == 0] == 0).all(), what


def every(kind, seen):
    layer = seen.weights[kind.kind][0]
    return list(range(len(kind.maps))), list(range(layer.shape[2])), list(range(kind.heads))


def some(kind, seen):
    """Some layers, whose order does not count, and some rows and heads in an order of their own."""
    layers, rows, heads = every(kind, seen)
    return [layers[-1], layers[0]], [rows[-1], rows[0], rows[len(rows) // 2]], [heads[-1], heads[0]]


def batches(test):
    return pytest.mark.parametrize("batch", BATCHES)(test)


# The answer


@batches
def test_the_answer_is_the_same_with_maps_and_without(model, batch):
    seen = model.seen(batch)
    answer = seen.answer.detach().numpy()
    name = model.manifest.graphs["predict"].outputs[0].name
    close(model.run("predict", seen.feed)[name], answer, "predict")
    close(model.ask(seen)[name], answer, "attention")


# The methods


@batches
def test_raw_maps_are_what_was_seen_of_each_head_and_fused(model, batch):
    seen = model.seen(batch)
    for asked in (every, some):
        wanted = {kind.kind: asked(kind, seen) for kind in model.manifest.attention}
        for fusion in FUSIONS:
            got = model.ask(seen, "raw", fusion, **wanted)
            for kind in model.manifest.attention:
                layers, rows, heads = wanted[kind.kind]
                stack = [seen.maps(kind.kind)[layer] for layer in sorted(layers)]
                stack = [
                    layer[:, heads] if fusion == "each" else explanations_reference.fused(layer, fusion)[:, None]
                    for layer in stack
                ]
                theirs = np.stack(stack, 2)[:, :, :, rows]
                held(model, kind, seen, rows, got[kind.kind], theirs, f"{fusion} of {kind.kind}")


@batches
def test_attention_is_far_from_uniform_and_of_no_two_inputs_the_same(model, batch):
    """Or the tests here would show little."""
    seen = model.seen(batch)
    for kind in model.manifest.attention:
        for layer in seen.maps(kind.kind):
            assert np.abs(layer[0] * layer.shape[-1] - 1).max() > 0.3
            assert batch == 1 or np.abs(layer[0] - layer[1]).max() > 0.01


@batches
def test_rollout_follows_the_layers_asked_for(model, batch):
    seen = model.seen(batch)
    kinds = [kind for kind in model.manifest.attention if "rollout" in kind.methods]
    for fusion in FUSED:
        for asked in (every, some, lambda kind, seen: ([1], *every(kind, seen)[1:])):
            wanted = {kind.kind: asked(kind, seen) for kind in kinds}
            got = model.ask(seen, "rollout", fusion, **wanted)
            for kind in kinds:
                layers, rows, _ = wanted[kind.kind]
                fused = [explanations_reference.fused(layer, fusion) for layer in seen.maps(kind.kind)]
                theirs = explanations_reference.rollout(fused, layers)[:, None, None, rows]
                held(model, kind, seen, rows, got[kind.kind], theirs, f"{fusion} of {kind.kind}")
            for kind in model.manifest.attention:
                if kind not in kinds:
                    assert got[kind.kind].size == 0


def apart(layers, count):
    """Is what is discarded and what is kept of each map apart by more than single floats round; equal zeros are."""
    for image in np.concatenate(layers):
        ordered = np.sort(image, axis=None)
        last, first = ordered[count - 1 : count + 1]
        if first > 1e-7 and first - last < 3e-5 * first:
            return False
    return True


@batches
@pytest.mark.parametrize("fusion", FUSED)
def test_rollout_discards_the_smallest_entries_of_each_input(model, batch, fusion):
    """Of texts of one length, as the service asks for it: padding would be counted among the smallest."""
    seen = model.seen(batch, whole=True)
    for kind in model.manifest.attention:
        if "rollout" not in kind.methods:
            continue
        fused = [explanations_reference.fused(layer, fusion) for layer in seen.maps(kind.kind)]
        entries = fused[0][0].size
        for share in (0.3, 0.8):
            counts = sorted(range(1, entries), key=lambda count, middle=share * entries: abs(count - middle))
            count = next(count for count in counts if apart(fused, count))
            layers, rows, heads = every(kind, seen)
            got = model.ask(seen, "rollout", fusion, discard=count, **{kind.kind: (layers, rows, heads)})
            theirs = explanations_reference.rollout(
                [explanations_reference.discarded(layer, count) for layer in fused]
            )[:, None, None]
            close(got[kind.kind], theirs, f"{count} of {entries}, {kind.kind}")
            assert (
                np.abs(theirs[:, 0, 0] - explanations_reference.rollout(fused)).max() > 1e-4
                or (fused[0] == 0).sum() > count
            )


@batches
def test_norms_are_those_of_the_vectors_that_each_key_adds(model, batch):
    seen = model.seen(batch)
    for asked in (every, some):
        wanted = {kind.kind: asked(kind, seen) for kind in model.manifest.attention}
        got = model.ask(seen, "norm", "mean", **wanted)
        for kind in model.manifest.attention:
            layers, rows, _ = wanted[kind.kind]
            parts = zip(seen.maps(kind.kind), seen.values[kind.kind], seen.joining[kind.kind], strict=True)
            norms = [explanations_reference.norms(*part) for part in parts]
            theirs = np.stack([norms[layer] for layer in sorted(layers)], 1)[:, None, :, rows]
            held(model, kind, seen, rows, got[kind.kind], theirs, kind.kind)
            plain = np.stack([layer.mean(1) for layer in seen.maps(kind.kind)], 1)
            assert np.abs(np.stack(norms, 1) - plain).max() > 0.05


@batches
def test_diagnostics_are_entropy_special_mass_and_distance(model, batch):
    seen, image = model.seen(batch), model.manifest.image
    rng = np.random.default_rng(batch)
    special = {kind: rng.random((batch, layers[0].shape[3])) < 0.3 for kind, layers in seen.weights.items()}
    got = model.ask(seen, diagnose=True, special=special)
    for kind in model.manifest.attention:
        layers = []
        for layer in seen.maps(kind.kind):
            figures = {
                "entropy": explanations_reference.entropy(layer),
                "special": explanations_reference.special(layer, special[kind.kind]),
            }
            if image:
                patch = image.height / kind.grid[0], image.width / kind.grid[1]
                figures["distance"] = explanations_reference.distance(layer, kind.grid, patch, kind.prefix)
            layers.append(np.stack([figures[name] for name in FIGURES if name in figures], -1))
        theirs = np.stack(layers, 1)  # (batch, layer, head, query, figure)
        ours = got[f"{kind.kind}.diagnostics"]
        assert ours.shape == theirs.shape
        for row, length in enumerate(model.lengths(kind, seen)):
            close(ours[row, :, :, :length], theirs[row, :, :, :length], kind.kind)
        assert model.ask(seen)[f"{kind.kind}.diagnostics"].size == 0


def targets(model, seen):
    """A class or token of its own in every row, the likeliest in the last; positions, and rows to read of each."""
    batch, *middle, classes = seen.answer.shape
    rng = np.random.default_rng(batch)
    feed = {"explained": (np.arange(batch) * 7 + 1) % classes}
    feed["explained"][-1] = -1
    if middle:
        feed["position"] = rng.permutation(np.arange(batch) % middle[0])
    if len(model.manifest.attention) == 1:
        (kind,) = model.manifest.attention
        feed["rows"] = rng.integers(0, model.lengths(kind, seen)[:, None], (batch, 4))
        feed["rows"][:, 0] = 0
        if middle and kind.kind == "decoder":
            feed["rows"][:, 1] = feed["position"]
        feed[f"{kind.kind}.layers"] = np.arange(len(kind.maps))
    return feed


def evidence(seen, asked):
    """Ā of every kind and layer, its gradients by autograd; samples are independent, and one sum serves them all."""
    row = seen.answer
    if "position" in asked:
        row = row[torch.arange(len(row)), torch.from_numpy(asked["position"])]
    chosen = torch.from_numpy(asked["explained"])
    chosen = torch.where(chosen < 0, row.argmax(-1), chosen)
    total = sum(one[target] for one, target in zip(row, chosen, strict=True))
    every = [layer for layers in seen.weights.values() for layer in layers]
    gradients = iter(torch.autograd.grad(total, every, retain_graph=True))
    return {
        kind: [explanations_reference.positive(layer.detach().numpy(), next(gradients).numpy()) for layer in layers]
        for kind, layers in seen.weights.items()
    }


def relevance(model, seen, asked):
    """What the relevance graph must return of each kind: (batch, row, key)."""
    layers = evidence(seen, asked)
    if "cross" not in layers:
        ((kind, found),) = layers.items()
        joint = explanations_reference.relevance(found, asked[f"{kind}.layers"])
        return {kind: joint[np.arange(len(joint))[:, None], asked["rows"]]}
    own, across = explanations_reference.bimodal(layers["encoder"], layers["decoder"], layers["cross"])
    at = np.arange(len(own)), asked["position"]
    return {"decoder": own[at][:, None], "cross": across[at][:, None]}


def explains(model):
    if "relevance" not in model.manifest.graphs:
        pytest.skip("a vector has no class to explain")


@batches
def test_relevance_is_that_of_each_row_s_own_target(model, batch):
    explains(model)
    seen = model.seen(batch)
    asked = targets(model, seen)
    choices = [asked]
    if "rows" in asked:
        name = f"{model.manifest.attention[0].kind}.layers"
        choices += [{**asked, name: np.array(some)} for some in ([0], [len(asked[name]) - 1, 0][: len(asked[name])])]
    for one in choices:
        got = model.run("relevance", {**seen.feed, **one})
        wanted = relevance(model, seen, one)
        assert got.keys() - wanted.keys() == {"logits"}
        for kind, theirs in wanted.items():
            close(got[kind], theirs, kind, GRADIENT)
        close(got["logits"], seen.answer.detach().numpy(), "logits")
    for kind, layers in evidence(seen, asked).items():
        assert max(layer.max() for layer in layers) > 1e-3, kind


def test_different_targets_of_one_input_have_relevance_of_their_own(model):
    explains(model)
    seen = model.seen(8)
    asked = targets(model, seen)
    one = {name: np.repeat(array[:1], 8, 0) for name, array in seen.feed.items()}
    classes, positions = seen.answer.shape[-1], seen.answer.shape[1]
    asked["explained"] = np.arange(8) % classes
    if "position" in asked:
        asked["position"] = np.arange(8) % positions
    if "rows" in asked:
        asked["rows"] = np.repeat(asked["rows"][:1], 8, 0)
    batched = {name for name in asked if not name.endswith(".layers")}
    together = model.run("relevance", {**one, **asked})
    for row in range(8):
        own = {name: array[row : row + 1] if name in batched else array for name, array in asked.items()}
        alone = model.run("relevance", {**{name: array[:1] for name, array in one.items()}, **own})
        for name, array in alone.items():
            close(together[name][row : row + 1], array, name)
    name = model.manifest.attention[-1].kind
    assert np.abs(together[name][0] - together[name][1]).max() > 1e-4


# Batches


def cut(model, seen, row):
    """Return what one row sees alone, without the padding that its neighbours brought."""
    feed = {name: array[row : row + 1] for name, array in seen.feed.items()}
    length = seen.feed["source_visible"][row].sum() if "source_visible" in feed else None
    for name in ("source", "source_visible", "source_types"):
        if name in feed:
            feed[name] = feed[name][:, :length]
    weights = {}
    for kind in model.manifest.attention:
        queries, keys = (length if axis == "source" else None for axis in (kind.query, kind.key))
        weights[kind.kind] = [layer[row : row + 1, :, :queries, :keys] for layer in seen.weights[kind.kind]]
    return Seen(feed, seen.answer, weights, {}, {})


def test_what_is_read_of_an_input_alone_is_what_is_read_of_it_in_a_batch(model):
    seen = model.seen(8)
    explained = "relevance" in model.manifest.graphs
    asked = targets(model, seen) if explained else {}
    whole = model.run("relevance", {**seen.feed, **asked}) if explained else {}
    for method, fusion, diagnose in (("raw", "each", True), ("rollout", "max", False), ("norm", "mean", False)):
        kinds = [kind for kind in model.manifest.attention if method in kind.methods]
        together = model.ask(
            seen, method, fusion, diagnose=diagnose, **{kind.kind: every(kind, seen) for kind in kinds}
        )
        for row in range(8):
            own = cut(model, seen, row)
            alone = model.ask(own, method, fusion, diagnose=diagnose, **{kind.kind: every(kind, own) for kind in kinds})
            for kind in kinds:
                queries, keys = own.weights[kind.kind][0].shape[2:]
                close(together[kind.kind][[row], :, :, :queries, :keys], alone[kind.kind], f"{method} of {kind.kind}")
                figures = f"{kind.kind}.diagnostics"
                if diagnose:
                    close(together[figures][[row], :, :, :queries], alone[figures], figures)
    for row in range(8) if explained else ():
        own = cut(model, seen, row)
        controls = {name: one if name.endswith(".layers") else one[row : row + 1] for name, one in asked.items()}
        for name, array in model.run("relevance", {**own.feed, **controls}).items():
            same = whole[name][(slice(row, row + 1), *(slice(size) for size in array.shape[1:]))]
            close(same, array, name)


# What is said


def test_the_manifest_says_how_far_every_method_of_every_kind_is_from_the_definition(model):
    verified = model.manifest.verified
    for kind in model.manifest.attention:
        assert verified[f"diagnostics: {kind.kind}"] < 1e-4
        for method in (*GRAPH_METHODS, "relevance"):
            assert (f"{method}: {kind.kind}" in verified) == (method in kind.methods), method
            if method in kind.methods:
                assert verified[f"{method}: {kind.kind}"] < 1e-3


# Step by step


def test_maps_of_one_pass_over_a_target_are_those_of_every_step_that_made_it(model):
    """Of dates, our definition's own steps; of checkpoints, the reference library's, with its cache."""
    if not model.manifest.generation:
        pytest.skip("makes nothing step by step")
    seen = model.seen(3)
    kinds = [kind for kind in model.manifest.attention if kind.kind != "encoder"]
    got = model.ask(seen, **{kind.kind: every(kind, seen) for kind in kinds})
    target = torch.from_numpy(seen.feed["target"])
    steps = our_steps(seen, target) if model.manifest.name == "dates" else their_steps(model, seen, target)
    count = 0
    for index, found in enumerate(steps):
        count += 1
        for kind in kinds:
            for layer, maps in enumerate(found[kind.kind]):
                row = got[kind.kind][:, :, layer, index]
                keys = maps.shape[-1] if kind.kind == "cross" else index + 1
                close(row[..., :keys], maps[:, :, 0, :keys].detach().numpy(), f"step {index} of {kind.kind}, {layer}")
                assert (row[..., keys:] == 0).all()
    assert count == target.shape[1]


def our_steps(seen, target):
    definition = SOURCES["dates"]().traced.double().model
    source, visible = (torch.from_numpy(seen.feed[name]) for name in ("source", "source_visible"))
    memory, _ = definition.encode(source, visible)
    batch, length = target.shape
    heads, width = memory[0][0].shape[1], memory[0][0].shape[3]
    past = [(torch.zeros(batch, heads, length, width).double(),) * 2 for _ in memory]
    for index in range(length):
        _, past, maps = definition.step(target[:, index], torch.full((batch,), index), past, memory, visible)
        yield {
            "decoder": [maps[f"decoder.blocks.{layer}.attention"] for layer in range(len(memory))],
            "cross": [maps[f"decoder.blocks.{layer}.cross"] for layer in range(len(memory))],
        }


def their_steps(model, seen, target):
    theirs = model.see.model
    more = {}
    if "source" in seen.feed:
        shown = torch.from_numpy(seen.feed["source_visible"]).long()
        encoded = theirs.get_encoder()(torch.from_numpy(seen.feed["source"]), attention_mask=shown)
        more = {"encoder_outputs": encoded, "attention_mask": shown}
    past = None
    for index in range(target.shape[1]):
        token = target[:, index : index + 1]
        given = {"decoder_input_ids": token, **more} if more else {"input_ids": token}
        out = theirs(**given, past_key_values=past, use_cache=True, output_attentions=True)
        past = out.past_key_values
        if more:
            yield {"decoder": out.decoder_attentions, "cross": out.cross_attentions}
        else:
            yield {"decoder": out.attentions}
