"""Hugging Face's pipelines: the numbers are those of our own endpoints, the shapes those that its clients take."""

import base64
import json
import types

import numpy as np
import pytest

from contract.generation import Generation, Sampling
from service.api.pipelines.masks import Filling
from service.api.pipelines.parameters import GenerationParameters
from service.api.pipelines.texts import WrittenText
from service.errors import Unacceptable
from tests.clients.hugging_face_calls import CALLS
from tests.conftest import ROOT
from tests.samples.detectors import NOTHING, encoded, picture
from tests.samples.full_queue import queue_filled
from tests.samples.http_requests import JSON, PNG, SEVEN, WRITTEN_DATES
from tests.samples.in_process import inside
from tests.service.api.hugging_face.conftest import native

DIGITS, DATES = "/v1/models/digits", "/v1/models/dates"
ENCODED = base64.b64encode(SEVEN).decode()


def post(client, name, body, status=200):
    answer = client.post(f"/v1/models/{name}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def refusal(client, name, body, status=422):
    """Return why a body is refused."""
    document = post(client, name, body, status)
    assert document.keys() == {"error", "error_type"}
    return document["error"]


def scored(result):
    """Return the labels of our own endpoint as a pipeline has them."""
    return [{"label": one["label"], "score": one.get("probability", one.get("score"))} for one in result["labels"]]


def events(client, name, body):
    """Return the documents of a stream's events."""
    answer = client.post(f"/v1/models/{name}", json={**body, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in answer.text.split("\n") if line]
    assert all(line.startswith("data: ") for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines]


# Images


@pytest.mark.parametrize("headers", [PNG, {}, {"Content-Type": "application/octet-stream"}], ids=str)
def test_an_image_is_classified_whatever_type_it_is_sent_with(client, headers):
    answer = client.post(DIGITS, content=SEVEN, headers=headers)
    (result,) = native(client, "digits", "classify", images=[ENCODED])
    assert answer.json() == scored(result)
    assert answer.json()[0]["label"] == "7"


def test_an_answer_can_be_explained_by_its_id(client):
    answer = client.post(DIGITS, content=SEVEN, headers=PNG)
    explained = client.get(f"/v1/attention/{answer.headers['X-Request-Id']}")
    assert explained.json()["model"] == "digits"


def test_images_in_json_have_parameters_and_several_have_a_list_each(client):
    (result,) = native(client, "digits", "classify", images=[ENCODED], top_k=2)
    body = {"inputs": ENCODED, "parameters": {"top_k": 2}}
    assert post(client, "digits", body) == scored(result)
    assert post(client, "digits", {**body, "inputs": [ENCODED] * 3}) == [scored(result)] * 3


def test_a_function_is_applied_to_the_logits_of_a_classifier(client, texts):
    for service, name, one in [(client, "digits", ENCODED), (texts, "bert", "good"), (texts, "roberta", "good")]:

        def ask(function, service=service, name=name, one=one):
            parameters = {"top_k": 1000, "function_to_apply": function}
            found = post(service, name, {"inputs": one, "parameters": parameters})
            return {label["label"]: label["score"] for label in (found if name == "digits" else found[0])}

        logits = ask("none")
        exponents = {label: np.exp(logit) for label, logit in logits.items()}
        total = sum(exponents.values())
        softmax = {label: exponent / total for label, exponent in exponents.items()}
        sigmoid = {label: exponent / (1 + exponent) for label, exponent in exponents.items()}
        assert ask("softmax") == pytest.approx(softmax, abs=1e-9)
        assert ask("sigmoid") == pytest.approx(sigmoid, abs=1e-9)
        assert ask(None) == pytest.approx(sigmoid if name == "roberta" else softmax, abs=1e-9)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"inputs": "no base64!"}, 400, "inputs: each must be base64 or a data: URL of it; addresses are not fetched"),
        ({"inputs": base64.b64encode(b"no image").decode()}, 415, "image: "),
        ({"inputs": None}, 422, "inputs: must be an image in base64, or a list of them; "),
        ({"inputs": [ENCODED, 3]}, 422, "inputs: must be an image in base64, or a list of them; "),
        ({"inputs": []}, 422, "inputs: must be 1 to 32, given 0"),
        ({"inputs": [ENCODED] * 33}, 422, "inputs: must be 1 to 32, given 33"),
        ({"inputs": ENCODED, "parameters": {"top_k": 0}}, 422, "top_k: Input should be greater than or equal to 1"),
        ({"inputs": ENCODED, "parameters": {"function_to_apply": "tanh"}}, 422, "function_to_apply: "),
        ({"inputs": ENCODED, "parameters": {"truncate": True}}, 422, "parameters: this model's task is image-"),
        ({"inputs": ENCODED, "parameters": {"candidate_labels": ["a"]}}, 422, "parameters: this model's task is imag"),
        ({"inputs": ENCODED, "parameters": 3}, 422, "parameters: must be an object"),
        ({"inputs": ENCODED, "parameters": {"top_k": 2}, "top_k": 2}, 422, "parameters: each may be given once"),
        ({"inputs": ENCODED, "options": {"speed": True}}, 422, "options: known are dont_load_model, "),
        ({"inputs": ENCODED, "options": {"use_cache": "no"}}, 422, "options: dont_load_model, "),
        ({"inputs": ENCODED, "parameters": {"attention": "rollout"}}, 422, "attention: is an option of attention, "),
        ({"inputs": ENCODED, "heads": "all"}, 422, "heads: is an option of attention, which /v1/models/digits/at"),
    ],
)
def test_what_a_classifier_of_images_does_not_take_is_refused_with_the_reason(client, body, status, said):
    assert refusal(client, "digits", body, status).startswith(said)


