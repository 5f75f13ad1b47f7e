"""Attention in the form that BertViz draws (Vig 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.errors import BadInput, NotInstalled
from regard.maps import Looked, Map


def keywords_of(look: Looked) -> dict[str, Any]:
    """Return the keywords of raw maps of all layers and heads, with all rows. Raises BadInput for other maps."""
    if look.objects or any(one.grid for one in look.maps):
        raise BadInput("bertviz: has no form for a detector's objects, nor for stages whose tokens are merged")
    kinds = {one.kind: [other for other in look.maps if other.kind == one.kind] for one in look.maps}
    tokens = {kind: _texts(look, kind) for kind in ("encoder", "decoder", *kinds)}
    if not all(_is_whole(look, maps, len(tokens[kind])) for kind, maps in kinds.items()):
        raise BadInput('bertviz: must be of raw maps with layers="all", heads="all" and queries="all", given others')
    return keywords({kind: [one.values for one in maps] for kind, maps in kinds.items()}, tokens)


def keywords(
    maps: Mapping[str, Sequence[npt.NDArray[np.float32]]], tokens: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return keywords for `bertviz.head_view` and `bertviz.model_view`.

    `maps` are by kind those of each layer, (heads, queries, keys); `tokens` are its rows, of a decoder what it was fed.
    Of self-attention alone: `attention`, a tensor (1, heads, tokens, tokens) for each layer, and `tokens`. Of an
    encoder and a decoder, both with their names before them, and `cross_attention`. Raises NotInstalled without torch.
    """
    try:
        import torch
    except ImportError as error:
        raise NotInstalled("bertviz: needs torch; pip install bertviz brings it") from error
    layers = {kind: [torch.from_numpy(np.ascontiguousarray(one))[None] for one in some] for kind, some in maps.items()}
    if len(layers) == 1 and "cross" not in layers:
        ((kind, alone),) = layers.items()
        return {"attention": alone, "tokens": tokens[kind]}
    sides = {f"{side}_tokens": tokens[side] for side in ("encoder", "decoder")}
    return {f"{kind}_attention": some for kind, some in layers.items()} | sides


def _texts(look: Looked, kind: str) -> list[str]:
    """Return the tokens that are the rows of a kind, as texts; of an image their places."""
    if kind == "encoder" and look.grid:
        patches = [f"{row},{column}" for row in range(look.grid[0]) for column in range(look.grid[1])]
        return [f"[{number}]" for number in range(look.prefix)] + patches
    axes = ("source", "node") if kind == "encoder" else ("target_input",)
    return [token.text for axis in axes for token in look.tokens.get(axis, ())]


def _is_whole(look: Looked, maps: Sequence[Map], rows: int) -> bool:
    """Return whether maps are the weights of all layers and heads, with all rows."""
    return (
        look.method == "raw"
        and [one.layer for one in maps] == list(range(len(maps)))
        and all(one.values.shape[1] == rows and one.heads == list(range(len(one.values))) for one in maps)
    )
