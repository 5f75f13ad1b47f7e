"""What an attention request can ask for, over HTTP, held against what the plain maps say."""

import base64
import io
import json
import re
import time

import httpx
import numpy as np
import pytest
from PIL import Image

from service.explanations.pictures import STRIP
from tests.conftest import ROOT
from tests.samples.api_keys import EVERY_SCOPE, bearer, line
from tests.samples.http_requests import PNG, SEVEN, results
from tests.samples.images import encoded
from tests.samples.in_process import in_process

EIGHT = (ROOT / "tests/data/digits/eight-scan.png").read_bytes()
TEXT = "on Tuesday, the 23rd of March 2021"
DIGITS, DATES = "/v1/models/digits", "/v1/models/dates"


def post(client, path="/attention", content=SEVEN, headers=None, **options):
    return client.post(DIGITS + path, content=content, headers=PNG | (headers or {}), params=options)


def digit(client, **options):
    return results(post(client, **options))[0]["attention"]


def date(client, path="/attention", text=TEXT, **attention):
    return results(client.post(DATES + path, json={"inputs": text, "attention": attention}))[0]["attention"]


def values(attention, index=0):
    return np.array(attention["maps"][index]["values"])


def cross(client, **attention):
    return values(date(client, kind="cross", digits=9, **attention))


# relevance


def test_relevance_explains_the_likeliest_class_unless_another_is_asked_for(client):
    (shown,) = digit(client, method="relevance", digits=9)["maps"]
    assert shown["target"] == {"index": 7, "label": "7"}
    assert (shown["shape"], shown["heads"], shown["normalized"]) == ([1, 1, 50], "mean", False)
    asked = digit(client, method="relevance", target="7", digits=9)
    assert np.array_equal(values(asked), np.array(shown["values"]))


def test_relevance_of_several_classes_is_that_of_each_alone(client):
    both = digit(client, method="relevance", target="7,1", digits=9)
    assert [shown["target"]["index"] for shown in both["maps"]] == [7, 1]
    for index, target in enumerate((7, 1)):
        alone = digit(client, method="relevance", target=target, digits=9)
        assert values(both, index) == pytest.approx(values(alone), abs=1e-6)
    assert np.abs(values(both, 0) - values(both, 1))[0, 0, 1:].max() > 0.01


def test_a_class_may_be_named_by_its_label_in_json(client):
    image = base64.b64encode(SEVEN).decode()
    answer = client.post(
        f"{DIGITS}/classify", json={"images": [image], "attention": {"method": "relevance", "target": ["7", 1]}}
    )
    (result,) = answer.json()["results"]
    assert result["labels"][0]["label"] == "7"
    assert [shown["target"]["label"] for shown in result["attention"]["maps"]] == ["7", "1"]


@pytest.mark.parametrize("target", ["10", "-1", "eight", "1,1"])
def test_a_target_that_is_no_class_is_refused(client, target):
    answer = post(client, method="relevance", target=target)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("target: ")


def test_relevance_of_a_generated_text_has_a_row_a_token_and_nothing_of_later_ones(client):
    attention = date(client, method="relevance", digits=9)
    crossed, own = {shown["kind"]: shown for shown in attention["maps"]}.values()
    if crossed["kind"] != "cross":
        crossed, own = own, crossed
    assert crossed["shape"] == [1, len(attention["tokens"]["target"]), len(attention["tokens"]["source"])]
    assert [target["position"] for target in own["targets"]] == list(range(own["shape"][1]))
    assert "".join(target["text"] for target in own["targets"]).startswith("2021-03-23")
    assert np.triu(np.array(own["values"])[0], 1).max() == 0
    assert np.array(crossed["values"]).max() > 0.01


def test_relevance_of_some_positions_is_that_of_all_of_them_at_those(client):
    every, some = (cross(client, method="relevance", **one) for one in ({}, {"target": [9, 3]}))
    assert some == pytest.approx(every[:, [9, 3]], abs=1e-6)


