"""Calls by `huggingface_hub`: each fails with an AssertionError. They know nothing of the service but its address.

A service is any object with the attributes `url`, `picture` (the path of a PNG of a digit 7), `scene` (of one of some
objects), `sound` (of a WAV file), and the names of models: `embeddings`, `seq2seq`, `causal`, `images`, `objects`,
`masks`, `classifier`, `extractor`, `entailment`, `speech`, each None where there is no such model; and `chat`.
"""

import asyncio
import base64
import functools
import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from huggingface_hub import AsyncInferenceClient, InferenceClient
from huggingface_hub.errors import HfHubHTTPError, ValidationError

E = TypeVar("E", bound=Exception)


class Service(Protocol):
    """A running service and the names of its models."""

    url: str
    embeddings: str | None
    seq2seq: str | None
    causal: str | None
    images: str | None
    objects: str | None
    masks: str | None
    tags: str | None
    classifier: str | None
    extractor: str | None
    entailment: str | None
    speech: str | None
    chat: str
    labels: str | None
    picture: str
    coloured: str
    scene: str
    sound: str


SENTENCES = ["A cat sits on the mat.", "A feline rests on the rug.", "Interest rates rose again."]
PROMPT = "the 3rd of"
DATE = "the 23rd of March 2021"


def address(service: Service, model: str, beneath: str = "") -> str:
    """Return the address of a model."""
    return f"{service.url}/v1/models/{model}{beneath}"


def client(service: Service, model: str, beneath: str = "") -> InferenceClient:
    """Return a client of a model."""
    return InferenceClient(model=address(service, model, beneath), provider="hf-inference")


