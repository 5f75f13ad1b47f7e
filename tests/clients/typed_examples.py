"""The examples in which the papers use our own client, as one module each, for type checkers."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAPERS = ("docs/python.md", "README.md", "client/README.md")
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def write_examples(folder):
    """Write a module for each paper, of its blocks in order; those before one that imports `regard` are not ours."""
    found = []
    for paper in PAPERS:
        blocks = BLOCK.findall((ROOT / paper).read_text())
        first = next(at for at, block in enumerate(blocks) if "import regard" in block)
        others = [block for block in blocks[first:] if "from openai" not in block]
        found.append(Path(folder) / f"{paper.replace('/', '_').removesuffix('.md')}.py")
        found[-1].write_text("\n".join(others))
    return found
