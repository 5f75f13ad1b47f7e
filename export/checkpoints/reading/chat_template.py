"""The form of a chat, derived from a checkpoint's template once: strings by role, which the service puts together.

A template is a program. It runs here alone, in a process of its own (`chat_rendering.py`), and only on conversations of
ours. What it makes of them tells the strings around messages; they are kept if they make the same texts.
"""

import itertools
import json
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from contract.chat import ASSISTANT, SYSTEM, TRIMS, USER, Chat, Message, Trim, Turn
from export.checkpoints.reading.chat_conversations import CLOSED, CONVERSATIONS, LAST, MARKS, PROBES, UNEVEN
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.tokenizers.classes import class_name, row_of
from export.checkpoints.reading.tokenizers.vocabulary_files import SETTINGS_FILE

TEMPLATE_FILE = "chat_template.jinja"
RENDERING = Path(__file__).with_name("chat_rendering.py")
MOST_SECONDS = 30
"""Of a clock: a process waits where others work."""
MOST_CHARACTERS = 1 << 18
"""Of a template."""
CLOCK = "strftime_now"
"""How a template asks what day it is."""


class NoFormError(Exception):
    """A template has no such form. The message says why."""


def read_chat(checkpoint: Checkpoint) -> tuple[Chat | None, str]:
    """Return the form of a checkpoint's chats, and what is to be said of it; or None, and why there is none.

    That is an empty string where the checkpoint has no template.
    """
    try:
        template = template_of(checkpoint)
        if template is None:
            return None, ""
        tokens = special_tokens(checkpoint)
        form = derive(render(template, tokens), tokens)
    except NoFormError as error:
        return None, str(error)
    dated = "; of a date it says its own, not that of the day" if CLOCK in template else ""
    return form, f"{len(CONVERSATIONS)} conversations are as by the checkpoint's template{dated}"


def derive(texts: Mapping[str, str | None], tokens: Mapping[str, str]) -> Chat:
    """Return the form that makes the texts of PROBES, CLOSED and CONVERSATIONS, which are None where refused.

    Raises NoFormError.
    """
    head, tail = split(texts["one"], MARKS[USER])
    _, between, behind, _ = split(texts["turns"], MARKS[USER], MARKS[ASSISTANT], LAST)
    ending = tokens.get("eos_token", "")
    closed, answered = _ends(texts["closed"], ending), _ends(texts["answered"], ending)
    closing = next((one for one in closed if between.startswith(one) and tail.startswith(one)), None)
    if closing is None:
        closing = between[: _shared(between, tail)]
    ended = next((one for one in answered if behind.startswith(one) and head.endswith(behind[len(one) :])), None)
    if ended is None:
        ended = behind[: len(behind) - _shared(behind[::-1], head[::-1])]
    opening = behind[len(ended) :]
    form = Chat(
        begins=head.removesuffix(opening),
        user=Turn(prefix=opening, suffix=closing),
        assistant=Turn(prefix=between[len(closing) :], suffix=ended),
        opens=tail[len(closing) :],
        alternates=texts["twice"] is None,
    )
    form = _likest(form, texts, "padded", itertools.starmap(_trimmed, itertools.product(TRIMS, TRIMS)))
    form = _likest(form, texts, "thought", ({"thinks": trim} for trim in (None, *TRIMS)))
    form = _with_system(form, texts, head, tokens.get("bos_token", ""))
    wrong = _unlike(form, texts)
    if wrong and not form.alternates and set(wrong) <= set(UNEVEN):
        form = form.model_copy(update={"alternates": True})
        wrong = _unlike(form, texts)
    if wrong:
        raise NoFormError(f"strings by role do not make the texts of its template, such as of {wrong[0]}")
    return form


def _with_system(form: Chat, texts: Mapping[str, str | None], head: str, first: str) -> Chat:
    """Return the form with the system's turn, if its template takes a system's message.

    `head` is what stands before the first message of the user where there is none of the system, `first` the token that
    begins texts.
    """
    told, mark = texts["told"], MARKS[SYSTEM]
    if told is None or mark not in told:
        return form
    before, between, _ = split(told, mark, MARKS[USER])
    turns = texts["told turns"] or ""
    opening, begins, changes = form.user.prefix, form.begins, dict[str, Any]()
    if turns.find(mark) > turns.find(MARKS[USER]):
        changes["place"], begins = "last", begins + opening
    elif not between.endswith(opening):
        changes["place"], begins = "first", begins + opening
    else:
        default = head[len(before) : len(head) - len(between)]
        if head == before + default + between:
            changes["default_system"] = default
            begins = changes["begins"] = first if before.startswith(first) else ""
        between = between.removesuffix(opening)
    if not before.startswith(begins):
        raise NoFormError("a text begins in another way with a system's message than without one")
    system = Turn(prefix=before[len(begins) :], suffix=between)
    form = form.model_copy(update=changes)
    trimmed = [{"system": system.model_copy(update={"trims": trim})} for trim in TRIMS]
    return _likest(
        form, texts, "padded system", [{**one, "joined": joined} for joined in (False, True) for one in trimmed]
    )


