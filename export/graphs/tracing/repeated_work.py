"""Spare a trace what PyTorch would do again: a third of its time for models of a few layers.

`torch.onnx.export` reads the table of its translations anew for each trace, and runs every node of a program again to
find those whose arguments are of different types. The graph is the same to the byte without.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any
from unittest import mock

from torch.fx import Node
from torch.onnx._internal.exporter._registration import ONNXRegistry
from torch.onnx._internal.fx.passes import type_promotion

Interpreter: Any = type_promotion._TypePromotionInterpreter


@contextlib.contextmanager
def without_repeated_work() -> Iterator[None]:
    """Have `torch.onnx.export` keep the table of its translations, and run only the nodes whose types it changes."""
    with (
        mock.patch.object(ONNXRegistry, "from_torchlib", staticmethod(_translations)),
        mock.patch.object(Interpreter, "run_node", _promoted),
    ):
        yield


_read = functools.cache(ONNXRegistry.from_torchlib)


def _translations(opset_version: int) -> ONNXRegistry:
    """Return a copy of the table, to which a trace adds translations of its own."""
    table = ONNXRegistry()
    table._opset_version = opset_version
    table.functions = {operator: [*ways] for operator, ways in _read(opset_version).functions.items()}
    return table


def _promoted(self: Any, node: Node) -> Any:  # noqa: ANN401 # an interpreter, and what a node returns
    """Promote the types of a node's arguments; run the node only where its value is not known: promotion keeps it."""
    if rule := type_promotion.get_type_promotion_rule(node, self.type_promotion_table):
        with self._set_current_node(node):
            self._maybe_promote_node(node, rule)
    if node.op == "call_function" and "val" in node.meta:
        return node.meta["val"]
    return super(Interpreter, self).run_node(node)
