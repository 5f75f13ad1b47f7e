import numpy as np

from contract.manifest import Graph, ImageRule, Manifest
from service.arrays import padded, softmax


def manifest_of(**changes):
    """A small manifest of an image classifier, with changes."""
    graph = {"sha256": "0" * 64, "bytes": 1, "inputs": (), "outputs": ()}
    return Manifest(
        **{
            "name": "toy",
            "version": "1",
            "family": "vit",
            "task": "image-classification",
            "precision": "fp32",
            "graphs": {role: Graph(file=f"{role}.onnx", **graph) for role in ("predict", "attention")},
            "files": (),
            "image": ImageRule(height=4, width=4, channels=1, locate="middle", resize=(4, 4), mean=(0.0,), std=(1.0,)),
            "attention": (),
            "made_by": {},
            "verified": {},
        }
        | changes
    )


def test_shorter_rows_are_padded_with_zeros_or_false():
    assert padded([np.array([1, 2]), np.array([3])]).tolist() == [[1, 2], [3, 0]]
    assert padded([np.array([True]), np.array([True, True])]).tolist() == [[True, False], [True, True]]


def test_softmax_stands_large_logits():
    assert softmax(np.array([1000.0, 1000.0], np.float32)).tolist() == [0.5, 0.5]
