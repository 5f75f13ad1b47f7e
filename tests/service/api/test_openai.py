"""OpenAI's protocol byte by byte, against the native endpoints. What the real client sends is in tests/clients."""

import base64
import functools
import io
import json
import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from contract.generation import Generation, Sampling
from service.answering.call import Answered
from service.answering.generations import StreamedToken
from service.api.openai.documents import Chunks, Completion, Completions
from service.api.openai.errors import Errors
from service.api.openai.fields import UNSERVED, CompletionsOptions, EmbeddingsOptions
from service.api.openai.openapi_schema import OpenAIError
from service.errors import Broken, Unacceptable
from service.options.base import parse
from service.settings import Settings
from tests.conftest import ROOT
from tests.samples.api_keys import bearer, line
from tests.samples.documented import Documented
from tests.samples.full_queue import queue_filled
from tests.samples.in_process import in_process, inside

EMBEDDINGS, COMPLETIONS, CHAT = "/v1/embeddings", "/v1/completions", "/v1/chat/completions"
TEXTS = ["hello", "a longer text, of more tokens than the other"]
DATE, WRITTEN = "3 May 2021", "2021-05-03"
SEVEN = base64.b64encode((ROOT / "tests/data/digits/seven.png").read_bytes()).decode()
PICTURE = {"model": "digits-dino", "input": SEVEN, "modality": "image"}
EMBED, COMPLETE = {"model": "minilm", "input": "hello"}, {"model": "dates", "prompt": DATE}
SAY = {"model": "dates", "messages": [{"role": "user", "content": DATE}]}
TARGETS = [
    {"model": "dates", "prompt": DATE},
    {"model": "dates", "prompt": DATE, "max_tokens": 3},
    {"model": "dates", "prompt": DATE, "temperature": 0},
    {"model": "dates", "prompt": "no date", "temperature": 3, "top_p": 0.9, "seed": 5},
    {"model": "dates-clm", "prompt": DATE},
    {"model": "dates-clm", "prompt": "the 4th", "temperature": 1.5, "seed": 7, "max_tokens": 20},
]
WRITTEN_1970 = 1_000_000


@pytest.fixture(scope="module")
def folder(artifacts, minilm, language_models, dino, tmp_path_factory):
    """A folder with a model of each task that is served here, one of another, and one of images."""
    whole = tmp_path_factory.mktemp("openai")
    for source in (artifacts, minilm, dino):
        shutil.copytree(source, whole, dirs_exist_ok=True)
    shutil.copytree(language_models / "dates-clm", whole / "dates-clm")
    os.utime(whole / "dates" / "1" / "manifest.json", (WRITTEN_1970, WRITTEN_1970))
    return whole


@pytest.fixture(scope="module")
def client(folder):
    with in_process(folder) as client:
        yield client


@pytest.fixture
def served(light):
    """A service of dates in this process: its client, and its model."""
    with inside(light, request_seconds=3600) as (client, models):
        yield client, models["dates"]


def ask(client, path, body):
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def native(client, model, endpoint, inputs, **options):
    return ask(client, f"/v1/models/{model}/{endpoint}", {"inputs": inputs, **options})["results"]


def natively(body):
    """Return the options of generate that are those of a document."""
    names = {"max_tokens": "max_new_tokens", "temperature": "temperature", "top_p": "top_p", "seed": "seed"}
    return {names[name]: value for name, value in body.items() if name in names}


def chunks_of(text):
    """Return the documents of a stream, whose framing is checked, without the mark of its end."""
    *events, end, nothing = text.split("\n\n")
    assert (end, nothing) == ("data: [DONE]", "")
    assert all(one.startswith("data: {") and "\n" not in one for one in events)
    return [json.loads(one.removeprefix("data: ")) for one in events]


def stream(client, body):
    answer = client.post(COMPLETIONS, json={**body, "stream": True})
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
    return chunks_of(answer.text)


# Embeddings


def test_embeddings_are_the_native_ones(client):
    expected = [one["embedding"] for one in native(client, "minilm", "embed", TEXTS)]
    answer = ask(client, EMBEDDINGS, {"model": "minilm", "input": TEXTS})
    assert [one["embedding"] for one in answer["data"]] == expected
    assert [(one["index"], one["object"]) for one in answer["data"]] == [(0, "embedding"), (1, "embedding")]
    assert (answer["object"], answer["model"]) == ("list", "minilm")
    alone = ask(client, EMBEDDINGS, EMBED)["data"]
    assert [one["embedding"] for one in alone] == [native(client, "minilm", "embed", "hello")[0]["embedding"]]


