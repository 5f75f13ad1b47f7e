"""`python -m train digits`: train a model, write its weights, print the figure its card quotes."""

import argparse
import importlib
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from model.architectures.vit_variants import VARIANTS
from model.catalogue import BUNDLED
from model.weights import save_weights
from train.fit import Run

RECIPES = {
    "digits": "digits",
    **dict.fromkeys(("dates", "dates-bilinear", "dates-convolutional", "dates-recurrent", "dates-plain"), "dates"),
    **dict.fromkeys(VARIANTS, "digits"),
    **dict.fromkeys(("captions-soft", "captions-hard"), "captions"),
    "digits-dino": "dino",
    "scenes-dino": "dino_scenes",
    "scenes-detr": "scenes",
    "scenes-swin": "marked",
    "scenes-clip": "clip",
    **dict.fromkeys(("graphs-graphormer", "graphs-gtn"), "graphs"),
    "spoken-digits": "spoken_digits",
    "spoken-tera": "tera",
    "dates-mlm": "language",
    "dates-clm": "language",
    "dates-tags": "tags",
    "dates-rank": "ranks",
}
"""Models that can be trained, each with the module of `train/recipes` that knows how."""


def main() -> int:
    """Train the named models one after the other. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m train",
        description="Train models on this machine, by the recipes of train/recipes and with the data of train/data. "
        "A run that is interrupted goes on where it was saved.",
    )
    parser.add_argument("names", nargs="+", choices=RECIPES, metavar="name", help=f"one of: {', '.join(RECIPES)}")
    parser.add_argument("--steps", type=int, help="optimizer steps (default: what the card was made with)")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0, what the card was made with)")
    parser.add_argument(
        "--to",
        type=Path,
        default=BUNDLED,
        help="folder that gets <name>/model.safetensors (default: model/bundled, whose weights are replaced)",
    )
    arguments = parser.parse_args()
    if arguments.steps is not None and arguments.steps < 1:
        parser.error(f"--steps: must be at least 1, given {arguments.steps}")
    if not -(2**63) <= arguments.seed < 2**63:
        parser.error("--seed: must have 64 bits at most")
    if arguments.to.resolve() == BUNDLED.resolve() and (arguments.steps is not None or arguments.seed):
        parser.error("--to: must be another folder than model/bundled with --steps or --seed; its weights are replaced")
    for name in arguments.names:
        try:
            (arguments.to / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            parser.error(f"--to: must be a folder, {arguments.to / name} cannot be made: {error.strerror}")
    for number, name in enumerate(arguments.names):
        recipe = importlib.import_module(f"train.recipes.{RECIPES[name]}")
        folder = arguments.to / name
        saved = folder / "resume.pt"
        steps = recipe.STEPS[name] if arguments.steps is None else arguments.steps
        try:
            module, figure = recipe.train(name, Run(steps, arguments.seed, saved))
        except KeyboardInterrupt:
            what = f"goes on from {saved}" if saved.exists() else "begins it again, nothing was saved"
            rest = _command(arguments, arguments.names[number:])
            print(f"{name}: interrupted; `{rest}` {what}", file=sys.stderr)  # noqa: T201 # a command's answer
            return 130
        except ValueError as error:
            print(f"{name}: not trained: {error}", file=sys.stderr)  # noqa: T201 # as above
            return 2
        save_weights(module, folder / "model.safetensors", name)
        saved.unlink(missing_ok=True)
        print(f"{name}: {figure}; weights in {folder}")  # noqa: T201 # as above
    return 0


def _command(arguments: argparse.Namespace, names: Sequence[str]) -> str:
    """Return the command that trains some models with the same options."""
    steps = [] if arguments.steps is None else ["--steps", str(arguments.steps)]
    seed = ["--seed", str(arguments.seed)] if arguments.seed else []
    to = [] if arguments.to == BUNDLED else ["--to", str(arguments.to)]
    return shlex.join(["python", "-m", "train", *names, *steps, *seed, *to])


if __name__ == "__main__":
    sys.exit(main())