def _trimmed(user: Trim, assistant: Trim) -> Mapping[str, Mapping[str, Trim]]:
    return {"user": {"trims": user}, "assistant": {"trims": assistant}}


def _likest(form: Chat, texts: Mapping[str, str | None], probe: str, options: Iterable[Mapping[str, Any]]) -> Chat:
    """Return the form with the first of options by which it makes the text of a probe, or else with the first."""
    changed = [_changed(form, one) for one in options]
    return next((one for one in changed if one.text(PROBES[probe]) == texts[probe]), changed[0])


def _changed(form: Chat, changes: Mapping[str, Any]) -> Chat:
    """Return a form with other parts; a mapping changes some of a part."""
    parts = {
        name: getattr(form, name).model_copy(update=new) if isinstance(new, Mapping) else new
        for name, new in changes.items()
    }
    return form.model_copy(update=parts)


def _unlike(form: Chat, texts: Mapping[str, str | None]) -> list[str]:
    """Return the conversations that a form makes another text of than the template; those it refuses are none."""
    return [
        name
        for name, messages in CONVERSATIONS.items()
        if (form.system or messages[0].role != SYSTEM)
        and not (form.alternates and name in UNEVEN)
        and form.text(messages) != texts[name]
    ]


def _ends(text: str | None, ending: str) -> list[str]:
    """Return what may close the last message of a text: all that follows it, perhaps without the end of the text."""
    if text is None:
        return []
    behind = text.rpartition(MARKS[ASSISTANT] if MARKS[ASSISTANT] in text else MARKS[USER])[2]
    return [behind, behind.removesuffix(ending)]


def _shared(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def split(text: str | None, *marks: str) -> list[str]:
    """Return a text in pieces, cut at marks. Raises NoFormError unless each of them comes once, in this order."""
    if text is None:
        raise NoFormError("its template refuses a chat of a user and an assistant")
    pieces, rest = list[str](), text
    for mark in marks:
        piece, found, rest = rest.partition(mark)
        if not found or mark in rest or mark in piece:
            raise NoFormError("its template does not write each message once, in their order")
        pieces.append(piece)
    return [*pieces, rest]


ALL = {**PROBES, **CLOSED, **CONVERSATIONS}


def render(
    template: str,
    tokens: Mapping[str, str],
    conversations: Mapping[str, Sequence[Message]] = ALL,
    closed: Collection[str] = CLOSED,
) -> dict[str, str | None]:
    """Return what a template makes of conversations, by their names, of which some are `closed`: nobody answers.

    Raises NoFormError if it makes nothing.
    """
    asked = [(name, messages, name not in closed) for name, messages in conversations.items()]
    document = {"template": template, "variables": tokens, "conversations": [_given(*one[1:]) for one in asked]}
    try:
        done = subprocess.run(  # noqa: S603 # our own script; the template is data on its standard input
            [sys.executable, "-I", str(RENDERING)],
            input=json.dumps(document), capture_output=True, text=True, timeout=MOST_SECONDS, check=True, env={},
        )  # fmt: skip
        found = json.loads(done.stdout)
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        raise NoFormError("its template takes too long or too much memory, or cannot be run") from error
    if all("refused" in one for one in found):
        raise NoFormError(f"its template cannot be rendered: {found[0]['refused']}")
    return {name: one.get("text") for (name, *_), one in zip(asked, found, strict=True)}


def _given(messages: Sequence[Message], opened: bool) -> dict[str, object]:
    return {"messages": [one._asdict() for one in messages], "add_generation_prompt": opened}


def template_of(checkpoint: Checkpoint) -> str | None:
    """Return the template of chats; of several, that of the name `default`. Raises NoFormError for a strange one."""
    file = checkpoint.folder / TEMPLATE_FILE
    found: object = checkpoint.json(SETTINGS_FILE).get("chat_template")
    if checkpoint.has(TEMPLATE_FILE):
        if file.stat().st_size > MOST_CHARACTERS:
            raise NoFormError(f"{TEMPLATE_FILE}: at most {MOST_CHARACTERS} bytes, given {file.stat().st_size}")
        found = file.read_text(errors="replace")
    if isinstance(found, list):
        named = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}
        found = named.get("default")
    if found is None:
        return None
    if not isinstance(found, str) or len(found) > MOST_CHARACTERS:
        raise NoFormError(f"its template must be a text of at most {MOST_CHARACTERS} characters")
    return found


def special_tokens(checkpoint: Checkpoint) -> dict[str, str]:
    """Return the special tokens by the names that templates know, such as `bos_token`."""
    found: dict[str, str] = dict(row_of(class_name(checkpoint)).specials)
    for file in ("special_tokens_map.json", SETTINGS_FILE):
        for name, token in checkpoint.json(file).items():
            text = token.get("content") if isinstance(token, dict) else token
            if name.endswith("_token") and isinstance(text, str):
                found[name] = text
    return found
