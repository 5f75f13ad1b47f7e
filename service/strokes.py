"""Telling one written sign from what else looks like ink: specks, frames, lines, the edge of the paper."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]

COARSE = 128  # the longer side, in cells, at which strokes that nearly touch are one
SPECK = 0.08  # of the largest piece's ink; less is a speck
LEAST = 0.1  # of the image's height; what is lower is no reason to take the rest for its edge
NEAR = 0.5  # of the sign's longer side; a piece farther off is something else
FLAT = 0.25  # of the sign's height; a wider and flatter piece is a line


@dataclass
class Piece:
    """Connected ink, in cells: how much, and its bounding box (right and bottom exclusive)."""

    ink: int
    cells: int
    left: int
    top: int
    right: int
    bottom: int

    def beside(self, other: "Piece") -> float:
        """Return the gap between two bounding boxes, 0 where they overlap."""
        across = max(self.left - other.right, other.left - self.right, 0)
        down = max(self.top - other.bottom, other.top - self.bottom, 0)
        return max(across, down)

    def touches(self, height: int, width: int) -> bool:
        """Does it reach the edge of an image of that size."""
        return not (self.left > 0 and self.top > 0 and self.right < width and self.bottom < height)

    def is_edge(self) -> bool:
        """Is it, at the edge, long and thin, or solid, or hollow: a rim, a shadow, a frame, rather than a sign."""
        wide, high = self.right - self.left, self.bottom - self.top
        return min(wide, high) < 0.2 * max(wide, high) or not 0.12 < self.cells / (wide * high) < 0.6

    def encloses(self, other: "Piece") -> bool:
        """Does this box hold the other with room to spare, and is the other large enough to be the sign."""
        inside = (
            self.left < other.left and self.top < other.top and other.right < self.right and other.bottom < self.bottom
        )
        return inside and other.bottom - other.top > 0.3 * (self.bottom - self.top)


def sign(mask: Mask) -> Mask:
    """Return the pixels of the mask that belong to the sign."""
    cell = -(-max(mask.shape) // COARSE)
    height, width = (-(-side // cell) for side in mask.shape)
    whole = np.zeros((height * cell, width * cell), np.bool_)
    whole[: mask.shape[0], : mask.shape[1]] = mask
    cells = whole.reshape(height, cell, width, cell).sum(axis=(1, 3))
    labels, pieces = _pieces(cells)
    kept = np.isin(labels, [label for label, piece in pieces.items() if piece in _chosen(list(pieces.values()), cells)])
    return mask & np.repeat(np.repeat(kept, cell, 0), cell, 1)[: mask.shape[0], : mask.shape[1]]


def _chosen(pieces: list[Piece], cells: npt.NDArray[np.int64]) -> list[Piece]:
    """Pick the sign: the most ink that is neither an edge nor a frame round another, and what is close to it."""
    height, width = cells.shape
    most = max(piece.ink for piece in pieces)
    pieces = [piece for piece in pieces if piece.ink > SPECK / 4 * most]
    within = [one for one in pieces if not one.touches(height, width) and one.bottom - one.top > LEAST * height]
    if within:
        pieces = [one for one in pieces if not one.touches(height, width) or not one.is_edge()]
    pieces = [one for one in pieces if not any(one.encloses(other) for other in pieces)] or pieces
    main = max(
        pieces, key=lambda piece: piece.ink * min(1.0, (piece.bottom - piece.top) * 4 / (piece.right - piece.left))
    )
    longest = max(main.right - main.left, main.bottom - main.top)
    return [
        piece
        for piece in pieces
        if piece is main
        or (piece.ink > SPECK * main.ink and piece.beside(main) <= NEAR * longest and not _a_line(piece, main))
    ]


def _a_line(piece: Piece, main: Piece) -> bool:
    """Is a piece a line above or below the sign, rather than one of its strokes."""
    apart = piece.top >= main.bottom or piece.bottom <= main.top
    flat = piece.bottom - piece.top <= max(1, FLAT * (main.bottom - main.top))
    return apart and flat and piece.right - piece.left > 0.8 * (main.right - main.left)


def _pieces(cells: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], dict[int, Piece]]:
    """Label cells with ink that touch, corners included: labels from 1, (rows, columns), and the pieces by label."""
    labels = np.zeros(cells.shape, np.int64)
    pieces: dict[int, Piece] = {}
    for start in zip(*np.nonzero(cells), strict=True):
        if labels[start]:
            continue
        label = len(pieces) + 1
        labels[start] = label
        reached = [start]
        for row, column in reached:  # grows as it goes
            window = (slice(max(row - 1, 0), row + 2), slice(max(column - 1, 0), column + 2))
            for r, c in np.argwhere((cells[window] > 0) & (labels[window] == 0)):
                cell = (window[0].start + r, window[1].start + c)
                labels[cell] = label
                reached.append(cell)
        rows, columns = zip(*reached, strict=True)
        ink = int(sum(cells[cell] for cell in reached))
        pieces[label] = Piece(ink, len(reached), min(columns), min(rows), max(columns) + 1, max(rows) + 1)
    return labels, pieces
