"""Options of attention, and the attention of an answer with what draws it."""

from dataclasses import dataclass
from typing import Any

from PIL import Image

from regard.bertviz import keywords_of
from regard.figures import Figure
from regard.layouts import figure_of
from regard.maps import Looked
from regard.table import Table, table_of


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
