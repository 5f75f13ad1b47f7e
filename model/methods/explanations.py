"""Explanations computed from attention: rollout, norms, relevance, diagnostics; each with the paper that defines it.

`weights` are (batch, heads, query, key), as `attend` returns them; a fused map is (batch, query, key).
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def rollout(layers: Sequence[Tensor], included: Tensor, rows: Tensor, among: Tensor | None = None) -> Tensor:
    """Follow attention through layers: Ã = rownorm(A + I), Ã_L ... Ã_1 (Abnar & Zuidema 2020, section 3.1).

    layers (batch, token, token) are fused maps, first to last, parallel ones added up (`add_parallel`). A layer that is
    not `included` (layer) counts as I. Returns the rows (batch, row, token): only those asked for are carried through,
    as `row_vectors` has them.
    """
    eye = torch.eye(layers[0].shape[-1], dtype=layers[0].dtype, device=layers[0].device)
    joint = row_vectors(rows, layers[0], among).expand(layers[0].shape[0], -1, -1)  # (batch, row, token)
    for index in reversed(range(len(layers))):
        mixed = layers[index] + eye
        joint = torch.where(included[index], joint @ (mixed / mixed.sum(-1, keepdim=True)), joint)
    return joint


def row_vectors(rows: Tensor, like: Tensor, among: Tensor | None = None) -> Tensor:
    """Return what a map is multiplied by from the left for each of its rows, (..., row, token): 1 at the row's index.

    A negative index stands for the mean of all rows or, with `among` (batch, token), of those that are True in it.
    `like` is a map (..., token).
    """
    tokens = like.shape[-1]
    single = torch.nn.functional.one_hot(rows.clamp(min=0), tokens).to(like)
    return torch.where(rows[..., None] < 0, 1 / tokens if among is None else _equal_parts(among, like), single)


def mean_of_rows(maps: Tensor, rows: Tensor, among: Tensor | None = None) -> Tensor:
    """Return the rows (row) of maps (batch, ..., query, key); a negative index is a mean, as in `row_vectors`."""
    if among is None:
        mean = maps.mean(-2, keepdim=True)
    else:
        parts = _equal_parts(among, maps)
        mean = parts.reshape(len(parts), *[1] * (maps.ndim - 2), -1) @ maps
    return torch.where((rows < 0)[:, None], mean, maps[..., rows.clamp(min=0), :])


def _equal_parts(among: Tensor, like: Tensor) -> Tensor:
    """Return one over the number of True in each row of among (batch, token) where it is True: (batch, 1, token)."""
    chosen = among.to(like)
    return (chosen / chosen.sum(-1, keepdim=True))[:, None]


def add_parallel(maps: Sequence[Tensor], included: Tensor, count: int) -> tuple[list[Tensor], Tensor]:
    """Add up each `count` consecutive maps, which are parallel in one layer: x + Σ A x (Touvron et al. 2022).

    Maps that are not `included` (map) add nothing. Returns the layers, and which of them have an included map.
    """
    if count == 1:
        return list(maps), included
    counted = [torch.where(included[index], one, 0) for index, one in enumerate(maps)]
    layers = [torch.stack(counted[first : first + count]).sum(0) for first in range(0, len(maps), count)]
    return layers, included.reshape(-1, count).any(1)


def discard(fused: Tensor, ratio: Tensor) -> Tensor:
    """Set the ⌊ratio n²⌋ smallest entries of each fused map (batch, n, n) to 0, except those of the first key.

    Exactly ⌊ratio n²⌋ entries are chosen, smallest first, ties by index, row by row. Entries of the first key are
    counted among the chosen ones but are not set to 0. This is the intention of vit-explain (Gildenblat 2020), for
    every image of a batch and without the class token.
    """
    size = fused.shape[-1]
    flat = fused.flatten(1)  # (batch, n²)
    order = flat.argsort(dim=1, stable=True)
    first = torch.arange(size * size, device=fused.device) < (ratio * (size * size)).floor()
    kept = torch.where(first & (order % size != 0), torch.zeros_like(flat), flat.gather(1, order))
    return flat.scatter(1, order, kept).reshape(fused.shape)


def sink(weights: Tensor, patches: slice) -> Tensor:
    """The weight that all rows together give to one patch, max_k E_q A(q, k), by head: (batch, heads).

    A head that gives most of it to one patch adds much the same to every token: a bias, of which the patch is the place
    and not the source (compare Darcet et al. 2024, arXiv 2309.16588, who find such patches by their norms).
    """
    return weights.mean(2)[..., patches].amax(-1)


def without_sinks(weights: Tensor, patches: slice, share: Tensor) -> Tensor:
    """Return weights in which each head whose `sink` is above `share` has the mean weights of the others.

    So the mean, the largest and the least of all heads are those of the others. Where all are above, all stay.
    """
    kept = (sink(weights, patches) <= share)[:, :, None, None]
    kept = kept | ~kept.any(1, keepdim=True)
    others = (weights * kept).sum(1, keepdim=True) / kept.sum(1, keepdim=True)
    return torch.where(kept, weights, others)


def norms(weights: Tensor, value: Tensor, output: Tensor) -> Tensor:
    """The length of each key's contribution to each query: ‖Σ_h a_h f_h(x)‖, f_h(x) = value_h W_h.

    Kobayashi et al. 2020, section 3.1, which leaves the output projection's bias out. value (batch, heads, key, width
    of a head); output (heads x width of a head, width) is that projection. Computed as aᵀ G a with a Gram matrix for
    each key, so that (heads, query, key, width) is never held. Returns (batch, query, key).
    """
    added = value @ output.reshape(value.shape[1], value.shape[3], -1)  # (batch, heads, key, width)
    added = added.transpose(1, 2)  # (batch, key, heads, width)
    gram = added @ added.transpose(2, 3)  # (batch, key, heads, heads)
    alpha = weights.permute(0, 3, 2, 1)  # (batch, key, query, heads)
    return ((alpha @ gram) * alpha).sum(-1).clamp(min=0).sqrt().transpose(1, 2)


def relevance_of(weights: Tensor, gradient: Tensor) -> Tensor:
    """Ā = E_h (A ⊙ ∇A)⁺ (Chefer et al., ICCV 2021, equation 5) -> (batch, query, key)."""
    return (weights * gradient).clamp(min=0).mean(1)


def relevance(layers: Sequence[Tensor], included: Tensor, rows: Tensor, pooled: Tensor | None = None) -> Tensor:
    """(I + Ā_L) ... (I + Ā_1) (Chefer et al., ICCV 2021, equation 6), and of it the rows (batch, row, token).

    layers (batch, token, token) are Ā, first to last, parallel ones added up (`add_parallel`). A layer that is not
    `included` (layer) counts as I. `row_vectors` says what rows (batch, row) are; but where a vector attends to the
    last states (`pooling.AttentionPool`), a negative index stands for it: one more token, which attends once, behind
    the last layer, and whose Ā is `pooled` (batch, 1, token).
    """
    joint = row_vectors(rows, layers[0])
    if pooled is not None:
        joint = torch.where(rows[..., None] < 0, pooled, joint)
    for index in reversed(range(len(layers))):
        joint = torch.where(included[index], joint + joint @ layers[index], joint)
    return joint


def bimodal_relevance(
    encoder: Sequence[Tensor], decoder: Sequence[Tensor], cross: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Relevance of target and of source to each target position (Chefer et al., ICCV 2021, equations 6 to 11).

    Each layer is Ā. Returns R (batch, target, target) and (batch, target, source). Self-relevance is carried without
    the identity that it starts from: next to a 1, floats lose what is small, and equation 8 needs R - I.
    """
    ii, qq, qi = torch.zeros_like(encoder[0]), torch.zeros_like(decoder[0]), torch.zeros_like(cross[0])
    for layer in encoder:
        ii = ii + layer + layer @ ii  # (I + Ā) (I + X) - I, where X is R - I
    ii = self_normalized(ii)
    for own, across in zip(decoder, cross, strict=True):
        qq, qi = qq + own + own @ qq, qi + own @ qi
        qi = qi + self_normalized(qq).transpose(1, 2) @ across @ ii
    return qq + torch.eye(qq.shape[-1]).to(qq), qi


