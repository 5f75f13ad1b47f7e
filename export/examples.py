"""The examples of a model: they are checked against what it takes, so that each of them is answered."""

import dataclasses
import io
import wave
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from PIL import Image
from tokenizers import Tokenizer

from contract.example import MAX_EXAMPLE_CHARACTERS, MAX_FILE_BYTES, Example
from contract.manifest import COMPARING, MOST_EXAMPLES, Task
from export.errors import CheckpointError
from export.plan import Source
from export.tasks.text import TEXT_TASKS
from model.catalogue import BUNDLED

Texts: TypeAlias = tuple[str, ...]
"""A text, or two."""

ENDINGS = {"PNG": "png", "JPEG": "jpg", "MPO": "jpg", "WEBP": "webp"}
"""Format of a picture, as Pillow names it -> how its file's name ends. MPO is a JPEG with more pictures behind it."""

COLOURS = 3
MASK = "[MASK]"
"""Stands for a model's own mask token in TASK_TEXTS."""
TASK_TEXTS: dict[Task, tuple[Texts, ...]] = {
    "text-classification": (("I would see it again tomorrow.",), ("The food was cold and late.",)),
    "token-classification": (("Ada Lovelace was born in London.",), ("We met in Paris on Tuesday.",)),
    "feature-extraction": (
        ("The cat sat on the mat.", "A kitten lay on the rug."),
        ("The cat sat on the mat.", "It rained all day."),
        ("It rained.", "I like tea."),
    ),
    "sparse-embedding": (("The cat sat on the mat.",), ("How do I bake bread without yeast?",)),
    "question-answering": (
        ("Where did the cat sit?", "The cat sat on the mat, and the dog lay in the garden."),
        ("When does it open?", "The museum is closed on Mondays. On other days it opens at ten."),
    ),
    "fill-mask": ((f"The cat sat on the {MASK}.",), (f"It {MASK} all {MASK}.",)),
    "text-generation": (("Once upon a time",), ("The cat sat on",)),
    "text2text-generation": (("Good morning, how are you?",), ("The cat sat on the mat.",), ("It rained all day.",)),
}
"""The examples of a checkpoint that has none of its own, by its task."""


def with_each(texts: Mapping[str, Texts]) -> tuple[Texts, ...]:
    """Return pairs of each text and each of its other ones, which the page shows as one example."""
    return tuple((text, other) for text, others in texts.items() for other in others)


PASSAGES = with_each(
    {
        "Where did the cat sleep?": ("The cat slept on the mat.", "The dog ate a bone.", "A cat has four legs."),
        "When is the shop open?": ("We close at six.", "The shop sells books.", "It opens at nine, but on Sunday."),
    }
)
"""The examples of one that ranks texts: queries, each with several texts."""
PHOTOS = tuple(BUNDLED / "photos" / "examples" / f"{name}.jpg" for name in ("cat", "astronaut", "coffee", "rocket"))
"""The examples of a checkpoint that takes colour images and has none of its own."""


def with_texts(source: Source, given: Iterable[Texts]) -> tuple[Source, list[str]]:
    """Return a source with an example for each of the texts that it takes, and why it does not take the others."""
    given = list(given)
    if source.graph:
        return dataclasses.replace(source, examples=tuple(Example(text=text) for (text,) in given)), []
    if source.text is None or source.tokenizer is None:
        return source, ["must be a file, since the model takes images or sounds; given a text"] * len(given)
    tokenizer = Tokenizer.from_str(source.tokenizer)
    faults = [_fault(source, tokenizer, texts) for texts in given]
    taken = [texts for texts, fault in zip(given, faults, strict=True) if not fault]
    examples = tuple(Example(text=text, text_pair=pair[0] if pair else None) for text, *pair in taken)
    return dataclasses.replace(source, examples=examples[:MOST_EXAMPLES]), [fault for fault in faults if fault]


