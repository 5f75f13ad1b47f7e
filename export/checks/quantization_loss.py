"""Measure the losses of 8 bits: answers and maps of an artifact against those of full precision, on sample inputs."""

import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from tokenizers import Tokenizer
from torch import Tensor

from contract.input_rules import ImageRule
from contract.manifest import IMAGE_VISIBLE, SHOWN
from export.checks.comparison import Array, OpenSession, run
from export.checks.reference import CASES, attention_outputs, with_fixed_axes
from export.checks.trials import SEEDS
from export.errors import CheckpointError, ExportError
from export.plan import Sizes, Source
from model.parts.embedding import within

MAX_LOSSES: Mapping[str, float] = {"1 - cosine": 0.01, "other answer": 0.1, "maps moved": 0.05}
"""The largest losses, each a mean over inputs.

1 - cosine: of the answer's vectors. other answer: the share of answers whose largest entry is another; embeddings have
none, and random inputs lie between classes, so that it is only checked on real ones. maps moved: the total variation
distance of a row's weights.
"""

DRAWN_SAMPLES = 16
MAX_SAMPLES = 64
MAX_SAMPLE_TOKENS = 512
"""Longer texts are cut: all maps of a sample are held, in two precisions."""


def draw_samples(source: Source) -> list[list[Tensor]]:
    """Return random inputs, each a batch of one."""
    sizes = {**source.verified_at[-1], "batch": 1}
    return [source.base.example(sizes, SEEDS[-1] + 1 + index) for index in range(DRAWN_SAMPLES)]


def read_samples(source: Source, path: Path, option: str = "--samples") -> list[list[Tensor]]:
    """Read inputs: the first images of a folder, or the first lines of a text file, MAX_SAMPLES at most.

    Targets of a sequence model are random. Raises CheckpointError, which names the option, if nothing can be read.
    """
    if not path.exists():
        raise CheckpointError(f"{option}: cannot be read: no such file or folder")
    if not (source.image or source.text):
        raise CheckpointError(f"{option}: is for models that take images or texts")
    found = (
        _images(source.image, source.attention[0].grid or (1, 1), path)
        if source.image
        else _texts(source, path, option)
    )
    given = list(itertools.islice(found, MAX_SAMPLES))
    if not given:
        raise CheckpointError(f"{option}: must be {'a folder of images' if source.image else 'a file of texts'}, "
                              "given one that holds none")  # fmt: skip
    names = [port.name for port in source.base.inputs]
    inputs = []
    for index, known in enumerate(given):
        sizes: Sizes = {**source.verified_at[-1], "batch": 1}
        sizes |= {str(axis): length for port in source.base.inputs if port.name in known
                  for axis, length in zip(port.axes, known[port.name].shape, strict=True)}  # fmt: skip
        inputs.append(source.base.example(sizes, index, {name: known[name] for name in names if name in known}))
    return inputs