def test_base64_is_the_same_numbers_in_little_endian(client):
    found = ask(client, EMBEDDINGS, {**EMBED, "encoding_format": "base64"})["data"][0]["embedding"]
    numbers = np.frombuffer(base64.b64decode(found, validate=True), "<f4")
    assert numbers.shape == (384,)
    assert (numbers == np.array(ask(client, EMBEDDINGS, EMBED)["data"][0]["embedding"], np.float32)).all()


def test_usage_counts_the_tokens_of_all_texts(client):
    shown = native(client, "minilm", "attention", TEXTS)
    count = sum(len(one["attention"]["tokens"]["source"]) for one in shown)
    usage = ask(client, EMBEDDINGS, {"model": "minilm", "input": TEXTS})["usage"]
    assert usage == {"prompt_tokens": count, "total_tokens": count}


def test_attention_of_embeddings_is_the_native_one_and_comes_when_it_is_asked_for(client):
    asked = {"method": "rollout", "queries": "all"}
    expected = [one["attention"] for one in native(client, "minilm", "attention", TEXTS, attention=asked)]
    data = ask(client, EMBEDDINGS, {"model": "minilm", "input": TEXTS, "attention": asked})["data"]
    assert [one["attention"] for one in data] == expected
    vectors = [one["embedding"] for one in native(client, "minilm", "embed", TEXTS)]
    assert np.array([one["embedding"] for one in data]) == pytest.approx(np.array(vectors), abs=1e-5)
    assert all("attention" not in one for one in ask(client, EMBEDDINGS, {**EMBED, "attention": None})["data"])


def test_attention_can_be_asked_for_later_by_the_id(client):
    embedded = ask(client, EMBEDDINGS, EMBED)["id"]
    completed = ask(client, COMPLETIONS, COMPLETE)["id"]
    assert completed.startswith("cmpl-")
    for model, found, text in (("minilm", embedded, "hello"), ("dates", completed.removeprefix("cmpl-"), DATE)):
        later = client.get(f"/v1/attention/{found}").json()
        assert later["results"] == native(client, model, "attention", text)


def test_a_text_that_is_too_long_is_cut_off_if_that_is_asked_for(client):
    long = {"model": "minilm", "input": "word " * 300}
    refused = client.post(EMBEDDINGS, json=long)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "input")
    assert ask(client, EMBEDDINGS, {**long, "truncate": True})["usage"]["prompt_tokens"] == 256


# Pictures, by infinity-emb's `modality`


def test_embeddings_of_pictures_are_the_native_ones(client):
    seen = [SEVEN, base64.b64encode((ROOT / "tests/data/digits/four.webp").read_bytes()).decode()]
    expected = ask(client, "/v1/models/digits-dino/embed", {"images": seen, "attention": "rollout"})["results"]
    sent = {**PICTURE, "input": [f"data:image/png;base64,{seen[0]}", seen[1]]}
    answer = ask(client, EMBEDDINGS, {**sent, "attention": {"method": "rollout"}})
    for one, own in zip(answer["data"], expected, strict=True):
        assert one["embedding"] == own["embedding"]
        assert one["attention"] == own["attention"]
    patches = 2 * np.array(expected[0]["attention"]["maps"][0]["shape"])[-1]
    assert answer["usage"] == {"prompt_tokens": patches, "total_tokens": patches}
    coded = ask(client, EMBEDDINGS, {**sent, "encoding_format": "base64", "dimensions": 3, "user": "me"})["data"]
    for one, own in zip(coded, expected, strict=True):
        first = np.array(own["embedding"][:3])
        found = np.frombuffer(base64.b64decode(one["embedding"]), "<f4")
        assert found == pytest.approx(first / np.linalg.norm(first), abs=1e-6)


def test_a_body_of_pictures_may_be_larger_than_one_of_texts(client):
    seven = Image.open(io.BytesIO(base64.b64decode(SEVEN))).convert("RGB")
    seven.resize((600, 600)).save(file := io.BytesIO(), "BMP")
    large = base64.b64encode(file.getvalue()).decode()
    assert len(large) > Settings().max_text_bytes
    assert len(ask(client, EMBEDDINGS, {**PICTURE, "input": large})["data"]) == 1
    refused = client.post(EMBEDDINGS, json={**EMBED, "input": ["a", large]})
    assert refused.status_code == 413
    said = f"input: at most {Settings().max_text_bytes} characters, given {len(large) + 1}"
    assert refused.json()["error"]["message"] == said


