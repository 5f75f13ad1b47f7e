"""Digits drawn as pen strokes, with shapes that people draw and scans of 8 x 8 pixels do not show."""

import math
import random

from PIL import Image, ImageDraw

Point = tuple[float, float]
Stroke = list[Point]


def _arc(centre: Point, radii: Point, start: float, stop: float) -> Stroke:
    """Return points on an ellipse; angles in degrees, 0 to the right, clockwise on the page."""
    angles = [math.radians(start + (stop - start) * step / 16) for step in range(17)]
    return [(centre[0] + radii[0] * math.cos(angle), centre[1] + radii[1] * math.sin(angle)) for angle in angles]


SHAPES: dict[int, list[list[Stroke]]] = {
    # strokes in a box of width 0.7 and height 1, x to the right, y downwards; several ways to draw most digits
    0: [[_arc((0.35, 0.5), (0.35, 0.5), -90, 270)], [_arc((0.35, 0.5), (0.24, 0.5), -60, 310)]],
    1: [
        [[(0.35, 0.0), (0.35, 1.0)]],
        [[(0.42, 0.0), (0.28, 1.0)]],
        [[(0.12, 0.25), (0.38, 0.0), (0.38, 1.0)]],
        [[(0.02, 0.4), (0.4, 0.0), (0.4, 1.0)]],
        [[(0.15, 0.22), (0.38, 0.0), (0.38, 1.0)], [(0.12, 1.0), (0.62, 1.0)]],
    ],
    2: [
        [[*_arc((0.35, 0.28), (0.32, 0.28), -170, 40), (0.03, 1.0), (0.7, 1.0)]],
        [[*_arc((0.35, 0.3), (0.3, 0.3), -200, 50), (0.2, 0.85), *_arc((0.16, 0.92), (0.1, 0.08), 0, -270)[::2],
          (0.7, 0.98)]],
    ],
    3: [
        [[*_arc((0.33, 0.25), (0.3, 0.25), -150, 80), *_arc((0.33, 0.74), (0.35, 0.26), -80, 150)]],
        [[(0.05, 0.0), (0.62, 0.0), (0.3, 0.4), *_arc((0.3, 0.7), (0.38, 0.3), -80, 140)]],
    ],
    4: [
        [[(0.5, 1.0), (0.5, 0.0), (0.02, 0.68), (0.7, 0.68)]],
        [[(0.1, 0.0), (0.05, 0.52), (0.68, 0.5)], [(0.55, 0.05), (0.5, 1.0)]],
        [[(0.3, 0.0), (0.02, 0.6), (0.7, 0.6)], [(0.48, 0.3), (0.46, 1.0)]],
    ],
    5: [
        [[(0.64, 0.0), (0.12, 0.0), (0.08, 0.44), *_arc((0.32, 0.68), (0.36, 0.32), -110, 140)]],
        [[(0.14, 0.02), (0.1, 0.45), *_arc((0.3, 0.7), (0.34, 0.3), -100, 150)], [(0.14, 0.02), (0.66, 0.0)]],
    ],
    6: [
        [[(0.58, 0.02), *_arc((0.5, 0.62), (0.46, 0.6), -120, -180), *_arc((0.36, 0.7), (0.32, 0.3), 180, -180)]],
        [[(0.4, 0.0), (0.1, 0.5), *_arc((0.35, 0.72), (0.3, 0.28), 190, -170)]],
    ],
    7: [
        [[(0.03, 0.0), (0.68, 0.0), (0.25, 1.0)]],
        [[(0.03, 0.0), (0.68, 0.02), (0.3, 1.0)], [(0.15, 0.5), (0.65, 0.48)]],
        [[(0.02, 0.18), (0.05, 0.0), (0.66, 0.0), (0.35, 0.5), (0.28, 1.0)]],
    ],
    8: [
        [[*_arc((0.35, 0.25), (0.28, 0.25), 90, -270), *_arc((0.35, 0.74), (0.34, 0.26), -90, 270)]],
        [[*_arc((0.35, 0.26), (0.28, 0.26), -30, -250), *_arc((0.35, 0.75), (0.32, 0.25), -60, 240), (0.58, 0.12)]],
    ],
    9: [
        [[*_arc((0.36, 0.28), (0.3, 0.28), 0, -340), (0.66, 0.28), (0.6, 1.0)]],
        [[*_arc((0.36, 0.28), (0.3, 0.28), -20, -360), *_arc((0.3, 0.6), (0.36, 0.4), -20, 110)]],
        [[*_arc((0.38, 0.26), (0.28, 0.26), -10, -350), (0.5, 0.7), (0.36, 1.0)]],
    ],
}  # fmt: skip


def draw(rng: random.Random, digit: int, side: int) -> Image.Image:
    """Draw one digit, white on black, (side, side), with a pen, a slant and a hand that differ from call to call."""
    slant = rng.gauss(0.0, 0.12)
    turn = math.radians(rng.gauss(0.0, 6.0))
    stretch = rng.uniform(0.75, 1.25)
    wobble = rng.uniform(0.0, 0.025)
    pen = round(side * rng.uniform(0.03, 0.14))

    def place(point: Point) -> Point:
        x = (point[0] - 0.35) * stretch + rng.gauss(0.0, wobble)
        y = point[1] - 0.5 + rng.gauss(0.0, wobble)
        x -= slant * y
        x, y = x * math.cos(turn) - y * math.sin(turn), x * math.sin(turn) + y * math.cos(turn)
        return side * (0.5 + 0.62 * x), side * (0.5 + 0.62 * y)

    image = Image.new("L", (side, side))
    pencil = ImageDraw.Draw(image)
    for stroke in rng.choice(SHAPES[digit]):
        points = [place(point) for point in stroke]
        pencil.line(points, fill=255, width=pen, joint="curve")
        for x, y in (points[0], points[-1]):
            pencil.ellipse((x - pen / 2, y - pen / 2, x + pen / 2, y + pen / 2), fill=255)
    return image