def test_a_body_of_another_type_and_a_query_are_refused(client):
    answer = client.post(DIGITS, content=b"a=b", headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert answer.status_code == 415
    assert answer.json()["error"].startswith("Content-Type: must be image/*, application/octet-stream or appl")
    answer = client.post(f"{DIGITS}?top_k=2", content=SEVEN, headers=PNG)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("query: ")
    answer = client.post(DIGITS, content=SEVEN, headers={"Content-Encoding": "gzip"})
    assert answer.status_code == 415
    assert answer.json()["error"].startswith("Content-Encoding: ")
    for headers in ({"Content-Type": "text/plain"}, {}):
        answer = client.post(DATES, content=b"3/23/21", headers=headers)
        assert answer.status_code == 415
        assert answer.json()["error"].startswith("Content-Type: must be application/json")


# Objects


def assert_found(found, wanted):
    """Hold objects of a pipeline against those of our own endpoint, whose edges are rounded to hundredths."""
    assert [one["label"] for one in found] == [one["label"] for one in wanted]
    assert [one["score"] for one in found] == pytest.approx([one["probability"] for one in wanted], abs=1e-6)
    for one, other in zip(found, wanted, strict=True):
        assert one["box"].keys() == {"xmin", "ymin", "xmax", "ymax"}
        for edge, exact in zip(one["box"].values(), other["box"].values(), strict=True):
            assert edge in (int(exact - 0.006), int(exact + 0.006))


@pytest.mark.parametrize("model", ["tiny", "fitted", "sequence"])
def test_objects_are_those_of_our_own_endpoint_with_edges_cut_to_whole_pixels(texts, model):
    scenes = [encoded(picture(seed, 90, 50)) for seed in range(3)]
    images = [base64.b64encode(one).decode() for one in scenes]
    for parameters in ({}, {"threshold": 0.3}, {"threshold": 0, "top_k": 2}):
        results = native(texts, model, "detect", images=images, **parameters)
        wanted = [result["objects"] for result in results]
        assert any(wanted)
        for found, expected in [
            (post(texts, model, {"inputs": images, "parameters": parameters}), wanted),
            (post(texts, model, {"inputs": images[:1], "parameters": parameters}), wanted[:1]),
            ([post(texts, model, {"inputs": images[1], "parameters": parameters})], wanted[1:2]),
        ]:
            assert len(found) == len(expected)
            for one, other in zip(found, expected, strict=True):
                assert_found(one, other)
        if not parameters:
            for headers in (PNG, {}):
                assert_found(texts.post(f"/v1/models/{model}", content=scenes[2], headers=headers).json(), wanted[2])
    blank = base64.b64encode(encoded(picture(NOTHING))).decode()
    assert post(texts, "tiny", {"inputs": blank}) == []


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"threshold": 2}, "threshold: Input should be less than or equal to 1, given 2"),
        ({"threshold": "0.5"}, "threshold: Input should be a valid number"),
        ({"top_k": 0}, "top_k: Input should be greater than or equal to 1, given 0"),
        ({"queries": "found"}, "queries: is an option of attention, which /v1/models/tiny/attention answers"),
        (
            {"function_to_apply": "none"},
            "parameters: this model's task is object-detection, whose parameters are priority, threshold, top_k; given",
        ),
    ],
)
def test_what_a_detector_does_not_take_is_refused_with_the_reason(texts, parameters, said):
    image = base64.b64encode(encoded(picture(1))).decode()
    assert refusal(texts, "tiny", {"inputs": image, "parameters": parameters}).startswith(said)


