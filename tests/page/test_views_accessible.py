"""Every component alone, by axe, light and dark; under the service's content security policy, as all of these tests."""

import numpy as np
import pytest

from tests.page.conftest import violations
from tests.samples.views_page import static_server, view_in

TOKENS = [{"text": "[CLS]", "span": None, "special": True}] + [
    {"text": f"word{at}", "span": [6 * at, 6 * at + 5], "special": False} for at in range(7)
]
TEXT = " ".join(f"word{at}" for at in range(7))
WEIGHTS = np.eye(8, dtype=np.float32)[::-1] + 0.05  # one column of each row is tinted as deeply as any
CURVE = {"probabilities": [1, 0.5, 0], "area": 0.5, "random": {"probabilities": [1, 0.8, 0], "area": 0.65}}
COMPONENTS = {
    "picture": ("Picture", {
        "image": {"width": 8, "height": 8, "orientation": 1, "box": {"left": 0, "top": 0, "right": 8, "bottom": 8}},
        "cells": WEIGHTS, "rows": 8, "columns": 8, "top": 1, "label": "What it looked at", "query": 3, "hovered": 5,
        "covered": [8, 9],
    }),
    "picture with objects": ("Picture", {
        "image": {"width": 8, "height": 8, "orientation": 1, "box": {"left": 0, "top": 0, "right": 8, "bottom": 8}},
        "cells": WEIGHTS, "rows": 8, "columns": 8, "top": 1, "label": "What it looked at", "marked": 1, "pinned": 0,
        "objects": [
            {"object": at, "index": 0, "label": "cow", "probability": 0.9,
             "box": {"left": at, "top": 2 * at, "right": at + 3, "bottom": 2 * at + 3}} for at in range(3)
        ],
    }),
    "legend": ("Legend", {"top": 1, "signed": False, "colormap": "viridis"}),
    "heads": ("HeadGrid", {
        "maps": [{"shape": [1, 8, 8], "values": WEIGHTS[None], "layer": 0, "normalized": True}], "chosen": None,
    }),
    "heads, sorted": ("HeadGrid", {
        "maps": [{"shape": [1, 8, 8], "values": WEIGHTS[None], "layer": 0, "normalized": True}], "order": "entropy",
        "chosen": {"layer": 0, "head": 0},
    }),
    "in place": ("InPlace", {"rows": TOKENS[:3], "columns": TOKENS, "values": WEIGHTS[:3], "text": TEXT, "before": "so",
                             "sure": [0.2, 0.9, 1], "pinned": 1}),
    "special, tinted": ("InPlace", {"rows": TOKENS, "columns": TOKENS, "values": WEIGHTS, "text": TEXT, "pinned": 7}),
    "chips": ("InPlace", {"rows": TOKENS, "columns": TOKENS, "values": WEIGHTS, "same": True, "pinned": 7}),
    "for": ("InPlace", {"rows": TOKENS, "columns": TOKENS, "values": WEIGHTS, "same": True, "signed": True}),
    "against": ("InPlace", {"rows": TOKENS, "columns": TOKENS, "values": -WEIGHTS, "same": True, "signed": True}),
    "lines": ("Lines", {"rows": TOKENS, "columns": TOKENS, "pinned": 7,
                        "series": [{"name": "", "colour": "#8a8a12", "values": WEIGHTS, "signed": False}]}),
    "matrix": ("Matrix", {"rows": TOKENS, "columns": TOKENS, "values": WEIGHTS, "top": 1, "label": "Matrix",
                          "hovered": {"row": 1, "column": 2}}),
    "curves": ("Curves", {"label": "7", "evaluation": {"target": 7, "measure": "probability", "fractions": [0, 0.5, 1],
                          "curves": [{"name": name, **CURVE} for name in ("deletion", "insertion")]}}),
}  # fmt: skip


@pytest.fixture(scope="module", params=["light", "dark"])
def view(browser, request):
    with static_server() as address, view_in(browser, address, color_scheme=request.param) as shown:
        yield shown


@pytest.mark.parametrize(("component", "props"), COMPONENTS.values(), ids=COMPONENTS)
def test_axe_finds_nothing(view, component, props):
    view.show(component, **props)
    assert violations(view.page) == {}


FOCUSED = [one for one in COMPONENTS.values() if one[0] not in ("Legend", "Curves")]


@pytest.mark.parametrize(("component", "props"), FOCUSED)
def test_the_focus_is_seen(view, component, props):
    view.show(component, **props)
    view.page.evaluate("document.activeElement.blur()")
    view.page.keyboard.press("Tab")
    style, width = view.page.evaluate("""() => { const { outlineStyle, outlineWidth }
      = getComputedStyle(document.activeElement); return [outlineStyle, parseFloat(outlineWidth)] }""")
    assert style == "solid"
    assert width >= 2