# Completions


@pytest.mark.parametrize("body", TARGETS, ids=str)
def test_a_completion_is_the_native_text(client, body):
    (expected,) = native(client, body["model"], "generate", body["prompt"], **natively(body))
    answer = ask(client, COMPLETIONS, {**body, "logprobs": 0})
    (choice,) = answer["choices"]
    assert (choice["text"], choice["finish_reason"]) == (expected["text"], expected["finish_reason"])
    tokens, logs = ([one[name] for one in expected["tokens"]] for name in ("text", "log_probability"))
    assert choice["logprobs"]["token_logprobs"] == logs
    assert (choice["logprobs"]["tokens"], choice["logprobs"]["top_logprobs"]) == (tokens, None)
    assert choice["logprobs"]["text_offset"] == [len("".join(tokens[:place])) for place in range(len(tokens))]
    assert (answer["object"], answer["model"]) == ("text_completion", body["model"])
    source = len(native(client, body["model"], "attention", body["prompt"], max_new_tokens=1)[0]["attention"]["tokens"][
        "source" if body["model"] == "dates" else "target"
    ])  # fmt: skip
    usage = {"prompt_tokens": source, "completion_tokens": len(tokens), "total_tokens": source + len(tokens)}
    assert answer["usage"] == usage


@pytest.mark.parametrize("body", [*TARGETS, {**COMPLETE, "temperature": 2.5, "seed": 3}], ids=str)
def test_logprobs_name_the_likeliest_tokens_and_the_one_that_was_chosen(client, body):
    (expected,) = native(client, body["model"], "generate", body["prompt"], **natively(body), alternatives=3)
    (choice,) = ask(client, COMPLETIONS, {**body, "logprobs": 3})["choices"]
    found = choice["logprobs"]
    assert found["tokens"] == [one["text"] for one in expected["tokens"]]
    for top, one in zip(found["top_logprobs"], expected["tokens"], strict=True):
        others = [other for other in one["alternatives"] if other["token"] != one["token"]]
        assert {other["text"]: other["log_probability"] for other in others}.items() <= top.items()
        assert top[one["text"]] == pytest.approx(one["log_probability"], abs=1e-6)
        assert len(top) == len(others) + 1
        assert list(top.values())[:3] == sorted(top.values(), reverse=True)[:3]
    if "num_beams" not in natively(body):
        streamed = [one["choices"][0] for one in stream(client, {**body, "logprobs": 3})]
        tops = [each for one in streamed for each in one["logprobs"]["top_logprobs"] or ()]
        assert tops == found["top_logprobs"]


def test_a_seed_may_be_negative(client):
    body = {**COMPLETE, "temperature": 9, "logprobs": 0}
    drawn = [ask(client, COMPLETIONS, {**body, "seed": seed})["choices"] for seed in (-3, 2**63 - 3, 3)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    ("method", "path", "status", "code", "said"),
    [
        ("GET", "/v1/models/nope", 404, "model_not_found", "model: must be one of "),
        ("DELETE", "/v1/models", 405, None, "method: "),
        ("POST", "/v1/responses", 404, None, "path: no such endpoint; see /docs"),
        ("POST", "/v1/moderations", 404, None, "path: no such endpoint; see /docs"),
    ],
)
def test_errors_of_what_both_protocols_have_and_of_what_is_not_served_are_openais_too(
    client, method, path, status, code, said
):
    answer = client.request(method, path)
    assert answer.status_code == status
    error, problem = answer.json()["error"], path.startswith("/v1/models")
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("invalid_request_error", code)
    assert error["message"].startswith(said)
    assert answer.headers["content-type"] == f"application/{'problem+' * problem}json"
    assert not problem or answer.json()["detail"] == error["message"]
    assert client.get("/v1/attention/nope").json().get("error") is None


def test_several_prompts_are_completed_in_order(client):
    prompts = [DATE, "4 June 1999", "31.12.2020"]
    answer = ask(client, COMPLETIONS, {"model": "dates", "prompt": prompts})
    assert [one["index"] for one in answer["choices"]] == [0, 1, 2]
    assert [one["text"] for one in answer["choices"]] == [WRITTEN, "1999-06-04", "2020-12-31"]
    alone = [ask(client, COMPLETIONS, {"model": "dates", "prompt": one})["usage"] for one in prompts]
    assert answer["usage"] == {name: sum(one[name] for one in alone) for name in alone[0]}


