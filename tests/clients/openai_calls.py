"""What people call of the `openai` package: each function makes one call and raises AssertionError if it is not right.

The calls run in an environment of their own, with nothing but the standard library, numpy and openai.
"""

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import openai

DATE, WRITTEN = "3 May 2021", "2021-05-03"
"""What the model of dates is given, and what it makes of it."""
MOST = 8
"""The most tokens of a completion."""


class Service(Protocol):
    """A service that runs, and the names of models that it has; None where it has none of a kind."""

    url: str
    embeddings: str | None
    seq2seq: str | None
    causal: str | None
    chat: str
    images: str | None
    labels: str | None
    coloured: str
    masks: str | None
    classifier: str | None
    speech: str | None
    sound: str


def connect(service: Service) -> openai.OpenAI:
    """Return a client as people make one; it does not try again, so that a failure is seen."""
    return openai.OpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0)


def refused(kind: type[openai.APIStatusError], create: Callable[..., Any], **options: Any) -> openai.APIStatusError:
    """Return the error that a call raises, which must be of a class."""
    try:
        create(**options)
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def names(error: openai.APIStatusError, parameter: str | None, code: str | None = None) -> bool:
    """Return whether an error names a parameter and a code."""
    return (error.type, error.param, error.code) == ("invalid_request_error", parameter, code)


def vectors(answer: Any) -> np.ndarray:
    """Return the embeddings of an answer, checked for what all of them have."""
    found = np.array([one.embedding for one in answer.data], np.float32)
    assert [one.index for one in answer.data] == list(range(len(found)))
    assert np.isfinite(found).all()
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 0
    return found


def embed_one(service: Service) -> None:
    """`client.embeddings.create(model=..., input="hello")`, which asks for base64."""
    found = vectors(connect(service).embeddings.create(model=service.embeddings, input="hello"))
    assert found.shape[0] == 1
    assert found.shape[1] > 1


def embed_as_floats(service: Service) -> None:
    """`client.embeddings.create(..., encoding_format="float")` gives the same numbers."""
    create = connect(service).embeddings.create
    floats = vectors(create(model=service.embeddings, input="hello", encoding_format="float"))
    assert (floats == vectors(create(model=service.embeddings, input="hello"))).all()


def embed_several(service: Service) -> None:
    """`client.embeddings.create(..., input=["a cat", "a kitten", "a tax return"])`, in this order."""
    create = connect(service).embeddings.create
    texts = ["a cat", "a kitten", "a tax return"]
    found = vectors(create(model=service.embeddings, input=texts))
    cat, kitten, tax = found / np.linalg.norm(found, axis=1, keepdims=True)
    assert cat @ kitten > cat @ tax
    alone = vectors(create(model=service.embeddings, input=texts[2]))
    assert np.allclose(found[2:], alone, atol=1e-5)


def embed_with_dimensions(service: Service) -> None:
    """`client.embeddings.create(..., dimensions=...)` of fewer, and a refusal of more than there are."""
    create = connect(service).embeddings.create
    (width,) = vectors(create(model=service.embeddings, input="hello"))[0].shape
    assert vectors(create(model=service.embeddings, input="hello", dimensions=width, user="me")).shape == (1, width)
    whole, cut = (
        vectors(create(model=service.embeddings, input="hello", **asked))[0] for asked in ({}, {"dimensions": 8})
    )
    assert np.allclose(cut, whole[:8] / np.linalg.norm(whole[:8]), atol=1e-5)
    error = refused(openai.BadRequestError, create, model=service.embeddings, input="hello", dimensions=width + 1)
    assert names(error, "dimensions"), error


def embed_token_ids(service: Service) -> None:
    """`client.embeddings.create(..., input=[[15339]])` is refused: the ids are those of another tokenizer."""
    create = connect(service).embeddings.create
    error = refused(openai.BadRequestError, create, model=service.embeddings, input=[[15339]])
    assert names(error, "input"), error


def embed_with_attention(service: Service) -> None:
    """`client.embeddings.create(..., extra_body={"attention": {"method": "raw"}})`."""
    create = connect(service).embeddings.create
    answer = create(model=service.embeddings, input="hello there", extra_body={"attention": {"layers": "all"}})
    maps = answer.data[0].attention["maps"]
    assert len(maps) > 1
    assert np.shape(maps[0]["values"]) == tuple(maps[0]["shape"])
    assert not hasattr(create(model=service.embeddings, input="hello there").data[0], "attention")


