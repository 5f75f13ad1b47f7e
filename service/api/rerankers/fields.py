"""What the documents of rerankers ask for."""

from typing import Literal

from pydantic import Field

from service.api.pipelines.parameters import merged
from service.api.tasks.ranking import MOST_TOKENS, check_repeated, check_texts, pairs_of
from service.errors import Unacceptable
from service.inputs.model_input import Pair
from service.options.base import SHARED, Options, RequestOptions, parse
from service.options.predictions import RerankOptions
from service.settings import Settings

SCORED = (("text_1", "text_2"), ("queries", "documents"))
"""The members of a document that hold the texts of pairs, by their older and newer names."""


class DocumentsOptions(Options):
    """Options of `/v1/rerank` and `/v2/rerank`."""

    top_n: int | None = Field(None, ge=1, le=1000, description="results, best first; all by default")
    return_documents: bool = Field(False, description="also the text of each")
    max_tokens_per_doc: int | None = Field(None, ge=1, le=MOST_TOKENS, description="the rest is cut off")
    priority: int = Field(0, ge=0, le=999, description="above 0 as batch of the other endpoints")

    @property
    def asked(self) -> RerankOptions:
        """The same, of our own endpoint. Documents that are too long are cut off, as these services do."""
        return RerankOptions(top_k=self.top_n, truncate=True, priority="batch" if self.priority else "interactive")


class ScoreOptions(RequestOptions):
    """Options of `/score`."""

    truncate_prompt_tokens: Literal[-1] | None = Field(None, description="-1 cuts off the end of a second text")
    use_activation: bool = Field(True, description="false answers logits")
    user: str | None = Field(None, description="not used", json_schema_extra=SHARED)

    @property
    def asked(self) -> RerankOptions:
        """The same, of our own endpoint."""
        return RerankOptions(truncate=self.truncate_prompt_tokens is not None, priority=self.priority)


def model_of(document: dict[str, object]) -> str:
    """Take the model's name out of a document. Raises Unacceptable if there is none."""
    model = document.pop("model", None)
    if not isinstance(model, str):
        raise Unacceptable("model: must be the name of a model; GET /v1/models lists them")
    return model


def of_documents(document: dict[str, object], settings: Settings) -> tuple[list[Pair], DocumentsOptions]:
    """Return the pairs of a query and documents, and the options beside them. Raises what `pairs_of` does."""
    query, given = document.pop("query", None), document.pop("documents", None)
    options = parse(DocumentsOptions, merged(None, document), strings=False, beside=("model", "query", "documents"))
    texts = [_text(one) for one in given] if isinstance(given, list) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise Unacceptable("documents: must be a list of strings, or of objects of a text")
    return pairs_of(query, texts, settings, "documents", options.max_tokens_per_doc or MOST_TOKENS), options


def _text(document: object) -> object:
    """Return the text of a document that is an object with nothing else; any other as it is."""
    return document["text"] if isinstance(document, dict) and document.keys() == {"text"} else document


def of_scores(document: dict[str, object], settings: Settings) -> tuple[list[Pair], ScoreOptions]:
    """Return the pairs of two texts, of one and each of several, or of two lists, and the options beside them.

    Raises Unacceptable and TooLarge.
    """
    names = next((names for names in SCORED if document.keys() & {*names}), SCORED[0])
    firsts, seconds = (_texts(name, document.pop(name, None)) for name in names)
    options = parse(ScoreOptions, merged(None, document), strings=False, beside=("model", *names))
    check_texts(len(seconds), names[1])
    if len(firsts) == 1:
        check_repeated(names[0], firsts[0], len(seconds), settings)
        firsts *= len(seconds)
    if len(firsts) != len(seconds):
        raise Unacceptable(f"{names[0]}: must be one text or {len(seconds)}, as {names[1]}, given {len(firsts)}")
    return [Pair(*one, MOST_TOKENS) for one in zip(firsts, seconds, strict=True)], options


def _texts(name: str, given: object) -> list[str]:
    texts = given if isinstance(given, list) else [given]
    strings = [text for text in texts if isinstance(text, str)]
    if len(strings) < len(texts) or not texts:
        raise Unacceptable(f"{name}: must be a string or a list of strings")
    return strings
