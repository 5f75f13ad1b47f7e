"""Artifacts beside what they must see: our definitions in float64, and the reference library for checkpoints."""

import re
from dataclasses import dataclass, field

import numpy as np
import onnxruntime as ort
import pytest
import torch
from transformers import AutoFeatureExtractor
from transformers.pytorch_utils import Conv1D

from contract.artifact import read_artifact
from contract.manifest import FUSIONS, GRAPH_METHODS, POOL
from export.bundled import SOURCES
from model.vocabularies import START, encode
from tests.samples.checkpoints import CASES, CHOSEN, END, EXPORTED, checkpoint_of, reference
from tests.samples.towers import Tower

BUNDLED = ("digits", "dates")
TOLERANCE = 1e-5
LENGTHS = np.array([11, 1, 7, 3, 9, 5, 10, 2])
ENDED = ("clip",)
"""Families whose answer is that of the token that ends a text, wherever it stands."""
WRITTEN = (
    "Wednesday, 23 September 1998", "3/4/21", "12th of May 2007", "jan 9", "2020-02-29", "the 1st of July, '76",
    "31.12.1999", "may 2003",
)  # fmt: skip
TARGET = 7


@dataclass(repr=False)
class Seen:
    """What a model saw of one batch, in float64: its answer and weights as autograd knows them, and the values."""

    feed: dict[str, np.ndarray]
    answer: torch.Tensor
    weights: dict[str, list[torch.Tensor]]
    """The weights of each kind, (batch, heads, query, key) a layer."""
    values: dict[str, list[np.ndarray]]
    """The values of each kind, (batch, heads, key, width of a head) a layer."""
    joining: dict[str, list[np.ndarray]]
    """The joining projections of each kind, (heads x width of a head, width) a layer."""
    others: dict[str, torch.Tensor] = field(default_factory=dict)
    """What was answered beside what is explained, by the names of outputs."""
    classes: int | None = None
    """How many of the first classes of the answer can be explained, if not all."""
    states: list[torch.Tensor] = field(default_factory=list)
    """The states after each layer, (batch, token, width), of an encoder alone."""

    def maps(self, kind):
        return [layer.detach().numpy() for layer in self.weights[kind]]


@dataclass(repr=False)
class Model:
    """An artifact, and what it must see."""

    artifact: object
    see: object
    """A function that takes what the graphs are fed, and returns what was seen."""
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
            options.add_session_config_entry("session.x64quantprecision", "1")  # exact on every processor
            self.sessions[role] = ort.InferenceSession(self.artifact.path(graph.file), options)
        given = {port.name: feed[port.name] for port in graph.inputs}
        found = self.sessions[role].run(None, given)
        for port, array in zip(graph.outputs, found, strict=True):
            fixed = [
                axis if isinstance(axis, int) else length for axis, length in zip(port.axes, array.shape, strict=True)
            ]
            assert list(array.shape) == fixed, f"{port.name}: has other lengths than the manifest declares"
        return dict(zip((port.name for port in graph.outputs), found, strict=True))

    def seen(self, batch, *, whole=False):
        """Return what is seen of a batch, its texts of mixed lengths, or all of one."""
        if (batch, whole) not in self.known:
            self.known[batch, whole] = self.see(self.feed(batch, whole))
        return self.known[batch, whole]

    def feed(self, batch, whole):
        """Draw what the graph of predictions takes."""
        return draw(self.manifest, self.manifest.graphs["predict"].inputs, batch, whole=whole)

    def lengths(self, kind, seen):
        """Return how many of a kind's queries each row of a batch has, and no padding after them."""
        if kind.query == "source":
            return seen.feed["source_visible"].sum(1)
        layer = seen.weights[kind.kind][0]
        return np.full(layer.shape[0], layer.shape[2])

    def ask(
        self,
        seen,
        method="raw",
        fusion="each",
        *,
        discard=0,
        sinks=0.0,
        after=(),
        diagnose=False,
        special=None,
        **asked,
    ):
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
                feed[f"{kind.name}.{name}"] = np.array(indices, np.int64)
            none = np.zeros((batch, keys), bool)
            feed[f"{kind.name}.discard"] = np.array(discard)
            feed[f"{kind.name}.sinks"] = np.array(sinks, np.float32)
            feed[f"{kind.name}.after"] = np.array(after, np.int64)
            feed[f"{kind.name}.special"] = none if special is None else special[kind.kind]
        sorts = {kind.name: kind.kind for kind in self.manifest.attention}  # a pool is a sort of cross-attention
        found = self.run("attention", feed).items()
        return {".".join((sorts.get((own := name.split("."))[0], own[0]), *own[1:])): array for name, array in found}


