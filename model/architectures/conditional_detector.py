"""Conditional DETR (Meng et al. 2021, "Conditional DETR for Fast Training Convergence").

A query of the decoder's cross-attention is what an object is beside where it is looked for, so that its score is the
sum of a score of contents and one of places.
"""

import itertools
import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from model.architectures.detector import (
    Detector,
    DetectorConfig,
    ObjectDecoder,
    ObjectHead,
    Places,
    box_perceptron,
    initialise,
)
from model.parts.attention import ALL_VISIBLE, Context, KeyValue, Maps, MultiHeadAttention, Recall, of_layers, under
from model.parts.blocks import Norm, PostNormBlock, Stack
from model.parts.embedding import halving_convolutions
from model.parts.feed_forward import FeedForward, perceptron
from model.parts.positions import GridSinusoids, PointSinusoids

POINT_NUMBERS = 2
RARE = 0.01  # the share of objects that a class is expected to be in, when training begins (Lin et al. 2017)


class PlacedAttention(MultiHeadAttention):
    """Attention with projections of its own for places: q = Ux + Pe, k = Vx + Qe, and values as ever."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads)
        self.query_place = nn.Linear(width, width)
        self.key_place = nn.Linear(width, width)

    def remember(self, source: Tensor, context: Context = ALL_VISIBLE) -> KeyValue:
        """Compute the keys of source (batch, key, width) and its positions (key, width), and its values."""
        key = self.key(source) + self.key_place(context.positions)
        return self._split(key, self.heads), self._split(self.value(source), self.heads)

    def read(self, x: Tensor, remembered: KeyValue, context: Context = ALL_VISIBLE) -> tuple[Tensor, Maps]:
        """Let x (batch, query, width) at positions (query, width) look at remembered keys and values."""
        query = self.query(x) + self.query_place(context.positions)
        return self._mix(self._split(query, self.heads), remembered, context)


class ConditionalAttention(PlacedAttention):
    """Cross-attention of concatenated contents and places (section 3.3): q = [Ux; Ps], k = [Vm; Qp], in every head.

    s says where an object is looked for, m is the encoded image and p says where its cells stand.
    """

    def remember(self, source: Tensor, context: Context = ALL_VISIBLE) -> KeyValue:
        """Compute keys (batch, heads, key, twice the width of a head) and values of source (batch, key, width)."""
        place = self.key_place(context.positions).expand(source.shape[0], -1, -1)
        key = torch.cat([self._split(one, self.heads) for one in (self.content(source, place), place)], dim=-1)
        return key, self._split(self.value(source), self.heads)

    def content(self, source: Tensor, place: Tensor) -> Tensor:
        """Return what keys are made of beside the projected places, (batch, key, width)."""
        content: Tensor = self.key(source)
        return content

    def seek(self, x: Tensor, queries: Tensor | None, memory: KeyValue, context: Context) -> tuple[Tensor, Maps]:
        """Let x (batch, object, width) look at the image, near its positions, of the same shape."""
        query = self.asked(x, queries), self.query_place(context.positions)
        return self._mix(torch.cat([self._split(one, self.heads) for one in query], dim=-1), memory, context)

    def asked(self, x: Tensor, queries: Tensor | None) -> Tensor:
        """Return what queries are made of beside places, (batch, object, width)."""
        content: Tensor = self.query(x)
        return content


class FirstConditionalAttention(ConditionalAttention):
    """That of the first block, where objects are nothing yet: q = [Ux + We; Ps], k = [Vm + Qp; Qp]."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads)
        self.query_object = nn.Linear(width, width)

    def content(self, source: Tensor, place: Tensor) -> Tensor:
        """Add the projected places to the contents."""
        return super().content(source, place) + place

    def asked(self, x: Tensor, queries: Tensor | None) -> Tensor:
        """Add the projected object queries to the contents."""
        return super().asked(x, queries) + self.query_object(queries)


class ConditionalBlock(nn.Module):
    """Objects look at each other, then at the image near their points, wired as in `PostNormDecoderBlock`."""

    def __init__(
        self, attention: PlacedAttention, cross: ConditionalAttention, feed_forward: FeedForward, norm: Norm
    ) -> None:
        super().__init__()
        self.attention, self.attention_norm = attention, norm()
        self.cross, self.cross_norm = cross, norm()
        self.feed_forward, self.feed_forward_norm = feed_forward, norm()

    def forward(self, x: Tensor, context: Context, memory: KeyValue, across: Context) -> tuple[Tensor, Maps]:
        """Take x (batch, object, width) -> the same shape.

        The positions of `context` are the object queries (object, width); those of `across` are where objects are
        looked for (batch, object, width).
        """
        mixed, own = self.attention(x, context)
        x = self.attention_norm(x + mixed)
        mixed, cross = self.cross.seek(x, context.positions, memory, across)
        x = self.cross_norm(x + mixed)
        return self.feed_forward_norm(x + self.feed_forward(x)), under("attention", own) | under("cross", cross)


