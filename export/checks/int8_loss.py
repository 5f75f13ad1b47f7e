"""What 8 bits lose: answers and maps of an artifact beside those of full precision, on real inputs where given."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer
from torch import Tensor

from export.checks.reference import CASES
from export.checks.verify import SEEDS, Array, Open, axes, run
from export.errors import CheckpointError, ExportError
from export.plan import Sizes, Source
from export.tasks.traced import Look

BOUNDS: Mapping[str, float] = {"1 - cosine": 0.01, "other answer": 0.1, "maps moved": 0.05}
"""At most, in the mean over inputs: one less the cosine of the answer's vector; how often the likeliest is another (an
embedding has none), held on real inputs only, since those that are drawn lie between classes; and how much of a row's
weight lies elsewhere.
"""

DRAWN = 16
MOST = 64
"""Samples that are looked at."""


def drawn(source: Source) -> list[list[Tensor]]:
    """Draw inputs, one at a time."""
    sizes = {**source.tried[-1], "batch": 1}
    return [source.base.example(sizes, SEEDS[-1] + 1 + index) for index in range(DRAWN)]


def sampled(source: Source, path: Path) -> list[list[Tensor]]:
    """Read inputs: a folder's images, resized to the model's size, or the lines of a text file.

    Targets of a sequence model are drawn. Raises CheckpointError where there are none that can be read.
    """
    given = _images(source, path) if source.image else _texts(source, path)
    if not given:
        raise CheckpointError(f"--samples: must be {'a folder of images' if source.image else 'a file of texts'}, "
                              "given one that holds none")  # fmt: skip
    names = [port.name for port in source.base.inputs]
    inputs = []
    for index, known in enumerate(given[:MOST]):
        sizes: Sizes = {**source.tried[-1], "batch": 1}
        sizes |= {str(axis): length for port in source.base.inputs if port.name in known
                  for axis, length in zip(port.axes, known[port.name].shape, strict=True)}  # fmt: skip
        inputs.append(source.base.example(sizes, index, {name: known[name] for name in names if name in known}))
    return inputs


def _images(source: Source, path: Path) -> list[dict[str, Tensor]]:
    rule = source.image
    assert rule  # noqa: S101 # the caller looked
    found = []
    for file in sorted(path.iterdir()) if path.is_dir() else []:
        try:
            image = Image.open(file).convert("L" if rule.channels == 1 else "RGB").resize((rule.width, rule.height))
        except OSError:  # no image
            continue
        found.append({"pixels": torch.from_numpy(np.array(image).reshape(1, rule.height, rule.width, rule.channels))})
    return found


def _texts(source: Source, path: Path) -> list[dict[str, Tensor]]:
    assert source.tokenizer  # noqa: S101 # every text model has one
    assert source.text  # noqa: S101 # as above
    tokenizer, found = Tokenizer.from_str(source.tokenizer), []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        if line.strip():
            indices = tokenizer.encode(line.strip()).ids[
                : min(source.text.max_tokens, source.tried[-1].get("source", 64))
            ]
            tokens = torch.tensor([indices])
            found.append({"source": tokens, "source_visible": torch.ones_like(tokens, dtype=torch.bool),
                          "source_types": torch.zeros_like(tokens), "target": tokens})  # fmt: skip
    if source.generation and source.generation.start is not None:
        found = [{name: tensor for name, tensor in one.items() if name != "target"} for one in found]
    return found


def losses(source: Source, open_session: Open, inputs: Sequence[Sequence[Tensor]]) -> dict[str, float]:
    """Return the figures of BOUNDS, in the mean over inputs."""
    plan, session, look = source.plan("attention"), open_session("attention"), source.base.module
    assert isinstance(look, Look)  # noqa: S101 # for the type checker
    found: list[tuple[float, float, float]] = []
    for tensors in inputs:
        given = dict(zip((port.name for port in source.base.inputs), tensors, strict=True))
        sizes = {str(axis): length for port in source.base.inputs
                 for axis, length in zip(port.axes, given[port.name].shape, strict=True)}  # fmt: skip
        with torch.no_grad():
            seen = look.see(*tensors)
        controls = {**given, **CASES[0].controls(look.kinds, axes(source, sizes), SEEDS[0])}
        answer, *maps = run(plan, session, [controls[port.name].numpy() for port in plan.inputs])
        whole = [torch.stack(layers, dim=2).numpy() for layers in seen.weights]
        found.append((*_apart(seen.answer.numpy(), answer), _moved(whole, maps[::2])))
    means: dict[str, float] = dict(zip(BOUNDS, np.mean(found, axis=0).tolist(), strict=True))
    if source.task == "feature-extraction":
        del means["other answer"]
    return means


def hold(found: Mapping[str, float], *, real: bool) -> None:
    """Raise ExportError where more is lost than BOUNDS allow."""
    lost = [f"{what} {value:.3g}, at most {BOUNDS[what]:g}" for what, value in found.items()
            if not value <= BOUNDS[what] and (real or what != "other answer")]  # fmt: skip
    if lost:
        raise ExportError(f"int8 loses too much: {'; '.join(lost)}; --force exports it all the same")


def _apart(exact: Array, given: Array) -> tuple[float, float]:
    """Return one less the cosine of the vectors along the last axis, and how many have another largest entry."""
    one, other = (array.astype(np.float64).reshape(-1, array.shape[-1]) for array in (exact, given))
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    cosine = (one * other).sum(axis=1) / np.maximum(lengths, 1e-30)
    return float(1 - cosine.mean()), float((one.argmax(axis=1) != other.argmax(axis=1)).mean())


def _moved(exact: Sequence[Array], given: Sequence[Array]) -> float:
    """Return half the sum of differences of a row's weights, in the mean over rows (total variation)."""
    pairs = zip(exact, given, strict=True)
    return float(np.mean([np.abs(one - other.astype(np.float64)).sum(-1).mean() / 2 for one, other in pairs]))
