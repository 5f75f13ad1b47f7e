"""Runs with onnxruntime's I/O binding, on memory that stays where it is: in place, on a device, or as bits.

Only this module and `session.py` import onnxruntime.

onnxruntime copies an input that lies in the host's memory to a GPU once, when it is bound, not when the session runs.
What a GPU reads and writes in place must therefore lie in the GPU's memory.
"""

import base64
import contextlib
import ctypes
import functools
import itertools
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import onnxruntime as ort

from contract.manifest import Dtype, Graph
from service.arrays import Array
from service.runtime.providers import PROVIDERS, in_gpu_memory

ONNX_BFLOAT16 = 16
"""The number that ONNX gives to the type bfloat16."""
LARGE_BYTES, COPYING_THREADS = 4 << 20, 4
"""The host's buffers of a recorded batch are filled by several threads if they take at least this number of bytes."""
COPY_ROWS = (
    "CAg6kwEKJAoHZnJvbTAwMAoHcm93czAwMBIIbW92ZWQwMDAiBkdhdGhlcgodCghtb3ZlZDAwMBIHa2VwdDAwMCIISWRlbnRpdHkSCWNvcHlfcm93"
    "c1oVCgdmcm9tMDAwEgoKCAgCEgQKAAoAWhMKB3Jvd3MwMDASCAoGCAcSAgoAYhUKB2tlcHQwMDASCgoICAISBAoACgBCBAoAEBA="
)
"""The graph kept000 = Identity(Gather(from000, rows000)) on bytes, in base64: row i of `kept` becomes row rows[i] of
`from`. All rows are read before one is written, so that `kept` may lie in `from`. (A ScatterND would write to the rows
that move alone, but CUDA copies each row of it in a single thread.) The service has no library that writes graphs; a
test compares this one with its definition."""


def graph_that_copies(count: int) -> bytes:
    """Return the graph that copies rows of `count` arrays: COPY_ROWS with the numbers 000, 001, ...

    Messages of protobuf that follow one another are read as one, which has the nodes of all.
    """
    graph = base64.b64decode(COPY_ROWS)
    return b"".join(graph.replace(b"000", b"%03d" % number) for number in range(count))


def storage(dtype: Dtype) -> "np.dtype[Any]":
    """Return the type of numpy array that holds the values of a port.

    Numpy has no bfloat16: its bits are held as uint16, a type that no port has otherwise.
    """
    return np.dtype(np.uint16 if dtype == "bfloat16" else dtype)


class Place(NamedTuple):
    """Where an array lies that a session reads or writes."""

    device: str
    kind: Any
    """The type of its values: numpy's, or the number that ONNX gives to it."""
    shape: tuple[int, ...]
    address: int
    owner: object
    """What keeps the memory alive. The runtime holds the address only."""


def on_host(array: Array) -> Place:
    """Return the place of a contiguous numpy array."""
    return Place("cpu", _kind(array.dtype), array.shape, array.ctypes.data, array)


def _kind(dtype: "np.dtype[Any]") -> Any:  # noqa: ANN401 # a type of numpy, or a number
    return ONNX_BFLOAT16 if dtype == np.uint16 else dtype


def run_bits(
    session: ort.InferenceSession, graph: Graph, feed: Mapping[str, Array], options: ort.RunOptions
) -> dict[str, Array]:
    """Run a graph that has bfloat16 ports. Their values are given and returned as bits, in uint16 arrays."""
    lengths = {axis: size for port in graph.inputs for axis, size in zip(port.axes, feed[port.name].shape, strict=True)}
    held = {
        port.name: np.empty([lengths.get(axis, axis) for axis in port.axes], np.uint16)
        for port in graph.outputs
        if port.dtype == "bfloat16"
    }
    bits = {name for name, array in feed.items() if array.dtype == np.uint16}
    wanted = [port.name for port in graph.outputs if port.name not in held]
    given = {name: np.ascontiguousarray(feed[name]) for name in bits}
    places, into = ({name: on_host(array) for name, array in arrays.items()} for arrays in (given, held))
    binding = Binding(session, lambda: contextlib.nullcontext(options), places, {}, wanted, into)
    return {**binding.run({name: array for name, array in feed.items() if name not in bits}), **held}


