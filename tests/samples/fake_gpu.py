"""A GPU that is imitated on a CPU: memory of its own, of which nothing can be read that was not copied.

It takes the place of onnxruntime in `service/runtime/io_binding.py`. Graphs are computed by the real onnxruntime, on
arrays that this module fetches from the memory of the device and writes back to it. As onnxruntime does, it copies an
input from the host when it is bound, and an output to the host when it has run; it counts what crosses the bus.
Stricter than onnxruntime, it refuses memory that was freed, shapes and types that a graph does not have, and a recorded
run whose inputs or outputs lie elsewhere than when it was recorded.
"""

import contextlib
import ctypes
import weakref

import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper

from contract.generation import COUNT
from service.runtime import io_binding
from service.runtime.providers import PROVIDERS

NAN = 255
"""What memory holds that nobody has written: as floats, it is not a number."""


@contextlib.contextmanager
def fake_gpu(*sessions):
    """Have sessions run on an imitated GPU for the length of a block; yield the GPU."""
    gpu = FakeGPU()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io_binding, "ort", gpu)
        io_binding._copier.cache_clear()
        for session in sessions:
            patch.setattr(session, "_session", FakeSession(gpu, session._session))
            patch.setattr(session, "provider", PROVIDERS["cuda"])
        yield gpu
    io_binding._copier.cache_clear()


