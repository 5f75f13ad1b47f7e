"""What explains a score, over HTTP: held against the definitions, against what adds up, and against one another."""

import base64
import io
import json
import re

import numpy as np
import pytest
import torch
from PIL import Image

from export.bundled import digits
from model.methods import attribution
from service.batching.admission import Budget
from service.inputs.image_preprocessing import decode_image
from tests.samples.http_requests import DIGIT_FILES, PNG, SEVEN, results
from tests.samples.in_process import in_process, inside

IMAGES = [path.read_bytes() for path in DIGIT_FILES[:4]]
TEXTS = ["april 17, 1986", "the 23rd of March 2021", "3/4/05"]
METHODS = ("relevance", "libra", "integrated")
EXACT = 1e-5
"""The largest difference from a definition in float64, as a share of the largest value."""


@pytest.fixture(scope="module")
def languages(language_models):
    """A client of a masked and a causal language model."""
    with in_process(language_models) as client:
        yield client


@pytest.fixture(scope="module")
def definition():
    """The definition of `digits` in float64, and the very pixels that the service takes of a seven."""
    source = digits()
    picture = decode_image(SEVEN, source.image, 10**7)
    return source.traced.double(), torch.from_numpy(picture.pixels)[None]


def digit(client, content=SEVEN, path="/v1/models/digits/attention", **options):
    given = {name: json.dumps(one) if isinstance(one, dict) else one for name, one in options.items()}
    answer = client.post(path, content=content, headers=PNG, params={"digits": 9} | given)
    return results(answer)[0]["attention"]


def text(client, inputs=TEXTS[0], model="dates", endpoint="attention", **attention):
    body = {"inputs": inputs, "attention": {"digits": 9, **attention}}
    return results(client.post(f"/v1/models/{model}/{endpoint}", json=body))[0]["attention"]


def values(attention, kind=None):
    """The values of the first map, or of the one of a kind: (row, key)."""
    shown = next(one for one in attention["maps"] if kind in (None, one["kind"]))
    return np.array(shown["values"])[0]


def is_close(found, wanted, share=EXACT):
    return np.abs(np.asarray(found) - np.asarray(wanted)).max() <= share * np.abs(wanted).max()


def adds_up(conserved):
    """Return whether tokens and biases make the score, to a ten-thousandth of the largest of them."""
    tokens, biases, score = (conserved[name] for name in ("tokens", "biases", "score"))
    return abs(tokens + biases - score) <= 1e-4 * max(map(abs, (tokens, biases, score)))


# Against the definitions


def score_of(traced, pixels, target, against=None):
    def explain():
        logits = traced.observe(pixels).answer
        return logits[:, target] if against is None else logits[:, target] - logits[:, against]

    return explain


@pytest.mark.parametrize(("target", "against"), [(7, None), (1, None), (7, 1)])
def test_libra_is_its_definition_on_the_very_pixels_at_every_layer_and_adds_up(client, definition, target, against):
    traced, pixels = definition
    wanted = attribution.libra(traced, traced.parts(), score_of(traced, pixels, target, against))
    options = {} if against is None else {"against": {"index": against}}
    shown = digit(client, method="libra", layers="all", target=target, **options)["maps"]
    assert [one["layer"] for one in shown] == [0, 1, 2, 3]
    for layer, one in enumerate(shown):
        assert is_close(one["values"][0][0], wanted.tokens[0][layer][0].numpy())
        assert is_close(one["conserved"]["biases"], wanted.biases[layer].numpy())
        assert is_close(one["conserved"]["score"], wanted.score[0].numpy())
        assert adds_up(one["conserved"])
        assert one["conserved"]["tokens"] == pytest.approx(np.sum(one["values"]), abs=1e-6)
        assert one["signed"] is True
        assert (one["shape"], one["heads"], one["normalized"]) == ([1, 1, 50], "sum", False)
    assert np.min(shown[0]["values"]) < 0 < np.max(shown[0]["values"])


