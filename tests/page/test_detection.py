"""What the page shows of a detector: the objects that it finds, their boxes, and what each of them looked at."""

import base64
import io
import json
import re
import subprocess
import sys
import urllib.parse

import numpy as np
import pytest
from PIL import Image
from regard.inline import document

from tests.page.conftest import asked, canvas_of, drawn, settled, state_of

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect

DETECTOR = "scenes-detr"
GRID = 8  # rows and columns of its encoder's tokens
FOUND = "#answer .found button"
MARKED = "#look .box-of.marked"
CRISP = {"full": "1", "smooth": "", "opacity": "1"}


@pytest.fixture
def go(visit):
    """Return what opens the page at a selection of the detector, and waits until it is drawn."""

    return lambda width=1440, **selection: visit(width=width).at(model=DETECTOR, **selection)


@pytest.fixture(scope="module")
def scene(service):
    """Return what answers the detector's example as the page asks it: objects, and what is fetched by the answer's id.

    Each is a function of options; `picture` are the bytes of the example.
    """

    class Scene:
        picture = service.get(f"/v1/models/{DETECTOR}/examples/0").content

        def ask(self, **options):
            answer = service.post(
                f"/v1/models/{DETECTOR}/detect",
                params=options,
                content=self.picture,
                headers={"Content-Type": "image/png"},
            )
            return answer.json()

        def objects(self, **options):
            return self.ask(**options)["results"][0]["objects"]

        def look(self, **options):
            return service.get(f"/v1/attention/{self.ask()['id']}", params=options).json()["results"][0]["attention"]

        def rows(self, **options):
            """Return the rows of the first map (objects, keys) by the number of the object."""
            (one, *_) = self.look(**options)["maps"]
            numbers = one.get("objects") or [one["target"]["object"]]
            return dict(zip(numbers, np.array(one["values"])[0], strict=True))

    return Scene()


def looks_asked(page):
    return [one for one in asked(page, "/v1/attention/") if one.get("heads") != "all" and "evaluate" not in one]


