"""What is drawn by hand is asked about when the pen lifts, stroke by stroke."""

from tests.page.conftest import draw


def test_every_stroke_is_asked_about_and_the_drawing_stays(visit):
    seen = visit()
    page = seen.open("#model=digits")

    def stroke(*places):
        seen.asked.clear()
        draw(page, *places)
        assert [one for one in seen.asked if one.method == "POST"] == [], "asked before the pen lifts"
        page.mouse.up()
        seen.settle()
        assert len([one for one in seen.asked if one.method == "POST"]) == 1

    stroke((0.5, 0.15), (0.5, 0.5))
    one = seen.shades("#pad")
    stroke((0.5, 0.5), (0.5, 0.85))
    assert page.locator("#answer li").first.inner_text().split()[0] == "1"
    assert seen.shades("#pad") >= one
    assert "id=" in page.url
    page.reload()
    seen.settle()
    assert page.locator("#answer li").first.inner_text().split()[0] == "1", "the drawing does not outlive a reload"