@pytest.mark.parametrize("body", TARGETS, ids=str)
def test_a_stream_is_the_whole_answer_in_parts(client, body):
    (whole,) = ask(client, COMPLETIONS, {**body, "logprobs": 0})["choices"]
    found = stream(client, {**body, "logprobs": 0})
    choices = [one["choices"][0] for one in found]
    assert "".join(one["text"] for one in choices) == whole["text"]
    assert [one["finish_reason"] for one in choices] == [None] * (len(found) - 1) + [whole["finish_reason"]]
    for name in ("tokens", "token_logprobs", "text_offset"):
        assert [each for one in choices for each in one["logprobs"][name]] == whole["logprobs"][name]
    assert len({one["id"] for one in found}) == 1
    assert {(one["object"], one["model"]) for one in found} == {("text_completion", body["model"])}
    assert not any("usage" in one for one in found)


def test_a_stream_ends_with_the_usage_if_that_is_asked_for(client):
    whole = ask(client, COMPLETIONS, COMPLETE)
    *others, last = stream(client, {**COMPLETE, "stream_options": {"include_usage": True}})
    assert (last["choices"], last["usage"]) == ([], whole["usage"])
    assert all(one["usage"] is None for one in others)
    assert all(one["choices"][0]["logprobs"] is None for one in others)
    assert "usage" not in stream(client, {**COMPLETE, "stream_options": {"include_usage": False}})[-1]


def test_attention_of_completions_is_the_native_one_and_comes_when_it_is_asked_for(client):
    asked = {"method": "raw", "kind": "cross", "layers": "all"}
    (expected,) = native(client, "dates", "attention", DATE, attention=asked)
    assert (
        ask(client, COMPLETIONS, {**COMPLETE, "attention": asked})["choices"][0]["attention"] == expected["attention"]
    )
    found = stream(client, {**COMPLETE, "attention": asked})
    assert found[-1]["choices"][0]["attention"] == expected["attention"]
    assert not any("attention" in one["choices"][0] for one in found[:-1])
    assert "attention" not in ask(client, COMPLETIONS, COMPLETE)["choices"][0]


def test_a_stream_shows_each_step_if_that_is_asked_for(client):
    asked = {"method": "raw", "kind": "cross", "steps": True}
    *steps, last = (one["choices"][0] for one in stream(client, {**COMPLETE, "attention": asked}))
    with client.stream(
        "POST", "/v1/models/dates/generate", json={"inputs": DATE, "stream": True, "attention": asked}
    ) as one:
        events = [json.loads(each.partition("data: ")[2]) for each in one.read().decode().strip().split("\n\n")]
    assert [one["attention"] for one in steps] == [one["attention"] for one in events[:-1]]
    assert last["attention"] == events[-1]["results"][0]["attention"]


def test_values_that_ask_for_nothing_are_accepted(client):
    known = {name: neutral for name, (neutral, _) in UNSERVED.items() if name in CompletionsOptions.model_fields}
    first, last = ({name: neutral[at] for name, neutral in known.items()} for at in (0, -1))
    nothing = dict.fromkeys(CompletionsOptions.model_fields)
    for body in (first, last, nothing, {"stop": []}, {"stop": ""}, {"top_p": 1, "presence_penalty": 0.0}):
        assert ask(client, COMPLETIONS, {**COMPLETE, **body})["choices"][0]["text"] == WRITTEN
    ask(client, EMBEDDINGS, {**EMBED, **dict.fromkeys(EmbeddingsOptions.model_fields), "dimensions": 384, "user": "me"})


# Refusals