def heat_of(page, bare):
    """Return how much the heat changes each token's place of the picture (GRID, GRID), against one without heat."""
    changed = np.abs(canvas_of(page.locator("#picture canvas").first) - bare).sum(-1)
    high, wide = (side // GRID * GRID for side in changed.shape)
    return changed[:high, :wide].reshape(GRID, high // GRID, GRID, wide // GRID).mean((1, 3))


@pytest.fixture
def bare(go):
    """The picture of the first example without heat: nothing is found."""
    return canvas_of(go(threshold="1").locator("#picture canvas").first)


def numbers(page, selector=FOUND):
    """Return the numbers of the objects that elements are of: by default of those of the list."""
    drawn(page)
    return [int(one) for one in page.eval_on_selector_all(selector, "all => all.map((one) => one.dataset.object)")]


# What is found, and where


def test_the_first_example_is_asked_for_its_objects(go, scene):
    page = go()
    objects = scene.objects()
    assert len(objects) == 3
    assert numbers(page) == [one["object"] for one in objects]
    shown = [re.sub(r"\s+", " ", text) for text in page.locator(FOUND).all_inner_texts()]
    assert shown == [f"{one['label']} {one['probability']:.1%}" for one in objects]
    assert page.locator("#answer .found").inner_text().count("%") == 3
    bars = page.eval_on_selector_all(
        f"{FOUND} .bar > span", "all => all.map((one) => one.offsetWidth / one.parentElement.offsetWidth)"
    )
    assert bars == pytest.approx([one["probability"] for one in objects], abs=0.02)
    assert sorted(numbers(page, "#look .box-of")) == sorted(numbers(page))
    assert asked(page, "/detect") == [{}]
    assert page.locator("#problem").inner_text() == ""


@pytest.mark.parametrize("width", [1440, 768, 390])
def test_boxes_lie_where_the_answer_says_in_a_picture_of_any_size(go, scene, width):
    page = go(width=width)
    picture = page.locator("#picture canvas").bounding_box()
    for marked in scene.objects():
        found = page.locator(f"#look .box-of[data-object='{marked['object']}']").bounding_box()
        left, top, right, bottom = (marked["box"][edge] for edge in ("left", "top", "right", "bottom"))
        shares = [
            (found["x"] - picture["x"]) / picture["width"],
            (found["y"] - picture["y"]) / picture["height"],
            found["width"] / picture["width"],
            found["height"] / picture["height"],
        ]
        assert shares == pytest.approx([left / 192, top / 192, (right - left) / 192, (bottom - top) / 192], abs=0.01)
        assert page.locator(f"#look .box-of[data-object='{marked['object']}']").inner_text().startswith(marked["label"])
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_threshold_is_asked_for_anew_when_it_is_let_go(go, scene):
    page = go()
    every = scene.objects(threshold=0)
    slider = page.locator("#threshold")
    assert slider.input_value() == "0.5"
    slider.evaluate("slider => { slider.value = 0; slider.dispatchEvent(new Event('input')) }")
    expect(page.locator("label", has=slider)).to_contain_text("0%")
    assert len(asked(page, "/detect")) == 1  # it is still held
    slider.evaluate("slider => slider.dispatchEvent(new Event('change'))")
    settled(page)
    assert numbers(page) == [one["object"] for one in every]
    assert len(every) == 8
    assert asked(page, "/detect")[-1] == {"threshold": "0"}
    assert looks_asked(page)[-1]["threshold"] == "0"
    assert state_of(page)["threshold"] == "0"
    slider.focus()
    page.keyboard.press("End")
    settled(page)
    expect(page.locator("#answer")).to_contain_text("Nothing found above 100%.")
    page.reload()
    settled(page)
    expect(page.locator("#answer")).to_contain_text("Nothing found above 100%.")


@pytest.mark.parametrize("kind", ["cross", "decoder", "encoder"])
@pytest.mark.parametrize("method", ["raw", "norm"])
def test_an_image_without_an_object_is_no_error(go, kind, method):
    page = go(kind=kind, method=method, threshold="1")
    assert page.locator("#problem").inner_text() == ""
    expect(page.locator("#answer")).to_contain_text("Nothing found above 100%.")
    assert page.locator(".box-of").count() == 0
    assert np.ptp(canvas_of(page.locator("#look .picture canvas"))) > 50  # the image is there
    if kind != "encoder":
        expect(page.locator("#look .readout")).to_contain_text("Nothing is found")
        expect(page.locator("section#heads")).to_contain_text("Nothing is found")
        page.click("#evaluation summary")
        expect(page.locator("#evaluation")).to_contain_text("Nothing is found")


# What an object looked at


def test_without_a_hover_the_surest_object_is_looked_at(go, scene, bare):
    page = go(**CRISP)
    surest = scene.objects()[0]["object"]
    assert numbers(page, MARKED) == [surest]
    assert numbers(page, ".found .shown") == [surest]
    weights = scene.rows(attention="raw", kind="cross", layers=2)
    assert heat_of(page, bare).argmax() == weights[surest].argmax()


def test_hover_of_an_object_marks_its_box_and_draws_what_it_looked_at(go, scene, bare):
    page = go(**CRISP)
    before = len(looks_asked(page))
    weights = scene.rows(attention="raw", kind="cross", layers=2)
    for marked in scene.objects():
        page.locator(f"{FOUND}[data-object='{marked['object']}']").hover()
        assert numbers(page, MARKED) == [marked["object"]]
        assert heat_of(page, bare).argmax() == weights[marked["object"]].argmax()
        assert f"“{marked['label']}”" in page.locator("#look .readout").inner_text()
    page.mouse.move(0, 0)
    assert numbers(page, MARKED) == numbers(page)[:1]
    for marked in scene.objects():
        box = page.locator(f"#look .box-of[data-object='{marked['object']}']").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        assert numbers(page, MARKED) == [marked["object"]]
        assert numbers(page, ".found .shown") == [marked["object"]]
        assert heat_of(page, bare).argmax() == weights[marked["object"]].argmax()
    page.mouse.move(0, 0)
    assert numbers(page, MARKED) == numbers(page)[:1]
    assert len(looks_asked(page)) == before, "the rows of all objects are there already"
    assert "object" not in state_of(page)


def test_of_boxes_in_one_another_the_smallest_is_pointed_at(visit):
    seen = visit()

    def enlarge(route):
        answer = route.fetch()
        body = answer.json()
        body["results"][0]["objects"][0]["box"] = {"left": 0, "top": 0, "right": 192, "bottom": 192}
        route.fulfill(response=answer, json=body)

    seen.page.route("**/detect*", enlarge)
    page = seen.open(f"#model={DETECTOR}")
    large, small, _ = numbers(page)
    box = page.locator(f"#look .box-of[data-object='{small}']").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert numbers(page, MARKED) == [small]
    picture = page.locator("#picture canvas").bounding_box()
    page.mouse.move(picture["x"] + 10, picture["y"] + picture["height"] - 10)
    assert numbers(page, MARKED) == [large]


def test_click_pins_an_object_and_escape_unpins(go):
    page = go()
    surest, second, third = numbers(page)
    page.locator(FOUND).nth(1).click()
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    assert state_of(page)["object"] == str(second)
    assert page.locator(FOUND).nth(1).get_attribute("aria-pressed") == "true"
    assert numbers(page, MARKED) == [second]
    page.locator(FOUND).nth(2).hover()
    assert numbers(page, MARKED) == [third]
    assert numbers(page, "#look .box-of.pinned") == [second]
    page.mouse.move(0, 0)
    assert numbers(page, MARKED) == [second]  # hovering does not lose what is pinned
    page.reload()
    settled(page)
    assert numbers(page, MARKED) == [second]
    box = page.locator(f"#look .box-of[data-object='{third}']").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert state_of(page)["object"] == str(third)
    page.mouse.move(0, 0)
    page.keyboard.press("Escape")
    assert "object" not in state_of(page)
    assert numbers(page, MARKED) == [surest]
    page.locator(FOUND).nth(1).click()
    page.locator(FOUND).nth(1).click()
    assert "object" not in state_of(page)
    page.locator(FOUND).nth(1).click()
    page.click("#example-1")
    settled(page)
    assert "object" not in state_of(page)  # of another image it would be another object


def test_objects_are_seen_and_pinned_by_keyboard(go):
    page = go()
    _, second, third = numbers(page)
    page.locator(FOUND).first.focus()
    page.keyboard.press("Tab")
    assert numbers(page, MARKED) == [second]
    page.keyboard.press("Enter")
    assert state_of(page)["object"] == str(second)
    page.keyboard.press("Tab")
    assert numbers(page, MARKED) == [third]
    page.keyboard.press("Escape")
    assert "object" not in state_of(page)
    assert page.evaluate("document.activeElement.dataset.object") == str(third)
    page.locator("#picture .cells").focus()
    box = page.locator(f"#look .box-of[data-object='{second}']").bounding_box()
    picture = page.locator("#picture .cells").bounding_box()
    down, right = (
        int((box[edge] + box[side] / 2 - picture[edge]) / picture[side] * GRID)
        for edge, side in (("y", "height"), ("x", "width"))
    )
    for key, times in (("ArrowDown", down), ("ArrowRight", right)):
        for _ in range(times):
            page.keyboard.press(key)
    assert numbers(page, MARKED) == [second]
    page.keyboard.press("Enter")
    assert state_of(page)["object"] == str(second)
    page.keyboard.press("Escape")
    assert "object" not in state_of(page)


@pytest.mark.parametrize("method", ["relevance", "libra", "integrated"])
def test_a_method_that_explains_is_asked_about_the_pinned_object(go, scene, bare, method):
    page = go(method=method, **CRISP)
    surest, second, _ = numbers(page)
    assert "target" not in looks_asked(page)[-1]
    assert numbers(page, MARKED) == [surest]
    page.locator(FOUND).nth(1).hover()
    assert numbers(page, MARKED) == [second]
    assert "Click to explain" in page.locator("#look .readout").inner_text()
    page.locator(FOUND).nth(1).click()
    page.mouse.move(0, 0)
    settled(page)
    options = looks_asked(page)[-1]
    assert (options["attention"], options["kind"], options["target"]) == (method, "cross", str(second))
    label = page.locator(FOUND).nth(1).locator("span").first.inner_text()
    expect(page.locator("#picture figcaption")).to_have_text(f"for “{label}”")
    assert numbers(page, MARKED) == [second]
    (explained,) = scene.rows(attention=method, kind="cross", target=second).values()
    assert heat_of(page, bare).argmax() == np.abs(explained).argmax()


def test_every_head_is_of_the_object_that_is_seen(go, scene):
    page = go()
    heads = page.locator("#heads canvas")
    assert heads.count() == 12
    _, second, _ = numbers(page)
    maps = scene.look(attention="raw", kind="cross", layers="all", heads="all")["maps"]
    at = maps[0]["objects"].index(second)
    hottest = [np.array(one["values"])[head, at].argmax() for one in maps for head in range(4)]
    page.locator(FOUND).nth(1).click()
    page.mouse.move(0, 0)
    shown = [canvas_of(one) for one in heads.all()]
    assert [one.shape for one in shown] == [(GRID, GRID, 3)] * 12
    brightest = [one.sum(-1).argmax() for one in shown]
    assert np.mean([one == other for one, other in zip(brightest, hottest, strict=True)]) > 0.8  # bytes may be equal
    page.locator("#method input[value=relevance]").check(force=True)
    settled(page)
    assert [one.sum(-1).argmax() for one in map(canvas_of, heads.all())] == brightest
    page.locator(".thumbnail").nth(5).click()
    settled(page)
    assert looks_asked(page)[-1] | {"layers": "1", "heads": "1"} == looks_asked(page)[-1]
    assert numbers(page, MARKED) == [second]


def test_what_objects_look_at_in_one_another_is_a_matrix_with_their_labels(go, scene):
    page = go(kind="decoder")
    objects = scene.objects()
    names = [f"{one['label']}\u00a0#{one['object']}" for one in objects]
    assert page.locator(".matrix-rows span").all_inner_texts() == names
    columns = page.locator(".matrix-columns span").all_inner_texts()
    known = dict(zip([one["object"] for one in objects], names, strict=True))
    assert columns == [known.get(number, f"#{number}") for number in range(8)]
    assert np.ptp(canvas_of(page.locator(".matrix-cells canvas"))) > 50
    page.locator(FOUND).nth(1).hover()
    assert names[1] in page.locator("#look .readout").inner_text()
    cells = page.locator(".matrix-cells").bounding_box()
    third = (cells["x"] + 5, cells["y"] + cells["height"] * 5 / 6)
    page.mouse.move(*third)
    assert numbers(page, MARKED) == [objects[2]["object"]]
    page.mouse.click(*third)
    assert state_of(page)["object"] == str(objects[2]["object"])
    for view in ("lines", "place"):
        page.click(f"#view-{view}")
        assert names[2] in page.locator("#looks").inner_text().replace("␣", "\u00a0")
    page.locator("#method input[value=relevance]").check(force=True)
    settled(page)
    assert looks_asked(page)[-1]["target"] == str(objects[2]["object"])
    page.click("#view-matrix")
    assert page.locator(".matrix-rows span").all_inner_texts() == names[2:]
    (values,) = scene.rows(attention="relevance", kind="decoder", target=objects[2]["object"]).values()
    assert values[objects[2]["object"]] > 1  # what every row starts with, and the page takes off
    assert float(page.locator(".legend div span").last.inner_text()) < 1


def test_the_input_is_seen_from_all_patches_or_from_one(go):
    page = go(kind="encoder", method="raw")
    assert "Seen from all patches, mean" in page.locator("#look .readout").inner_text()
    assert sorted(numbers(page, "#look .box-of")) == sorted(numbers(page))
    page.locator("#picture .cells").click(position={"x": 5, "y": 5})
    settled(page)
    assert looks_asked(page)[-1]["queries"] == "0"
    assert "the patch in row 0, column 0" in page.locator("#look .readout").inner_text()
    page.click("#back")
    settled(page)
    assert "queries" not in looks_asked(page)[-1]
    assert np.ptp(canvas_of(page.locator("#heads canvas").first)) > 50


def test_does_it_matter_is_of_the_pinned_object(go):
    page = go()
    _, second, _ = numbers(page)
    page.locator(FOUND).nth(1).click()
    page.click("#evaluation summary")
    expect(page.locator("#evaluation svg")).to_have_count(2)
    (options,) = [one for one in asked(page, "/v1/attention/") if "evaluate" in one]
    assert options["target"] == str(second)
    label = page.locator(FOUND).nth(1).locator("span").first.inner_text()
    assert f"“{label}”" in page.locator("#evaluation").inner_text()


def test_covered_patches_change_what_is_found(go):
    page = go()
    second = numbers(page)[1]
    box = page.locator(f"#look .box-of[data-object='{second}']").bounding_box()
    page.click("#cover")
    page.mouse.move(box["x"] + 4, box["y"] + 4)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] - 4, steps=4)
    page.mouse.up()
    settled(page)
    assert "covered" in state_of(page)
    lists = page.locator("#answer .found")
    assert lists.count() == 2
    assert page.locator("#picture .picture").count() == 3  # as it was, covered, and the difference
    assert "was" in lists.nth(1).inner_text()
    assert lists.nth(1).locator("li").count() < lists.nth(0).locator("li").count()