def native(service: Service, model: str, endpoint: str, **body: object) -> list[dict]:
    """Return what the service's own endpoint answers."""
    request = urllib.request.Request(
        address(service, model, f"/{endpoint}"), json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["results"]


def raised(kind: type[E], call: Callable[..., object], *arguments: object, **options: object) -> E:
    """Return the error that a call raises."""
    try:
        call(*arguments, **options)
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")


def needs_extractor(call: Callable[[Service], None]) -> Callable[[Service], None]:
    """Make a call do nothing where there is no model that answers questions."""

    @functools.wraps(call)
    def called(service: Service) -> None:
        if service.extractor is not None:
            call(service)

    return called


def needs_classifier(call: Callable[[Service], None]) -> Callable[[Service], None]:
    """Make a call do nothing where there is no classifier of texts."""

    @functools.wraps(call)
    def called(service: Service) -> None:
        if service.classifier is not None:
            call(service)

    return called


def mask_of(service: Service) -> str:
    """Return the mask of the model that fills them."""
    with urllib.request.urlopen(address(service, service.masks)) as answer:
        return json.load(answer)["inputs"]["mask"]


def image_classification_of_a_path(service: Service) -> None:
    """InferenceClient(...).image_classification(path)."""
    found = client(service, service.images).image_classification(service.picture)
    assert len(found) == 5
    assert found[0].label == "7"
    assert found[0].score > 0.5
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def image_classification_of_bytes_with_top_k(service: Service) -> None:
    """InferenceClient(...).image_classification(bytes, top_k=2)."""
    found = client(service, service.images).image_classification(Path(service.picture).read_bytes(), top_k=2)
    assert [one.label for one in found][:1] == ["7"]
    assert len(found) == 2


def image_classification_of_a_file_as_logits(service: Service) -> None:
    """InferenceClient(...).image_classification(file, top_k=1000, function_to_apply="none")."""
    model, picture = client(service, service.images), Path(service.picture).read_bytes()
    logits = {one.label: one.score for one in model.image_classification(picture, top_k=9, function_to_apply="none")}
    chances = {one.label: one.score for one in model.image_classification(picture, top_k=9)}
    assert logits.keys() == chances.keys()
    for label, chance in chances.items():
        expected = np.log(chance / chances["7"])
        assert abs(logits[label] - logits["7"] - expected) < 1e-4, label


def object_detection(service: Service) -> None:
    """InferenceClient(...).object_detection(path), and with a threshold."""
    model = client(service, service.objects)
    sent = base64.b64encode(Path(service.scene).read_bytes()).decode()
    for options in ({}, {"threshold": 0.3}, {"threshold": 1.0}):
        found = model.object_detection(service.scene, **options)
        (wanted,) = native(service, service.objects, "detect", images=[sent], **options)
        assert [(one.label, one.score) for one in found] == [
            (one["label"], one["probability"]) for one in wanted["objects"]
        ]
        for one, other in zip(found, wanted["objects"], strict=True):
            edges = (one.box.xmin, one.box.ymin, one.box.xmax, one.box.ymax)
            for edge, exact in zip(edges, other["box"].values(), strict=True):
                assert type(edge) is int
                assert abs(edge - exact) < 1.01, (edge, exact)  # cut off, not rounded
        assert found or options.get("threshold") == 1
    refused = raised(HfHubHTTPError, model.object_detection, service.scene, threshold=2)
    assert refused.response.json()["error"].startswith("threshold: ")


def image_to_text_is_refused_by_a_classifier_of_images(service: Service) -> None:
    """InferenceClient(...).image_to_text(b"no image") of bytes without a type."""
    refused = raised(HfHubHTTPError, client(service, service.images).image_to_text, b"no image")
    assert refused.response.status_code == 415
    assert refused.response.json()["error_type"] == "validation"


@needs_classifier
def text_classification(service: Service) -> None:
    """InferenceClient(...).text_classification(text, top_k=2)."""
    found = client(service, service.classifier).text_classification("not bad at all", top_k=2)
    (expected,) = native(service, service.classifier, "classify", inputs="not bad at all", top_k=2)
    assert [one.label for one in found] == [one["label"] for one in expected["labels"]]
    for one, other in zip(found, expected["labels"], strict=True):
        assert one.score == other.get("probability", other.get("score"))


@needs_classifier
def text_classification_with_a_function(service: Service) -> None:
    """InferenceClient(...).text_classification(text, function_to_apply="sigmoid")."""
    model = client(service, service.classifier)
    logits = {one.label: one.score for one in model.text_classification("fine", function_to_apply="none")}
    for label in model.text_classification("fine", function_to_apply="sigmoid"):
        assert abs(label.score - 1 / (1 + np.exp(-logits[label.label]))) < 1e-6


def token_classification(service: Service) -> None:
    """InferenceClient(...).token_classification(text)."""
    text = "We met on Tuesday, 23 March 2021."
    found = client(service, service.tags).token_classification(text)
    (expected,) = native(service, service.tags, "tag", inputs=text)
    assert [(one.entity_group, one.start, one.end, one.score) for one in found] == [
        (one["label"], one["start"], one["end"], one["probability"]) for one in expected["entities"]
    ]
    assert found


def token_classification_by_strategy(service: Service) -> None:
    """InferenceClient(...).token_classification(text, aggregation_strategy="none", ignore_labels=["O", "DAY"])."""
    model, text = client(service, service.tags), "23 March"
    found = model.token_classification(text, aggregation_strategy="none", ignore_labels=["O", "DAY"], stride=0)
    (expected,) = native(service, service.tags, "tag", inputs=text, aggregate="none", ignore=["O", "DAY"])
    assert [(one.entity, one.score) for one in found] == [
        (one["label"], one["probability"]) for one in expected["entities"]
    ]
    refused = raised(HfHubHTTPError, model.token_classification, text, aggregation_strategy="none", stride=8)
    assert refused.response.status_code == 422
    assert refused.response.json()["error"].startswith("stride: ")


def zero_shot_classification(service: Service) -> None:
    """InferenceClient(...).zero_shot_classification(text, labels, multi_label=..., hypothesis_template=...)."""
    if service.entailment is None:
        model, labels = client(service, service.embeddings), ["animals", "money"]
        refused = raised(HfHubHTTPError, model.zero_shot_classification, SENTENCES[0], labels)
        assert refused.response.status_code == 422
        return
    for multi_label in (False, True):
        asked = {"multi_label": multi_label, "hypothesis_template": "It is about {}."}
        found = client(service, service.entailment).zero_shot_classification(SENTENCES[0], ["cats", "money"], **asked)
        body = {"labels": ["cats", "money"], "multi_label": multi_label, "template": "It is about {}."}
        (expected,) = native(service, service.entailment, "classify", inputs=SENTENCES[0], **body)
        assert [one.label for one in found] == [one["label"] for one in expected["labels"]]
        assert [one.score for one in found] == [one["probability"] for one in expected["labels"]]


def zero_shot_image_classification(service: Service) -> None:
    """InferenceClient(...).zero_shot_image_classification(path, labels, hypothesis_template=...)."""
    labels, template = ["a red seven", "a blue two", "a green four"], "{}"
    found = client(service, service.labels).zero_shot_image_classification(
        service.coloured, labels, hypothesis_template=template
    )
    picture = base64.b64encode(Path(service.coloured).read_bytes()).decode()
    (wanted,) = native(service, service.labels, "classify", images=[picture], labels=labels, template=template)
    assert [one.label for one in found] == [one["label"] for one in wanted["labels"]]
    assert [one.score for one in found] == [one["probability"] for one in wanted["labels"]]
    assert {one.label for one in found[:2]} == set(labels[:2])


def fill_mask(service: Service) -> None:
    """InferenceClient(...).fill_mask(text, top_k=3)."""
    mask = mask_of(service)
    found = client(service, service.masks).fill_mask(f"2021-0{mask}-23", top_k=3)
    (expected,) = native(service, service.masks, "fill-mask", inputs=f"2021-0{mask}-23", top_k=3)
    assert [one.token for one in found] == [one["token"] for one in expected["candidates"][0]]
    for label in found:
        assert label.sequence == f"2021-0{label.token_str.removeprefix('##')}-23"


def fill_mask_with_targets(service: Service) -> None:
    """InferenceClient(...).fill_mask(text, targets=[...])."""
    model, text = client(service, service.masks), f"2021-0{mask_of(service)}-23"
    all_tokens = {one.token_str: one.score for one in model.fill_mask(text, top_k=1000)}
    targets = list(all_tokens)[:2]
    found = model.fill_mask(text, targets=targets[::-1])
    assert [one.token_str for one in found] == targets
    assert all(one.score == all_tokens[one.token_str] for one in found)


def feature_extraction(service: Service) -> None:
    """InferenceClient(...).feature_extraction(text)."""
    found = client(service, service.embeddings).feature_extraction(SENTENCES[0])
    (expected,) = native(service, service.embeddings, "embed", inputs=SENTENCES[0])
    assert found.shape == (1, len(expected["embedding"]))
    assert np.allclose(found[0], expected["embedding"], rtol=0, atol=1e-6)


def feature_extraction_of_a_list(service: Service) -> None:
    """InferenceClient(...).feature_extraction([...], normalize=True, truncate=True, truncation_direction="right")."""
    found = client(service, service.embeddings).feature_extraction(
        [*SENTENCES, "word " * 5000], normalize=True, truncate=True, truncation_direction="right"
    )
    assert len(found) == 4
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)