@pytest.mark.parametrize("baseline", ["empty", "zero"])
def test_integrated_is_its_definition_from_every_baseline_and_says_how_complete_it_is(client, definition, baseline):
    traced, pixels = definition
    black = score_of(traced, torch.zeros_like(pixels), 7) if baseline == "empty" else None
    wanted = attribution.integrated(traced.parts(), score_of(traced, pixels, 7), black, 4)
    (shown,) = digit(client, method="integrated", target=7, steps=4, baseline=baseline)["maps"]
    assert is_close(shown["values"][0][0], wanted.tokens[0][0].numpy(), 1e-4)
    assert (shown["steps"], shown["baseline"], shown["layer"]) == (4, baseline, None)
    complete = shown["completeness"]
    assert complete["score"] == pytest.approx(float(wanted.score), abs=1e-4)
    assert complete["baseline"] == pytest.approx(float(wanted.baseline), abs=1e-4)
    assert complete["error"] == pytest.approx(complete["tokens"] - (complete["score"] - complete["baseline"]))
    assert complete["tokens"] == pytest.approx(np.sum(shown["values"]), abs=1e-6)


def test_more_steps_are_more_complete(client):
    few, many = (digit(client, method="integrated", steps=steps)["maps"][0] for steps in (1, 64))
    assert abs(many["completeness"]["error"]) < 0.1 * abs(few["completeness"]["error"])
    assert digit(client, method="integrated")["maps"][0]["steps"] == 16


# Against one another


def test_a_class_against_another_is_the_difference_of_both(client):
    seven, one = (values(digit(client, method="libra", target=target)) for target in (7, 1))
    both = digit(client, method="libra", target=7, against={"label": "1"})
    assert is_close(values(both), seven - one)
    assert both["maps"][0]["against"] == {"index": 1, "label": "1"}
    path = [digit(client, method="integrated", steps=3, target=target) for target in (7, 1)]
    both = digit(client, method="integrated", steps=3, target=7, against={"index": 1})
    assert is_close(values(both), values(path[0]) - values(path[1]), 1e-4)
    plain, contrast = (digit(client, method="relevance", target=7, **one) for one in ({}, {"against": {"index": 1}}))
    assert np.abs(values(plain) - values(contrast)).max() > 0.01


@pytest.mark.parametrize("method", METHODS)
def test_the_likeliest_class_is_explained_unless_another_is_asked_for(client, method):
    assert digit(client, method=method) == digit(client, method=method, target=7)
    several = digit(client, method=method, target="7,1")["maps"]
    assert [one["target"]["index"] for one in several] == [7, 1]
    for answer in several:
        alone = digit(client, method=method, target=answer["target"]["index"])
        assert is_close(answer["values"], alone["maps"][0]["values"])
    assert not is_close(several[0]["values"], several[1]["values"], 0.01)  # relevance holds the identity's 1


@pytest.mark.parametrize("method", METHODS)
def test_several_inputs_at_once_are_each_alone(client, method):
    body = {"images": [base64.b64encode(one).decode() for one in IMAGES], "attention": {"method": method, "digits": 9}}
    together = client.post("/v1/models/digits/classify", json=body).json()["results"]
    for image, one in zip(IMAGES, together, strict=True):
        alone = digit(client, image, "/v1/models/digits/classify", attention=method)
        assert one["attention"]["maps"][0]["target"] == alone["maps"][0]["target"]
        assert one["labels"][0]["label"] == alone["maps"][0]["target"]["label"]
        assert is_close(values(one["attention"]), values(alone), 1e-4)
    body = {"inputs": TEXTS, "attention": {"method": method, "digits": 9, "target": [0, 8]}}
    for given, one in zip(TEXTS, client.post("/v1/models/dates/attention", json=body).json()["results"], strict=True):
        alone = text(client, given, method=method, target=[0, 8])
        for kind in ("cross", "decoder"):
            assert values(one["attention"], kind).shape == values(alone, kind).shape
            assert is_close(values(one["attention"], kind), values(alone, kind), 1e-4)


# Generated tokens