class ConditionalDecoder(ObjectDecoder):
    """Every object query e has a point r = FFN(e), and a block looks near λ ⊙ PE(sigmoid(r)), λ = FFN(x) (section 3.3).

    `point` makes r, and `scale` makes λ of the states that enter a block; in the first, where they are 0, λ is 1.
    """

    def __init__(
        self,
        blocks: Iterable[ConditionalBlock],
        norm: nn.Module,
        queries: nn.Embedding,
        point: nn.Module,
        scale: nn.Module,
    ) -> None:
        super().__init__(blocks, norm, queries)
        self.point = point
        self.scale = scale
        self.sinusoids = PointSinusoids(queries.embedding_dim)

    def points(self) -> Tensor:
        """Return r (object, 2): across and down, before the sigmoid that makes them shares of the sides."""
        points: Tensor = self.point(self.queries.weight)
        return points

    def forward(
        self, memory: Sequence[KeyValue], memory_visible: Tensor | None, recalls: Sequence[Recall] | None = None
    ) -> tuple[list[Tensor], Maps]:
        """Return what each block leaves of every object, normalised, (batch, object, width), and the maps."""
        queries = self.queries.weight  # (object, width)
        angles = self.points().sigmoid() * 2 * math.pi
        places = self.sinusoids(down=angles[:, 1], across=angles[:, 0])  # (object, width)
        x = torch.zeros_like(queries).expand(memory[0][0].shape[0], -1, -1)
        states = list[Tensor]()
        maps = Maps()
        each = zip(self.blocks, memory, of_layers(Context(positions=queries), recalls, len(self.blocks)), strict=True)
        for index, (block, crossed, context) in enumerate(each):
            sought = self.scale(x) * places if index else places.expand(x.shape)
            x, found = block(x, context, crossed, Context(memory_visible, positions=sought))
            states.append(self.norm(x))
            maps |= under(f"blocks.{index}", found)
        return states, maps


class PointedHead(ObjectHead):
    """Logits, each of which says by itself whether an object is of a class, and boxes around points (section 3.1)."""

    def forward(self, x: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override] # it takes points
        """Take x (batch, object, width) and points (object, 2) -> (batch, object, classes), (batch, object, 4)."""
        return self.classes(x), (self.box(x) + nn.functional.pad(points, (0, 2))).sigmoid()


class ConditionalDetector(Detector):
    """A detector whose boxes are found around the points of its object queries."""

    decoder: ConditionalDecoder

    def answer(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Take states (batch, object, width) -> logits (batch, object, classes), and boxes (batch, object, 4)."""
        logits, boxes = self.head(states, self.decoder.points())
        return logits, boxes


def conditional_detector(
    config: DetectorConfig, backbone: nn.Module | None = None, places: Places | None = None
) -> ConditionalDetector:
    """Compose a Conditional DETR of the given sizes with freshly initialised weights; other parts as in `detector`."""
    width = config.width
    own, fed = config.encoder.within(width, config.activation), config.decoder.within(width, config.activation)
    encoder = own.blocks(PostNormBlock, feed_forward=own.feed_forward, attention=own.attention)
    kinds = itertools.chain([FirstConditionalAttention], itertools.repeat(ConditionalAttention))
    decoder = fed.blocks(
        ConditionalBlock,
        feed_forward=fed.feed_forward,
        attention=lambda: PlacedAttention(width, fed.heads),
        cross=lambda: next(kinds)(width, fed.heads),
    )
    initialise((*encoder, *decoder))
    classes = nn.Linear(width, config.classes)
    nn.init.constant_(classes.bias, math.log(RARE / (1 - RARE)))
    return ConditionalDetector(
        config.image,
        backbone or halving_convolutions(config.channels, config.cell, width),
        nn.Conv2d(config.features or width, width, 1),
        places or GridSinusoids(*config.grid, width),
        Stack(encoder, nn.Identity()),
        ConditionalDecoder(
            decoder,
            nn.LayerNorm(width),
            nn.Embedding(config.objects, width),
            point=perceptron(width, width, POINT_NUMBERS),
            scale=perceptron(width, width, width),
        ),
        PointedHead(classes, box_perceptron(width)),
    )