def embed_pictures(service: Service) -> None:
    """`client.embeddings.create(..., input=[<data: URL>], extra_body={"modality": "image"})`, as infinity-emb's takes.

    A label that is true of the picture is more like it than one that is not.
    """
    create = connect(service).embeddings.create
    url = "data:image/png;base64," + base64.b64encode(Path(service.coloured).read_bytes()).decode()
    (picture,) = vectors(create(model=service.labels, input=[url], extra_body={"modality": "image"}))
    seven, four = vectors(create(model=service.labels, input=["a red seven", "a green four"]))
    cosines = [picture @ one / np.linalg.norm(picture) / np.linalg.norm(one) for one in (seven, four)]
    assert cosines[0] > cosines[1], cosines
    error = refused(
        openai.BadRequestError, create, model=service.labels, input=["http://127.0.0.1/one.png"],
        extra_body={"modality": "image"},
    )  # fmt: skip
    assert names(error, "input"), error


def embed_asynchronously(service: Service) -> None:
    """`await AsyncOpenAI(...).embeddings.create(...)`, several at a time."""

    async def embed() -> list[np.ndarray]:
        async with openai.AsyncOpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0) as client:
            create = client.embeddings.create
            answers = (create(model=service.embeddings, input=text) for text in ("one", "two", "three"))
            return [vectors(answer) for answer in await asyncio.gather(*answers)]

    one, two, three = asyncio.run(embed())
    assert not np.array_equal(one, two)
    assert not np.array_equal(two, three)


def complete(service: Service) -> None:
    """`client.completions.create(model=..., prompt="3 May 2021")` of a model that turns a text into another."""
    answer = connect(service).completions.create(model=service.seq2seq, prompt=DATE)
    (choice,) = answer.choices
    assert answer.object == "text_completion"
    assert (choice.text, choice.finish_reason, choice.logprobs) == (WRITTEN, "stop", None)
    usage = answer.usage
    assert (usage.completion_tokens, usage.total_tokens) == (10, usage.prompt_tokens + 10)


def complete_by_continuing(service: Service) -> None:
    """`client.completions.create(..., max_tokens=8, temperature=0)` of a model that continues a text."""
    create = connect(service).completions.create
    (choice,) = create(model=service.causal, prompt=DATE, max_tokens=MOST, temperature=0).choices
    (again,) = create(model=service.causal, prompt=DATE, max_tokens=MOST, temperature=0).choices
    assert choice.text == again.text
    assert choice.finish_reason in ("stop", "length")


def complete_several(service: Service) -> None:
    """`client.completions.create(..., prompt=["3 May 2021", "4 June 1999"])`, in this order."""
    answer = connect(service).completions.create(model=service.seq2seq, prompt=[DATE, "4 June 1999"])
    assert [(one.index, one.text) for one in answer.choices] == [(0, WRITTEN), (1, "1999-06-04")]


def complete_with_log_probabilities(service: Service) -> None:
    """`client.completions.create(..., logprobs=1)`: of the tokens that were chosen."""
    (choice,) = connect(service).completions.create(model=service.seq2seq, prompt=DATE, logprobs=1).choices
    found = choice.logprobs
    assert "".join(found.tokens) == choice.text
    assert found.text_offset == list(range(len(WRITTEN)))
    assert len(found.token_logprobs) == len(found.tokens)
    assert all(log <= 0 for log in found.token_logprobs)


def complete_by_sampling(service: Service) -> None:
    """`client.completions.create(..., temperature=1.5, top_p=0.9, seed=7)`: the same seed gives the same text."""
    create = connect(service).completions.create
    options = {"model": service.causal, "prompt": DATE, "max_tokens": MOST, "temperature": 1.5, "top_p": 0.9}
    texts = [create(**options, seed=seed).choices[0].text for seed in (7, 7, 8, 9, 10)]
    assert texts[0] == texts[1]
    assert len(set(texts)) > 1


def complete_as_a_stream(service: Service) -> None:
    """`for chunk in client.completions.create(..., stream=True)`: together, the chunks are the whole answer."""
    create = connect(service).completions.create
    for model in (service.seq2seq, service.causal):
        whole = create(model=model, prompt=DATE, max_tokens=MOST).choices[0]
        chunks = list(create(model=model, prompt=DATE, max_tokens=MOST, stream=True))
        assert len({chunk.id for chunk in chunks}) == 1
        assert "".join(chunk.choices[0].text for chunk in chunks) == whole.text
        reasons = [chunk.choices[0].finish_reason for chunk in chunks]
        assert reasons == [None] * (len(chunks) - 1) + [whole.finish_reason]