LANGCHAIN = "ids of another tokenizer mean nothing here (LangChain: check_embedding_ctx_length=False)"
KNOWN = "options: unknown option; known are attention, "
REFUSED = [
    (EMBEDDINGS, {"input": [1, 2]}, 400, "input", None, LANGCHAIN),
    (EMBEDDINGS, {"input": [[1, 2], [3]]}, 400, "input", None, LANGCHAIN),
    (EMBEDDINGS, {"input": ["text", 3]}, 400, "input", None, LANGCHAIN),
    (EMBEDDINGS, {"input": None}, 400, "input", None, "must be a string or a list of strings"),
    (EMBEDDINGS, {"input": {"text": "a"}}, 400, "input", None, "must be a string or a list of strings"),
    (EMBEDDINGS, {"input": []}, 400, "input", None, "must be 1 to "),
    (EMBEDDINGS, {"input": ["a"] * 5000}, 400, "input", None, "given 5000"),
    (EMBEDDINGS, {"dimensions": 385}, 400, "dimensions", None, "must be from 1 to 384, given 385"),
    (EMBEDDINGS, {"dimensions": 0}, 400, "dimensions", None, "given 0"),
    (EMBEDDINGS, {"encoding_format": "int8"}, 400, "encoding_format", None, "'float' or 'base64'"),
    (EMBEDDINGS, {"user": 3}, 400, "user", None, "string"),
    (EMBEDDINGS, {"foo": 3}, 400, None, None, f"{KNOWN}dimensions, encoding_format, input, modality, model, "),
    (EMBEDDINGS, {"foo": None}, 400, None, None, KNOWN),
    (EMBEDDINGS, {"inputs": "a"}, 400, None, None, "unknown option; did you mean input?; known are attention, "),
    (EMBEDDINGS, {"attention": {"layers": 99}}, 400, "attention.layers", None, "given 99"),
    (EMBEDDINGS, {"attention": {"format": "npz"}}, 400, "attention.format", None, "json"),
    (EMBEDDINGS, {"attention": {"foo": 1}}, 400, None, None, "known are"),
    (EMBEDDINGS, {"model": None}, 400, "model", None, "GET /v1/models"),
    (EMBEDDINGS, {"model": 3}, 400, "model", None, "GET /v1/models"),
    (EMBEDDINGS, {"model": "gpt"}, 404, "model", "model_not_found", "must be one of dates, "),
    (EMBEDDINGS, {"model": "dates"}, 404, "model", None, "this model's task is text2text-generation"),
    (EMBEDDINGS, {"model": "digits-dino"}, 404, "model", None,
     "takes images, with modality image, or at POST /v1/models/digits-dino/embed"),
    (EMBEDDINGS, {"modality": "audio"}, 400, "modality", None, "audio is not served here; sounds are embedded at POST"),
    (EMBEDDINGS, {"modality": "video"}, 400, "modality", None, "must be text or image, given another"),
    (EMBEDDINGS, {"modality": ["image"]}, 400, "modality", None, "must be text or image, given another"),
    (EMBEDDINGS, {"modality": ""}, 400, "modality", None, "must be text or image, given another"),
    (EMBEDDINGS, PICTURE | {"model": "minilm"}, 404, "model", None, "takes texts, with modality text, or at POST"),
    (EMBEDDINGS, PICTURE | {"input": [SEVEN, "http://a.example/1.png"]}, 400, "input", None,
     "addresses are not fetched (input 2 of 2)"),
    (EMBEDDINGS, PICTURE | {"input": "hello"}, 400, "input", None, "each must be base64 or a data: URL of it"),
    (EMBEDDINGS, PICTURE | {"input": ""}, 400, "input", None, "must hold at least one byte"),
    (EMBEDDINGS, PICTURE | {"input": "aGVsbG8="}, 415, None, None, "input: must be "),
    (EMBEDDINGS, PICTURE | {"input": SEVEN[:200]}, 400, "input", None, "input: "),
    (EMBEDDINGS, PICTURE | {"input": [3]}, 400, "input", None, "must be a data: URL or base64, or a list of them"),
    (EMBEDDINGS, PICTURE | {"input": [SEVEN] * 33}, 400, "input", None, "must be 1 to 32, given 33"),
    (EMBEDDINGS, PICTURE | {"truncate": True}, 400, None, None, f"{KNOWN}dimensions, encoding_format, input, modality"),
    (EMBEDDINGS, PICTURE | {"prompt": "a"}, 400, None, None, KNOWN),
    (COMPLETIONS, {"modality": "text"}, 400, None, None, KNOWN),
    (COMPLETIONS, {"prompt": [1, 2]}, 400, "prompt", None, "ids of another tokenizer mean nothing here"),
    (COMPLETIONS, {"prompt": None}, 400, "prompt", None, "must be a string or a list of strings"),
    (COMPLETIONS, {"prompt": "9" * 200}, 400, "prompt", "context_length_exceeded", "at most 96 tokens, given 20"),
    (COMPLETIONS, {"prompt": "9" * 9999}, 400, "prompt", "context_length_exceeded", "given 9999 characters"),
    (COMPLETIONS, {"max_tokens": 17}, 400, "max_tokens", None, "max_tokens: at most 16, given 17"),
    (COMPLETIONS, {"max_tokens": 0}, 400, "max_tokens", None, "given 0"),
    (COMPLETIONS, {"max_new_tokens": 3}, 400, None, None, "unknown option; did you mean max_tokens?; known are"),
    (COMPLETIONS, {"temperature": -1}, 400, "temperature", None, "given -1"),
    (COMPLETIONS, {"temperature": "0"}, 400, "temperature", None, "number"),
    (COMPLETIONS, {"top_p": 0}, 400, "top_p", None, "given 0"),
    (COMPLETIONS, {"seed": 2**63}, 400, "seed", None, "given 9223372036854775808"),
    (COMPLETIONS, {"logprobs": 6}, 400, "logprobs", None, "given 6"),
    (COMPLETIONS, {"logprobs": True}, 400, "logprobs", None, "integer"),
    (COMPLETIONS, {"stream": True, "prompt": ["a", "b"]}, 400, "stream", None, "takes one input, given 2"),
    (COMPLETIONS, {"stream_options": {"include_usage": True}}, 400, "stream_options", None, "is for stream"),
    (COMPLETIONS, {"stream": True, "stream_options": {"a": 1}}, 400, "stream_options", None, "include_usage"),
    (COMPLETIONS, {"stream": True, "stream_options": 1}, 400, "stream_options", None, "include_usage"),
    (COMPLETIONS, {"n": 2}, 400, "n", None, "at most 1 without a temperature above 0, given 2"),
    (COMPLETIONS, {"n": True}, 400, "n", None, "Input should be a valid integer"),
    (COMPLETIONS, {"n": 2, "stream": True, "temperature": 1}, 400, "stream", None, "needs n 1, given 2"),
    (COMPLETIONS, {"n": 3, "best_of": 4, "temperature": 1}, 400, "best_of", None, "must be 1, since all n"),
    (COMPLETIONS, {"best_of": 3}, 400, "best_of", None, "must be 1"),
    (COMPLETIONS, {"echo": True}, 400, "echo", None, "must be false"),
    (COMPLETIONS, {"echo": 0}, 400, "echo", None, "must be false"),
    (COMPLETIONS, {"suffix": "x"}, 400, "suffix", None, "must be empty"),
    (COMPLETIONS, {"stop": 3}, 400, "stop", None, "must be a string of 1 to 256 characters, or up to 4 of them"),
    (COMPLETIONS, {"stop": [""]}, 400, "stop", None, "must be a string of 1 to"),
    (COMPLETIONS, {"stop": ["x" * 257]}, 400, "stop", None, "must be a string of 1 to"),
    (COMPLETIONS, {"logit_bias": {"1": 1}}, 400, "logit_bias", None, "must be empty"),
    (COMPLETIONS, {"presence_penalty": 0.5}, 400, "presence_penalty", None, "must be 0"),
    (COMPLETIONS, {"frequency_penalty": -2}, 400, "frequency_penalty", None, "given -2"),
    (COMPLETIONS, {"attention": {"steps": True}}, 400, "attention.steps", None, "is for stream"),
    (COMPLETIONS, {"attention": "none"}, 400, "attention.method", None, "raw"),
    (COMPLETIONS, {"model": "minilm"}, 404, "model", None, "it serves embed, similarity, attention"),
    (CHAT, {}, 404, "model", None, "since its checkpoint has no template of chats; send a prompt to POST"),
    (CHAT, {"model": "minilm"}, 404, "model", None, "it serves embed, similarity, attention"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "changes", "status", "param", "code", "said"), REFUSED, ids=str)