def test_each_generated_token_adds_up_over_the_source_and_what_was_generated_before(client):
    attention = text(client, method="libra")
    source, target = (len(attention["tokens"][axis]) for axis in ("source", "target"))
    crossed, own = values(attention, "cross"), values(attention, "decoder")
    assert (crossed.shape, own.shape) == ((target, source), (target, target))
    assert np.abs(np.triu(own, 1)).max() == 0
    for row, one in enumerate(attention["maps"][0]["targets"]):
        parts, conserved = one["parts"], one["conserved"]
        assert (one["position"], one["text"]) == (row, attention["tokens"]["target"][row]["text"])
        assert adds_up(conserved)
        assert sum(part["share"] for part in parts.values()) == pytest.approx(1)
        assert sum(part["sum"] for part in parts.values()) == pytest.approx(conserved["tokens"], abs=1e-4)
        assert parts["source"]["sum"] == pytest.approx(crossed[row].sum(), abs=1e-4)
        assert parts["start"]["sum"] == pytest.approx(own[row, 0], abs=1e-4)
        whole = np.abs(crossed[row]).sum() + np.abs(own[row]).sum()
        assert parts["prefix"]["share"] == pytest.approx(np.abs(own[row, 1:]).sum() / whole, abs=1e-4)
    alone = text(client, method="libra", kind="cross", target=[3])
    assert [shown["kind"] for shown in alone["maps"]] == ["cross"]
    (shown,) = alone["maps"][0]["targets"]
    again = attention["maps"][0]["targets"][3]
    assert shown["conserved"] == pytest.approx(again["conserved"], abs=1e-4)
    assert shown["parts"]["prefix"] == pytest.approx(again["parts"]["prefix"], abs=1e-4)


def test_the_hottest_source_character_of_a_year_and_a_day_is_the_one_that_was_copied(client):
    attention = text(client, TEXTS[0], method="libra", kind="cross")
    written = [token["text"] for token in attention["tokens"]["target"]]
    assert "".join(written[:10]) == "1986-04-17"
    hottest = values(attention).argmax(1)
    first = {"1986": TEXTS[0].index("1986"), "17": TEXTS[0].index("17")}
    assert hottest[:4].tolist() == [first["1986"] + offset for offset in range(4)]
    assert hottest[8:10].tolist() == [first["17"] + offset for offset in range(2)]


def test_a_generated_token_is_explained_against_another_by_its_text_or_number(client):
    tokens = {one["text"]: one["token"] for one in text(client, method="libra")["maps"][0]["targets"]}
    two, other = (
        text(client, method="libra", target=[0]),
        text(client, method="libra", target=[0], against={"text": "2"}),
    )
    assert other["maps"][0]["targets"][0]["against"]["text"] == "2"
    number = other["maps"][0]["targets"][0]["against"]["token"]
    same = text(client, method="libra", target=[0], against={"token": number})
    assert is_close(values(other, "cross"), values(same, "cross"))
    assert not is_close(values(other, "cross"), values(two, "cross"), 0.05)
    assert number not in (tokens["1"], tokens["9"])
    itself = text(client, method="libra", target=[0], against={"text": "1"})
    assert itself["maps"][0]["targets"][0]["conserved"]["score"] == 0
    assert not values(itself, "cross").any()


def test_integrated_of_a_generated_token_has_parts_and_completeness(client):
    attention = text(client, method="integrated", steps=2, target=[0, 4])
    assert [shown["kind"] for shown in attention["maps"]] == ["decoder", "cross"]
    for row, one in enumerate(attention["maps"][0]["targets"]):
        total = values(attention, "cross")[row].sum() + values(attention, "decoder")[row].sum()
        assert one["completeness"]["tokens"] == pytest.approx(total, abs=1e-4)
        assert sum(part["share"] for part in one["parts"].values()) == pytest.approx(1)