def complete_as_a_stream_with_usage(service: Service) -> None:
    """`client.completions.create(..., stream=True, stream_options={"include_usage": True})`."""
    create = connect(service).completions.create
    whole = create(model=service.seq2seq, prompt=DATE)
    *chunks, last = create(
        model=service.seq2seq, prompt=DATE, stream=True, stream_options={"include_usage": True}, logprobs=1
    )
    assert (last.choices, last.usage) == ([], whole.usage)
    assert all(chunk.usage is None for chunk in chunks)
    tokens = [token for chunk in chunks for token in chunk.choices[0].logprobs.tokens]
    assert "".join(tokens) == whole.choices[0].text


def complete_as_an_asynchronous_stream(service: Service) -> None:
    """`async for chunk in await AsyncOpenAI(...).completions.create(..., stream=True)`."""

    async def complete_all() -> str:
        async with openai.AsyncOpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0) as client:
            stream = await client.completions.create(model=service.seq2seq, prompt=DATE, stream=True)
            return "".join([chunk.choices[0].text async for chunk in stream])

    assert asyncio.run(complete_all()) == WRITTEN


def complete_with_attention(service: Service) -> None:
    """`client.completions.create(..., extra_body={"attention": {"kind": "cross"}})`, whole and as a stream."""
    create = connect(service).completions.create
    options = {"model": service.seq2seq, "prompt": DATE, "extra_body": {"attention": {"kind": "cross"}}}
    (choice,) = create(**options).choices
    (one,) = choice.attention["maps"]
    assert one["kind"] == "cross"
    assert np.shape(one["values"]) == tuple(one["shape"])
    *_, last = create(**options, stream=True)
    assert last.choices[0].attention == choice.attention


