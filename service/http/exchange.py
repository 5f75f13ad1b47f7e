"""One request and its answer, as the connection, the middleware and the routes see them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import Scope

from service.errors import Busy

SCOPE_STATE_KEY = "exchange"
"""The key of the Exchange in `scope["state"]`."""


def nothing() -> None:
    """Do nothing."""


@dataclass(eq=False)
class Exchange:
    """What is known of one request and its answer; each field is set by the layer that learns it."""

    id: str = ""
    """The id of the request, in its header X-Request-Id and in the log: the client's, or the service's own."""
    own_id: str = ""
    """The id that the service made for the request; its answer carries this one."""
    answer_id: str | None = None
    """The id in the answer, once there is one: attention can be asked for by it."""
    method: str = ""
    model: str | None = None
    """The name of the model that the request is for, once it is known that it is served."""
    key_name: str | None = None
    """The name of the API key that the request carries."""
    client: str = ""
    """Who shares with other clients: the name of the key, else the address."""
    body_pieces: int = 0
    """Pieces (chunks) of the body that the parser has read."""
    body_arrived: bool = False
    """True once the whole body has arrived, and waits to be read."""
    body_read: bool = False
    """True once the whole body was read."""
    error_form: Callable[..., Response] | None = None
    """How the protocol of the request writes an error, as `problems.problem` has it; None for problem details."""
    refused: str | None = None
    """What the refusal is called in metrics and logs, if there was one."""
    busy: Busy | None = None
    """The refusal, if it was for lack of room."""
    status: int = 0
    """The status of the answer; 0 until it begins."""
    bytes_received: int = 0
    """The bytes of the body that have arrived."""
    bytes_sent: int = 0
    """The bytes of the answer's body that were sent."""
    ends_at: float = math.inf
    """When its answer must be complete, also one that is streamed (the event loop's time)."""
    release_body: Callable[[], None] = nothing
    """Counts the bytes of the body no longer; for an answer that goes on when nothing is left of the body."""
    when_gone: Callable[[], None] = nothing
    """Called when the client leaves before its answer is complete."""
    abort: Callable[[], None] = nothing
    """Closes the connection at once, in the middle of the answer."""


def exchange_of(scope: Scope) -> Exchange:
    """Return the exchange of a request. The first layer that asks for it makes it."""
    state = scope.setdefault("state", {})
    if SCOPE_STATE_KEY not in state:
        state[SCOPE_STATE_KEY] = Exchange()
    exchange: Exchange = state[SCOPE_STATE_KEY]
    return exchange