def test_errors_have_the_types_that_clients_know(client):
    for path, content, status in [("/v1/models/none", b"{}", 404), (DIGITS, b"{", 400), (DIGITS, b"[]", 422)]:
        answer = client.post(path, content=content, headers=JSON)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/json"
        assert answer.json().keys() == {"error", "error_type"}
        assert answer.json()["error_type"] == "validation"
    assert client.get("/v1/models/none").headers["content-type"] == "application/problem+json"


def test_a_full_queue_is_an_overload(artifacts):
    with inside(artifacts) as (client, models):
        budget = models["dates"].prediction_budget
        with queue_filled(budget):
            answer = client.post(DATES, json={"inputs": "3/23/21"})
    assert answer.status_code == 429
    assert answer.json()["error_type"] == "overloaded"
    assert int(answer.headers["Retry-After"]) >= 1


# GenerationParameters


def test_options_of_older_clients_change_nothing(client):
    body = {"inputs": "3/23/21", "options": {"wait_for_model": True, "use_cache": False, "use_gpu": True}}
    assert post(client, "dates", body) == post(client, "dates", {"inputs": "3/23/21", "parameters": None})


def test_texts_and_pairs_are_classified_each_in_a_list(texts):
    inputs = ["good", {"text": "the cat", "text_pair": "a bird"}]
    expected = [scored(result) for result in native(texts, "bert", "classify", inputs=inputs)]
    assert post(texts, "bert", {"inputs": inputs}) == expected
    assert post(texts, "bert", {"inputs": "good"}) == expected[:1]
    assert post(texts, "bert", {"inputs": inputs[1], "parameters": {"top_k": 1}}) == [expected[1][:1]]
    long = {"inputs": "good " * 100, "parameters": {"truncate": True}}
    (result,) = native(texts, "bert", "classify", inputs=long["inputs"], truncate=True)
    assert post(texts, "bert", long) == [scored(result)]
    assert refusal(texts, "bert", {"inputs": "good " * 100}).startswith("input: at most 40 tokens, given ")


def test_vectors_are_those_of_our_own_endpoint_and_can_be_brought_to_length_one(texts):
    inputs = ["good", "the old cat sat"]
    vectors = [result["embedding"] for result in native(texts, "roberta-features", "embed", inputs=inputs)]
    assert post(texts, "roberta-features", {"inputs": inputs}) == vectors
    assert post(texts, "roberta-features", {"inputs": inputs[0], "normalize": False}) == vectors[:1]
    lengths = np.linalg.norm(vectors, axis=1)
    assert not np.allclose(lengths, 1, atol=0.1)
    for body in ({"normalize": True}, {"parameters": {"normalize": True}}, {"normalize": True, "truncate": None}):
        found = np.array(post(texts, "roberta-features", {"inputs": inputs, **body}))
        np.testing.assert_allclose(found, np.array(vectors) / lengths[:, None], atol=1e-6)
    width = len(vectors[0])
    assert post(texts, "roberta-features", {"inputs": inputs, "encoding_format": "float"}) == vectors
    assert refusal(texts, "roberta-features", {"inputs": "a", "dimensions": width + 1}) == (
        f"dimensions: must be from 1 to {width}, given {width + 1}"
    )


