"""What a tokenizer may do to a text: how much longer it may make it, and how long its regular expressions may take.

Both come with a checkpoint, and work on whatever text a client of the service sends.
"""

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from export.errors import CheckpointError

MOST_GROWTH = 2000
"""How many times as long a normalizer may make a text: ALBERT's, of five steps, may make it 972 times as long."""
GROWTH = {
    "NFD": 4, "NFC": 3, "NFKD": 18, "NFKC": 18, "Precompiled": 18, "Nmt": 1, "Lowercase": 3, "ByteLevel": 4,
    "BertNormalizer": 12,
}  # fmt: skip
"""The most characters that a step makes of one, by its type: of normal forms, the bounds of Unicode's FAQ on them;
BERT's decomposes a character and puts spaces around it. What is not here makes no text longer."""
LENGTH, MOST_TEXTS, SECONDS = 32, 20, 0.05
"""The length and number of the texts on which an expression is tried, and the processor time that it has for one. The
library gives a match up after ten million steps, which a fast processor takes in a tenth of a second."""
CLASSES = {r"\s": " ", r"\d": "1", r"\w": "a", r"\p{L}": "a", r"\p{N}": "1", r"\p{P}": "!", ".": "a"}
PROGRAM = f"""
import json, signal, sys
from tokenizers import Regex, pre_tokenizers
for number, (expression, texts) in enumerate(json.load(sys.stdin)):
    print(number, flush=True)
    try:
        split = pre_tokenizers.Split(Regex(expression), "isolated")
    except Exception:
        continue
    for text in texts:
        signal.setitimer(signal.ITIMER_PROF, {SECONDS})
        split.pre_tokenize_str(text)
    signal.setitimer(signal.ITIMER_PROF, 0)
"""
"""The library holds the interpreter, so only the signal's own action, which ends the process, comes in time."""


def check_bounds(file: str, content: Mapping[str, Any]) -> None:
    """Raise CheckpointError for a tokenizer that may make a text too long, or an expression that takes too long."""
    growth = _growth(content.get("normalizer"))
    if growth > MOST_GROWTH:
        raise CheckpointError(
            f"{file}: normalizer: may make a text {MOST_GROWTH} times as long at most, this one {growth} times"
        )
    expressions = [
        one for part in ("normalizer", "pre_tokenizer", "decoder") for one in _expressions(content.get(part))
    ]
    if expressions and (slow := _slow(expressions)) is not None:
        raise CheckpointError(
            f"{file}: the regular expression {slow[:80]!r} takes more than {SECONDS:g} seconds for {LENGTH} "
            "characters, so that a client's text could stop the service"
        )


def _growth(step: object) -> int:
    """Return how many times as long a step of a normalizer may make a text."""
    if not isinstance(step, Mapping):
        return 1
    if step.get("type") == "Sequence":
        return math.prod(map(_growth, step.get("normalizers") or ()))
    if step.get("type") == "Replace":
        pattern, content = step.get("pattern") or {}, len(str(step.get("content", "")))
        literal = len(str(pattern.get("String", ""))) if isinstance(pattern, Mapping) else 0
        return max(-(-content // literal), 1) if literal else content + 1  # an expression may match nothing
    if step.get("type") == "Prepend":
        return 1 + len(str(step.get("prepend", "")))
    return GROWTH.get(str(step.get("type")), 1)


def _expressions(part: object) -> Iterator[str]:
    """Yield every regular expression in a part of a tokenizer."""
    if isinstance(part, Mapping):
        if isinstance(part.get("Regex"), str):
            yield part["Regex"]
        for inner in part.values():
            yield from _expressions(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _expressions(inner)


def _slow(expressions: list[str]) -> str | None:
    """Return the first of some expressions that takes too long; None if none does, or it is none."""
    tried = json.dumps([(one, _texts(one)) for one in expressions])
    child = subprocess.run(  # noqa: S603 # this interpreter
        [sys.executable, "-Ic", PROGRAM], input=tried, capture_output=True, text=True, check=False
    )
    begun = child.stdout.split()
    return expressions[int(begun[-1])] if child.returncode < 0 and begun else None


def _texts(expression: str) -> list[str]:
    """Return texts that repeat what an expression looks for: alone, before something else, and two in turn.

    Before something else stands again what it looks for last, since else it may be seen at once that it is not there.
    """
    literal = re.sub(r"\\[pP]\{[^}]*\}|\\[a-zA-Z]|\{[^}]*\}|\(\?[a-z:!=<]*", "", expression)
    characters = [CLASSES[one] for one in CLASSES if one in expression] + re.findall(r"[A-Za-z0-9 ]", literal)
    own = list(dict.fromkeys(characters)) or ["a"]
    rest = "\x01" + "".join(dict.fromkeys(re.findall(r"[^A-Za-z0-9 \\()\[\]|*+?^$]", literal)))[: LENGTH // 4]
    texts = [text for one in own for text in (one * LENGTH, one * (LENGTH - len(rest)) + rest)]
    texts += [(one + other) * (LENGTH // 2) for one in own for other in own if one != other]
    return texts[:MOST_TEXTS]
