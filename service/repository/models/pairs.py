"""Two models that belong together: the one takes pictures, the other texts that are compared with these."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Self

from service.inputs.artifact_inputs import Inputs
from service.repository.models.uses import Uses


class Paired:
    """What a model has of its partner, if it has one: both are loaded, replaced, ready and ended together."""

    partner: Self | None = None
    """The model that its vectors are compared with."""
    uses: Uses
    inputs: Inputs
    """What makes inputs of what is sent."""

    @property
    def together(self) -> tuple[Self, ...]:
        """Both models, this one first; or this one alone."""
        return (self, self.partner) if self.partner else (self,)

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Count a request until it is answered, to which the partner belongs too: both stay until then."""
        with contextlib.ExitStack() as uses:
            for own in self.together:
                uses.enter_context(own.uses.used())
            yield

    def taking(self, inputs: Sequence[object]) -> Self:
        """Return the model that takes inputs of this sort: this one, or its partner."""
        texts = bool(inputs) and not isinstance(inputs[0], bytes)
        return next((own for own in self.together if bool(own.inputs.tokenizer) == texts), self)
