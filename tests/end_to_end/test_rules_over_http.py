"""Rules of generation, of a model's file and of requests, in every protocol: what a client gets is what the reference
library generates."""

import json
import shutil
import warnings

import pytest
import torch

from tests.samples.checkpoints import checkpoint_of, reference
from tests.samples.http_requests import results
from tests.samples.in_process import in_process
from tests.samples.reference_texts import decoded, encoded, sentences, tokenizer_of

NAMES = ("gpt2", "bart")
ENDS = [2, 28, 281, 168, 271]
"""That of the models, and tokens that they often write."""
OF_FILES = {  # a model's rules, and those of the reference
    "ends": ({"end": ENDS}, {"eos_token_id": ENDS}),
    "endless": ({"end": []}, {"eos_token_id": None}),
    "weighed": (
        {"repetition_penalty": 1.4, "no_repeat_ngram": 2}, {"repetition_penalty": 1.4, "no_repeat_ngram_size": 2}
    ),
}  # fmt: skip
ASKED = {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2}
LIMIT = 9


@pytest.fixture(scope="module")
def client(every_family, tmp_path_factory):
    """A client of a service with a model for each name and each of OF_FILES, whose manifests say its rules."""
    folder = tmp_path_factory.mktemp("rules")
    for name in NAMES:
        for rule, (changes, _) in OF_FILES.items():
            shutil.copytree(every_family / name, folder / f"{name}-{rule}")
            (path,) = (folder / f"{name}-{rule}").glob("*/manifest.json")
            manifest = json.loads(path.read_text())
            manifest["generation"] |= changes
            path.write_text(json.dumps({**manifest, "name": f"{name}-{rule}"}))
        shutil.copytree(every_family / name, folder / name)
    with in_process(folder) as client:
        yield client


@torch.no_grad()
def theirs(name, text, several=1, **asked):
    """The targets of the reference, until an end token."""
    model, tokens = reference(checkpoint_of(name)), encoded(name, text)
    given = torch.tensor([tokens])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = model.generate(
            given, attention_mask=torch.ones_like(given), pad_token_id=1, max_new_tokens=LIMIT,
            num_return_sequences=several, **asked,
        )  # fmt: skip
    ends = asked.get("eos_token_id", 2)
    ends = ends if isinstance(ends, list) else [ends]
    made = out[:, len(tokens) if name == "gpt2" else 1 :].tolist()
    return [one[: next((place for place, token in enumerate(one) if token in ends), len(one))] for one in made]


def post(client, path, **body):
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ours(client, name, texts, **asked):
    found = results(
        client.post(f"/v1/models/{name}/generate", json={"inputs": texts, "max_new_tokens": LIMIT, **asked})
    )
    return [[token["token"] for token in one["tokens"]] for one in found], [one["finish_reason"] for one in found]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rule", OF_FILES)
@pytest.mark.parametrize("beams", [1, 3])
def test_what_a_file_says_is_generated_by(client, name, rule, beams):
    texts = sentences(name, 12, beams)
    found, reasons = ours(client, f"{name}-{rule}", texts, num_beams=beams)
    rules = OF_FILES[rule][1]
    assert found == [theirs(name, text, num_beams=beams, **rules)[0] for text in texts]
    plain = [theirs(name, text, num_beams=beams)[0] for text in texts]
    assert found != plain or (rule, name) == ("endless", "gpt2"), "the rule changes nothing"
    if rule == "endless":
        assert set(reasons) == {"length"}
    if rule == "ends":
        assert "stop" in reasons


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_ends_at_any_of_several_ends(client, name):
    stopped = 0
    for text in sentences(name, 12, 1):
        body = {"inputs": text, "num_beams": 1, "max_new_tokens": LIMIT, "stream": True}
        lines = client.post(f"/v1/models/{name}-ends/generate", json=body).text.splitlines()
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
        (wanted,) = theirs(name, text, num_beams=1, **OF_FILES["ends"][1])
        assert [one["token"] for one in events[:-1]] == wanted
        stopped += events[-1]["results"][0]["finish_reason"] == "stop"
    assert stopped


