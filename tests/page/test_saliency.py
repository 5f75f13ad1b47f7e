"""What stands out in a picture, on the page: it has no layer, no head and no row, and stands beside what explains."""

import numpy as np
import pytest
from PIL import Image

from tests.page.conftest import asked, canvas_of
from tests.samples.saliency_reference import drawn


@pytest.fixture
def picture(tmp_path):
    file = tmp_path / "picture.png"
    Image.fromarray(drawn(5, 64, 96).astype(np.uint8).transpose(1, 2, 0)).save(file)
    return str(file)


@pytest.mark.parametrize("model", ["fitted", "sequence"])
def test_what_stands_out_is_the_same_for_every_object(visit, picture, model):
    seen = visit()
    page = seen.open(f"#model={model}&threshold=0")
    page.set_input_files("#choose-file", picture)
    seen.settle()
    page.locator("#method input[value=saliency]").check(force=True)
    seen.settle()
    options = [one for one in asked(page, "/v1/attention/") if one.get("attention") == "saliency"][-1]
    assert options.keys() <= {"model", "attention", "kind", "encoding", "dtype"}
    assert "What stands out" in page.locator(".meaning").first.inner_text()
    assert page.locator("input[name=layer]").count() == page.locator("input[name=heads]").count() == 0
    assert seen.shades("#picture canvas")[0] > 1
    first = canvas_of(page.locator("#picture canvas").first)
    page.locator("#answer .found button").nth(1).hover()
    assert np.abs(canvas_of(page.locator("#picture canvas").first) - first).max() <= 2
    with page.expect_download() as download:
        page.locator("#save-png").click()
    with Image.open(download.value.path()) as image:
        assert image.width == 1024
    assert page.locator("#problem").inner_text() == ""
