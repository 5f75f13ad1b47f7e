"""The score that a gradient method explains, and from which baseline: what a request may ask of which model.

A score is the logit of a class or token, that logit less another's, or the cosine of two embeddings.
"""

import re
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from contract.input_rules import Baseline
from contract.manifest import GRADIENT_METHODS, Manifest, Method, Task
from service.errors import Unacceptable
from service.explanations.evaluation import COMPARE
from service.explanations.methods import METHODS
from service.options.attention import DEFAULT_STEPS, AttentionOptions
from service.options.readers import MOST_STEPS, MOST_TARGETS, Against, AnswerPart, EntityNumber, Named

Explains: TypeAlias = Literal["class", "token", "embedding", "object", "tag", "answer", "word", "heard"]
"""What an answer is made of, and so what a score is of."""
TokenOf: TypeAlias = Callable[[str], int | None]
"""Returns the token of a text, or None for a text that is not exactly one."""

CLASSIFICATION_TASKS: tuple[Task, ...] = (
    "image-classification",
    "text-classification",
    "audio-classification",
    "graph-classification",
)
"""Tasks that answer with classes."""
EXPLAINS: dict[Task, Explains] = {
    **dict.fromkeys(CLASSIFICATION_TASKS, "class"),
    "object-detection": "object",
    "token-classification": "tag",
    "question-answering": "answer",
    "feature-extraction": "embedding",
    "sparse-embedding": "word",
}
"""What a score is of, by task; of other tasks it is of a token."""
OF_PLACES: tuple[Explains, ...] = ("token", "object", "tag", "answer", "heard")
"""What stands at places of an answer, each of which has a row of its own."""
CHOSEN_AFTER: tuple[Explains, ...] = ("object", "tag", "heard")
"""What is explained once it is predicted."""
ENDS = ("start", "end")
"""The parts of an answer that are explained, in the order of their logits."""
MOST_ANSWERS = 100
EXPLAINING = f"{', '.join(GRADIENT_METHODS[:-1])} and {GRADIENT_METHODS[-1]}"
AGAINST: dict[Explains, tuple[str, ...]] = {
    "class": ("label", "index"),
    "token": ("token", "text"),
    "word": ("token", "text"),
    "object": ("label", "index"),
    "tag": ("label", "index"),
    "answer": (),
    "heard": ("label", "index"),
}
"""What `against` may hold; for embeddings that depends on what the model takes."""
MOST_ENTITIES = 10**6
"""No text has as many; how many it has is known once it is predicted."""
DIGITS = re.compile(r"[0-9]{1,9}")


def explains(manifest: Manifest) -> Explains:
    """Return what a score of a model is of."""
    if manifest.task == "automatic-speech-recognition" and manifest.generation is None:
        return "heard"
    return EXPLAINS.get(manifest.task, "token")


def baselines_of(manifest: Manifest) -> list[Baseline]:
    """Return the baselines that integrated gradients of a model can start from, the default first; none without them.

    Tokens are replaced on both sides of an encoder-decoder. Targets with a tokenizer of their own need a padding token.
    """
    if not any(METHODS[method].path for kind in manifest.attention for method in kind.methods):
        return []
    generation = manifest.generation
    replaceable = not (generation and generation.tokenizer) or generation.padding is not None
    return [*(name for rule in manifest.inputs for name in rule.baselines if replaceable), "zero"]


