"""Images to words: what a client gets is what the definition computes, and the maps of words lie over the image."""

import base64
import io
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image

from contract.generation import Generation
from contract.input_rules import ImageRule
from export.bundled import DECODER_ATTENTION
from export.checkpoints.reading.tokenizers.tokenizer import word_tokenizer
from export.pipeline import export
from export.tasks.alignment import AlignedDecoder, aligned_image, cross_kind
from model.architectures.captioner import CAPTIONS_MEAN as MEAN
from model.architectures.captioner import CAPTIONS_STD as STD
from model.architectures.captioner import CaptionerConfig, captioner
from model.architectures.recurrent import RecurrentConfig
from model.vocabularies import END, START, WORDS
from model.vocabularies import WORD_SPECIALS as SPECIALS
from service.arrays import log_softmax
from service.generation.token_selection import Beams
from tests.samples.detectors import encoded
from tests.samples.documented import Documented
from tests.samples.exports import once
from tests.samples.http_requests import PNG, results
from tests.samples.in_process import in_process

SIDE, MOST = 16, 4
CONFIG = CaptionerConfig(
    (SIDE, SIDE),
    1,
    cell=4,
    decoder=RecurrentConfig(
        13, length=16, target_length=MOST, embedding=8, source=16, alignment=8, width=16, readout=8
    ),
)
TINY = "/v1/models/tiny"
EVERYTHING = {"layers": "all", "digits": 9}


def tiny():
    """A captioner whose random weights are so large that it says and sees something else of every image."""
    model = captioner(CONFIG)
    head = model.decoder.head
    generator = torch.Generator().manual_seed(283)
    with torch.no_grad():
        for parameter in model.parameters():
            wide = parameter[0].numel() ** 0.5 if parameter.ndim > 1 else 2
            parameter.copy_(2 * torch.randn(parameter.shape, generator=generator) / wide)
        head.bias.mul_(0.2)
        head.bias[: START + 1] = -30  # neither the padding nor another start
        for parameter in (head.weight, head.bias):  # some end early: the end is likely where this word was
            parameter[[END, 11]] = parameter[[11, END]]
    return model.eval()


def write(folder):
    """Export it."""
    decoder = AlignedDecoder(
        cross_kind((DECODER_ATTENTION,), "image", joined=False, grid=CONFIG.grid),
        vocabulary=CONFIG.decoder.vocabulary,
        memory={
            f"{DECODER_ATTENTION}.key": CONFIG.decoder.alignment,
            f"{DECODER_ATTENTION}.value": CONFIG.decoder.source,
            "memory.state": CONFIG.decoder.width,
        },
        states={"decoder.state": CONFIG.decoder.width},
        unrolled=MOST,
    )
    source = aligned_image(
        "tiny",
        tiny(),
        decoder,
        family="recurrent",
        rules=Generation(start=START, end=END, max_new_tokens=MOST, caches=(), memory=()),
        made_by={"definition": "tiny"},
        image=ImageRule(
            height=SIDE, width=SIDE, channels=1, locate="middle", resize=(SIDE, SIDE), mean=(MEAN,), std=(STD,)
        ),
        tokenizer=word_tokenizer(SPECIALS, WORDS),
    )
    export(source, "1", folder)


@pytest.fixture(scope="session")
def captions():
    """A folder with the artifact of a tiny captioner."""
    return once("tiny-captions", write)


@pytest.fixture(scope="module")
def client(captions):
    with in_process(captions) as client:
        yield client


def image(seed):
    """Pixels (height, width) that the model takes as they are: some of its patches, each of one brightness."""
    drawn = np.random.default_rng(seed)
    patches = drawn.integers(0, 256, CONFIG.grid) * (drawn.random(CONFIG.grid) < 0.4)
    return np.kron(patches, np.ones((CONFIG.cell, CONFIG.cell))).astype(np.uint8)


IMAGES = [image(seed) for seed in range(6)]
SENT = [encoded(pixels) for pixels in IMAGES]


