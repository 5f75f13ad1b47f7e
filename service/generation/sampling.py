"""Sampling: a token is drawn among the candidates that cuts leave, those of the transformers library in its order."""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from contract.generation import Sampling
from service.generation.token_selection import ALL_CANDIDATES, LogProbabilities

MOST_CANDIDATES = 256
"""A sampler that needs more candidates than this asks for all."""
LOOKED_AT_BY_TOP_H = 100

Shares: TypeAlias = npt.NDArray[np.float64]
"""(candidates,): probabilities that sum to one, largest first."""
Kept: TypeAlias = npt.NDArray[np.bool_]
Cut: TypeAlias = Callable[[Shares, float], Kept]
"""Returns which candidates are kept; the first is, whatever it says."""


def _top_h(shares: Shares, part: float) -> Kept:
    """Keep the likeliest of 100 whose terms of entropy sum to a part of it (Baghaei Potraghloo et al. 2025)."""
    among = shares[:LOOKED_AT_BY_TOP_H] / shares[:LOOKED_AT_BY_TOP_H].sum()
    terms = _terms(among)
    kept = terms.cumsum() <= terms.sum() * part
    return np.pad(kept, (0, len(shares) - len(kept)))


def _top_k(shares: Shares, count: float) -> Kept:
    """Keep a number of the likeliest (Fan et al. 2018)."""
    kept: Kept = np.arange(len(shares)) < count
    return kept


def _top_p(shares: Shares, mass: float) -> Kept:
    """Keep the likeliest until their mass is reached (Holtzman et al. 2020)."""
    kept: Kept = np.concatenate([[0.0], shares.cumsum()[:-1]]) < mass
    return kept


def _min_p(shares: Shares, part: float) -> Kept:
    """Keep those that have a part of the largest share (Nguyen et al. 2024)."""
    kept: Kept = shares >= part * shares[0]
    return kept


def _typical_p(shares: Shares, mass: float) -> Kept:
    """Keep those whose information is nearest to the entropy until their mass is reached (Meister et al. 2023)."""
    with np.errstate(divide="ignore"):
        away = np.abs(-np.log(shares) - _terms(shares).sum())
    order = np.argsort(away, kind="stable")
    place = min(int((shares[order].cumsum() < mass).sum()), len(shares) - 1)
    kept: Kept = away <= away[order[place]]
    return kept


def _epsilon_cutoff(shares: Shares, least: float) -> Kept:
    """Keep those that have at least a share (Hewitt et al. 2022)."""
    return shares >= least


def _eta_cutoff(shares: Shares, least: float) -> Kept:
    """Keep those that have at least a share, which is smaller where the entropy is large (Hewitt et al. 2022)."""
    return shares >= min(least, math.sqrt(least) * math.exp(-_terms(shares).sum()))


def _terms(shares: Shares) -> Shares:
    """Return the terms of the entropy."""
    return -shares * np.log(np.where(shares > 0, shares, 1.0))


CUTS: dict[str, Cut] = {
    "top_h": _top_h,
    "top_k": _top_k,
    "top_p": _top_p,
    "min_p": _min_p,
    "typical_p": _typical_p,
    "epsilon_cutoff": _epsilon_cutoff,
    "eta_cutoff": _eta_cutoff,
}
"""The fields of `Sampling` that leave out candidates, in the order in which they do. Each sees what the last left."""

OFF_AT_ONE = ("top_p", "typical_p", "epsilon_cutoff", "eta_cutoff")


class Sampler:
    """Samples from softmax(logits / temperature), from which the cuts leave out what is unlikely."""

    def __init__(self, sampling: Sampling, seed: int | None) -> None:
        needed = max(sampling.top_k or 0, LOOKED_AT_BY_TOP_H if sampling.top_h else 0)
        self.wants = ALL_CANDIDATES if sampling.top_k is None or needed > MOST_CANDIDATES else needed
        self._temperature = sampling.temperature
        asked = ((name, cut, getattr(sampling, name)) for name, cut in CUTS.items())
        self._cuts = [(cut, value) for name, cut, value in asked if value and (value != 1 or name not in OFF_AT_ONE)]
        self._random = np.random.default_rng(seed)

    def __call__(self, logs: LogProbabilities) -> int:
        """Return the index of a sampled candidate."""
        order, shares = self.shares(logs)
        return int(order[self._random.choice(len(shares), p=shares)])

    def shares(self, logs: LogProbabilities) -> tuple[npt.NDArray[np.intp], Shares]:
        """Return the indices of the candidates that may be drawn, and their probabilities, largest first."""
        order = np.argsort(-logs, kind="stable")
        with np.errstate(over="ignore"):  # close to temperature 0 all weights but the largest vanish, as they should
            shares = np.exp((logs[order] - logs[order[0]]) / self._temperature)
        shares /= shares.sum()
        for cut, value in self._cuts:
            kept = cut(shares, value)
            kept[0] |= not kept.any()
            order, shares = order[kept], shares[kept] / shares[kept].sum()
        return order, shares