def complete_with_what_gateways_send(service: Service) -> None:
    """`client.completions.create(..., n=1, best_of=1, echo=False, logit_bias={}, ...)`: values that ask for nothing."""
    nothing = {"n": 1, "best_of": 1, "echo": False, "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}}
    nothing |= {"stop": None, "suffix": None, "top_p": 1, "max_tokens": None, "user": "me"}
    (choice,) = connect(service).completions.create(model=service.seq2seq, prompt=DATE, **nothing).choices
    assert choice.text == WRITTEN


def complete_with_what_is_not_served(service: Service) -> None:
    """`client.completions.create(..., n=2)` and others raise BadRequestError, which names the field."""
    create = connect(service).completions.create
    others = {"n": 2, "best_of": 2, "echo": True, "suffix": "x", "presence_penalty": 0.5}
    others |= {"logit_bias": {"1": 100}, "frequency_penalty": -1, "max_tokens": 10**6, "logprobs": 6}
    for name, value in others.items():
        error = refused(openai.BadRequestError, create, model=service.seq2seq, prompt=DATE, **{name: value})
        assert names(error, name), error


SURE = {"temperature": 1e-6}
"""By which the likeliest token is drawn."""


def write_what_was_said(service: Service) -> None:
    """`client.audio.transcriptions.create(model=..., file=open("talk.wav", "rb"))` in every `response_format`."""
    create, file = connect(service).audio.transcriptions.create, Path(service.sound)
    said = create(model=service.speech, file=file, **SURE)
    assert said.text
    assert (said.usage.type, said.usage.seconds) == ("duration", 4)
    found = create(
        model=service.speech, file=file, response_format="verbose_json", timestamp_granularities=["word", "segment"],
        language="de", **SURE,
    )  # fmt: skip
    assert (found.language, round(found.duration, 1)) == ("german", 3.3)
    assert "".join(one.text for one in found.segments).strip() == found.text
    assert [one.id for one in found.segments] == list(range(len(found.segments)))
    assert all(one.tokens and one.avg_logprob < 0 for one in found.segments)
    assert all(0 <= one.start <= one.end and one.word for one in found.words)
    assert create(model=service.speech, file=file, response_format="text", **SURE).strip() == said.text
    assert create(model=service.speech, file=file, response_format="srt", **SURE).startswith("1\n00:00:00,")
    assert create(model=service.speech, file=file, response_format="vtt", **SURE).startswith("WEBVTT\n\n00:00:00.")


def write_what_was_said_as_a_stream(service: Service) -> None:
    """`client.audio.transcriptions.create(..., stream=True)`."""
    with Path(service.sound).open("rb") as file:
        stream = connect(service).audio.transcriptions.create(model=service.speech, file=file, stream=True, **SURE)
        *deltas, done = stream
    assert {one.type for one in deltas} == {"transcript.text.delta"}
    assert done.type == "transcript.text.done"
    assert "".join(one.delta for one in deltas) == done.text != ""


def translate_what_was_said(service: Service) -> None:
    """`client.audio.translations.create(model=..., file=("talk.wav", data))`."""
    data = Path(service.sound).read_bytes()
    create = connect(service).audio.translations.create
    found = create(model=service.speech, file=("talk.wav", data), response_format="verbose_json", **SURE)
    assert found.text
    assert found.segments


def write_what_was_said_as_is_not_served(service: Service) -> None:
    """`client.audio.transcriptions.create(..., include=["logprobs"])` and others raise BadRequestError."""
    create, file = connect(service).audio.transcriptions.create, Path(service.sound)
    for name, value, named in (
        ("include", ["logprobs"], None), ("language", "xx", "language"), ("response_format", "pdf", "response_format"),
        ("timestamp_granularities", ["word"], "timestamp_granularities"), ("known_speaker_names", ["a"], None),
    ):  # fmt: skip
        error = refused(openai.BadRequestError, create, model=service.speech, file=file, **{name: value})
        assert names(error, named), error
    error = refused(openai.NotFoundError, create, model="whisper-1", file=file)
    assert names(error, "model", "model_not_found"), error


def list_models(service: Service) -> None:
    """`client.models.list()`."""
    found = {model.id: model for model in connect(service).models.list()}
    for name in (service.embeddings, service.seq2seq, service.causal, service.images):
        assert name is None or (found[name].object, found[name].owned_by) == ("model", "regard")
    assert all(model.created >= 0 for model in found.values())


def retrieve_a_model(service: Service) -> None:
    """`client.models.retrieve(...)`, and NotFoundError for one that is not there."""
    client = connect(service)
    found = client.models.retrieve(service.embeddings)
    assert (found.id, found.object, found.owned_by, found.ready) == (service.embeddings, "model", "regard", True)
    assert found.created == next(one.created for one in client.models.list() if one.id == found.id)
    refused(openai.NotFoundError, client.models.retrieve, model="another")


def ask_an_unknown_model(service: Service) -> None:
    """`client.embeddings.create(model="text-embedding-3-small", ...)` raises NotFoundError."""
    create = connect(service).embeddings.create
    error = refused(openai.NotFoundError, create, model="text-embedding-3-small", input="hello")
    assert names(error, "model", "model_not_found"), error


def ask_a_model_of_another_task(service: Service) -> None:
    """`client.completions.create(model=<of embeddings>, ...)` raises NotFoundError."""
    error = refused(openai.NotFoundError, connect(service).completions.create, model=service.embeddings, prompt="hello")
    assert names(error, "model"), error


MESSAGES = [
    {"role": "system", "content": "be old"},
    {"role": "user", "content": "good dog"},
    {"role": "assistant", "content": "ran"},
    {"role": "user", "content": "bad"},
]


def chat(service: Service) -> None:
    """`client.chat.completions.create(model=..., messages=[...])`, and its answer sent back with another question."""
    create = connect(service).chat.completions.create
    answer = create(model=service.chat, messages=MESSAGES)
    (choice,) = answer.choices
    assert (answer.object, choice.message.role, choice.logprobs) == ("chat.completion", "assistant", None)
    assert choice.message.content
    assert choice.finish_reason in ("stop", "length")
    usage = answer.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    more = [*MESSAGES, choice.message, {"role": "user", "content": [{"type": "text", "text": "cat"}]}]
    assert create(model=service.chat, messages=more, max_tokens=MOST).usage.prompt_tokens > usage.prompt_tokens


def chat_with_log_probabilities(service: Service) -> None:
    """`client.chat.completions.create(..., logprobs=True, top_logprobs=2)`: of the tokens that were chosen."""
    create = connect(service).chat.completions.create
    (choice,) = create(
        model=service.chat, messages=MESSAGES, logprobs=True, top_logprobs=2, max_completion_tokens=MOST
    ).choices
    content = choice.logprobs.content
    assert "".join(one.token for one in content) == choice.message.content
    assert all(one.logprob <= 0 and len(one.top_logprobs) >= 2 for one in content)


def chat_until_a_stop(service: Service) -> None:
    """`client.chat.completions.create(..., stop=["..."])`: the text ends before it, whole and as a stream."""
    create = connect(service).chat.completions.create
    text = create(model=service.chat, messages=MESSAGES).choices[0].message.content
    stop = text[2:4]
    (choice,) = create(model=service.chat, messages=MESSAGES, stop=[stop, "another"]).choices
    assert (choice.message.content, choice.finish_reason) == (text[: text.index(stop)], "stop")
    chunks = create(model=service.chat, messages=MESSAGES, stop=stop, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == choice.message.content


def chat_as_a_stream(service: Service) -> None:
    """`for chunk in client.chat.completions.create(..., stream=True, stream_options={"include_usage": True})`."""
    create = connect(service).chat.completions.create
    whole = create(model=service.chat, messages=MESSAGES, temperature=1.2, seed=3)
    *chunks, last = create(
        model=service.chat, messages=MESSAGES, temperature=1.2, seed=3, stream=True,
        stream_options={"include_usage": True},
    )  # fmt: skip
    assert (last.choices, last.usage) == ([], whole.usage)
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert [delta.role for delta in deltas] == ["assistant"] + [None] * (len(deltas) - 1)
    assert "".join(delta.content or "" for delta in deltas) == whole.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason


def chat_as_a_stream_of_events(service: Service) -> None:
    """`with client.chat.completions.stream(...) as stream`: the library puts the chunks together."""
    client = connect(service)
    asked = [{"role": "user", "content": "the cat sat on"}]  # of which the answer ends: else the library raises
    whole = client.chat.completions.create(model=service.chat, messages=asked).choices[0]
    with client.chat.completions.stream(model=service.chat, messages=asked) as stream:
        for _ in stream:
            pass
        (choice,) = stream.get_final_completion().choices
    assert (choice.message.content, choice.finish_reason) == (whole.message.content, whole.finish_reason)


def chat_as_an_asynchronous_stream(service: Service) -> None:
    """`async for chunk in await AsyncOpenAI(...).chat.completions.create(..., stream=True)`."""
    whole = connect(service).chat.completions.create(model=service.chat, messages=MESSAGES).choices[0]

    async def chat_all() -> str:
        async with openai.AsyncOpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0) as client:
            stream = await client.chat.completions.create(model=service.chat, messages=MESSAGES, stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    assert asyncio.run(chat_all()) == whole.message.content


def chat_with_attention(service: Service) -> None:
    """`client.chat.completions.create(..., extra_body={"attention": {}})`: tokens and rows know their messages."""
    create = connect(service).chat.completions.create
    (choice,) = create(model=service.chat, messages=MESSAGES, extra_body={"attention": {}}).choices
    tokens = choice.attention["tokens"]["target_input"]
    assert {one["role"] for one in tokens if one.get("message") == 2} == {"assistant"}
    shares = np.array(choice.attention["maps"][0]["by_message"])
    assert shares.shape[-1] == len(MESSAGES) + 2
    assert np.allclose(shares.sum(-1), 1, atol=0.01)


def chat_with_what_is_not_served(service: Service) -> None:
    """`client.chat.completions.create(..., tools=[...])` and others raise BadRequestError, which names the field."""
    create, parts = connect(service).chat.completions.create, [{"type": "image_url", "image_url": {"url": "data:,"}}]
    tool = {"type": "function", "function": {"name": "look"}}
    others = {"tools": [tool], "response_format": {"type": "json_object"}, "max_completion_tokens": 10**6, "n": 2}
    others |= {"messages": [{"role": "user", "content": parts}], "top_logprobs": 2}
    for name, value in others.items():
        error = refused(openai.BadRequestError, create, **{"model": service.chat, "messages": MESSAGES, name: value})
        assert names(error, name), error
    error = refused(openai.NotFoundError, create, model=service.causal, messages=MESSAGES)
    assert names(error, "model"), error
    assert "/v1/completions" in error.message, error


CALLS: list[Callable[[Service], None]] = [
    one for one in list(vars().values()) if getattr(one, "__annotations__", 0) == {"service": Service, "return": None}
]
"""All of the above that take a service and return nothing."""
