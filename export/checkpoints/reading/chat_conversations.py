"""Conversations by which the form of a chat is found in a template's texts, and those on which it must be the same."""

from collections.abc import Mapping

from contract.chat import ASSISTANT, SYSTEM, USER, Message

MARKS = {SYSTEM: "Zqsystemqz", USER: "Zquserqz", ASSISTANT: "Zqassistantqz"}
"""What stands for messages where a form is looked for: no template changes it."""
LAST = "Zqlastqz"
"""The same of the user's last message."""


def _chat(*messages: tuple[str, str]) -> list[Message]:
    return [Message(*one) for one in messages]


ASKED, ANSWERED, TOLD = (USER, MARKS[USER]), (ASSISTANT, MARKS[ASSISTANT]), (SYSTEM, MARKS[SYSTEM])
PROBES: Mapping[str, list[Message]] = {
    "one": _chat(ASKED),
    "turns": _chat(ASKED, ANSWERED, (USER, LAST)),
    "told": _chat(TOLD, ASKED),
    "told turns": _chat(TOLD, ASKED, ANSWERED, (USER, LAST)),
    "twice": _chat(ASKED, (USER, LAST)),
    "padded": _chat(*((role, f"\n \n{mark}\n \n") for role, mark in (ASKED, ANSWERED, (USER, LAST)))),
    "padded system": _chat(*((role, f"\n \n{mark}\n \n") for role, mark in (TOLD, ASKED))),
    "thought": _chat(ASKED, (ASSISTANT, f"<think>\n{LAST}\n</think>\n \n{MARKS[ASSISTANT]}\n \n"), (USER, "more")),
}
"""By which the form is found, all of them with what opens the answer."""
CLOSED: Mapping[str, list[Message]] = {"closed": _chat(ASKED), "answered": _chat(ASKED, ANSWERED)}
"""The same without it."""

_HI, _HELLO, _WHY = (USER, "Hi!"), (ASSISTANT, "Hello, what can I do?"), (USER, "Why is the sky blue?")
_ODD = "{{ 7 * 7 }} {% if x %} {# no #} <b>&amp;</b> \"'\\ \\n null \u00e9\u0308\u65e5\u672c\U0001f642 \u200b|"
_CODE = "def f(x):\n\tif x:\n\t    return {\n        'a': [1, 2]}\r\n\n\n# end\n"
_MARKS = "/think /no_think Reasoning effort <|channel>x<channel|> <mm:think>y</mm:think>\n[BEGIN FINAL RESPONSE]\n z"
CONVERSATIONS: Mapping[str, list[Message]] = {
    "one question": _chat(_WHY),
    "a system's message": _chat((SYSTEM, "Answer in French."), _WHY),
    "three turns": _chat(_HI, _HELLO, _WHY),
    "three turns and a system's message": _chat((SYSTEM, "Be brief."), _HI, _HELLO, _WHY),
    "seven turns": _chat(_HI, _HELLO, _WHY, (ASSISTANT, "It scatters."), (USER, "Is it?"), (ASSISTANT, "Yes"), _HI),
    "seven turns and a system's message": _chat(
        (SYSTEM, "You are a poet.\nRhyme."), _WHY, (ASSISTANT, "Oh"), _HI, _HELLO, _HI, _HELLO, (USER, "And now?")
    ),
    "spaces at ends": _chat((USER, "  Hi "), (ASSISTANT, " Hello  "), (USER, " \tWhy? ")),
    "line breaks at ends": _chat((USER, "\n\nHi\n"), (ASSISTANT, "\nHello\n\n"), (USER, "\r\nWhy?\n \n")),
    "spaces at ends of a system's message": _chat((SYSTEM, "\n Be brief. \n"), _WHY),
    "odd characters": _chat((USER, _ODD), (ASSISTANT, _ODD), (USER, f"{_ODD}\n{_ODD}")),
    "odd characters in a system's message": _chat((SYSTEM, _ODD), (USER, _ODD)),
    "code": _chat((USER, f"```\n{_CODE}```"), (ASSISTANT, _CODE), (USER, _CODE)),
    "long": _chat((USER, "All work and no play. " * 200), (ASSISTANT, "0"), (USER, "a" * 2000)),
    "spaces at ends, also of a system's message": _chat((SYSTEM, "\n\t Be. \n "), (USER, "\n  Why?\n")),
    "spaces around a thought": _chat(
        _HI, (ASSISTANT, " <think>\n\n A greeting.</think> \n Hi \n"), _WHY, (ASSISTANT, "\n</think>\tOh\n\n"), _HI
    ),
    "marks that some templates look for": _chat(_HI, (ASSISTANT, _MARKS), (USER, _MARKS)),
    "marks in a system's message": _chat((SYSTEM, _MARKS), _WHY),
    "a thought": _chat(_HI, (ASSISTANT, "<think>\nA greeting.\n</think>\n\nHello!"), _WHY),
    "two thoughts": _chat(_HI, (ASSISTANT, "<think>a</think>b<think>c</think>\nd"), _WHY, (ASSISTANT, "</think>"), _HI),
    "two questions": _chat(_HI, _WHY),
    "an answer first": _chat(_HELLO, _WHY),
    "turns that do not alternate": _chat((SYSTEM, "Be."), _HI, _WHY, _HELLO, (ASSISTANT, "Well?"), _WHY, _HI),
}
"""On which a form must be the same as the template, by what they try."""
UNEVEN = ("two questions", "an answer first", "turns that do not alternate")
"""Those of CONVERSATIONS that a form refuses where turns must alternate."""