def test_texts_are_compared_with_one_by_the_cosine(texts):
    inputs = {"source_sentence": "good", "sentences": ["the old cat sat", "good", "not bad"]}
    vectors = np.array(
        [one["embedding"] for one in native(texts, "roberta-features", "embed", inputs=["good", *inputs["sentences"]])]
    )
    unit = vectors / np.linalg.norm(vectors, axis=1)[:, None]
    found = post(texts, "roberta-features", {"inputs": inputs, "parameters": {}})
    np.testing.assert_allclose(found, unit[1:] @ unit[0], atol=1e-6)
    assert found[1] == pytest.approx(1)
    for sentences in ("good", [3], None):
        body = {"inputs": inputs | {"sentences": sentences}}
        assert refusal(texts, "roberta-features", body).startswith("inputs: must be a string or a list of strings")
    assert refusal(texts, "vit-features", {"inputs": inputs}).startswith("inputs: must be an image in base64, ")
    assert refusal(texts, "bert", {"inputs": inputs}).startswith("inputs: must be a string or a list of strings")


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"prompt_name": "query"}, "prompt_name: this model has none by name, given another"),
        ({"truncation_direction": "left"}, "truncation_direction: must be right or Right; "),
        ({"encoding_format": "base64"}, "encoding_format: must be float; "),
        ({"method": "raw"}, "method: is an option of attention, which /v1/models/roberta-features/attention answers"),
        ({"top_k": 3}, "parameters: this model's task is feature-extraction, whose parameters are dimensions, "),
    ],
)
def test_what_a_model_of_vectors_does_not_do_is_refused_with_the_reason(texts, parameters, said):
    assert refusal(texts, "roberta-features", {"inputs": "good", **parameters}).startswith(said)


def test_an_image_has_a_vector_too(texts):
    (result,) = native(texts, "vit-features", "embed", images=[ENCODED])
    assert texts.post("/v1/models/vit-features", content=SEVEN).json() == [result["embedding"]]
    (found,) = post(texts, "vit-features", {"inputs": ENCODED, "parameters": {"normalize": True}})
    np.testing.assert_allclose(found, result["embedding"] / np.linalg.norm(result["embedding"]), atol=1e-6)


# FillMaskParameters


@pytest.mark.parametrize("name", ["bert-mask", "roberta-mask"])
def test_a_mask_is_filled_where_it_stands_in_the_text(texts, name):
    mask = texts.get(f"/v1/models/{name}").json()["inputs"]["mask"]
    text = f"Ünï {mask} SAT  on"
    (result,) = native(texts, name, "fill-mask", inputs=text, top_k=3)
    found = post(texts, name, {"inputs": text, "parameters": {"top_k": 3}})
    assert [(one["token"], one["token_str"], one["score"]) for one in found] == [
        (one["token"], one["text"], one["probability"]) for one in result["candidates"][0]
    ]
    for filled in found:
        text = filled["token_str"]  # RoBERTa's mask takes the space before it, since its tokens begin with one
        whole = f" {text}".replace(" ##", "") if name == "bert-mask" else text
        assert filled["sequence"] == f"Ünï{whole} SAT  on"


@pytest.mark.parametrize(
    ("before", "piece", "text", "swallowed", "wanted"),
    [
        ("The cat ", "ran", "ran", False, "The cat ran"),
        ("The cat ", "##s", "##s", False, "The cats"),
        ("", "##s", "##s", False, "s"),
        ("le chat", "▁dort", "dort", True, "le chat dort"),
        ("le chat ", "▁dort", "dort", False, "le chat dort"),
        ("le chat", "s", "s", True, "le chats"),
        ("", "▁le", "le", False, "le"),
        ("the cat", "Ġran", " ran", True, "the cat ran"),
    ],
)
def test_a_token_joins_the_text_before_it_as_its_tokenizer_writes_words(before, piece, text, swallowed, wanted):
    """WordPiece goes on with a word by ##. SentencePiece begins one by ▁, which is lost where it is decoded alone."""
    known = types.SimpleNamespace(
        tokenizer=types.SimpleNamespace(piece=lambda token: piece), text_of=lambda token: text
    )
    assert Filling(known, 1, None)._joined(before, 7, swallowed) == wanted


def test_several_masks_have_a_list_each_and_several_texts_another(texts):
    two, one = "the [MASK] sat [MASK].", "a [MASK]."
    found = post(texts, "bert-mask", {"inputs": two, "parameters": {"top_k": 2}})
    (result,) = native(texts, "bert-mask", "fill-mask", inputs=two, top_k=2)
    assert [[one["token"] for one in mask] for mask in found] == [
        [one["token"] for one in mask] for mask in result["candidates"]
    ]
    for mask, before, behind in ((found[0], "the", " sat [MASK]."), (found[1], "the [MASK] sat", ".")):
        for found_token in mask:
            whole = f"{before} {found_token['token_str']}{behind}"
            assert found_token["sequence"] == whole.replace(" ##", "")
    both = post(texts, "bert-mask", {"inputs": [two, one], "parameters": {"top_k": 2}})
    assert both == [found, post(texts, "bert-mask", {"inputs": one, "parameters": {"top_k": 2}})]