def test_what_continues_a_text_rests_on_the_prompt_and_on_what_it_wrote_before(languages):
    prompt = "april 17, 1986 = "
    attention = text(languages, prompt, "dates-clm", "generate", method="libra", layers="all")
    assert [shown["layer"] for shown in attention["maps"]] == [0, 1, 2]
    keys = attention["tokens"]["target_input"]
    assert attention["tokens"]["target_input"][0]["special"] is True
    count = len(attention["maps"][0]["targets"])
    for shown in attention["maps"]:
        assert shown["shape"] == [1, count, len(keys)]
        for row, one in enumerate(shown["targets"]):
            own = np.array(shown["values"])[0, row]
            before = len(keys) - count + row + 1
            assert np.abs(own[before:]).max(initial=0) == 0
            assert adds_up(one["conserved"])
            parts = one["parts"]
            assert sum(part["share"] for part in parts.values()) == pytest.approx(1)
            length = len(keys) - count + 1
            assert parts["start"]["sum"] == pytest.approx(own[0], abs=1e-5)
            assert parts["source"]["sum"] == pytest.approx(own[1:length].sum(), abs=1e-5)
            assert parts["prefix"]["sum"] == pytest.approx(own[length:].sum(), abs=1e-5)
    assert attention["maps"][0]["targets"][0]["parts"]["prefix"] == {"sum": 0, "share": 0}
    path = text(languages, prompt, "dates-clm", method="integrated", steps=2, target=[1])
    assert (path["maps"][0]["baseline"], path["maps"][0]["layer"]) == ("padding", None)
    assert path["maps"][0]["targets"][0]["completeness"]["score"] > 1


@pytest.mark.parametrize("method", METHODS)
def test_every_mask_is_explained_for_its_likeliest_token_or_against_another(languages, method):
    masked = "april 17, 1[MASK]86 = 19[MASK]6-04-17"
    given = {"method": method, "digits": 9}
    body = {"inputs": masked, "top_k": 1, "attention": given}
    (result,) = languages.post("/v1/models/dates-mlm/fill-mask", json=body).json()["results"]
    likeliest = [one[0] for one in result["candidates"]]
    shown = result["attention"]["maps"]
    assert [one["target"] for one in shown] == [
        {"mask": index, "token": one["token"], "label": one["text"]} for index, one in enumerate(likeliest)
    ]
    assert not is_close(shown[0]["values"], shown[1]["values"], 0.1)
    alone = text(languages, masked, "dates-mlm", method=method, target=1)
    assert is_close(alone["maps"][0]["values"], shown[1]["values"], 1e-4)
    against = text(languages, masked, "dates-mlm", method=method, target=1, against={"text": "3"})
    assert against["maps"][0]["against"]["label"] == "3"
    if method == "libra":
        assert all(adds_up(one["conserved"]) for one in shown + against["maps"])
        assert not is_close(against["maps"][0]["values"], shown[1]["values"], 0.01)
    if method == "integrated":
        assert [one["baseline"] for one in shown] == ["mask", "mask"]
        assert values({"maps": shown}).any()


# Forms


def test_the_forms_of_a_signed_map_hold_the_same_values(client):
    attention = digit(client, method="libra")
    found = values(attention)[0]
    options = {"method": "libra", "format": "npz", "dtype": "uint8"}
    answer = client.post("/v1/models/digits/attention", content=SEVEN, headers=PNG, params=options)
    arrays = np.load(io.BytesIO(answer.content))
    (entry,) = json.loads(bytes(arrays["meta"]))["results"][0]["attention"]["maps"]
    steps = arrays[entry["array"]].astype(float) - entry["zero"]
    packed = steps * np.abs(steps) * entry["scale"]
    assert (np.abs(packed - found) <= entry["scale"] * (np.abs(steps) + 0.26)).all()
    assert entry["conserved"] == pytest.approx(attention["maps"][0]["conserved"])
    for model, body, png in (
        ("digits", {"images": [base64.b64encode(SEVEN).decode()]}, (300, 220)),
        ("dates", {"inputs": TEXTS[0]}, None),
    ):
        for method in METHODS:
            given = {"method": method, "format": "png", **({"kind": "cross"} if model == "dates" else {})}
            answer = client.post(f"/v1/models/{model}/attention", json=body | {"attention": given})
            assert answer.status_code == 200, answer.text
            size = Image.open(io.BytesIO(answer.content)).size
            assert png in (None, size)


