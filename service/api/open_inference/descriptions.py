"""What the protocol says of the server and its models: metadata, configurations, and the index of the repository."""

from service import VERSION
from service.api.open_inference.infer_request import input_names
from service.api.open_inference.outputs import attention_outputs_of
from service.api.reading.sorts import sort_of
from service.api.tasks.table import task_of
from service.api.tasks.tensors import Output
from service.repository.models.served_model import ServedModel

EXTENSIONS = ("binary_tensor_data", "classification", "model_configuration", "model_repository", "parameters")
PLATFORM = "onnxruntime_onnx"
"""Triton's name for what runs the models."""
CONFIG_TYPES = {"FP32": "TYPE_FP32", "BYTES": "TYPE_STRING"}


def server_metadata() -> dict[str, object]:
    """Return the metadata of the server."""
    return {"name": "regard", "version": VERSION, "extensions": list(EXTENSIONS)}


def inputs_of(served: ServedModel) -> list[Output]:
    """Return the inputs of a model as metadata describe them."""
    return [Output(name, "BYTES", (-1, 1)) for name in input_names(served)]


def model_metadata(served: ServedModel) -> dict[str, object]:
    """Return the metadata of a model. `attention` lists outputs that are computed only when a request names them.

    They are not among `outputs`, all of which a request without names asks for, and a load generator with them.
    """
    return {
        "name": served.manifest.name,
        "versions": [served.manifest.version],
        "platform": PLATFORM,
        "inputs": [_metadata(one) for one in inputs_of(served)],
        "outputs": [_metadata(one) for one in task_of(served).outputs(served)],
        "attention": [_metadata(one) for one in attention_outputs_of(served)],
    }


def model_config(served: ServedModel) -> dict[str, object]:
    """Return the configuration of a model in the form of Triton's, without the first size of each shape."""
    first, *others = inputs_of(served)
    return {
        "name": served.manifest.name,
        "platform": PLATFORM,
        "backend": "onnxruntime",
        "version_policy": {"latest": {"num_versions": 1}},
        "max_batch_size": sort_of(served).most(served.settings),
        "input": [_config(first), *({**_config(one), "optional": True} for one in others)],
        "output": [_config(one) for one in task_of(served).outputs(served)],
        "dynamic_batching": {},
    }


def _metadata(one: Output) -> dict[str, object]:
    return {"name": one.name, "datatype": one.datatype, "shape": list(one.shape)}


def _config(one: Output) -> dict[str, object]:
    return {"name": one.name, "data_type": CONFIG_TYPES[one.datatype], "dims": list(one.shape[1:])}