def draw(described, ports, batch, *, whole=False):
    """Draw what a graph of predictions takes with these ports; a manifest or a source describes the model."""
    rng, names = np.random.default_rng(batch), {port.name for port in ports}
    if described.image:
        rule = described.image
        shape = (batch, rule.height, rule.width, rule.channels)
        pixels = rng.integers(0, 256, shape, dtype=np.uint8) * (rng.random(shape) < 0.4).astype(np.uint8)
        grid = next((kind.grid for kind in described.attention if kind.grid), None)
        feed = {"pixels": pixels, **filled(grid, rule, rng, batch, whole=whole)}
        if described.generation:
            feed |= {
                "target": rng.integers(6, int(described.made_by["vocabulary"]), (batch, TARGET)),
                "answered": np.tile(np.arange(TARGET), (batch, 1)),
            }
        return {name: array for name, array in feed.items() if name in names}
    if described.sound:
        feed = sounds(described, rng, batch, whole=whole)
        return {name: array for name, array in feed.items() if name in names}
    if described.name == "dates":
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
        if described.text.filled:
            lengths = np.full(batch, described.text.max_tokens)
        made_by = described.made_by
        vocabulary = int(made_by.get("target_vocabulary", made_by["vocabulary"]))
        source = rng.integers(6, int(made_by["vocabulary"]), (batch, lengths.max()))
        target = rng.integers(6, vocabulary, (batch, TARGET))
    if described.family in ENDED:
        source[np.arange(batch), lengths - 1] = END
    feed = {
        "source": source,
        "source_visible": np.arange(lengths.max()) < lengths[:, None],
        "source_types": rng.integers(0, int(described.made_by.get("types", 0)) or 1, source.shape),
        "masked": np.stack((np.zeros(batch, np.int64), lengths - 1), 1),
        "target": target,
        "answered": np.tile(np.arange(target.shape[1]), (batch, 1)),  # all of its tokens
    }
    return {name: array for name, array in feed.items() if name in names}


def sounds(described, rng, batch, *, whole):
    """Draw noise that swells, of one length, and how much of the spectrum it fills: in `whole`, all."""
    rule = described.sound
    count = rule.least + 9 * rule.hop + 7 if rule.varies else rule.samples
    swell = np.sin(np.arange(count) * rng.uniform(1, 9, (batch, 1)) / count) ** 2
    heard = rng.integers(rule.least, count + 1, batch)
    heard[: batch if whole or rule.varies else 1] = count
    shown = np.arange(count) < heard[:, None]
    samples = (0.2 * rng.normal(size=(batch, count)) * swell * shown).astype(np.float32)
    return {"samples": samples, "filled": rule.fills(heard)}


def filled(grid, rule, rng, batch, *, whole):
    """Draw how much pictures fill of the upper left, and which cells begin in them: the first, or in `whole` all, all.

    Their sides end within cells.
    """
    sides = np.array([rule.height, rule.width])
    shown = rng.integers(1, sides + 1, (batch, 2))
    shown[: batch if whole else 1] = sides
    down, across = (
        np.arange(count) * side // count < most[:, None]
        for count, side, most in zip(grid or (1, 1), sides, shown.T, strict=True)
    )
    return {"image_visible": (down[:, :, None] & across[:, None]).reshape(batch, -1), "shown": shown}


# What is seen


def of_bundled(name):
    """Our definition, its parameters read by their names."""
    traced = SOURCES[name]().traced.double()
    parameters = dict(traced.model.named_parameters())

    def see(feed):
        found = traced.watched(*(torch.from_numpy(array) for array in feed.values()))
        answer, weights, values, *_ = found
        kinds = [kind.kind for kind in traced.kinds]
        joining = {
            kind.kind: [parameters[f"{path}.output.weight"].detach().numpy().T for path in kind.maps]
            for kind in traced.kinds
        }
        arrays = [[value.detach().numpy() for value in layers] for layers in values]
        return Seen(
            feed, answer, dict(zip(kinds, weights, strict=True)), dict(zip(kinds, arrays, strict=True)), joining,
            states=[found.states[name] for name in traced.returned_states],
        )  # fmt: skip

    return see