def test_an_earlier_request_is_explained_by_its_id_with_the_same_options(client):
    first = client.post("/v1/models/digits/classify", content=SEVEN, headers=PNG).json()
    for options in (
        {"method": "libra", "against": '{"label": "1"}'}, {"method": "integrated", "steps": "3", "baseline": "zero"},
    ):  # fmt: skip
        (kept,) = results(client.get(f"/v1/attention/{first['id']}", params={"digits": 9, **options}))
        assert is_close(values(kept["attention"]), values(digit(client, **options)))


def test_a_stream_ends_with_what_the_tokens_rested_on(client):
    body = {"inputs": TEXTS[0], "stream": True, "attention": {"method": "libra", "kind": "cross", "digits": 9}}
    with client.stream("POST", "/v1/models/dates/generate", json=body) as answer:
        events = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: ")]
    done = json.loads(events[-1])["results"][0]["attention"]
    assert is_close(values(done), values(text(client, method="libra", kind="cross")))
    assert adds_up(done["maps"][0]["targets"][0]["conserved"])
    assert not any("attention" in json.loads(event) for event in events[:-1])
    body["attention"] = {"method": "integrated", "steps": 1, "kind": "cross"}
    with client.stream("POST", "/v1/models/dates/generate", json=body) as answer:
        assert answer.status_code == 200


def test_words_and_diagnostics_go_with_what_explains_a_score(client):
    tokens = text(client, method="libra", kind="cross")
    words = text(client, method="libra", kind="cross", merge="words", diagnostics=True)
    assert values(words).shape == (values(tokens).shape[0], 5)  # three words and the spaces between
    assert values(words).sum(1) == pytest.approx(values(tokens).sum(1), abs=1e-5)
    assert [one["kind"] for one in words["diagnostics"]] == ["encoder", "decoder", "cross"]


def test_sentences_of_a_source_have_the_sums_of_their_tokens(client):
    prompt = "may 1, 2021. 23 mar"
    tokens, sentences = (
        text(client, prompt, method="libra", kind="cross", target=[0, 5], **more)
        for more in ({}, {"merge": "sentences"})
    )
    assert [one["text"] for one in sentences["tokens"]["source"]] == ["may 1, 2021. ", "23 mar"]
    whole, cut = values(tokens), prompt.index("23")
    assert values(sentences) == pytest.approx(np.stack([whole[:, :cut].sum(1), whole[:, cut:].sum(1)], 1), abs=1e-5)


# What a model has, what it costs, what is refused


def test_a_model_says_which_baselines_it_has_and_which_method_was_best(client):
    assert client.get("/v1/models/digits").json()["attention"]["baselines"] == ["empty", "zero"]
    assert "zero" in client.get("/v1/models/dates").json()["attention"]["baselines"]
    best = client.get("/v1/models/digits").json()["attention"]["best"]
    assert (best["method"], best["measure"]) == ("integrated", "deletion area, lower is better")
    assert min(best["values"], key=best["values"].get) == "integrated"
    found = digit(client, method="best")
    assert (found["method"], found["best"]["measure"]) == ("integrated", best["measure"])
    assert is_close(values(found), values(digit(client, method="integrated")))


