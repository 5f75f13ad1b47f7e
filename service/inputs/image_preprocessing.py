"""Decode: the bytes of an image to the pixels that a graph takes, and where in the image they come from."""

import io
import math

import numpy as np
from PIL import ExifTags, Image, ImageOps

from contract.manifest import ImageRule
from service.errors import TooLarge, Unacceptable, Unsupported
from service.inputs.ink import LONGEST, locate_ink
from service.inputs.model_input import Box, Picture, Pixels

FORMATS = ("JPEG", "PNG", "WEBP")

Image.MAX_IMAGE_PIXELS = None  # the limit of `open_image` comes first, and refuses in words of ours

ORIENTATION, SIZE = "orientation", "size"
LARGE = 2_000_000  # pixels
START_OF_SCAN = b"\xff\xda"
MOST_SCANS = 200  # of a progressive JPEG, which has about ten; each costs a pass over the whole image

NEARLY_WHITE = 200  # brightness of what is drawn on nothing; on white it would not be seen


LARGEST = 2**24  # pixels that an image may be resized to; of those to become larger only what is cut is computed
REACH = 4  # pixels of either image, the coarser; the widest filter looks at three to each side, and rounding adds one


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


_LOCATE = {"middle": _middle, "ink": locate_ink}
