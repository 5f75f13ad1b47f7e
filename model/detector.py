"""Detection as the prediction of a set: DETR (Carion et al. 2020, "End-to-End Object Detection with Transformers")."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.attention import KeyValue, Maps, MultiHeadAttention, Recall, only_these, under
from model.blocks import PostNormBlock, PostNormDecoderBlock, Stack
from model.layers import ACTIVATIONS, FeedForward, grid_sinusoids, halving_convolutions
from model.transformer import StackSizes

BOX_NUMBERS = 4


class PlacedBlock(PostNormBlock):
    """A block whose queries and keys are told where tokens stand, and whose values are not (section A.4, figure 10).

    x' = norm(x + MHA(x + p, x + p, x)); x'' = norm(x' + FF(x')).
    """

    def forward(  # type: ignore[override] # it takes places
        self, x: Tensor, places: Tensor, visible: Tensor | None, recall: Recall = only_these
    ) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) and places (token, width) -> the shape of x."""
        mixed, maps = self.attention.read(x + places, recall(self.attention.remember(x, places)), visible)
        x = self.attention_norm(x + mixed)
        return self.feed_forward_norm(x + self.feed_forward(x)), under("attention", maps)


class PlacedDecoderBlock(PostNormDecoderBlock):
    """The same for objects, which look at each other and at the image; their places are the learned object queries."""

    def forward(  # type: ignore[override] # as above
        self, x: Tensor, places: Tensor, memory: KeyValue, memory_visible: Tensor | None, recall: Recall
    ) -> tuple[Tensor, Maps]:
        """Take x (batch, object, width) -> the same shape; `memory` holds this block's keys and values of the image."""
        mixed, own = self.attention.read(x + places, recall(self.attention.remember(x, places)), None)
        x = self.attention_norm(x + mixed)
        mixed, cross = self.cross.read(x + places, memory, memory_visible)
        x = self.cross_norm(x + mixed)
        return self.feed_forward_norm(x + self.feed_forward(x)), under("attention", own) | under("cross", cross)


class PlacedStack(Stack):
    """The encoder: blocks that are told where tokens stand, one after the other."""

    def forward(  # type: ignore[override] # as above
        self, x: Tensor, places: Tensor, visible: Tensor | None, recalls: Sequence[Recall] | None = None
    ) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape; `recalls` has one entry for each block."""
        maps: Maps = {}
        for index, (block, recall) in enumerate(zip(self.blocks, _each(recalls, self.blocks), strict=True)):
            x, found = block(x, places, visible, recall)
            maps |= under(f"blocks.{index}", found)
        return self.norm(x), maps


class ObjectDecoder(nn.Module):
    """Turn object queries, which are learned, into objects: blocks one after the other, each followed by the norm."""

    def __init__(self, blocks: Iterable[PlacedDecoderBlock], norm: nn.Module, queries: nn.Embedding) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm
        self.queries = queries

    def remember(self, memory: Tensor, places: Tensor) -> list[KeyValue]:
        """Compute every block's keys and values of the encoded image (batch, cell, width)."""
        return [block.cross.remember(memory, places) for block in self.blocks]  # type: ignore[union-attr, operator] # ModuleList forgets its blocks' class

    def forward(
        self, memory: Sequence[KeyValue], memory_visible: Tensor | None, recalls: Sequence[Recall] | None = None
    ) -> tuple[list[Tensor], Maps]:
        """Return what each block leaves of every object, normalised, (batch, object, width), and the maps."""
        batch = memory[0][0].shape[0]
        places = self.queries.weight  # (object, width)
        x = torch.zeros_like(places).expand(batch, -1, -1)
        states, maps = list[Tensor](), Maps()
        each = zip(self.blocks, memory, _each(recalls, self.blocks), strict=True)
        for index, (block, crossed, recall) in enumerate(each):
            x, found = block(x, places, crossed, memory_visible, recall)
            states.append(self.norm(x))
            maps |= under(f"blocks.{index}", found)
        return states, maps


def _each(recalls: Sequence[Recall] | None, blocks: nn.ModuleList) -> Sequence[Recall]:
    return recalls or [only_these] * len(blocks)


class ObjectHead(nn.Module):
    """The logits of every object's class, the last of which says that it is none, and its box (section 3.2).

    A box is the middle, the width and the height, (x, y, w, h), as shares of the image's sides.
    """

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.classes = nn.Linear(width, classes + 1)
        self.box = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, BOX_NUMBERS)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Take states (batch, object, width) -> logits (batch, object, classes + 1), boxes (batch, object, 4)."""
        return self.classes(x), self.box(x).sigmoid()


class Detector(nn.Module):
    """Encode the cells of a grid over an image, and decode a fixed number of objects from them, in parallel.

    `places` (cell, width) say where each cell stands.
    """

    places: Tensor

    def __init__(
        self,
        image: tuple[int, int],
        backbone: nn.Module,
        projection: nn.Module,
        encoder: PlacedStack,
        decoder: ObjectDecoder,
        head: ObjectHead,
        places: Tensor,
    ) -> None:
        super().__init__()
        self.image = image
        self.backbone = backbone
        self.projection = projection
        self.encoder = encoder
        self.decoder = decoder
        self.head = head
        self.register_buffer("places", places, persistent=False)  # (cell, width)

    def forward(self, pixels: Tensor, *recalls: Sequence[Recall]) -> tuple[Tensor, Tensor, Maps]:
        """Take normalised pixels (batch, channels, height, width) -> logits and boxes of the head, and all maps.

        `recalls`, if given, are those of the encoder's blocks and of the decoder's.
        """
        own, fed = recalls or (None, None)
        memory, maps = self.encode(pixels, own)
        states, others = self.decode(memory, fed)
        return *self.head(states[-1]), maps | others

    def encode(self, pixels: Tensor, recalls: Sequence[Recall] | None = None) -> tuple[list[KeyValue], Maps]:
        """Return the keys and values of the image for every block of the decoder, and the encoder's maps.

        Raises ValueError for an image of another size.
        """
        if pixels.shape[-2:] != self.image:
            height, width = pixels.shape[-2:]
            raise ValueError(f"image: must be {self.image[0]}x{self.image[1]} pixels, given {height}x{width}")
        grid = self.projection(self.backbone(pixels))  # (batch, width, rows, columns)
        memory, maps = self.encoder(grid.flatten(2).transpose(1, 2), self.places, None, recalls)
        return self.decoder.remember(memory, self.places), under("encoder", maps)

    def decode(self, memory: Sequence[KeyValue], recalls: Sequence[Recall] | None = None) -> tuple[list[Tensor], Maps]:
        """Return what each block of the decoder leaves of every object, (batch, object, width), and its maps."""
        states, maps = self.decoder(memory, None, recalls)
        return states, under("decoder", maps)


@dataclass(frozen=True)
class DetectorConfig:
    """Sizes of a detector: image (height, width) and the side of a cell, in pixels; the most objects; the classes."""

    image: tuple[int, int]
    channels: int
    cell: int
    width: int
    encoder: StackSizes
    decoder: StackSizes
    objects: int
    classes: int
    activation: str = "relu"

    def __post_init__(self) -> None:
        if self.cell & (self.cell - 1) or any(side % self.cell for side in self.image):
            height, width = self.image
            raise ValueError(
                f"image: sides must be multiples of the cell's {self.cell}, a power of two, given {height}x{width}"
            )

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of cells."""
        return self.image[0] // self.cell, self.image[1] // self.cell


