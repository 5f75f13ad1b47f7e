"""Finding the ink of one written sign, as opposed to specks, frames, lines and the border of the paper."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from PIL import Image

from contract.input_rules import ImageRule
from service.errors import Unacceptable
from service.inputs.model_input import Box, Pixels

Mask = npt.NDArray[np.bool_]

INK_SEARCH_SIDE = 512  # pixels of the longer side of the image in which ink is searched
INK_CONTRAST_SHARE = 0.4  # of the strongest contrast; a pixel with more is part of a stroke
NOISE_DEVIATIONS = 4.0  # standard deviations of the paper's brightness; a pixel that differs less is not a stroke
FAINT_CONTRAST = 64  # grey levels; if brightness differs less, colours are considered too
GRAIN_CONTRAST_SHARE = 0.15  # of the strongest contrast; less is taken for the grain of the paper
LEAST_CONTRAST = 10  # grey levels; less is paper, not ink

GRID_CELLS = 128  # of the longer side; in this grid strokes that nearly touch are connected
SPECK_INK_SHARE = 0.08  # of the largest piece's ink; a piece with less is a speck
MOST_PIECES = 50  # compared with each other, those with the most ink
LEAST_SIGN_HEIGHT = 0.1  # of the image's height; without a piece so high inside the image, no border is removed
MOST_GAP = 0.5  # of the sign's longer side; a piece farther away is not part of the sign
LINE_HEIGHT = 0.25  # of the sign's height; a wide piece that is flatter is a line


@dataclass
class Piece:
    """Connected ink: its bounding box in cells (right and bottom exclusive), its pixels of ink and its cells."""

    label: int
    ink: int
    cells: int
    left: int
    top: int
    right: int
    bottom: int

    def gap_to(self, other: "Piece") -> float:
        """Return the gap between two bounding boxes, 0 where they overlap."""
        across = max(self.left - other.right, other.left - self.right, 0)
        down = max(self.top - other.bottom, other.top - self.bottom, 0)
        return max(across, down)

    def touches(self, height: int, width: int) -> bool:
        """Return whether it reaches the border of an image of this size."""
        return not (self.left > 0 and self.top > 0 and self.right < width and self.bottom < height)

    def looks_like_border(self) -> bool:
        """Return whether it is long and thin, solid or hollow: a rim, a shadow or a frame rather than a sign."""
        wide, high = self.right - self.left, self.bottom - self.top
        return min(wide, high) < 0.2 * max(wide, high) or not 0.12 < self.cells / (wide * high) < 0.6

    def encloses(self, other: "Piece") -> bool:
        """Return whether this box encloses the other with room to spare, and the other is as large as a sign."""
        inside = (
            self.left < other.left and self.top < other.top and other.right < self.right and other.bottom < self.bottom
        )
        return inside and other.bottom - other.top > 0.3 * (self.bottom - self.top)


def find_sign(mask: Mask) -> Mask:
    """Return the pixels of a mask that belong to the sign. At least one pixel of the mask must be set."""
    cell = -(-max(mask.shape) // GRID_CELLS)
    height, width = (-(-side // cell) for side in mask.shape)
    whole = np.zeros((height * cell, width * cell), np.bool_)
    whole[: mask.shape[0], : mask.shape[1]] = mask
    cells = whole.reshape(height, cell, width, cell).sum(axis=(1, 3))
    labels, pieces = _pieces(cells)
    in_sign = np.isin(labels, [piece.label for piece in _pieces_of_sign(pieces, cells)])
    return mask & np.repeat(np.repeat(in_sign, cell, 0), cell, 1)[: mask.shape[0], : mask.shape[1]]


def _pieces_of_sign(pieces: list[Piece], cells: npt.NDArray[np.int64]) -> list[Piece]:
    """Return the pieces of the sign.

    The main piece has the most ink of those that are neither border nor a frame round another piece; the other pieces
    of the sign are close to it.
    """
    height, width = cells.shape
    pieces = sorted(pieces, key=lambda piece: piece.ink, reverse=True)[:MOST_PIECES]
    pieces = [piece for piece in pieces if piece.ink > SPECK_INK_SHARE / 4 * pieces[0].ink]
    inside_image = [
        one for one in pieces if not one.touches(height, width) and one.bottom - one.top > LEAST_SIGN_HEIGHT * height
    ]
    if inside_image:
        pieces = [one for one in pieces if not one.touches(height, width) or not one.looks_like_border()]
    pieces = [one for one in pieces if not any(one.encloses(other) for other in pieces)] or pieces
    main = max(
        pieces, key=lambda piece: piece.ink * min(1.0, (piece.bottom - piece.top) * 4 / (piece.right - piece.left))
    )
    longest = max(main.right - main.left, main.bottom - main.top)
    return [
        piece
        for piece in pieces
        if piece is main
        or (
            piece.ink > SPECK_INK_SHARE * main.ink
            and piece.gap_to(main) <= MOST_GAP * longest
            and not _is_line(piece, main)
        )
    ]


def _is_line(piece: Piece, main: Piece) -> bool:
    """Return whether a piece is a line above or below the sign, rather than one of its strokes."""
    apart = piece.top >= main.bottom or piece.bottom <= main.top
    flat = piece.bottom - piece.top <= max(1, LINE_HEIGHT * (main.bottom - main.top))
    return apart and flat and piece.right - piece.left > 0.8 * (main.right - main.left)


def _pieces(cells: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], list[Piece]]:
    """Find connected cells with ink, also by a corner: return labels from 1, (rows, columns), and the pieces."""
    inked = np.pad(cells > 0, 1).tolist()  # lists, which are faster than arrays for the single cells below
    labels = np.zeros(cells.shape, np.int64)
    pieces: list[Piece] = []
    around = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]
    for start in zip(*(axis.tolist() for axis in np.nonzero(cells)), strict=True):
        if not inked[start[0] + 1][start[1] + 1]:
            continue
        inked[start[0] + 1][start[1] + 1] = False
        reached = [start]
        for row, column in reached:  # the list grows during the loop
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


def locate_ink(image: Image.Image, rule: ImageRule) -> tuple[Box, Pixels]:
    """Find the strokes of one written sign and centre them, bright on black.

    The paper is estimated from the border of the image. Ink is what differs from it, darker or brighter, whichever
    differs more. Of the ink only the sign is returned: no specks, no border of the paper, no frame and no line under
    it. The box, in pixels of the image, is the square that the pixels show. Raises Unacceptable if nothing differs from
    the paper.
    """
    small = image.copy()
    small.thumbnail((INK_SEARCH_SIDE, INK_SEARCH_SIDE), Image.Resampling.BOX)
    ink, noise = _strongest_contrast(small)
    peak = float(_smooth(ink).max())
    dark = ink > max(INK_CONTRAST_SHARE * peak, NOISE_DEVIATIONS * noise)
    if peak < LEAST_CONTRAST or not dark.any():
        raise Unacceptable("image: must hold a sign that stands out from its paper, given one in which nothing does")
    strokes = find_sign(dark)
    floor = max(GRAIN_CONTRAST_SHARE * peak, noise)
    ink = np.where(_dilated(strokes), np.maximum(ink - floor, 0), 0) * (255 / max(ink.max() - floor, 1))
    (left, right), (top, bottom) = _extent(strokes.sum(0)), _extent(strokes.sum(1))
    box = _square(left, top, right, bottom, margin=max(rule.height, rule.width) / (rule.ink_box or rule.height))
    # space for the part of the square outside the image
    pad = int(np.ceil(max(0.0, -min(box), box[2] - small.width, box[3] - small.height)))
    sheet = Image.fromarray(np.pad(ink.clip(0, 255).astype(np.uint8), pad))
    window = (box[0] + pad, box[1] + pad, box[2] + pad, box[3] + pad)
    cut = np.asarray(sheet.resize((rule.width, rule.height), Image.Resampling.BILINEAR, box=window), np.float64)
    if cut.any():  # thin strokes get fainter as they shrink: make the middle of a stroke white again
        cut *= 255 / np.quantile(cut[cut > INK_CONTRAST_SHARE * cut.max()], 0.8)
    scale = image.width / small.width, image.height / small.height
    original = (box[0] * scale[0], box[1] * scale[1], box[2] * scale[0], box[3] * scale[1])
    return original, np.repeat(cut.clip(0, 255).astype(np.uint8)[:, :, None], rule.channels, axis=2)


def _strongest_contrast(image: Image.Image) -> tuple[npt.NDArray[np.float64], float]:
    """Return the contrast and noise of brightness, or if brightness hardly differs, of the band that differs most."""
    gray = _contrast(np.asarray(image.convert("L"), np.float64))
    if image.mode != "RGB" or _smooth(gray[0]).max() > FAINT_CONTRAST:
        return gray
    bands = [_contrast(np.asarray(band, np.float64)) for band in image.split()]
    return max((gray, *bands), key=lambda found: float(_smooth(found[0]).max()))


def _contrast(gray: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], float]:
    """Return how much each pixel differs from the paper to the side of the ink, and the noise of the paper.

    The contrast is 0 on the other side. The paper is a plane fitted to the brightness of the border, so that light that
    falls from one side is not taken for ink. The noise is a standard deviation.
    """
    height, width = gray.shape
    y, x = np.mgrid[0:height, 0:width]
    ring = max(1, min(height, width) // 20)
    border = (x < ring) | (y < ring) | (x >= width - ring) | (y >= height - ring)
    middle = np.median(gray[border])
    spread = np.median(np.abs(gray[border] - middle)) + 8
    paper = border & (np.abs(gray - middle) < 4 * spread)  # leaves out strokes that touch the border
    level, across, down = _plane(x[paper], y[paper], gray[paper])
    difference = gray - (level + across * x + down * y)
    smooth = _smooth(difference)
    side = 1.0 if smooth.max() > -smooth.min() else -1.0
    noise = 1.5 * float(np.median(np.abs(difference[paper])))  # estimates the standard deviation of Gaussian noise
    return np.maximum(side * difference, 0.0), noise


def _plane(
    x: npt.NDArray[np.int64], y: npt.NDArray[np.int64], gray: npt.NDArray[np.float64]
) -> tuple[float, float, float]:
    """Return the level, and the slopes along x and y, of the plane nearest to whole numbers (least squares).

    The normal equations are solved in fractions: LAPACK rounds by the processor and by where in memory the numbers lie,
    and a rounding can become a level of grey. A slope that the points do not determine is 0.
    """
    terms = (np.ones_like(x), x, y, gray.astype(np.int64))
    rows = [[Fraction(int((one * other).sum())) for other in terms] for one in terms[:3]]
    for pivot in range(3):
        if not rows[pivot][pivot]:
            continue
        rows[pivot] = [value / rows[pivot][pivot] for value in rows[pivot]]
        for index in range(3):
            if index != pivot:
                factor = rows[index][pivot]
                rows[index] = [value - factor * known for value, known in zip(rows[index], rows[pivot], strict=True)]
    level, across, down = (float(row[3]) for row in rows)
    return level, across, down


def _dilated(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Add the pixels next to those that are set, the soft edges of strokes."""
    padded = np.pad(mask, 1)
    rows = padded[:-2] | padded[1:-1] | padded[2:]
    return rows[:, :-2] | rows[:, 1:-1] | rows[:, 2:]


def _smooth(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Average over 3 x 3 pixels, so that grain is not taken for ink. A small image has no grain, and stays as it is."""
    if min(values.shape) < 64:
        return values
    rows = values[:-2] + values[1:-1] + values[2:]
    mean: npt.NDArray[np.float64] = (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 9
    return mean


def _extent(counts: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Return where ink begins and ends along an axis, without the outer two-hundredth of the ink at either end."""
    share = counts.cumsum() / counts.sum()
    return int(np.searchsorted(share, 0.005, side="right")), int(np.searchsorted(share, 0.995)) + 1


def _square(left: int, top: int, right: int, bottom: int, margin: float) -> Box:
    """Return the square round the middle of a rectangle, its side `margin` times the longer side."""
    half = max(right - left, bottom - top) * margin / 2
    x, y = (left + right) / 2, (top + bottom) / 2
    return x - half, y - half, x + half, y + half
