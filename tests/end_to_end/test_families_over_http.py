"""Checkpoints of every family, exported and served: what a client gets is what the reference library computes."""

import functools
import io
import itertools
import json
import random
import warnings

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer

from tests.conftest import served
from tests.samples.checkpoints import CASES, WORDS, reference
from tests.samples.documented import Documented

transformers.logging.set_verbosity_error()
TOLERANCE = 1e-4
TEXTS = [
    "good",
    "the old cat sat on the mat.",
    "Ünï-cödé äöü ß 123",
    "a bird ran to the blue house and was not good, not bad",
]


@pytest.fixture(scope="module")
def client(families):
    with served(families / "artifacts") as client:
        yield client


def post(client, name, endpoint, **body):
    answer = client.post(f"/v1/models/{name}/{endpoint}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def of_task(*tasks):
    return [name for name, case in CASES.items() if case.task in tasks]


def tokens(families, name, text, pair=None):
    tokenizer = Tokenizer.from_file(str(families / "checkpoints" / name / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer, tokenizer.encode(text, pair)


def test_answers_have_the_fields_that_the_openapi_document_names(client):
    documented = Documented(client)
    for name, endpoint in (
        *((name, "classify") for name in of_task("text-classification")),
        *((name, "embed") for name in of_task("feature-extraction")),
        *((name, "fill-mask") for name in of_task("fill-mask")),
    ):
        model = documented.check(client.get(f"/v1/models/{name}")).json()
        if "max_tokens" in model["inputs"]:
            body = {"inputs": f"the cat {model['inputs'].get('mask', 'sat')}", "attention": {"method": "raw"}}
            documented.check(client.post(f"/v1/models/{name}/{endpoint}", json=body))
        if endpoint == "classify":
            pair = {"text": "the cat", "text_pair": "sat"}
            for path, asked in (
                (endpoint, {"inputs": pair, "attention": {}}),
                ("attention", {"inputs": [pair], "attention": {"queries": "all"}}),
                ("tei/predict", {"inputs": ["the cat", "sat"]}),
            ):
                documented.check(client.post(f"/v1/models/{name}/{path}", json=asked))
            documented.check(client.get(f"/v1/models/{name}/tei/info"))


# Images


@pytest.fixture(scope="module")
def photograph():
    skimage = pytest.importorskip("skimage")
    return Image.fromarray(skimage.data.astronaut()).resize((90, 60))


@pytest.mark.parametrize("name", of_task("image-classification", "feature-extraction"))
def test_an_image_is_prepared_and_predicted_as_by_the_reference_library(client, families, photograph, name):
    folder = families / "checkpoints" / name
    if not (folder / "preprocessor_config.json").exists():
        pytest.skip("reads text")
    config = json.loads((folder / "preprocessor_config.json").read_text())
    kind = config["image_processor_type"].replace("FeatureExtractor", "ImageProcessor") + "Pil"
    if name == "vit-larger":
        config["size"] = {"height": 16, "width": 16}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        process = getattr(transformers, kind)(
            **{key: value for key, value in config.items() if not key.endswith("type")}
        )
        pixels = torch.tensor(np.stack(process(photograph)["pixel_values"]), dtype=torch.float64)
    more = {"interpolate_pos_encoding": True} if name == "vit-larger" else {}
    with torch.no_grad():
        out = reference(folder)(pixels, output_attentions=True, **more)
    file = io.BytesIO()
    photograph.save(file, "PNG")
    endpoint = "classify" if CASES[name].task == "image-classification" else "embed"
    query = {"attention": "raw", "layers": "all", "heads": "all", "queries": "all", "digits": 7}
    answer = client.post(f"/v1/models/{name}/{endpoint}", params=query, files={"image": file.getvalue()})
    assert answer.status_code == 200, answer.text
    (result,) = answer.json()["results"]
    if endpoint == "embed":
        assert np.abs(np.array(result["embedding"]) - out.pooler_output[0].numpy()).max() < TOLERANCE
    else:
        many = json.loads((folder / "config.json").read_text()).get("problem_type") == "multi_label_classification"
        wanted = out.logits.sigmoid() if many else out.logits.softmax(-1)
        given = {label["label"]: label["probability"] for label in result["labels"]}
        assert given == {
            label: pytest.approx(float(wanted[0, i]), abs=TOLERANCE) for i, label in enumerate(("cat", "dog", "bird"))
        }
        assert list(given.values()) == sorted(given.values(), reverse=True)
    for shown, maps in zip(result["attention"]["maps"], out.attentions, strict=True):
        assert np.abs(np.array(shown["values"]) - maps[0].numpy()).max() < TOLERANCE


# Texts


@pytest.mark.parametrize("name", of_task("text-classification"))
def test_texts_and_pairs_are_classified_as_by_the_reference_library(client, families, name):
    model = reference(families / "checkpoints" / name)
    inputs = [*TEXTS, {"text": TEXTS[1], "text_pair": TEXTS[0]}, {"text": "", "text_pair": TEXTS[3]}]
    look = {"layers": "all", "heads": "all", "queries": "all", "digits": 7}
    results = post(client, name, "classify", inputs=inputs, attention=look)
    for given, result in zip(inputs, results, strict=True):
        texts = (given["text"], given["text_pair"]) if isinstance(given, dict) else (given,)
        _, encoding = tokens(families, name, *texts)
        types = {"token_type_ids": torch.tensor([encoding.type_ids])} if name == "bert" else {}
        with torch.no_grad():
            out = model(torch.tensor([encoding.ids]), output_attentions=True, **types)
        wanted = out.logits.sigmoid() if name == "roberta" else out.logits.softmax(-1)
        found = {label["index"]: label["probability"] for label in result["labels"]}
        assert found == {i: pytest.approx(float(wanted[0, i]), abs=TOLERANCE) for i in range(3)}
        for shown, maps in zip(result["attention"]["maps"], out.attentions, strict=True):
            assert np.abs(np.array(shown["values"]) - maps[0].numpy()).max() < TOLERANCE
        source = result["attention"]["tokens"]["source"]
        assert [token["span"] for token in source] == [
            None if special else list(span)
            for span, special in zip(encoding.offsets, encoding.special_tokens_mask, strict=True)
        ]
        if isinstance(given, dict):
            assert [token.get("sequence") for token in source] == encoding.sequence_ids


@pytest.mark.parametrize("name", of_task("fill-mask"))
def test_masks_are_filled_as_by_the_reference_library(client, families, name):
    model = reference(families / "checkpoints" / name)
    mask = "<mask>" if name == "roberta-mask" else "[MASK]"
    texts = [f"the {mask} sat on the mat", f"{mask} and {mask}", f"a good {mask}."]
    results = post(client, name, "fill-mask", inputs=texts, top_k=4)
    for text, result in zip(texts, results, strict=True):
        tokenizer, encoding = tokens(families, name, text)
        with torch.no_grad():
            out = model(torch.tensor([encoding.ids]))
        logits = out.prediction_logits if hasattr(out, "prediction_logits") else out.logits
        places = [place for place, index in enumerate(encoding.ids) if index == tokenizer.token_to_id(mask)]
        assert len(result["candidates"]) == len(places) == text.count(mask)
        for place, candidates in zip(places, result["candidates"], strict=True):
            best = logits[0, place].softmax(-1).topk(4)
            assert [one["token"] for one in candidates] == best.indices.tolist()
            assert [one["probability"] for one in candidates] == pytest.approx(best.values.tolist(), abs=TOLERANCE)
            assert [one["text"] for one in candidates] == [tokenizer.decode([one["token"]]) for one in candidates]


@pytest.mark.parametrize("name", ["bert-features", "distilbert-features", "roberta-features"])
def test_texts_are_embedded_as_their_folder_declares(client, families, name):
    model = reference(families / "checkpoints" / name)
    results = post(client, name, "embed", inputs=TEXTS)
    for text, result in zip(TEXTS, results, strict=True):
        _, encoding = tokens(families, name, text)
        with torch.no_grad():
            states = model(torch.tensor([encoding.ids])).last_hidden_state[0]
        wanted = {
            "bert-features": states.sum(0) / len(states) ** 0.5,
            "distilbert-features": states.amax(0),
            "roberta-features": states.mean(0),
        }[name]
        wanted = wanted if name == "roberta-features" else wanted / wanted.norm()
        assert np.abs(np.array(result["embedding"]) - wanted.numpy()).max() < TOLERANCE


def test_the_answer_for_a_text_is_the_same_alone_or_in_any_batch(client):
    together = post(client, "bert-features", "embed", inputs=TEXTS * 4)
    for place, text in enumerate(TEXTS):
        (alone,) = post(client, "bert-features", "embed", inputs=text)
        for copy in together[place :: len(TEXTS)]:
            assert np.abs(np.subtract(alone["embedding"], copy["embedding"])).max() < 1e-6


def test_a_text_that_is_too_long_is_refused_or_cut_as_the_reference_library_cuts(client, families):
    long = "cat " * 50
    answer = client.post("/v1/models/bert/classify", json={"inputs": long})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "input: at most 40 tokens, given 52"
    (cut,) = post(client, "bert", "classify", inputs=long, truncate=True)
    (short,) = post(client, "bert", "classify", inputs="cat " * 38)
    assert cut == short


@pytest.mark.parametrize(
    ("name", "endpoint", "body", "words"),
    [
        ("bert-mask", "fill-mask", {"inputs": "no mask"}, "input: must hold [MASK] 1 to 64 times, given 0"),
        (
            "bert-features",
            "embed",
            {"inputs": {"text": "a", "text_pair": "b"}},
            "text_pair: is for text-classification",
        ),
        ("bart", "generate", {"inputs": {"text": "a", "text_pair": "b"}}, "text_pair: is for text-classification"),
        ("bert", "classify", {"inputs": {"text": "a"}}, "inputs: must be a string or a list of strings, or of pairs"),
        ("bert", "classify", {"inputs": ["a", 1]}, "inputs: must be a string or a list of strings, or of pairs"),
        (
            "vit",
            "classify",
            {"images": ["aGk="], "truncate": True},
            "options: unknown option; known are attention, priority, top_k",
        ),
        ("bert", "classify", {"inputs": "a", "top_k": 0}, "top_k"),
        ("gpt2", "generate", {"inputs": "the " * 60}, "input: at most"),
        (
            "gpt2",
            "generate",
            {"inputs": "the cat", "max_new_tokens": 47},
            "max_new_tokens: at most 45 behind an input of 3",
        ),
    ],
)
def test_what_a_model_cannot_answer_is_refused_in_words(client, name, endpoint, body, words):
    answer = client.post(f"/v1/models/{name}/{endpoint}", json=body)
    assert answer.status_code == 422, answer.text
    assert words in answer.json()["detail"]


def test_an_endpoint_of_another_task_is_refused_with_those_it_serves(client):
    answer = client.post("/v1/models/bert/embed", json={"inputs": "a"})
    assert answer.status_code == 404
    assert answer.json()["detail"] == "embed: this model's task is text-classification; it serves classify, attention"


# Generation


def sentences(count, seed, words=None):
    draw = random.Random(seed)
    words = words or WORDS.split()
    return [" ".join(draw.choices(words, k=draw.randint(1, 7))) for _ in range(count)]


MARIAN_WORDS = "the old house dog teacher river sees opens quietly a garden today slowly".split()
ASKED = [{}, {"num_beams": 1}, {"num_beams": 4, "length_penalty": 2.0, "max_new_tokens": 9}]


OTHERS = ("gpt2-untied", "marian-apart", "bart-before")
"""Of whose families another is generated from by default."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in OTHERS else ())
        for name in of_task("text-generation", "text2text-generation")
    ],
)
def test_generation_is_the_reference_library_s_token_for_token(client, families, name):
    """50 inputs each: with the checkpoint's own rules and defaults, greedy, and with beams and a penalty asked for."""
    model = reference(families / "checkpoints" / name)
    continues = CASES[name].task == "text-generation"
    end = model.generation_config.eos_token_id
    found = set()
    for number, asked in enumerate(ASKED):
        texts = sentences(50, number, MARIAN_WORDS if "marian" in name else None)
        halves = [post(client, name, "generate", inputs=texts[half], **asked) for half in (slice(25), slice(25, 50))]
        for text, result in zip(texts, itertools.chain(*halves), strict=True):
            source = torch.tensor([encoded(families, name, text)])
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                more = {} if continues else {"attention_mask": torch.ones_like(source)}
                out = model.generate(source, **asked, **more, **({"pad_token_id": 1} if continues else {}))[0].tolist()
            wanted = out[source.shape[1] :] if continues else out[1:]
            wanted = wanted[: wanted.index(end)] if end in wanted else wanted
            assert [token["token"] for token in result["tokens"]] == wanted, (asked, text)
            assert result["finish_reason"] in ("stop", "length")
            assert result["text"] == said(families, name, wanted)
            found.add(tuple(wanted))
    assert len(found) > 30  # a model that always says the same would prove little


def said(families, name, indices):
    if "marian" not in name:
        return tokens(families, name, "")[0].decode(indices, skip_special_tokens=True)
    return marian(families, name).decode(indices, skip_special_tokens=True)


@functools.cache
def marian(families, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return transformers.MarianTokenizer.from_pretrained(families / "checkpoints" / name)


def encoded(families, name, text):
    if "marian" not in name:
        return tokens(families, name, text)[1].ids
    return marian(families, name)(text)["input_ids"]


@pytest.mark.parametrize("name", of_task("text-generation", "text2text-generation"))
def test_attention_of_a_generated_text_is_that_of_one_forward_pass_over_it(client, families, name):
    model = reference(families / "checkpoints" / name)
    continues = CASES[name].task == "text-generation"
    text = "the old house"
    look = {"layers": "all", "heads": "all", "queries": "all", "digits": 7}
    (result,) = post(client, name, "generate", inputs=text, max_new_tokens=6, num_beams=1, attention=look)
    source = torch.tensor([encoded(families, name, text)])
    made = [token["token"] for token in result["tokens"]]
    fed = made if result["finish_reason"] == "stop" else made[:-1]
    with torch.no_grad():
        if continues:
            out = model(torch.cat((source, torch.tensor([fed], dtype=torch.long)), 1), output_attentions=True)
            kinds = {"decoder": out.attentions}
        else:
            start = model.generation_config.decoder_start_token_id
            out = model(source, decoder_input_ids=torch.tensor([[start, *fed]]), output_attentions=True)
            kinds = {
                "encoder": out.encoder_attentions,
                "decoder": out.decoder_attentions,
                "cross": out.cross_attentions,
            }
    shown = result["attention"]["maps"]
    assert [(one["kind"], one["layer"]) for one in shown] == [
        (kind, layer) for kind, maps in kinds.items() for layer in range(len(maps))
    ]
    for one in shown:
        assert np.abs(np.array(one["values"]) - kinds[one["kind"]][one["layer"]][0].numpy()).max() < TOLERANCE
    axes = result["attention"]["tokens"]
    keys = len(kinds["decoder"][0][0, 0])
    assert len(axes["target"]) == len(axes["target_input"]) == keys
    if continues:  # places count through the text that was sent and the one that continues it
        whole = text + result["text"]
        assert (
            "".join(whole[slice(*token["span"])] for token in axes["target_input"])
            == whole[: axes["target_input"][-1]["span"][1]]
        )


def test_a_stream_of_tokens_makes_the_text(client):
    body = {"inputs": "the old house", "stream": True, "num_beams": 1}
    for name in ("gpt2", "bart", "marian"):
        answer = client.post(f"/v1/models/{name}/generate", json=body)
        events = [event.split("\n") for event in answer.text.strip().split("\n\n")]
        done = json.loads(events[-1][1].removeprefix("data: "))["results"][0]
        said = [json.loads(data.removeprefix("data: ")) for kind, data in events[:-1]]
        assert [one["token"] for one in said] == [one["token"] for one in done["tokens"]]
        assert done["text"].startswith("".join(one["text"] for one in said).rstrip("�"))


@pytest.mark.parametrize("name", CASES)
def test_the_examples_of_a_checkpoint_are_answered(client, name):
    model = client.get(f"/v1/models/{name}").json()
    assert bool(model["examples"]) == ("max_tokens" in model["inputs"])  # none suit every model of images
    assert (model["about"], model["order"]) == (None, 100)
    for example in model["examples"]:
        assert post(client, name, model["endpoints"][0], inputs=list(example.values()))


def test_a_model_says_what_it_takes_and_what_it_answers(client):
    listed = {one["name"]: one for one in client.get("/v1/models").json()["models"]}
    assert listed.keys() == CASES.keys()
    assert listed["bert"]["inputs"] == {"max_tokens": 40}
    assert listed["bert"]["labels"] == ["cat", "dog", "bird"]
    assert listed["bert-mask"]["inputs"] == {"max_tokens": 40, "mask": "[MASK]"}
    assert listed["bert-mask"]["endpoints"] == ["fill-mask", "attention"]
    assert listed["dinov2-features"]["endpoints"] == ["embed", "attention"]
    assert listed["dinov2-registers"]["attention"]["kinds"]["encoder"]["prefix"] == 4
    assert listed["gpt2"]["attention"]["kinds"].keys() == {"decoder"}
