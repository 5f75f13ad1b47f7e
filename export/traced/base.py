"""A model whose maps are outputs: what all have in common."""

import contextlib
from collections.abc import Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from torch import Tensor, nn

from contract.manifest import POOL, Kind, Method
from model.methods.attribution import entering
from model.parts.attention import KeyValue, Maps, MultiHeadAttention, of_each_head, scaled_dot_product, soft


def pairs(tensors: Sequence[Tensor]) -> list[KeyValue]:
    """Group key, value, key, value, ... in pairs."""
    return list(zip(tensors[::2], tensors[1::2], strict=True))


class Observed(NamedTuple):
    """A model's answers, and for each kind of attention its weights and the values that they weighed, per layer.

    The `answer` is what can be explained, such as the logits of classes; `others` are answered beside it.
    """

    answer: Tensor
    weights: list[list[Tensor]]
    values: list[list[Tensor]]
    others: tuple[Tensor, ...] = ()
    visible: Tensor | None = None
    """Which cells begin in an image that was fitted in, (batch, cell); None if all do."""
    states: Mapping[str, Tensor] = MappingProxyType({})
    """The states of `Traced.states` and `Traced.last_states`, as far as they are watched: `Traced.watched`."""

    @property
    def answers(self) -> tuple[Tensor, ...]:
        """All answers, in the order of the graph's outputs."""
        return self.answer, *self.others


class Traced(nn.Module):
    """A model whose maps are outputs: the base of every graph except the two of generation."""

    stacks: tuple[str, ...] = ()
    """The paths of the stacks whose first states are the input that is explained: all blocks of the model."""
    before: tuple[str, ...] = ()
    """How the paths begin of maps that are made before these stacks."""
    classes: int | None = None
    """How many of the first numbers of the answer's last axis can be explained, if not all of them."""
    fixed: Mapping[str, int] = MappingProxyType({})
    """How many of a kind's first layers have the same maps for every input."""

    def __init__(self, model: nn.Module, kinds: Sequence[Kind]) -> None:
        super().__init__()
        self.model = model
        self.kinds = tuple(kinds)

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values."""
        raise NotImplementedError

    def watched(self, *inputs: Tensor) -> Observed:
        """Run the model; return what `observe` does, and its states."""
        states: dict[str, Tensor] = {}

        def watch(stack: int, layer: int, x: Tensor) -> Tensor:
            states[self.state(self.stacks[stack], layer)] = x
            return x

        def leave(_: nn.Module, __: object, returned: tuple[Tensor, object]) -> None:
            states.update(dict.fromkeys(self.last_states, returned[0]))

        with contextlib.ExitStack() as hooks:
            hooks.enter_context(entering(self.parts(), watch))
            if self.last_states:
                last = self.model.get_submodule(f"{self.stacks[0]}.blocks")[-1]  # type: ignore[index] # a ModuleList
                hooks.enter_context(last.register_forward_hook(leave))
            return self.observe(*inputs)._replace(states=states)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return the answers, all weights, all values, and the states of `states` and `last_states`."""
        observed = self.watched(*inputs)
        named = (observed.states[name] for name in (*self.states, *self.last_states))
        return *observed.answers, *chain(*observed.weights), *chain(*observed.values), *named

    def parts(self) -> list[nn.Module]:
        """Return the modules of `stacks`."""
        return [self.model.get_submodule(path) for path in self.stacks]

    @staticmethod
    def state(stack: str, layer: int) -> str:
        """Return the name of the state that enters a block of a stack."""
        return f"{stack}.blocks.{layer}.input"

    def states_of(self, stack: int) -> list[str]:
        """Return the names of a stack's states that can be explained: of each layer, or of the first of two stacks."""
        return [self.state(self.stacks[stack], layer) for layer in range(self.layers)]

    @property
    def states(self) -> list[str]:
        """The names of all states that can be explained."""
        return [name for stack in range(len(self.stacks)) for name in self.states_of(stack)]

    @property
    def last_states(self) -> list[str]:
        """The name of the states that leave the last block, if states are compared."""
        return [f"{self.stacks[0]}.blocks.output"] if any(kind.compares_states for kind in self.kinds) else []

    @property
    def returned_states(self) -> list[str]:
        """The names of the states after each block, if states are compared."""
        return [*self.states[1:], *self.last_states] if self.last_states else []

    def entered(self, stack: str) -> Kind:
        """Return the kind of attention whose tokens enter a stack."""
        return next(kind for kind in self.kinds if kind.kind == stack.rpartition(".")[2])

    @property
    def pool(self) -> Kind | None:
        """The kind of the one vector that attends to the last states, and is answered."""
        return next((kind for kind in self.kinds if kind.query == POOL), None)

    def carried(self, kind: Kind) -> Kind:
        """Return the kind whose keys the rollout and the relevance of a kind have."""
        return next((one for one in self.kinds if one.name == kind.carried), kind)

    def explained(self, method: Method) -> list[Kind]:
        """Return the kinds that have a method."""
        return [kind for kind in self.kinds if method in kind.methods]

    def stack_of(self, kind: Kind) -> int:
        """Return the number of the stack whose tokens are the keys of a kind: cross-attention reads the encoder's."""
        names = [stack.rpartition(".")[2] for stack in self.stacks]
        return names.index("encoder" if kind.kind == "cross" else kind.kind)

    def stages(self, kind: Kind) -> list[Kind]:
        """Return the kinds through which a kind is carried: the first stage first, itself last."""
        return list(self.kinds[self.kinds.index(self.carried(kind)) : self.kinds.index(kind) + 1])

    @property
    def layers(self) -> int:
        """The number of layers whose states can be explained."""
        return len(self.parts()[0].blocks) if len(self.stacks) == 1 else 1  # type: ignore[arg-type] # a ModuleList

    @property
    def attentions(self) -> dict[str, MultiHeadAttention]:
        """The attentions by the names of their maps, if all are of scaled products and by softmax; else none."""
        parts = dict(self.model.named_modules())
        found = {name: parts.get(name) for kind in self.kinds for name in kind.maps}
        plain = {
            name: part
            for name, part in found.items()
            if type(part) is MultiHeadAttention and part.score is scaled_dot_product and part.select is soft
        }
        return plain if len(plain) == len(found) else {}

    def by_kind(self, maps: Maps) -> list[list[Tensor]]:
        """Return the weights of each kind in the order of its layers."""
        return [[maps[name] for name in kind.maps] for kind in self.kinds]

    def output_projections(self, kind: Kind) -> list[Tensor]:
        """Return the projections (heads x head width, width) after the heads of a kind's attentions.

        Without the method `norm`, which needs them, the list is empty.
        """
        if "norm" not in kind.methods:
            return []
        return [self.model.get_submodule(name).get_parameter("output.weight").detach().T for name in kind.maps]


def values_of(recorded: Sequence[KeyValue], heads: int | None = None) -> list[Tensor]:
    """Return the values of recorded keys and values, those of each of `heads` heads of queries if these share them."""
    return [of_each_head(value, heads) if heads else value for _, value in recorded]