@pytest.fixture(scope="module")
def definition():
    """What computes logits (target, word) and weights (target, patch) of an image, in float64."""
    model = tiny().double()

    def explain(pixels, target):
        x = (torch.tensor(pixels, dtype=torch.float64)[None, None] / 255 - MEAN) / STD
        with torch.no_grad():
            logits, maps = model(x, None, torch.tensor([target]))
        return logits[0].numpy(), maps[DECODER_ATTENTION][0, 0].numpy()

    return explain


@pytest.fixture(scope="module")
def greedy(definition):
    """The likeliest words of every image, one after the other, and their log-probabilities."""

    def walk(pixels):
        tokens, logs = [], []
        while len(tokens) < MOST and (not tokens or tokens[-1] != END):
            last = log_softmax(definition(pixels, [START, *tokens])[0][-1])
            tokens.append(int(last.argmax()))
            logs.append(float(last.max()))
        return tokens, logs

    return [walk(pixels) for pixels in IMAGES]


def post(client, endpoint="generate", content=SENT[0], **options):
    return client.post(f"{TINY}/{endpoint}", content=content, headers=PNG, params=options)


def result(answer):
    (one,) = results(answer)
    return one


def attention(client, **options):
    return result(post(client, "attention", **options))["attention"]


def values(attention):
    (shown,) = attention["maps"]
    return np.array(shown["values"])[0]


def several(client, endpoint="generate", **options):
    body = {"images": [base64.b64encode(one).decode() for one in SENT[:3]], **options}
    return results(client.post(f"{TINY}/{endpoint}", json=body))


# words


def test_the_images_differ_in_their_words(greedy):
    assert len({tuple(tokens) for tokens, _ in greedy}) >= 4
    assert {tokens[-1] == END for tokens, _ in greedy} == {True, False}


@pytest.mark.parametrize("index", range(len(IMAGES)))
def test_the_words_of_an_image_are_those_of_the_definition(client, greedy, index):
    tokens, logs = greedy[index]
    found = result(post(client, content=SENT[index]))
    spoken = [token for token in tokens if token != END]
    assert found["text"] == " ".join(WORDS[token - len(SPECIALS)] for token in spoken)
    assert [token["token"] for token in found["tokens"]] == spoken
    assert [token["log_probability"] for token in found["tokens"]] == pytest.approx(logs[: len(spoken)], abs=1e-4)
    assert found["score"] == pytest.approx(sum(logs) / len(logs), abs=1e-4)
    assert found["finish_reason"] == ("stop" if END in tokens else "length")


def test_beams_find_what_they_find_over_the_definition(client, definition):
    for pixels, sent in zip(IMAGES, SENT, strict=True):
        search = Beams(3, (END,), MOST, 1.0, early_stopping=False)
        while not search.done:
            search.advance(
                np.stack([log_softmax(definition(pixels, [START, *one.tokens])[0][-1]) for one in search.live])
            )
        found = result(post(client, content=sent, num_beams=3))
        best = search.best()
        assert [token["token"] for token in found["tokens"]] == [token for token in best.tokens if token != END]
        assert found["score"] == pytest.approx(best.score(1.0), abs=1e-4)


def close(found, wanted):
    """Are two results the same, but for the last digits that a batch may change."""
    logs, expected = ([token.pop("log_probability") for token in one["tokens"]] for one in (found, wanted))
    assert logs == pytest.approx(expected, abs=1e-5)
    assert found.pop("score") == pytest.approx(wanted.pop("score"), abs=1e-5)
    if "attention" in wanted:
        maps, others = (one["attention"]["maps"] for one in (found, wanted))
        for one, other in zip(maps, others, strict=True):
            assert np.array(one.pop("values")) == pytest.approx(np.array(other.pop("values")), abs=1e-5)
    assert found == wanted


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"temperature": 5.0, "seed": 3}, {"max_new_tokens": 2}])
def test_three_images_of_one_request_are_answered_as_if_alone(client, options):
    together = several(client, attention=EVERYTHING, **options)
    assert len(together) == 3
    for number, (sent, found) in enumerate(zip(SENT, together, strict=False)):
        assert found.pop("id").endswith(f".{number}")
        close(found, result(post(client, content=sent, attention="raw", **EVERYTHING, **options)))


