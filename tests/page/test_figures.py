"""Figures of the client as a browser draws them."""

import io

import numpy as np
import regard
from PIL import Image
from regard.reading import read_attention

TEXT = "The Hammer Æ 数 <b>"
BOX = """([text, cell]) => {
  const [word, ground] = [document.querySelectorAll('text')[text], document.querySelectorAll('rect')[cell + 1]]
  const [inner, outer] = [word.getBBox(), ground.getBBox()]
  return inner.x >= outer.x - 0.5 && inner.x + inner.width <= outer.x + outer.width + 0.5
}"""


def test_letters_stand_on_their_cells_and_a_picture_has_its_pixels(offline, tmp_path):
    tokens = [{"text": word, "span": [0, 1], "special": False} for word in TEXT.split()]
    values = np.array([[[0.5, -1.0, 0.0, 0.25, 1.0]]])
    one = {"name": "e", "kind": "encoder", "layer": 0, "heads": "sum", "normalized": False, "signed": True}
    shown = {**one, "shape": [1, 1, 5], "values": values.tolist()}
    look = read_attention({"method": "libra", "maps": [shown], "tokens": {"source": tokens}})
    look.figure().save(tmp_path / "figure.svg")
    page = offline.begin(tmp_path / "figure.svg")
    assert (
        page.evaluate("() => [...document.querySelectorAll('text')].map((one) => one.textContent)")[:5] == TEXT.split()
    )
    assert all(page.evaluate(BOX, [at, at]) for at in range(5))
    picture = regard.layouts.alone(Image.new("RGB", (40, 30), "red"))
    picture.save(tmp_path / "picture.svg")
    drawn = offline.begin(html=f"<body style='margin: 0'>{(tmp_path / 'picture.svg').read_text()}").screenshot()
    assert Image.open(io.BytesIO(drawn)).convert("RGB").getpixel((20, 15)) == (255, 0, 0)