@pytest.mark.parametrize("target", [11, "first"])
def test_a_position_that_was_not_generated_is_refused(client, target):
    answer = client.post(
        f"{DATES}/attention", json={"inputs": TEXT, "attention": {"method": "relevance", "target": target}}
    )
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("target: must be")


# generated text


def test_the_row_at_which_a_token_is_the_input_is_the_one_after_that_which_emits_it(client):
    emitted, fed = cross(client, layers="all", heads="all"), cross(client, layers="all", heads="all", align="input")
    assert emitted.shape == fed.shape
    assert fed[:, :-1] == pytest.approx(emitted[:, 1:], abs=1e-5)


def test_the_aligned_token_is_the_one_that_a_row_looks_at_most(client):
    attention = date(client, kind="cross", layers=1, heads="all", hard=True, digits=9)
    assert attention["maps"][0]["aligned"] == values(attention).argmax(-1).tolist()


def test_a_streamed_token_carries_the_row_that_the_finished_text_has(client):
    asked = {"kind": "cross", "layers": "all", "steps": True, "digits": 9}
    with client.stream(
        "POST", f"{DATES}/generate", json={"inputs": TEXT, "stream": True, "attention": asked}
    ) as answer:
        events = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]
    *tokens, done = events
    whole = done["results"][0]["attention"]["maps"]
    assert len(tokens) == 10
    for token in tokens:
        for step, shown in zip(token["attention"], whole, strict=True):
            assert step["name"] == shown["name"]
            assert np.array(step["values"])[0, 0] == pytest.approx(
                np.array(shown["values"])[0, token["index"]], abs=1e-5
            )


def test_words_sum_the_columns_of_their_tokens_and_average_the_rows(client):
    plain, merged = date(client, kind="cross", digits=9), date(client, kind="cross", merge="words", digits=9)
    words = merged["tokens"]["source"]
    assert [word["text"].strip() for word in words if word["text"].strip()] == TEXT.lower().split() or [
        TEXT[slice(*word["span"])] for word in words if TEXT[slice(*word["span"])].strip()
    ] == TEXT.split()
    spans = [slice(*word["span"]) for word in words]  # characters are tokens here
    table = values(plain)[0]
    wanted = np.stack([table[:, span].sum(1) for span in spans], axis=1)
    assert values(merged)[0, 0] == pytest.approx(wanted[:10].mean(0), abs=1e-6)  # the date, and then its end
    assert values(merged)[0, 1] == pytest.approx(wanted[10], abs=1e-6)
    assert next(token["text"] for token in merged["tokens"]["target"]) == "2021-03-23"


# figures


def test_diagnostics_are_means_over_the_rows_of_the_plain_maps(client):
    attention = digit(client, layers="all", heads="all", queries="all", digits=9, diagnostics=True)
    (found,) = attention["diagnostics"]
    weights = np.stack([np.array(shown["values"]) for shown in attention["maps"]])  # (layer, head, query, key)
    entropy = -(weights * np.log(np.maximum(weights, 1e-30))).sum(-1).mean(-1)
    assert np.array(found["entropy"]) == pytest.approx(entropy, abs=1e-5)
    assert found["max_entropy"] == pytest.approx(np.log(50), abs=1e-6)
    assert np.array(found["special"]) == pytest.approx(weights[..., 0].mean(-1), abs=1e-6)
    places = np.array([(4 * row + 2, 4 * column + 2) for row in range(7) for column in range(7)])
    apart = np.linalg.norm(places[:, None] - places, axis=-1)
    among = weights[:, :, 1:, 1:] / weights[:, :, 1:, 1:].sum(-1, keepdims=True)
    assert np.array(found["distance"]) == pytest.approx((among * apart).sum(-1).mean(-1), abs=1e-4)