def targets_of(options: AttentionOptions, manifest: Manifest, token_of: TokenOf) -> tuple[int, ...] | None:
    """Return targets as numbers. A string is an index, a label or word, or some of these with commas between.

    Digits are an index, in a query, a form and JSON alike. A query has no types, so they cannot mean a label there and
    an index in JSON. A label or word of digits is asked for by its index.
    """
    what = explains(manifest)
    if what == "answer":
        return _ends_of(options)
    if options.target is None:
        return None
    labels = set(manifest.labels) if what == "class" else set[str]()
    most = (manifest.detection.objects if manifest.detection else answer_width(manifest)) - 1
    rule = "target: must be numbers, such as 0 or 0,3"
    if manifest.detection:
        rule = f"target: must be numbers of objects, from 0 to {most}"
    elif what == "class":
        rule = f"target: must be from 0 to {most} or a label"
    elif what == "word":
        rule = f"target: must be a text that is exactly one token of this model's answers, or from 0 to {most}"
    elif what == "tag":
        rule, most = 'target: must be numbers of entities, such as 0 or {"entity": 0}', MOST_ENTITIES

    elif what == "heard":
        rule, most = "target: must be numbers of words, such as 0", MOST_ENTITIES

    def named(text: str) -> int | None:
        if text in labels:
            return _class_of("target", text, manifest)
        return token_of(text) if what == "word" else None

    parts: list[int | str] = []
    for target in options.target:
        one = _number_or_text(target, manifest)
        whole = isinstance(one, int) or one in labels or (what == "word" and token_of(one) is not None)
        parts += [one] if whole else [part.strip() for part in str(one).split(",")]
    if len(parts) > MOST_TARGETS:
        raise Unacceptable(f"target: must be at most {MOST_TARGETS}, given {len(parts)}")
    found: list[int] = []
    for part in parts:
        if isinstance(part, int) or DIGITS.fullmatch(part.removeprefix("-" if what not in ("class", "word") else "")):
            found.append(int(part))
        elif (number := named(part)) is not None:
            found.append(number)
        else:
            raise Unacceptable(f"{rule}, given another")
    if what != "token" and not all(0 <= index <= most for index in found):
        raise Unacceptable(f"{rule}, given another")
    if len(set(found)) < len(found):
        raise Unacceptable("target: each may be given once, given one twice")
    return tuple(found)


def _number_or_text(target: Named, manifest: Manifest) -> int | str:
    """Return a target, an entity by its number. Raises Unacceptable for one that the task does not have."""
    if isinstance(target, AnswerPart):
        raise Unacceptable(f"target: an answer is of question-answering, this model's task is {manifest.task}")
    if not isinstance(target, EntityNumber):
        return target
    if explains(manifest) != "tag":
        raise Unacceptable(f"target: an entity is of token-classification, this model's task is {manifest.task}")
    return target.number


def _ends_of(options: AttentionOptions) -> tuple[int, ...]:
    """Return both ends of an answer, or one, each as a number: that of the answer times two, and of the end.

    Raises Unacceptable for anything but one answer.
    """
    found = (AnswerPart(0),) if options.target is None else options.target
    (one,) = found if len(found) == 1 else (None,)
    if isinstance(one, str) and DIGITS.fullmatch(one):
        one = int(one)
    if isinstance(one, int):
        one = AnswerPart(one)
    if not isinstance(one, AnswerPart) or not 0 <= one.number < MOST_ANSWERS:
        raise Unacceptable(
            'target: must be one answer, such as 0 or {"answer": 0}, or an end of it, such as '
            f'{{"answer": 0, "part": "start"}}; the number from 0 to {MOST_ANSWERS - 1}, given another'
        )
    return tuple(len(ENDS) * one.number + end for end, name in enumerate(ENDS) if one.part in (None, name))


def against_of(
    options: AttentionOptions, method: Method, manifest: Manifest, targets: Sequence[int] | None, token_of: TokenOf
) -> int | None:
    """Return the class or token that targets are explained against; None without one, and of another input."""
    against, what = options.against, explains(manifest)
    if against is None or what == "embedding" or METHODS[method].by_states:
        return None
    found = _number(against, manifest, token_of)
    if what in ("class", "word") and targets is not None and found in targets:
        raise Unacceptable(f"against: must be another {what} than the target, given {found} as both")
    return found


def _number(against: Against, manifest: Manifest, token_of: TokenOf) -> int:
    """Return the number of a class or token."""
    most = answer_width(manifest) - 1
    if isinstance(against.value, int):
        if against.value > most:
            raise Unacceptable(f"against: must be from 0 to {most}, given {against.value}")
        return against.value
    if against.name == "label":
        if against.value not in manifest.labels:
            raise Unacceptable("against: must be a label of this model, given another")
        return _class_of("against", against.value, manifest)
    token = token_of(against.value)
    if token is None or token > most:
        raise Unacceptable("against: must be a text that is exactly one token of this model's answers, given another")
    return token


def _class_of(subject: str, label: str, manifest: Manifest) -> int:
    """Return the class of a label. Raises Unacceptable if several have it."""
    first, *others = (index for index, one in enumerate(manifest.labels) if one == label)
    if others:
        classes = ", ".join(map(str, (first, *others)))
        raise Unacceptable(f"{subject}: must be a label of one class, or an index; given one of the classes {classes}")
    return first