def detector(config: DetectorConfig) -> Detector:
    """Compose a DETR of the given sizes on a backbone of few convolutions, with freshly initialised weights."""
    width = config.width

    def norm() -> nn.LayerNorm:
        return nn.LayerNorm(width)

    def parts(sizes: StackSizes) -> tuple[MultiHeadAttention, FeedForward]:
        return MultiHeadAttention(width, sizes.heads), FeedForward(
            width, sizes.hidden, ACTIVATIONS[config.activation]()
        )

    def decoder_block(sizes: StackSizes) -> PlacedDecoderBlock:
        attention, feed_forward = parts(sizes)
        return PlacedDecoderBlock(attention, MultiHeadAttention(width, sizes.heads), feed_forward, norm)

    encoder = [PlacedBlock(*parts(config.encoder), norm) for _ in range(config.encoder.layers)]
    decoder = [decoder_block(config.decoder) for _ in range(config.decoder.layers)]
    model = Detector(
        config.image,
        halving_convolutions(config.channels, config.cell, width),
        nn.Conv2d(width, width, 1),
        PlacedStack(encoder, nn.Identity()),
        ObjectDecoder(decoder, norm(), nn.Embedding(config.objects, width)),
        ObjectHead(width, config.classes),
        grid_sinusoids(*config.grid, width),
    )
    for part in (*encoder, *decoder):
        for weight in part.parameters():
            if weight.dim() > 1:
                nn.init.xavier_uniform_(weight)  # section A.4
    return model


SCENES_MEAN, SCENES_STD = 0.07, 0.2  # of the pixels in [0, 1] of the bundled detector's images

DETECTOR_SIZES = {
    # bundled: the handwritten digits in an image, and where they are
    "scenes-detr": DetectorConfig(
        (64, 64), 1, cell=8, width=96, encoder=StackSizes(2, 4, 192), decoder=StackSizes(3, 4, 192), objects=8,
        classes=10,
    ),
}  # fmt: skip