class Captured:
    """Runs with CUDA graphs, in batches of 1, 2, 4, 8, ... rows.

    The inputs and outputs of each batch size keep their addresses on the device, so CUDA records the kernel launches of
    the first run and replays them from then on. A batch of more than `most` rows is run in parts.
    """

    def __init__(self, session: ort.InferenceSession, graph: Graph, place: str, most: int) -> None:
        self._session, self._graph, self._place = session, graph, place
        powers = itertools.takewhile(lambda size: size < most, (1 << power for power in itertools.count()))
        self.sizes = (*powers, most)
        self._batches: dict[int, _Batch] = {}

    def run(self, feed: Mapping[str, Array], options: ort.RunOptions) -> dict[str, Array]:
        """Run the graph: arrays by input name -> arrays by output name, with as many rows."""
        count, most = len(next(iter(feed.values()))), self.sizes[-1]
        parts = [
            self._run({name: array[start : start + most] for name, array in feed.items()}, options)
            for start in range(0, count, most)
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _run(self, feed: Mapping[str, Array], options: ort.RunOptions) -> dict[str, Array]:
        count = len(next(iter(feed.values())))
        size = next(size for size in self.sizes if size >= count)
        if size not in self._batches:
            # 0 is the id of runs that name none, and -1 means that nothing is captured
            self._batches[size] = _Batch(self._session, self._graph, self._place, size, self.sizes.index(size) + 1)
        found = self._batches[size].run(feed, options)  # may be views of buffers that the next run overwrites
        return {name: array[:count].copy() for name, array in found.items()}


class _Batch:
    """The buffers of one batch size, on the host and on the device, and the id of the CUDA graph recorded with them."""

    def __init__(self, session: ort.InferenceSession, graph: Graph, place: str, size: int, number: int) -> None:
        def shape(axes: Sequence[int | str]) -> list[int]:
            return [axis if isinstance(axis, int) else size for axis in axes]

        self._session = session
        self._host = {port.name: np.zeros(shape(port.axes), storage(port.dtype)) for port in graph.inputs}
        if place != "cpu":
            for array in self._host.values():
                _lock(array)
        self._given = {name: ort.OrtValue.ortvalue_from_numpy(array, place, 0) for name, array in self._host.items()}
        self._found = {
            port.name: ort.OrtValue.ortvalue_from_shape_and_type(shape(port.axes), storage(port.dtype), place, 0)
            for port in graph.outputs
        }
        self._binding = session.io_binding()
        for name, value in self._given.items():
            self._binding.bind_ortvalue_input(name, value)
        for name, value in self._found.items():
            self._binding.bind_ortvalue_output(name, value)
        self._number = str(number)

    def run(self, feed: Mapping[str, Array], options: ort.RunOptions) -> dict[str, Array]:
        """Run with these rows at the front of the buffers. The rows behind them are of an earlier run and unused."""
        self.fill(feed)
        for name in feed:
            self._given[name].update_inplace(self._host[name])
        options.add_run_config_entry("gpu_graph_id", self._number)
        self._session.run_with_iobinding(self._binding, options)
        return {name: value.numpy() for name, value in self._found.items()}

    def fill(self, feed: Mapping[str, Array]) -> None:
        """Write rows to the front of the buffers on the host. A thread alone does not reach the speed of the memory."""
        for name, array in feed.items():
            front = self._host[name][: len(array)]
            if array.nbytes < LARGE_BYTES:
                front[...] = array
            else:
                parts = (np.array_split(whole, COPYING_THREADS) for whole in (front, array))
                list(_copying_threads().map(np.copyto, *parts))


@functools.cache
def _copying_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(COPYING_THREADS, "copying")


def _lock(array: Array) -> None:
    """Lock the memory of an array, so that a GPU copies from it at the speed of the bus.

    onnxruntime's Python interface does not. Where CUDA's library is missing or refuses, copies are only slower.
    """
    with contextlib.suppress(OSError):
        library = ctypes.CDLL(f"libcudart.so.{ort.cuda_version.partition('.')[0]}")
        address = ctypes.c_void_p(array.ctypes.data)
        if library.cudaHostRegister(address, ctypes.c_size_t(array.nbytes), 0) == 0:
            # (the memory that comes to lie at this address next is not locked)
            weakref.finalize(array, library.cudaHostUnregister, address).atexit = False
        else:
            library.cudaGetLastError()  # clears the error, which the next call of others would be told


class Binding:
    """Runs of a session whose large inputs stay where they are, which must be the memory that the session runs on.

    `held` are these inputs, by name. `same` maps an input to the output that is written over it. `wanted` are the
    outputs that `run` returns, copied to the host, and `into`, if given, holds the places that other outputs are
    written to.
    """

    def __init__(
        self,
        session: ort.InferenceSession,
        stoppable: Callable[[], contextlib.AbstractContextManager[ort.RunOptions]],
        held: Mapping[str, Place],
        same: Mapping[str, str],
        wanted: Sequence[str],
        into: Mapping[str, Place] | None = None,
    ) -> None:
        self._session, self._stoppable, self._wanted, into = session, stoppable, wanted, into or {}
        self._held = [*held.values(), *into.values()]
        self._binding = session.io_binding()
        for name, place in held.items():
            self._binding.bind_input(name, place.device, 0, *place[1:4])
            if name in same:
                self._binding.bind_output(same[name], place.device, 0, *place[1:4])
        for name, place in into.items():
            self._binding.bind_output(name, place.device, 0, *place[1:4])
        for name in wanted:
            self._binding.bind_output(name)

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Run with the other inputs; return the wanted outputs by name."""
        for name, array in feed.items():
            self._binding.bind_cpu_input(name, array)
        with self._stoppable() as options:
            self._session.run_with_iobinding(self._binding, options)
        found = self._binding.get_outputs()[-len(self._wanted) :] if self._wanted else []
        return {name: value.numpy() for name, value in zip(self._wanted, found, strict=True)}


class HostRows:
    """An array with one row for each row of a batch, in the host's memory."""

    def __init__(self, values: Array) -> None:
        self.values, self.shape, self.nbytes = values, values.shape, values.nbytes

    def read(self) -> Array:
        """Return the rows; on the host they may be written, too."""
        return self.values

    def write(self, first: int, sources: Sequence[int], fresh: Array | None) -> None:
        """Give rows from `first` on the values `fresh[source]`, at the front of each axis, and zeros elsewhere."""
        _fill(self.values[first : first + len(sources)], sources, fresh)

    def copy(self, sources: Mapping[int, int], slots: slice | None = None) -> None:
        """Copy rows over others, the source over each row; of rows (heads, slots, width), only some slots if given.

        No row is both. (They are copied one by one: numpy copies a list of rows twice.)
        """
        for row, source in sources.items():
            if slots is None:
                self.values[row] = self.values[source]
            else:
                self.values[row, :, slots] = self.values[source, :, slots]

    def front(self, count: int) -> Place:
        """Return the place of the first rows."""
        return on_host(self.values[:count])


class RowCopy(NamedTuple):
    """A copy that is to be made: row i of `kept` becomes row rows[i] of `source`. Both have rows of bytes."""

    kept: Place
    source: ort.OrtValue
    rows: Sequence[int]


class DeviceRows:
    """An array with one row for each row of a batch, in the memory of a GPU, at an address that stays.

    It has the methods of HostRows. Reading and writing cross the bus; copying rows does not, and is put off until the
    next run, so that `copy` may be called while others use the device. Whole rows are copied, whatever `slots` says:
    what a row has in common with another is equal, and slots after its last token are not read. Only bytes are moved,
    so that all types are treated alike.
    """

    def __init__(self, values: Array, device: str) -> None:
        self.shape, self.nbytes = values.shape, values.nbytes
        self._dtype, self._device = values.dtype, device
        self._value = self._uploaded(values)
        self.sources: dict[int, int] = {}
        """The rows to be copied: the row that takes values -> the row that it takes them from."""

    def read(self) -> Array:
        """Return a copy of the rows."""
        settle([self])
        found: Array = self._value.numpy()
        return found.view(self._dtype).reshape(self.shape)

    def write(self, first: int, sources: Sequence[int], fresh: Array | None) -> None:
        """Give rows from `first` on the values `fresh[source]`, at the front of each axis, and zeros elsewhere."""
        settle([self])
        sources = [0] * len(sources) if fresh is None else sources
        sent = list(dict.fromkeys(sources))  # each crosses the bus once
        values = np.empty((len(sent), *self.shape[1:]), self._dtype)
        _fill(values, sent, fresh)
        _copy([self._row_copy(first, self._uploaded(values), [sent.index(source) for source in sources])])

    def copy(self, sources: Mapping[int, int], slots: slice | None = None) -> None:
        """Have rows copied over others, the source over each row, before the next run. No row is both."""
        self.sources |= {row: self.sources.get(source, source) for row, source in sources.items()}

    def put_off(self) -> RowCopy:
        """Return what is to be copied before the next run: of all rows between those that change."""
        first = min(self.sources)
        last = max(self.sources)
        return self._row_copy(first, self._value, [self.sources.get(row, row) for row in range(first, last + 1)])

    def front(self, count: int) -> Place:
        """Return the place of the first rows."""
        shape = (count, *self.shape[1:])
        return Place(self._device, _kind(self._dtype), shape, self._value.data_ptr(), self._value)

    def _uploaded(self, values: Array) -> ort.OrtValue:
        flat = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
        return ort.OrtValue.ortvalue_from_numpy(flat, self._device, 0)

    def _row_copy(self, first: int, source: ort.OrtValue, rows: Sequence[int]) -> RowCopy:
        """Return the copy of these rows of `source`, which may be this array, to the rows from `first` on."""
        row_bytes = self.nbytes // self.shape[0]
        address = self._value.data_ptr() + first * row_bytes
        return RowCopy(Place(self._device, np.uint8, (len(rows), row_bytes), address, self._value), source, rows)


Rows = HostRows | DeviceRows


def rows_for(provider: str, values: Array) -> Rows:
    """Return rows with these values, in the memory that sessions of a provider run on."""
    return DeviceRows(values, "cuda") if in_gpu_memory(provider) else HostRows(values)


def settle(buffers: Iterable[Rows]) -> None:
    """Do what rows on one device have put off until the next run, in one run for all of them."""
    waiting = [one for one in buffers if isinstance(one, DeviceRows) and one.sources]
    if waiting:
        _copy([one.put_off() for one in waiting])
        for waiter in waiting:
            waiter.sources.clear()  # not before: they are still to be copied if that failed


def _copy(copies: Sequence[RowCopy]) -> None:
    session = _copier(copies[0].kept.device, len(copies))
    binding = session.io_binding()
    for number, (kept, source, rows) in enumerate(copies):
        binding.bind_ortvalue_input(f"from{number:03}", source)
        binding.bind_cpu_input(f"rows{number:03}", np.array(rows, np.int64))
        binding.bind_output(f"kept{number:03}", kept.device, 0, *kept[1:4])
    session.run_with_iobinding(binding)


@functools.cache
def _copier(device: str, count: int) -> ort.InferenceSession:
    """Return the session that copies rows of `count` arrays on a device. It lives as long as the process."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    # without Identity, Gather would write over rows that it has yet to read
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4  # errors are raised
    return ort.InferenceSession(graph_that_copies(count), options, [PROVIDERS[device]])


def _fill(rows: Array, sources: Sequence[int], fresh: Array | None) -> None:
    if fresh is None or fresh.shape[1:] != rows.shape[1:]:
        rows[...] = 0
    if fresh is not None:
        front = tuple(map(slice, fresh.shape[1:]))
        for row, source in zip(rows, sources, strict=True):  # one by one: a list of rows would be copied twice
            row[front] = fresh[source]