def _fault(source: Source, tokenizer: Tokenizer, texts: Texts) -> str | None:
    """Return why a model that takes texts does not take these, or None."""
    assert source.text  # noqa: S101 # for the type checker
    for text in texts:
        if not text.strip() or len(text) > MAX_EXAMPLE_CHARACTERS:
            return f"must have 1 to {MAX_EXAMPLE_CHARACTERS} characters, given {len(text.strip())}"
        if any("\ud800" <= character <= "\udfff" for character in text):
            return "must be Unicode, given half of a surrogate pair"
    if len(texts) > 1 and source.task not in COMPARING:
        return f"must be one text for {source.task}, given {len(texts)}"
    if source.task == "question-answering":
        if len(texts) == 1:
            return "must be a question and a text that answers it, given one text"
        texts = (texts[0], texts[1].strip()[:1])  # of a long context windows are read, each with something of it
    if source.task in TEXT_TASKS and TEXT_TASKS[source.task].takes_pairs:  # two texts are one input
        found = [tokenizer.encode(texts[0], texts[1] if len(texts) > 1 else None).ids]
    else:
        found = [tokenizer.encode(source.text.prompt + text).ids for text in texts]
    for tokens in found:
        if not 1 <= len(tokens) <= source.text.max_tokens:
            return f"must have 1 to {source.text.max_tokens} tokens, given {len(tokens)}"
    if _holds_masks(source) and source.text.mask not in found[0]:
        return f"must hold {mask_of(source)}, given none"
    return None


def _holds_masks(source: Source) -> bool:
    """Return whether texts must hold a mask, which is answered."""
    return source.task in TEXT_TASKS and TEXT_TASKS[source.task].places is not None


def mask_of(source: Source) -> str:
    """Return the mask token of a model that fills masks, as it is written in texts."""
    assert source.tokenizer  # noqa: S101 # for the type checker
    assert source.text and source.text.mask is not None  # noqa: S101, PT018 # as above
    return str(Tokenizer.from_str(source.tokenizer).id_to_token(source.text.mask))


def with_usual(source: Source) -> Source:
    """Return a source with photographs, if it takes colour images, or with the texts of its task that it takes."""
    if source.image:
        return with_files(source, PHOTOS) if source.image.channels == COLOURS else source
    ranks = len(source.labels) == 1 and source.scores != "softmax"
    texts = () if not source.text else PASSAGES if ranks else TASK_TEXTS.get(source.task, ())
    if _holds_masks(source):
        texts = tuple((text.replace(MASK, mask_of(source)),) for (text,) in texts)
    return with_texts(source, texts)[0]


def with_files(source: Source, files: Sequence[Path], labels: Sequence[Texts] = ()) -> Source:
    """Return a source with an example for each picture or sound, and its labels, where there are `labels` of each.

    Raises CheckpointError for a file that is not served.
    """
    sort, ending_of = ("sound", _ending_of_sound) if source.sound else ("image", _ending_of_picture)
    contents = [_read(file, sort) for file in files]
    endings = [ending_of(file, content) for file, content in zip(files, contents, strict=True)]
    names = [f"example-{index}.{ending}" for index, ending in enumerate(endings)]
    examples = tuple(Example.model_validate({sort: name}) for name in names)
    if labels:
        examples = tuple(one.model_copy(update={"labels": own}) for one, own in zip(examples, labels, strict=True))
    return dataclasses.replace(source, examples=examples, example_files=dict(zip(names, contents, strict=True)))


def _read(file: Path, sort: str) -> bytes:
    """Return the content of an example's file."""
    if not file.is_file():
        raise CheckpointError(f"--example: must be a file, since the model takes {sort}s; {file} is none")
    if (size := file.stat().st_size) > MAX_FILE_BYTES:
        raise CheckpointError(f"--example: at most {MAX_FILE_BYTES} bytes, {file} has {size}")
    return file.read_bytes()


def _ending_of_picture(file: Path, content: bytes) -> str:
    """Return how the name of a picture ends, by its content."""
    try:
        with Image.open(io.BytesIO(content), formats=["PNG", "JPEG", "WEBP"]) as image:
            image.load()
            return ENDINGS[str(image.format)]
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise CheckpointError(f"--example: must be a whole png, jpeg or webp, {file} is not") from error


def _ending_of_sound(file: Path, content: bytes) -> str:
    """Return how the name of a sound ends."""
    try:
        with wave.open(io.BytesIO(content)) as sound:
            if sound.getnframes():
                return "wav"
    except (wave.Error, EOFError) as error:
        raise CheckpointError(f"--example: must be a WAV file of integers, {file} is not") from error
    raise CheckpointError(f"--example: must hold samples, {file} has none")


def with_given(source: Source, given: Sequence[str]) -> Source:
    """Return a source with the examples that the command was given. Raises CheckpointError for one it does not take."""
    if len(given) > MOST_EXAMPLES:
        raise CheckpointError(f"--example: at most {MOST_EXAMPLES} times, given {len(given)}")
    if source.image or source.sound:
        return with_files(source, [Path(one) for one in given])
    found, faults = with_texts(source, [(one,) for one in given])
    if faults:
        raise CheckpointError(f"--example: {faults[0]}")
    return found
