"""The options of `fill-mask`."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from service.errors import TooLarge
from service.options.predictions import CANDIDATE_BYTES, TextOptions


class FillMaskOptions(TextOptions):
    """Options of `fill-mask`."""

    top_k: int = Field(5, ge=1, le=1000, description="candidates a mask, best first")

    def check_answer(self, lengths: Sequence[Mapping[str, int]], limit: int) -> None:
        """Raise TooLarge if the candidates of all masks would exceed a limit in bytes."""
        size = sum(one["masked"] for one in lengths) * self.top_k * CANDIDATE_BYTES
        if size > limit:
            raise TooLarge(
                f"candidates: at most {limit} bytes an answer, this one would have {size}; ask for fewer top_k"
            )