def _images(rule: ImageRule, grid: tuple[int, int], path: Path) -> Iterator[dict[str, Tensor]]:
    for file in sorted(path.iterdir()) if path.is_dir() else []:
        try:
            image = ImageOps.exif_transpose(Image.open(file))
            pixels = served_pixels(image, rule)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):  # no image, or one too large
            continue
        shown = torch.tensor([rule.fitted(*image.size)[::-1]])
        visible = within(shown, grid, rule.height // grid[0]).flatten(1)
        yield {"pixels": torch.from_numpy(pixels[None]), SHOWN: shown, IMAGE_VISIBLE: visible}


def served_pixels(image: Image.Image, rule: ImageRule) -> Array:
    """Return the pixels (height, width, channels) that the service takes of an opaque, upright image; a test compares.

    Where it looks for ink, it is taken for found: the image is resized as it is.
    """
    image = image.convert("L" if rule.channels == 1 else "RGB")
    resample, room = Image.Resampling[rule.resample.upper()], (rule.width, rule.height)
    if rule.locate == "fit":
        whole = Image.new(image.mode, room, tuple(round(255 * value) for value in rule.mean))
        whole.paste(image.resize(rule.fitted(*image.size), resample))
    elif rule.locate == "middle":
        size = image.size
        if isinstance(rule.resize, tuple):
            size = rule.resize[1], rule.resize[0]
        elif rule.resize:
            shorter, longer = rule.resize, int(rule.resize * max(size) / min(size))
            size = (shorter, longer) if size[0] <= size[1] else (longer, shorter)
        left, top = (size[0] - rule.width) // 2, (size[1] - rule.height) // 2
        whole = image.resize(size, resample).crop((left, top, left + rule.width, top + rule.height))
    else:
        whole = image.resize(room, resample)
    return np.array(whole).reshape(rule.height, rule.width, rule.channels)


def _texts(source: Source, path: Path, option: str) -> Iterator[dict[str, Tensor]]:
    assert source.tokenizer  # noqa: S101 # every text model has one
    assert source.text  # noqa: S101 # as above
    tokenizer = Tokenizer.from_str(source.tokenizer)
    tokenizer.enable_truncation(min(source.text.max_tokens, MAX_SAMPLE_TOKENS))  # which keeps special tokens
    from_start = source.generation and source.generation.start is not None
    for line in _lines(path, option):
        tokens = torch.tensor([tokenizer.encode(source.text.prompt + line).ids])
        yield {
            "source": tokens,
            "source_visible": torch.ones_like(tokens, dtype=torch.bool),
            "source_types": torch.zeros_like(tokens),
            **({} if from_start else {"target": tokens}),
        }


def _lines(path: Path, option: str) -> Iterator[str]:
    """Yield the lines of a file that are not blank; none if it is no file."""
    try:
        with path.open(encoding="utf-8") if path.is_file() else io.StringIO() as lines:
            yield from filter(None, map(str.strip, lines))
    except (OSError, UnicodeError) as error:
        raise CheckpointError(f"{option}: must be a file of texts in UTF-8 that can be read") from error


def measure_losses(source: Source, open_session: OpenSession, inputs: Sequence[Sequence[Tensor]]) -> dict[str, float]:
    """Return the losses that MAX_LOSSES bounds, in the mean over inputs."""
    plan = source.plan("attention")
    session = open_session("attention")
    traced = source.traced
    found: list[tuple[float, float, float]] = []
    for tensors in inputs:
        given = dict(zip((port.name for port in source.base.inputs), tensors, strict=True))
        sizes = {str(axis): length for port in source.base.inputs
                 for axis, length in zip(port.axes, given[port.name].shape, strict=True)}  # fmt: skip
        with torch.no_grad():
            observed = traced.observe(*tensors)
        controls = {**given, **CASES[0].controls(traced.kinds, with_fixed_axes(source, sizes), SEEDS[0])}
        answer, *rest = run(plan, session, [controls[port.name].numpy() for port in plan.inputs])
        maps = rest[plan.answers - 1 :][: 2 * len(traced.kinds) : 2]
        whole = [one.numpy() for one in attention_outputs(traced, observed, controls, source.image)[::2]]
        found.append((*_answer_losses(observed.answer.numpy(), answer), _total_variation(whole, maps)))
    means: dict[str, float] = dict(zip(MAX_LOSSES, np.mean(found, axis=0).tolist(), strict=True))
    if source.task in ("feature-extraction", "sparse-embedding"):
        del means["other answer"]
    return means


def check_losses(found: Mapping[str, float], *, real: bool) -> None:
    """Raise ExportError if a loss is over its bound. `real` says that the inputs were not random."""
    lost = [f"{what} {value:.3g}, at most {MAX_LOSSES[what]:g}" for what, value in found.items()
            if not value <= MAX_LOSSES[what] and (real or what != "other answer")]  # fmt: skip
    if lost:
        raise ExportError(f"int8 loses too much: {'; '.join(lost)}; --force exports it all the same")


def _answer_losses(exact: Array, given: Array) -> tuple[float, float]:
    """Return 1 - cosine of the vectors along the last axis, and the share of them with another largest entry."""
    one, other = (array.astype(np.float64).reshape(-1, array.shape[-1]) for array in (exact, given))
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    cosine = (one * other).sum(axis=1) / np.maximum(lengths, 1e-30)
    return float(1 - cosine.mean()), float((one.argmax(axis=1) != other.argmax(axis=1)).mean())


def _total_variation(exact: Sequence[Array], given: Sequence[Array]) -> float:
    """Return the total variation distance of a row's weights (half the sum of differences), in the mean over rows."""
    pairs = zip(exact, given, strict=True)
    return float(np.mean([np.abs(one - other.astype(np.float64)).sum(-1).mean() / 2 for one, other in pairs]))