def test_a_mask_may_be_limited_to_targets(texts):
    everything = post(texts, "bert-mask", {"inputs": "the [MASK] sat", "parameters": {"top_k": 1000}})
    chosen = [one for one in everything if one["token_str"] in ("cat", "bird", "house")]
    assert len(chosen) == 3
    parameters = {"targets": ["house", "cat", "bird", "cat"]}
    assert post(texts, "bert-mask", {"inputs": "the [MASK] sat", "parameters": parameters}) == chosen
    best = {"inputs": "the [MASK] sat", "parameters": parameters | {"top_k": 1}}
    assert post(texts, "bert-mask", best) == chosen[:1]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"inputs": "no mask"}, 422, "input: must hold [MASK] 1 to 64 times, given 0"),
        (
            {"inputs": "[MASK]", "parameters": {"targets": ["cat", "no such word"]}},
            422,
            "targets: each must be one tok",
        ),
        ({"inputs": "[MASK]", "parameters": {"targets": []}}, 422, "targets: List should have at least 1 item"),
        ({"inputs": "[MASK]", "parameters": {"targets": ["cat"] * 257}}, 422, "targets: List should have at most 256"),
        ({"inputs": {"text": "[MASK]", "text_pair": "a"}}, 422, "text_pair: is for text-classification"),
        (
            {"inputs": "[MASK] " * 9 + "\N{SNOWMAN}" * 400, "parameters": {"top_k": 1000, "truncate": True}},
            413,
            "candidates: at most 8388608 bytes an answer, this one would have ",
        ),
        (  # six bytes each in JSON
            {"inputs": "[MASK]" + "\x01" * 30_000, "parameters": {"top_k": 50, "truncate": True}},
            413,
            "candidates: at most 8388608 bytes an answer, this one would have ",
        ),
    ],
)
def test_masks_that_cannot_be_filled_are_refused(texts, body, status, said):
    assert refusal(texts, "bert-mask", body, status).startswith(said)


# Generated texts


def test_texts_are_those_of_our_own_endpoint_under_the_names_of_every_client(client):
    (result, other) = native(client, "dates", "generate", inputs=WRITTEN_DATES[:2])
    names = ("generated_text", "translation_text", "summary_text")
    expected = [dict.fromkeys(names, one["text"]) for one in (result, other)]
    assert post(client, "dates", {"inputs": WRITTEN_DATES[0], "parameters": {}}) == expected[:1]
    assert post(client, "dates", {"inputs": WRITTEN_DATES[:2]}) == expected
    (beams,) = native(client, "dates", "generate", inputs=WRITTEN_DATES[0], num_beams=4, length_penalty=2.0)
    for where in ("generate_parameters", "generation_parameters", "generate_kwargs"):
        body = {"inputs": WRITTEN_DATES[0], "parameters": {where: {"num_beams": 4, "length_penalty": 2.0}}}
        assert post(client, "dates", body)[0]["translation_text"] == beams["text"]


def test_details_are_the_tokens_with_their_log_probabilities(client):
    (result,) = native(client, "dates", "generate", inputs=WRITTEN_DATES[0])
    (found,) = post(client, "dates", {"inputs": WRITTEN_DATES[0], "parameters": {"details": True, "seed": 5}})
    details = found["details"]
    assert {name: details[name] for name in ("finish_reason", "seed", "prefill")} == {
        "finish_reason": "eos_token",
        "seed": 5,
        "prefill": [],
    }
    *tokens, end = details["tokens"]
    assert details["generated_tokens"] == len(tokens) + 1
    assert [(one["id"], one["text"], one["logprob"]) for one in tokens] == [
        (one["token"], one["text"], one["log_probability"]) for one in result["tokens"]
    ]
    assert (end["special"], end["text"]) == (True, "")
    assert not any(one["special"] for one in tokens)
    cut = {"inputs": WRITTEN_DATES[0], "parameters": {"details": True, "max_new_tokens": 3}}
    (found,) = post(client, "dates", cut)
    assert (found["details"]["finish_reason"], found["details"]["generated_tokens"]) == ("length", 3)