def test_what_is_refused(client, path, changes, status, param, code, said):
    body = {EMBEDDINGS: EMBED, COMPLETIONS: COMPLETE, CHAT: SAY}[path] | changes
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, code)
    assert said in error["message"]
    OpenAIError.model_validate(answer.json())


def test_what_is_refused_before_the_document_is_read(client):
    for path in (EMBEDDINGS, COMPLETIONS):
        table = [
            (client.post(path, content=b"{"), 415),
            (client.post(path, content=b"{", headers={"Content-Type": "application/json"}), 400),
            (client.post(path, content=b"[]", headers={"Content-Type": "application/json"}), 400),
            (client.post(f"{path}?a=b", json={}), 400),
            (client.post(path, content=b"[" * 20000, headers={"Content-Type": "application/json"}), 413),
            (client.post(path, json={}, headers={"Host": "?"}), 400),
            (client.get(path), 405),
        ]
        for answer, status in table:
            assert answer.status_code == status, answer.text
            error = answer.json()["error"]
            assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", None, None)
        assert table[-1][0].headers["allow"] == "POST"


def test_nothing_of_a_text_is_in_a_refusal(client):
    secret = "kd83hf"
    for path, name in ((EMBEDDINGS, "input"), (COMPLETIONS, "prompt")):
        for changes in (
            {"model": secret},
            {secret: secret},
            {"user": [secret]},
            {"attention": secret},
            {name: {secret: 1}},
        ):
            body = {EMBEDDINGS: EMBED, COMPLETIONS: COMPLETE}[path] | changes
            answer = client.post(path, json=body)
            assert answer.status_code in (400, 404)
            assert secret not in answer.text