def test_images_that_join_while_others_run_are_answered_as_if_alone(client):
    asked = [
        (sent, options) for sent in SENT for options in ({}, {"num_beams": 4}, {"max_new_tokens": 3}, {"top_k": 1})
    ]
    alone = [result(post(client, content=sent, **options)) for sent, options in asked]
    with ThreadPoolExecutor(12) as threads:
        together = list(threads.map(lambda one: result(post(client, content=one[0], **one[1])), asked))
    for found, wanted in zip(together, alone, strict=True):
        close(found, wanted)


def test_a_form_is_answered_as_the_raw_body(client):
    form = client.post(f"{TINY}/generate", files={"image": SENT[1]}, data={"num_beams": "2", "attention": "raw"})
    close(result(form), result(post(client, content=SENT[1], num_beams=2, attention="raw")))


@pytest.mark.parametrize("index", [0, 1])
def test_a_stream_sends_each_word_with_its_row_of_the_whole_map(client, index):
    asked = {"attention": "raw", "digits": 9, "steps": True, "stream": True}
    whole = result(post(client, content=SENT[index], attention="raw", digits=9))
    with client.stream("POST", f"{TINY}/generate", content=SENT[index], params=asked, headers=PNG) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        *tokens, done = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]
    assert [token["token"] for token in tokens] == [token["token"] for token in whole["tokens"]]
    assert "".join(token["text"] for token in tokens) == whole["text"]
    for token in tokens:
        (row,) = token["attention"]
        assert np.array(row["values"])[0, 0] == pytest.approx(values(whole["attention"])[token["index"]], abs=1e-5)
    close(*done["results"], whole)


# maps


@pytest.mark.parametrize("index", range(3))
def test_the_map_of_a_word_is_the_definitions_and_lies_over_the_image(client, definition, greedy, index):
    tokens, _ = greedy[index]
    seen = attention(client, content=SENT[index], **EVERYTHING)
    (shown,) = seen["maps"]
    wanted = definition(IMAGES[index], [START, *tokens[:-1]])[1]
    assert values(seen) == pytest.approx(wanted, abs=1e-5)
    assert values(seen).sum(-1) == pytest.approx(np.ones(len(tokens)), abs=1e-5)
    assert wanted.std(-1).min() > 0.01
    assert (shown["name"], shown["kind"], shown["layer"], shown["normalized"]) == (DECODER_ATTENTION, "cross", 0, True)
    assert shown["shape"] == [1, len(tokens), 16]
    words = ["[END]" if token == END else WORDS[token - len(SPECIALS)] for token in tokens]
    assert [token["text"].strip() for token in seen["tokens"]["target"]] == words
    assert [token["text"].strip() for token in seen["tokens"]["target_input"]] == ["[START]", *words[:-1]]
    assert seen["tokens"]["grid"] == {"rows": 4, "columns": 4}
    assert seen["tokens"]["prefix"] == 0
    assert seen["image"] == {
        "width": SIDE, "height": SIDE, "orientation": 1, "box": {"left": 0, "top": 0, "right": SIDE, "bottom": SIDE}
    }  # fmt: skip


def test_the_box_is_that_of_the_image_as_it_was_sent(client):
    turned = np.asarray(Image.fromarray(IMAGES[0]).resize((40, 20)))
    seen = attention(client, content=encoded(turned, "JPEG", orientation=6))["image"]
    assert (seen["width"], seen["height"], seen["orientation"]) == (20, 40, 6)
    assert seen["box"] == {"left": 0, "top": 0, "right": 20, "bottom": 40}


def test_rows_are_chosen_shifted_aligned_and_counted(client):
    plain = attention(client, digits=9)
    rows = values(plain)
    assert values(attention(client, digits=9, queries="1,0")) == pytest.approx(rows[[1, 0]], abs=1e-6)
    fed = attention(client, digits=9, align="input", max_new_tokens=MOST - 1)
    emitted = attention(client, digits=9, max_new_tokens=MOST - 1)
    assert values(fed)[:-1] == pytest.approx(values(emitted)[1:], abs=1e-5)
    hard = attention(client, hard=True)["maps"][0]["aligned"]
    assert hard == [rows.argmax(-1).tolist()]
    (figures,) = attention(client, diagnostics=True, digits=9)["diagnostics"]
    entropy = -(rows * np.log(np.maximum(rows, 1e-30))).sum(-1).mean()
    assert np.array(figures["entropy"]) == pytest.approx(entropy, abs=1e-5)
    assert np.array(figures["special"]) == pytest.approx(0)
    assert values(attention(client, digits=9, merge="words")) == pytest.approx(rows, abs=1e-6)  # a word is a token