@pytest.mark.parametrize("name", NAMES)
def test_every_protocol_obeys_what_is_asked_for(client, name):
    texts, path = sentences(name, 6, 3), f"/v1/models/{name}"
    wanted = [theirs(name, text, num_beams=1, **ASKED)[0] for text in texts]
    assert wanted != [theirs(name, text, num_beams=1)[0] for text in texts]
    assert ours(client, name, texts, num_beams=1, **ASKED)[0] == wanted
    written = [decoded(name, one) for one in wanted]
    parameters = {"num_beams": 1, "max_new_tokens": LIMIT, **ASKED}
    hub = (
        [one for (one,) in post(client, path, inputs=texts, parameters=parameters)]
        if name == "gpt2"
        else post(client, path, inputs=texts, parameters=parameters)
    )
    assert [one["generated_text"] for one in hub] == written
    tensor = {"name": "text", "shape": [len(texts)], "datatype": "BYTES", "data": texts}
    outputs = post(client, f"/v2/models/{name}/infer", inputs=[tensor], parameters=parameters)["outputs"]
    assert next(one["data"] for one in outputs if one["name"] == "text") == written


@pytest.mark.parametrize("name", NAMES)
def test_bad_words_are_tokens_or_words(client, name):
    (text,), path = sentences(name, 1, 5), f"/v1/models/{name}"
    (plain,) = theirs(name, text, num_beams=1)
    for words in ([[plain[1]]], [plain[1:3], plain[2:5]]):
        (wanted,) = theirs(name, text, num_beams=1, bad_words_ids=words)
        assert ours(client, name, [text], num_beams=1, bad_words=words)[0] == [wanted] != [plain]
        parameters = {"num_beams": 1, "max_new_tokens": LIMIT, "bad_words_ids": words}
        (hub,) = post(client, path, inputs=text, parameters=parameters)
        assert hub["generated_text"] == decoded(name, wanted)
    word = "cat"
    spelled = [tokenizer_of(name).encode(one, add_special_tokens=False).ids for one in (word, f" {word}")]
    (wanted,) = theirs(name, text, num_beams=1, bad_words_ids=spelled)
    assert ours(client, name, [text], num_beams=1, bad_words=[word])[0] == [wanted]


@pytest.mark.parametrize("name", NAMES)
def test_several_texts_are_the_best_of_a_beam_search(client, name):
    text, path = sentences(name, 1, 7)[0], f"/v1/models/{name}"
    wanted = theirs(name, text, several=3, num_beams=4)
    asked = {"num_beams": 4, "num_return_sequences": 3, "max_new_tokens": LIMIT}
    (found,) = post(client, f"{path}/generate", inputs=text, **asked)["results"]
    assert [[token["token"] for token in one["tokens"]] for one in (found, *found["others"])] == wanted
    scores = [one["score"] for one in (found, *found["others"])]
    assert scores == sorted(scores, reverse=True)
    hub = post(client, path, inputs=text, parameters=asked)
    assert [one["generated_text"] for one in hub] == [decoded(name, one) for one in wanted]
    for several in post(client, path, inputs=[text, text], parameters=asked):
        assert several == hub


def test_several_completions_are_drawn_apart_and_again_by_their_seed(client):
    body = {"model": "gpt2", "prompt": ["the cat", "a dog"], "max_tokens": LIMIT, "n": 3, "temperature": 2.0, "seed": 5}
    one, other = (post(client, "/v1/completions", **body) for _ in range(2))
    texts = [choice["text"] for choice in one["choices"]]
    assert [choice["index"] for choice in one["choices"]] == list(range(6))
    assert len({*texts[:3]}) > 1
    assert texts == [choice["text"] for choice in other["choices"]]
    (alone,) = post(client, "/v1/completions", **{**body, "prompt": "the cat", "n": 1})["choices"]
    assert alone["text"] == texts[0]
    assert one["usage"]["completion_tokens"] > 3 * alone["text"].count(" ")


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/v1/models/gpt2/generate", {"num_return_sequences": 2}, "num_return_sequences: at most num_beams, 1, where"),
        ("/v1/models/gpt2/generate", {"bad_words": ["  "]}, "bad_words: must be 1 to 64 words of at most 256"),
        ("/v1/models/gpt2/generate", {"bad_words": [[3, 10**6]]}, "bad_words: tokens must be from 0 to "),
        ("/v1/models/gpt2/generate", {"num_return_sequences": 2, "top_k": 3, "stream": True}, "stream: needs num_ret"),
        ("/v1/models/gpt2/generate", {"min_p": 0.1, "num_beams": 2}, "num_beams: must be 1 when temperature, top_k,"),
        ("/v1/models/gpt2/attention", {"num_return_sequences": 2, "top_k": 3}, "num_return_sequences: is for generate"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_limit(client, path, body, said):
    answer = client.post(path, json={"inputs": "the cat", **body})
    assert (answer.status_code, answer.json()["detail"][: len(said)]) == (422, said)