def feature_extraction_with_a_prompt_is_refused(service: Service) -> None:
    """InferenceClient(...).feature_extraction(text, prompt_name="query")."""
    model = client(service, service.embeddings)
    refused = raised(HfHubHTTPError, model.feature_extraction, SENTENCES[0], prompt_name="query")
    assert refused.response.status_code == 422
    assert refused.response.json()["error"].startswith("prompt_name: ")


def sentence_similarity(service: Service) -> None:
    """InferenceClient(...).sentence_similarity(sentence, other_sentences)."""
    near, far = client(service, service.embeddings).sentence_similarity(SENTENCES[0], SENTENCES[1:])
    assert -1 <= far < near <= 1


def translation(service: Service) -> None:
    """InferenceClient(...).translation(text)."""
    (expected,) = native(service, service.seq2seq, "generate", inputs=DATE)
    assert client(service, service.seq2seq).translation(DATE).translation_text == expected["text"]


def summarization(service: Service) -> None:
    """InferenceClient(...).summarization(text, generate_parameters={"num_beams": 4})."""
    (expected,) = native(service, service.seq2seq, "generate", inputs=DATE, num_beams=4)
    found = client(service, service.seq2seq).summarization(DATE, generate_parameters={"num_beams": 4})
    assert found.summary_text == expected["text"]


def text_generation(service: Service) -> None:
    """InferenceClient(...).text_generation(prompt, max_new_tokens=6, return_full_text=True)."""
    (expected,) = native(service, service.causal, "generate", inputs=PROMPT, max_new_tokens=6)
    found = client(service, service.causal).text_generation(PROMPT, max_new_tokens=6, return_full_text=True)
    assert found == PROMPT + expected["text"]


def text_generation_with_details(service: Service) -> None:
    """InferenceClient(...).text_generation(prompt, max_new_tokens=4, details=True)."""
    found = client(service, service.causal).text_generation(PROMPT, max_new_tokens=4, details=True)
    assert found.details.generated_tokens == len(found.details.tokens) <= 4
    assert "".join(token.text for token in found.details.tokens) == found.generated_text
    assert all(token.logprob <= 0 for token in found.details.tokens)


def streamed_text_generation(service: Service) -> None:
    """InferenceClient(...).text_generation(prompt, stream=True, do_sample=True, temperature=0.8, seed=7)."""
    options = {"max_new_tokens": 8, "do_sample": True, "temperature": 0.8, "seed": 7}
    model = client(service, service.causal)
    assert "".join(model.text_generation(PROMPT, stream=True, **options)) == model.text_generation(PROMPT, **options)


