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
from torch.fx.node import map_arg

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
    if node.target is ATEN.batch_norm.default:
        return not node.args[5]  # else it has no mean and variance of its own
    if node.target is ATEN.one_hot.default:
        return node.args[1:] not in ((), (-1,))  # else the largest class says how many there are
    if node.target is ATEN.gru_cell.default:
        return len(node.args) == 6
    return node.target in REPLACEMENTS


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
            self.add(_call(before, ATEN.sym_size.int, tensor, axis))
        return self._nodes[str(size)]


def _call(before: Node, called: Callable[..., Any], *arguments: Any, **options: Any) -> Node:  # noqa: ANN401 # those of an operator
    """Insert a node that calls an operator, as a part of the node behind it."""
    with before.graph.inserting_before(before):
        node = before.graph.call_function(called, arguments, options)
    node.meta = {**before.meta, "val": called(*map_arg(arguments, lambda one: one.meta["val"]), **options)}
    return node


def _cast(node: Node, given: list[Any], sizes: _Sizes) -> None:
    """Replace `to` with a type, which is a view where the tensor has that type already."""
    node.target, node.args, node.kwargs = ATEN._to_copy.default, (given[0],), {"dtype": given[1]}


def _reshape(node: Node, given: list[Any], sizes: _Sizes) -> None:
    """Replace `flatten`. It has a translation, which computes every size of the tensor again."""
    tensor, *ends = given
    whole = sizes.of(tensor, node)
    first, last = (end % max(len(whole), 1) for end in (*ends, *(0, -1)[len(ends) :]))
    node.target, node.args = ATEN.reshape.default, (tensor, [*whole[:first], -1, *whole[last + 1 :]])


def _permute(node: Node, given: list[Any], sizes: _Sizes) -> None:
    """Replace `.T`."""
    node.target = ATEN.permute.default
    node.args = (given[0], [*reversed(range(given[0].meta["val"].dim()))])


def _normalize(node: Node, given: list[Any], sizes: _Sizes) -> None:
    """Replace a batch norm by a given mean and variance."""
    normed = _call(node, ATEN._native_batch_norm_legit_no_training.default, *given[:5], *given[6:8])
    node.target, node.args = operator.getitem, (normed, 0)


def _one_hot(node: Node, given: list[Any], sizes: _Sizes) -> None:
    """Replace `one_hot`, without its checks that classes are in range."""
    classes, count = given
    among = _call(node, ATEN.arange.default, count, dtype=torch.int64, device=torch.device("cpu"), pin_memory=False)
    chosen = _call(node, ATEN.eq.Tensor, _call(node, ATEN.unsqueeze.default, classes, -1), among)
    node.target, node.args, node.kwargs = ATEN._to_copy.default, (chosen,), {"dtype": torch.int64}


def _gru_cell(node: Node, given: list[Any], sizes: _Sizes) -> None:
    """Replace a cell of a GRU: the gates reset, update and new of its input, and of its state."""
    x, state, of_x, of_state, *biases = given
    call = functools.partial(_call, node)

    def gates(tensor: Node, weight: Node, bias: Node | None) -> list[Node]:
        together = call(ATEN.linear.default, tensor, weight, bias)
        parts = call(ATEN.unsafe_split.Tensor, together, together.meta["val"].shape[1] // 3, 1)
        return [call(operator.getitem, parts, part) for part in range(3)]

    own, states = gates(x, of_x, biases[0]), gates(state, of_state, biases[1])
    reset, update = (call(ATEN.sigmoid.default, call(ATEN.add.Tensor, states[gate], own[gate])) for gate in range(2))
    new = call(ATEN.tanh.default, call(ATEN.add.Tensor, own[2], call(ATEN.mul.Tensor, states[2], reset)))
    kept = call(ATEN.mul.Tensor, call(ATEN.sub.Tensor, state, new), update)
    node.target, node.args = ATEN.add.Tensor, (kept, new)


REPLACEMENTS: dict[object, Callable[[Node, list[Any], _Sizes], None]] = {
    ATEN.to.dtype: _cast,
    ATEN.flatten.using_ints: _reshape,
    ATEN.numpy_T.default: _permute,
    ATEN.batch_norm.default: _normalize,
    ATEN.one_hot.default: _one_hot,
    ATEN.gru_cell.default: _gru_cell,
}