def answer_width(manifest: Manifest) -> int:
    """Return the number of classes or tokens that a model tells apart, or of the numbers of its embeddings."""
    if manifest.detection:  # without the class that says that there is no object
        return len(manifest.labels)
    return int(manifest.graphs["attention"].outputs[0].axes[-1])


def check_score(options: AttentionOptions, method: Method, manifest: Manifest) -> None:
    """Refuse what the method cannot explain, and options of a score that it does not have.

    Raises Unacceptable with the reason.
    """
    what, by_gradient = explains(manifest), METHODS[method].by_gradient
    by_states = METHODS[method].by_states
    if not by_gradient:
        if options.target is not None and not options.evaluate:
            raise Unacceptable(f"target: is for {EXPLAINING}, the other methods explain no class")
        evaluated = COMPARE in options.evaluate or (what == "embedding" and options.evaluate)
        if options.against is not None and not evaluated and not by_states:
            raise Unacceptable(f"against: is for {EXPLAINING}, the other methods explain no class")
    if what == "embedding" and not by_states and (by_gradient or options.evaluate):
        _check_embedding(options, method, manifest)
    elif options.sides != "own":
        raise Unacceptable(f"sides: is for embeddings, explained by {EXPLAINING}")
    if options.against is not None and not by_states and what == "answer":
        raise Unacceptable("against: an end of an answer is explained alone, leave it out")
    if options.against is not None and options.against.name not in (names := _names(manifest, by_states=by_states)):
        whose = method if by_states else manifest.task
        raise Unacceptable(f"against: must be {' or '.join(names)} for {whose}, given {options.against.name}")
    if options.against is not None and options.against.than is not None:
        _check_two(options, method, manifest)
    _check_path(options, method, manifest)


def _check_two(options: AttentionOptions, method: Method, manifest: Manifest) -> None:
    """Refuse two other inputs where there is no score that is the difference of two likenesses."""
    if explains(manifest) != "embedding" or not METHODS[method].signed:
        raise Unacceptable("against: two inputs are for libra and integrated of embeddings, give one")
    for name, given in (("sides", options.sides == "both"), ("evaluate", options.evaluate)):
        if given:
            raise Unacceptable(f"{name}: is of the likeness to one input, given two in against")
    second = options.against.than if options.against else None
    if second and second.name not in (names := _names(manifest)):
        raise Unacceptable(f"against: must be {' or '.join(names)} for {manifest.task}, given {second.name}")


def _names(manifest: Manifest, *, by_states: bool = False) -> tuple[str, ...]:
    """Return what `against` may hold: another input where states or embeddings are compared."""
    modality = manifest.inputs[0].modality
    another = ("id",) if modality in ("sound", "graph") else (modality, "id")  # no option holds one of these
    if manifest.contrast and not by_states:  # states of two towers have nothing in common
        return "image", "text", "id"
    return another if by_states else AGAINST.get(explains(manifest), another)


def _check_embedding(options: AttentionOptions, method: Method, manifest: Manifest) -> None:
    if options.target is not None:
        raise Unacceptable("target: an embedding has no class or token; against names what it is compared with")
    if options.against is None:
        subject = f"{method} explains" if METHODS[method].by_gradient else "an evaluation measures"
        raise Unacceptable(
            f"against: {subject} what makes two embeddings alike, so it must be {' or '.join(_names(manifest))}"
            " of another input, given none"
        )


def _check_path(options: AttentionOptions, method: Method, manifest: Manifest) -> None:
    """Refuse a baseline or a number of steps that integrated gradients do not have."""
    steps = options.steps
    if not METHODS[method].path:
        if options.baseline is not None:
            raise Unacceptable("baseline: is for integrated")
        if steps not in (False, True):  # a query has 1 and 0 for them
            raise Unacceptable(f"steps: a number is for integrated, given {steps}")
        return
    if options.baseline is not None and options.baseline not in (has := baselines_of(manifest)):
        raise Unacceptable(f"baseline: this model has {', '.join(has)}, given {options.baseline}")
    if steps is True or (steps is not False and not 1 <= steps <= MOST_STEPS):
        given = "true" if steps is True else steps
        raise Unacceptable(f"steps: must be from 1 to {MOST_STEPS} for integrated, given {given}")


def points_of(options: AttentionOptions) -> int:
    """Return how many points of its path integrated gradients are read at."""
    return options.steps if type(options.steps) is int else DEFAULT_STEPS
