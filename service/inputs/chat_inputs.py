"""The messages of a chat, or two texts in a form, as tokens, each of which knows its message or text."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from contract.chat import ASSISTANT, SYSTEM, USER, Chat, PairForm, Piece
from contract.input_rules import TextRule
from service.errors import Unacceptable
from service.inputs.model_input import Conversation, Pair, Token, strings_of
from service.inputs.tokenization import TextTokenizer, check_count, without_end

SPECIAL = "must not hold special tokens of this model, which its tokenizer cannot write as text"


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
    """Return the tokens of a chat, with their roles.

    Raises what `TextTokenizer.begun` and `placed_tokens` do, and Unacceptable for more than `limit` tokens.
    """
    pieces = form.pieces(conversation.messages)
    roles = {number: message.role for number, message in enumerate(conversation.messages)}
    (text,) = tokenizer.begun(["".join(piece.text for piece in pieces)])
    tokens = placed_tokens(tokenizer, pieces, tokenizer.written(text), "messages")
    check_count(len(tokens), limit)
    return [token if token.sequence is None else replace(token, role=roles[token.sequence]) for token in tokens]


def pair_tokens(
    tokenizer: TextTokenizer, form: PairForm, pair: Pair, limit: int, *, truncate: bool = False
) -> list[Token]:
    """Return the tokens of two texts in a form; with `truncate`, the end of one that is too long is cut off.

    That is the second, unless the pair says which. Raises what `TextTokenizer.begun`, `without_end` and `placed_tokens`
    do, and Unacceptable for more than `limit` tokens.
    """
    tokens = whole_pair(tokenizer, form, tokenizer.begun(strings_of(pair), truncate=truncate))
    if not truncate:
        check_count(len(tokens), limit)
        return tokens
    return without_end(tokens, *(limit, 1) if pair.most is None else (pair.most, pair.cut), limit)


def whole_pair(tokenizer: TextTokenizer, form: PairForm, texts: Sequence[str]) -> list[Token]:
    """Return the tokens of two texts in a form, however many. Raises what `placed_tokens` does."""
    pieces = form.pieces(*texts)
    return placed_tokens(tokenizer, pieces, tokenizer.written("".join(one.text for one in pieces)), "input")


def placed_tokens(
    tokenizer: TextTokenizer, pieces: Sequence[Piece], written: Sequence[Token], subject: str
) -> list[Token]:
    """Return what is written as the tokens of pieces; those that are of no message have no span, as special ones.

    They are those of the whole text, as the reference library has them. Special tokens in a message are text: each is
    tokenized by itself, as a text that it begins and ends. Raises Unacceptable where no such text can be written.
    """
    text = "".join(piece.text for piece in pieces)
    tokens: list[Token] = []
    contents = _placed(pieces)
    begin, stop, content = next(contents)
    for token in written:
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
        )
        if not tokenizer.is_special(token.index):
            tokens.append(placed)
        elif (start, end) == (first, last):
            plain = tokenizer.written(text[first:last], plain=True)
            if any(tokenizer.is_special(one.index) for one in plain):
                raise Unacceptable(f"{subject}: {SPECIAL}")
            for piece in plain:
                within = piece.span or (0, 0)
                span = _moved(*within, first + content.start - begin)
                tokens.append(replace(placed, index=piece.index, text=piece.text, span=span))
        elif text[start:end].isspace():  # white space of a message, which a special token of the form takes in
            tokens.append(replace(token, span=None))
        else:
            raise Unacceptable(f"{subject}: {SPECIAL}")
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
