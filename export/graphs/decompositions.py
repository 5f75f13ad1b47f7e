"""Replace the operators of a traced program that ONNX has no translation for.

`torch.onnx.export` has `ExportedProgram.run_decompositions` do it, which traces the whole program twice more. Our
definitions have few such operators: what stands here replaces single nodes of the graph. A program that has others is
left to PyTorch.
"""

import contextlib
import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias
from unittest import mock

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, Node

Table: TypeAlias = Mapping[Any, Callable[..., Any]]
"""Decompositions by operator: all operators without a translation, but for composite ones that may return views."""
Size: TypeAlias = int | Node
"""A size that is fixed, or the node that computes it."""

ATEN: Any = torch.ops.aten
TRANSLATED_VIEWS = {ATEN.reshape.default}
NODES = {"placeholder", "get_attr", "call_function", "output"}


@contextlib.contextmanager
def decomposed_in_place() -> Iterator[None]:
    """Have `torch.onnx.export` replace single nodes for the length of a block, where that is enough."""
    plain = ExportedProgram.run_decompositions

    @functools.wraps(plain)
    def run(program: ExportedProgram, table: Table) -> ExportedProgram:
        return program if _replace(program.graph_module.graph, table) else plain(program, dict(table))

    with mock.patch.object(ExportedProgram, "run_decompositions", run):
        yield


def _replace(graph: Graph, table: Table) -> bool:
    """Replace the nodes of a graph that have no translation. If some cannot be, change nothing and return False."""
    wanting = {node for node in graph.nodes if not _has_translation(node, table)}
    if not all(map(_is_replaceable, wanting)):
        return False
    sizes = _Sizes()
    for node in graph.nodes:
        sizes.add(node)
        if node in wanting:
            REPLACEMENTS[node.target](node, [*node.args], sizes)
    return True


def _has_translation(node: Node, table: Table) -> bool:
    called = node.target
    if not isinstance(called, torch._ops.OpOverload):
        # arithmetic on sizes has one; control flow, whose branches are graphs of their own, is left to PyTorch
        return node.op in NODES and not isinstance(called, torch._ops.HigherOrderOperator)
    if called in table or called._schema.is_mutable:
        return False
    composite = called.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
    aliases = called.is_view or torch.Tag.maybe_aliasing_or_mutating in called.tags
    return not (composite and aliases) or called in TRANSLATED_VIEWS


def _is_replaceable(node: Node) -> bool:
    by_its_batch = node.target is ATEN.batch_norm.default and node.args[5]  # it has no mean and variance of its own
    return node.target in REPLACEMENTS and not by_its_batch


class _Sizes:
    """The nodes that compute the dynamic sizes of a graph, by symbol, as far as the graph was read."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    def add(self, node: Node) -> None:
        """Add a node, or have what needs it use another of the same size, which may be that of another input."""
        if node.target is ATEN.sym_size.int:
            known = self._nodes.setdefault(str(node.meta["val"]), node)
            if known is not node:
                node.replace_all_uses_with(known)

    def of(self, tensor: Node, before: Node) -> list[Size]:
        """Return the sizes of a tensor. A node that computes one of them is made where none is known."""
        return [self._of(tensor, axis, size, before) for axis, size in enumerate(tensor.meta["val"].shape)]

    def _of(self, tensor: Node, axis: int, size: int | torch.SymInt, before: Node) -> Size:
        if isinstance(size, int):
            return size
        if str(size) not in self._nodes:
            self.add(_call(ATEN.sym_size.int, (tensor, axis), size, before))
        return self._nodes[str(size)]


def _call(called: torch._ops.OpOverload, arguments: tuple[Any, ...], value: object, before: Node) -> Node:
    """Insert a node that calls an operator and returns what `value` stands for, as a part of the node behind it."""
    with before.graph.inserting_before(before):
        node = before.graph.call_function(called, arguments)
    node.meta = {**before.meta, "val": value}
    return node


def _cast(node: Node, given: list[Any], sizes: _Sizes) -> None:
    """Replace `to` with a type, which is a view where the tensor has that type already."""
    node.target, node.args, node.kwargs = ATEN._to_copy.default, (given[0],), {"dtype": given[1]}


def _reshape(node: Node, given: list[Any], sizes: _Sizes) -> None:
    """Replace `flatten`. It has a translation, which computes every size of the tensor again."""
    tensor, *ends = given
    whole = sizes.of(tensor, node)
    first, last = (end % len(whole) for end in (*ends, *(0, -1)[len(ends) :]))
    node.target, node.args = ATEN.reshape.default, (tensor, [*whole[:first], -1, *whole[last + 1 :]])


def _permute(node: Node, given: list[Any], sizes: _Sizes) -> None:
    """Replace `.T`."""
    node.target = ATEN.permute.default
    node.args = (given[0], [*reversed(range(given[0].meta["val"].dim()))])


def _normalize(node: Node, given: list[Any], sizes: _Sizes) -> None:
    """Replace a batch norm by a given mean and variance."""
    tensors, momentum, epsilon = given[:5], given[6], given[7]
    norm = ATEN._native_batch_norm_legit_no_training.default
    value = norm(*(one and one.meta["val"] for one in tensors), momentum, epsilon)
    node.target, node.args = operator.getitem, (_call(norm, (*tensors, momentum, epsilon), value, node), 0)


REPLACEMENTS: dict[object, Callable[[Node, list[Any], _Sizes], None]] = {
    ATEN.to.dtype: _cast,
    ATEN.flatten.using_ints: _reshape,
    ATEN.numpy_T.default: _permute,
    ATEN.batch_norm.default: _normalize,
}