def test_who_has_the_address_alone_sees_what_was_found(visit, scene):
    answer = scene.ask()
    page = visit().open(f"#model={DETECTOR}&id={answer['id']}")
    assert numbers(page) == [one["object"] for one in answer["results"][0]["objects"]]
    assert sorted(numbers(page, "#look .box-of")) == sorted(numbers(page))


@pytest.mark.parametrize("address", ["object=99", "object=x", "threshold=2", "threshold=x", "object=99&method=libra"])
def test_an_address_of_another_form_breaks_nothing(visit, address):
    page = visit().open(f"#model={DETECTOR}&{address}")
    assert page.locator("#problem").inner_text() == ""
    assert len(numbers(page)) == 3
    assert numbers(page, MARKED) == numbers(page)[:1]


# The request


def test_the_request_is_shown_as_code(go, scene, tmp_path):
    page = go(threshold="0.3")
    (tmp_path / "example.png").write_bytes(scene.picture)
    program = page.locator("#request pre").inner_text()
    ran = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    answer, look = (json.loads(line) for line in ran.stdout.splitlines())
    assert [one["object"] for one in answer["results"][0]["objects"]] == numbers(page)
    assert look["results"][0]["attention"]["maps"][0]["objects"] == numbers(page)
    page.click("#code-Python")
    program = page.locator("#request pre").inner_text()
    assert 'answer = model.detect("example.png", threshold=0.3)' in program
    assert "for found in answer.objects:\n    print(found.label, found.box)" in program
    assert 'look = answer.look("raw", kind="cross", layers=2, heads="mean", threshold=0.3)' in program
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    *found, look = ran.stdout.splitlines()
    assert [one.split()[0] for one in found] == [one["label"] for one in answer["results"][0]["objects"]]
    assert look == "decoder.blocks.2.cross (1, 3, 64)"
    page.click("#code-JavaScript")
    assert "/detect?threshold=0.3" in page.locator("#request pre").inner_text()