def test_diagnostics_come_with_relevance_too_and_for_every_kind(client):
    attention = date(client, method="relevance", diagnostics=True)
    assert [one["kind"] for one in attention["diagnostics"]] == ["encoder", "decoder", "cross"]
    assert all("distance" not in one for one in attention["diagnostics"])


def test_an_evaluation_has_the_curves_of_the_map_and_of_a_random_order(client):
    asked = {"method": "relevance", "evaluate": "deletion,insertion"}
    first, again = (digit(client, **asked)["evaluation"] for _ in range(2))
    assert first == again
    deletion, insertion = first["curves"]
    assert (first["target"], deletion["name"], insertion["name"]) == (7, "deletion", "insertion")
    for curve in (deletion, insertion):
        for points in (curve, curve["random"]):
            chances = np.array(points["probabilities"])
            assert points["area"] == pytest.approx(((chances[1:] + chances[:-1]) / 2).mean(), abs=2e-5)
    whole = post(client, "/classify").json()["results"][0]["labels"][0]["probability"]
    assert deletion["probabilities"][0] == insertion["probabilities"][-1] == pytest.approx(whole, abs=1e-5)
    assert deletion["probabilities"][-1] == insertion["probabilities"][0]
    assert deletion["area"] < deletion["random"]["area"]
    assert insertion["area"] > insertion["random"]["area"]


@pytest.mark.parametrize("options", [{"layers": "all"}, {"queries": "all"}, {"heads": "all"}])
def test_an_evaluation_of_more_than_one_row_is_refused(client, options):
    answer = post(client, evaluate="deletion", **options)
    assert (answer.status_code, answer.json()["detail"][:9]) == (422, "evaluate:")


# later


@pytest.mark.parametrize("options", [{"method": "rollout"}, {"method": "relevance", "target": "3"}, {"layers": "all"}])
def test_attention_of_an_earlier_image_is_what_it_would_have_been_then(client, options):
    predicted = post(client, "/classify").json()
    later = client.get(f"/v1/attention/{predicted['id']}", params=options).json()
    assert later["results"][0]["attention"] == digit(client, **options)
    assert (later["model"], later["version"]) == ("digits", "1")
    assert later["id"] == predicted["id"]


def test_attention_of_an_earlier_text_is_of_what_was_written_then(client):
    body = {"inputs": [TEXT, "3/4/1999"], "temperature": 3.0, "seed": 5, "attention": {"kind": "cross"}}
    then = client.post(f"{DATES}/generate", json=body).json()
    later = client.get(f"/v1/attention/{then['id']}", params={"kind": "cross"}).json()
    assert [one["attention"] for one in then["results"]] == [one["attention"] for one in later["results"]]


def test_an_unknown_id_and_one_of_another_model_are_refused(client):
    found = post(client, "/classify").json()["id"]
    for answer in (
        client.get("/v1/attention/never"),
        client.get(f"/v1/attention/{found}", params={"model": "dates"}),
        client.get("/v1/attention/%2e%2e%2fetc"),
    ):
        assert answer.status_code == 404
        assert "never" not in answer.json()["detail"]
    assert client.get(f"/v1/attention/{found}", params={"model": "digits"}).status_code == 200


def test_an_id_that_a_client_gives_is_for_logs_alone(client):
    """Otherwise an id that is in use could be given again, which would replace what it stands for."""
    mine = {"X-Request-Id": "invoice-17"}
    answers = [post(client, "/classify", headers=mine) for _ in range(2)]
    assert [answer.headers["X-Request-Id"] for answer in answers] == ["invoice-17"] * 2
    ids = {answer.json()["id"] for answer in answers}
    assert len(ids) == 2
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in ids)
    assert client.get("/v1/attention/invoice-17").status_code == 404
    assert {client.get(f"/v1/attention/{one}").status_code for one in ids} == {200}
    body = {"inputs": TEXT, "stream": True}
    with client.stream("POST", f"{DATES}/generate", json=body, headers=mine) as answer:
        assert answer.headers["X-Request-Id"] == "invoice-17"
        (done,) = re.findall("event: done\ndata: (.*)\n", answer.read().decode())
    streamed = json.loads(done)["id"]
    assert client.get(f"/v1/attention/{streamed}").status_code == 200
    lines = [line for line in map(json.loads, client.lines()) if line.get("request") == "invoice-17"]
    assert {line["answer"] for line in lines if line["event"] == "request"} == {*ids, streamed}


