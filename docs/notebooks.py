"""Run docs/notebooks/ anew against a service of the models in artifacts/, and keep what they show: `make notebooks`."""

import argparse
import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

from benchmarks.running_service import served

ROOT = Path(__file__).parent.parent
NOTEBOOKS = ROOT / "docs/notebooks"
CELL_SECONDS = 300
"""Seconds that a cell may take; the longest exports a model."""
NO_WIDGETS = "ignore:IProgress not found"
"""tqdm, which transformers imports, warns of it; nothing here draws a bar."""
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def run(notebook, address):
    """Run every cell of a notebook, where the notebooks lie; `regard.connect()` then finds the service at an address.

    The notebook names the address that its readers have.
    """
    with tempfile.TemporaryDirectory() as home:  # the history of what was typed is nobody's
        environment = {**os.environ, "REGARD_URL": address, "IPYTHONDIR": home, "PYTHONWARNINGS": NO_WIDGETS}
        client = NotebookClient(
            notebook,
            config=Config(KernelManager={"transport": "ipc", "ip": f"{home}/kernel"}),  # no port that others can reach
            kernel_name="python3",
            timeout=CELL_SECONDS,
            coalesce_streams=True,
            resources={"metadata": {"path": str(NOTEBOOKS)}},
        )
        client.execute(env=environment)


def quiet(notebook):
    """Take out what is another in every run or on every machine: numbers of executions, times, ids, versions.

    Pillow's images come as JPEG too, which nobody needs beside PNG.
    """
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", nbformat.from_dict({})
        for part in [cell, *cell.get("outputs", ())]:
            if "execution_count" in part:
                part.execution_count = None
            part.get("data", {}).pop("image/jpeg", None)


def main():
    """Run the notebooks, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=sorted(one.stem for one in NOTEBOOKS.glob("*.ipynb")))
    parser.add_argument(
        "--artifacts", type=Path, default=ROOT / "artifacts", help="has digits, dates, dates-mlm, captions-soft, minilm"
    )
    parser.add_argument("--to", type=Path, default=NOTEBOOKS)
    arguments = parser.parse_args()
    with served(arguments.artifacts) as client:
        for name in arguments.names:
            notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
            run(notebook, str(client.base_url).rstrip("/"))
            quiet(notebook)
            nbformat.write(notebook, arguments.to / f"{name}.ipynb")


if __name__ == "__main__":
    main()
