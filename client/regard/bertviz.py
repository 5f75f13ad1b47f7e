"""Attention in the form that BertViz draws (Vig 2019)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.errors import NotInstalled


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
