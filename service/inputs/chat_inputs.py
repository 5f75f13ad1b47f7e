"""The messages of a chat as tokens, each of which knows its message and its role."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from contract.chat import ASSISTANT, SYSTEM, USER, Chat, Piece
from contract.input_rules import TextRule
from service.errors import Unacceptable
from service.inputs.model_input import Conversation, Token
from service.inputs.tokenization import TextTokenizer, check_count

SPECIAL = "messages: must not hold special tokens of this model, which its tokenizer cannot write as text"


def form_of(rule: TextRule, conversation: Conversation) -> Chat:
    """Return the form by which a model takes messages. Raises Unacceptable if it takes none, or not these."""
    form = rule.chat
    if form is None:
        raise Unacceptable(f"messages: {why_no_chat(rule)}; send inputs")
    roles = [message.role for message in conversation.messages]
    if roles[0] == SYSTEM:
        if form.system is None:
            raise Unacceptable("messages: this model's template takes no message of the system")
        roles = roles[1:]
    if form.alternates and roles != [USER, ASSISTANT] * (len(roles) // 2) + [USER]:
        raise Unacceptable("messages: must be of user and assistant in turns, as this model's template asks")
    return form


def why_no_chat(rule: TextRule) -> str:
    """Return why a model takes no messages."""
    return f"this model takes none, since {rule.no_chat or 'its checkpoint has no template of chats'}"


def chat_tokens(tokenizer: TextTokenizer, form: Chat, conversation: Conversation, limit: int) -> list[Token]:
    """Return the tokens of a chat; those that are of no message have no span, as special ones.

    They are those of the whole text, as the reference library has them. Special tokens in a message are text: each is
    tokenized by itself, as a text that it begins and ends. Raises what `TextTokenizer.written` does, and Unacceptable
    for more than `limit` tokens, and where no such text can be written.
    """
    pieces = form.pieces(conversation.messages)
    text = "".join(piece.text for piece in pieces)
    tokens: list[Token] = []
    contents = _placed(pieces)
    begin, stop, content = next(contents)
    for token in tokenizer.written(text):
        first, last = token.span or (0, 0)
        while stop <= first:
            begin, stop, content = next(contents, (len(text) + 1, len(text) + 1, Piece("")))
        start, end = max(first, begin), min(last, stop)
        if start >= end:
            tokens.append(replace(token, span=None))
            continue
        placed = replace(
            token,
            span=_moved(start, end, content.start - begin),
            sequence=content.message,
            role=conversation.messages[content.message or 0].role,
        )
        if not tokenizer.is_special(token.index):
            tokens.append(placed)
        elif (start, end) == (first, last):
            plain = tokenizer.written(text[first:last], plain=True)
            if any(tokenizer.is_special(one.index) for one in plain):
                raise Unacceptable(SPECIAL)
            for piece in plain:
                within = piece.span or (0, 0)
                span = _moved(*within, first + content.start - begin)
                tokens.append(replace(placed, index=piece.index, text=piece.text, span=span))
        elif text[start:end].isspace():  # white space of a message, which a special token of the form takes in
            tokens.append(replace(token, span=None))
        else:
            raise Unacceptable(SPECIAL)
    check_count(len(tokens), limit)
    return tokens


def _moved(start: int, end: int, by: int) -> tuple[int, int]:
    return start + by, end + by


def _placed(pieces: Sequence[Piece]) -> Iterator[tuple[int, int, Piece]]:
    """Yield the pieces that are of messages, each with where it begins and ends in the whole text."""
    place = 0
    for piece in pieces:
        end = place + len(piece.text)
        if piece.message is not None:
            yield place, end, piece
        place = end
