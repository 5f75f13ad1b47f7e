"""Encoder-decoders with a recurrent decoder, which attends once for each token (Bahdanau et al. 2015) or never."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor, nn

from model.parts.attention import KeyValue, Maps, Select, attend, soft, under, visible_keys
from model.parts.attention_variants import Additive
from model.parts.cache import before, put

Memory: TypeAlias = tuple[Tensor, ...]
"""What attention remembers of the annotations, and the decoder's first state (batch, width)."""


class BidirectionalGRU(nn.Module):
    """Two GRUs, one over the tokens in order and one in reverse, concatenated (Bahdanau et al. 2015, section 3.2)."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.forwards = nn.GRU(inputs, width, batch_first=True)
        self.backwards = nn.GRU(inputs, width, batch_first=True)

    def forward(self, x: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
        """Take x (batch, token, inputs), visible (batch, token), padded on the right.

        Returns annotations (batch, token, twice the width), and the last state of the reverse GRU (batch, width).
        """
        index = torch.arange(x.shape[1], device=x.device)
        turned = visible.sum(1, keepdim=True) - 1 - index  # (batch, token): from the last visible token to the first
        turned = torch.where(visible, turned, index)[:, :, None]
        back, _ = self.backwards(x.gather(1, turned.expand(-1, -1, x.shape[2])))
        back = back.gather(1, turned.expand(-1, -1, back.shape[2]))
        return torch.cat((self.forwards(x)[0], back), dim=-1), back[:, 0]


class Alignment(nn.Module):
    """Additive attention of one head, from the decoder's state to the annotations (Bahdanau et al. 2015, section 3.1).

    Values are the annotations themselves; `width` is that of the network that scores.
    """

    def __init__(self, query: int, source: int, width: int, select: Select = soft) -> None:
        super().__init__()
        self.query = nn.Linear(query, width, bias=False)
        self.key = nn.Linear(source, width)
        self.score = Additive(1, width)
        self.select = select

    def remember(self, annotations: Tensor) -> KeyValue:
        """Compute the keys of annotations (batch, source, width) once, for all steps."""
        return self.key(annotations)[:, None], annotations[:, None]

    def read(self, x: Tensor, remembered: Sequence[Tensor], visible: Tensor | None) -> tuple[Tensor, Maps]:
        """Let x (batch, query, width) look at remembered keys and values."""
        key, value = remembered
        mixed, weights = attend(self.query(x)[:, None], key, value, visible, self.score, self.select)
        return mixed[:, 0], {"": weights}  # (batch, query, width of annotations)


class Unattended(nn.Module):
    """In place of attention: every step is given the one annotation that there is (Cho et al. 2014, section 2.2)."""

    def remember(self, annotations: Tensor) -> tuple[Tensor]:
        """Keep annotations (batch, 1, width) as they are."""
        return (annotations,)

    def read(self, x: Tensor, remembered: Sequence[Tensor], visible: Tensor | None) -> tuple[Tensor, Maps]:
        """Return the annotation for each of x (batch, query, width), and no map."""
        del visible
        return remembered[0].expand(-1, x.shape[1], -1), {}


class Maxout(nn.Module):
    """For each unit the larger of two linear ones (Goodfellow et al. 2013)."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.pairs = nn.Linear(inputs, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        """Take x (batch, inputs) -> (batch, width)."""
        return self.pairs(x).reshape(x.shape[0], -1, 2).amax(dim=-1)


class RecurrentDecoder(nn.Module):
    """s = GRU(s', [y, c]) and p = W maxout([y, s, c]), where c is what s' attends to, or is given.

    Bahdanau et al. 2015, appendix A.2.2, where the maxout reads s' in place of s; and Cho et al. 2014, appendix A.1,
    where the reset gate closes to c too.
    """

    def __init__(
        self,
        tokens: nn.Embedding,
        attention: Alignment | Unattended,
        cell: nn.GRUCell,
        readout: nn.Module,
        head: nn.Linear,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.attention = attention
        self.cell = cell
        self.readout = readout
        self.head = head

    def forward(
        self, token: Tensor, state: Tensor, remembered: Sequence[Tensor], visible: Tensor | None
    ) -> tuple[Tensor, Tensor, Maps]:
        """Take one token (batch) and the state before it (batch, width); return logits, the next state, and maps.

        visible (batch, source) is False on padding; None without padding.
        """
        keys = None if visible is None else visible_keys(visible)
        y = self.tokens(token)  # (batch, embedding)
        context, maps = self.attention.read(state[:, None], remembered, keys)
        context = context[:, 0]  # (batch, width of annotations)
        state = self.cell(torch.cat((y, context), dim=-1), state)
        logits = self.head(self.readout(torch.cat((y, state, context), dim=-1)))
        return logits, state, under("attention", maps)


class Recurrent(nn.Module):
    """Annotate a source once, then predict each token from the state, what it attends to, and the token before.

    `encoder` returns annotations and a summary; `first` makes the first state of the summary.
    """

    def __init__(self, encoder: nn.Module, decoder: RecurrentDecoder, first: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.first = first

    def forward(self, source: Tensor, visible: Tensor | None, target: Tensor) -> tuple[Tensor, Maps]:
        """Teacher-forced pass: logits (batch, target, vocabulary) of the token after each, and all maps."""
        return self.decode(target, self.encode(source, visible), visible)

    def encode(self, source: Tensor, visible: Tensor | None) -> Memory:
        """Annotate a source, once for all steps."""
        annotations, summary = self.encoder(source) if visible is None else self.encoder(source, visible)
        return *self.decoder.attention.remember(annotations), self.first(summary)

    def decode(self, target: Tensor, memory: Memory, visible: Tensor | None) -> tuple[Tensor, Maps]:
        """Take all steps of targets (batch, target), one after the other."""
        *remembered, state = memory
        rows, maps = [], []
        for token in target.unbind(1):
            logits, state, found = self.decoder(token, state, remembered, visible)
            rows.append(logits)
            maps.append(found)
        joined = {name: torch.cat([one[name] for one in maps], dim=2) for name in maps[0]}
        return torch.stack(rows, dim=1), under("decoder", joined)

    def step(
        self, token: Tensor, position: Tensor, past: Sequence[Tensor], memory: Memory, visible: Tensor | None
    ) -> tuple[Tensor, list[Tensor], Maps]:
        """Take one step a row, every row at a position of its own: logits (batch, vocabulary), new cache, maps.

        token and position (batch); past holds all states (batch, 1, capacity, width), and only the last is read.
        """
        *remembered, first = memory
        state = torch.where(position[:, None] == 0, first, before(past[0], position, 1)[:, 0])
        logits, state, maps = self.decoder(token, state, remembered, visible)
        return logits, [put(past[0], position, state)], under("decoder", maps)


@dataclass(frozen=True)
class RecurrentConfig:
    """Sizes of a recurrent decoder: `source` is the width of annotations, `alignment` that of the scoring network.

    It is 0 where nothing is scored. `length` and `target_length` are the most tokens of a source and a target.
    """

    vocabulary: int
    length: int
    target_length: int
    embedding: int
    source: int
    alignment: int
    width: int
    readout: int


class TextAnnotations(nn.Module):
    """Annotations of a text: its tokens, read in both directions."""

    def __init__(self, tokens: nn.Embedding, recurrence: BidirectionalGRU) -> None:
        super().__init__()
        self.tokens = tokens
        self.recurrence = recurrence

    def forward(self, source: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
        """Take tokens (batch, source) -> annotations (batch, source, width) and a summary (batch, half the width)."""
        annotated: tuple[Tensor, Tensor] = self.recurrence(self.tokens(source), visible)
        return annotated


class TextEnds(TextAnnotations):
    """The last states of both directions side by side, each of which has read the whole text: its one annotation.

    Cho et al. 2014 (appendix A.1) read in one direction, and make tanh(V h) of its last state h.
    """

    def forward(self, source: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
        """Take tokens (batch, source) -> one annotation (batch, 1, width), and the same as a summary (batch, width)."""
        annotated, back = super().forward(source, visible)
        last = (visible.sum(1) - 1)[:, None, None].expand(-1, 1, back.shape[1])
        ends = torch.cat((annotated.gather(1, last)[:, 0], back), dim=-1)  # the forward half of annotations comes first
        return ends[:, None], ends


def recurrent(
    config: RecurrentConfig, encoder: nn.Module, summary: int, attention: Callable[[], Alignment | Unattended]
) -> Recurrent:
    """Compose a recurrent encoder-decoder with freshly initialised weights; `summary` is the width of the encoder's."""
    both = config.embedding + config.source
    return Recurrent(
        encoder,
        RecurrentDecoder(
            nn.Embedding(config.vocabulary, config.embedding),
            attention(),
            nn.GRUCell(both, config.width),
            Maxout(both + config.width, config.readout),
            nn.Linear(config.readout, config.vocabulary),
        ),
        nn.Sequential(nn.Linear(summary, config.width), nn.Tanh()),
    )


def aligned(config: RecurrentConfig, encoder: nn.Module, summary: int, select: Select = soft) -> Recurrent:
    """Compose one whose decoder attends to annotations (Bahdanau et al. 2015)."""
    attention = partial(Alignment, config.width, config.source, config.alignment, select)
    return recurrent(config, encoder, summary, attention)


def recurrent_text(config: RecurrentConfig) -> Recurrent:
    """Compose RNNsearch (Bahdanau et al. 2015), which reads text in both directions."""
    return aligned(config, TextAnnotations(*_reading(config)), config.source // 2)


def unattended_text(config: RecurrentConfig) -> Recurrent:
    """Compose the same without attention: one vector carries the whole text (Cho et al., Sutskever et al. 2014)."""
    return recurrent(config, TextEnds(*_reading(config)), config.source, Unattended)


def _reading(config: RecurrentConfig) -> tuple[nn.Embedding, BidirectionalGRU]:
    tokens = nn.Embedding(config.vocabulary, config.embedding)
    return tokens, BidirectionalGRU(config.embedding, config.source // 2)


RECURRENT_SIZES = {
    # bundled: written dates to ISO 8601, characters as tokens
    "dates-recurrent": RecurrentConfig(
        75, length=96, target_length=16, embedding=64, source=256, alignment=96, width=192, readout=64
    ),
    # the same without attention; its states are as much wider as makes up for the scoring network
    "dates-plain": RecurrentConfig(
        75, length=96, target_length=16, embedding=64, source=256, alignment=0, width=200, readout=64
    ),
}
