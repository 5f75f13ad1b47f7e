"""Telling one written sign from what else looks like ink: specks, frames, lines, the edge of the paper."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]

COARSE = 128  # the longer side, in cells, at which strokes that nearly touch are one
SPECK = 0.08  # of the largest piece's ink; less is a speck
MOST = 50  # pieces that are weighed against each other, those with the most ink
LEAST = 0.1  # of the image's height; what is lower is no reason to take the rest for its edge
NEAR = 0.5  # of the sign's longer side; a piece farther off is something else
FLAT = 0.25  # of the sign's height; a wider and flatter piece is a line


@dataclass
class Piece:
    """Connected ink, in cells: how much, and its bounding box (right and bottom exclusive)."""

    label: int
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
    """Return the pixels of the mask that belong to the sign; some must be set."""
    cell = -(-max(mask.shape) // COARSE)
    height, width = (-(-side // cell) for side in mask.shape)
    whole = np.zeros((height * cell, width * cell), np.bool_)
    whole[: mask.shape[0], : mask.shape[1]] = mask
    cells = whole.reshape(height, cell, width, cell).sum(axis=(1, 3))
    labels, pieces = _pieces(cells)
    kept = np.isin(labels, [piece.label for piece in _chosen(pieces, cells)])
    return mask & np.repeat(np.repeat(kept, cell, 0), cell, 1)[: mask.shape[0], : mask.shape[1]]


def _chosen(pieces: list[Piece], cells: npt.NDArray[np.int64]) -> list[Piece]:
    """Pick the sign: the most ink that is neither an edge nor a frame round another, and what is close to it."""
    height, width = cells.shape
    pieces = sorted(pieces, key=lambda piece: piece.ink, reverse=True)[:MOST]
    pieces = [piece for piece in pieces if piece.ink > SPECK / 4 * pieces[0].ink]
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


def _pieces(cells: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], list[Piece]]:
    """Label cells with ink that touch, corners included: labels from 1, (rows, columns), and the pieces."""
    inked = np.pad(cells > 0, 1).tolist()  # plain lists: the walk below touches single cells
    labels = np.zeros(cells.shape, np.int64)
    pieces: list[Piece] = []
    around = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]
    for start in zip(*(axis.tolist() for axis in np.nonzero(cells)), strict=True):
        if not inked[start[0] + 1][start[1] + 1]:
            continue
        inked[start[0] + 1][start[1] + 1] = False
        reached = [start]
        for row, column in reached:  # grows as it goes
            for down, right in around:
                if inked[row + down + 1][column + right + 1]:
                    inked[row + down + 1][column + right + 1] = False
                    reached.append((row + down, column + right))
        rows, columns = zip(*reached, strict=True)
        label = len(pieces) + 1
        labels[rows, columns] = label
        ink = int(cells[rows, columns].sum())
        pieces.append(Piece(label, ink, len(reached), min(columns), min(rows), max(columns) + 1, max(rows) + 1))
    return labels, pieces