def test_attention_by_id_belongs_to_the_name_of_the_key_that_sent_the_input(light, tmp_path):
    file = tmp_path / "keys"
    file.write_text(line("old", name="alice") + line("new", name="alice") + line("b", EVERY_SCOPE, "bob"))
    with in_process(light, api_keys=file) as client:
        sent = post(client, "/classify", headers=bearer("old"))
        path = f"/v1/attention/{sent.json()['id']}"
        assert sent.headers["X-Request-Id"] == sent.json()["id"]
        for key in ("old", "new"):  # of one name, while the one replaces the other
            answer = client.get(path, headers=bearer(key))
            assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "no-store")
        theirs, unknown = client.get(path, headers=bearer("b")), client.get("/v1/attention/x", headers=bearer("b"))
        assert theirs.status_code == unknown.status_code == 404
        assert theirs.content == unknown.content
        assert theirs.headers.keys() == unknown.headers.keys()
        models = client.get("/v1/models", headers=bearer("b"))
        assert {one.headers["Cache-Control"] for one in (theirs, unknown, models)} == {"no-store"}


def test_a_refused_request_is_not_stored(client):
    refused = post(client, "/attention", layers="99")
    assert client.get(f"/v1/attention/{refused.headers['X-Request-Id']}").status_code == 404


def test_stored_requests_are_bounded_by_count_and_age(light):
    with in_process(light, keep_count=2, keep_seconds=600) as client:
        ids = [post(client, "/classify").json()["id"] for _ in range(3)]
        assert [client.get(f"/v1/attention/{one}").status_code for one in ids] == [404, 200, 200]
    with in_process(light, keep_seconds=0.001) as client:
        assert client.get(f"/v1/attention/{post(client, '/classify').json()['id']}").status_code == 404


# forms


@pytest.mark.parametrize("how", ["format", "accept"])
def test_npz_holds_the_numbers_of_json(client, how):
    asked = {"layers": "all", "queries": "all"}
    plain = digit(client, **asked, digits=9)
    answer = (
        post(client, **asked, format="npz")
        if how == "format"
        else post(client, headers={"Accept": "application/x-npz"}, **asked)
    )
    assert answer.headers["Content-Type"] == "application/x-npz"
    arrays = np.load(io.BytesIO(answer.content))
    meta = json.loads(bytes(arrays["meta"]))["results"][0]["attention"]
    assert meta["tokens"] == plain["tokens"]
    for index, shown in enumerate(meta["maps"]):
        assert arrays[shown["array"]].dtype == np.float32
        assert arrays[shown["array"]] == pytest.approx(values(plain, index), abs=1e-7)


def test_bytes_with_a_scale_are_within_half_a_step(client):
    asked = {"method": "norm", "queries": "all"}
    arrays = np.load(io.BytesIO(post(client, **asked, format="npz", dtype="uint8").content))
    (shown,) = json.loads(bytes(arrays["meta"]))["results"][0]["attention"]["maps"]
    found = arrays[shown["array"]]
    assert (found.dtype, found.max()) == (np.uint8, 255)
    steps = found.astype(float)
    apart = np.abs(steps**2 * shown["scale"] - values(digit(client, **asked, digits=9)))
    assert (apart <= shown["scale"] * (steps + 0.26)).all()


