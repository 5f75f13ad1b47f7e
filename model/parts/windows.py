"""Windows of a grid of tokens: how they are cut."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Windows:
    """A grid of tokens in reading order, cut into square windows after a cyclic shift up and to the left.

    Liu et al. 2021, section 3.2 and figure 4. `side` and `shift` are in tokens.
    """

    rows: int
    columns: int
    side: int
    shift: int = 0

    def __post_init__(self) -> None:
        if self.rows % self.side or self.columns % self.side:
            raise ValueError(
                f"windows: sides of the grid must be multiples of the window's {self.side}, "
                f"given {self.rows}x{self.columns}"
            )
        if not 0 <= self.shift < self.side:
            raise ValueError(f"windows: shift must be from 0 to {self.side - 1}, given {self.shift}")

    @property
    def count(self) -> int:
        """How many windows there are."""
        return self.rows * self.columns // self.side**2

    def cut(self, x: Tensor) -> Tensor:
        """Take x (batch, token, width) -> (batch, windows, slot, width)."""
        width = x.shape[2]
        x = x.reshape(-1, self.rows, self.columns, width)
        if self.shift:
            x = torch.cat((x[:, self.shift :], x[:, : self.shift]), dim=1)
            x = torch.cat((x[:, :, self.shift :], x[:, :, : self.shift]), dim=2)
        x = x.reshape(-1, self.rows // self.side, self.side, self.columns // self.side, self.side, width)
        return x.transpose(2, 3).reshape(-1, self.count, self.side**2, width)

    def join(self, x: Tensor) -> Tensor:
        """Take x (batch, windows, slot, width) -> (batch, token, width): the inverse of `cut`."""
        width = x.shape[3]
        x = x.reshape(-1, self.rows // self.side, self.columns // self.side, self.side, self.side, width)
        x = x.transpose(2, 3).reshape(-1, self.rows, self.columns, width)
        if self.shift:
            up, left = self.rows - self.shift, self.columns - self.shift
            x = torch.cat((x[:, up:], x[:, :up]), dim=1)
            x = torch.cat((x[:, :, left:], x[:, :, :left]), dim=2)
        return x.reshape(-1, self.rows * self.columns, width)

    def places(self) -> Tensor:
        """Return the token of each slot, (windows, slot)."""
        tokens = torch.arange(self.rows * self.columns)
        return self.cut(tokens[None, :, None])[0, :, :, 0]

    def visible(self) -> Tensor | None:
        """Return (windows, slot, slot), True where both slots are on the same side of the edge that a shift wraps.

        None if nothing is shifted: then all slots of a window see each other.
        """
        if not self.shift:
            return None
        places = self.places()
        below, right = places // self.columns < self.shift, places % self.columns < self.shift  # went round the edge
        return (below[:, :, None] == below[:, None]) & (right[:, :, None] == right[:, None])


def fitted(rows: int, columns: int, side: int, *, shifted: bool) -> Windows:
    """Return windows of a side, or of the grid's shorter side where that is not longer; those are not shifted.

    A shift is half of the side (Liu et al. 2021, section 3.2; for small grids as in the authors' code).
    """
    shorter = min(rows, columns)
    return Windows(rows, columns, min(side, shorter), side // 2 if shifted and shorter > side else 0)


def found_at(places: Tensor) -> tuple[Tensor, Tensor]:
    """Return the window and the slot of each token, (token) both, of places (windows, slot)."""
    order = places.flatten().argsort()
    return order // places.shape[1], order % places.shape[1]
