"""Zero-shot classification: of labels that a request names, those whose sentence a text entails.

A text and the sentence of each label are a pair, which a model of entailment classifies (Yin et al. 2019, arXiv
1909.00161); what is answered of their logits is what transformers' ZeroShotClassificationPipeline answers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from service.answering.call import Answered, Call
from service.answering.earlier import id_of_input
from service.answering.predictions import Then, predict
from service.api import responses
from service.api.pipelines.asked import Asked
from service.api.pipelines.parameters import TEXTS, ZeroShotParameters, parse_parameters
from service.api.reading.call import call_of
from service.api.reading.request_parsing import ParsedRequest
from service.api.tasks.explained import as_options, rules_of, with_attention
from service.api.tasks.ranking import MOST_TOKENS
from service.arrays import Array, sigmoid, softmax
from service.errors import TooLarge, Unacceptable
from service.explanations.answer import AttentionAnswer
from service.inputs.model_input import Pair, Text
from service.options.predictions import TextOptions, ZeroShotOptions
from service.repository.models.predictor import Classifier, Predictor
from service.settings import Settings
from service.state import State

Json = dict[str, object]
NAMES = frozenset({"labels", "template", "multi_label"})
"""The options of such a request."""
NO_ENTAILMENT = "needs a text-classification with a label that begins with entail, which this model has not"


@dataclass(frozen=True)
class Chosen:
    """What is answered of one text: labels by their numbers, best first, with their probabilities and logits."""

    order: Sequence[int]
    probabilities: Sequence[float]
    logits: Sequence[float]
    explained: int
    """The label that attention is of: the one that is asked about, or the best."""
    attention: AttentionAnswer | None = None


@dataclass(frozen=True)
class ZeroShot:
    """Labels of a request, and how they are chosen."""

    labels: Sequence[str]
    template: str
    multi_label: bool

    def sentence(self, label: int) -> str:
        """Return what is said of a text that has a label."""
        return self.template.replace("{}", self.labels[label])

    def pairs(self, texts: Sequence[bytes | Text], subject: str, settings: Settings) -> list[Pair]:
        """Return each text with the sentence of each label; `subject` is what a request calls the labels.

        Raises Unacceptable for what is no text, and for too many pairs; TooLarge for pairs that are too long together.
        """
        singles = [text for text in texts if isinstance(text, str)]
        if len(singles) < len(texts):
            raise Unacceptable(f"inputs: must be a string or a list of strings where {subject} are given")
        sentences = [self.sentence(label) for label in range(len(self.labels))]
        if (count := len(singles) * len(sentences)) > settings.max_inputs:
            raise Unacceptable(f"{subject}: at most {settings.max_inputs} pairs of a text and a label, given {count}")
        length = sum(map(len, singles)) * len(sentences) + sum(map(len, sentences)) * len(singles)
        if length > (limit := settings.max_text_bytes):
            raise TooLarge(f"{subject}: at most {limit} characters in pairs of a text and a label, given {length}")
        return [Pair(text, sentence, MOST_TOKENS, 0) for text in singles for sentence in sentences]

    def chosen(self, logits: Array, asked: int | None) -> Chosen:
        """Return what is answered of one text with logits (label, 2) of entailment and contradiction."""
        alone = self.multi_label or len(self.labels) == 1
        chances = sigmoid(logits[:, 0] - logits[:, 1]) if alone else softmax(logits[:, 0])
        order = np.argsort(-chances, kind="stable")
        best = int(order[0]) if asked is None else asked
        return Chosen(order.tolist(), chances.tolist(), logits[:, 0].tolist(), best)


Write = Callable[[Answered[Array], Sequence[Chosen]], Response]
"""Makes an answer of what a call is answered with, and of its texts."""


def entailment_of(served: Predictor, subject: str) -> tuple[int, int]:
    """Return the classes of entailment and contradiction. Raises Unacceptable for a model without them."""
    found = served.entailment if isinstance(served, Classifier) else None
    if found is None:
        raise Unacceptable(f"{subject}: {NO_ENTAILMENT}")
    return found


async def ask(
    request: Request, state: State, served: Predictor, parsed: ParsedRequest, options: ZeroShotOptions
) -> Response:
    """Answer a request of our own protocol that names labels."""
    classes = entailment_of(served, "labels")
    if options.labels is None:
        raise Unacceptable("labels: must be given with template and multi_label, given none")
    asked = ZeroShot(options.labels, options.template, options.multi_label)
    given = dict(parsed.given)
    explained = None
    if given.get("attention") is not None:
        given["attention"], explained = _explained(given["attention"], asked.labels, served, classes)
    pairs = asked.pairs(parsed.inputs, "labels", state.settings)
    call = call_of(request, state, served, ParsedRequest(pairs, given))
    top_k = options.top_k if "top_k" in options.model_fields_set else None

    def write(answered: Answered[Array], found: Sequence[Chosen]) -> Response:
        results = []
        for number, one in enumerate(found):
            place = number * len(asked.labels) + one.explained
            shown: Json = {
                "id": id_of_input(answered.id, place, len(pairs)),
                "labels": [_label(asked, one, label, with_logit=options.logits) for label in one.order[:top_k]],
                "hypothesis": pairs[place].text_pair,
            }
            results.append(responses.result(shown, one.attention))
        return responses.respond(responses.answer(answered.id, served, results))

    return await _choose(call, options, asked, classes, explained, write)


def _label(asked: ZeroShot, one: Chosen, label: int, *, with_logit: bool) -> Json:
    shown: Json = {"label": asked.labels[label], "index": label, "probability": one.probabilities[label]}
    return {**shown, "logit": one.logits[label]} if with_logit else shown


async def answer_pipeline(asked: Asked, served: Predictor) -> Response:
    """Answer a request of Hugging Face's clients that names labels: of each text all of them, best first."""
    classes = entailment_of(served, "candidate_labels")
    options = parse_parameters(ZeroShotParameters, asked.given, TEXTS, served.manifest)
    named = ZeroShot(options.candidate_labels, options.hypothesis_template, options.multi_label)
    pairs = named.pairs(asked.inputs, "candidate_labels", asked.state.settings)

    def write(answered: Answered[Array], found: Sequence[Chosen]) -> Response:
        shown = [
            [{"label": named.labels[label], "score": one.probabilities[label]} for label in one.order] for one in found
        ]
        return responses.respond(shown if asked.several else shown[0])

    return await _choose(asked.call_with(served, pairs), options, named, classes, None, write)