def drawn(client, index, **options):
    large = encoded(np.kron(IMAGES[index], np.ones((8, 8), np.uint8)))  # 128 x 128
    answer = post(client, "attention", content=large, format="png", opacity=1, **options)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "image/png"), answer.text
    return np.asarray(Image.open(io.BytesIO(answer.content)))


def test_a_picture_has_a_panel_a_word_under_the_word(client, greedy):
    both, rows = drawn(client, 0, queries="0,1"), [drawn(client, 0, queries=row) for row in (0, 1)]
    repeated = drawn(client, 1, queries="0,1")
    places = (12, 12 + 128 + 12)  # text is 12 pixels high
    for left, row in zip(places, rows, strict=True):
        assert np.array_equal(both[30 : 30 + 128, left : left + 128], row)
    assert not np.array_equal(*rows)
    differ, same = ([one[:30, left : left + 128] for left in places] for one in (both, repeated))
    assert greedy[0][0][0] != greedy[0][0][1]
    assert not np.array_equal(*differ)
    assert greedy[1][0][0] == greedy[1][0][1]
    assert np.array_equal(*same)
    assert same[0].min() < 100
    assert len(greedy[1][0]) == 4
    assert drawn(client, 1).shape == (2 * (128 + 30) + 12, 2 * (128 + 12) + 12, 3)


def test_npz_and_base64_hold_the_numbers_of_json(client):
    plain = attention(client, **EVERYTHING)
    arrays = np.load(io.BytesIO(post(client, "attention", format="npz").content))
    (meta,) = json.loads(bytes(arrays["meta"]))["results"]
    meta = meta["attention"]
    assert (meta["tokens"], meta["image"]) == (plain["tokens"], plain["image"])
    assert arrays[meta["maps"][0]["array"]][0] == pytest.approx(values(plain), abs=1e-7)
    packed = attention(client, encoding="base64")["maps"][0]
    found = np.frombuffer(base64.b64decode(packed["values"]), packed["dtype"]).reshape(packed["shape"])
    assert found[0] == pytest.approx(values(plain), abs=1e-7)


def test_attention_of_an_earlier_image_is_of_the_words_that_came_then(client):
    answer = post(client, temperature=5.0, seed=11, attention="raw", digits=9)
    then = result(answer)["attention"]
    identity = answer.json()["id"]
    assert result(client.get(f"/v1/attention/{identity}", params={"digits": 9}))["attention"] == then
    drawn = client.get(f"/v1/attention/{identity}", params={"format": "png"})
    assert drawn.headers["Content-Type"] == "image/png"
    late = client.get(f"/v1/attention/{identity}", params={"method": "rollout"})
    assert late.status_code == 422


def test_a_model_says_what_it_takes_and_shows(client):
    about = client.get(TINY).json()
    assert (about["task"], about["endpoints"]) == ("image-to-text", ["generate", "attention"])
    assert about["inputs"] == {"height": SIDE, "width": SIDE, "channels": 1}
    assert (about["limits"]["max_new_tokens"], about["limits"]["image_pixels"]) == (MOST, 16_000_000)
    (kind,) = about["attention"]["kinds"].values()
    assert (kind["query"], kind["key"], kind["grid"], kind["methods"]) == (
        "target", "image", {"rows": 4, "columns": 4}, ["raw"]
    )  # fmt: skip


def test_the_document_knows_images_to_generate_from_and_its_examples_are_answered(client):
    asked = client.get("/openapi.json").json()["paths"]["/v1/models/{model}/generate"]["post"]
    content = asked["requestBody"]["content"]
    assert {"image/png", "multipart/form-data", "application/json"} == content.keys() - {
        "image/jpeg",
        "image/webp",
        "application/octet-stream",
    }
    documented = Documented(client)
    assert {"num_beams", "attention", "steps"} <= {documented.resolved(one)["name"] for one in asked["parameters"]}
    example = content["application/json"]["examples"]["an image"]["value"]
    answer = client.post(f"{TINY}/generate", json=example)
    assert result(answer)["attention"]["tokens"]["grid"] == {"rows": 4, "columns": 4}


