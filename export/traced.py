"""The modules that are traced to graphs: each wraps one definition in a few lines, and computes no attention itself."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor, nn

from contract.manifest import Kind, Method
from model.attention import KeyValue, Maps, of_each_head
from model.attention_variants import along_lines
from model.attribution import entering
from model.cache import recording
from model.convolutional import Convolutional
from model.gpt import GPT
from model.recurrent import Recurrent
from model.text_encoder import TextEncoder
from model.transformer import Transformer
from model.vit import ViT


def pairs(tensors: Sequence[Tensor]) -> list[KeyValue]:
    """Group key, value, key, value, ... in pairs."""
    return list(zip(tensors[::2], tensors[1::2], strict=True))


class Normalize(nn.Module):
    """Normalize the bytes of an image as the network was trained: (x / 255 - mean) / std per channel."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Iterable[float], std: Iterable[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(list(mean))[:, None, None])
        self.register_buffer("std", torch.tensor(list(std))[:, None, None])

    def forward(self, pixels: Tensor) -> Tensor:
        """Take pixels (batch, height, width, channels), uint8; return (batch, channels, height, width).

        The channels are moved first: a runtime computes along the last axis, which would have three numbers otherwise.
        """
        return (pixels.to(self.mean.dtype).permute(0, 3, 1, 2) / 255 - self.mean) / self.std


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

    @property
    def answers(self) -> tuple[Tensor, ...]:
        """All answers, in the order of the graph's outputs."""
        return self.answer, *self.others


class Traced(nn.Module):
    """A model whose maps are outputs: the base of every graph except the two of generation."""

    stacks: tuple[str, ...] = ()
    """The paths of the stacks whose first states are the input that is explained: all blocks of the model."""
    classes: int | None = None
    """How many of the first numbers of the answer's last axis can be explained, if not all of them."""
    fixed: Mapping[str, int] = MappingProxyType({})
    """Kinds of attention of whose layers so many, the first ones, have the same maps for every input."""

    def __init__(self, model: nn.Module, kinds: Sequence[Kind]) -> None:
        super().__init__()
        self.model = model
        self.kinds = tuple(kinds)

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values."""
        raise NotImplementedError

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return the answers, all weights, all values, and the states that `states` names."""
        states: dict[str, Tensor] = {}

        def watch(stack: int, layer: int, x: Tensor) -> Tensor:
            states[self.state(self.stacks[stack], layer)] = x
            return x

        with entering(self.parts(), watch):
            observed = self.observe(*inputs)
        named = (states[name] for name in self.states)
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

    def entered(self, stack: str) -> Kind:
        """Return the kind of attention whose tokens enter a stack."""
        return next(kind for kind in self.kinds if kind.kind == stack)

    def carried(self, kind: Kind) -> Kind:
        """Return the kind whose keys the rollout and the relevance of a kind have."""
        return next((one for one in self.kinds if one.name == kind.carried), kind)

    def explained(self, method: Method) -> list[Kind]:
        """Return the kinds that have a method."""
        return [kind for kind in self.kinds if method in kind.methods]

    def stack_of(self, kind: Kind) -> int:
        """Return the number of the stack whose tokens are the keys of a kind: cross-attention reads the encoder's."""
        return self.stacks.index("encoder" if kind.kind == "cross" else kind.kind)

    def stages(self, kind: Kind) -> list[Kind]:
        """Return the kinds through which a kind is carried: the first stage first, itself last."""
        return list(self.kinds[self.kinds.index(self.carried(kind)) : self.kinds.index(kind) + 1])

    @property
    def layers(self) -> int:
        """The number of layers whose states can be explained."""
        return len(self.parts()[0].blocks) if len(self.stacks) == 1 else 1  # type: ignore[arg-type] # a ModuleList

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


class TracedViT(Traced):
    """A ViT: pixels (batch, height, width, channels), uint8 -> the answer of its head."""

    model: ViT
    stacks = ("encoder",)

    def __init__(self, model: ViT, kinds: Sequence[Kind], normalize: Normalize) -> None:
        super().__init__(model, kinds)
        self.normalize = normalize

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values."""
        recorded: list[KeyValue] = []
        answer, maps = self.model(self.normalize(*inputs), [recording(recorded)] * len(self.model.encoder.blocks))
        return Observed(answer, self.by_kind(maps), [values_of(recorded)])


class AxialViT(nn.Module):
    """The answer of a ViT with axial attention, computed along lines: without maps it needs no square of its tokens."""

    def __init__(self, traced: TracedViT) -> None:
        super().__init__()
        self.traced = traced

    def forward(self, *inputs: Tensor) -> tuple[Tensor]:
        """Take what the model takes; return its answer."""
        with along_lines(self.traced.model):
            answer, _ = self.traced.model(self.traced.normalize(*inputs))
        return (answer,)


class TracedTextEncoder(Traced):
    """A text encoder: tokens -> the answer of its head.

    Inputs are source and source_visible, token types if the model is `typed`, and for fill-mask the masked positions.
    """

    stacks = ("encoder",)

    def __init__(self, model: TextEncoder, kinds: Sequence[Kind], *, typed: bool) -> None:
        super().__init__(model, kinds)
        self.typed = typed

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values."""
        source, visible, *rest = inputs
        types, masked = (rest[0], rest[1:]) if self.typed else (None, rest)
        recorded: list[KeyValue] = []
        recalls = [recording(recorded)] * len(self.kinds[0].maps)
        answer, maps = self.model(source, visible, types, *masked, recalls=recalls)
        return Observed(answer, self.by_kind(maps), [values_of(recorded)])


