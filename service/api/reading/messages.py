"""The messages of a chat, as OpenAI's clients write them."""

from starlette.requests import Request

from contract.chat import ASSISTANT, SYSTEM, USER, Message
from service.api.reading.request_parsing import ParsedRequest, check_count, read_document, texts_of
from service.errors import Unacceptable
from service.inputs.model_input import Conversation
from service.settings import Settings

MOST_MESSAGES = 1024
"""Of a chat."""
ROLES = {SYSTEM: SYSTEM, "developer": SYSTEM, USER: USER, ASSISTANT: ASSISTANT}
"""The roles that are known, and whose messages they are here."""
TOOLS = "tools are not served"
OF_TOOLS = ("tool", "function")
"""Roles of what tools answer."""
CALLS = ("tool_calls", "function_call", "tool_call_id")
"""Members of messages that are of tools."""


async def read_prompts(request: Request, settings: Settings) -> ParsedRequest:
    """Return the texts of a JSON document, or the chat whose messages stand in their place."""
    document = await read_document(request, settings.max_text_bytes, settings)
    if "messages" not in document:
        return texts_of(document, settings)
    if "inputs" in document:
        raise Unacceptable("messages: must be given in place of inputs, given both")
    return ParsedRequest([parse_messages(document.pop("messages"))], document)


def parse_messages(given: object) -> Conversation:
    """Return the messages of a JSON value. Raises Unacceptable, which counts messages from 1."""
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise Unacceptable('messages: must be a list of messages, such as {"role": "user", "content": "Hello"}')
    check_count("messages", len(given), MOST_MESSAGES)
    messages = []
    for number, one in enumerate(given, 1):
        try:
            messages.append(_message(one, first=number == 1))
        except Unacceptable as refusal:
            raise Unacceptable(f"{refusal} (message {number} of {len(given)})") from refusal
    if messages[-1].role != USER:
        raise Unacceptable("messages: the last must be the user's, which is answered")
    return Conversation(tuple(messages))


def _message(given: dict[str, object], *, first: bool) -> Message:
    told = {name for name, value in given.items() if value not in (None, [], "")}
    role = given.get("role")
    if told.intersection(CALLS) or role in OF_TOOLS:
        raise Unacceptable(f"messages: {TOOLS}")
    if not isinstance(role, str) or role not in ROLES:
        raise Unacceptable("messages: role must be system, developer, user or assistant")
    if told - {"role", "content"}:
        raise Unacceptable("messages: each has a role and a content, and nothing else")
    if ROLES[role] == SYSTEM and not first:
        raise Unacceptable("messages: the system's must be the first")
    content = _content(given.get("content"))
    if not content.strip():
        raise Unacceptable("messages: each must hold text, given none")
    return Message(ROLES[role], content)


def _content(given: object) -> str:
    """Return the text of a message; of several parts each is a line, as vLLM joins them."""
    if given is None:
        return ""
    parts = [{"type": "text", "text": given}] if isinstance(given, str) else given
    if not isinstance(parts, list) or not all(map(_is_text, parts)):
        raise Unacceptable("messages: content must be text, or parts of type text; pictures and sounds are not taken")
    return "\n".join(part["text"] for part in parts)


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
