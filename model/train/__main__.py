"""`python -m model.train digits`: train a bundled model, write its weights, print the figure its card quotes."""

import argparse
import importlib
from pathlib import Path

from model.catalogue import BUNDLED
from model.weights import save_weights

RECIPES = ("digits", "dates")


def main() -> None:
    """Train the named models one after the other."""
    parser = argparse.ArgumentParser(prog="python -m model.train", description="Train bundled models on this machine.")
    parser.add_argument("names", nargs="+", choices=RECIPES, metavar="name", help=f"one of: {', '.join(RECIPES)}")
    parser.add_argument("--steps", type=int, help="optimizer steps (default: what the card was made with)")
    parser.add_argument("--to", type=Path, default=BUNDLED, help="folder that gets <name>/model.safetensors")
    arguments = parser.parse_args()
    for name in arguments.names:
        recipe = importlib.import_module(f"model.train.{name}")
        module, figure = recipe.train(**({} if arguments.steps is None else {"steps": arguments.steps}))
        folder = arguments.to / name
        folder.mkdir(parents=True, exist_ok=True)
        save_weights(module, folder / "model.safetensors")
        print(f"{name}: {figure}; weights in {folder}")  # noqa: T201 # a command's answer


if __name__ == "__main__":
    main()
