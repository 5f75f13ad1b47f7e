"""Pictures classified by labels that a request names: by the cosines of their vectors (Radford et al. 2021, figure 1).

A picture's vector is made by one model, and those of the labels' sentences by its partner, which keeps them.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from contract.manifest import Scores
from service.answering.call import Answered, Call, narrowed
from service.answering.earlier import id_of_input
from service.answering.predictions import Then, predict
from service.answering.vectors import vectors_of_texts
from service.api import responses
from service.api.pipelines.asked import Asked
from service.api.pipelines.parameters import ZeroShotImageParameters, parse_parameters
from service.api.reading.call import call_of, query_of
from service.api.reading.request_parsing import ParsedRequest
from service.api.tasks.explained import rules_of
from service.api.tasks.task import Show
from service.arrays import Array, probabilities
from service.errors import Unacceptable
from service.explanations.answer import AttentionAnswer
from service.explanations.query import AttentionQuery
from service.options.attention import AttentionOptions
from service.options.base import RequestOptions
from service.options.predictions import ContrastOptions
from service.options.readers import Against
from service.repository.models.known_vectors import unit
from service.repository.models.predictor import Embedder, Predictor
from service.repository.models.served_model import Prediction
from service.state import State

Json = dict[str, object]


@dataclass(frozen=True)
class Labels:
    """The labels of a request, and the sentence of each."""

    names: Sequence[str]
    template: str

    def sentence(self, label: int) -> str:
        """Return what is said of a picture that has a label."""
        return self.template.replace("{}", self.names[label])

    @property
    def sentences(self) -> list[str]:
        """The sentences of all."""
        return [self.sentence(label) for label in range(len(self.names))]

    def number(self, subject: str, name: object) -> int:
        """Return the number of a label, of which the number is a name too. Raises Unacceptable for no label."""
        if isinstance(name, int) and 0 <= name < len(self.names):
            return name
        if name not in self.names:
            raise Unacceptable(f"{subject}: must be one of the labels of this request, given another")
        return self.names.index(str(name))


async def ask(
    request: Request, state: State, served: Predictor, parsed: ParsedRequest, options: ContrastOptions
) -> Response:
    """Answer a request of our own protocol: of each picture the likeliest labels, best first."""
    if options.labels is None:
        raise Unacceptable("labels: must be given, from which a picture's is chosen; this model has none of its own")
    labels = Labels(options.labels, options.template)
    asked = parsed.attention(required=False)
    call = call_of(request, state, served, ParsedRequest(parsed.inputs))
    look = None if asked is None else _Look(asked, labels, served)
    if look:  # before anything runs, it is refused where it cannot be answered
        look.query(request, 0 if look.target is None else look.target)
    top_k = options.top_k if "top_k" in options.model_fields_set else None
    logits_of = await _logits(call, labels, options)

    async def respond(answered: Answered[Array]) -> Response | Then:
        chances = [probabilities(logits, _scores(served)) for logits in answered.shown]
        orders = [np.argsort(-one, kind="stable").tolist() for one in chances]
        best = [order[0] if look is None or look.target is None else look.target for order in orders]

        def write(attention: Sequence[AttentionAnswer | None]) -> Response:
            results = []
            for place, (order, chance, logits) in enumerate(zip(orders, chances, answered.shown, strict=True)):
                listed = [
                    {"label": labels.names[label], "index": label, "probability": float(chance[label])}
                    | ({"logit": float(logits[label])} if options.logits else {})
                    for label in order[:top_k]
                ]
                shown: Json = {
                    "id": id_of_input(answered.id, place, len(orders)),
                    "labels": listed,
                    "hypothesis": labels.sentence(best[place]),
                }
                results.append(responses.result(shown, attention[place]))
            return responses.respond(responses.answer(answered.id, served, results))

        if look is None:
            return write([None] * len(orders))
        groups = {label: [place for place, one in enumerate(best) if one == label] for label in best}
        queries = {label: look.query(request, label) for label in groups}
        return functools.partial(_explain, call, options, answered, queries, groups, {}, write)

    return await predict(call, options, logits_of, respond)


async def answer_pipeline(asked: Asked, served: Predictor) -> Response:
    """Answer a request of Hugging Face's clients for zero-shot-image-classification: all labels, best first."""
    if served.inputs.tokenizer:
        raise Unacceptable("inputs: must be pictures where candidate_labels are given, which the model's partner takes")
    options = parse_parameters(ZeroShotImageParameters, asked.given, {}, served.manifest)
    labels = Labels(options.candidate_labels, options.hypothesis_template)
    call = asked.call(served)

    async def respond(answered: Answered[Array]) -> Response:
        shown = []
        for logits in answered.shown:
            chances = probabilities(logits, _scores(served))
            order = np.argsort(-chances, kind="stable").tolist()
            shown.append([{"label": labels.names[label], "score": float(chances[label])} for label in order])
        return responses.respond(shown if asked.several else shown[0])

    return await predict(call, options, await _logits(call, labels, options), respond)


