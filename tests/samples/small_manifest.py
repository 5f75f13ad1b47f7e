"""A manifest of a toy classifier, to be changed."""

from contract.input_rules import ImageRule
from contract.manifest import Graph, Manifest


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
            "inputs": (
                ImageRule(height=4, width=4, channels=1, locate="middle", resize=(4, 4), mean=(0.0,), std=(1.0,)),
            ),
            "attention": (),
            "made_by": {},
            "verified": {},
        }
        | changes
    )
