"""Calibration: the ranges of what the matrices of a graph multiply, on sample inputs."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from export.graphs.lowering.int8 import Ranges, quantized_inputs


def measure_ranges(graph: onnx.ModelProto, samples: Sequence[Mapping[str, npt.NDArray[np.generic]]]) -> Ranges:
    """Run a graph in single floats on inputs by name; return the range of every tensor that a matrix multiplies."""
    names = quantized_inputs(graph)
    outputs = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in graph.graph.output]
    del graph.graph.output[:]
    graph.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)
    with tempfile.TemporaryDirectory() as folder:  # a graph in memory is limited to 2 GB
        path = Path(folder, "graph.onnx")
        onnx.save_model(graph, path, save_as_external_data=True, location="weights.bin")
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        onnx.load_external_data_for_model(graph, folder)
        taken = {one.name for one in session.get_inputs()}
        found = np.array([
            [(array.min(), array.max()) for array in session.run(names, {name: one[name] for name in taken})]
            for one in samples
        ])  # fmt: skip
    del graph.graph.output[:]
    graph.graph.output.extend(outputs)
    lows = found[..., 0].min(axis=0).tolist()
    highs = found[..., 1].max(axis=0).tolist()
    return dict(zip(names, zip(lows, highs, strict=True), strict=True))
