"""Everything that is read off attention, of the artifacts themselves, against definitions that share nothing with them.

What the bundled models see comes from our definitions in float64, what checkpoints see from the reference library; the
methods come from `tests/samples/explanations_reference.py`, gradients from autograd.
"""

from typing import get_args

import numpy as np
import onnx
import pytest
import torch

from contract.manifest import FIGURES, FUSIONS, Method
from export.bundled import SOURCES
from tests.conftest import ROOT
from tests.samples import explanations_reference
from tests.samples.fidelity import (
    BUNDLED,
    FAMILIES,
    RESIZED,
    TOLERANCE,
    Seen,
    close,
    normalised,
    of_families,
    open_model,
    real_places,
    score,
    targets,
)

BATCHES = (1, 3)
GRADIENT = 3e-5
"""The tolerance of relevance. All but one are well within 1e-5; on the sharpest, of values up to 41, the graph is
9.7e-6 off, and the reference library's own autograd in single floats 1.2e-5."""
FUSED = FUSIONS[1:]


@pytest.fixture(scope="module", params=[*BUNDLED, *of_families(FAMILIES)])
def model(request):
    return open_model(request.param, request)


# Comparing


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
    return (
        list(dict.fromkeys((layers[-1], layers[0]))),
        [rows[-1], rows[0], rows[len(rows) // 2]],
        [heads[-1], heads[0]],
    )


def batches(test):
    return pytest.mark.parametrize("batch", BATCHES)(test)


# The answer


@batches
def test_the_answer_is_the_same_with_maps_and_without(model, batch):
    seen = model.seen(batch)
    answer = seen.answer.detach().numpy()
    name = model.manifest.graphs["predict"].outputs[0].name
    for role, got in (("predict", model.run("predict", seen.feed)), ("attention", model.ask(seen))):
        close(real_places(model.manifest, got[name], seen.feed), answer, role)
        for other, theirs in seen.others.items():
            close(got[other], theirs.detach().numpy(), f"{other} of {role}")


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
        for index, layer in enumerate(seen.maps(kind.kind)):
            assert np.abs(layer[0] * layer.shape[-1] - 1).max() > 0.3
            fixed = kind.query == kind.key == "object" and index == 0  # objects begin as the same in every image
            assert batch == 1 or fixed or np.abs(layer[0] - layer[1]).max() > 100 * TOLERANCE


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
@pytest.mark.parametrize("fusion", FUSED)
def test_rollout_leaves_out_heads_that_look_at_one_patch_from_everywhere(model, batch, fusion):
    seen = model.seen(batch)
    for kind in model.manifest.attention:
        if "rollout" not in kind.methods or not kind.has_sinks:
            continue
        maps, patches = seen.maps(kind.kind), kind.grid[0] * kind.grid[1]
        shares = [explanations_reference.sinks(layer, kind.prefix, patches) for layer in maps]
        most = np.sort(np.concatenate([own.max(1) for own in shares]))
        least = max(own.min(1).max() for own in shares)  # below it a layer of an image would have no head left
        limit = float(np.mean([least, most[-1]]))
        assert least < limit < most[-1]
        layers, rows, heads = every(kind, seen)
        got = model.ask(seen, "rollout", fusion, sinks=limit, **{kind.kind: (layers, rows, heads)})
        kept = [
            explanations_reference.fused_without(layer, own > limit, fusion)
            for layer, own in zip(maps, shares, strict=True)
        ]
        theirs = explanations_reference.rollout(kept)[:, None, None]
        close(got[kind.kind], theirs, f"{limit} of {kind.kind}")
        whole = model.ask(seen, "rollout", fusion, **{kind.kind: (layers, rows, heads)})[kind.kind]
        assert np.abs(whole - theirs).max() > 1e-4
        none_left = model.ask(seen, "rollout", fusion, sinks=1e-9, **{kind.kind: (layers, rows, heads)})[kind.kind]
        close(none_left, whole, "where all heads are left out, all stay")


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
            if image and kind.grid and kind.query == kind.key:
                patch = image.height / kind.grid[0], image.width / kind.grid[1]
                figures["distance"] = explanations_reference.distance(layer, kind.grid, patch, kind.prefix)
                own = explanations_reference.sinks(layer, kind.prefix, kind.grid[0] * kind.grid[1])
                figures["sink"] = np.broadcast_to(own[:, :, None], figures["entropy"].shape)
            layers.append(np.stack([figures[name] for name in FIGURES if name in figures], -1))
        theirs = np.stack(layers, 1)  # (batch, layer, head, query, figure)
        ours = got[f"{kind.kind}.diagnostics"]
        assert ours.shape == theirs.shape
        for row, length in enumerate(model.lengths(kind, seen)):
            close(ours[row, :, :, :length], theirs[row, :, :, :length], kind.kind)
        assert model.ask(seen)[f"{kind.kind}.diagnostics"].size == 0


def evidence(seen, asked):
    """Ā of every kind and layer, its gradients by autograd; samples are independent, and one sum serves them all."""
    total = score(seen.answer[..., : seen.classes], asked).sum()
    every = [layer for layers in seen.weights.values() for layer in layers]
    gradients = iter(torch.autograd.grad(total, every, retain_graph=True))
    return {
        kind: [explanations_reference.positive(layer.detach().numpy(), next(gradients).numpy()) for layer in layers]
        for kind, layers in seen.weights.items()
    }


def relevance(model, seen, asked):
    """What the relevance graph must return of each kind: (batch, row, key)."""
    layers = evidence(seen, asked)
    if "rows" in asked:
        kind, *pool = layers
        joint = explanations_reference.relevance(layers[kind], asked[f"{kind}.layers"])
        found = joint[np.arange(len(joint))[:, None], asked["rows"]]
        if pool:  # a negative row is that of the vector, which attends to the last states
            found = np.where(asked["rows"][..., None] < 0, layers[pool[0]][0] @ joint, found)
        return {kind: found}
    own, across = explanations_reference.bimodal(layers["encoder"], layers["decoder"], layers["cross"])
    at = np.arange(len(own)), asked["position"]
    return {"decoder": own[at][:, None], "cross": across[at][:, None]}


def explains(model):
    if "relevance" not in model.manifest.graphs:
        pytest.skip("no relevance is served")


@batches
def test_relevance_is_that_of_each_row_s_own_target(model, batch):
    explains(model)
    seen = model.seen(batch)
    asked = targets(model, seen)
    choices = [asked]
    if "rows" in asked:
        name = f"{model.manifest.attention[0].kind}.layers"
        choices += [{**asked, name: np.array(some)} for some in ([0], [len(asked[name]) - 1, 0][: len(asked[name])])]
    for choice in choices:
        got = model.run("relevance", {**seen.feed, **choice})
        wanted = relevance(model, seen, choice)
        (answer,) = got.keys() - wanted.keys()
        for kind, theirs in wanted.items():
            close(got[kind], theirs, kind, GRADIENT)
        every = seen.answer.detach().numpy()
        if "answered" in seen.feed:  # of a decoder, at the position that is explained
            every = every[np.arange(batch), choice["position"]][:, None]
        close(real_places(model.manifest, got[answer], seen.feed), every, answer)
    for kind, layers in evidence(seen, asked).items():
        assert max(layer.max() for layer in layers) > 1e-4, kind


def test_different_targets_of_one_input_have_relevance_of_their_own(model):
    explains(model)
    seen = model.seen(8)
    asked = targets(model, seen)
    one = {name: np.repeat(array[:1], 8, 0) for name, array in seen.feed.items()}
    classes, positions = seen.classes or seen.answer.shape[-1], seen.answer.shape[1]
    if "explained" in asked:
        asked |= {"explained": np.arange(8) % classes, "against": np.full(8, -1)}
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
    name = next(kind.kind for kind in reversed(model.manifest.attention) if "relevance" in kind.methods)
    others = np.abs(together[name] - together[name][:1]).max(axis=tuple(range(1, together[name].ndim)))
    assert classes == 1 or (others > 1e-4).any()  # words of no weight have nothing of their own


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
        assert verified[f"diagnostics: {kind.name}"] < 2e-4
        for method in get_args(Method):
            assert (f"{method}: {kind.name}" in verified) == (method in kind.methods), method
            if method in kind.methods:
                assert verified[f"{method}: {kind.name}"] < 1e-3


@batches
def test_states_are_those_after_the_layers_asked_for(model, batch):
    compared = [kind for kind in model.manifest.attention if kind.compares_states]
    if not compared or model.manifest.family == "yolos":
        pytest.skip("its states are not compared, or the library gives them without the positions added in between")
    seen = model.seen(batch)
    (kind,), last = compared, len(seen.states) - 1
    assert kind.blocks == len(seen.states)
    for after in ([last, 0], range(last + 1)):
        got = model.ask(seen, after=after)[f"{kind.kind}.states"]
        wanted = torch.stack([seen.states[layer] for layer in sorted(after)], dim=1).detach().numpy()
        real = np.arange(got.shape[2]) < model.lengths(kind, seen)[:, None]
        assert got.shape == wanted.shape
        close(*(np.moveaxis(one, 2, 1)[real] for one in (got, wanted)), "states")
    assert model.ask(seen)[f"{kind.kind}.states"].shape[1] == 0


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
                wanted = maps[:, :, 0, :keys].detach().numpy()
                dropped = keys - wanted.shape[-1]  # of a window, its cache holds no keys before it
                close(
                    row[..., :keys],
                    np.pad(wanted, ((0, 0), (0, 0), (dropped, 0))),
                    f"step {index} of {kind.kind}, {layer}",
                )
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
    if "pixels" in seen.feed:
        pixels = normalised(model.manifest.image, torch.from_numpy(seen.feed["pixels"]))
        resized = {"interpolate_pos_encoding": True} if model.manifest.name in RESIZED else {}
        more = {"encoder_outputs": theirs.get_encoder()(pixels, **resized)}
    past = None
    for index in range(target.shape[1]):
        token = target[:, index : index + 1]
        given = {"decoder_input_ids": token, **more} if more else {"input_ids": token}
        out = theirs(**given, cache=past, use_cache=True, output_attentions=True)
        past = out.cache
        if more:
            yield {"decoder": out.decoder_attentions, "cross": out.cross_attentions}
        else:
            yield {"decoder": out.attentions}


def copied_weights(graph):
    """Return the weights of whole layers that a branch returns as they are, which the runtime copies."""
    found = [node.input[0] for node in graph.node if node.op_type == "Identity" and ".attention.seen" in node.input[0]]
    for node in graph.node:
        found += [name for one in node.attribute if one.HasField("g") for name in copied_weights(one.g)]
    return found


@pytest.mark.parametrize("name", ["digits", "dates"])
def test_no_branch_of_the_attention_graph_copies_the_weights_of_all_heads(name):
    graph = onnx.load(ROOT / "model/artifacts" / name / "1/attention.onnx", load_external_data=False).graph
    assert copied_weights(graph) == []
