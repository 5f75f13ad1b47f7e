"""The maps of every method, by the definitions in `model/`, for a batch of inputs at once.

A map is one row of numbers for each input: what each token or patch gives the answer that is explained.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from contract.manifest import Kind
from export.plan import Source
from export.traced.base import Observed
from model.methods import attribution, explanations
from model.methods.attribution import entering

METHODS = ("raw", "rollout", "norm", "relevance", "libra", "integrated")
"""The methods that the service has."""
REFERENCES = ("gradient x input", "random")
"""Rows of the tables to compare with: the plain gradient, and numbers drawn at random."""
STEPS = 16
"""Midpoints of integrated gradients."""
BATCH = 60
"""The number of inputs that are explained at once."""
SEED = 0


@dataclass(frozen=True)
class Subject:
    """Inputs (batch), and what is explained of each."""

    inputs: tuple[Tensor, ...]
    """The inputs of the model, as `Traced.observe` takes them."""
    baseline: tuple[Tensor, ...]
    """The baseline of integrated gradients, as inputs of the model."""
    target: Tensor | None = None
    """The class or token whose logit is explained, (batch)."""
    against: int | None = None
    """The class or token whose logit is taken off."""
    other: Tensor | None = None
    """The vector of length one with which the cosine is explained, (batch, width)."""
    position: Tensor | None = None
    """Where in a sequence of answers the token stands, (batch)."""
    row: Tensor | None = None
    """The row of the maps that stands for the answer, (batch). None: the mean over all rows, for a mean of states."""
    visible: Tensor | None = None
    """True where there is a token, (batch, key); None where there is always one."""

    def parts(self) -> Iterable["Subject"]:
        """Cut it into batches."""
        for start in range(0, len(self), BATCH):
            yield self.at(slice(start, start + BATCH))

    def at(self, rows: object) -> "Subject":
        """Return the subject of some of the rows."""
        single = ("target", "other", "position", "row", "visible")
        several = ("inputs", "baseline")
        cut = {name: None if getattr(self, name) is None else getattr(self, name)[rows] for name in single}
        return Subject(
            against=self.against, **cut, **{name: tuple(one[rows] for one in getattr(self, name)) for name in several}
        )

    def __len__(self) -> int:
        return len(self.inputs[0])


def score(answer: Tensor, subject: Subject) -> Tensor:
    """Return what is explained of each input, (batch)."""
    if subject.other is not None:
        # not cosine_similarity, whose norms a balanced backward pass cannot take as constants
        return (answer / answer.norm(dim=-1, keepdim=True) * subject.other).sum(-1)
    if subject.position is not None:
        answer = answer[torch.arange(len(answer)), subject.position]
    own = answer.gather(1, subject.target[:, None])[:, 0]
    return own if subject.against is None else own - answer[:, subject.against]


def explain(source: Source, method: str, subject: Subject) -> np.ndarray:
    """Return the maps (batch, key) of a method; of raw and norm those of the last layer, heads fused by their mean.

    With several kinds of attention they are over the source. Padding gets -inf. Raises KeyError for other methods.
    """
    if method == "random":
        found = np.random.default_rng(SEED).random((len(subject), keys(source, subject)))
    else:
        maker = MAKERS[method]
        found = np.concatenate([maker(source, part).detach().numpy() for part in subject.parts()])
    return found if subject.visible is None else np.where(subject.visible.numpy(), found, -np.inf)


def keys(source: Source, subject: Subject) -> int:
    """Return how many numbers a map has."""
    kind = source.attention[0]
    return kind.length if kind.grid else subject.inputs[0].shape[1]


def has(source: Source, method: str) -> bool:
    """Return whether a model has a method for the maps that are read; every model has the references."""
    return method not in METHODS or method in source.attention[-1].methods


# Methods of the maps.


def _fused(source: Source, of: Callable[[Kind, Observed], Tensor]) -> Callable[[Subject], Tensor]:
    def found(subject: Subject) -> Tensor:
        with torch.no_grad():
            return _rows(of(source.attention[-1], source.traced.observe(*subject.inputs)), subject)

    return found


def _rows(maps: Tensor, subject: Subject) -> Tensor:
    """Return the row of each map (batch, query, key) that stands for its answer."""
    if subject.row is not None:
        return maps[torch.arange(len(maps)), subject.row]
    if subject.visible is None:
        return maps.mean(1)
    return (maps * subject.visible[:, :, None]).sum(1) / subject.visible.sum(1, keepdim=True)


def raw(source: Source, subject: Subject, layer: int = -1) -> Tensor:
    """Return the weights of one layer."""
    return _fused(source, lambda _, observed: observed.weights[-1][layer].mean(1))(subject)


def norm(source: Source, subject: Subject, layer: int = -1) -> Tensor:
    """Return the lengths of what each key adds in one layer."""

    def of(kind: Kind, observed: Observed) -> Tensor:
        output = source.traced.output_projections(kind)[layer]
        return explanations.norms(observed.weights[-1][layer], observed.values[-1][layer], output)

    return _fused(source, of)(subject)


def rollout(source: Source, subject: Subject) -> Tensor:
    """Return the rollout through all layers."""

    def of(kind: Kind, observed: Observed) -> Tensor:
        fused = [layer.mean(1) for layer in observed.weights[-1]]
        included = torch.ones(len(fused), dtype=torch.bool)
        return explanations.rollout(
            *explanations.add_parallel(fused, included, kind.parallel), torch.arange(fused[0].shape[1])
        )

    return _fused(source, of)(subject)


# Methods of a gradient.


def relevance(source: Source, subject: Subject) -> Tensor:
    """Return the relevance, less the identity that a row of tokens to themselves starts from."""
    with torch.enable_grad():
        observed = source.traced.observe(*subject.inputs)
        total = score(observed.answer, subject).sum()
        gradients = iter(torch.autograd.grad(total, [layer for kind in observed.weights for layer in kind]))
    layers = [
        [explanations.relevance_of(layer, next(gradients)).detach() for layer in kind] for kind in observed.weights
    ]
    if len(layers) > 1:
        encoder, decoder, cross = layers
        return _rows(explanations.bimodal_relevance(encoder, decoder, cross)[1], subject)
    (found,) = layers
    included = torch.ones(len(found), dtype=torch.bool)
    every = torch.arange(found[0].shape[-1]).expand(len(subject), -1)
    summed = explanations.add_parallel(found, included, source.attention[0].parallel)
    return _rows(explanations.relevance(*summed, every) - torch.eye(every.shape[1]), subject)


def _score_of(source: Source, subject: Subject) -> Callable[[], Tensor]:
    return lambda: score(source.traced.observe(*subject.inputs).answer, subject)


def libra(source: Source, subject: Subject) -> Tensor:
    """Return balanced gradient x input of the states that enter the first block."""
    traced = source.traced
    return attribution.libra(traced, traced.parts(), _score_of(source, subject)).tokens[0][0]


def integrated(source: Source, subject: Subject) -> Tensor:
    """Return integrated gradients of the same states."""
    blank = lambda: score(source.traced.observe(*subject.baseline).answer, subject)  # noqa: E731 # of two lines
    return attribution.integrated(source.traced.parts(), _score_of(source, subject), blank, STEPS).tokens[0]


def gradient_input(source: Source, subject: Subject) -> Tensor:
    """Return Σ_channels x ⊙ ∂score/∂x of the same states, by the gradient as it is."""
    states: list[Tensor] = []

    def watch(stack: int, layer: int, x: Tensor) -> Tensor:
        if stack or layer:
            return x
        states.append(x.detach().requires_grad_())
        return states[0]

    with entering(source.traced.parts(), watch), torch.enable_grad():
        total = _score_of(source, subject)().sum()
    return (states[0] * torch.autograd.grad(total, states)[0]).sum(-1)


MAKERS: dict[str, Callable[[Source, Subject], Tensor]] = {
    "raw": raw,
    "rollout": rollout,
    "norm": norm,
    "relevance": relevance,
    "libra": libra,
    "integrated": integrated,
    "gradient x input": gradient_input,
}