LEAST_EVIDENCE = 1e-30
"""The sum of a row of R - I from which equation 8 holds as it is; a smaller sum is divided by this number instead.

Single floats turn numbers below 1.2e-38 into 0. A sum of n numbers that is at least this large therefore loses at most
n x 1e-8 of itself. Very sharp heads give sums such as 1e-97, of which nothing is left.
"""


def self_normalized(evidence: Tensor) -> Tensor:
    """X / rowsum(X) + I of X = R - I (Chefer et al., ICCV 2021, equations 8 and 9), X (batch, token, token).

    A row whose sum is below `LEAST_EVIDENCE` is divided by that instead, so that it goes to the row of I, without a
    jump, as its evidence goes to nothing. The paper does not say what such a row is.
    """
    total = evidence.sum(-1, keepdim=True).clamp(min=LEAST_EVIDENCE)
    return evidence / total + torch.eye(evidence.shape[-1]).to(evidence)


def shares(weights: Tensor) -> Tensor:
    """Make every row a distribution: |a_ij| / Σ_j |a_ij|; a row of zeros stays."""
    size = weights.abs()
    return size / size.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


def entropy(weights: Tensor) -> Tensor:
    """-Σ_j a_ij ln a_ij, in nats -> (batch, heads, query)."""
    return -(weights * torch.where(weights > 0, weights, torch.ones_like(weights)).log()).sum(-1)


def distance(weights: Tensor, places: Tensor, prefix: int) -> Tensor:
    """Mean attention distance of each patch: Σ_j â_ij ‖p_i - p_j‖ (Dosovitskiy et al. 2021, figure 7).

    places (patch, 2) are the patches' centres; â is a without the columns before and behind them, normalised to sum to
    one. Returns (batch, heads, query), in the unit of places; 0 for the rows before and behind the patches.
    """
    apart = (places[:, None] - places).square().sum(-1).sqrt()  # (patch, patch)
    patches = slice(prefix, prefix + len(places))
    among = weights[:, :, patches, patches]
    mean = (among * apart).sum(-1) / among.sum(-1).clamp(min=torch.finfo(weights.dtype).tiny)
    return torch.nn.functional.pad(mean, (prefix, weights.shape[-1] - patches.stop))