class _Look:
    """What a request asks of the attention to its pictures: of which label, rather than which other, and how."""

    def __init__(self, asked: AttentionOptions, labels: Labels, served: Predictor) -> None:
        self._labels, self._served = labels, served
        self._asked = asked.model_copy(update={"target": None, "against": None})
        self.target: int | None = None if asked.target is None else labels.number("target", *asked.target[:1])
        """The label that is explained; None for the best of each picture."""
        if len(asked.target or ()) > 1:
            raise Unacceptable(f"target: must be one label, given {len(asked.target)}")
        self._rather = asked.against
        if asked.against and asked.against.than:
            raise Unacceptable("against: must be one object where labels are given, given two")
        if asked.against and asked.against.name == "label":
            other = labels.number("against", asked.against.value)
            self._rather = Against("text", labels.sentence(other))
        rules = rules_of({"method": asked.method}, served.manifest)
        self._scored = bool(rules and (rules.by_gradient or asked.evaluate))

    def query(self, request: Request, label: int) -> AttentionQuery:
        """Return the attention to pictures that explains a label. Raises Unacceptable."""
        asked = self._asked
        if self._scored or self._rather:
            own = Against("text", self._labels.sentence(label), self._rather)
            asked = asked.model_copy(update={"against": own})
        return query_of(request, self._served, asked, required=False)


async def _explain(
    call: Call[Predictor],
    options: RequestOptions,
    answered: Answered[Array],
    queries: dict[int, AttentionQuery],
    groups: dict[int, list[int]],
    found: dict[int, AttentionAnswer | None],
    write: Callable[[Sequence[AttentionAnswer | None]], Response],
) -> Response:
    """Explain the pictures of one label after the other, then write the answer."""
    label, places = next(iter(groups.items()))
    rest = {other: theirs for other, theirs in groups.items() if other != label}
    prepared = [answered.inputs[place] for place in places]
    explained = Call(
        call.state, call.exchange, call.served, [one.given for one in prepared], queries[label], answered.id, prepared,
        ranked=len(call.inputs),
    )  # fmt: skip

    async def respond(looked: Answered[object]) -> Response | Then:
        known = found | dict(zip(places, (attention for _, attention in looked.results), strict=True))
        if rest:
            return functools.partial(_explain, call, options, answered, queries, rest, known, write)
        return await explained.present(write, [known[place] for place in range(len(answered.inputs))])

    return await predict(explained, options, None, respond)


def _scores(served: Predictor) -> Scores:
    assert served.manifest.contrast  # noqa: S101 # for the type checker
    return served.manifest.contrast.scores


async def _logits(call: Call[Predictor], labels: Labels, options: RequestOptions) -> Show[Array]:
    """Return what makes the logits of labels of a picture's vector."""
    contrast, partner = call.served.manifest.contrast, call.served.partner
    assert contrast and partner  # noqa: S101, PT018 # for the type checker
    vectors = await vectors_of_texts(
        call.state, narrowed(partner, Embedder), labels.sentences, call.caller(options), "labels"
    )

    def logits(vector: Prediction) -> Array:
        found: Array = contrast.scale * (vectors @ unit(vector)) + contrast.bias
        return found

    return logits