async def _choose(
    call: Call[Predictor],
    options: TextOptions,
    asked: ZeroShot,
    classes: tuple[int, int],
    explained: int | None,
    write: Write,
) -> Response:
    """Return what `write` makes of the pairs of a call. Attention is of one label of each text."""
    count = len(asked.labels)
    call = replace(call, copies=count)

    async def respond(answered: Answered[Array]) -> Response | Then:
        logits = np.array(answered.shown, np.float64).reshape(-1, count, 2)
        found = [asked.chosen(one, explained) for one in logits]
        places = [number * count + one.explained for number, one in enumerate(found)]

        def written(attention: Sequence[AttentionAnswer | None]) -> Response:
            return write(answered, [replace(one, attention=look) for one, look in zip(found, attention, strict=True)])

        return await with_attention(call, options, call.query, answered, places, written)

    return await predict(replace(call, query=None), options, lambda logits: logits[list(classes)], respond)


def _explained(
    asked: object, labels: Sequence[str], served: Predictor, classes: tuple[int, int]
) -> tuple[object, int | None]:
    """Return options of attention to a pair, and the label that is asked about as `target`; None for the best of each.

    A score is the logit of entailment less that of contradiction, unless `against` names another class. Raises
    Unacceptable for a target that is no label of the request.
    """
    options = as_options(asked)
    if options is None:
        return asked, None
    target = options.pop("target", None)
    if isinstance(target, list) and len(target) == 1:
        target = target[0]
    if target is not None and target not in labels:
        raise Unacceptable("target: must be one of the labels of this request, given another")
    label = None if target is None else labels.index(str(target))
    return {**options, **_of_entailment(options, served, classes)}, label


def _of_entailment(options: Mapping[str, object], served: Predictor, classes: tuple[int, int]) -> Json:
    """Return which class of a pair is explained against which, where a score is explained or measured."""
    rules = rules_of(options, served.manifest)
    if rules is None or not (rules.by_gradient or options.get("evaluate")):
        return {}
    entailment, contradiction = classes
    if not rules.by_gradient and "compare" not in str(options.get("evaluate")):  # of which it is one, or in a list
        return {"target": [entailment]}  # a probability is measured, of no difference
    return {"target": [entailment], "against": options.get("against") or {"index": contradiction}}


def asked_of_stored(served: Predictor, inputs: Sequence[bytes | Text], given: Mapping[str, object]) -> Json:
    """Return options of attention to earlier inputs: to the pair of a text and a label, entailment is explained."""
    classes = served.entailment if isinstance(served, Classifier) else None
    named = any(isinstance(one, Pair) and one.cut == 0 for one in inputs)
    if classes is None or not named or "target" in given:
        return dict(given)
    named_method = {"method": given.get("attention", "raw"), **given}  # a query names it by either word
    own = _of_entailment(named_method, served, classes)
    against = {"against": f'{{"index": {classes[1]}}}'} if "against" in own else {}
    return {**against, **given, **({"target": str(classes[0])} if own else {})}
