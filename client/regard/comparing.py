"""Requests that compare texts with another one: a query, or a source."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from regard.calls import Call, Reply, body_options
from regard.errors import BadInput
from regard.inputs import Input, encode, is_one
from regard.maps import Json
from regard.models import Description
from regard.reading import read_attention
from regard.results import Asked, Asker, read_result
from regard.tasks.ranking import RERANK, Ranked, RankedAgainst
from regard.tasks.similarity import SIMILARITY, Similarity

T = TypeVar("T")


def ranking(
    model: Description, query: str, texts: Iterable[str], options: Json, client: Asker | None = None
) -> Call[list[Ranked]]:
    """Ask a model which texts answer a query, best first. Raises BadInput."""
    listed = _listed("texts", texts)
    pairs = [encode((query, text), "text") for text in listed]

    body = {"query": query, "texts": listed, **body_options(model, options)}

    def read(reply: Reply) -> list[Ranked]:
        answer = reply.json
        other = _other(body["attention"]["against"]["text"], answer["against"]) if "against" in answer else None
        shown = {"against": {"text": other.text, "score": other.score}} if other else {}
        found = [
            read_result(
                Ranked,
                {**entry, "text": listed[entry["index"]], **shown},
                Asked(model, pairs[entry["index"]], _of_inputs(options), entry["id"], client),
            )
            for entry in answer["results"]
        ]
        return [replace(one, against=other) for one in found]

    return Call("POST", f"/v1/models/{model.name}/{RERANK.endpoint}", read, body=body)


def _other(text: str, json: Json) -> RankedAgainst:
    """Return the text that others are explained against, from the service's JSON."""
    attention = read_attention(json["attention"]) if json.get("attention") else None
    return RankedAgainst(text, json["score"], attention)


def similarity(
    model: Description,
    source: Input | Sequence[Input],
    inputs: Iterable[Input],
    options: Json,
    client: Asker | None = None,
) -> Call[list[Similarity]]:
    """Ask a model how alike texts are to a source, or to each of several, in their order. Raises BadInput.

    Of two models that are compared, inputs and sources may be pictures too.
    """
    sent = model.sent if model.partner else "text"
    given = [encode(one, sent) for one in _listed("inputs", inputs)]
    if len({one.field for one in given}) > 1:
        raise BadInput("inputs: must be all texts or all pictures, given both")
    alone = is_one(source)
    sources: list[object] = [source] if alone else list(source)  # type: ignore[arg-type] # several, as is not one
    encoded = [encode(one, sent) for one in sources]
    named = [one.json if one.text is not None else {"image": one.json} for one in encoded]

    def read(reply: Reply) -> list[Similarity]:
        return [
            read_result(Similarity, entry, Asked(model, one, _of_inputs(options), entry["id"], client))
            for entry, one in zip(reply.json["results"], given, strict=True)
        ]

    field = given[0].field if given else "inputs"
    body = {"source": named[0] if alone else named, field: [one.json for one in given], **body_options(model, options)}
    return Call("POST", f"/v1/models/{model.name}/{SIMILARITY.endpoint}", read, body=body)


def _of_inputs(options: Json) -> Json:
    """Return the options that say how inputs are read, which attention to them takes too."""
    kept = ("truncate", "overflow", "stride", "priority", "dimensions", "prompt_name", "prompt")
    return {name: options[name] for name in kept if name in options}


def _listed(subject: str, given: Iterable[T]) -> list[T]:
    """Return texts as a list. Raises BadInput for one text in place of several."""
    if is_one(given) or not isinstance(given, Iterable):
        raise BadInput(f"{subject}: must be a list of strings, given one")
    return list(given)