def test_keys_are_sent_as_openais_clients_send_them(light, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text(line("one"))
    with in_process(light, api_keys=keys) as client:
        for headers in ({}, bearer("another")):
            answer = client.post(COMPLETIONS, json=COMPLETE, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            error = answer.json()["error"]
            assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", None, "invalid_api_key")
        assert client.post(COMPLETIONS, json=COMPLETE, headers=bearer("one")).status_code == 200


def test_a_full_queue_says_when_to_come_again(served):
    client, dates = served
    with queue_filled(dates.prediction_budget):
        answer = client.post(COMPLETIONS, json=COMPLETE)
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0
    error = answer.json()["error"]
    assert (error["type"], error["param"], error["code"]) == ("rate_limit_error", None, "rate_limit_exceeded")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("warming up", "model: is warming up"),
        ("failed", "model: its runs fail, the service's log says why; it is tried again every few seconds"),
    ],
)
def test_a_model_that_cannot_run_is_named_as_the_servers_fault(served, monkeypatch, state, said):
    client, dates = served
    monkeypatch.setattr(dates, "state", state)
    answer = client.post(COMPLETIONS, json=COMPLETE)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    error = {"message": said, "type": "server_error", "param": None, "code": None}
    assert answer.json() == {"error": error}
    assert client.get("/v1/models/dates").json().items() >= {"state": state, "ready": False}.items()


@pytest.mark.parametrize("failure", [Broken("model: failed"), RuntimeError("a secret")], ids=["refusal", "bug"])
def test_a_stream_that_fails_ends_with_an_error(served, monkeypatch, failure):
    client, dates = served
    generate = dates.generate

    async def fail(source, options, grew, caller):
        await generate(source, options, grew, caller)
        raise failure

    monkeypatch.setattr(dates, "generate", fail)
    answer = client.post(COMPLETIONS, json={**COMPLETE, "stream": True})
    assert answer.status_code == 200
    *chunks, last, nothing = answer.text.split("\n\n")
    assert len(chunks) == len(WRITTEN)
    assert nothing == ""
    message = failure.detail if isinstance(failure, Broken) else "service: failed; the log has the request's id"
    error = {"message": message, "type": "server_error", "param": None, "code": None}
    assert json.loads(last.removeprefix("data: ")) == {"error": error}