def streamed_text_generation_with_details(service: Service) -> None:
    """InferenceClient(...).text_generation(prompt, stream=True, details=True) of a model with an encoder."""
    model = client(service, service.seq2seq)
    whole = model.text_generation(DATE, details=True)
    *early, last = model.text_generation(DATE, stream=True, details=True)
    assert all(one.generated_text is None and one.details is None for one in early)
    assert last.generated_text == whole.generated_text
    assert last.details.finish_reason == whole.details.finish_reason
    assert last.details.generated_tokens == whole.details.generated_tokens
    assert [one.token.id for one in (*early, last)] == [token.id for token in whole.details.tokens]


@needs_extractor
def question_answering(service: Service) -> None:
    """InferenceClient(...).question_answering(question=, context=, top_k=, ...): an element, or a list of several."""
    model, asked = client(service, service.extractor), {"question": "the cat", "context": "a cat sat on the old mat"}
    (expected,) = native(service, service.extractor, "answer", inputs=asked, top_k=3)
    several = model.question_answering(**asked, top_k=3, align_to_words=False, max_answer_len=15, doc_stride=8)
    wanted = [(one["text"], one["start"], one["end"]) for one in expected["answers"]]
    assert [(one.answer, one.start, one.end) for one in several] == wanted
    best = model.question_answering(**asked)
    assert best.answer == asked["context"][best.start : best.end]
    assert 0 < best.score <= 1
    possible = model.question_answering(**asked, handle_impossible_answer=True, top_k=100)
    assert "" in [one.answer for one in possible]
    assert "max_question_len" in str(raised(HfHubHTTPError, model.question_answering, **asked, max_question_len=9))


def automatic_speech_recognition(service: Service) -> None:
    """InferenceClient(...).automatic_speech_recognition(path or bytes, extra_body={"return_timestamps": ...})."""
    model = client(service, service.speech)
    assert model.automatic_speech_recognition(service.sound).text
    data = Path(service.sound).read_bytes()
    sure = {"generation_parameters": {"temperature": 1e-6, "language": "german"}}
    for timestamps in (True, "word"):
        found = model.automatic_speech_recognition(data, extra_body={**sure, "return_timestamps": timestamps})
        assert found.text
        assert all(one.text.strip() for one in found.chunks)
        assert all(0 <= one.timestamp[0] <= one.timestamp[1] for one in found.chunks)
    fault = raised(HfHubHTTPError, model.automatic_speech_recognition, data, extra_body={"top_k": 3})
    assert "top_k: is not served" in str(fault)


def text_generation_that_is_refused(service: Service) -> None:
    """InferenceClient(...).text_generation(prompt, frequency_penalty=1.2)."""
    model = client(service, service.causal)
    assert str(raised(ValidationError, model.text_generation, PROMPT, frequency_penalty=1.2)).startswith("frequency_")


def chat_completion(service: Service) -> None:
    """InferenceClient(base_url=.../v1).chat_completion([...], model=...), whole and with stream=True."""
    model, asked = InferenceClient(base_url=f"{service.url}/v1"), [{"role": "user", "content": "good dog"}]
    options = {"model": service.chat, "max_tokens": 8, "temperature": 1.3, "seed": 5}
    answer = model.chat_completion(asked, **options)
    assert answer.usage.completion_tokens
    parts = model.chat_completion(asked, **options, stream=True)
    assert "".join(part.choices[0].delta.content or "" for part in parts) == answer.choices[0].message.content


def endpoint_info_and_health(service: Service) -> None:
    """InferenceClient(...).get_endpoint_info() and .health_check(), at the model and beneath it."""
    for beneath in ("", "/tei"):
        model = client(service, service.embeddings, beneath)
        assert model.get_endpoint_info()["model_id"] == service.embeddings
        assert model.health_check()


def async_client(service: Service) -> None:
    """AsyncInferenceClient(...).feature_extraction([...]) beneath /tei, and .text_generation(..., stream=True)."""

    async def call() -> None:
        async with AsyncInferenceClient(model=address(service, service.embeddings, "/tei")) as model:
            found = await model.feature_extraction(SENTENCES)
            assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
        async with AsyncInferenceClient(model=address(service, service.seq2seq)) as model:
            stream = await model.text_generation(DATE, stream=True)
            assert "".join([text async for text in stream]) == await model.text_generation(DATE)

    asyncio.run(call())


CALLS: list[Callable[[Service], None]] = [
    one for one in list(vars().values()) if getattr(one, "__annotations__", 0) == {"service": Service, "return": None}
]
"""All of the above that take a service and return nothing."""
