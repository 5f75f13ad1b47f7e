"""The verbs of `regard` that ask a service: `look`, `page`, and those that answer many inputs."""

import argparse
import csv
import dataclasses
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.errors import BadInput, RegardError
from regard.maps import Json
from regard.model import Model
from regard.models import Description
from regard.results import Result, described, write
from regard.service import Service, connect
from regard.sources import Sources, names
from regard.tasks.classification import Classification
from regard.tasks.embedding import EMBED, Embedding
from regard.tasks.generation import Generation
from regard.tasks.ranking import RERANK
from regard.tasks.transcription import Transcription
from regard.terminal import can_show, drawn, say

TAKEN = {
    "image": "pictures",
    "sound": "sounds",
    "graph": "graphs",
    "text": "texts; a picture, a sound or a graph must be a file that exists",
}
ROWS: Mapping[type[Result], Callable[[Any], Iterator[Json]]] = {
    Classification: lambda found: (
        {"label": one.label, "probability": one.probability}
        if one.score is None
        else {"label": one.label, "score": one.score}
        for one in found.labels
    ),
    Embedding: lambda found: iter([{str(at): float(value) for at, value in enumerate(found.vector)}]),
    Generation: lambda found: iter([{"text": found.text, "finish_reason": found.finish_reason}]),
    Transcription: lambda found: iter([{"text": found.text, "language": found.language, "duration": found.duration}]),
}
"""The rows of a table that an answer has, beside the name of its input."""


def models(asked: argparse.Namespace) -> int:
    """List the models of a service."""
    with connect(asked.url, asked.key) as service:
        found = service.models()
    width = max([len(one.name) for one in found], default=0)
    for model in found:
        state = "" if model.ready else " (not ready)"
        say(f"{model.name:{width}}  {', '.join(model.endpoints)}  {model.about}{state}")
        say(f"{'':{width}}  methods: {', '.join(model.methods)}" + (f"; best: {model.best}" if model.best else ""))
    return 0


def look(asked: argparse.Namespace) -> int:
    """Ask a model, and write what it looked at."""
    to: Path = asked.to or Path("regard.png")
    _check_target(to, (".png", ".html"))
    with connect(asked.url, asked.key) as service:
        model, results = _asked(service, asked)
        result, options = results[0], _of_attention(asked, model.description)
        if to.suffix == ".html":
            if asked.method or options:
                result = dataclasses.replace(result, attention=result.look(asked.method, **options))
            _write(to, lambda: write(result, to))
        else:
            image = result.image(asked.method, **options)
            _write(to, lambda: image.save(to))
            if can_show():
                print(drawn(image), end="")
    return _said(results, to)


def page(asked: argparse.Namespace) -> int:
    """Ask a model, and write its answer as a page."""
    _check_target(asked.to, (".html",))
    with connect(asked.url, asked.key) as service:
        _, results = _asked(service, asked)
        _write(asked.to, lambda: write(results[0], asked.to))
    return _said(results, asked.to)


def many(asked: argparse.Namespace) -> int:
    """Answer each input in a line, or as JSON or a table; those that fail are said beside, and the status is 1."""
    sources, options = Sources(asked.inputs, asked.text, asked.column), _of_task(asked)
    failed, writer = False, _WRITERS[asked.form]()
    with connect(asked.url, asked.key) as service:
        model = _chosen(service, asked.model, sources, asked.endpoint)
        pairs, named = itertools.tee(sources.inputs(model.description.sort))
        given = (one for _, one in pairs)
        answers = model.map(given, asked.endpoint, concurrency=asked.concurrency, errors="yield", **options)
        for (_, answer), (name, _) in zip(answers, named):  # noqa: B905 # the names have been read ahead
            if isinstance(answer, RegardError):
                failed = True
                say(answer if name in str(answer) else f"{name}: {answer}", sys.stderr)
            else:
                writer(asked, name, answer)
    return int(failed)


def _in_words(asked: argparse.Namespace, name: str, answer: Result) -> None:
    said = getattr(answer, asked.subtitles)() if asked.subtitles else answer._words()
    alone = len(asked.inputs) == 1 and name in (*asked.inputs, "-")
    say(said if alone or asked.subtitles else f"{name}\t{said}")


def _as_json(asked: argparse.Namespace, name: str, answer: Result) -> None:
    say(json.dumps({"input": name, **answer.json}, ensure_ascii=False))