def test_a_priority_holds_here_too(served):
    client, dates = served
    with queue_filled(dates.prediction_budget, dates.prediction_budget.limit // 2):
        assert client.post(COMPLETIONS, json={**COMPLETE, "priority": "batch"}).status_code == 429
        assert client.post(COMPLETIONS, json=COMPLETE).status_code == 200


# Models, documents, log


def test_models_are_listed_as_openai_does_beside_our_own_list(client, folder):
    document = client.get("/v1/models").json()
    assert document["object"] == "list"
    assert [one["id"] for one in document["data"]] == [one["name"] for one in document["models"]]
    for vector in document["data"]:
        assert vector.keys() == {"id", "object", "created", "owned_by"}
        manifest = folder / vector["id"] / "1" / "manifest.json"
        assert vector["created"] == int(manifest.stat().st_mtime)
        model = client.get(f"/v1/models/{vector['id']}").json()
        assert model.items() >= {**vector, "ready": True}.items()
        assert (vector["object"], vector["owned_by"]) == ("model", "regard")
    assert document["data"][1] == {"id": "dates", "object": "model", "created": WRITTEN_1970, "owned_by": "regard"}


def test_when_a_model_was_made_is_read_as_it_is_loaded(light_copy):
    with in_process(light_copy) as client:
        before = client.get("/v1/models").json()["data"]
        for manifest in light_copy.rglob("manifest.json"):
            os.utime(manifest, (1, 1))
        assert client.get("/v1/models").json()["data"] == before


def test_openapi_describes_both_endpoints(client):
    documented = Documented(client)
    for path, options, text, body in (
        (EMBEDDINGS, EmbeddingsOptions, "input", EMBED),
        (COMPLETIONS, CompletionsOptions, "prompt", COMPLETE),
    ):
        operation = documented.operation("POST", path)
        assert operation["tags"] == ["OpenAI"]
        schema = documented.resolved(operation["requestBody"]["content"]["application/json"]["schema"])
        assert schema["properties"].keys() == {"model", text, "attention", *options.model_fields}
        assert set(schema["required"]) == {"model", text}
        assert schema["additionalProperties"] is False
        documented.check(client.post(path, json={**body, "attention": {}}))
    assert "the model's own" in schema["properties"]["max_tokens"]["description"]


def test_the_log_names_the_model_that_a_document_asks_for(folder):
    with in_process(folder) as client:
        ask(client, EMBEDDINGS, EMBED)
        client.post(EMBEDDINGS, json={**EMBED, "model": "a-secret-name"})
    found = [(one["route"], one["model"], one["status"]) for one in client.events if one.get("route") == EMBEDDINGS]
    assert found == [(EMBEDDINGS, "minilm", 200), (EMBEDDINGS, None, 404)]


# What no bundled model does


def test_a_stream_of_a_model_that_searches_with_beams_needs_a_temperature():
    generation = Generation.model_construct(num_beams=4, sampling=None)
    options = functools.partial(parse, CompletionsOptions, strings=False)
    with pytest.raises(Unacceptable, match=r"stream: needs a temperature .* 4 beams by default"):
        options({"stream": True}).generating(generation)
    assert options({}).generating(generation).num_beams is None
    assert options({"temperature": 0}).generating(generation).num_beams == 1
    assert not options({"top_p": 1}).generating(generation).samples
    for given in ({"temperature": 0}, {"temperature": 0.7}, {"top_p": 0.9}):
        assert options({"stream": True, **given}).generating(generation).stream
    sampling = Generation.model_construct(num_beams=1, sampling=Sampling(temperature=1.0, top_p=0.2))
    for given in ({"top_p": 1}, {"top_p": 1, "temperature": 1}):
        assert options(given).generating(sampling).sampling(sampling.sampling).top_p == 1, "the whole distribution"
    assert options({"temperature": 1}).generating(sampling).sampling(sampling.sampling).top_p == 0.2
    assert options({"stream": True}).generating(sampling).stream


def test_a_stream_ends_with_the_characters_that_its_tokens_left_open():
    call = SimpleNamespace(
        exchange=SimpleNamespace(own_id="x"), served=SimpleNamespace(manifest=SimpleNamespace(name="m"))
    )
    chunks = Chunks(Completions(call, with_logs=False), Errors(), with_usage=False)
    first = chunks.token(StreamedToken(0, 5, "a", "a", -1.0)) + chunks.token(StreamedToken(1, 6, "", "", -1.0))
    whole = Completion("a\ufffd", ["a", ""], [-1.0, -1.0], "length", [])
    done = chunks.done(Answered("x", [(whole, None)], [SimpleNamespace(lengths={"source": 1})]))
    assert [one["choices"][0]["text"] for one in chunks_of((first + done).decode())] == ["a", "", "\ufffd"]


@pytest.mark.parametrize(
    ("status", "sent", "kind", "code"),
    [
        (400, 400, "invalid_request_error", None),
        (401, 401, "invalid_request_error", "invalid_api_key"),
        (403, 403, "invalid_request_error", None),
        (408, 408, "invalid_request_error", None),
        (413, 413, "invalid_request_error", None),
        (422, 400, "invalid_request_error", None),
        (429, 429, "rate_limit_error", "rate_limit_exceeded"),
        (500, 500, "server_error", None),
        (503, 503, "server_error", None),
        (504, 504, "server_error", None),
    ],
)
def test_every_status_has_a_type_and_keeps_its_headers(status, sent, kind, code):
    answer = Errors()(status, "subject: limit, given 3", [{"loc": "a", "msg": "b"}], {"Retry-After": "2"})
    assert (answer.status_code, answer.headers["retry-after"]) == (sent, "2")
    error = {"message": "subject: limit, given 3", "type": kind, "param": None, "code": code}
    assert json.loads(answer.body) == {"error": error}