def test_the_input_may_stand_before_the_text_that_continues_it(texts):
    (result,) = native(texts, "gpt2", "generate", inputs="good", max_new_tokens=4)
    body = {"inputs": "good", "parameters": {"max_new_tokens": 4}}
    assert post(texts, "gpt2", body) == [{"generated_text": result["text"]}]
    full = {"inputs": ["good"], "parameters": {"max_new_tokens": 4, "return_full_text": True}}
    assert post(texts, "gpt2", full) == [[{"generated_text": "good" + result["text"]}]]


def test_sampling_is_asked_for_and_declined(texts):
    def ask(**parameters):
        return post(texts, "gpt2", {"inputs": "good", "parameters": {"max_new_tokens": 8, **parameters}})

    (drawn,) = native(texts, "gpt2", "generate", inputs="good", max_new_tokens=8, temperature=1.0, seed=3)
    (best,) = native(texts, "gpt2", "generate", inputs="good", max_new_tokens=8, temperature=0)
    assert drawn["text"] != best["text"]
    assert ask(do_sample=True, seed=3) == ask(temperature=1.0, seed=3) == [{"generated_text": drawn["text"]}]
    assert ask(do_sample=False, seed=3) == ask(temperature=0) == [{"generated_text": best["text"]}]


def test_do_sample_keeps_the_temperature_of_a_model_that_samples():
    sampling = Sampling(temperature=0.05, top_k=9)
    served = types.SimpleNamespace(continues=True, generation=types.SimpleNamespace(sampling=sampling, num_beams=1))

    def drawn(**given):
        return GenerationParameters(**given).search(served).sampling(sampling)

    assert drawn(do_sample=True) == drawn() == sampling
    assert drawn(do_sample=True, temperature=2) == Sampling(temperature=2, top_k=9)
    assert drawn(do_sample=True, top_k=3) == Sampling(temperature=0.05, top_k=3)
    assert drawn(do_sample=False) is None


def test_a_model_that_searches_with_beams_does_so_without_do_sample_and_not_at_a_temperature_of_0():
    generation = Generation(start=0, end=1, max_new_tokens=8, num_beams=4, caches=(), memory=())
    served = types.SimpleNamespace(continues=False, generation=generation)

    def beams(**given):
        return GenerationParameters(**given).search(served).beams(generation)

    assert beams() == beams(do_sample=False) == 4
    assert beams(temperature=0) == beams(do_sample=True) == 1
    assert beams(do_sample=False, num_beams=3) == beams(temperature=0, num_beams=3) == 3


def test_an_event_is_one_line_to_clients_that_end_lines_at_other_characters_too():
    """httpx ends lines at these, and InferenceClient reads streams by it."""
    written = WrittenText(None, GenerationParameters()).failed(500, "a\u0085b\u2028c\u2029d\ne")
    (event, *rest) = written.decode().splitlines()
    assert rest == [""]
    assert json.loads(event.removeprefix("data: "))["error"] == "a\u0085b\u2028c\u2029d\ne"


INSIDE_A_CHARACTER = [{"temperature": 50, "seed": seed, "max_new_tokens": 4} for seed in range(12)]
"""Texts of tokens drawn at random, of which some end inside a character, by the end token or without it."""


@pytest.mark.parametrize(
    "parameters", [{}, {"max_new_tokens": 3}, {"do_sample": True, "seed": 1}, *INSIDE_A_CHARACTER], ids=str
)
def test_a_stream_is_the_whole_answer_token_by_token(client, texts, parameters):
    for service, name, text in [(client, "dates", WRITTEN_DATES[0]), (texts, "gpt2", "good cat")]:
        body = {"inputs": text, "parameters": {"details": True, **parameters}}
        (whole,) = post(service, name, body)
        *early, last = events(service, name, body)
        assert all(one["generated_text"] is None and one["details"] is None for one in early)
        assert [one["index"] for one in (*early, last)] == list(range(1, len(early) + 2))
        assert [one["token"] for one in (*early, last)] == whole["details"]["tokens"]
        assert "".join(one["token"]["text"] for one in (*early, last)) == whole["generated_text"]
        assert last["generated_text"] == whole["generated_text"]
        expected = {name: whole["details"][name] for name in ("finish_reason", "generated_tokens", "seed")}
        assert last["details"].pop("input_length") >= 2
        assert last["details"] == expected


