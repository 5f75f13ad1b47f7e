"""A service, to ask in Python."""

import copy
import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, TypeVar, overload

import httpx
from typing_extensions import Self, Unpack

from regard import calls, plans
from regard.asking import Bound, carry_out
from regard.connecting import AS_CONNECTED, Connecting
from regard.errors import BadInput
from regard.model import Model
from regard.models import Description
from regard.plain import kept
from regard.results import R, Result
from regard.tasks import task_of
from regard.transport import Transport

KEY_VARIABLE = "REGARD_KEY"
URL_VARIABLE = "REGARD_URL"
URL = "http://127.0.0.1:8000"


def connect(
    url: str | None = None,
    key: str | None = None,
    *,
    timeout: float | None = None,
    patience: float | None = None,
    retries: int | None = None,
    headers: Mapping[str, str] | None = None,
    verify: bool | str | None = None,
    proxy: str | None = None,
    http: httpx.Client | None = None,
) -> "Service":
    """Return a service that answers at an address, after a look at its models.

    - `url`: Its address (that of the environment's REGARD_URL, or http://127.0.0.1:8000).
    - `key`: An API key, where the service wants one (that of the environment's REGARD_KEY).
    - `timeout`: Seconds without a byte after which an answer is given up (60).
    - `patience`: Seconds in which a request that was refused with 408, 429 or 503 is sent again (30); 0: never.
    - `retries`: How many times a request is sent again after its connection failed (2); 0 for never.
    - `headers`: What every request has beside its own headers (none).
    - `verify`: Whether certificates are verified, or the path of an authority's certificate (True).
    - `proxy`: The address of a proxy (that of the environment: HTTPS_PROXY, ALL_PROXY, ...).
    - `http`: A `httpx.Client` that sends in place of one made here, and that `close` leaves open (one made here).

    Raises NoService if nothing answers there, and KeyRefused without a key where one is needed.

    Example: `regard.connect("http://127.0.0.1:8000", timeout=10)["digits"]`
    """
    service = Service(url, key, **kept(Connecting, locals()))
    try:
        service.with_options(retries=0).models()
    except BaseException:
        service.close()
        raise
    return service


class Service:
    """A service at an address. `service["digits"]` is one of its models.

    It takes what `connect` takes, and asks nothing before the first call. It may be used by several threads at once.
    `close` it, or use it as a context manager, to close its connections.
    """

    def __init__(self, url: str | None = None, key: str | None = None, **options: Unpack[Connecting]) -> None:
        self._transport = Transport(*known(url, key), options)
        self._sending = AS_CONNECTED

    @property
    def url(self) -> str:
        """The address."""
        return self._transport.address

    def models(self) -> list[Description]:
        """Return the models that the service has, as it describes them."""
        return self._transport.send(calls.list_models(), self._sending)

    def __getitem__(self, name: str) -> Model[Any]:
        """Return a model by its name. Raises NotFound if there is none of it, with the names that there are."""
        description = carry_out(plans.named(name), self._transport, self._sending)
        return Model[Any](self._transport, description, self._sending)

    @overload
    def model(self, name: str) -> Model[Any]: ...

    @overload
    def model(self, name: str, answers: type[R]) -> Model[R]: ...

    def model(self, name: str, answers: type[Result] = Result) -> Model[Any]:
        """Return a model by its name, as `service[name]` does.

        With the class of its answers, type checkers know what a call of it returns. Raises BadInput if it answers
        another.

        Example: `service.model("digits", regard.Classification)("seven.png").labels`
        """
        return answering(self[name], answers)

    def with_options(
        self,
        *,
        timeout: float | None = None,
        patience: float | None = None,
        retries: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """Return the same service, and its models, asked in another way; what is left out stays as it was."""
        found = copy.copy(self)
        found._sending = self._sending.changed(timeout, patience, retries, headers)
        return found

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<regard service at {self.url}>"


M = TypeVar("M", bound=Bound[Any, Any])


def answering(model: M, answers: type[Result]) -> M:
    """Return a model. Raises BadInput if its answers are none of a class."""
    found = task_of(model.description).result
    if not issubclass(found, answers):
        raise BadInput(f"answers: must be {found.__name__} for {model.name!r}, given {answers.__name__}")
    return model


def known(url: str | None, key: str | None) -> tuple[str, str | None]:
    """Return an address and a key: those that are given, or those of the environment."""
    address = os.environ.get(URL_VARIABLE) or URL if url is None else url
    return address, key or os.environ.get(KEY_VARIABLE)
