"""Decoding of images: from the bytes of an image to the pixels that a graph takes, and their place in the image."""

import io
import math

import numpy as np
from PIL import AvifImagePlugin, ExifTags, Image, ImageFile, TiffImagePlugin

from contract.input_rules import ImageRule
from service.errors import Unacceptable, Unsupported
from service.inputs.avif_header import still
from service.inputs.image_header import check_pixels
from service.inputs.image_kinds import FORMATS, INSTEAD, kind_of
from service.inputs.ink import INK_SEARCH_SIDE, locate_ink
from service.inputs.model_input import Box, Picture, Pixels
from service.inputs.png_chunks import needed_chunks
from service.inputs.tiff_images import as_bytes, check_tiff

Image.MAX_IMAGE_PIXELS = None  # the limit of `open_image` comes first, and its refusal has our words
AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # a confined process can start none
PREPARED = {"PNG": needed_chunks, "AVIF": still}
"""By kind: what is made of its bytes before Pillow reads them."""

TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What makes an image upright, by its EXIF orientation (Exif 2.32, tag 0x0112)."""
STEPS = {"L;2": 85, "L;4": 17}
"""Of greys of 2 and 4 bits: how far apart they are as bytes."""
ORIENTATION, SIZE = "orientation", "size"  # keys of `Image.info`: the EXIF orientation, and the full size
DRAFT_PIXELS = (
    2_000_000  # a JPEG of at least this number of pixels is decoded at a reduced scale, if its rule allows that
)
START_OF_SCAN = b"\xff\xda"
MOST_SCANS = 200  # of a progressive JPEG, which has about ten; each costs a pass over the whole image
NEARLY_WHITE = 200  # brightness: a drawing that is brighter could not be seen on white, so it is put on black
MOST_RESIZED_PIXELS = 2**24  # of an image that would be resized to more, only the part that is cut out is computed
FILTER_REACH = 4  # pixels of the coarser image: the widest filter reads three on each side, and rounding adds one


def decode_image(data: bytes, rule: ImageRule | None, max_pixels: int, announced_pixels: int | None = None) -> Picture:
    """Decode an image and return the picture that the rule selects, or without a rule the whole image, upright.

    Before any pixel is decoded it raises Unsupported if the bytes are not an image of a known format, TooLarge if the
    size in the header is too large, and Unacceptable if it is larger than the `announced_pixels` that another reader
    found in the header. It raises Unacceptable too if the pixels cannot be decoded.
    """
    image = open_image(data, max_pixels, _needed_side(rule) if rule else None, announced_pixels)
    width, height = image.info[SIZE]
    if not rule:
        pixels = np.asarray(image).reshape(height, width, -1)
        return Picture(pixels, (0.0, 0.0, float(width), float(height)), width, height, image.info[ORIENTATION])
    across, down = width / image.width, height / image.height
    (left, top, right, bottom), pixels = _LOCATORS[rule.locate](image, rule)
    box = (left * across, top * down, right * across, bottom * down)
    return Picture(pixels, box, width, height, image.info[ORIENTATION])


def _needed_side(rule: ImageRule) -> int | None:
    """Return the longest side of the image that a rule works on, None if it needs every pixel of the image."""
    if not rule.fast_jpeg:
        return None
    if rule.locate == "ink":
        return INK_SEARCH_SIDE
    if rule.locate == "fit":
        return max(rule.height, rule.width)
    return max(rule.resize) if isinstance(rule.resize, tuple) else rule.resize


def open_image(
    data: bytes, max_pixels: int, side: int | None = None, announced_pixels: int | None = None
) -> Image.Image:
    """Return the image, upright, as `L` or `RGB`.

    What is transparent becomes white, or black if what is opaque is nearly white (NEARLY_WHITE). With `side`, a large
    JPEG is decoded at 1/2, 1/4 or 1/8 scale, if that divides its size and leaves at least twice `side`: it takes a half
    to a quarter of the time, and about a fifth of the resized pixels differ, by 2 or 3 levels at most in photographs.
    `info` holds the full size. Raises as `decode_image` does.
    """
    image = _opened(data)
    width, height = image.size
    check_pixels(width, height, max_pixels)
    pixels = width * height
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        pixels = check_tiff(image, max_pixels)
    if announced_pixels is not None and pixels > announced_pixels:  # of two headers Pillow believes the last
        raise Unacceptable("image: must have the size that its header announces, given a larger one")
    if image.format in ("JPEG", "MPO") and data.count(START_OF_SCAN) > MOST_SCANS:
        raise Unacceptable(f"image: at most {MOST_SCANS} scans, given more")
    try:
        if side and width * height >= DRAFT_PIXELS:
            steps = (
                step for step in (8, 4, 2) if width % step == height % step == 0 and min(image.size) >= 2 * side * step
            )
            step = next(steps, 1)
            image.draft(None, (width // step, height // step))
        return _upright(image, (width, height))
    except MemoryError:  # the decoder process exits with OUT_OF_MEMORY_STATUS
        raise
    except Exception as error:  # Pillow raises many classes; some messages hold memory addresses
        raise Unacceptable(f"image: must be whole, given {len(data)} bytes of which not all can be decoded") from error


def _opened(data: bytes) -> ImageFile.ImageFile:
    """Return an image of which no pixel is decoded yet. Raises Unsupported, and Unacceptable."""
    kind = kind_of(data)
    if kind not in FORMATS:
        given = f"{kind}; {INSTEAD[kind]}" if kind else f"{len(data)} bytes that are none of them"
        raise Unsupported(f"image: must be one of {', '.join(FORMATS)}, given {given}")
    try:
        return Image.open(io.BytesIO(PREPARED.get(kind, bytes)(data)), formats=[kind])
    except Exception as error:  # as above
        raise Unacceptable(
            f"image: must be a whole {kind} of a usual form, given {len(data)} bytes that cannot be read as one"
        ) from error


def _upright(image: ImageFile.ImageFile, size: tuple[int, int]) -> Image.Image:
    """Decode an image of this full size, width and height; return it upright and opaque."""
    hidden, frame = _hidden_grey(image), _frame(image)
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        orientation, turn = _orientation(image), None  # Pillow turns it while it decodes it
        image.load()
        upright = _opaque(as_bytes(image))
    else:
        image.load()  # the EXIF of a PNG may come last
        orientation = _orientation(image)
        turn = TURNS.get(orientation)
        upright = _opaque(image, hidden, frame)
    if turn is not None:
        upright = upright.transpose(turn)
    upright.info[SIZE] = size if turn is None or orientation < 5 else size[::-1]
    upright.info[ORIENTATION] = orientation
    return upright


def _orientation(image: Image.Image) -> int:
    found = image.getexif().get(ExifTags.Base.Orientation)
    return found if found in TURNS else 1


def _hidden_grey(image: ImageFile.ImageFile) -> int | None:
    """Return the grey that is transparent in an image of greys that is not loaded yet, as its pixels will be."""
    hidden = image.info.get("transparency")
    if not isinstance(hidden, int) or not image.mode.startswith(("L", "I")):
        return None
    raw = image.tile[0][3]
    return hidden * STEPS.get(raw if isinstance(raw, str) else "", 1)


def _frame(image: ImageFile.ImageFile) -> tuple[int, int, int, int] | None:
    """Return the part of the screen that the first image of a GIF fills, not loaded yet, if it leaves some of it."""
    if image.format != "GIF" or image.tile[0].extents == (0, 0, *image.size):
        return None
    return image.tile[0].extents


def _opaque(
    image: Image.Image, hidden: int | None = None, frame: tuple[int, int, int, int] | None = None
) -> Image.Image:
    """Return an image as `L` or `RGB`, with a ground behind what is transparent.

    That is the `hidden` grey, among others, and what is around a `frame`.
    """
    seen = None
    if hidden is not None:
        image.info.pop("transparency")
        seen = Image.fromarray(np.where(np.asarray(image) == hidden, 0, 255).astype(np.uint8))
    elif frame and "transparency" not in image.info:  # else it is filled with what is transparent
        seen = Image.new("L", image.size)
        seen.paste(255, frame)
    if image.mode.startswith(("I", "F")):  # 16 bits per pixel: scaled, since converting would clip them
        # whole numbers: as floats of 64 bits, an image of 16 megapixels would take 384 MB
        image = Image.fromarray((np.asarray(image).clip(0, 65535) // 257).astype(np.uint8))
    if seen:
        image.putalpha(seen)
    if image.mode == "La":  # greys times their alpha, which Pillow converts to these alone
        image = image.convert("LA")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        opaque = np.asarray(layer.convert("L"))[np.asarray(layer.getchannel("A")) > 127]
        background = "black" if opaque.size and np.median(opaque) > NEARLY_WHITE else "white"
        return Image.alpha_composite(Image.new("RGBA", image.size, background), layer).convert("RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _cut_middle(image: Image.Image, rule: ImageRule) -> tuple[Box, Pixels]:
    """Resize the image and cut out its middle, with black where it is too small, as the transformers library does."""
    image = image.convert("L" if rule.channels == 1 else "RGB")
    width, height = _resized(image.info.get(SIZE, image.size), rule.resize)
    left, top = (width - rule.width) // 2, (height - rule.height) // 2
    right, bottom = left + rule.width, top + rule.height
    resample = Image.Resampling[rule.resample.upper()]
    if width * height <= MOST_RESIZED_PIXELS:
        cut = image.resize((width, height), resample).crop((left, top, right, bottom))
    else:
        x, y = max(left, 0), max(top, 0)
        part = _resized_part(image, (width, height), (x, y, min(right, width), min(bottom, height)), resample)
        cut = part.crop((left - x, top - y, right - x, bottom - y))
    across, down = image.width / width, image.height / height
    pixels = np.asarray(cut, np.uint8).reshape(rule.height, rule.width, rule.channels)
    return (left * across, top * down, right * across, bottom * down), pixels


def _resized_part(
    image: Image.Image, size: tuple[int, int], box: tuple[int, int, int, int], resample: Image.Resampling
) -> Image.Image:
    """Return the part `box` of the image resized to `size`, without computing the rest.

    Pillow holds the position in float32, so it is given relative to a nearby crop, to lose little precision. Still a
    value may differ by one, or with `nearest` be that of a neighbouring pixel.
    """
    across, down = image.width / size[0], image.height / size[1]
    # the filter reads this number of pixels around the part
    x, y = FILTER_REACH * math.ceil(across), FILTER_REACH * math.ceil(down)
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
    longer = int(resize * max(size) / min(size))  # truncated, not rounded, as the transformers library does
    return (resize, longer) if size[0] <= size[1] else (longer, resize)


def _fit(image: Image.Image, rule: ImageRule) -> tuple[Box, Pixels]:
    """Resize the image to fit into the upper left; what is beside it is as near to the network's 0 as a byte can be.

    Graphs that take how much is shown make it 0.
    """
    image = image.convert("L" if rule.channels == 1 else "RGB")
    width, height = rule.fitted(*image.info.get(SIZE, image.size))
    resized = image.resize((width, height), Image.Resampling[rule.resample.upper()])
    beside = np.clip(np.rint(np.multiply(rule.mean, 255)), 0, 255).astype(np.uint8)
    pixels = np.tile(beside, (rule.height, rule.width, 1))
    pixels[:height, :width] = np.asarray(resized, np.uint8).reshape(height, width, rule.channels)
    return (0.0, 0.0, rule.width * image.width / width, rule.height * image.height / height), pixels


_LOCATORS = {"middle": _cut_middle, "ink": locate_ink, "fit": _fit}
