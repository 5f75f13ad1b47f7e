"""Images that tests draw, and the rules by which they are decoded."""

import io
import struct
import zlib

import numpy as np
from PIL import ExifTags, Image, ImageDraw

from contract.input_rules import ImageRule

INK = ImageRule(height=28, width=28, channels=1, locate="ink", ink_box=20, mean=(0.5,), std=(0.5,))


def encoded(image, kind="PNG", **options):
    """Return the bytes of an image in a format."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def middle(height, width, channels=3, **options):
    """Return a rule that takes the middle of an image."""
    numbers = (0.5,) * channels
    return ImageRule(
        height=height, width=width, channels=channels, locate="middle", mean=numbers, std=numbers, **options
    )


def bar(width=200, height=100, left=90, top=30, right=110, bottom=70, ink=0, paper=255):
    """Return a page with a bar of ink."""
    pixels = np.full((height, width), paper, np.uint8)
    pixels[top:bottom, left:right] = ink
    return Image.fromarray(pixels)


def written(paper=235):
    """Return a seven with a bar of its own, on a page with room for disturbances."""
    page = Image.new("L", (400, 400), paper)
    pen = ImageDraw.Draw(page)
    pen.line([(140, 110), (260, 110), (180, 300)], fill=30, width=16, joint="curve")
    pen.line([(165, 205), (250, 205)], fill=30, width=12)
    return page


def images():
    """Images of every format and mode that is read, and some that are not."""
    page, exif = written(), Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    colour = Image.merge("RGB", (page, page.rotate(90), page))
    layer = Image.merge("RGBA", (*colour.split(), page.point(lambda level: 255 - level)))
    found = {f"png {mode}": encoded(layer.convert(mode)) for mode in ("1", "L", "LA", "P", "RGB", "RGBA")}
    found["png 16"] = encoded(Image.fromarray(np.asarray(page, np.uint16) * 257))
    found |= {f"jpeg {mode}": encoded(colour.convert(mode), "JPEG") for mode in ("L", "RGB", "CMYK")}
    found["progressive"] = encoded(colour, "JPEG", progressive=True)
    found["turned"] = encoded(colour, "JPEG", exif=exif, xmp=b"<x:xmpmeta/>")
    found |= {f"webp {mode}": encoded(layer.convert(mode), "WEBP") for mode in ("L", "RGB", "RGBA")}
    found["animated"] = encoded(colour, "WEBP", save_all=True, append_images=[colour.rotate(90)])
    found |= {f"gif {mode}": encoded(layer.convert(mode), "GIF") for mode in ("1", "L", "P", "RGBA")}
    found |= {f"bmp {mode}": encoded(layer.convert(mode), "BMP") for mode in ("1", "L", "P", "RGB", "RGBA")}
    found |= {f"tiff {mode}": encoded(layer.convert(mode), "TIFF") for mode in ("1", "L", "LA", "P", "RGBA", "CMYK")}
    for way in ("tiff_lzw", "tiff_adobe_deflate", "jpeg", "packbits"):
        found[way] = encoded(colour, "TIFF", compression=way, exif=exif)
    found["group4"] = encoded(layer.convert("1"), "TIFF", compression="group4")
    found["tiff 16"] = encoded(Image.fromarray(np.asarray(page, np.uint16) * 257), "TIFF")
    found |= {f"avif {mode}": encoded(layer.convert(mode), "AVIF", speed=10) for mode in ("L", "RGB", "RGBA")}
    found["turned avif"] = encoded(colour, "AVIF", speed=10, exif=exif)
    found["several"] = encoded(colour, "MPO", save_all=True, append_images=[colour.rotate(90)])
    found["large"] = encoded(colour.resize((2000, 1504)), "JPEG")
    found["large avif"] = encoded(colour.resize((2000, 1504)), "AVIF", speed=10)
    found["blank"] = encoded(Image.new("L", (20, 20)))
    found["wide"] = encoded(Image.new("1", (5000, 5000)))
    return found | {"short": found["png RGB"][:-50], "pdf": encoded(page, "PDF"), "none": b"none", "empty": b""}


def announcing(width, height):
    """Return a PNG that announces a size, and holds nothing."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