def unpacked(shown):
    array = np.frombuffer(base64.b64decode(shown["values"], validate=True), np.dtype(shown["dtype"]).newbyteorder("<"))
    return array.reshape(shown["shape"])


@pytest.mark.parametrize("options", [{"layers": "all", "heads": "all", "queries": "all"}, {"method": "relevance"}])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_base64_holds_the_bytes_of_npz_and_all_else_of_json(client, options, dtype):
    arrays = np.load(io.BytesIO(post(client, **options, format="npz", dtype=dtype).content))
    meta = json.loads(bytes(arrays["meta"]))["results"][0]["attention"]
    plain, packed = digit(client, **options), digit(client, **options, encoding="base64", dtype=dtype)
    for shown, listed, saved in zip(packed["maps"], plain["maps"], meta["maps"], strict=True):
        assert np.array_equal(unpacked(shown), arrays[saved["array"]])
        assert shown.get("scale") == saved.get("scale")
        found = unpacked(shown)
        found = found.astype(float) ** 2 * shown["scale"] if dtype == "uint8" else found
        assert found == pytest.approx(np.array(listed["values"]), abs=6e-3)
        assert {name: one for name, one in shown.items() if name not in ("dtype", "scale", "values")} == {
            name: one for name, one in listed.items() if name != "values"
        }
    assert {**packed, "maps": []} == {**plain, "maps": []}


