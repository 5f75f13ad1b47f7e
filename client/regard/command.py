"""The command `regard`: serve and export models, list them, ask them, and look at what they looked at."""

import argparse
import io
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, get_args

from regard import questions
from regard.child import command
from regard.errors import NotInstalled, RegardError
from regard.failures import VERSION
from regard.options import Method
from regard.service import KEY_VARIABLE, URL, URL_VARIABLE
from regard.tasks.transcription import TRANSCRIBE
from regard.terminal import say

LOG_VARIABLE = "REGARD_LOG_FORMAT"
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
    parser.add_argument("--version", action="version", version=f"regard {VERSION}")
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
    models.set_defaults(run=questions.models)

    look = verb(
        "look", "ask a model, and show what it looked at", "regard look picture.png --model digits --method rollout"
    )
    look.add_argument("--method", choices=get_args(Method), help="how it is computed; without it, what measured best")
    look.add_argument(
        "--target", help="the class, or the place of the token, that is explained; without it, the answer"
    )
    look.add_argument("--layers", help="such as -1, 0,1, 8:12 or all")
    look.add_argument("--heads", help="such as 0, 0,1, all, mean or max")
    look.add_argument("--kind", help="encoder, decoder or cross")
    look.add_argument("--against", help="another class; of embeddings another picture's file, or another text")
    look.add_argument("--to", type=Path, help="the file to write: .png, or .html with all heads (regard.png)")
    look.set_defaults(run=questions.look)

    page = verb(
        "page",
        "write an answer as a page in one file, with every head",
        'regard page "the 3rd of march 2021" --model dates --to look.html',
    )
    page.add_argument("--to", type=Path, default=Path("look.html"), help="the file to write (look.html)")
    page.set_defaults(run=questions.page)
    for parser in (look, page):
        parser.add_argument("input", metavar="FILE|TEXT", help="a file, an address, a text, or - for standard input")
        beside = parser.add_mutually_exclusive_group()
        beside.add_argument("--context", help="of a question: the text that answers it")
        beside.add_argument(
            "--texts", nargs="+", metavar="TEXT", help="of a query: texts to rank; the best is looked at"
        )

    several = [_many(verb, *row) for row in MANY]
    for parser in (look, page, *several):
        parser.add_argument(
            "--text", action="store_true", help="what is given is a text, though it looks like a file's name"
        )
        parser.add_argument("--model", help="a model of the service; without it, the first that takes such an input")
        parser.add_argument("--top-k", type=int, help="how many answers, best first")
    for parser in (models, look, page, *several):
        parser.add_argument("--url", help=f"the service's address ({URL_VARIABLE}, or {URL})")
        parser.add_argument("--key", help=f"an API key ({KEY_VARIABLE})")


MANY = (
    ("classify", "say what each of many inputs is", "regard classify pictures/ --csv > labels.csv"),
    ("embed", "turn each of many inputs into a vector", "regard embed texts.csv --column text --json > vectors.jsonl"),
    ("generate", "write a text for each of many inputs", "cat dates.txt | regard generate - --model dates"),
    ("transcribe", "write what was said in sounds", "regard transcribe talk.wav --srt > talk.srt"),
)
"""The verbs that answer many inputs: their endpoint, what they do, and an example."""


def _many(
    verb: Callable[[str, str, str], argparse.ArgumentParser], endpoint: str, words: str, example: str
) -> argparse.ArgumentParser:
    """Add a verb that answers many inputs."""
    one = verb(endpoint, words, example)
    taken = "files, folders, tables (.csv), addresses, texts, or - for the lines of standard input"
    one.add_argument("inputs", metavar="FILE|TEXT", nargs="+", help=taken)
    one.add_argument("--column", help="of tables: which one has the inputs (the first)")
    one.add_argument("--concurrency", type=int, default=4, help="how many are asked for at once (4)")
    form = one.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json", help="print a line of JSON for each")
    form.add_argument("--csv", dest="form", action="store_const", const="csv", help="print a table")
    if endpoint == TRANSCRIBE.endpoint:
        one.add_argument("--language", help="that is spoken, such as en; found by default")
        for name, known in (("srt", "SubRip"), ("vtt", "WebVTT")):
            form.add_argument(
                f"--{name}", dest="subtitles", action="store_const", const=name, help=f"print subtitles as {known}"
            )
    one.set_defaults(run=questions.many, endpoint=endpoint, form="words", subtitles=None)
    return one


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