# Other detectors, and other models


@pytest.fixture
def noise():
    """A picture, as a file that is chosen, in which detectors with random weights find what they find."""
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 90, 3), np.uint8)).save(file, "PNG")
    return {"name": "noise.png", "mimeType": "image/png", "buffer": file.getvalue()}


def test_a_detector_without_a_decoder_has_objects_among_the_tokens_of_its_encoder(visit, service, noise):
    prefix = service.get("/v1/models/sequence").json()["attention"]["kinds"]["encoder"]["prefix"]
    seen = visit()
    page = seen.open("#model=sequence&threshold=0")
    page.set_input_files("#choose-file", noise)
    seen.settle()
    assert len(numbers(page)) == 4
    assert "queries" not in looks_asked(page)[-1]
    pictures = []
    for place in range(2):
        page.locator(FOUND).nth(place).hover()
        assert numbers(page, MARKED) == numbers(page)[place : place + 1]
        pictures.append(canvas_of(page.locator("#picture canvas")))
    assert np.abs(pictures[0] - pictures[1]).max() > 10
    assert max(seen.shades("#heads canvas")) > 1  # a head may look past all patches
    page.locator(FOUND).nth(1).click()
    page.locator("#method input[value=relevance]").check(force=True)
    seen.settle()
    assert looks_asked(page)[-1]["target"] == str(numbers(page)[1])
    page.locator("#method input[value=raw]").check(force=True)
    seen.settle()
    state = urllib.parse.urlencode(state_of(page) | {"row": "1"})
    page.goto(f"{page.url.partition('#')[0]}#{state}")
    page.reload()
    seen.settle()
    assert looks_asked(page)[-1]["queries"] == str(prefix + 1)
    assert "the patch in row 0, column 1" in page.locator("#look .readout").inner_text()
    page.click("text=Back to the objects")
    seen.settle()
    assert "queries" not in looks_asked(page)[-1]
    assert page.locator("#problem").inner_text() == ""