class _AsTable:
    """Writes rows of CSV, with their names above the first."""

    def __init__(self) -> None:
        self._writer: csv.DictWriter[str] | None = None

    def __call__(self, asked: argparse.Namespace, name: str, answer: Result) -> None:
        for row in ROWS[type(answer)](answer):
            if self._writer is None:
                self._writer = csv.DictWriter(sys.stdout, ["input", *row], lineterminator="\n")
                self._writer.writeheader()
            self._writer.writerow({"input": name, **row})


_WRITERS: Mapping[str, Callable[[], Callable[[argparse.Namespace, str, Any], None]]] = {
    "words": lambda: _in_words,
    "json": lambda: _as_json,
    "csv": _AsTable,
}


def _of_task(asked: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a task that were given."""
    given: dict[str, Any] = {
        name: value for name in ("top_k", "language") if (value := getattr(asked, name, None)) is not None
    }
    return {**given, "timestamps": "word"} if getattr(asked, "subtitles", None) else given


def _of_attention(asked: argparse.Namespace, model: Description) -> dict[str, Any]:
    """Return the options of attention that were given, as the client takes them."""
    found = {"target": asked.target and _index(asked.target), "kind": asked.kind}
    found |= {name: getattr(asked, name) and _indices(getattr(asked, name)) for name in ("layers", "heads")}
    found["against"] = asked.against and _other(asked.against, model)
    return {name: value for name, value in found.items() if value is not None}


def _index(word: str) -> int | str:
    return int(word) if word.isdecimal() and word.isascii() else word


def _indices(word: str) -> int | str | list[int]:
    """Return an index, several between commas, or a word such as `all` or `8:12`."""
    try:
        found = [int(part) for part in word.split(",")]
    except ValueError:
        return word
    return found if len(found) > 1 else found[0]


def _other(word: str, model: Description) -> object:
    """Return what is explained against: another input, or another class; an object of JSON stands for itself."""
    if word.startswith("{"):
        try:
            return json.loads(word)
        except ValueError:
            raise BadInput(f"--against: must be JSON where it begins with {{, given {word!r}") from None
    return word if names(word) or EMBED.endpoint in model.endpoints else {"label": word}


def _asked(service: Service, asked: argparse.Namespace) -> tuple[Model[Any], Sequence[Result]]:
    """Return the model that is named, or the first that takes such an input, and its answers; of texts, best first."""
    sources = Sources([asked.input], asked.text or asked.texts is not None or asked.context is not None)
    model = _chosen(service, asked.model, sources, RERANK.endpoint if asked.texts else "")
    ((_, given),) = list(sources.inputs(model.description.sort, whole=True))
    if asked.texts:
        return model, model.rerank(str(given), asked.texts)
    options = {"top_k": asked.top_k} if asked.top_k is not None else {}
    return model, [model(given if asked.context is None else (str(given), asked.context), **options)]


def _chosen(service: Service, name: str | None, sources: Sources, endpoint: str) -> Model[Any]:
    """Return a model by its name, or else the first that takes such inputs. Raises BadInput for one of another sort."""
    sort = sources.sort
    model = service[name or _first(service.models(), sort, endpoint).name]
    if sort != "text" and model.description.sort != sort:
        raise BadInput(
            f"--model: must be one that takes {TAKEN[sort]}, given {model.name!r}; left out, it is the first that does"
        )
    return model


def _first(models: Sequence[Description], sort: str, endpoint: str = "") -> Description:
    """Return the first model of a sort of inputs, and of an endpoint where one is named. Raises BadInput."""
    for model in models:
        if model.sort == sort and (not endpoint or endpoint in model.endpoints):
            return model
    kind = "texts to rank" if endpoint == RERANK.endpoint else TAKEN[sort]
    raise BadInput(f"--model: this service has no model that takes {kind}")


def _said(results: Sequence[Result], to: Path) -> int:
    for result in results:
        say(described(result))
    say(f"wrote {to}")
    return 0


def _write(to: Path, write: Callable[[], object]) -> None:
    """Write a file. Raises BadInput if that is not possible."""
    try:
        write()
    except OSError as error:
        raise BadInput(f"--to: cannot be written: {error.strerror}") from error


def _check_target(to: Path, suffixes: Sequence[str]) -> None:
    """Raise BadInput, before anything is asked, if the file cannot be written there."""
    if to.suffix not in suffixes:
        raise BadInput(f"--to: must end in {' or '.join(suffixes)}, given {to.name!r}")
    if not to.absolute().parent.is_dir():
        raise BadInput(f"--to: must be in a folder that exists, given {str(to.parent)!r}")