def test_each_point_of_a_path_is_charged_to_the_queue(artifacts, monkeypatch):
    take, charged = Budget.take, []

    def noted(budget, cost, caller):
        charged.append((budget.name, cost))
        take(budget, cost, caller)

    with inside(artifacts) as (client, _):
        monkeypatch.setattr(Budget, "take", noted)

        def most(work):
            charged.clear()
            work()
            return max(cost for name, cost in charged if name == "queue of attention")

        one = most(lambda: digit(client, method="libra"))
        assert most(lambda: digit(client, method="integrated", steps=3)) == 5 * one
        assert most(lambda: digit(client, method="integrated", steps=3, target="7,1")) == 10 * one
        assert most(lambda: digit(client, method="libra", target="7,1")) == 2 * one
        assert most(lambda: digit(client, method="libra", diagnostics="true")) == 2 * one
        assert most(lambda: digit(client, method="libra", evaluate="deletion")) == one
        whole = most(lambda: digit(client, evaluate="compare"))
        assert whole == (1 + 4 + 1 + 50) * one  # raw; raw, rollout, norm, relevance; libra; integrated

        def predictions(work):
            charged.clear()
            work()
            return max((cost for name, cost in charged if name == "queue of predictions"), default=0)

        assert predictions(lambda: digit(client, method="libra")) == 0
        assert predictions(lambda: digit(client, method="integrated")) == 50
        assert predictions(lambda: digit(client, method="libra", evaluate="deletion")) == 50 * (2 + 2 * 9)
        row = most(lambda: text(client, method="libra", target=[0]))
        assert most(lambda: text(client, method="integrated", steps=3, target=[0])) == 5 * row


@pytest.mark.parametrize(
    ("model", "attention", "words"),
    [
        ("digits", {"method": "libra", "against": "1"}, "against: must be an object with one of label, index"),
        ("digits", {"method": "libra", "against": {"label": "ten"}}, "against: must be a label of this model"),
        ("digits", {"method": "libra", "against": {"index": 10}}, "against: must be from 0 to 9, given 10"),
        ("digits", {"method": "libra", "against": {"id": "gone"}}, "against: must be label or index for image-class"),
        ("digits", {"method": "libra", "target": 1, "against": {"index": 1}}, "against: must be another class than"),
        ("digits", {"method": "rollout", "against": {"index": 1}}, "against: is for relevance, libra and integrated"),
        ("digits", {"method": "libra", "target": "ten"}, "target: must be from 0 to 9 or a label"),
        ("digits", {"method": "integrated", "steps": 0}, "steps: must be from 1 to 256 for integrated, given 0"),
        ("digits", {"method": "integrated", "steps": 10**6}, "steps: must be from 1 to 256 for integrated, given 1000"),
        ("digits", {"method": "integrated", "baseline": "mask"}, "baseline: this model has empty, zero, given mask"),
        ("digits", {"method": "integrated", "layers": 0}, "layers: integrated gradients are of the input"),
        ("digits", {"method": "libra", "sides": "both"}, "sides: is for embeddings"),
        ("dates", {"method": "libra", "layers": 0}, "layers: libra of several kinds of attention is of the input"),
        ("dates", {"method": "libra", "kind": "encoder"}, "method libra: is in decoder and cross, not encoder of this"),
        ("dates", {"method": "relevance", "kind": "encoder"}, "method relevance: is in decoder and cross, not encoder"),
        ("dates", {"method": "libra", "against": {"text": "12"}}, "against: must be a text that is exactly one token"),
        ("dates", {"method": "libra", "against": {"text": "猫"}}, "against: must be a text that is exactly one token"),
        ("dates", {"method": "libra", "against": {"text": "a" * 5000}}, "against: must be a text that is exactly one"),
        ("dates", {"method": "libra", "against": {"text": ""}}, "against: must be a text that is exactly one token"),
        ("dates", {"method": "libra", "against": {"token": 75}}, "against: must be from 0 to 74, given 75"),
        ("dates", {"method": "libra", "target": 11}, "target: must be from -11 to 10, given 11"),
        ("dates", {"steps": 2}, "steps: a number is for integrated, given 2"),
    ],
)  # fmt: skip
def test_what_cannot_be_explained_is_refused_in_words(client, model, attention, words):
    inputs = {"images": [base64.b64encode(SEVEN).decode()]} if model == "digits" else {"inputs": TEXTS[0]}
    answer = client.post(f"/v1/models/{model}/attention", json=inputs | {"attention": attention})
    assert answer.status_code == 422
    assert re.match(words, answer.json()["detail"]), answer.text
