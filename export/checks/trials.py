"""The random inputs that the graphs of a source are compared on: all that there are, or the few that tell as much."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from export.errors import ExportError
from export.plan import Sizes, Source, format_sizes

Extent: TypeAlias = Literal["usual", "full"]
"""How many inputs are tried. docs/checkpoints.md says what `full` compares that `usual` does not."""

EXTENTS: tuple[Extent, ...] = get_args(Extent)

SEEDS = (1, 2)
"""Of random inputs. Every graph must tell those of the first from those of the second."""

LEAST_SIZES = 3
"""Graphs are made to be verified at no fewer sizes than this."""


@dataclass(frozen=True, eq=False)
class Trial:
    """One batch of random inputs: every graph is run on it, and compared with the definition in float64."""

    sizes: Sizes
    seed: int
    in_every_case: bool
    """True if maps are asked for in every way, False if only the raw ones."""

    @property
    def where(self) -> str:
        """Its sizes, for a message."""
        return format_sizes(self.sizes)


Round: TypeAlias = tuple[Trial, ...]
"""Trials of the same lengths, whose inputs every graph must tell apart. The last trial of the last round is padded."""


def rounds_of(source: Source, extent: Extent = "full") -> list[Round]:
    """Return the trials of a source. Raises ExportError if its sizes do not show what they must.

    In full, each of its sizes with both seeds. Else the first sizes, where lengths are 1, and those of the last: a
    batch of two, of which the second row is padded, and one input of the other seed. Where nothing varies but the batch
    this other input is that of the first sizes, too.
    """
    given = source.verified_at
    if len(given) < LEAST_SIZES or given[-1]["batch"] < 2:
        raise ExportError(f"verification needs {LEAST_SIZES} sizes, the last of a batch, given {len(given)}")
    if source.traced_at in given:
        raise ExportError(f"sizes to verify must differ from the traced ones, given {format_sizes(source.traced_at)}")
    one, other = SEEDS
    if extent == "full":
        return [(Trial(sizes, other, False), Trial(sizes, one, True)) for sizes in given]
    alone, pair = ({**given[-1], "batch": batch} for batch in (1, 2))
    first = [] if given[0] == alone else [(Trial(given[0], one, False),)]
    return [*first, (Trial(alone, other, False), Trial(pair, one, True))]
