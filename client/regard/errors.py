"""What can go wrong, as one tree. Every error says what to do next.

RegardError
├── BadInput            what is to be sent cannot be read or asked for, or not be saved; nothing was sent
├── NoService           nothing answers at the address, or something that is no regard service
├── TimedOut            no answer in time
├── StreamBroken        a stream of tokens ended early; it holds the tokens that came
├── Incompatible        an answer cannot be read: the service is older or newer than this client
├── NotInstalled        a package is missing here, such as the service's own for `regard serve`
├── CommandFailed       a service or an export that was started as a process has failed
└── Refused             the service answered with a problem document (RFC 9457)
    ├── KeyRefused      401, 403
    ├── NotFound        404
    ├── InputRefused    400, 406, 413, 414, 415, 422
    ├── Busy            429, after all retries
    ├── NotReady        503, after all retries
    ├── TooSlow         408, 504
    └── ServiceFailed   500 and any other
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

OF_INPUTS = frozenset("image images input inputs text text_pair sound audio graph graphs question context".split())
"""What a refusal begins with that is about an input."""


class RegardError(Exception):
    """Base of all errors of this package."""


class BadInput(RegardError, ValueError):
    """What is to be sent cannot be read or asked for, or an answer cannot be saved there. Nothing was sent."""


class NoService(RegardError):
    """Nothing answers at the address, or something that is no regard service."""


class TimedOut(RegardError):
    """The service did not answer in time."""


class StreamBroken(RegardError):
    """A stream of tokens ended before its last event. `text` is what came."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.text)  # or a pool of processes could not hand it on


class Incompatible(RegardError):
    """An answer cannot be read: the service is older or newer than this client."""


class NotInstalled(RegardError):
    """A package is missing here."""


class CommandFailed(RegardError):
    """A service or an export that was started as a process has failed."""


@dataclass(frozen=True)
class Problem:
    """The problem document of a refusal (RFC 9457)."""

    status: int
    title: str
    detail: str
    """Subject, limit, given."""
    errors: Sequence[Mapping[str, str]] = field(default_factory=tuple)
    """One entry for each wrong option: `loc` and `msg`."""
    retry_after: float | None = None
    """Seconds after which the service says that it is worth asking again."""
    request_id: str | None = None
    """By which the service's log names this request."""


class Refused(RegardError):
    """The service refused a request, or failed. `problem` is the document that it answered."""

    advice = ""

    def __init__(self, problem: Problem, about: str | None = None) -> None:
        self.problem = problem
        self.about = about
        """The input that it is about, such as a file's name, where the client knows it."""
        faults = "; ".join(": ".join(filter(None, (one.get("loc"), one.get("msg")))) for one in problem.errors)
        said = problem.detail + (f" ({faults})" if faults and faults not in problem.detail else "")
        advice = f" {self.advice}" if self.advice and not self.is_of_input else ""
        super().__init__(f"{f'{about}: ' if about else ''}{said} [{problem.status} {problem.title}]{advice}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.problem, self.about)

    @property
    def is_of_input(self) -> bool:
        """True if it is an input that was refused, and no option."""
        return self.problem.detail.partition(":")[0].split("[")[0].split(".")[0] in OF_INPUTS

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.problem.status


class KeyRefused(Refused):
    """The service wants an API key, or refuses the one that was sent (401, 403)."""

    advice = "Give regard.connect(..., key=...) or the environment's REGARD_KEY a key that the service knows."


class NotFound(Refused):
    """There is no such model, example or stored answer, or the model's task has no such endpoint (404)."""

    advice = "service.models() or, in a shell, `regard models` lists the models and what each of them can do."


class InputRefused(Refused):
    """The service cannot read the input, or an option or a size is beyond a limit (400, 406, 413, 414, 415, 422)."""

    advice = "The service's /docs has every option and what it takes."


class Busy(Refused):
    """The service's queue is full (429), and stayed so during all retries."""

    advice = "Ask less at once, or give regard.connect(..., patience=...) more seconds."


class NotReady(Refused):
    """The model is warming up or fails, or the service is stopping (503), and that lasted longer than all retries."""

    advice = "Ask again later; GET /health/ready says when it is ready."


class TooSlow(Refused):
    """The service's deadline passed (408, 504)."""

    advice = "Send fewer inputs at once, or ask for less attention."


class ServiceFailed(Refused):
    """The service failed (500); its log says why."""

    advice = "The service's log says why."


E = TypeVar("E", bound=RegardError)

KINDS: Mapping[int, type[Refused]] = {
    400: InputRefused,
    401: KeyRefused,
    403: KeyRefused,
    404: NotFound,
    406: InputRefused,
    408: TooSlow,
    413: InputRefused,
    414: InputRefused,
    415: InputRefused,
    422: InputRefused,
    429: Busy,
    503: NotReady,
    504: TooSlow,
}
"""The class of each status; of others `ServiceFailed`."""


def refused(problem: Problem, about: str | None = None) -> Refused:
    """Return the error of a problem document; `about` is the input that it is about."""
    return KINDS.get(problem.status, ServiceFailed)(problem, about)


def noted(error: E, about: str) -> E:
    """Return an error that says which input it is about, unless it says so already."""
    if not (isinstance(error, Refused) and error.about) and about not in str(error):
        error.args = (f"{about}: {error}", *error.args[1:])
    return error


def checked(subject: str, index: int, length: int) -> int:
    """Return an index that may count from the end. Raises BadInput for one that is not there."""
    if not -length <= index < length:
        raise BadInput(f"{subject}: must be {-length} to {length - 1}, given {index}")
    return index
