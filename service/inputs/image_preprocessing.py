"""Decode: the bytes of an image to the pixels that a graph takes, and where in the image they come from."""

import io
import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageOps

from contract.manifest import ImageRule
from service.errors import TooLarge, Unacceptable, Unsupported
from service.inputs.ink import sign

FORMATS = ("JPEG", "PNG", "WEBP")
Pixels: TypeAlias = npt.NDArray[np.uint8]
Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels of the upright image; may reach beyond its edges."""

Image.MAX_IMAGE_PIXELS = None  # the limit of `open_image` comes first, and refuses in words of ours

ORIENTATION, SIZE = "orientation", "size"
LARGE = 2_000_000  # pixels
START_OF_SCAN = b"\xff\xda"
MOST_SCANS = 200  # of a progressive JPEG, which has about ten; each costs a pass over the whole image

NEARLY_WHITE = 200  # brightness of what is drawn on nothing; on white it would not be seen

INK = 0.4  # of the strongest contrast; more is a stroke
NOISE = 4.0  # standard deviations of the paper's brightness; less is no stroke
FAINT = 64  # grey levels; where brightness differs less, colours are looked at
GRAIN = 0.15  # of the strongest contrast; less is taken for the paper's
LEAST_CONTRAST = 10  # grey levels; less is paper, not ink
LONGEST = 512  # the side at which ink is looked for

LARGEST = 2**24  # pixels that an image may be resized to; of those to become larger only what is cut is computed
REACH = 4  # pixels of either image, the coarser; the widest filter looks at three to each side, and rounding adds one


@dataclass(frozen=True)
class Picture:
    """What a graph takes of an image, and the rectangle of the image it was taken from."""

    pixels: Pixels  # (height, width, channels)
    box: Box
    width: int
    height: int
    orientation: int = 1
    """By which EXIF says the stored pixels were turned to stand upright: 1 to 8, 1 for not at all."""


def decode_image(data: bytes, rule: ImageRule, max_pixels: int) -> Picture:
    """Decode an image and take of it what the rule asks for.

    Raises Unsupported if the bytes are no image of a known format, TooLarge by the size in its header, before any
    pixel is decoded, and Unacceptable if the pixels cannot be decoded.
    """
    image = open_image(data, max_pixels, _looked_at(rule))
    width, height = image.info[SIZE]
    across, down = width / image.width, height / image.height
    (left, top, right, bottom), pixels = _LOCATE[rule.locate](image, rule)
    box = (left * across, top * down, right * across, bottom * down)
    return Picture(pixels, box, width, height, image.info[ORIENTATION])


def _looked_at(rule: ImageRule) -> int | None:
    """Return the longest side at which a rule looks at an image, None where it takes its pixels as they are."""
    if rule.locate == "ink":
        return LONGEST
    return max(rule.resize) if isinstance(rule.resize, tuple) else rule.resize


def open_image(data: bytes, max_pixels: int, side: int | None = None) -> Image.Image:
    """Return the image, upright, as `L` or `RGB`; what is transparent becomes white, or black where the rest is.

    Of a large JPEG that will be made as small as `side` a half, a quarter or an eighth of each side is decoded, where
    that divides it and is still twice what is needed: values differ by less than a level in the mean, and it takes a
    fraction of the time. `info` holds the full size.
    """
    known = f"image: must be one of {', '.join(FORMATS)}"
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except Exception as error:  # Pillow raises many kinds, some with addresses in their words
        raise Unsupported(f"{known}, given {len(data)} bytes that are none of them") from error
    width, height = image.size
    if width * height > max_pixels:
        raise TooLarge(f"image: at most {max_pixels} pixels, given {width} x {height}")
    if data.count(START_OF_SCAN) > MOST_SCANS:
        raise Unacceptable(f"image: at most {MOST_SCANS} scans, given more")
    try:
        if side and width * height >= LARGE:
            steps = (
                step for step in (8, 4, 2) if width % step == height % step == 0 and min(image.size) >= 2 * side * step
            )
            step = next(steps, 1)
            image.draft(None, (width // step, height // step))
        image.load()
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
        ImageOps.exif_transpose(image, in_place=True)
        upright = _opaque(image)
        turned = orientation in range(5, 9)
        upright.info[SIZE] = (height, width) if turned else (width, height)
        upright.info[ORIENTATION] = orientation if orientation in range(1, 9) else 1
        return upright
    except MemoryError:  # which is the decoder's to say
        raise
    except Exception as error:  # as above
        raise Unacceptable(f"image: must be whole, given {len(data)} bytes of which not all can be decoded") from error


def _opaque(image: Image.Image) -> Image.Image:
    if image.mode.startswith(("I", "F")):  # 16 bits a pixel: scaled, since converting would clip them
        return Image.fromarray((np.asarray(image, np.float64) / 257).clip(0, 255).astype(np.uint8))
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        shown = np.asarray(layer.convert("L"))[np.asarray(layer.getchannel("A")) > 127]
        paper = "black" if shown.size and np.median(shown) > NEARLY_WHITE else "white"
        return Image.alpha_composite(Image.new("RGBA", image.size, paper), layer).convert("RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _middle(image: Image.Image, rule: ImageRule) -> tuple[Box, Pixels]:
    """Resize the whole image and cut the middle of it, black where it is too small, as transformers does."""
    image = image.convert("L" if rule.channels == 1 else "RGB")
    width, height = _resized(image.info.get(SIZE, image.size), rule.resize)
    left, top = (width - rule.width) // 2, (height - rule.height) // 2
    right, bottom = left + rule.width, top + rule.height
    resample = Image.Resampling[rule.resample.upper()]
    if width * height <= LARGEST:
        cut = image.resize((width, height), resample).crop((left, top, right, bottom))
    else:
        x, y = max(left, 0), max(top, 0)
        part = _part(image, (width, height), (x, y, min(right, width), min(bottom, height)), resample)
        cut = part.crop((left - x, top - y, right - x, bottom - y))
    across, down = image.width / width, image.height / height
    pixels = np.asarray(cut, np.uint8).reshape(rule.height, rule.width, rule.channels)
    return (left * across, top * down, right * across, bottom * down), pixels


def _part(
    image: Image.Image, size: tuple[int, int], box: tuple[int, int, int, int], resample: Image.Resampling
) -> Image.Image:
    """Return what `box` would cut of the image resized to `size`, computed without the rest.

    Pillow takes the place in float32, and is given it from close by. Still a value may differ by one, or with `nearest`
    be that of the pixel beside.
    """
    across, down = image.width / size[0], image.height / size[1]
    x, y = REACH * math.ceil(across), REACH * math.ceil(down)  # the pixels beside it that the filter looks at
    left, top = max(0, int(box[0] * across) - x), max(0, int(box[1] * down) - y)
    right, bottom = min(image.width, int(box[2] * across) + x), min(image.height, int(box[3] * down) + y)
    near = image.crop((left, top, right, bottom))
    place = (
        box[0] * across - left,
        box[1] * down - top,
        min(box[2] * across - left, near.width),
        min(box[3] * down - top, near.height),
    )
    return near.resize((box[2] - box[0], box[3] - box[1]), resample, box=place)


def _resized(size: tuple[int, int], resize: tuple[int, int] | int | None) -> tuple[int, int]:
    """Return the width and height that an image of this width and height is resized to."""
    if resize is None:
        return size
    if isinstance(resize, tuple):
        return resize[1], resize[0]
    longer = int(resize * max(size) / min(size))  # cut off, not rounded
    return (resize, longer) if size[0] <= size[1] else (longer, resize)


def _ink(image: Image.Image, rule: ImageRule) -> tuple[Box, Pixels]:
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


_LOCATE = {"middle": _middle, "ink": _ink}
