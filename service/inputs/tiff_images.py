"""What a TIFF has that no other format has: tiles, greys whose white is 0, samples of many sizes, smaller copies."""

import numpy as np
from PIL import Image, TiffImagePlugin

from service.errors import Unacceptable
from service.inputs.image_header import check_pixels
from service.inputs.tiff_header import TILE_HEIGHT, TILE_WIDTH

SUBFILE, BITS, PHOTOMETRIC, SAMPLE_FORMAT = 254, 258, 262, 339  # tags (TIFF 6.0)
REDUCED = 1  # in the tag of a subfile: a smaller copy of another image
WHITE_IS_ZERO, LAB = 0, 8
WHOLE_NUMBERS = 1
MOST_BITS = 16


def check_tiff(image: TiffImagePlugin.TiffImageFile, most: int) -> int:
    """Return the pixels of an image or of a tile of it, whichever is larger, before any is decoded.

    Raises TooLarge for a tile of more than `most`, and Unacceptable for samples that do not say what is white, and for
    a smaller copy in place of the image.
    """
    tags = image.tag_v2
    try:
        width, height, subfile = (int(tags.get(tag, 0)) for tag in (TILE_WIDTH, TILE_HEIGHT, SUBFILE))
    except (TypeError, ValueError) as error:  # a tag may hold a text, or several numbers
        raise Unacceptable("image: a TIFF must have whole numbers as sides of its tiles, given others") from error
    check_pixels(width, height, most)
    if subfile & REDUCED:
        raise Unacceptable(
            "image: a TIFF must begin with the image, given one that begins with a smaller copy of it, as raw "
            "photographs do; send it as JPEG or PNG"
        )
    formats, bits = tags.get(SAMPLE_FORMAT, (WHOLE_NUMBERS,)), tags.get(BITS, (1,))
    if set(formats) != {WHOLE_NUMBERS} or max(bits) > MOST_BITS or tags.get(PHOTOMETRIC) == LAB:
        raise Unacceptable(
            f"image: a TIFF must have samples without a sign, of at most {MOST_BITS} bits, of grey, RGB, CMYK, YCbCr "
            "or a palette, given others; send it as PNG"
        )
    return max(image.width * image.height, width * height)


def as_bytes(image: TiffImagePlugin.TiffImageFile) -> Image.Image:
    """Return a decoded image, of greys of more than 8 bits as bytes: Pillow leaves them as they are stored."""
    if not image.mode.startswith("I;16"):
        return image
    most = (1 << image.tag_v2[BITS][0]) - 1
    greys = np.asarray(image).astype(np.uint32) * 255 // most
    return Image.fromarray(
        (255 - greys if image.tag_v2.get(PHOTOMETRIC, 0) == WHITE_IS_ZERO else greys).astype(np.uint8)
    )
