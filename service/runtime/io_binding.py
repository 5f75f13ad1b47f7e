"""Runs with onnxruntime's I/O binding, on memory that stays where it is: in place, on a device, or as bits.

Only this module and `session.py` import onnxruntime.
"""

import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort

from contract.manifest import Dtype, Graph
from service.arrays import Array

ONNX_BFLOAT16 = 16
"""The number that ONNX gives to the type bfloat16."""


def storage(dtype: Dtype) -> "np.dtype[Any]":
    """Return the type of numpy array that holds the values of a port.

    Numpy has no bfloat16: its bits are held as uint16, a type that no port has otherwise.
    """
    return np.dtype(np.uint16 if dtype == "bfloat16" else dtype)


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
    binding = Binding(session, lambda: contextlib.nullcontext(options), given, {}, wanted, held)
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

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Run the graph: arrays by input name -> arrays by output name, with as many rows."""
        count, most = len(next(iter(feed.values()))), self.sizes[-1]
        parts = [
            self._run({name: array[start : start + most] for name, array in feed.items()})
            for start in range(0, count, most)
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        count = len(next(iter(feed.values())))
        size = next(size for size in self.sizes if size >= count)
        if size not in self._batches:
            # 0 is the id of runs that name none, and -1 means that nothing is captured
            self._batches[size] = _Batch(self._session, self._graph, self._place, size, self.sizes.index(size) + 1)
        found = self._batches[size].run(feed)  # may be views of buffers that the next run overwrites
        return {name: array[:count].copy() for name, array in found.items()}


class _Batch:
    """The buffers of one batch size, on the host and on the device, and the id of the CUDA graph recorded with them."""

    def __init__(self, session: ort.InferenceSession, graph: Graph, place: str, size: int, number: int) -> None:
        def shape(axes: Sequence[int | str]) -> list[int]:
            return [axis if isinstance(axis, int) else size for axis in axes]

        self._session = session
        self._host = {port.name: np.zeros(shape(port.axes), storage(port.dtype)) for port in graph.inputs}
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
        self._options = ort.RunOptions()
        self._options.add_run_config_entry("gpu_graph_id", str(number))

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Run with these rows at the front of the buffers. The rows behind them are of an earlier run and unused."""
        for name, array in feed.items():
            self._host[name][: len(array)] = array
            self._given[name].update_inplace(self._host[name])
        self._session.run_with_iobinding(self._binding, self._options)
        return {name: value.numpy() for name, value in self._found.items()}


class Binding:
    """Runs of a session whose large inputs stay where they are.

    `held` are these inputs, by name. `same` maps an input to the output that is written over it. `wanted` are the
    outputs that `run` returns, and `into`, if given, holds the arrays that other outputs are written to.
    """

    def __init__(
        self,
        session: ort.InferenceSession,
        stoppable: Callable[[], contextlib.AbstractContextManager[ort.RunOptions]],
        held: Mapping[str, Array],
        same: Mapping[str, str],
        wanted: Sequence[str],
        into: Mapping[str, Array] | None = None,
    ) -> None:
        self._session, self._stoppable, self._wanted, into = session, stoppable, wanted, into or {}
        self._held = [*held.values(), *into.values()]  # the runtime holds their addresses, but does not keep them alive
        self._binding = session.io_binding()
        for name, array in held.items():
            self._binding.bind_input(name, *_place(array))
            if name in same:
                self._binding.bind_output(same[name], *_place(array))
        for name, array in into.items():
            self._binding.bind_output(name, *_place(array))
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


def _place(array: Array) -> tuple[str, int, Any, tuple[int, ...], int]:
    kind = ONNX_BFLOAT16 if array.dtype == np.uint16 else array.dtype
    return "cpu", 0, kind, array.shape, array.ctypes.data
