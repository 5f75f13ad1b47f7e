"""Attention in the form that BertViz draws (Vig 2019)."""

from typing import Any

import numpy as np

from regard.attention import Attention, KindName
from regard.errors import BadInput, NotInstalled


def keywords(attention: Attention) -> dict[str, Any]:
    """Return keywords for `bertviz.head_view` and `bertviz.model_view`.

    Of self-attention alone: `attention`, a tensor (1, heads, tokens, tokens) for each layer, and `tokens`. Of an
    encoder and a decoder, both with their names before them, and `cross_attention`. A decoder's tokens are those that
    it was fed.
    """
    if attention.objects or any(one.grid for one in attention.maps):
        raise BadInput("bertviz: has no form for a detector's objects, nor for stages whose tokens are merged")
    kinds: list[KindName] = list(dict.fromkeys(one.kind for one in attention.maps))
    if len(kinds) == 1 and kinds[0] != "cross":
        return {"attention": _layers(attention, kinds[0]), "tokens": _tokens(attention, kinds[0])}
    found = {f"{kind}_attention": _layers(attention, kind) for kind in kinds}
    for kind, side in (("encoder", "encoder"), ("decoder", "decoder")):
        found[f"{side}_tokens"] = _tokens(attention, kind)
    return found


def _layers(attention: Attention, kind: KindName) -> list[Any]:
    try:
        import torch
    except ImportError as error:
        raise NotInstalled("bertviz: needs torch; pip install bertviz brings it") from error
    maps = [one for one in attention.maps if one.kind == kind]
    if attention.method != "raw" or [one.layer for one in maps] != list(range(len(maps))) or _is_cut(attention, kind):
        raise BadInput('bertviz: must be of raw maps with layers="all", heads="all" and queries="all", given others')
    return [torch.from_numpy(np.ascontiguousarray(one.values))[None] for one in maps]


def _is_cut(attention: Attention, kind: KindName) -> bool:
    rows = len(_tokens(attention, "decoder" if kind == "cross" else kind))
    return any(
        one.values.shape[1] != rows or one.heads != list(range(len(one.values)))
        for one in attention.maps
        if one.kind == kind
    )


def _tokens(attention: Attention, kind: str) -> list[str]:
    if kind == "encoder" and attention.grid:
        patches = [f"{row},{column}" for row in range(attention.grid[0]) for column in range(attention.grid[1])]
        return [f"[{number}]" for number in range(attention.prefix)] + patches
    found = attention.tokens.get("source" if kind == "encoder" else "target_input", ())
    return [token.text for token in found]
