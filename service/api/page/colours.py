"""The page's tables of colours, written from the service's: `python -m service.api.page.colours`."""

from pathlib import Path

from service.explanations.colormaps import AGAINST_AND_FOR, COLORMAPS, SIGNED
from service.inputs.model_input import Pixels

FILE = Path(__file__).parent / "static" / "tables.js"
LINE = 108
"""Characters of a table on one line."""


def script() -> str:
    """Return the module of JavaScript: each table as one string, `rrggbb` a colour, from cold to hot."""
    named = "".join(f"  {name}:\n{_lines(table, 4)},\n" for name, table in COLORMAPS.items())
    return (
        "// Written by `python -m service.api.page.colours` from service/explanations/colormaps.py: change that.\n\n"
        "/** The colour maps by name: 256 colours each, rrggbb, from cold to hot. */\n"
        f"export const COLORMAPS = {{\n{named}}}\n\n"
        "/** Colours of signed values: 255, from blue by way of white, level 127, to red. */\n"
        f"export const SIGNED =\n{_lines(SIGNED, 2)}\n\n"
        "/** The two colours of signed values over an image: blue below level 127, red from there. */\n"
        f"export const AGAINST_AND_FOR = ['{bytes(AGAINST_AND_FOR[0]).hex()}', '{bytes(AGAINST_AND_FOR[-1]).hex()}']\n"
    )


def _lines(table: Pixels, indent: int) -> str:
    """Return a table as strings of at most LINE characters that are added up."""
    text = table.tobytes().hex()
    parts = [f"'{text[start : start + LINE]}'" for start in range(0, len(text), LINE)]
    return " +\n".join(" " * indent + part for part in parts)


if __name__ == "__main__":
    FILE.write_text(script())
