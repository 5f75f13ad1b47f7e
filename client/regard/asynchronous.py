"""The same service for `async` and `await`, by asyncio or trio."""

import copy
from collections.abc import Mapping
from types import TracebackType
from typing import Any, overload

import httpx
from typing_extensions import Self

from regard import calls, plans
from regard.async_model import AsyncModel
from regard.awaiting import carry_out
from regard.connecting import AS_CONNECTED, Connecting
from regard.models import Description
from regard.plain import kept
from regard.results import R, Result
from regard.service import answering, known
from regard.transport import AsyncTransport


class AsyncService:
    """A service at an address: `async with regard.AsyncService(url) as service: model = await service.model("digits")`.

    It takes what `regard.connect` takes, `http` an `httpx.AsyncClient`, and asks nothing before the first call.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float | None = None,
        patience: float | None = None,
        retries: int | None = None,
        headers: Mapping[str, str] | None = None,
        verify: bool | str | None = None,
        proxy: str | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._transport = AsyncTransport(*known(url, key), kept(Connecting, locals()))  # type: ignore[arg-type]
        self._sending = AS_CONNECTED

    @property
    def url(self) -> str:
        """The address."""
        return self._transport.address

    async def models(self) -> list[Description]:
        """Return the models that the service has, as it describes them."""
        return await self._transport.send(calls.list_models(), self._sending)

    @overload
    async def model(self, name: str) -> AsyncModel[Any]: ...

    @overload
    async def model(self, name: str, answers: type[R]) -> AsyncModel[R]: ...

    async def model(self, name: str, answers: type[Result] = Result) -> AsyncModel[Any]:
        """Return a model by its name; with the class of its answers, type checkers know what a call of it returns.

        Raises NotFound if there is none of it, with the names that there are, and BadInput if it answers another.
        """
        description = await carry_out(plans.named(name), self._transport, self._sending)
        return answering(AsyncModel[Any](self._transport, description, self._sending), answers)

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

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<regard service at {self.url}>"
