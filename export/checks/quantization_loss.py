"""Measure the losses of 8 and 4 bits: answers and maps of an artifact against full precision, on sample inputs."""

import io
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from tokenizers import Tokenizer
from torch import Tensor

from contract.input_rules import ImageRule
from contract.manifest import ANSWERED, IMAGE_VISIBLE, SHOWN
from export.checks.comparison import Array, OpenSession, run
from export.checks.reference import CASES, attention_outputs, with_fixed_axes
from export.checks.trials import SEEDS
from export.errors import CheckpointError, ExportError
from export.plan import Precision, Sizes, Source
from model.parts.embedding import within

MAX_LOSSES: Mapping[Precision, Mapping[str, float]] = {
    "int8": {"1 - cosine": 0.01, "other answer": 0.1, "maps moved": 0.05, "perplexity grown": 0.05},
    "int4": {"1 - cosine": 0.1, "other answer": 0.3, "maps moved": 0.2, "perplexity grown": 0.5},
}
"""The largest losses of a precision, each a mean over inputs.

1 - cosine: of the answer's vectors. other answer: the share of answers whose largest entry is another; embeddings have
none. maps moved: the total variation distance of a row's weights. perplexity grown: of a decoder alone, its share of
the perplexity of texts in full precision, which is measured beside it.
"""
CHECKED_ON_REAL = ("other answer", "perplexity grown")
"""Random inputs lie between classes, and no text is likely: these losses are only checked on samples that are given."""

TEXTS = (
    "The harbour was quiet in the early morning. A woman in a blue coat walked along the wall and counted the boats, "
    "as she did every day before school began. There were eleven of them, and one more that she had never seen before.",
    "Water boils at a lower temperature on a mountain, because there is less air above it to press on its surface. "
    "That is why it takes longer to cook beans in a village high in the hills than in a town by the sea.",
    "To repair the chair, first take off the loose leg and clean both sides of the joint. Put a little glue on the "
    "wood, press the parts together, and leave them under a heavy stone until the next morning.",
)
"""What the perplexity of a decoder is measured on beside its examples, which are the beginnings of texts."""
ROWS_AT_ONCE = 64
"""Rows of logits that are float64 at a time: each is as long as the vocabulary."""

DRAWN_SAMPLES = 16
MAX_SAMPLES = 64
MAX_SAMPLE_TOKENS = 512
"""Longer texts are cut: all maps of a sample are held, in two precisions."""


def draw_samples(source: Source) -> list[list[Tensor]]:
    """Return random inputs, each a batch of one."""
    sizes = {**source.verified_at[-1], "batch": 1}
    given = _answered(source, sizes.get("target", 0))
    sizes |= {ANSWERED: given[ANSWERED].shape[1]} if given else {}
    return [source.base.example(sizes, SEEDS[-1] + 1 + index, given) for index in range(DRAWN_SAMPLES)]


def own_samples(source: Source) -> list[list[Tensor]]:
    """Return the texts that a decoder alone is compared on where none are given: its examples, and TEXTS if it can
    write them. Other models have none."""
    if not continues(source) or not source.tokenizer:
        return []
    tokenizer = Tokenizer.from_str(source.tokenizer)
    written = [text for text in TEXTS if "".join(_again(tokenizer, text).split()) == "".join(text.split())]
    return _inputs(source, _texts(source, [*(one.text for one in source.examples if one.text), *written]))


def continues(source: Source) -> bool:
    """Return whether a model is a decoder alone, whose answer at a token says how likely each next token is."""
    return source.task == "text-generation"


def _again(tokenizer: Tokenizer, text: str) -> str:
    """Return a text as a tokenizer writes it, which may lack its letters."""
    return str(tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids))


def _answered(source: Source, tokens: int) -> dict[str, Tensor]:
    """Return at which tokens a decoder alone answers: at all of them."""
    return {ANSWERED: torch.arange(tokens)[None]} if continues(source) else {}


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
        else _texts(source, _lines(path, option))
    )
    given = list(itertools.islice(found, MAX_SAMPLES))
    if not given:
        raise CheckpointError(f"{option}: must be {'a folder of images' if source.image else 'a file of texts'}, "
                              "given one that holds none")  # fmt: skip
    return _inputs(source, given)


def _inputs(source: Source, given: Iterable[Mapping[str, Tensor]]) -> list[list[Tensor]]:
    """Return batches of one of what is known of each input, and what is random of it."""
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


