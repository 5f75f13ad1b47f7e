"""The memory of a decode step: the rows of a running batch, whose caches a step writes in place."""

from collections.abc import Mapping, Sequence

import numpy as np

from contract.manifest import COUNT, LIKELIEST, TOKENS, Generation, Port
from service.arrays import Array
from service.runtime.io_binding import Binding, storage
from service.runtime.session import Session

SLOTS = 16
"""Lengths of caches and sources are multiples of this, so that the runtime sees few shapes."""


class KVCache:
    """Rows 0 to `count`, each with the caches that a step takes and returns, and with what it reads of its source.

    All lie in buffers with room for more rows; a step is given the front of them, as input and as output, and writes
    one token a row. A row that leaves is replaced by the last one, and rows that continue others take over their
    tokens: nothing else is copied, but where a batch outgrows its buffers.
    """

    def __init__(self, decode: Session, generation: Generation) -> None:
        self.count = 0
        self.vocabulary = int(decode.graph.outputs[0].axes[-1])
        self._decode = decode
        self._logits = decode.graph.outputs[0].name
        self._caches = {cache.past: cache.present for cache in generation.caches}
        stepped = {"token", "position", COUNT}
        self._ports = {port.name: port for port in decode.graph.inputs if port.name not in stepped}
        self._buffers: dict[str, Array] = {}
        self._capacity = 0
        self._binding: Binding | None = None
        self._bound = (0, 0, False)
        """How many rows the binding is of, how many likeliest tokens of each, and whether their logits too."""

    @property
    def names(self) -> list[str]:
        """What each row has, by the names of the step's inputs."""
        return list(self._ports)

    def buffer(self, name: str) -> Array:
        """Return what all rows have of one input."""
        return self._buffers[name][: self.count]

    def join(self, rows: int, fresh: Mapping[str, Array], lengths: Mapping[str, int]) -> list[int]:
        """Add rows and return which they are; `lengths` of axes are what all rows need now, caches grow as they fill.

        What is not given, or is shorter than its room, is zeros behind.
        """
        self._make_room(self.count + rows, lengths)
        for name, buffer in self._buffers.items():
            new = buffer[self.count : self.count + rows]
            new[...] = 0
            if name in fresh:
                new[tuple(map(slice, fresh[name].shape))] = fresh[name]
        self.count += rows
        return list(range(self.count - rows, self.count))

    def leave(self, rows: Sequence[int]) -> dict[int, int]:
        """Drop rows; return which other rows have moved, and where to."""
        moved: dict[int, int] = {}
        places = {row: row for row in range(self.count)}  # what stands where
        for row in sorted(rows, reverse=True):
            last = self.count - 1
            if row != last:
                for buffer in self._buffers.values():
                    buffer[row] = buffer[last]
                places[row] = places[last]
                moved[places[row]] = row
            self.count -= 1
        if not self.count:
            self._buffers, self._binding = {}, None
        return moved

    def continue_from(self, rows: Sequence[int], parents: Sequence[int], start: int, end: int) -> None:
        """Let each row hold the tokens of its parent, of which those before `start` and after `end` are its own."""
        changed = [(row, parent) for row, parent in zip(rows, parents, strict=True) if row != parent]
        if changed:
            into, out_of = map(list, zip(*changed, strict=True))
            for name in self._caches:
                buffer = self._buffers[name]
                buffer[into, :, start:end] = buffer[out_of, :, start:end]

    def step(
        self, tokens: Sequence[int], positions: Sequence[int], wanted: int, *, everything: bool
    ) -> tuple[Array, Array, Array | None]:
        """Take one token a row, each at its position, which it then holds.

        Return the log-probabilities and indices of the `wanted` likeliest next tokens, both (rows, wanted), and the
        logits (rows, vocabulary) if `everything` is.
        """
        if max(positions) >= self._capacity:
            self._make_room(self.count, {"capacity": max(positions) + 1})
        wanted = min(wanted, self.vocabulary)
        now = (self.count, wanted, everything)  # the runtime writes outputs where it did before, whatever their shape
        if self._binding is None or self._bound != now:
            self._binding, self._bound = self._bind(everything=everything), now
        feed = {
            "token": np.array(tokens, np.int64),
            "position": np.array(positions, np.int64),
            COUNT: np.array([wanted], np.int64),
        }
        out = self._binding.run(feed)
        return out[LIKELIEST], out[TOKENS], out.get(self._logits)

    def _bind(self, *, everything: bool) -> Binding:
        held = {name: self.buffer(name) for name in self._buffers}
        wanted = [LIKELIEST, TOKENS, *([self._logits] if everything else [])]
        return self._decode.bind(held, self._caches, wanted)

    def _make_room(self, rows: int, lengths: Mapping[str, int]) -> None:
        """Grow the buffers to so many rows and lengths, or shrink lengths of which less than half is needed."""
        needed = {axis: -(-length // SLOTS) * SLOTS for axis, length in lengths.items()}
        for name, port in self._ports.items():
            old = self._buffers.get(name)
            had = (0,) * len(port.axes) if old is None else old.shape
            shape = [
                _length(before, needed.get(axis, 0)) if isinstance(axis, str) else axis
                for before, axis in zip(had, port.axes, strict=True)
            ]
            shape[0] = had[0] if rows <= had[0] else max(rows, 2 * self.count)
            if old is None or old.shape != tuple(shape):
                self._buffers[name] = self._grown(port, shape, old)
                self._binding = None
            if name in self._caches:
                self._capacity = shape[2]

    def _grown(self, port: Port, shape: Sequence[int], old: Array | None) -> Array:
        buffer = np.zeros(shape, storage(port.dtype))
        if old is not None:
            kept = tuple(slice(min(had, has)) for had, has in zip(old.shape[1:], shape[1:], strict=True))
            buffer[(slice(self.count), *kept)] = old[(slice(self.count), *kept)]
        return buffer


def _length(had: int, needed: int) -> int:
    """Return how long an axis is to be; 0 needed is to stay."""
    return needed if 0 < 2 * needed < had else max(had, needed)