def test_an_object_that_is_found_as_several_classes_has_one_box(visit, noise):
    seen = visit()
    page = seen.open("#model=fitted&threshold=0")
    page.set_input_files("#choose-file", noise)
    seen.settle()
    assert len(numbers(page)) == 12  # four objects of three classes each
    assert sorted(numbers(page, "#look .box-of")) == [0, 1, 2, 3]
    page.locator(FOUND).last.click()
    page.mouse.move(0, 0)
    assert numbers(page, MARKED) == numbers(page)[-1:]
    assert numbers(page, ".found .shown") == 3 * numbers(page)[-1:]
    assert page.locator("#problem").inner_text() == ""


def test_a_kind_with_another_name_and_a_map_with_a_grid_of_its_own_are_drawn(visit):
    seen = visit()

    def rename(route):
        answer = route.fetch()
        body = answer.json()
        for model in body["models"]:
            if model["name"] == "digits":
                kinds = model["attention"]["kinds"]
                kinds["stage1"] = kinds.pop("encoder")
                kinds["stage2"] = kinds["stage1"] | {"query": "stage2", "key": "stage2"}
        route.fulfill(response=answer, json=body)

    def regrid(route):
        answer = route.fetch(url=route.request.url.replace("kind=stage2", "kind=encoder"))
        body = answer.json()
        attention = body["results"][0]["attention"]
        for a_map in attention["maps"]:
            a_map.update(kind="stage2", grid=attention["tokens"]["grid"])
        attention["tokens"]["grid"] = {"rows": 14, "columns": 14}
        route.fulfill(response=answer, json=body)

    seen.page.route("**/v1/models", rename)
    seen.page.route("**/v1/attention/**", regrid)
    page = seen.open("#model=digits&method=raw&kind=stage2")
    assert [one.strip() for one in page.locator("#kind .choice").all_inner_texts()] == [
        "input → itself, stage2", "input → itself, stage1",
    ]  # fmt: skip
    assert min(seen.shades("#picture canvas")) > 50
    assert min(seen.shades("#heads canvas")) > 1
    page.mouse.move(*(page.locator("#picture .cells").bounding_box()[edge] + 5 for edge in ("x", "y")))
    assert "In row 0, column 0" in page.locator("#look .readout").inner_text()


