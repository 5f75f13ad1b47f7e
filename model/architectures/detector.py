"""Detection as the prediction of a set: DETR (Carion et al. 2020, "End-to-End Object Detection with Transformers").

`PRE_NORM` wires it as Smock et al. 2022 do ("PubTables-1M"). Conditional DETR is in `conditional_detector.py`.
"""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.parts.attention import Context, KeyValue, Maps, Recall, of_layers, under, visible_keys
from model.parts.blocks import Stack
from model.parts.embedding import CellSizes, alone, halving_convolutions
from model.parts.feed_forward import perceptron
from model.parts.positions import GridSinusoids, LearnedGrid
from model.parts.stacks import POST_NORM, StackSizes, Wiring

BOX_NUMBERS = 4

Recalls = tuple[Sequence[Recall], Sequence[Recall]]
"""The recalls of the encoder's blocks, and those of the decoder's."""

Places = GridSinusoids | LearnedGrid
"""Says where each cell stands, (cell, width) or (batch, cell, width), of what is visible (batch, cell) or None."""


class ObjectDecoder(nn.Module):
    """Turn object queries, which are learned, into objects: blocks one after the other, each followed by the norm.

    The queries are the positions of the objects, which look at each other and at the image (section A.3, figure 10).
    """

    def __init__(self, blocks: Iterable[nn.Module], norm: nn.Module, queries: nn.Embedding) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm
        self.queries = queries

    def remember(self, memory: Tensor, context: Context) -> list[KeyValue]:
        """Compute every block's keys and values of the encoded image (batch, cell, width)."""
        return [block.cross.remember(memory, context) for block in self.blocks]  # type: ignore[union-attr, operator] # ModuleList forgets its blocks' class

    def forward(
        self, memory: Sequence[KeyValue], memory_visible: Tensor | None, recalls: Sequence[Recall] | None = None
    ) -> tuple[list[Tensor], Maps]:
        """Return what each block leaves of every object, normalised, (batch, object, width), and the maps."""
        queries = self.queries.weight  # (object, width)
        x = torch.zeros_like(queries).expand(memory[0][0].shape[0], -1, -1)
        context, across = Context(positions=queries), Context(memory_visible, positions=queries)
        states = list[Tensor]()
        maps = Maps()
        each = zip(self.blocks, memory, of_layers(context, recalls, len(self.blocks)), strict=True)
        for index, (block, crossed, own) in enumerate(each):
            x, found = block(x, own, crossed, across)
            states.append(self.norm(x))
            maps |= under(f"blocks.{index}", found)
        return states, maps


class ObjectHead(nn.Module):
    """The logits of every object's class, the last of which says that it is none, and its box (section 3.2).

    A box is the middle, the width and the height, (x, y, w, h), as shares of the sides of what is visible of the image.
    """

    def __init__(self, classes: nn.Module, box: nn.Module) -> None:
        super().__init__()
        self.classes = classes
        self.box = box

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Take states (batch, object, width) -> logits (batch, object, classes + 1), boxes (batch, object, 4)."""
        return self.classes(x), self.box(x).sigmoid()


class Detector(nn.Module):
    """Encode the cells of a grid over an image, and decode a fixed number of objects from them, in parallel."""

    def __init__(
        self,
        image: tuple[int, int],
        backbone: nn.Module,
        projection: nn.Module,
        places: Places,
        encoder: Stack,
        decoder: ObjectDecoder,
        head: nn.Module,
    ) -> None:
        super().__init__()
        self.image = image
        self.backbone = backbone
        self.projection = projection
        self.places = places
        self.encoder = encoder
        self.decoder = decoder
        self.head = head

    def forward(
        self,
        pixels: Tensor,
        visible: Tensor | None = None,
        recalls: Recalls | tuple[None, None] = (None, None),
        shown: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Maps]:
        """Take normalised pixels (batch, channels, height, width) -> logits, boxes, and all maps.

        `visible` (batch, cell) is True where a cell's first pixel is one of the picture, which fills the upper left of
        the image; None says that it fills all. What stands in other cells changes nothing. With `shown` (batch, 2), the
        rows and columns of pixels that the picture fills, the answer is that of the picture alone.
        """
        memory, maps = self.encode(pixels, visible, recalls[0], shown)
        states, others = self.decode(memory, visible, recalls[1])
        return *self.answer(states[-1]), maps | others

    def encode(
        self,
        pixels: Tensor,
        visible: Tensor | None = None,
        recalls: Sequence[Recall] | None = None,
        shown: Tensor | None = None,
    ) -> tuple[list[KeyValue], Maps]:
        """Return the keys and values of the image for every block of the decoder, and the encoder's maps.

        Raises ValueError for an image of another size.
        """
        if pixels.shape[-2:] != self.image:
            height, width = pixels.shape[-2:]
            raise ValueError(f"image: must be {self.image[0]}x{self.image[1]} pixels, given {height}x{width}")
        if visible is not None:
            pixels = pixels.masked_fill(~self.shown(visible), 0)
        with contextlib.nullcontext() if shown is None else alone(self.backbone, shown, self.image[0]):
            grid = self.projection(self.backbone(pixels))  # (batch, width, rows, columns)
        places = self.places(visible)  # (cell, width) or (batch, cell, width)
        context = Context(_keys(visible), positions=places)
        memory, maps = self.encoder(grid.flatten(2).transpose(1, 2), context, recalls)
        return self.decoder.remember(memory, context), under("encoder", maps)

    def shown(self, visible: Tensor) -> Tensor:
        """Spread visible (batch, cell) over the pixels: (batch, 1, height, width)."""
        rows, columns = self.places.grid
        height, width = self.image
        spread = visible.reshape(-1, 1, rows, 1, columns, 1)
        spread = spread.expand(-1, 1, rows, height // rows, columns, width // columns)
        return spread.reshape(-1, 1, height, width)

    def decode(
        self, memory: Sequence[KeyValue], visible: Tensor | None = None, recalls: Sequence[Recall] | None = None
    ) -> tuple[list[Tensor], Maps]:
        """Return what each block of the decoder leaves of every object, (batch, object, width), and its maps."""
        states, maps = self.decoder(memory, _keys(visible), recalls)
        return states, under("decoder", maps)

    def answer(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Take states (batch, object, width) -> logits (batch, object, classes), and boxes (batch, object, 4)."""
        logits, boxes = self.head(states)
        return logits, boxes


