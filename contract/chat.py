"""How the messages of a chat become a text: part of the manifest of a model that was trained on chats."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from pydantic import Field

from contract.part import Part

SYSTEM, USER, ASSISTANT = "system", "user", "assistant"
"""Whose a message is: the first says how to answer, and those of the others take turns."""
THOUGHT = "</think>"
"""What ends the thoughts before an answer, in models that write them."""


Trim = Literal["nothing", "ends", "start", "end", "breaks", "first breaks"]
"""What is left out at the ends of a text: white space at both or at one, or line breaks at both or before it."""
TRIMS: Mapping[Trim, tuple[str | None, str | None]] = {
    "nothing": ("", ""),
    "ends": (None, None),
    "start": (None, ""),
    "end": ("", None),
    "breaks": ("\n", "\n"),
    "first breaks": ("\n", ""),
}
"""The characters that are left out before and behind a text; None is all white space."""


class Message(NamedTuple):
    """One message of a chat."""

    role: str
    content: str


class Piece(NamedTuple):
    """A piece of the text of a chat."""

    text: str
    message: int | None = None
    """The number of the message that it is of; None for what the model's form adds."""
    start: int = 0
    """Where in this message it begins, in characters."""


class Turn(Part):
    """What stands around the text of a message."""

    prefix: str
    suffix: str
    trims: Trim = Field("nothing", description="left out at the message's ends")


class Chat(Part):
    """The strings around messages, by role, which reproduce the checkpoint's template."""

    begins: str = Field(description="what begins the text")
    system: Turn | None = Field(None, description="null where no system's message is taken")
    user: Turn
    assistant: Turn
    opens: str = Field(description="what opens the answer")
    default_system: str | None = Field(None, description="where none is given")
    place: Literal["own", "first", "last"] = Field(
        "own", description="of the system's message: its own turn, or the user's first or last"
    )
    alternates: bool = Field(False, description="user and assistant must alternate")
    thinks: Trim | None = Field(
        None,
        description="answers lose what ends in </think>, and this at the ends of the rest",
    )
    joined: bool = Field(False, description="a turn is trimmed as one with the system's message in it")

    def pieces(self, messages: Sequence[Message]) -> list[Piece]:
        """Return the text of messages, the last of which is the user's, in pieces: what opens the answer is the last.

        Only the first may be the system's, in a form that has a turn for it.
        """
        given = messages[0].role == SYSTEM
        users = [number for number, message in enumerate(messages) if message.role == USER]
        system: list[Piece] = []
        if self.system and given:
            system = _around(self.system, self._content(0, messages[0]))
        elif self.system and self.default_system is not None:
            system = _around(self.system, Piece(self.default_system))
        at = {"own": int(given), "first": users[0], "last": users[-1]}[self.place]
        pieces = [Piece(self.begins)]
        for number, message in list(enumerate(messages))[int(given) :]:
            here = system if number == at else []
            content = self._content(number, message, begun=self.joined and bool(here))
            before, *written = _around(self._turn(message.role), content)
            pieces += [*here, before] if self.place == "own" else [before, *here]
            pieces += written
        return [one for one in (*pieces, Piece(self.opens)) if one.text]

    def text(self, messages: Sequence[Message]) -> str:
        """Return the text of messages."""
        return "".join(piece.text for piece in self.pieces(messages))

    def _turn(self, role: str) -> Turn:
        """Return what stands around the messages of a role."""
        return self.system if role == SYSTEM and self.system else self.user if role == USER else self.assistant

    def _content(self, number: int, message: Message, *, begun: bool = False) -> Piece:
        """Return what is written of a message, whose turn may have begun with the system's text."""
        text, cuts = message.content, [TRIMS[self._turn(message.role).trims]]
        if self.thinks and message.role == ASSISTANT and THOUGHT in text:
            text = text.rpartition(THOUGHT)[2]
            cuts.insert(0, TRIMS[self.thinks])
        for before, _ in [] if begun else cuts:
            text = text.lstrip(before)
        start = len(message.content) - len(text)
        for _, behind in cuts:
            text = text.rstrip(behind)
        return Piece(text, number, start)


class PairForm(Part):
    """The strings around two texts, such as a query and a document, which become one text for a model to judge."""

    begins: str = Field(description="what stands before the first text")
    between: str = Field(description="what stands between them")
    ends: str = Field(description="what stands behind the second")

    def pieces(self, first: str, second: str) -> list[Piece]:
        """Return the text of two texts in pieces: theirs are those of messages 0 and 1."""
        return [Piece(self.begins), Piece(first, 0), Piece(self.between), Piece(second, 1), Piece(self.ends)]

    def text(self, first: str, second: str) -> str:
        """Return the text of two texts."""
        return "".join(piece.text for piece in self.pieces(first, second))


def _around(turn: Turn, content: Piece) -> list[Piece]:
    return [Piece(turn.prefix), content, Piece(turn.suffix)]