def test_pooled_maps_are_blocks_of_the_whole_ones_in_every_form(client):
    whole = {"layers": "all", "heads": "all", "queries": "all"}
    asked = {**whole, "pool": 8}
    sent = client.post(f"{DIGITS}/classify", content=SEVEN, headers={"Content-Type": "image/png"}).json()["id"]
    listed = digit(client, **asked, digits=9)
    packed = digit(client, **asked, encoding="base64")
    arrays = np.load(io.BytesIO(post(client, **asked, format="npz").content))
    saved = json.loads(bytes(arrays["meta"]))["results"][0]["attention"]
    kept = client.get(f"/v1/attention/{sent}", params={**asked, "digits": 9}).json()["results"][0]["attention"]
    assert kept == listed
    for index, one in enumerate(digit(client, **whole, digits=9)["maps"]):
        array = np.array(one["values"])
        _, rows, keys = array.shape
        edges = [range(0, length, -(-length // 8)) for length in (rows, keys)]
        step = edges[0].step
        wanted = np.stack(
            [np.stack([array[:, a : a + step, b : b + step].max((1, 2)) for b in edges[1]], -1) for a in edges[0]], 1
        )
        for shown in (listed["maps"][index], packed["maps"][index], saved["maps"][index]):
            assert shown["shape"] == list(wanted.shape)
            assert shown["pool"] == {"queries": rows, "keys": keys}
        assert np.array(listed["maps"][index]["values"]) == pytest.approx(wanted, abs=1e-6)
        assert unpacked(packed["maps"][index]) == pytest.approx(wanted, abs=1e-6)
        assert arrays[saved["maps"][index]["array"]] == pytest.approx(wanted, abs=1e-6)


def test_predictions_words_and_streamed_rows_come_in_base64_too(client):
    asked = {"kind": "cross", "layers": 1, "encoding": "base64"}
    merged = date(client, "/generate", merge="words", **asked)
    listed = values(date(client, "/generate", merge="words", kind="cross", layers=1, digits=9))
    assert unpacked(merged["maps"][0]) == pytest.approx(listed, abs=1e-6)
    body = {"inputs": TEXT, "stream": True, "attention": {**asked, "steps": True}}
    with client.stream("POST", f"{DATES}/generate", json=body) as answer:
        *tokens, done = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]
    whole = unpacked(done["results"][0]["attention"]["maps"][0])
    for token in tokens:
        assert unpacked(token["attention"][0])[0, 0] == pytest.approx(whole[0, token["index"]], abs=1e-5)


def test_an_answer_in_base64_is_refused_by_its_own_size(light):
    everything = {"layers": "all", "heads": "all", "queries": "all", "digits": 9}  # 4 layers, 4 heads, 50 x 50
    with in_process(light, max_answer_bytes=250_000) as client:
        assert post(client, **everything).status_code == 413
        assert post(client, **everything, encoding="base64").status_code == 200
        assert post(client, **everything, encoding="base64", dtype="uint8").status_code == 200
    with in_process(light, max_answer_bytes=100_000) as client:
        refused = post(client, **everything, encoding="base64")
        assert (refused.status_code, refused.json()["detail"][:33]) == (413, "attention: at most 100000 bytes a")
        assert post(client, **everything, encoding="base64", dtype="uint8").status_code == 200


@pytest.mark.parametrize("accept", ["image/png", "text/html;q=0.9, image/*", "image/png;q=1, */*;q=0.5"])
def test_a_png_is_the_image_that_was_sent_with_the_map_on_it(client, accept):
    answer = post(client, headers={"Accept": accept}, method="rollout", ground="photo")
    assert answer.headers["Content-Type"] == "image/png"
    shown = np.asarray(Image.open(io.BytesIO(answer.content)).convert("RGB"), float)
    sent = np.asarray(Image.open(io.BytesIO(SEVEN)).convert("RGB"), float)
    assert shown.shape == sent.shape
    box = digit(client)["image"]["box"]
    left, top, right, bottom = (round(box[edge]) for edge in ("left", "top", "right", "bottom"))
    changed = np.abs(shown - sent).sum(-1)
    assert changed[top:bottom, left:right].max() > 50
    changed[top - 1 : bottom + 1, left - 1 : right + 1] = 0
    assert changed.max() == 0


def test_a_png_of_a_text_is_a_matrix_of_one_kind(client):
    answer = client.post(f"{DATES}/attention", json={"inputs": TEXT, "attention": {"kind": "cross", "format": "png"}})
    assert Image.open(io.BytesIO(answer.content)).width > 300
    several = client.post(f"{DATES}/attention", json={"inputs": TEXT, "attention": {"format": "png"}})
    assert (several.status_code, several.json()["detail"][:25]) == (422, "format: a png shows one k")


@pytest.mark.parametrize("accept", ["application/json", "*/*", "application/*;q=0.2", "text/html, */*;q=0.1", ""])
def test_json_is_answered_unless_the_client_prefers_another_type(client, accept):
    assert post(client, headers={"Accept": accept}).headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("accept", ["text/csv", "application/json;q=0", "image/jpeg, text/*", "*/*;q=0"])
def test_an_unsupported_type_of_answer_is_refused(client, accept):
    answer = post(client, headers={"Accept": accept})
    assert answer.status_code == 406
    assert answer.json()["detail"] == (
        "Accept: must admit one of application/json, application/x-npz, image/png, given others"
    )


def test_a_prediction_is_answered_in_json_only(client):
    answer = post(client, "/classify", attention="raw", format="png")
    assert (answer.status_code, answer.json()["detail"][:38]) == (422, "format: a prediction is answered in js")


def drawn(answer):
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "image/png"), answer.text
    return np.asarray(Image.open(io.BytesIO(answer.content)))


@pytest.mark.parametrize("width", [64, 333, 1500])
@pytest.mark.parametrize(
    "options",
    [{"method": "rollout"}, {"layers": "all", "heads": "all"}, {"method": "rollout", "evaluate": "deletion,insertion"}],
)
def test_a_png_is_as_wide_as_asked(client, width, options):
    assert drawn(post(client, format="png", width=width, **options)).shape[1] == width
    body = {"kind": "cross", "layers": "all", "heads": "all", "format": "png", "width": width}
    assert drawn(client.post(f"{DATES}/attention", json={"inputs": TEXT, "attention": body})).shape[1] == width


def test_a_png_of_several_texts_shows_each_below_its_title(client):
    texts = [TEXT, "3/23/21", "1 May 2000"]
    body = {"kind": "cross", "format": "png", "width": 400}
    asked = {"inputs": texts, "attention": body}
    together = drawn(client.post(f"{DATES}/attention", json=asked))
    alone = [drawn(client.post(f"{DATES}/attention", json={"inputs": text, "attention": body})) for text in texts]
    assert together.shape == (sum(STRIP + len(one) for one in alone), 400, 3)
    top = 0
    for answer in alone:
        assert together[top : top + STRIP].min() < 128
        assert np.abs(together[top + STRIP : top + STRIP + len(answer)].astype(int) - answer).max() <= 2
        top += STRIP + len(answer)
    sent = client.post(f"{DATES}/generate", json={"inputs": texts}).json()["id"]
    kept = drawn(client.get(f"/v1/attention/{sent}", params=body))
    assert np.abs(kept.astype(int) - together).max() <= 2


def test_a_png_of_several_images_shows_each_below_its_title(client):
    images = [SEVEN, EIGHT]
    together = drawn(
        client.post(f"{DIGITS}/attention", files=[("image", one) for one in images], data={"format": "png"})
    )
    alone = [drawn(post(client, content=one, format="png")) for one in images]
    assert together.shape[:2] == (sum(STRIP + len(one) for one in alone), max(one.shape[1] for one in alone))
    top = STRIP
    for answer in alone:
        assert np.abs(together[top : top + len(answer), : answer.shape[1]].astype(int) - answer).max() <= 2
        top += len(answer) + STRIP


def test_a_photograph_is_drawn_at_the_width_asked_for_and_not_refused_for_its_own_size(client):
    photo = encoded(Image.effect_noise((4000, 3000), 60).convert("RGB"), "JPEG", quality=50)
    sent = {"content": photo, "headers": {"Content-Type": "image/jpeg"}}
    whole = {**sent, "layers": "all", "heads": "all", "format": "png"}
    refused = post(client, **whole)
    assert refused.status_code == 413
    assert refused.json()["detail"].startswith("png: at most 16000000 pixels, this one would have 16710 x 13562")
    assert refused.json()["detail"].endswith("; ask for a smaller width, or for fewer layers, heads, queries or inputs")
    assert drawn(post(client, **whole, width=1000)).shape[1] == 1000


def test_the_pixels_of_all_inputs_count(light):
    with in_process(light, max_image_pixels=250_000) as client:
        body = {"kind": "cross", "format": "png", "width": 300}
        answers = [
            client.post(f"{DATES}/attention", json={"inputs": [TEXT] * count, "attention": body}) for count in (1, 4)
        ]
        assert [answer.status_code for answer in answers] == [200, 413]
        assert "png: at most 250000 pixels, this one would have 300 x " in answers[1].json()["detail"]


# size


def test_default_answers_are_small(client):
    assert len(post(client).content) < 16_000
    for method in ("rollout", "norm", "relevance"):
        assert len(post(client, method=method).content) < 16_000
    assert len(client.post(f"{DATES}/attention", json={"inputs": TEXT}).content) < 64_000


def test_a_picture_too_large_is_refused_before_anything_runs(light):
    with in_process(light, max_image_pixels=300 * 220 * 3) as client:
        assert post(client, method="rollout", format="png").status_code == 200
        answer = post(client, heads="all", format="png")
        assert answer.status_code == 413
        assert "png: at most 198000 pixels, this one would have" in answer.json()["detail"]
        answer = post(client, heads="all", layers="all", queries="all", format="png")
        assert "png: at most 144 panels, given 800" in answer.json()["detail"]


def test_requests_that_ask_for_different_things_at_once_get_each_its_own(client):
    from concurrent.futures import ThreadPoolExecutor

    asked = [
        {"method": "rollout"}, {"method": "norm"}, {"method": "relevance", "target": 1}, {"queries": "all"},
        {"heads": "max"}, {"layers": "all"}, {"method": "relevance"}, {"method": "rollout", "discard": 0.5},
    ]  # fmt: skip
    alone = [digit(client, **one) for one in asked]
    with ThreadPoolExecutor(16) as threads:
        together = list(threads.map(lambda one: digit(client, **one), asked * 4))
    assert together == alone * 4


def test_relevance_of_words_is_drawn_and_its_rows_are_those_of_their_words(client):
    asked = {"method": "relevance", "merge": "words"}
    for kind in ("cross", "decoder"):
        png = client.post(
            f"{DATES}/attention", json={"inputs": TEXT, "attention": {**asked, "kind": kind, "format": "png"}}
        )
        assert Image.open(io.BytesIO(png.content)).width > 100
    whole, merged = (
        values(date(client, method="relevance", kind="cross", digits=9, **more)) for more in ({}, {"merge": "words"})
    )
    assert merged.shape[1] == whole.shape[1]
    assert merged.sum(-1) == pytest.approx(whole.sum(-1), abs=1e-6)


def test_a_picture_of_relevance_leaves_out_the_identity(client):
    """The row of a patch starts at 1 in that patch: were it drawn, all else would have the colour of 0."""
    asked = {"method": "relevance", "queries": 9, "format": "png", "opacity": 1}
    patch = np.asarray(Image.open(io.BytesIO(post(client, **asked).content)).convert("RGB"))
    colours = len(np.unique(patch.reshape(-1, 3), axis=0))
    row = values(digit(client, method="relevance", queries=9, digits=9))[0, 0]
    assert row[9] > 0.99
    assert np.delete(row, 9).max() < 0.5
    assert colours > 20


def test_the_size_of_relevance_is_known_with_all_its_rows(artifacts):
    with in_process(artifacts, max_answer_bytes=12_000) as client:
        assert post(client, method="relevance", target="0,1").status_code == 200
        refused = post(client, method="relevance", target="0,1,2,3", queries="all")
        assert (refused.status_code, refused.json()["detail"][:32]) == (413, "attention: at most 12000 bytes a")


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("png", {"pool": 8}), ("json", {"width": 300}), ("npz", {"width": 300}),
        ("json", {"dtype": "uint8"}), ("json", {"colormap": "magma"}), ("json", {"opacity": 0.5}),
        ("npz", {"opacity": 0.5}), ("png", {"diagnostics": True}),
        ("png", {"dtype": "uint8"}), ("npz", {"encoding": "base64"}), ("png", {"encoding": "list"}),
    ],
)  # fmt: skip
def test_an_option_that_has_no_effect_on_the_format_is_refused(client, form, options):
    answer = post(client, format=form, **options)
    (name,) = options
    assert (answer.status_code, answer.json()["detail"]) == (422, f"{name}: has no effect on {form}, leave it out")


def test_a_client_that_leaves_while_attention_of_an_earlier_request_is_computed_is_noticed(artifacts, tmp_path):
    image = base64.b64encode(SEVEN).decode()
    with in_process(artifacts) as client:
        found = client.post(f"{DIGITS}/classify", json={"images": [image] * 32}).json()["id"]
        asked = {"method": "relevance", "target": "0,1,2,3,4,5", "queries": "all"}
        with pytest.raises(httpx.ReadTimeout):
            client.get(f"/v1/attention/{found}", params=asked, timeout=0.05)
        deadline = time.monotonic() + 30
        while 'status="499"' not in client.get("/metrics").text:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_attention_of_a_text_as_long_as_the_model_allows_feeds_no_token_more(client):
    body = {"inputs": TEXT, "max_new_tokens": 16, "attention": {"align": "input", "kind": "cross"}}
    fresh = client.post(f"{DATES}/generate", json=body)
    assert (fresh.status_code, fresh.json()["detail"]) == (422, "max_new_tokens: at most 15, given 16")