@pytest.mark.parametrize(
    "given", [{"src_lang": "en", "source_language": "en"}, {"tgt_lang": "a", "target_language": "b"}]
)
def test_a_language_may_have_one_name(given):
    served = types.SimpleNamespace(continues=False)
    with pytest.raises(Unacceptable, match="src_lang, tgt_lang: are other names of"):
        GenerationParameters(**given).search(served)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"adapter_id": "a"}, "adapter_id: is not served; "),
        ({"bad_words": ["a"] * 40, "bad_words_ids": [[1]] * 40}, "bad_words: "),
        ({"best_of": 2}, "best_of: must be 1; num_return_sequences answers all that are drawn"),
        ({"best_of": True}, "best_of: must be 1; "),
        (
            {"num_return_sequences": 2},
            "num_return_sequences: at most num_beams, 1, where tokens are not drawn; given 2",
        ),
        ({"num_return_sequences": 3, "num_beams": 2}, "num_return_sequences: at most num_beams, 2, where"),
        ({"num_return_sequences": 2, "top_k": 4, "stream": True}, "stream: needs num_return_sequences 1, given 2"),
        (
            {"num_return_sequences": 129, "top_k": 4},
            "num_return_sequences: Input should be less than or equal to 128, given 129",
        ),
        ({"clean_up_tokenization_spaces": True}, "clean_up_tokenization_spaces: must be false; "),
        ({"decoder_input_details": True}, "decoder_input_details: must be false; "),
        ({"frequency_penalty": 0.5}, "frequency_penalty: must be 0; "),
        ({"repetition_penalty": 0.0}, "repetition_penalty: Input should be greater than or equal to 0.01, given 0"),
        ({"grammar": {"type": "regex", "value": "a"}}, "grammar: is not served; "),
        ({"max_length": 9}, "max_length: is not served; give max_new_tokens, "),
        ({"src_lang": "de", "tgt_lang": "en"}, "source_language: is for models that translate"),
        ({"tgt_lang": "en"}, "target_language: is for models that translate"),
        ({"stop": [3]}, "stop: must be a string of 1 to 256 characters, or up to 4 of them"),
        ({"stop": ["a"] * 3, "stop_sequences": ["b"] * 2}, "stop: must be a string of 1 to 256 characters, or up to"),
        ({"top_n_tokens": 2}, "top_n_tokens: must be 0; "),
        ({"alternatives": 2}, "alternatives: must be 0; "),
        ({"truncate": 5}, "truncate: must be false; an input that is too long is refused, not cut off"),
        ({"truncation": "longest_first"}, "truncation: must be do_not_truncate; "),
        ({"typical_p": 1.5}, "typical_p: Input should be less than or equal to 1, given 1.5"),
        ({"min_p": -0.1}, "min_p: Input should be greater than or equal to 0, given -0.1"),
        (
            {"bad_words_ids": [[]]},
            "bad_words_ids: must be 1 to 64 words of at most 256 characters, or lists of at most",
        ),
        ({"bad_words_ids": [[1, 99]]}, "bad_words: tokens must be from 0 to 74, given 99"),
        ({"use_cache": False}, "use_cache: must be true; "),
        ({"watermark": True}, "watermark: must be false; "),
        ({"return_full_text": True}, "return_full_text: must be false, this model's texts do not continue"),
        ({"do_sample": False, "top_k": 3}, "do_sample: must be true where temperature, top_k, top_p, min_p or"),
        ({"do_sample": True, "temperature": 0}, "do_sample: must be false where temperature is 0"),
        ({"max_new_tokens": 10**6}, "max_new_tokens: at most "),
        ({"steps": True}, "steps: is an option of attention, which /v1/models/dates/attention answers"),
        ({"generate_parameters": 3}, "parameters: generate_parameters, generation_parameters, generate_kwargs must"),
        ({"top_k": 3, "generate_parameters": {"top_k": 3}}, "parameters: each may be given once"),
        ({"candidate_labels": ["a"]}, "parameters: this model's task is text2text-generation, whose parameters are "),
    ],
)
def test_what_a_model_that_generates_does_not_do_is_refused_with_the_reason(client, parameters, said):
    assert refusal(client, "dates", {"inputs": WRITTEN_DATES[0], "parameters": parameters}).startswith(said)


