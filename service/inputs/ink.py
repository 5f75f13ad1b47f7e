"""Telling one written sign from what else looks like ink: specks, frames, lines, the edge of the paper."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from contract.manifest import ImageRule
from service.errors import Unacceptable
from service.inputs.model_input import Box, Pixels

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


INK = 0.4  # of the strongest contrast; more is a stroke


NOISE = 4.0  # standard deviations of the paper's brightness; less is no stroke


FAINT = 64  # grey levels; where brightness differs less, colours are looked at


GRAIN = 0.15  # of the strongest contrast; less is taken for the paper's


LEAST_CONTRAST = 10  # grey levels; less is paper, not ink


LONGEST = 512  # the side at which ink is looked for


def locate_ink(image: Image.Image, rule: ImageRule) -> tuple[Box, Pixels]:
    """Find the strokes of one written sign and centre them, bright on black.

    Paper is what the image's border is; ink is what differs from it, to the side that differs more. Of what looks like
    ink only the sign is kept: no specks, no edge of the paper, no frame and no line under it. Raises Unacceptable where
    nothing differs.
    """
    small = image.copy()
    small.thumbnail((LONGEST, LONGEST), Image.Resampling.BOX)
    ink, noise = _clearest(small)
    peak = float(_smooth(ink).max())
    dark = ink > max(INK * peak, NOISE * noise)
    if peak < LEAST_CONTRAST or not dark.any():
        raise Unacceptable("image: must hold a sign that stands out from its paper, given one in which nothing does")
    strokes = sign(dark)
    floor = max(GRAIN * peak, noise)
    ink = np.where(_grown(strokes), np.maximum(ink - floor, 0), 0) * (255 / max(ink.max() - floor, 1))
    (left, right), (top, bottom) = _extent(strokes.sum(0)), _extent(strokes.sum(1))
    box = _square(left, top, right, bottom, margin=max(rule.height, rule.width) / (rule.ink_box or rule.height))
    # room for the part of the square that lies beyond the image
    pad = int(np.ceil(max(0.0, -min(box), box[2] - small.width, box[3] - small.height)))
    sheet = Image.fromarray(np.pad(ink.clip(0, 255).astype(np.uint8), pad))
    window = (box[0] + pad, box[1] + pad, box[2] + pad, box[3] + pad)
    cut = np.asarray(sheet.resize((rule.width, rule.height), Image.Resampling.BILINEAR, box=window), np.float64)
    if cut.any():  # thin strokes grow faint as they shrink: the middle of a stroke is white again
        cut *= 255 / np.quantile(cut[cut > INK * cut.max()], 0.8)
    scale = image.width / small.width, image.height / small.height
    original = (box[0] * scale[0], box[1] * scale[1], box[2] * scale[0], box[3] * scale[1])
    return original, np.repeat(cut.clip(0, 255).astype(np.uint8)[:, :, None], rule.channels, axis=2)


def _clearest(image: Image.Image) -> tuple[npt.NDArray[np.float64], float]:
    """Return the contrast in brightness, or where there is little of it, in the colour that shows most."""
    gray = _contrast(np.asarray(image.convert("L"), np.float64))
    if image.mode != "RGB" or _smooth(gray[0]).max() > FAINT:
        return gray
    bands = [_contrast(np.asarray(band, np.float64)) for band in image.split()]
    return max((gray, *bands), key=lambda found: float(_smooth(found[0]).max()))


def _contrast(gray: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], float]:
    """How much each pixel differs from the paper, to the side of the ink (the other side is 0), and the paper's noise.

    The paper is a plane through the border's brightness, so that light falling from one side is no ink.
    """
    height, width = gray.shape
    y, x = np.mgrid[0:height, 0:width]
    ring = max(1, min(height, width) // 20)
    border = (x < ring) | (y < ring) | (x >= width - ring) | (y >= height - ring)
    middle = np.median(gray[border])
    spread = np.median(np.abs(gray[border] - middle)) + 8
    paper = border & (np.abs(gray - middle) < 4 * spread)  # a stroke that touches the border is left out
    design = np.stack((np.ones(paper.sum()), x[paper] / width, y[paper] / height), axis=1)
    plane, *_ = np.linalg.lstsq(design, gray[paper], rcond=None)
    difference = gray - (plane[0] + plane[1] * x / width + plane[2] * y / height)
    smooth = _smooth(difference)
    side = 1.0 if smooth.max() > -smooth.min() else -1.0
    noise = 1.5 * float(np.median(np.abs(difference[paper])))  # a standard deviation, were it Gaussian
    return np.maximum(side * difference, 0.0), noise


def _grown(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Add the pixels next to those that are set, the soft edges of a stroke."""
    padded = np.pad(mask, 1)
    rows = padded[:-2] | padded[1:-1] | padded[2:]
    return rows[:, :-2] | rows[:, 1:-1] | rows[:, 2:]


def _smooth(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Average over three by three pixels, so that grain is not taken for ink; a tiny image has none to lose."""
    if min(values.shape) < 64:
        return values
    rows = values[:-2] + values[1:-1] + values[2:]
    mean: npt.NDArray[np.float64] = (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 9
    return mean


def _extent(counts: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Return where ink begins and ends along an axis, specks of a two-hundredth of it at either end left out."""
    share = counts.cumsum() / counts.sum()
    return int(np.searchsorted(share, 0.005, side="right")), int(np.searchsorted(share, 0.995)) + 1


def _square(left: int, top: int, right: int, bottom: int, margin: float) -> Box:
    """Return the square round the middle of a rectangle, its side `margin` times the longer side."""
    half = max(right - left, bottom - top) * margin / 2
    x, y = (left + right) / 2, (top + bottom) / 2
    return x - half, y - half, x + half, y + half
