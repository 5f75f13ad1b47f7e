"""The client against a running service: its answers are those of the HTTP interface."""

import gc
import io
import json
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
import regard
from PIL import Image
from regard.calls import MOST_INPUTS
from regard.tasks.generation import GenerateOptions

from tests.client.conftest import SEVEN, answer, detected, detector, filed, looked, mapped, problem, told
from tests.conftest import served
from tests.samples.in_process import in_process

DATE = "3/23/21"


@pytest.fixture(scope="module")
def others(tmp_path_factory, minilm, language_models):
    """A service of models that embed, fill masks and continue texts."""
    folder = tmp_path_factory.mktemp("others")
    for source in (minilm, language_models):
        for path in source.iterdir():
            (folder / path.name).symlink_to(path)
    with in_process(folder) as client, regard.connect(str(client.base_url)) as service:
        service.client = client
        yield service


@pytest.fixture
def asked(service):
    """The requests that are sent from here on, as `METHOD path`."""
    sent = []
    hook = lambda request: sent.append(f"{request.method} {request.url.path}")  # noqa: E731
    service._transport.http.event_hooks["request"].append(hook)
    yield sent
    service._transport.http.event_hooks["request"].remove(hook)


def opened():
    """The picture, read from its file, which is closed."""
    return Image.open(io.BytesIO(SEVEN.read_bytes()))


def test_models_are_described_and_named(service):
    assert {one.name for one in service.models()} == {"dates", "digits"}
    assert service["digits"].description.endpoints[0] == "classify"
    assert service.model("dates").name == "dates"
    assert "127.0.0.1" in repr(service)
    assert repr(service["digits"]) == "<regard model digits: image-classification>"


def test_a_model_that_is_not_there(service):
    with pytest.raises(regard.NotFound, match="digits") as caught:
        service["digts"]
    assert caught.value.status == 404
    assert "there is none named 'digts'; there are digits, dates" in str(caught.value)
    with pytest.raises(regard.NotFound, match="none named 'mein ViT ü'; there are digits, dates"):
        service.model("mein ViT ü")


def test_a_model_is_typed_by_the_class_of_its_answers(service):
    assert service.model("digits", regard.Classification)(SEVEN).labels[0].label == "7"
    with pytest.raises(regard.BadInput, match="answers: must be Classification for 'digits', given Generation"):
        service.model("digits", regard.Generation)


def test_a_refusal_says_what_was_given_and_of_which_file(digits, tmp_path):
    with pytest.raises(regard.InputRefused, match=r"method: .*given 'rolout'") as caught:
        digits.classify(SEVEN, attention="rolout")
    assert "/docs has every option" in str(caught.value)
    blank = tmp_path / "blank.png"
    Image.new("L", (50, 50), 255).save(blank)
    with pytest.raises(regard.InputRefused, match=f"^{blank}: image: ") as caught:
        digits.classify(blank)
    assert caught.value.about == str(blank)
    assert "/docs" not in str(caught.value), "which has nothing about a picture"
    copied = pickle.loads(pickle.dumps(caught.value))
    assert str(copied) == str(caught.value)


@pytest.mark.parametrize("name", ["", "a/b", "..", "a?b", "a#b", 3])
def test_a_name_that_would_be_another_path_is_not_sent(service, asked, name):
    with pytest.raises(regard.BadInput, match="model: must be a name"):
        service[name]
    assert asked == []


def test_a_picture_is_classified_as_over_http(client, digits):
    wanted = client.post("/v1/models/digits/classify", files={"image": SEVEN.read_bytes()}).json()["results"][0]
    for given in (SEVEN, str(SEVEN), SEVEN.read_bytes(), opened(), np.asarray(opened())):
        found = digits.classify(given, top_k=3)
        assert [(one.label, one.index, one.probability) for one in found.labels] == [
            (one["label"], one["index"], one["probability"]) for one in wanted["labels"][:3]
        ]
    assert digits(SEVEN).labels[0].label == "7"
    assert found.attention is None
    assert found.id


