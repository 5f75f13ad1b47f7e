"""The key-value cache of the decode loop: the rows of the running batch, whose caches a step writes in place."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from contract.generation import COUNT, LIKELIEST, TOKENS, Generation
from contract.manifest import Port
from service.arrays import Array
from service.runtime.io_binding import Binding, Rows, on_host, rows_for, settle, storage
from service.runtime.providers import in_gpu_memory
from service.runtime.session import Session

SLOTS = 16
"""Lengths of caches and sources are rounded up to multiples of this, so that the runtime sees few shapes."""
GPU_SLOTS = 64
"""The same on a GPU, whose caches pass through the host's memory when they grow."""

KEPT_BYTES = 64 << 20
"""Buffers of no more than this stay when a batch ends: the first write to memory that is new takes longer than others.
On a GPU none stay."""


class KVCache:
    """The rows 0 to `count` of the batch: the caches that a step reads and extends, and the inputs from their source.

    They are held in buffers with room for more rows, in the memory that the graph runs on. A step is given the front of
    the buffers, as input and as output, and writes one token for each row. When a row leaves, the last row takes its
    place; where several hypotheses continue one row, tokens are copied to the others. Nothing else is copied, unless a
    batch outgrows its buffers. They stay for the next batch, unless they are large.
    """

    def __init__(self, decode: Session, generation: Generation) -> None:
        self.count = 0
        self.vocabulary = int(decode.graph.outputs[0].axes[-1])
        self._decode = decode
        self._logits = decode.graph.outputs[0].name
        self._caches = {cache.past: cache.present for cache in generation.caches}
        given_by_step = {"token", "position", COUNT}
        self._ports = {port.name: port for port in decode.graph.inputs if port.name not in given_by_step}
        self._on_gpu = in_gpu_memory(decode.provider)
        self._slots, self._kept_bytes = (GPU_SLOTS, 0) if self._on_gpu else (SLOTS, KEPT_BYTES)
        self._token_bytes = [
            math.prod(axis for axis in port.axes if isinstance(axis, int)) * storage(port.dtype).itemsize
            for port in self._ports.values()
        ]
        """What a token of a row takes of each input; an input without an axis of tokens counts as one token."""
        self._buffers: dict[str, Rows] = {}
        self._capacity = self._filled = 0
        self.most = 0
        """The slots that the rows may come to need: caches grow no further. Set when rows join or leave."""
        self._binding: Binding | None = None
        self._given: dict[str, Array] = {}
        """What a step reads beside the rows: a token of each and its position."""
        self._found: dict[str, Array] = {}
        """What a step writes its results to."""
        self._bound_for = (0, 0, False)
        """What the binding is for: the number of rows, the number of candidates, and whether logits are returned."""

    def row_bytes(self, capacity: int, source: int) -> int:
        """Return what a row takes: caches by their slots, and what it holds of a source by its tokens."""
        lengths = [
            capacity if name in self._caches else source if any(isinstance(axis, str) for axis in port.axes[1:]) else 1
            for name, port in self._ports.items()
        ]
        return sum(length * size for length, size in zip(lengths, self._token_bytes, strict=True))

    @property
    def full(self) -> bool:
        """True if the caches must grow before the next step."""
        return self.count > 0 and self._filled >= self._capacity

    def next_capacity(self, needed: int, most: int) -> int:
        """Return the slots that rows will have for `needed` tokens, of which there may be `most` at last.

        Caches grow by half, since all that they hold is copied each time.
        """
        if self.count and needed <= self._capacity:
            return self._capacity
        return self._rounded(max(needed, min(self._capacity * 3 // 2, most) if self.count else 0))

    @property
    def names(self) -> list[str]:
        """The names of the inputs of a step that each row holds."""
        return list(self._ports)

    def buffer(self, name: str) -> Array:
        """Return the rows of one input: a view in the host's memory, or a copy of what lies on a device."""
        return self._buffers[name].read()[: self.count]

    def join(
        self, sources: Sequence[int], fresh: Mapping[str, Array], lengths: Mapping[str, int], most: int
    ) -> list[int]:
        """Add a row for each of `sources`, which has that row of the inputs `fresh`, by name; return their numbers.

        `lengths` are the lengths of axes that all rows need now; caches grow as they fill, up to `most` slots. Inputs
        that are not given are zeros, and shorter ones are padded with zeros at the end.
        """
        self.most = most
        self._filled = 0
        self._make_room(self.count + len(sources), lengths)
        for name, buffer in self._buffers.items():
            buffer.write(self.count, sources, fresh.get(name))
        self.count += len(sources)
        return list(range(self.count - len(sources), self.count))

    def leave(self, rows: Sequence[int]) -> dict[int, int]:
        """Remove rows; return the old and new numbers of the rows that have moved."""
        moved: dict[int, int] = {}
        places = {row: row for row in range(self.count)}  # the old number of the row at each place
        for row in sorted(rows, reverse=True):
            last = self.count - 1
            if row != last:
                for buffer in self._buffers.values():
                    buffer.copy({row: last})
                places[row] = places[last]
                moved[places[row]] = row
            self.count -= 1
        if not self.count and sum(buffer.nbytes for buffer in self._buffers.values()) > self._kept_bytes:
            self._buffers, self._binding = {}, None
        return moved

    def continue_from(self, held: Mapping[int, Sequence[int]], sources: Sequence[int], first: int) -> list[int]:
        """Return the rows of hypotheses that continue the rows `sources`; several may continue the same.

        `held` are all rows of one search with the tokens that they hold from the position `first` on; what is before it
        they have in common. The first hypothesis that continues a row keeps it. The others get the rows that none
        continues, to which the tokens are copied that differ.
        """
        free = [row for row in held if row not in sources]
        rows = [free.pop(0) if source in sources[:place] else source for place, source in enumerate(sources)]
        copies = {row: source for row, source in zip(rows, sources, strict=True) if row != source}
        if copies:
            common = min(_common_prefix(held[row], held[source]) for row, source in copies.items())
            slots = slice(first + common, first + len(held[rows[0]]))
            for name in self._caches:
                self._buffers[name].copy(copies, slots)
        return rows

    def step(
        self, tokens: Sequence[int], positions: Sequence[int], wanted: int, *, everything: bool
    ) -> tuple[Array, Array, Array | None]:
        """Feed one token to each row, at its position; the caches hold it afterwards.

        Return the log-probabilities and indices of the `wanted` most likely next tokens, both (rows, wanted), and with
        `everything` also the logits (rows, vocabulary). The next step may overwrite them.
        """
        if max(positions) >= self._capacity:
            self._grow(max(positions) + 1)
        self._filled = max(positions) + 1
        wanted = min(wanted, self.vocabulary)
        needed = (self.count, wanted, everything)  # the runtime writes to the same memory, whatever the shape
        if self._binding is None or self._bound_for != needed:
            self._binding, self._bound_for = self._bind(wanted, everything=everything), needed
        settle(self._buffers.values())
        self._given["token"][:] = tokens
        self._given["position"][:] = positions
        self._binding.run(self._given if self._on_gpu else {})
        return self._found[LIKELIEST], self._found[TOKENS], self._found.get(self._logits)

    def _bind(self, wanted: int, *, everything: bool) -> Binding:
        held = {name: buffer.front(self.count) for name, buffer in self._buffers.items()}
        self._given = {name: np.zeros(self.count, np.int64) for name in ("token", "position")}
        # what is bound on the host is read there in each run; to a GPU it is copied when it is bound, and never again
        stays = {COUNT: np.array([wanted], np.int64), **({} if self._on_gpu else self._given)}
        held |= {name: on_host(array) for name, array in stays.items()}
        names = {LIKELIEST, TOKENS, *([self._logits] if everything else [])}
        lengths = {"batch": self.count, COUNT: wanted}
        self._found = {}
        for port in self._decode.graph.outputs:
            if port.name in names:
                shape = [lengths[axis] if isinstance(axis, str) else axis for axis in port.axes]
                self._found[port.name] = np.empty(shape, storage(port.dtype))
        into = {name: on_host(array) for name, array in self._found.items()}
        return self._decode.bind(held, self._caches, into)

    def _grow(self, needed: int) -> None:
        self._make_room(self.count, {"capacity": self.next_capacity(needed, self.most)})

    def _make_room(self, rows: int, lengths: Mapping[str, int]) -> None:
        """Grow the buffers to these rows and lengths. A length shrinks if less than half of it is needed.

        A buffer that is made anew has room for twice the rows that it holds, but gets more room for rows than before
        only if they are needed.
        """
        held = self._held_lengths()
        needed = {axis: self._rounded(length) for axis, length in lengths.items()}
        try:
            for name, port in self._ports.items():
                old = self._buffers.get(name)
                had = (0,) * len(port.axes) if old is None else old.shape
                shape = [
                    _length(held.get(axis, 0), needed.get(axis, 0)) if isinstance(axis, str) else axis
                    for axis in port.axes
                ]
                shape[0] = max(rows, 2 * self.count)
                if rows <= had[0]:
                    shape[0] = had[0] if tuple(shape[1:]) == had[1:] else min(had[0], shape[0])
                if old is None or old.shape != tuple(shape):
                    self._buffers[name] = self._grown(port, shape, old)
                    self._binding = None
        finally:  # without memory for some of them, those that run go on with what all hold
            lengths_held = (self._buffers[name].shape[2] for name in self._caches if name in self._buffers)
            self._capacity = min(lengths_held, default=0)

    def _rounded(self, length: int) -> int:
        return -(-length // self._slots) * self._slots

    def _held_lengths(self) -> dict[str, int]:
        """Return the lengths that all buffers hold: some are longer if there was no memory to grow the others."""
        held: dict[str, int] = {}
        for name, buffer in self._buffers.items():
            for axis, length in zip(self._ports[name].axes, buffer.shape, strict=True):
                if isinstance(axis, str):
                    held[axis] = min(length, held.get(axis, length))
        return held

    def _grown(self, port: Port, shape: Sequence[int], old: Rows | None) -> Rows:
        values = np.zeros(shape, storage(port.dtype))
        if old is not None and self.count:
            common = tuple(slice(min(had, has)) for had, has in zip(old.shape[1:], shape[1:], strict=True))
            values[(slice(self.count), *common)] = old.read()[(slice(self.count), *common)]
        return rows_for(self._decode.provider, values)


def _length(had: int, needed: int) -> int:
    """Return the new length of an axis; 0 needed leaves it as it is."""
    return needed if 0 < 2 * needed < had else max(had, needed)


def _common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the common prefix of two targets of equal length."""
    return next((place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), len(one))
