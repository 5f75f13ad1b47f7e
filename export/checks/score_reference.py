"""The reference for graphs that explain a score: autograd on a definition, by `model/`, in float64."""

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from contract.manifest import BASELINE, POOL, GradientMethod, Kind
from export.checks import windowed_reference
from export.checks.comparison import Array
from export.checks.reference import Controls
from export.plan import Plan, Sizes
from export.traced.base import Traced
from model.methods import attribution, explanations
from model.methods.windows import windowed_relevance, windowed_relevance_of


def draw_targets(
    plan: Plan,
    kinds: Sequence[Kind],
    answer: Tensor,
    sizes: Sizes,
    seed: int,
    classes: int | None = None,
    answered: Tensor | None = None,
) -> Controls:
    """Return controls of a graph that explains a score, as far as the plan has them.

    Targets are random, among the first `classes` or all, of which the first is the row's most probable class, unless
    the method needs a number; every other row is explained against another class. For relevance of a single kind, also
    all layers and two rows: the one that the answer is computed from (the first token, that at the target's position,
    or the vector that attends to all) and a random one. A position is one of those that are `answered` (batch, place),
    or of the first half of all.
    """
    generator = torch.Generator().manual_seed(seed)
    batch, numbers, places = answer.shape[0], answer.shape[-1], answer.shape[1] if answer.dim() > 2 else 1
    classes = classes or numbers
    rows_of = next((kind for kind in kinds if "relevance" in kind.methods), kinds[0])
    query = (sizes[rows_of.query] + 1) // 2
    controls = {
        "explained": torch.randint(classes, (batch,), generator=generator),
        "other": torch.randn(batch, numbers, generator=generator),
        "position": torch.randint((places + 1) // 2 if answered is None else places, (batch,), generator=generator),
        "rows": torch.randint(query, (batch, 2), generator=generator),
        "blank": (torch.rand(batch, generator=generator) < 0.7).float(),
        "point": torch.rand(batch, generator=generator),
        **{f"{kind.name}.layers": torch.arange(len(kind.maps)) for kind in kinds},
    }
    if answered is not None:
        controls["position"] = answered[torch.arange(batch), controls["position"]]
    most = torch.randint((numbers + 1) // 2, numbers + 1, (batch, 1), generator=generator)
    controls["kept"] = (torch.arange(numbers) < most).float()
    controls["against"] = torch.where(torch.arange(batch) % 2 == 1, (controls["explained"] + 1) % classes, -1)
    controls["blank"][0] = 1
    if plan.role != "integrated":
        controls["explained"][0] = -1
    controls["rows"][:, 0] = controls["position"] if kinds[0].kind == "decoder" else 0
    if any(kind.query == POOL for kind in kinds):
        controls["rows"][:, 0] = -1
    named = {port.name for port in plan.inputs}
    return {name: tensor for name, tensor in controls.items() if name in named}


def answers_at(answers: Array, controls: Controls, answered: Tensor | None) -> Array:
    """Return of answers (batch, place, class) at tokens that are `answered` those at the positions explained, as one.

    Without such tokens the answers are returned as they are.
    """
    if answered is None:
        return answers
    place = (answered == controls["position"][:, None]).int().argmax(1).numpy()
    return np.take_along_axis(answers, place[:, None, None], axis=1)


def score_of(answer: Tensor, controls: Mapping[str, Tensor], classes: int | None = None) -> Tensor:
    """Return what is explained of each row: a logit, a difference of two, or a cosine, (batch).

    The likeliest of logits is among the first `classes`, or among all.
    """
    if "other" in controls:
        # not cosine_similarity, whose norms a balanced backward pass cannot take as constants
        kept = (one * controls["kept"].to(answer) for one in (answer, controls["other"].to(answer)))
        own, other = (one / one.norm(dim=1, keepdim=True) for one in kept)
        return (own * other).sum(1)
    row = answer
    if "position" in controls:
        row = row[torch.arange(len(row)), controls["position"]]
    target = torch.where(controls["explained"] < 0, row[:, :classes].argmax(-1), controls["explained"])
    against = controls["against"].clamp(min=0)
    less = row.gather(1, against[:, None])[:, 0]
    return row.gather(1, target[:, None])[:, 0] - torch.where(controls["against"] < 0, 0, less)


def explain(
    method: GradientMethod, traced: Traced, given: Mapping[str, Tensor], controls: Mapping[str, Tensor]
) -> list[Tensor]:
    """Return what a graph must return beside the answer, one input at a time; `given` are all its other inputs."""
    one_by_one = []
    for row in range(len(next(iter(given.values())))):
        own = {name: tensor if name.endswith(".layers") else tensor[row : row + 1] for name, tensor in controls.items()}
        one_by_one.append(REFERENCES[method](traced, {name: one[row : row + 1] for name, one in given.items()}, own))
    return [torch.cat(rows) for rows in zip(*one_by_one, strict=True)]


def _run(traced: Traced, given: Mapping[str, Tensor], controls: Mapping[str, Tensor], prefix: str = "") -> Tensor:
    """Return the score of inputs, or of a baseline: the inputs with that prefix, where there are any."""
    inputs = [given.get(f"{prefix}{name}", one) for name, one in given.items() if not name.startswith(BASELINE)]
    return score_of(traced.observe(*inputs).answer, controls, traced.classes)


def _relevance(traced: Traced, given: Mapping[str, Tensor], controls: Mapping[str, Tensor]) -> list[Tensor]:
    with torch.enable_grad():
        observed = traced.observe(*given.values())
        maps = [layer for kind in observed.weights for layer in kind]
        gradients = iter(torch.autograd.grad(score_of(observed.answer, controls, traced.classes).sum(), maps))
    last = traced.explained("relevance")[-1]
    of_layer = windowed_relevance_of if last.windows else explanations.relevance_of
    layers = [[of_layer(layer, next(gradients)).detach() for layer in kind] for kind in observed.weights]
    if last.windows:
        joint = windowed_reference.joint_of(last, controls["rows"], layers[0][0])
        return [windowed_relevance(windowed_reference.stages(traced, last, layers), joint)]
    if len(layers) == 1 or traced.pool:
        kind, pooled = traced.kinds[0], layers[1][0] if traced.pool else None
        included = torch.isin(torch.arange(len(layers[0])), controls[f"{kind.name}.layers"])
        summed = explanations.add_parallel(layers[0], included, kind.parallel)
        return [explanations.relevance(*summed, controls["rows"], pooled)]
    encoder, decoder, cross, *_ = layers  # those before an encoder take no part
    at = torch.arange(len(controls["position"])), controls["position"]
    return [found[at][:, None] for found in explanations.bimodal_relevance(encoder, decoder, cross)]


def _libra(traced: Traced, given: Mapping[str, Tensor], controls: Mapping[str, Tensor]) -> list[Tensor]:
    run = functools.partial(_run, traced, given, controls)
    found = attribution.libra(traced.model, traced.parts(), run)
    tokens = [torch.stack(of_stack[: traced.layers], dim=1) for of_stack in found.tokens]
    biases = torch.stack(found.biases[: traced.layers])[None]
    return [*_by_kind(traced, "libra", tokens), biases, found.score]


def _integrated(traced: Traced, given: Mapping[str, Tensor], controls: Mapping[str, Tensor]) -> list[Tensor]:
    run = functools.partial(_run, traced, given, controls)
    states = attribution.first_states(traced.parts(), run)
    blank = attribution.first_states(traced.parts(), functools.partial(run, BASELINE))
    share, point = (controls[name][:, None, None].to(states[0]) for name in ("blank", "point"))
    found = attribution.at_point(traced.parts(), run, states, [share * one for one in blank], point)
    return [*_by_kind(traced, "integrated", found.tokens), found.score]


def _by_kind(traced: Traced, method: GradientMethod, tokens: Sequence[Tensor]) -> list[Tensor]:
    """Return the tokens of the stacks in the order of the kinds that have the method."""
    return [tokens[traced.stack_of(kind)] for kind in traced.explained(method)]


REFERENCES: Mapping[GradientMethod, Callable[[Traced, Mapping[str, Tensor], Mapping[str, Tensor]], list[Tensor]]] = {
    "relevance": _relevance,
    "libra": _libra,
    "integrated": _integrated,
}


def identity_keys(kinds: Sequence[Kind], controls: Mapping[str, Tensor]) -> list[Tensor | None]:
    """Return for each kind with relevance the keys (batch, row) at which its rows start as 1; None for cross."""
    rows = controls["rows"] if "rows" in controls else controls["position"][:, None]
    return [None if kind.kind == "cross" or kind.carried else rows for kind in kinds if "relevance" in kind.methods]


def without_identity(relevance: Array, keys: Tensor | None) -> Array:
    """Return relevance (batch, row, key) less the 1 that each row starts with, at the keys (batch, row); -1 is none."""
    if keys is None:
        return relevance
    rest = relevance.copy()
    places = keys.numpy()[..., None]
    np.put_along_axis(rest, places, np.take_along_axis(rest, places, axis=2) - (places >= 0), axis=2)
    return rest