LAST_NORM = (
    r"^(model\.)?(final_)?norm$|^(roberta_prelayernorm\.)?LayerNorm$|^roberta\.encoder\.LayerNorm$"
    r"|^(transformer\.)?ln_f$|^(gpt_neox\.)?final_layer_norm$"
)
"""The norm behind all layers, by whose result the library replaces what leaves the last one."""


def of_checkpoint(name, described):
    """The reference library, its values caught as they are projected; a manifest or a source describes the model."""
    theirs = reference(checkpoint_of(name))
    if CASES[name].tower:
        theirs = Tower(theirs, CASES[name].tower)
    heads = {kind.kind: kind.heads for kind in described.attention}
    modules = dict(theirs.named_modules())
    caught = {kind: [] for kind in heads}  # of each layer, though layers may share a module

    def catch(kind, joined):
        def hook(module, given, value):
            width = joined.shape[0] // heads[kind]
            split = value.detach().unflatten(-1, (-1, width))  # (batch, token, head, width of a head)
            if kind == "cross":  # keys may stand before them
                split = split[..., -heads[kind] :, :]
            elif described.family == "gpt_neox":  # query, key and value of each head lie side by side
                split = split[..., 2::3, :]
            elif (more := split.shape[-2] - heads[kind]) > 0:  # those of all heads do, as in gpt2
                split = split[..., -(more // 2) :, :]
            split = split.transpose(1, 2)
            own = split.repeat_interleave(heads[kind] // split.shape[1], 1)  # where heads of queries share it
            caught[kind].append((own.numpy(), joined))

        return hook

    for kind, (path, value, joined) in CASES[name].model.parts.items():
        for attention in [name for name in modules if value and re.search(rf"(^|\.){path}$", name)]:
            weight = modules[f"{attention}.{joined}"].weight.detach().numpy()
            transposed = isinstance(modules[f"{attention}.{joined}"], Conv1D)
            projection = weight if transposed else weight.T
            modules[f"{attention}.{value}"].register_forward_hook(catch(kind, projection))

    before_norm = []
    for path in [name for name in modules if re.search(LAST_NORM, name)]:
        modules[path].register_forward_pre_hook(lambda module, given: before_norm.append(given[0]))

    def see(feed):
        for found in (*caught.values(), before_norm):
            found.clear()
        out = _asked(name, theirs, described, {port: torch.from_numpy(array) for port, array in feed.items()})
        if "encoder" in heads and "decoder" in heads:
            stacks = (out.encoder_attentions, out.decoder_attentions, out.cross_attentions)
        else:
            stacks = (out.attentions, theirs.pooled) if "cross" in heads else (out.attentions,)
        if "cross" in heads and len(stacks) == 2:
            caught["cross"] = [(theirs.values[0], theirs.pool.attention.out_proj.weight.detach().numpy().T)]
        weights = {kind: list(stack) for kind, stack in zip(heads, stacks, strict=True)}
        values, joining = ({kind: [one[part] for one in caught[kind]] for kind in heads} for part in (0, 1))
        more = ({"boxes": out.pred_boxes}, len(described.labels)) if described.detection else ()
        states = [] if len(stacks) > 2 else list(out.hidden_states[1:])
        states[-1:] = before_norm or states[-1:]
        return Seen(feed, _answer(name, described, out, feed), weights, values, joining, *more, states=states)

    see.model = theirs
    return see


def _asked(name, model, described, given):
    if described.image:
        rule, normal = described.image, normalised(described.image, given["pixels"])
        more: dict[str, object] = {"interpolate_pos_encoding": True} if name in RESIZED else {}
        if described.family == "vit_mae":  # which hides most patches, and shuffles the others
            model.config.mask_ratio, places = 0.0, described.attention[0].grid
            more = {"noise": torch.arange(places[0] * places[1]).expand(len(normal), -1)}
        if "shown" in given:
            down, across = (
                torch.arange(side) < most[:, None]
                for side, most in zip((rule.height, rule.width), given["shown"].T, strict=True)
            )
            mask = down[:, :, None] & across[:, None]
            normal, more = normal * mask[:, None], {"pixel_mask": mask.long()} if "image_visible" in given else {}
        if "target" in given:
            more = {**more, "decoder_input_ids": given["target"]}
        return model(normal, output_attentions=True, output_hidden_states=True, **more)
    if described.sound:
        return model(heard_by(name, described.sound, given), output_attentions=True, output_hidden_states=True)
    if described.task == "text-generation":
        return model(given["target"], output_attentions=True, output_hidden_states=True)
    shown = given["source_visible"]
    if "target" in given:
        more = {"decoder_input_ids": given["target"], "attention_mask": shown.long()}
        if described.task == "text-classification":  # at every token
            out = model.model(given["source"], output_attentions=True, output_hidden_states=True, **more)
            out.logits = model.classification_head(out.last_hidden_state)
            return out
        return model(given["source"], output_attentions=True, output_hidden_states=True, **more)
    padded = given["source"].where(shown, model.config.pad_token_id or 0)
    more = {"token_type_ids": given["source_types"]} if "source_types" in given else {}
    return model(padded, attention_mask=shown.long(), output_attentions=True, output_hidden_states=True, **more)


def normalised(rule, pixels):
    """Return pixels (batch, height, width, channel) as the reference library takes them, in float64."""
    return ((pixels.double() / 255 - torch.tensor(rule.mean)) / torch.tensor(rule.std)).permute(0, 3, 1, 2)


def heard_by(name, rule, given):
    """Return what the reference library's extractor of features makes of sounds, one by one, in float64."""
    extractor = AutoFeatureExtractor.from_pretrained(checkpoint_of(name))
    rows = given["samples"].double().numpy()
    if rule.varies:  # in single floats, it is too coarse
        normalised = extractor.zero_mean_unit_var_norm(list(rows), None) if extractor.do_normalize else rows
        return torch.tensor(np.stack(normalised))
    lengths = rule.least + (given["filled"] - 1) * rule.hop  # of which it makes as many frames
    cut = [row[:length] for row, length in zip(rows, lengths, strict=True)]
    found = [extractor(row, sampling_rate=extractor.sampling_rate, return_tensors="pt").input_values for row in cut]
    return torch.cat(found).double()


def _answer(name, described, out, feed):
    if described.task == "feature-extraction":
        if CASES[name].tower or (out.get("pooler_output") is not None and (described.image or described.sound)):
            return out.pooler_output
        if described.image:
            return UNPOOLED.get(name, lambda states: states[:, 0])(out.last_hidden_state)
        if described.sound:
            return out.last_hidden_state.mean(1)
        declared = CASES[name].pooling
        found = pooled(out.last_hidden_state, feed["source_visible"], declared or "mean")
        return found / found.norm(dim=1, keepdim=True).clamp_min(1e-12) if declared else found
    if described.task == "question-answering":
        logits = torch.stack([out.start_logits, out.end_logits], dim=-1)
    else:
        logits = out.prediction_logits if hasattr(out, "prediction_logits") else out.logits
    if described.task == "fill-mask":
        return torch.stack([row[places] for row, places in zip(logits, torch.from_numpy(feed["masked"]), strict=True)])
    if described.task == "sparse-embedding":
        return weighed(name, logits, feed["source_visible"])
    if described.task in EVERY_TOKEN:
        return logits * torch.from_numpy(feed["source_visible"])[..., None]
    return logits


RESIZED = ("vit-larger", "ijepa-features", "trocr-small")
"""The cases of images of another size, which the reference library takes only if it is told so."""
UNPOOLED = {
    "ijepa-features": lambda states: states.mean(1),
    "data2vec-vision-features-mean": lambda states: states[:, 1:].mean(1),
}
"""By case, the features of images where the reference library has none, if they are not the first state."""

EVERY_TOKEN = ("token-classification", "question-answering")
"""Tasks with an answer for every token."""


def real_places(described, answer, feed):
    """Return an answer with zeros where a text of a batch has no tokens."""
    return answer * feed["source_visible"][..., None] if described.task in EVERY_TOKEN else answer


def pooled(states, visible, pooling):
    """Each pooling by its definition, of rows of different length."""
    rows = [state[torch.from_numpy(shown)] for state, shown in zip(states, visible, strict=True)]
    pool = {
        "mean": lambda row: row.mean(0),
        "max": lambda row: row.amax(0),
        "mean_sqrt_length": lambda row: row.sum(0) / len(row) ** 0.5,
        "weighted_mean": lambda row: torch.arange(1, len(row) + 1).to(row) @ row / (len(row) * (len(row) + 1) / 2),
        "last": lambda row: row[-1],
    }[pooling]
    return torch.stack([pool(row) for row in rows])


def weighed(name, logits, visible):
    """Weights of words by their definition, as the folder of a case declares it, of rows of different length."""
    declared = CASES[name].files.get("1_SpladePooling/config.json", {})
    weights = logits.relu().log1p()
    if declared.get("activation_function") == "log1p_relu":
        weights = weights.log1p()
    rows = [row[torch.from_numpy(shown)] for row, shown in zip(weights, visible, strict=True)]
    return torch.stack([row.sum(0) if declared.get("pooling_strategy") == "sum" else row.amax(0) for row in rows])


WITH_MAPS = [name for name in CHOSEN if CASES[name].model.parts]
"""The cases whose maps the reference library returns; those of windows are held in test_windows_over_http.py."""

GRAPHS_ALONE = ("wav2vec2", "wav2vec2-stable", "ast")
"""The cases whose graphs are compared, though no service serves them."""
FAMILIES = [name for name in WITH_MAPS if name in EXPORTED or name in GRAPHS_ALONE]


def of_families(names):
    """Return names of cases as parameters of tests, marked as what waits for their export."""
    return [pytest.param(name, marks=pytest.mark.families) for name in names]


def open_model(name, request):
    """Return a bundled model or that of a case."""
    if name in BUNDLED:
        return Model(read_artifact(request.getfixturevalue("artifacts") / name / "1"), of_bundled(name))
    artifact = read_artifact(request.getfixturevalue("families")(name) / "1")
    return Model(artifact, of_checkpoint(name, artifact.manifest))


def close(ours, theirs, what, tolerance=TOLERANCE):
    assert ours.shape == theirs.shape, what
    limit, differs = tolerance * max(1.0, np.abs(theirs).max(initial=0)), np.abs(ours - theirs).max(initial=0)
    assert differs <= limit, f"{what}: must differ by at most {limit:.1e}, differs by {differs:.1e}"


def targets(model, seen):
    """Return what is explained in every row, and rows to read of each.

    A class or token of its own, the likeliest in the last; every other one against another; at positions. Of embeddings
    it is the cosine with drawn vectors, of their first numbers.
    """
    batch, *middle, classes = seen.answer.shape
    classes = seen.classes or classes
    rng = np.random.default_rng(batch)
    if model.manifest.task == "feature-extraction":
        feed = {"other": rng.normal(size=(batch, classes)).astype(np.float32)}
        most = rng.integers((classes + 1) // 2, classes + 1, (batch, 1))
        feed["kept"] = (np.arange(classes) < most).astype(np.float32)
    else:
        feed = {"explained": (np.arange(batch) * 7 + 1) % classes}
        feed["against"] = np.where(np.arange(batch) % 2, (feed["explained"] + 1) % classes, -1)
        feed["explained"][-1] = -1
    if middle:
        of_tokens = model.manifest.task in EVERY_TOKEN
        lengths = seen.feed["source_visible"].sum(1) if of_tokens else middle[0]
        feed["position"] = rng.permutation(np.arange(batch)) % lengths
    if len(model.manifest.attention) == 1 or model.manifest.attention[-1].query == POOL:
        kind = model.manifest.attention[0]
        feed["rows"] = rng.integers(0, model.lengths(kind, seen)[:, None], (batch, 4))
        feed["rows"][:, 0] = 0 if len(model.manifest.attention) == 1 else -1
        if middle and kind.kind == "decoder":
            feed["rows"][:, 1] = feed["position"]
        feed[f"{kind.kind}.layers"] = np.arange(len(kind.maps))
    return feed


def score(answer, asked):
    """Return what is explained of each row: a logit, one less another, or a cosine."""
    if "other" in asked:
        kept = torch.from_numpy(asked["kept"])
        answer, other = answer * kept, torch.from_numpy(asked["other"]).double() * kept
        length = answer.norm(dim=1, keepdim=True).clamp_min(1e-12)  # that of nothing is 0, where no bias adds to it
        return (answer / length * (other / other.norm(dim=1, keepdim=True))).sum(1)
    scores = []
    for row, logits in enumerate(answer):
        own = logits[asked["position"][row]] if "position" in asked else logits
        target, against = asked["explained"][row], asked["against"][row]
        scores.append((own.max() if target < 0 else own[target]) - (own[against] if against >= 0 else 0))
    return torch.stack(scores)