@pytest.mark.parametrize(("index", "word"), [(0, 1), (1, 0), (2, 2)])
def test_curves_of_a_word_are_those_of_images_with_black_patches(client, definition, greedy, index, word):
    tokens, _ = greedy[index]
    shown = attention(client, content=SENT[index], queries=word, evaluate="deletion,insertion", digits=9)
    assert (shown["evaluation"]["target"], shown["evaluation"]["position"]) == (tokens[word], word)
    hottest = np.argsort(-values(shown)[0], kind="stable")

    def chance(gone):
        there = np.ones(CONFIG.grid)
        there.flat[gone] = 0
        pixels = IMAGES[index] * np.kron(there, np.ones((CONFIG.cell, CONFIG.cell)))
        logits, _ = definition(pixels, [START, *tokens[:word]])
        return np.exp(log_softmax(logits[-1])[tokens[word]])

    deletion, insertion = (curve["probabilities"] for curve in shown["evaluation"]["curves"])
    counts = [round(step / 10 * len(hottest)) for step in range(11)]
    assert deletion == pytest.approx([chance(hottest[:count]) for count in counts], abs=1e-4)
    assert insertion == pytest.approx([chance(hottest[count:]) for count in counts], abs=1e-4)


# refusals


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "rollout"}, "method rollout: needs maps of tokens onto themselves"),
        ({"method": "norm"}, "method norm: needs values that are joined by one projection and added"),
        ({"method": "relevance"}, "method relevance: needs a gradient through attention"),
        ({"kind": "encoder"}, "kind: this model has cross, given another"),
        ({"queries": "cls"}, "queries: cls needs a class token"),
        ({"queries": 6}, "queries: must be from -4 to 3, given 6"),
        ({"heads": 1}, "heads: must be from -1 to 0, given 1"),
        (
            {"evaluate": "deletion"},
            "evaluate: needs one map of one row; ask for one layer, fused heads, one query and target",
        ),
        ({"target": 1}, "target: is for relevance"),
        ({"steps": True}, "steps: is for stream"),
        ({"max_new_tokens": 6}, "max_new_tokens: at most 4, given 6"),
        ({"max_new_tokens": 4, "align": "input"}, "max_new_tokens: at most 3, given 4"),
        ({"num_beams": 99}, "num_beams: at most 8, given 99"),
        ({"num_beams": 2, "stream": True}, "stream: needs num_beams 1"),
        ({"stream": True}, "stream: is for generate"),
        ({"truncate": True}, "options: unknown option"),
        ({"top_p": 2}, "top_p: "),
    ],
)
def test_options_without_meaning_are_refused_with_the_reason(client, options, words):
    answer = post(client, "attention", **options)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(words)


def test_texts_and_what_is_no_image_are_refused(client):
    text = client.post(f"{TINY}/generate", json={"inputs": "a seven"})
    words = "images: must be in the document; this model takes images, a list of base64 strings"
    assert (text.status_code, text.json()["detail"]) == (422, words)
    plain = client.post(f"{TINY}/generate", content="a seven", headers={"Content-Type": "text/plain"})
    assert plain.status_code == 415
    for options in ({}, {"stream": True}, {"attention": "raw"}):
        broken = post(client, content=b"no image", **options)
        assert (broken.status_code, broken.json()["detail"][:14]) == (415, "image: must be")
    assert post(client, "classify").status_code == 404
    two = client.post(f"{TINY}/generate", files=[("image", SENT[0]), ("image", SENT[1])], data={"stream": "true"})
    assert (two.status_code, two.json()["detail"]) == (422, "stream: takes one input, given 2")
    large = post(client, "attention", content=encoded(np.zeros((3000, 3000), np.uint8)), format="png")
    assert (large.status_code, large.json()["detail"][:32]) == (413, "png: at most 16000000 pixels, th")
    assert post(client, content=SENT[0][:60]).status_code in (415, 422)
