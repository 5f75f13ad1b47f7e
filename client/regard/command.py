"""The command `regard`: serve and export models, list them, transcribe, and look at what they looked at."""

import argparse
import dataclasses
import io
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, get_args

from PIL import Image

from regard.attention import AttentionOptions, Method
from regard.child import command
from regard.errors import BadInput, NotInstalled, RegardError
from regard.models import Description
from regard.results import Result, described, write
from regard.service import KEY_VARIABLE, URL, URL_VARIABLE, Service, connect
from regard.tasks.ranking import RERANK
from regard.tasks.transcription import TRANSCRIBE, TranscribeOptions, Transcription
from regard.terminal import can_show, drawn, say

LOG_VARIABLE = "REGARD_LOG_FORMAT"
SUFFIXES = {"sound": (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3"), "graph": (".json",)}
"""How names of sounds and graphs end; other files are pictures."""
TAKEN = {
    "image": "pictures",
    "sound": "sounds",
    "graph": "graphs",
    "text": "texts; a picture, a sound or a graph must be a file that exists",
}
EXPORT_EXAMPLE = "regard export path/to/checkpoint --to artifacts"


def main(given: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status: 0, 1 for an error, 2 for a wrong word, or that of what it ran."""
    if sys.stdout is None:
        print("stdout: must be open, is closed", file=sys.stderr)
        return 1
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a label may have letters that the terminal has not
    try:
        try:
            return _done(list(sys.argv[1:] if given is None else given))
        finally:
            sys.stdout.flush()
    except RegardError as error:
        say(error, sys.stderr)
        return 1
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter would write again
        if not isinstance(error, BrokenPipeError):  # then whoever read has read enough, such as `head`
            say(f"{error.filename or 'stdout'}: cannot be written: {error.strerror}", sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _done(words: list[str]) -> int:
    """Do what the words say, and return the exit status. Raises RegardError, and SystemExit after help."""
    if words[:1] == ["export"]:  # the exporter knows its own options
        if words[1:2] not in (["--help"], ["-h"]):
            return _become("export", words[1:])
        try:
            status = subprocess.call([*command("export"), *words[1:]])
            print(f"\n{_example(EXPORT_EXAMPLE)}")
            return status
        except NotInstalled as error:
            print(error, file=sys.stderr)  # and the help of this command, which has its example too
    parser = _parser()
    if not words:
        parser.print_help()
        return 2
    asked = parser.parse_args(words)
    return int(asked.run(asked))


def _example(line: str) -> str:
    return f"example:\n  {line}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="regard", description="Serves Transformers and Vision Transformers and shows what they looked at."
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, words: str, example: str) -> argparse.ArgumentParser:
        return verbs.add_parser(
            name,
            help=words,
            description=f"{words[0].upper()}{words[1:]}.",
            epilog=_example(example),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    serve = verb(
        "serve",
        "serve the models of a folder, as `python -m service` does",
        "regard serve --artifacts artifacts --port 8000",
    )
    serve.add_argument("--artifacts", help="the folder of exported models (artifacts)")
    serve.add_argument("--host", help="the address to listen at (127.0.0.1)")
    serve.add_argument("--port", help="the port (8000)")
    serve.add_argument("--device", help="auto, cpu, openvino, cuda or tensorrt (auto)")
    serve.set_defaults(run=_serve)

    export = verb("export", "turn a checkpoint into an artifact, as `python -m export` does", EXPORT_EXAMPLE)
    export.add_argument("words", nargs="*", metavar="...", help="what `python -m export` takes")

    _add_questions(verb)
    return parser


def _add_questions(verb: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    """Add the verbs that ask a service."""
    models = verb("models", "list the models of a service", "regard models --url http://127.0.0.1:8000")
    models.set_defaults(run=_models)

    look = verb(
        "look", "ask a model, and show what it looked at", "regard look picture.png --model digits --method rollout"
    )
    look.add_argument("--method", choices=get_args(Method), help="how it is computed; without it, what measured best")
    look.add_argument(
        "--target", help="the class, or the place of the token, that is explained; without it, the answer"
    )
    look.add_argument("--to", type=Path, help="the file to write: .png, or .html with all heads (regard.png)")
    look.set_defaults(run=_look)

    page = verb(
        "page",
        "write an answer as a page in one file, with every head",
        'regard page "3/23/21" --model dates --to look.html',
    )
    page.add_argument("--to", type=Path, default=Path("look.html"), help="the file to write (look.html)")
    page.set_defaults(run=_page)

    hear = verb("transcribe", "write what was said in a sound", "regard transcribe talk.wav --srt > talk.srt")
    hear.add_argument("input", metavar="FILE", type=Path, help="a sound's file")
    hear.add_argument("--language", help="that is spoken, such as en; found by default")
    form = hear.add_mutually_exclusive_group()
    form.add_argument("--srt", action="store_true", help="print subtitles as SubRip")
    form.add_argument("--vtt", action="store_true", help="print subtitles as WebVTT")
    hear.set_defaults(run=_transcribe)

    for subparser in (look, page):
        subparser.add_argument("input", metavar="FILE|TEXT", help="a picture's, a sound's or a graph's file, or a text")
        beside = subparser.add_mutually_exclusive_group()
        beside.add_argument("--context", help="of a question: the text that answers it")
        beside.add_argument(
            "--texts", nargs="+", metavar="TEXT", help="of a query: texts to rank; the best is looked at"
        )
    for subparser in (look, page, hear):
        subparser.add_argument("--model", help="a model of the service; without it, the first that takes such an input")
    for subparser in (models, look, page, hear):
        subparser.add_argument("--url", help=f"the service's address ({URL_VARIABLE}, or {URL})")
        subparser.add_argument("--key", help=f"an API key ({KEY_VARIABLE})")


def _become(module: str, words: Sequence[str], environment: dict[str, str] | None = None) -> NoReturn:
    """Become `python -m` of the service's packages, so that signals reach it and its exit status is this one's."""
    run = [*command(module), *words]
    sys.stdout.flush()
    os.execve(run[0], run, {**os.environ, **(environment or {})})  # noqa: S606 # the interpreter and a module of ours


def _serve(asked: argparse.Namespace) -> int:
    given = {name: getattr(asked, name) for name in ("artifacts", "host", "port", "device")}
    named = {f"REGARD_{name.upper()}": value for name, value in given.items() if value}
    if sys.stdout.isatty() and LOG_VARIABLE not in os.environ:
        named[LOG_VARIABLE] = "console"  # lines for a person
    return _become("service", [], named)


def _models(asked: argparse.Namespace) -> int:
    with connect(asked.url, asked.key) as service:
        found = service.models()
    width = max([len(one.name) for one in found], default=0)
    for model in found:
        state = "" if model.ready else " (not ready)"
        say(f"{model.name:{width}}  {', '.join(model.endpoints)}  {model.about}{state}")
        say(f"{'':{width}}  methods: {', '.join(model.methods)}" + (f"; best: {model.best}" if model.best else ""))
    return 0


def _look(asked: argparse.Namespace) -> int:
    options: AttentionOptions = {}
    if asked.target:
        options["target"] = int(asked.target) if asked.target.isdecimal() else asked.target
    to: Path = asked.to or Path("regard.png")
    _check_target(to, (".png", ".html"))
    with connect(asked.url, asked.key) as service:
        results = _asked(service, asked)
        result = results[0]
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


def _page(asked: argparse.Namespace) -> int:
    _check_target(asked.to, (".html",))
    with connect(asked.url, asked.key) as service:
        results = _asked(service, asked)
        _write(asked.to, lambda: write(results[0], asked.to))
    return _said(results, asked.to)


def _transcribe(asked: argparse.Namespace) -> int:
    options: TranscribeOptions = {"language": asked.language} if asked.language else {}
    if asked.srt or asked.vtt:
        options["timestamps"] = "word"
    with connect(asked.url, asked.key) as service:
        model = service[asked.model or _first(service.models(), "sound", TRANSCRIBE.endpoint).name]
        found: Transcription = model.transcribe(asked.input, **options)
    say(found.srt() if asked.srt else found.vtt() if asked.vtt else found.text)
    return 0


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


def _asked(service: Service, asked: argparse.Namespace) -> Sequence[Result]:
    """Return the answers of the model that is named, or of the first that takes such an input; of texts, best first."""
    path = Path(asked.input)
    try:
        is_file = path.is_file()
    except OSError:  # a text that is too long for a name
        is_file = False
    suffix = path.suffix.lower()
    named = next((sort for sort, suffixes in SUFFIXES.items() if suffix in suffixes), "image")
    if not is_file and (named != "image" or suffix in Image.registered_extensions()):
        thing = "picture" if named == "image" else named
        raise BadInput(f"FILE: must be a {thing}'s file that exists, given {path.name!r}")
    sort = named if is_file else "text"
    model = service[asked.model or _first(service.models(), sort, RERANK.endpoint if asked.texts else "").name]
    if is_file and model.description.sort != sort:
        raise BadInput(
            f"--model: must be one that takes {TAKEN[sort]}, given {model.name!r}; left out, it is the first that does"
        )
    if asked.texts:
        return model.rerank(asked.input, asked.texts)
    return [model(asked.input if asked.context is None else (asked.input, asked.context))]


def _first(models: Sequence[Description], sort: str, endpoint: str = "") -> Description:
    """Return the first model of a sort of inputs, and of an endpoint where one is named. Raises BadInput."""
    for model in models:
        if model.sort == sort and (not endpoint or endpoint in model.endpoints):
            return model
    kind = "texts to rank" if endpoint == RERANK.endpoint else TAKEN[sort]
    raise BadInput(f"--model: this service has no model that takes {kind}")