class FakeGPU:
    """The device: its memory by address, the bytes that have crossed the bus, and the recorded runs."""

    def __init__(self):
        self._next, self._memory = 1 << 40, {}
        self.to_device = self.to_host = 0
        self.recorded = {}
        self.cuda_version = "0"
        gpu = self

        class OrtValue(FakeOrtValue):
            def __init__(self, *given):
                super().__init__(gpu, *given)

            @classmethod
            def ortvalue_from_numpy(cls, array, place, device_id):
                value = cls(array.shape, array.dtype, place, device_id)
                value.update_inplace(array)
                return value

            ortvalue_from_shape_and_type = classmethod(lambda cls, *given: cls(*given))

        self.OrtValue, self.RunOptions, self.SessionOptions = OrtValue, ort.RunOptions, ort.SessionOptions
        self.GraphOptimizationLevel = ort.GraphOptimizationLevel

    def InferenceSession(self, model, options, providers):  # noqa: N802 # onnxruntime's name
        """Load a graph, which the real onnxruntime computes, onto the device."""
        assert providers == [PROVIDERS["cuda"]]
        return FakeSession(self, ort.InferenceSession(model, options, ["CPUExecutionProvider"]))

    def allocate(self, size):
        """Return the address of new memory, which holds what it holds."""
        address, self._next = self._next, self._next + size + 4096
        self._memory[address] = np.full(size, NAN, np.uint8)
        return address

    def free(self, address):
        del self._memory[address]

    def held(self):
        """Return the bytes that are allocated."""
        return sum(map(len, self._memory.values()))

    def at(self, address, dtype, shape):
        """Return the array at an address, as a kernel sees it. Fails where nothing is allocated."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        for start, memory in self._memory.items():
            if start <= address and address + size <= start + len(memory):
                return memory[address - start : address - start + size].view(dtype).reshape(shape)
        raise AssertionError(f"{size} bytes at {address:#x} are not memory of the device")

    def crossed(self):
        """Return the bytes that have crossed the bus since the last call: to the device, and to the host."""
        crossed, self.to_device, self.to_host = (self.to_device, self.to_host), 0, 0
        return crossed


class FakeOrtValue:
    """An array in the memory of the device."""

    def __init__(self, gpu, shape, kind, place, device_id):
        assert (place, device_id) == ("cuda", 0)
        self._gpu, self._shape, self.kind = gpu, tuple(shape), kind
        self._dtype = numpy_type(kind)
        size = int(np.prod(shape)) * self._dtype.itemsize
        self._address = gpu.allocate(size)
        weakref.finalize(self, gpu.free, self._address)

    def update_inplace(self, array):
        assert array.flags.c_contiguous, "onnxruntime ignores strides"
        assert array.shape == self._shape
        assert array.dtype == self._dtype
        self._gpu.to_device += array.nbytes
        self._gpu.at(self._address, self._dtype, self._shape)[...] = array

    def numpy(self):
        found = self._gpu.at(self._address, self._dtype, self._shape).copy()
        assert self.kind != 16, "numpy has no bfloat16"
        self._gpu.to_host += found.nbytes
        return found

    def data_ptr(self):
        return self._address

    def shape(self):
        return list(self._shape)


class OnHost:
    """An output that was copied to the host."""

    def __init__(self, array):
        self._array = array

    def numpy(self):
        return self._array


class FakeBinding:
    """Inputs and outputs by name: where they lie on the device, or a copy that was made when they were bound."""

    def __init__(self, gpu, session):
        self._gpu, self._session = gpu, session
        self.inputs, self.outputs, self.found = {}, {}, {}

    def bind_cpu_input(self, name, array):
        assert array.flags.c_contiguous
        self._session.check(name, array.dtype, array.shape)
        if name == COUNT:  # (the operator TopK reads it on the host, where changes are seen)
            self.inputs[name] = array
            return
        self._gpu.to_device += array.nbytes
        self.inputs[name] = self._gpu.OrtValue(array.shape, array.dtype, "cuda", 0)
        self._gpu.at(self.inputs[name].data_ptr(), array.dtype, array.shape)[...] = array

    def bind_ortvalue_input(self, name, value):
        self.bind_input(name, "cuda", 0, value.kind, value.shape(), value.data_ptr())

    def bind_input(self, name, place, device_id, kind, shape, address):
        self._session.check(name, kind, shape)
        if place == "cpu":
            self.bind_cpu_input(name, from_host(address, kind, shape))
        else:
            self.inputs[name] = (address, kind, tuple(shape))

    def bind_ortvalue_output(self, name, value):
        self.bind_output(name, "cuda", 0, value.kind, value.shape(), value.data_ptr())

    def bind_output(self, name, place="cpu", device_id=0, kind=None, shape=None, address=None):
        if address is not None:
            self._session.check(name, kind, shape)
        self.outputs[name] = None if address is None else (place, address, kind, tuple(shape))

    def get_outputs(self):
        return [self.found.get(name) for name in self.outputs]


class FakeSession:
    """A session whose inputs and outputs are in the memory of the device, unless they are bound on the host."""

    def __init__(self, gpu, real):
        self._gpu, self._real = gpu, real
        self._ports = {port.name: port for port in (*real.get_inputs(), *real.get_outputs())}
        self.get_inputs, self.get_outputs = real.get_inputs, real.get_outputs
        self.ran = 0

    def io_binding(self):
        return FakeBinding(self._gpu, self)

    def check(self, name, kind, shape):
        """Hold an array against the port: its type, its rank and the sizes that are fixed."""
        port = self._ports[name]
        assert port.type == onnx_type(kind), f"{name} is {port.type}, given {onnx_type(kind)}"
        assert len(port.shape) == len(shape), name
        assert all(type(axis) is not int or axis == size for axis, size in zip(port.shape, shape, strict=True)), name

    def run_with_iobinding(self, binding, options=None):
        places = {name: place_of(value) for name, value in (binding.inputs | binding.outputs).items()}
        if number := graph_id(options):
            assert int(number) > 0, "0 and -1 mean something else"
            assert None not in places.values(), "a recorded run has all inputs and outputs on the device"
            assert self._gpu.recorded.setdefault((self, number), places) == places, "recorded at other addresses"
        feed = {name: self._read(value) for name, value in binding.inputs.items()}
        found = self._real.run(list(binding.outputs), feed)
        self.ran += 1
        for (name, place), array in zip(binding.outputs.items(), found, strict=True):
            self._write(binding, name, place, array)

    def run(self, names, feed, options=None):
        """Run from arrays of the host to arrays of the host: everything crosses the bus."""
        found = self._real.run(names, feed, options)
        self._gpu.to_device += sum(array.nbytes for array in feed.values())
        self._gpu.to_host += sum(array.nbytes for array in found)
        return found

    def _read(self, value):
        if isinstance(value, np.ndarray):
            return value
        address, kind, shape = place_of(value)
        return self._gpu.at(address, numpy_type(kind), shape).copy()

    def _write(self, binding, name, place, array):
        if place is None:
            self._gpu.to_host += array.nbytes
            binding.found[name] = OnHost(array)
            return
        where, address, kind, shape = place
        assert shape == array.shape, f"{name} has {array.shape}, bound {shape}"
        if where == "cpu":
            self._gpu.to_host += array.nbytes
            from_host(address, kind, shape)[...] = array
        else:
            self._gpu.at(address, numpy_type(kind), shape)[...] = array


def graph_id(options):
    """Return the id of the recorded run that options name; None if they name none."""
    with contextlib.suppress(RuntimeError):
        return options.get_run_config_entry("gpu_graph_id") if options else None


def place_of(value):
    """Return the address, type and shape of what is bound on the device; None if it is on the host."""
    if isinstance(value, FakeOrtValue):
        return value.data_ptr(), value.kind, tuple(value.shape())
    if isinstance(value, tuple):
        return value if len(value) == 3 else value[1:] if value[0] == "cuda" else None
    return None


def numpy_type(kind):
    return np.dtype(np.uint16 if kind == 16 else kind)


def onnx_type(kind):
    """Return onnxruntime's name for tensors of a type."""
    if kind == 16:
        return "tensor(bfloat16)"
    name = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    return f"tensor({helper.tensor_dtype_to_string(name).removeprefix('TensorProto.').lower()})"


def from_host(address, kind, shape):
    """Return the array at an address of the host."""
    dtype = numpy_type(kind)
    buffer = (ctypes.c_uint8 * (int(np.prod(shape)) * dtype.itemsize)).from_address(address)
    return np.frombuffer(buffer, dtype).reshape(shape)
