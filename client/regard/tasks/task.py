"""A task, as the client knows it, and what the tasks share.

Options have the names of the service. Those that are left out have its defaults.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypedDict

from regard.maps import Json
from regard.models import Description
from regard.options import AskedAttention, Method
from regard.results import Look, R


@dataclass(frozen=True)
class Task(Generic[R]):
    """An endpoint of a model, what it answers, and how its options bear on attention."""

    endpoint: str
    result: type[R]
    of_answer: Sequence[str] = ("top_k",)
    """Options of the answer alone, which attention does not take."""
    of_rows: Sequence[str] = ()
    """Options of the answer that say which rows its maps have."""
    is_repeatable: Callable[[Description, Json], bool] = lambda model, options: True
    """False if a model draws at random what it answers with these options."""
    drawn_by: Callable[[Json], Method | None] = lambda options: None
    """The method of a picture with these options of attention; None for the model's usual one."""
    event: str = ""
    """The event of a stream that holds a part of the answer; none where answers come whole."""
    read_event: Callable[[Json], Any] = dict
    """What reads such a part, which has a `text`."""


class CommonOptions(TypedDict, total=False):
    """What every endpoint takes."""

    attention: Method | AskedAttention
    """Attention that comes with the answer: a method, or {"method": "raw", "layers": "all"} (none)."""
    priority: Literal["interactive", "batch"]
    """"batch" lets others go first ("interactive")."""


class TextOptions(CommonOptions, total=False):
    """What endpoints take that read a text whole."""

    truncate: bool
    """Cut a text that is too long, which is refused otherwise (False)."""


class WindowOptions(TextOptions, total=False):
    """What endpoints take that can read a long text in windows."""

    overflow: Literal["window"]
    """Read a text that is too long in overlapping windows (refused)."""
    stride: int
    """How many tokens a window shares with the one before (128, or half of a smaller one)."""


ATTENTION = Task("attention", Look)
"""What a model looks at, without its prediction."""