def _texts(source: Source, texts: Iterable[str]) -> Iterator[dict[str, Tensor]]:
    assert source.tokenizer  # noqa: S101 # every text model has one
    assert source.text  # noqa: S101 # as above
    tokenizer = Tokenizer.from_str(source.tokenizer)
    tokenizer.enable_truncation(min(source.text.max_tokens, MAX_SAMPLE_TOKENS))  # which keeps special tokens
    from_start = source.generation and source.generation.start is not None
    for line in texts:
        tokens = torch.tensor([tokenizer.encode(source.text.prompt + line).ids])
        yield {
            "source": tokens,
            "source_visible": torch.ones_like(tokens, dtype=torch.bool),
            "source_types": torch.zeros_like(tokens),
            **({} if from_start else {"target": tokens, **_answered(source, tokens.shape[1])}),
        }


def _lines(path: Path, option: str) -> Iterator[str]:
    """Yield the lines of a file that are not blank; none if it is no file."""
    try:
        with path.open(encoding="utf-8") if path.is_file() else io.StringIO() as lines:
            yield from filter(None, map(str.strip, lines))
    except (OSError, UnicodeError) as error:
        raise CheckpointError(f"{option}: must be a file of texts in UTF-8 that can be read") from error


def measure_losses(source: Source, open_session: OpenSession, inputs: Sequence[Sequence[Tensor]]) -> dict[str, float]:
    """Return the losses that MAX_LOSSES bounds, in the mean over inputs, and of a decoder alone both perplexities."""
    plan = source.plan("attention")
    session = open_session("attention")
    traced = source.traced
    found: list[tuple[float, float, float]] = []
    likely: list[Array] = []
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
        if continues(source):
            tokens = given["target"][0].numpy()
            likely.append(np.stack([log_probabilities(one[0], tokens) for one in (observed.answer.numpy(), answer)]))
    means = np.mean(found, axis=0).tolist()
    losses: dict[str, float] = dict(zip(("1 - cosine", "other answer", "maps moved"), means, strict=True))
    if source.task in ("feature-extraction", "sparse-embedding"):
        del losses["other answer"]
    if sum(one.shape[1] for one in likely):
        exact, ours = np.exp(-np.concatenate(likely, axis=1).mean(axis=1)).tolist()
        losses |= {"perplexity": ours, "perplexity in fp32": exact, "perplexity grown": ours / exact - 1}
    return losses


def log_probabilities(logits: Array, tokens: Array) -> Array:
    """Return the logarithm of the probability of each token but the first, by the logits (token, vocabulary) before it.

    They are computed in float64.
    """
    found = []
    for first in range(0, len(tokens) - 1, ROWS_AT_ONCE):
        following = tokens[1:][first : first + ROWS_AT_ONCE]
        rows = logits[first : first + len(following)].astype(np.float64)
        found.append(rows[np.arange(len(rows)), following] - np.logaddexp.reduce(rows, axis=-1))
    return np.concatenate(found) if found else np.zeros(0)


def check_losses(found: Mapping[str, float], precision: Precision, *, real: bool) -> None:
    """Raise ExportError if a loss is over its bound. `real` says that the inputs were given, not random."""
    bounds = MAX_LOSSES[precision]
    lost = [f"{what} {found[what]:.3g}, at most {most:g}" for what, most in bounds.items()
            if what in found and not found[what] <= most and (real or what not in CHECKED_ON_REAL)]  # fmt: skip
    if lost:
        raise ExportError(f"{precision} loses too much: {'; '.join(lost)}; --force exports it all the same")


def _answer_losses(exact: Array, given: Array) -> tuple[float, float]:
    """Return 1 - cosine of the vectors along the last axis, and the share of them with another largest entry."""
    cosines, others = [], []
    both = (array.reshape(-1, array.shape[-1]) for array in (exact, given))
    for rows in zip(*(np.split(array, range(ROWS_AT_ONCE, len(array), ROWS_AT_ONCE)) for array in both), strict=True):
        one, other = (part.astype(np.float64) for part in rows)
        lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        cosines.append((one * other).sum(axis=1) / np.maximum(lengths, 1e-30))
        others.append(one.argmax(axis=1) != other.argmax(axis=1))
    return float(1 - np.concatenate(cosines).mean()), float(np.concatenate(others).mean())


def _total_variation(exact: Sequence[Array], given: Sequence[Array]) -> float:
    """Return the total variation distance of a row's weights (half the sum of differences), in the mean over rows."""
    pairs = zip(exact, given, strict=True)
    return float(np.mean([np.abs(one - other.astype(np.float64)).sum(-1).mean() / 2 for one, other in pairs]))