@pytest.mark.parametrize("name", ["stop", "stop_sequences"])
def test_a_text_ends_with_the_word_that_stops_it(client, name):
    (whole,) = post(client, "dates", {"inputs": WRITTEN_DATES[0]})
    text = whole["generated_text"]
    until = text[: text.index("-") + 1]
    parameters = {name: ["-", "x"], "details": True}
    (found,) = post(client, "dates", {"inputs": WRITTEN_DATES[0], "parameters": parameters})
    assert (found["generated_text"], found["details"]["finish_reason"]) == (until, "stop_sequence")
    found = events(client, "dates", {"inputs": WRITTEN_DATES[0], "parameters": parameters})
    assert "".join(one["token"]["text"] for one in found) == until
    assert found[-1]["generated_text"] == until


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("max_newtokens", "; did you mean max_new_tokens?"),
        ("temprature", "; did you mean temperature?"),
        ("typicalp", "; did you mean typical_p?"),  # known, and not served
        ("secret_words", ""),
        ("temperature" * 900, ""),
    ],
)
def test_of_a_parameter_that_is_not_known_the_nearest_is_named(client, name, meant):
    for body in ({"parameters": {name: 3}}, {name: 3}):
        said = refusal(client, "dates", {"inputs": WRITTEN_DATES[0], **body})
        assert said.startswith("parameters: this model's task is text2text-generation, whose parameters are ")
        assert said.endswith(f"; given another{meant}")
        assert name not in said


def test_parameters_that_ask_for_what_is_done_anyway_change_nothing(client):
    neutral = {
        "best_of": 1, "num_return_sequences": 1, "clean_up_tokenization_spaces": False, "decoder_input_details": False,
        "frequency_penalty": 0.0, "repetition_penalty": 1.0, "stop": [], "top_n_tokens": 0, "truncate": None,
        "truncation": "do_not_truncate", "typical_p": 1.0, "use_cache": True, "watermark": False, "grammar": None,
        "return_full_text": False,
    }  # fmt: skip
    plain = post(client, "dates", {"inputs": WRITTEN_DATES[0]})
    assert post(client, "dates", {"inputs": WRITTEN_DATES[0], "parameters": neutral}) == plain


def test_inputs_of_other_tasks_and_streams_of_several_are_refused(client):
    said = "inputs: must be a string or a list of strings"
    assert refusal(client, "dates", {"inputs": {"question": "who?", "context": "me"}}).startswith(said)
    assert refusal(client, "dates", {"inputs": 3}).startswith(said)
    assert refusal(client, "dates", {"inputs": WRITTEN_DATES[:2], "stream": True}) == "stream: takes one input, given 2"
    refused = refusal(client, "dates", {"inputs": WRITTEN_DATES[0], "stream": True, "parameters": {"num_beams": 2}})
    assert refused.startswith("stream: needs num_beams 1")


def test_a_stream_that_fails_says_so_in_its_last_event():
    for status, kind in [(504, "generation"), (503, "unhealthy"), (429, "overloaded"), (422, "validation")]:
        last = WrittenText(None, GenerationParameters()).failed(status, "why")
        assert json.loads(last.removeprefix(b"data: ")) == {"error": "why", "error_type": kind}


# The real client


ELSEWHERE = {"automatic_speech_recognition", "zero_shot_image_classification", "chat_completion"}
HERE = [call for call in CALLS if call.__name__ not in ELSEWHERE]
"""Those of models that this module serves; `make conformance` calls the others."""


@pytest.mark.parametrize("call", HERE, ids=lambda call: call.__name__)
def test_the_client_gets_what_it_asks_for(texts, call):
    names = {"embeddings": "minilm", "seq2seq": "dates", "causal": "gpt2", "images": "digits", "masks": "bert-mask"}
    names |= {"classifier": "bert", "objects": "tiny"}
    names |= {"extractor": "bert-answer", "entailment": "bert-nli", "tags": "bert-tags"}
    pictures = {"picture": str(ROOT / "tests/data/digits/seven.png"), "scene": str(ROOT / "tests/data/scenes/five.png")}
    service = types.SimpleNamespace(url=str(texts.base_url), **pictures, **names)
    call(service)
