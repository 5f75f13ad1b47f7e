"""What was posted to a model by the protocol of Hugging Face's pipelines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from starlette.requests import Request

from service.answering.call import Call
from service.http.exchange import exchange_of
from service.inputs.model_input import Text
from service.repository.models.served_model import ServedModel
from service.state import State

S = TypeVar("S", bound=ServedModel)


@dataclass(frozen=True)
class Asked:
    """What was posted to a model."""

    state: State
    request: Request
    inputs: Sequence[bytes | Text]
    given: Mapping[str, object]
    """The parameters."""
    several: bool = False
    """True if the inputs are a list."""
    compared: bool = False
    """True if the first text is compared with the others."""

    def call(self, served: S) -> Call[S]:
        """Return what is asked of a model."""
        return self.call_with(served, self.inputs)

    def call_with(self, served: S, inputs: Sequence[bytes | Text]) -> Call[S]:
        """Return what is asked of a model, with other inputs that were made of these."""
        return Call(self.state, exchange_of(self.request.scope), served, inputs)