def test_a_batch_is_answered_in_its_order_by_as_few_requests_as_limits_allow(digits, asked):
    turned = [np.asarray(opened().rotate(90 * turn)) for turn in range(4)]
    alone = [digits.classify(one).labels[0] for one in turned]
    assert len({(one.label, one.probability) for one in alone}) > 1
    most = digits.description.max_inputs
    asked.clear()
    found = digits.classify_batch(turned * (most // 4) + turned)
    assert asked == ["POST /v1/models/digits/classify"] * 2
    assert [one.labels[0].label for one in found] == [one.label for one in alone] * (most // 4 + 1)
    probabilities = [one.labels[0].probability for one in found]
    np.testing.assert_allclose(probabilities, [one.probability for one in alone] * (most // 4 + 1), atol=1e-5)
    of_last = found[-1].look("raw")
    np.testing.assert_allclose(of_last.maps[0].values, found[3].look("raw").maps[0].values, atol=1e-6)
    assert not np.allclose(of_last.maps[0].values, found[0].look("raw").maps[0].values, atol=1e-3)


def test_what_is_wrong_in_a_batch_is_named_by_its_place_among_all(dates, asked):
    assert dates.description.max_inputs > MOST_INPUTS
    most = MOST_INPUTS
    good, long = [DATE] * (most + 2), "x" * 500
    with pytest.raises(regard.InputRefused, match=rf"input: .* \(inputs\[{most + 1}\]\)"):
        dates.generate_batch([*good[:-1], long, DATE])
    with pytest.raises(regard.InputRefused, match="input: ") as caught:
        dates.generate_batch([*good[:most], long])
    assert str(caught.value).startswith(f"inputs[{most}:{most + 1}]: input: "), "alone, it has no number"
    asked.clear()
    with pytest.raises(regard.BadInput, match=rf"inputs\[{most + 1}\]: text: must be a string"):
        dates.generate_batch([*good[:-1], 3])
    assert asked == ["POST /v1/models/dates/generate"], "the requests before it were sent"


def test_one_input_is_no_batch(digits, asked):
    with pytest.raises(regard.BadInput, match="inputs: must be a list"):
        digits.classify_batch(str(SEVEN))
    assert asked == []


def test_a_text_is_generated_as_over_http(client, dates):
    wanted = client.post("/v1/models/dates/generate", json={"inputs": [DATE]}).json()["results"][0]
    found = dates.generate(DATE)
    assert found.text == wanted["text"] == "2021-03-23"
    assert "".join(token.text for token in found.tokens) == found.text
    np.testing.assert_allclose(
        [one.log_probability for one in found.tokens], [one["log_probability"] for one in wanted["tokens"]], atol=1e-5
    )
    assert found.finish_reason == "stop"
    assert [one.text for one in dates.generate_batch([DATE, "march 3 1999"])] == ["2021-03-23", "1999-03-03"]
    assert len(dates.generate(DATE, alternatives=2).tokens[0].alternatives) == 2
    assert dates.generate(DATE, num_beams=3).score is not None


def test_attention_comes_with_an_answer_or_alone_or_later_and_is_the_same(service, dates, asked):
    beside = dates.generate(DATE, attention={"method": "raw", "kind": "cross"})
    asked.clear()
    later = beside.look("raw", kind="cross")
    assert asked == ["GET /v1/attention/" + beside.id], "the input is not sent again"
    alone = dates.attention(DATE, method="raw", kind="cross")
    for other in (later, alone.attention):
        np.testing.assert_allclose(other.maps[0].values, beside.attention.maps[0].values, atol=1e-6)
    np.testing.assert_allclose(beside.attention.maps[0].values.sum(2), 1, atol=1e-5)
    assert "".join(token.text for token in later.tokens["source"]).startswith(DATE)
    (first,) = dates.attention_batch([DATE], method="raw", kind="cross")
    np.testing.assert_allclose(first.attention.maps[0].values, alone.attention.maps[0].values, atol=1e-6)


def test_a_look_without_a_method_is_by_the_one_that_measured_best(digits, dates):
    for model, given in ((digits, SEVEN), (dates, DATE)):
        assert model(given).look().method == model.description.best
        assert model.attention(given).attention.method == model.description.best


def test_the_best_method_of_several_kinds_is_drawn_as_any_other(dates):
    answer = dates.generate(DATE)
    best = answer.image("best")
    assert best.tobytes() == answer.image(dates.description.best).tobytes()


def test_maps_heat_picture_and_curves_of_an_answer(digits):
    found = digits.classify(SEVEN)
    sent = opened()
    maps = found.maps(layers="all", heads="all")
    kind = digits.description.kinds["encoder"]
    assert [one.values.shape[0] for one in maps] == [kind["heads"]] * kind["layers"]
    assert found.heat("relevance", target=1).shape == (sent.height, sent.width)
    assert not np.allclose(found.heat("relevance", target=1), found.heat("relevance", target=7))
    image = found.image("rollout", width=300, colormap="magma")
    assert image.width == 300
    curves = found.curves("relevance")
    assert {(one.method, one.name) for one in curves.curves} == {
        (method, name) for method in ("relevance", "random") for name in ("deletion", "insertion")
    }
    assert all(len(one.values) == len(curves.fractions) for one in curves.curves)


def test_an_input_that_the_service_does_not_keep_is_sent_again(artifacts):
    with in_process(artifacts, keep_count=0) as client, regard.connect(str(client.base_url)) as service:
        found = service["dates"].generate(DATE, num_beams=2)
        assert found.look("raw").maps
        assert found.image("raw").width
        labels = service["digits"].classify(SEVEN, top_k=1)
        assert labels.heat("rollout").shape
        seeded = service["dates"].generate(DATE, temperature=2.0, seed=1)
        assert (
            "".join(token.text for token in seeded.look("raw", kind="cross").tokens["target"][:10]) == seeded.text[:10]
        )
        drawn = service["dates"].generate(DATE, temperature=2.0)
        with pytest.raises(regard.NotFound, match="id:"):
            drawn.look("raw")


GENERATING = {
    "max_new_tokens": 8, "num_beams": 2, "length_penalty": 0.5, "temperature": 0.0, "top_k": 5, "top_p": 0.9, "seed": 1,
    "alternatives": 2, "priority": "batch", "min_p": 0.1, "typical_p": 0.8, "repetition_penalty": 1.2,
    "no_repeat_ngram_size": 3, "bad_words": ["3", [4, 5]], "num_return_sequences": 1, "stop": "-",
}  # fmt: skip
"""A value of each option of `generate`, but for those of models of several languages."""


def test_a_text_is_explained_again_whatever_it_was_generated_with(artifacts):
    languages = {"source_language", "target_language"}
    assert GENERATING.keys() == GenerateOptions.__annotations__.keys() - languages - {"attention"}
    with in_process(artifacts, keep_count=0) as client, regard.connect(str(client.base_url)) as service:
        for name, value in GENERATING.items():
            drawn = {"seed": 1} if name in ("top_k", "top_p", "min_p", "typical_p") else {}
            found = service["dates"].generate(DATE, **{name: value, **drawn})
            assert found.look("raw", kind="cross").maps, name
        first, _ = service["dates"].generate_batch([DATE, "1 may 99"], alternatives=2)
        assert first.image("raw").width


def test_tokens_come_one_by_one(dates):
    whole = dates.generate(DATE)
    with dates.stream(DATE) as stream:
        with pytest.raises(regard.StreamBroken):
            stream.result  # noqa: B018 # it is not there yet
        found = list(stream)
    assert [token.text for token in found] == [token.text for token in whole.tokens]
    assert stream.result.text == whole.text
    assert stream.result.look("raw").maps


def test_rows_of_attention_come_with_the_tokens(dates):
    options = {"method": "raw", "kind": "cross", "steps": True}
    stream = dates.stream(DATE, attention=options)
    rows = [token.maps[0].values for token in stream]
    after = dates.attention(DATE, method="raw", kind="cross").attention.maps[0].values
    np.testing.assert_allclose(np.concatenate(rows, axis=1)[:, : len(rows)], after[:, : len(rows)], atol=1e-5)


def test_a_stream_can_be_left_early(service, dates):
    with dates.stream(DATE) as stream:
        assert next(stream).text == "2"
    assert list(stream) == []
    assert dates.generate(DATE).text == "2021-03-23", "the connection is not left half read"


def test_a_stream_that_is_left_half_read_ends_whatever_its_thread_holds(service, dates):
    """The garbage collector may run while this thread holds the lock of the connections, which the end waits for."""
    stream = dates.stream(DATE, max_new_tokens=10)
    assert next(stream).text == "2"
    tokens, stream.itself = stream._parts, stream
    with service._transport.http._transport._pool._optional_thread_lock:
        del stream
        gc.collect()
        assert tokens.gi_frame is not None, "its end waits"
    until = time.monotonic() + 10
    while tokens.gi_frame is not None and time.monotonic() < until:
        time.sleep(0.01)
    assert tokens.gi_frame is None
    assert dates.generate(DATE).text == "2021-03-23"


def test_a_stream_that_breaks_holds_what_came(artifacts, dates):
    with served(artifacts) as client, regard.connect(str(client.base_url)) as service:
        stream = service["dates"].stream(DATE, max_new_tokens=10)
        first = next(stream)
        client.process.kill()
        with pytest.raises(regard.StreamBroken) as caught:
            # what was sent before the end may still come
            list(stream) and stream.result
    assert caught.value.text.startswith(first.text)


def test_a_stream_that_ends_without_its_last_event_is_broken(dates):
    token = b'event: token\ndata: {"index": 0, "token": 5, "text": "2"}\n\n'
    for content in (token, token + b"event: done\ndata: {"):
        with told(answer(200, content, "text/event-stream")) as (url, _):
            stream = regard.Model(regard.Service(url)._transport, dates.description).stream(DATE)
            with pytest.raises(regard.StreamBroken) as caught:
                list(stream)
            assert caught.value.text == "2"


def test_a_stream_is_asked_for_again_until_it_begins(dates):
    done = b'event: error\ndata: {"status": 503, "title": "x", "detail": "device: lost"}\n\n'
    with told(problem(429, retry_after="0"), answer(200, done, "text/event-stream")) as (url, asked):
        stream = regard.Model(regard.Service(url)._transport, dates.description).stream(DATE)
        with pytest.raises(regard.NotReady, match="device: lost"):
            list(stream)
    assert len(asked) == 2


def pixels(width=12, height=8):
    return filed(Image.new("RGB", (width, height)))


def queries_of(asked):
    """What requests asked for: the path, and the options of a query."""
    return [(url.path, dict(url.params)) for head in asked for url in [httpx.URL(head.split(b" ")[1].decode())]]


def test_objects_are_detected_and_each_is_seen():
    content = {"id": "i", "model": "m", "version": "1", "results": [{"objects": [detected(3), detected(1)]}]}
    row = {"id": "i", "results": [{"attention": looked(mapped(np.arange(6, dtype=np.float32)[None, None]))}]}
    said = [answer(200, json.dumps(one).encode()) for one in (content, row)]
    with told(*said, answer(200, pixels(30, 20), "image/png")) as (url, asked), regard.Service(url) as service:
        model = regard.Model(service._transport, detector())
        found = model.detect(pixels(), threshold=0.25, top_k=2)
        assert [(one.label, one.object, one.box.left) for one in found.objects] == [("cat", 3, 3), ("cat", 1, 1)]
        heat = found.heat("raw", object=1, smooth=False)
        assert heat.shape == (8, 12)
        assert heat[7, 11] == 5
        assert found.image().size == (30, 20)
        found.image(target=3)
    body = json.loads(asked[0].partition(b"\r\n\r\n")[2])
    assert queries_of(asked[:1]) == [("/v1/models/m/detect", {})]
    assert {name: body[name] for name in ("threshold", "top_k")} == {"threshold": 0.25, "top_k": 2}
    kept = {"threshold": "0.25", "top_k": "2", "model": "m"}
    every, one = {"method": "raw", "kind": "cross"}, {"method": "libra", "target": "3"}
    assert queries_of(asked[1:]) == [
        ("/v1/attention/i", {**kept, **every, "queries": "1", "encoding": "base64"}),
        ("/v1/attention/i", {**kept, **every, "format": "png"}),
        ("/v1/attention/i", {**kept, **one, "format": "png"}),
    ], "without a method a picture shows every object that was found, unless one is named"


def test_pictures_are_searched_in_batches():
    results = [{"id": f"i.{n}", "objects": [detected(n)]} for n in range(2)]
    with told(answer(200, json.dumps({"id": "i", "results": results}).encode())) as (url, asked):
        model = regard.Model(regard.Service(url)._transport, detector())
        found = model.detect_batch([pixels()] * 2, priority="batch")
        assert [(one.id, one.objects[0].object) for one in found] == [("i.0", 0), ("i.1", 1)]
    assert len(asked) == 1
    with told(answer(200, json.dumps({"id": "i", "results": results[:1]}).encode())) as (url, asked):
        model = regard.Model(regard.Service(url)._transport, detector())
        assert isinstance(model(pixels()), regard.Detection)
        assert isinstance(model.attention(pixels(), method="raw", threshold=0.125), regard.Look)
    body = json.loads(asked[1].partition(b"\r\n\r\n")[2])
    assert (body["threshold"], body["attention"]) == (0.125, {"encoding": "base64", "method": "raw"})


def test_embeddings_masks_and_texts_that_go_on(others):
    minilm = others["minilm"]
    one, other, far = (minilm.embed(text).vector for text in ("A cat sits.", "A kitten sits down.", "Stocks fell."))
    assert one @ other > one @ far
    np.testing.assert_allclose(minilm.embed_batch(["A cat sits."])[0].vector, one, atol=1e-5)
    alike = minilm.embed("A cat sits.").look("libra", against={"text": "A kitten sits down."})
    assert alike.maps[0].signed
    both = minilm.embed("A cat sits.").look("libra", against={"text": "A kitten sits."}, sides="both")
    assert both.against.maps[0].values.shape[2] == len(both.against.tokens["source"])
    masks = others["dates-mlm"].description.json["inputs"]["mask"]
    filled = others["dates-mlm"].fill_mask(f"2021-0{masks}-23", top_k=2)
    assert [len(mask) for mask in filled.candidates] == [2]
    assert filled.candidates[0][0].probability > filled.candidates[0][1].probability
    assert len(others["dates-mlm"].fill_mask_batch([f"2021-0{masks}-23"] * 3)) == 3
    assert others["dates-clm"].generate("3/23/21 = ", max_new_tokens=4).tokens


def test_how_a_text_is_read_stands_beside_attention(others):
    text = "We met on Tuesday, 4 July 1996. " * 4
    options = {"overflow": "window", "stride": 8, "aggregate": "first", "ignore": ("O", "DAY", "MONTH", "YEAR")}
    (one,) = others["dates-tags"].attention(text, method="libra", **options).attention.maps
    assert one.target["label"] == "WEEKDAY"
    assert others["minilm"].attention("a cat sat", method="libra", against="a dog", dimensions=64, prompt="it is ")


def test_entities_are_read_and_looked_at_by_their_numbers(others):
    text = "We met on Tuesday, 4 July 1996."
    tagged = others["dates-tags"].tag(text, attention="libra")
    assert [(one.text, one.label) for one in tagged.entities] == [
        ("Tuesday", "WEEKDAY"), ("4", "DAY"), ("July", "MONTH"), ("1996", "YEAR"),
    ]  # fmt: skip
    for entity in tagged.entities:
        assert text[entity.start : entity.end] == entity.text
        assert 0.5 < entity.probability <= 1
        assert list(entity.tokens) == list(range(1 + entity.start, 1 + entity.end))
    assert tagged._repr_mimebundle_()["text/plain"].startswith("dates-tags: Tuesday WEEKDAY ")
    assert others["dates-tags"](text).entities == tagged.entities
    july = tagged.look("libra", target=2)
    assert july.maps[0].target == {"entity": 2, "position": 22, "index": 3, "label": "MONTH"}
    assert tagged.look("libra", target={"entity": 2}).maps[0].target == july.maps[0].target
    assert [one.target["entity"] for one in tagged.look("libra", target=[{"entity": 3}, {"entity": 0}]).maps] == [3, 0]
    assert tagged.image("libra", target=2).size[0] > 0
    letters = others["dates-tags"].tag(text, aggregate="none", ignore=["O", "WEEKDAY", "DAY", "YEAR"])
    assert [one.text for one in letters.entities] == list("July")
    assert letters.look("relevance", target=3).maps[0].target["position"] == july.maps[0].target["position"] + 3
    assert [len(one.entities) for one in others["dates-tags"].tag_batch([text, "nothing"], ignore=())] == [9, 1]


def test_a_task_that_the_model_has_not(dates, digits):
    with pytest.raises(regard.NotFound):
        dates.classify(DATE)
    with pytest.raises(regard.NotFound):
        digits.generate(SEVEN)
    with pytest.raises(regard.NotFound, match="detect"):
        digits.detect(SEVEN)


def test_a_wrong_option_is_named(digits, asked):
    with pytest.raises(regard.InputRefused, match="top_k") as caught:
        digits.classify(SEVEN, top_k=-1)
    assert caught.value.status == 422
    with pytest.raises(regard.InputRefused, match="method"):
        digits.classify(SEVEN, attention="rolout")
    with pytest.raises(regard.InputRefused, match="colormap"):
        digits.classify(SEVEN).image("raw", colormap="jet")


def test_a_picture_shows_one_input_of_a_batch_and_a_kind_that_has_the_method(digits, dates, asked):
    alone = digits.classify(SEVEN).image("rollout")
    _, second = digits.classify_batch([SEVEN, SEVEN])
    del asked[:]
    assert second.image("rollout") == alone
    assert asked == [f"GET /v1/attention/{second.id}"]
    assert second.id.endswith(".1")
    written = dates.generate(DATE)
    assert written.image("rollout") == written.image("rollout", kind="decoder")
    assert written.image("raw") == written.image("raw", kind="cross")


def test_a_picture_that_is_none_is_not_sent(digits, asked, tmp_path):
    (tmp_path / "a.png").write_text("no picture")
    for given, said in (
        (b"GIF89a", "picture: "),
        (tmp_path / "a.png", "picture: "),
        (tmp_path / "none.png", "picture: "),
    ):
        with pytest.raises(regard.BadInput, match=said):
            digits.classify(given)
    assert asked == []


def test_threads_share_a_service(digits, dates):
    with ThreadPoolExecutor(8) as threads:
        answers = list(
            threads.map(lambda turn: (dates if turn % 2 else digits)(DATE if turn % 2 else SEVEN), range(24))
        )
    assert {one.text for one in answers[1::2]} == {"2021-03-23"}
    assert {one.labels[0].label for one in answers[::2]} == {"7"}


def test_connections_are_closed(address):
    before = threading.active_count()
    with regard.connect(address) as service:
        assert service.models()
    with pytest.raises(regard.BadInput, match="service: was closed"):
        service.models()
    assert threading.active_count() <= before