# The same in a notebook


@pytest.fixture
def notebook(offline, scene):
    """Return what opens the document of an answer without a network, as a cell of a notebook shows it."""

    def begin(*, heads=True, width=1000, **options):
        objects = scene.objects()
        picture = f"data:image/png;base64,{base64.b64encode(scene.picture).decode()}"
        html = document({
            "model": DETECTOR, "task": "object-detection", "about": "", "text": None, "picture": picture,
            "result": {"objects": objects}, "attention": scene.look(**options),
            "heads": scene.look(attention="raw", layers="all", heads="all") if heads else None,
        })  # fmt: skip
        page = offline.begin(html=html, width=width)
        page.wait_for_selector("#look .readout")
        return page

    return begin


@pytest.mark.parametrize("width", [1000, 400])
def test_a_notebook_shows_boxes_and_what_each_object_looked_at(notebook, scene, width):
    page = notebook(attention="raw", layers=-1, width=width)
    objects = [one["object"] for one in scene.objects()]
    assert numbers(page) == objects
    assert sorted(numbers(page, "#look .box-of")) == sorted(objects)
    assert numbers(page, MARKED) == objects[:1]
    before = canvas_of(page.locator("#picture canvas"))
    page.locator(FOUND).nth(1).click()
    page.mouse.move(0, 0)
    assert numbers(page, MARKED) == objects[1:2]
    assert np.abs(canvas_of(page.locator("#picture canvas")) - before).max() > 10
    assert page.locator(".thumbnail").count() == 12
    page.locator(".thumbnail").nth(5).click()
    assert "raw, layer 1, head 1" in page.locator("#look").inner_text()
    assert numbers(page, MARKED) == objects[1:2]
    page.locator("#method").click()
    options = page.locator("#map option").all_inner_texts()
    assert options == ["objects → input", "objects → themselves", "input → itself"]
    page.locator("#map").select_option(label="objects → themselves")
    assert page.locator(".matrix-rows span").count() == 3
    page.locator("#map").select_option(label="input → itself")
    assert "all patches, mean" in page.locator("#look .readout").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_a_notebook_shows_which_object_a_method_explains(notebook, scene):
    second = scene.objects()[1]
    page = notebook(heads=False, attention="relevance", kind="cross", target=second["object"])
    assert numbers(page, MARKED) == [second["object"]]
    expect(page.locator("#picture figcaption")).to_have_text(f"for “{second['label']}”")
    assert page.locator("#heads").count() == 0
