"""What is chosen of one kind of attention or model, where another kind or model is looked at: it is of that alone."""

import urllib.parse

import pytest

IMAGE = {"prefix": 1, "suffix": 0, "layers": 4, "query": "image", "key": "image", "methods": ["raw"]}


def pressed(page):
    return page.locator("#answer .words [aria-pressed=true]").count()


def test_a_pinned_token_of_the_source_is_none_of_the_answer(go):
    page = go(model="dates", text="3/23/21", kind="encoder", method="raw", row="2")
    assert pressed(page) == 0
    assert page.locator("#play").count() == 0
    page.locator("#answer .words button").nth(2).click()
    page.wait_for_function("() => document.querySelector('#answer .words [aria-pressed=true]')")
    assert page.locator("[name=kind]:checked").get_attribute("value") == "cross"
    assert "row=2" in page.url


def test_a_picture_is_saved_as_it_is_drawn(go):
    for method, colormap in (("rollout", "magma"), ("libra", None)):
        page = go(model="digits", method=method, colormap="magma", opacity="1")
        with page.expect_download(), page.expect_request("**/v1/attention/*format=png*") as sent:
            page.click("#save-png")
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(sent.value.url).query)
        assert (asked.get("colormap", [None])[0], asked["opacity"]) == (colormap, ["1"]), method


def test_what_is_saved_after_the_service_forgot_it_is_asked_again(visit):
    seen = visit(refusals=True)
    page = seen.open("#model=digits&method=rollout")
    page.route("**/v1/attention/*format=npz*", lambda route: route.fulfill(status=404, json={"detail": "forgotten"}))
    with page.expect_request("**/classify*"):
        page.click("#save-npz")
    page.wait_for_function("() => document.querySelector('#request [role=status]').textContent.includes('asked again')")
    page.unroute("**/v1/attention/*format=npz*")
    seen.settle()
    with page.expect_download():
        page.click("#save-npz")


@pytest.mark.parametrize(
    ("grid", "heads", "labels", "kept"),
    [
        ([7, 7], 4, 10, {"row": "30", "heads": "3", "target": "9"}),
        ([14, 14], 4, 10, {"row": "", "heads": "3", "target": "9"}),
        ([7, 7], 3, ["a", "b"], {"row": "30", "heads": "mean", "target": ""}),
    ],
)
def test_another_model_is_asked_for_what_it_has(go, grid, heads, labels, kept):
    def model(grid, heads, labels):
        kind = {**IMAGE, "heads": heads, "grid": dict(zip(("rows", "columns"), grid, strict=True))}
        return {"attention": {"kinds": {"encoder": kind}}, "labels": labels}

    chosen = {"kind": "", "row": "30", "heads": "3", "target": "9"}
    asked = go(model="digits").evaluate(
        """async (models) => (await import('/page/selection.js')).askedOf(...models)""",
        [model([7, 7], 4, 10), model(grid, heads, labels), chosen],
    )
    assert {name: asked[name] for name in kept} == kept


def test_patches_are_uncovered_in_a_kind_of_another_grid(go):
    def kind(side):
        return {**IMAGE, "heads": 2, "grid": {"rows": side, "columns": side}}

    kinds = {"stage1": kind(8), "stage2": kind(4), "again": kind(8)}
    changed = go(model="digits").evaluate(
        """async (model) => {
            const { aboutKind } = await import('/page/selection.js')
            return ['stage2', 'stage1'].map((name) => aboutKind(model, { kind: 'again' }, name))
        }""",
        {"attention": {"kinds": kinds}},
    )
    assert [one.get("covered") for one in changed] == ["", None]
