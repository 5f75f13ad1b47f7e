"""Models that generate: their maps, and their encode and decode steps."""

from collections.abc import Sequence
from itertools import chain

from torch import Tensor, nn

from contract.manifest import Kind
from export.traced.base import Observed, Traced, pairs, values_of
from export.traced.images import Normalize
from model.architectures.convolutional import Convolutional
from model.architectures.gpt import GPT
from model.architectures.recurrent import Recurrent
from model.architectures.transformer import AutoregressiveDecoder, Transformer
from model.parts.attention import KeyValue, Maps
from model.parts.cache import recording
from model.parts.heads import states_at


def answers_of(head: nn.Module, x: Tensor, answered: Sequence[Tensor]) -> Tensor:
    """Return what a head answers of states x (batch, token, width): at the tokens `answered` (batch, place), or all.

    A row of logits is as long as the vocabulary, and few of them are ever read.
    """
    answers: Tensor = head(states_at(x, *answered) if answered else x)
    return answers


class TracedGPT(Traced):
    """A GPT: tokens, and those that are answered -> logits of the token after each."""

    model: GPT
    stacks = ("decoder",)

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values."""
        target, *answered = inputs
        recorded: list[KeyValue] = []
        x, maps = self.model.states(target, [recording(recorded)] * len(self.kinds[0].maps))
        logits = answers_of(self.model.head, x, answered)
        return Observed(logits, self.by_kind(maps), [values_of(recorded, self.kinds[0].heads)])


class TracedTransformer(Traced):
    """An encoder-decoder: source, source_visible, target, and the tokens answered -> logits of the token after each."""

    model: Transformer
    stacks = ("encoder", "decoder")

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values."""
        source, visible, target, *answered = inputs
        own: list[KeyValue] = []
        fed: list[KeyValue] = []
        encoder, decoder, _ = self.kinds
        memory, maps = self.model.encode(source, visible, [recording(own)] * len(encoder.maps))
        x, others = self.model.states(target, memory, visible, [recording(fed)] * len(decoder.maps))
        logits = answers_of(self.model.head, x, answered)
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


class DecodeStep(nn.Module):
    """One token per row and the caches -> logits of the next token and the updated caches."""

    def __init__(self, model: AutoregressiveDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, token: Tensor, position: Tensor, *remembered: Tensor) -> tuple[Tensor, ...]:
        """Run one step. `remembered` holds the caches and then the memory, as key, value, key, value, ...

        Before them stands source_visible (batch, source), where not all of a source is visible.
        """
        visible, rest = (remembered[0], remembered[1:]) if len(remembered) % 2 else (None, remembered)
        caches = pairs(rest)
        layers = len(caches) // 2
        logits, present, _ = self.model.step(token, position, caches[:layers], caches[layers:], visible)
        return logits, *chain(*present)
