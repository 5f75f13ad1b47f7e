"""Explanations of attention that stays inside windows (`model/parts/windows.py`).

Weights are (batch, windows, heads, slot, slot), as the blocks of `model/architectures/swin.py` return them; a fused map
is (batch, windows, slot, slot). A slot is a place in a window, and each token of the grid stands in exactly one. So
`places`, the tokens of the slots, are a permutation of all tokens, and every function here gathers by constant indices.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from model.methods.explanations import norms, relevance_of
from model.parts.windows import Windows, found_at


def unfold(weights: Tensor, places: Tensor) -> Tensor:
    """Return weights (batch, windows, heads, slot, slot) as a square of all tokens, (batch, heads, token, token).

    It has zeros where a query and a key stand in different windows.
    """
    return unfold_rows(weights, places, torch.arange(places.numel(), device=places.device))


def unfold_rows(weights: Tensor, places: Tensor, rows: Tensor) -> Tensor:
    """Return some rows of the square of all tokens, (batch, heads, row, token), without the square."""
    window, slot = found_at(places)
    by_query = weights.transpose(1, 2).flatten(2, 3)  # (batch, heads, windows x slot, slot)
    own = by_query[:, :, window[rows] * places.shape[1] + slot[rows]]  # (batch, heads, row, slot)
    return torch.where(window[rows][:, None] == window, own[..., slot], 0)


def mean_row(weights: Tensor, places: Tensor) -> Tensor:
    """Return the mean of all rows of the square of all tokens, (batch, heads, 1, token)."""
    return by_token(weights.sum(3), places)[:, :, None] / places.numel()


def by_token(x: Tensor, places: Tensor) -> Tensor:
    """Put x (batch, windows, heads, slot) in the order of tokens: (batch, heads, token)."""
    return x.transpose(1, 2).flatten(2)[..., places.flatten().argsort()]


def windowed_norms(weights: Tensor, value: Tensor, output: Tensor) -> Tensor:
    """The length of each key's contribution to each query of its window, (batch, windows, slot, slot).

    `norms` of model/methods/explanations.py in each window. value (batch, windows, heads, slot, width of a head).
    """
    found = norms(weights.flatten(0, 1), value.flatten(0, 1), output)  # (batch x windows, slot, slot)
    return found.reshape(*weights.shape[:2], *found.shape[1:])


def windowed_relevance_of(weights: Tensor, gradient: Tensor) -> Tensor:
    """Ā = E_h (A ⊙ ∇A)⁺ in each window (Chefer et al., ICCV 2021, equation 5), (batch, windows, slot, slot)."""
    found = relevance_of(weights.flatten(0, 1), gradient.flatten(0, 1))  # (batch x windows, slot, slot)
    return found.reshape(*weights.shape[:2], *found.shape[1:])


def only_rows(rows: Tensor, tokens: int, like: Tensor) -> Tensor:
    """Return where rows begin, as rows of I, (1, row, token), in the type of another tensor."""
    return torch.nn.functional.one_hot(rows, tokens)[None].to(like)


def mean_of_rows(tokens: int, like: Tensor) -> Tensor:
    """Return where the mean of all rows begins: 1/N of each token, (1, 1, token), in the type of another tensor."""
    return torch.full((1, 1, tokens), 1 / tokens, dtype=like.dtype, device=like.device)


def carry(joint: Tensor, fused: Tensor, places: Tensor) -> Tensor:
    """Return joint (batch, row, token) times the square of a fused map (batch, windows, slot, slot).

    The square is not made: each window is multiplied by itself.
    """
    order = places.flatten().argsort()
    own = joint[:, :, places].transpose(1, 2)  # (batch, windows, row, slot)
    return (own @ fused).transpose(1, 2).flatten(2)[:, :, order]  # (batch, row, token)


def spread(joint: Tensor, rows: int, columns: int) -> Tensor:
    """Give each of the four tokens that were merged a quarter of what their merged token has.

    joint (batch, row, merged token) -> (batch, row, token) of a grid of rows and columns, before the merging: the
    product with the matrix that averages the four.
    """
    down, across = torch.arange(rows, device=joint.device) // 2, torch.arange(columns, device=joint.device) // 2
    merged = (down[:, None] * (columns // 2) + across).flatten()  # (token)
    return joint[:, :, merged] / 4


class WindowedStage(NamedTuple):
    """The fused maps of one stage, first to last, the windows of each, and which are included (layer)."""

    windows: Sequence[Windows]
    layers: Sequence[Tensor]
    included: Tensor


Step: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""joint, a fused map and its places -> joint times what the layer does."""


def windowed_rollout(stages: Sequence[WindowedStage], joint: Tensor) -> Tensor:
    """Follow attention back through stages: Ã = rownorm(A + I) of each map (Abnar & Zuidema 2020, section 3.1).

    joint (batch or 1, row, token of the last stage) is where rows begin, as `only_rows` or `mean_of_rows` return it.
    Between stages a merged token's share goes to its four tokens in equal parts. Returns (batch, row, token of the
    first stage). A layer that is not included counts as I.
    """

    def step(joint: Tensor, fused: Tensor, places: Tensor) -> Tensor:
        order = places.flatten().argsort()
        sums = fused.sum(-1).flatten(1)[:, None, order]  # (batch, 1, token)
        own = joint / (1 + sums)
        return own + carry(own, fused, places)

    return _back(stages, joint, step)


def windowed_relevance(stages: Sequence[WindowedStage], joint: Tensor) -> Tensor:
    """(I + Ā_L) ... (I + Ā_1) of maps in windows (after Chefer et al., ICCV 2021, equation 6), from the rows of joint.

    The paper has neither windows nor merging: those are carried through as in `windowed_rollout`.
    """
    return _back(stages, joint, lambda joint, fused, places: joint + carry(joint, fused, places))


def _back(stages: Sequence[WindowedStage], joint: Tensor, step: Step) -> Tensor:
    joint = joint.expand(stages[-1].layers[0].shape[0], -1, -1)
    for number in reversed(range(len(stages))):
        windows, layers, included = stages[number]
        if number < len(stages) - 1:
            joint = spread(joint, windows[0].rows, windows[0].columns)
        for index in reversed(range(len(layers))):
            places = windows[index].places().to(joint.device)
            joint = torch.where(included[index], step(joint, layers[index], places), joint)
    return joint