class TracedGPT(Traced):
    """A GPT: tokens -> logits of the token after each."""

    model: GPT
    stacks = ("decoder",)

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values."""
        recorded: list[KeyValue] = []
        logits, maps = self.model(*inputs, [recording(recorded)] * len(self.kinds[0].maps))
        return Observed(logits, self.by_kind(maps), [values_of(recorded, self.kinds[0].heads)])


class TracedTransformer(Traced):
    """An encoder-decoder: source, source_visible and target -> logits of the token after each target token."""

    model: Transformer
    stacks = ("encoder", "decoder")

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values."""
        source, visible, target = inputs
        own: list[KeyValue] = []
        fed: list[KeyValue] = []
        encoder, decoder, _ = self.kinds
        memory, maps = self.model.encode(source, visible, [recording(own)] * len(encoder.maps))
        logits, others = self.model.decode(target, memory, visible, [recording(fed)] * len(decoder.maps))
        return Observed(logits, self.by_kind(maps | others), [values_of(own), values_of(fed), values_of(memory)])


class TextSource(nn.Module):
    """Encode a text for a decoder that attends only to its source; inputs are source and source_visible."""

    def __init__(self, model: Recurrent | Convolutional) -> None:
        super().__init__()
        self.model = model

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        """Return what every step reads: keys and values, and the first state of a recurrent decoder."""
        source, visible = given
        return self.model.encode(source, visible)

    def decode(self, given: Sequence[Tensor], target: Tensor, memory: tuple[Tensor, ...]) -> tuple[Tensor, Maps]:
        """Return logits (batch, target, vocabulary) of the token after each target token, and the maps."""
        _, visible = given
        return self.model.decode(target, memory, visible)


class ImageSource(nn.Module):
    """Encode an image for a decoder that attends only to its source; the input is pixels."""

    def __init__(self, model: Recurrent, normalize: Normalize) -> None:
        super().__init__()
        self.model = model
        self.normalize = normalize

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        """Return what every step reads: keys and values, and the first state of the decoder."""
        return self.model.encode(self.normalize(*given), None)

    def decode(self, given: Sequence[Tensor], target: Tensor, memory: tuple[Tensor, ...]) -> tuple[Tensor, Maps]:
        """Return logits (batch, target, vocabulary) of the token after each target token, and the maps."""
        return self.model.decode(target, memory, None)


class TracedAlign(Traced):
    """A model whose decoder attends only to its source: source and target -> logits after each target token.

    A recurrent decoder is traced step by step: `unrolled` steps, the most that a target may have, of which those of the
    given target are returned.
    """

    def __init__(self, source: TextSource | ImageSource, kinds: Sequence[Kind], unrolled: int | None) -> None:
        super().__init__(source.model, kinds)
        self.aligning = source  # the graph's weights are named after this attribute
        self.unrolled = unrolled

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values."""
        *given, target = inputs
        length = target.shape[1]
        if self.unrolled:
            target = nn.functional.pad(target, (0, self.unrolled - length))
        memory = self.aligning(*given)
        logits, maps = self.aligning.decode(given, target, memory)
        weights = [[layer[:, :, :length] for layer in kind] for kind in self.by_kind(maps)]
        return Observed(logits[:, :length], weights, [[memory[1]] * len(kind) for kind in weights])


class TextAlignDecode(nn.Module):
    """One token per row, source_visible, caches and memory -> logits of the next token and the updated caches."""

    def __init__(self, model: Recurrent | Convolutional, caches: int) -> None:
        super().__init__()
        self.model = model
        self.caches = caches

    def forward(self, token: Tensor, position: Tensor, *remembered: Tensor) -> tuple[Tensor, ...]:
        """Run one step. `remembered` holds source_visible, the caches, and then the memory."""
        visible, rest = remembered[0], remembered[1:]
        past, memory = rest[: self.caches], rest[self.caches :]
        logits, present, _ = self.model.step(token, position, past, memory, visible)
        return logits, *present


class ImageAlignDecode(nn.Module):
    """One token per row, caches and memory -> logits of the next token and the updated caches."""

    def __init__(self, model: Recurrent, caches: int) -> None:
        super().__init__()
        self.model = model
        self.caches = caches

    def forward(self, token: Tensor, position: Tensor, *remembered: Tensor) -> tuple[Tensor, ...]:
        """Run one step. `remembered` holds the caches and then the memory."""
        past, memory = remembered[: self.caches], remembered[self.caches :]
        logits, present, _ = self.model.step(token, position, past, memory, None)
        return logits, *present


class GPTEncode(nn.Module):
    """A text to continue -> the keys and values of every block."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor) -> tuple[Tensor, ...]:
        """Return key, value, key, value, ... each (batch, heads, source, head width)."""
        return tuple(chain(*self.model.remember(source)))


class GPTDecode(nn.Module):
    """One token per row and the caches -> logits of the next token and the updated caches."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.model = model

    def forward(self, token: Tensor, position: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """Run one step. `past` holds the caches, as key, value, key, value, ..."""
        logits, present, _ = self.model.step(token, position, pairs(past))
        return logits, *chain(*present)


class TransformerEncode(nn.Module):
    """A source -> the keys and values of every decoder block's cross-attention."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, source_visible: Tensor) -> tuple[Tensor, ...]:
        """Return key, value, key, value, ... each (batch, heads, source, head width)."""
        return tuple(chain(*self.model.encode(source, source_visible)[0]))


class TransformerDecode(nn.Module):
    """One token per row and the caches -> logits of the next token and the updated caches."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, token: Tensor, position: Tensor, source_visible: Tensor, *remembered: Tensor
    ) -> tuple[Tensor, ...]:
        """Run one step. `remembered` holds the caches and then the memory, as key, value, key, value, ..."""
        caches = pairs(remembered)
        layers = len(caches) // 2
        logits, present, _ = self.model.step(token, position, caches[:layers], caches[layers:], source_visible)
        return logits, *chain(*present)
