"""Options of attention, and the attention of an answer with what draws it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict

from PIL import Image

from regard.bertviz import keywords_of
from regard.figures import Figure
from regard.layouts import figure_of
from regard.maps import Json, KindName, Looked
from regard.table import Table, table_of

Method: TypeAlias = Literal[
    "raw", "rollout", "norm", "relevance", "libra", "integrated", "similar", "parts", "saliency", "best"
]
"""How maps are computed; the service's docs/attention.md says which to take for which question."""
Indices: TypeAlias = int | Sequence[int] | str
"""An index, several, `"all"`, a range such as `"8:12"`, or of heads `"mean"`, `"max"`, `"min"`."""


class AttentionOptions(TypedDict, total=False):
    """Options of attention beside the method. Those that are left out have the service's defaults."""

    kind: KindName
    layers: Indices
    heads: Indices
    queries: Indices
    target: int | str | Json | Sequence[int | str | Json]
    """The class, mask, generated token or detected object that relevance, libra and integrated explain."""
    threshold: float
    """Of a detector: the probability from which an object counts as found, and has a row; else that of the answer."""
    against: Mapping[str, object] | object
    """What it is explained against: a class or a token (`{"label": "7"}`), or for embeddings the other input, as the
    model takes it (a text, a picture), or a result that was answered for it; of libra and integrated a list of two:
    what makes it like the first rather than like the second. For `rerank` another text."""
    sides: Literal["own", "both"]
    baseline: Literal["empty", "mask", "padding", "zero"]
    steps: bool | int
    """Of integrated, how many; of a stream `True` for a row with each token."""
    fusion: Literal["mean", "max", "min"]
    start_layer: int
    discard: float
    sinks: Literal["keep", "out"]
    align: Literal["emit", "input"]
    hard: bool
    merge: Literal["words", "sentences"]
    diagnostics: bool
    evaluate: Sequence[Literal["deletion", "insertion", "compare"]]
    orders: int
    pool: int


class PictureOptions(AttentionOptions, total=False):
    """Options of attention that the service draws."""

    width: int
    """Pixels, 64 to 4096; of an image, its own width by default."""
    colormap: Literal["viridis", "magma", "inferno", "turbo", "gray"]
    opacity: float
    ground: Literal["grey", "photo"]
    scale: Literal["clipped", "full"]


class AskedAttention(AttentionOptions, total=False):
    """Attention that is asked for beside a prediction: its method and options."""

    method: Method


class LookedAt(AskedAttention, total=False):
    """What `attention` takes: its method and options, and how the input is read."""

    truncate: bool
    overflow: Literal["window"]
    stride: int
    aggregate: Literal["none", "simple", "first", "average", "max"]
    ignore: Sequence[str]
    dimensions: int
    prompt_name: str
    prompt: str
    priority: Literal["interactive", "batch"]


@dataclass(frozen=True, eq=False, repr=False)
class Attention(Looked):
    """The attention maps of one input."""

    against: "Attention | None" = None
    """That of the other input: where both sides of an embedding were asked for, or two inputs' states are compared."""

    def table(
        self,
        *,
        map: int | None = None,  # noqa: A002 # as above
        head: int | None = None,
        row: int | None = None,
        object: int | None = None,  # noqa: A002 # as above
    ) -> Table:
        """Return a row for each token or patch, with its share. `map`, `head`, `row` and `object` choose."""
        return table_of({self.method: self}, map=map, head=head, row=row, object=object)

    def figure(self, picture: Image.Image | None = None) -> Figure:
        """Return a figure for a paper; of an image over the `picture` that was sent, upright."""
        return figure_of(self, picture)

    def bertviz(self) -> dict[str, Any]:
        """Return keywords for BertViz' `head_view` and `model_view`: `attention` and `tokens`, or those of a decoder.

        The maps must be raw, of all layers and heads, with `queries="all"`, which `Result.bertviz` asks for. Needs
        torch, which BertViz needs too. Raises BadInput for other maps, NotInstalled without torch.
        """
        return keywords_of(self)

    def __str__(self) -> str:
        return str(self.table()) if self.maps else repr(self)