def _keys(visible: Tensor | None) -> Tensor | None:
    return None if visible is None else visible_keys(visible)


@dataclass(frozen=True)
class DetectorConfig(CellSizes):
    """Sizes of a detector: those of its image, the most objects, and the classes.

    `features` are the channels of the backbone's grid, if it is not one of a few convolutions, of the width.
    """

    width: int
    encoder: StackSizes
    decoder: StackSizes
    objects: int
    classes: int
    activation: str = "relu"
    features: int | None = None


def detector(
    config: DetectorConfig, wiring: Wiring = POST_NORM, backbone: nn.Module | None = None, places: Places | None = None
) -> Detector:
    """Compose a DETR of the given sizes with freshly initialised weights.

    By default it stands on a few convolutions, and is told of cells by sinusoids. A `backbone` returns a grid of
    `config.features` channels.
    """
    width = config.width
    own, fed = config.encoder.within(width, config.activation), config.decoder.within(width, config.activation)
    encoder = own.blocks(wiring.encoder_block, feed_forward=own.feed_forward, attention=own.attention)
    decoder = fed.blocks(
        wiring.decoder_block, feed_forward=fed.feed_forward, attention=fed.attention, cross=fed.attention
    )
    initialise((*encoder, *decoder))
    return Detector(
        config.image,
        backbone or halving_convolutions(config.channels, config.cell, width),
        nn.Conv2d(config.features or width, width, 1),
        places or GridSinusoids(*config.grid, width),
        Stack(encoder, wiring.last_norm(width)),
        ObjectDecoder(decoder, nn.LayerNorm(width), nn.Embedding(config.objects, width)),
        ObjectHead(nn.Linear(width, config.classes + 1), box_perceptron(width)),
    )


def box_perceptron(width: int) -> nn.Sequential:
    """Compose the three layers that read a box off a state (section 3.2)."""
    return perceptron(width, width, width, BOX_NUMBERS)


def initialise(blocks: Iterable[nn.Module]) -> None:
    """Draw the matrices of blocks as section A.4 says."""
    for block in blocks:
        for weight in block.parameters():
            if weight.dim() > 1:
                nn.init.xavier_uniform_(weight)


SCENES_MEAN, SCENES_STD = 0.07, 0.2  # of the pixels in [0, 1] of the bundled detector's images

DETECTOR_SIZES = {
    # bundled: the handwritten digits in an image, and where they are
    "scenes-detr": DetectorConfig(
        (64, 64), 1, cell=8, width=96, encoder=StackSizes(2, 4, 192), decoder=StackSizes(3, 4, 192), objects=8,
        classes=10,
    ),
}  # fmt: skip
