"""Images that tests draw, and the rules by which they are decoded."""

import io

import numpy as np
from PIL import Image, ImageDraw

from contract.manifest import ImageRule

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
