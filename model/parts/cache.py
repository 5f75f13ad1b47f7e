"""Caches of keys and values for decoding one token at a time."""

from collections.abc import Sequence

import torch
from torch import Tensor

from model.parts.attention import KeyValue, Recall, visible_keys


def recording(seen: list[KeyValue]) -> Recall:
    """Return a recall that adds nothing to what it is given, and appends it to `seen`: one entry for each block."""

    def record(new: KeyValue) -> KeyValue:
        seen.append(new)
        return new

    return record


class Slots:
    """Caches with room for `capacity` tokens, each row filled up to a position of its own.

    past (batch, heads, capacity, width of a head) each, position (batch) below capacity. What lies behind a row's
    position has no weight, but must be finite. Once the blocks have used `recalls`, `present` holds the caches with the
    tokens of this step in them.
    """

    def __init__(self, past: Sequence[KeyValue], position: Tensor) -> None:
        batch, heads, capacity, _ = past[0][0].shape
        row = torch.arange(batch, device=position.device)[:, None]
        head = torch.arange(heads, device=position.device)[None]
        self._here = (row, head, position[:, None])  # (batch, heads)
        self.index = torch.arange(capacity, device=position.device)
        self.visible = visible_keys(self.index <= position[:, None])  # (batch, 1, 1, capacity)
        self.present: list[KeyValue] = []
        self.recalls: list[Recall] = [self._recall(cache) for cache in past]

    def _recall(self, cache: KeyValue) -> Recall:
        def recall(new: KeyValue) -> KeyValue:
            # only this slot is written, so that a cache may be updated in place
            key, value = (old.index_put(self._here, fresh[:, :, 0]) for fresh, old in zip(new, cache, strict=True))
            self.present.append((key, value))
            return key, value

        return recall


def before(past: Tensor, position: Tensor, count: int) -> Tensor:
    """Return the `count` slots before each row's position (batch, count, width); zeros where a row has fewer.

    past (batch, 1, capacity, width), position (batch).
    """
    row = torch.arange(past.shape[0], device=past.device)[:, None]
    slot = position[:, None] - count + torch.arange(count, device=past.device)  # (batch, count)
    return torch.where(slot[:, :, None] < 0, 0, past[row, 0, slot.clamp(min=0)])


def put(past: Tensor, position: Tensor, new: Tensor) -> Tensor:
    """Return past (batch, 1, capacity, width) with new (batch, width) in the slot at each row's position."""
    row = torch.arange(past.shape[0], device=past.device)
    return past.index_put((row, torch.zeros_like(row), position), new)
