"""The command `python -m export NAME ...`: its arguments and its exit statuses.

A name is that of a bundled model, a folder with a checkpoint in the Hugging Face layout, or a name on the hub. The exit
status is 0, that of an error (`export/errors.py`: 1 if a check failed, 2 if the request or the checkpoint is wrong), or
128 and the number of a signal: 130 or 143.

What needs PyTorch is imported by the functions that use it: the arguments are read where it is not installed yet.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import re
import shlex
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from contract.artifact import this_python
from contract.manifest import MAX_ABOUT_CHARACTERS, MAX_ORDER, GradientMethod, Manifest, Method, Task
from contract.names import BUNDLED, UNSERVED, nearest
from contract.part import NAME
from export import progress
from export.errors import CheckpointError, ExportError
from export.progress import harmless, received_signals, say, waiting

if TYPE_CHECKING:
    from export.checkpoints.reading.checkpoint import Checkpoint
    from export.checks.trials import Extent
    from export.plan import Source

OPSETS = range(18, 25)
"""Of ONNX, as `export/graphs/tracing/torch_export.py` has them."""
TASKS = sorted({*get_args(Task)} - {"graph-classification"})
"""The tasks of checkpoints."""
PRECISIONS = get_args(Manifest.model_fields["precision"].annotation)
METHODS_TO_LEAVE_OUT = tuple(one for one in get_args(Method) if one != "raw")


def main() -> int:
    """Export what the command line names; return the exit status."""
    arguments = read_arguments()
    progress.verbose = arguments.verbose
    received_signals.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)  # so that unfinished folders are removed
    try:
        if arguments.list:
            say(_list())
            return 0
        return _export(arguments)
    except BrokenPipeError:  # nobody reads what is said
        sys.stdout = None  # or the interpreter would report it again as it ends
        return 128 + signal.SIGPIPE


def _export(arguments: argparse.Namespace) -> int:
    """Export each model that is named; return the exit status. Raises BrokenPipeError."""
    name = ""
    try:
        opened: dict[str, Checkpoint] = {}
        for name in arguments.names:  # before PyTorch is loaded, which takes longer
            if name not in BUNDLED:
                opened[name] = _opened(name, arguments)
        with waiting("loading PyTorch"):
            importlib.import_module("export.dry_run" if arguments.dry_run else "export.pipeline")
        for name in arguments.names:
            source = _source(name, opened.get(name), arguments)
            if arguments.fast_jpeg:
                source = _with_fast_jpeg(source)
            _make(name, _presented(source, arguments), arguments)
    except KeyboardInterrupt:
        print(f"{name}: not exported: interrupted", file=sys.stderr)
        return 128 + (received_signals[0] if received_signals else signal.SIGINT)
    except BrokenPipeError:  # an OSError that `main` answers
        raise
    except OSError as error:
        reason = f"{error.filename or arguments.to}: {error.strerror}"
        print(f"{name}: not exported: {harmless(reason)}", file=sys.stderr)
        return 2
    except ExportError as error:
        print(f"{name}: not exported: {harmless(str(error))}", file=sys.stderr)
        return error.exit_status
    if importlib.util.find_spec("service") and not arguments.dry_run:  # an image that exports does not hold it
        say(f"to serve: {_command_to_serve(arguments.to)}")
    return 0


def _opened(name: str, arguments: argparse.Namespace) -> Checkpoint:
    """Return an opened checkpoint of a known type and task, without PyTorch. Raises CheckpointError."""
    from export.checkpoints.families import check_type
    from export.checkpoints.reading.checkpoint import open_checkpoint, without_keys

    def check(config: Mapping[str, Any]) -> None:
        check_type(without_keys(config, arguments.ignore), arguments.task)

    return open_checkpoint(name, arguments.revision, check)


def _make(name: str, source: Source, arguments: argparse.Namespace) -> None:
    """Make the artifact of a source, or only say what it would be. Raises ExportError."""
    kept = arguments.methods
    without = arguments.without if kept is None else [one for one in METHODS_TO_LEAVE_OUT if one not in kept]
    extent: Extent = "full" if name in BUNDLED else arguments.verify
    if arguments.dry_run:
        from export.cost import check_room
        from export.dry_run import describe
        from export.plan import leave_out

        folder = next(one for one in (arguments.to.absolute(), *arguments.to.absolute().parents) if one.exists())
        for own in source.together:
            own, _ = leave_out(own, arguments.precision, without, explain_in_float=bool(arguments.explain))
            say(describe(own, arguments.to / own.name / arguments.version, arguments.precision, extent))
            check_room(own, arguments.precision, extent, folder)
        return
    from export.graphs.tracing.torch_export import DEFAULT_OPSET
    from export.pipeline import export

    export(
        source, arguments.version, arguments.to, arguments.precision, arguments.opset or DEFAULT_OPSET,
        samples=arguments.samples, calibrate=arguments.calibrate, force=arguments.force, without=without,
        explain_in_float=bool(arguments.explain), extent=extent,
    )  # fmt: skip


def _command_to_serve(root: Path) -> str:
    """Return the command that serves a folder of artifacts, to be typed where this one was typed."""
    return f"REGARD_ARTIFACTS={shlex.quote(str(root))} {this_python()} -m service"


def _stop(number: int, _: object) -> None:
    received_signals.append(number)
    raise KeyboardInterrupt


def read_arguments() -> argparse.Namespace:
    """Return the arguments of the command line. Raises SystemExit, with a line that says why, if one is wrong."""
    parser = _parser()
    arguments = parser.parse_args()
    if not arguments.names and not arguments.list:
        parser.error(f"NAME: one or more, such as {', '.join(BUNDLED)} or a checkpoint's folder")
    if (arguments.samples or arguments.force) and arguments.precision not in ("int8", "int4"):
        parser.error("--samples and --force: are for --precision int8 and int4")
    if (arguments.calibrate or arguments.explain) and arguments.precision != "int8":
        parser.error("--calibrate and --explain: are for --precision int8")
    if arguments.methods is not None and arguments.without:
        parser.error("--methods and --without: give one of them, since each says which methods an artifact has")
    for name in arguments.names:
        if name.startswith(("/", "./", "../", "~")) and not Path(name).exists():
            parser.exit(CheckpointError.exit_status, f"{name}: not exported: NAME: there is no such folder\n")
        if name in UNSERVED and not Path(name).exists():
            words = "attends to nothing, so there are no maps to export"
            parser.exit(CheckpointError.exit_status, f"{name}: not exported: NAME: {words}\n")
        if "/" not in name and not Path(name).exists() and name not in BUNDLED and (near := nearest(name, BUNDLED)):
            words = "is no bundled model and no folder; did you mean"
            parser.exit(CheckpointError.exit_status, f"{name}: not exported: NAME: {words} {near}?\n")
    for option in ("name", "about", "example", "order"):
        if getattr(arguments, option) not in (None, []) and len(arguments.names) > 1:
            parser.error(f"--{option}: is for one NAME at a time")
    for option in ("version", "name"):
        if (given := getattr(arguments, option)) is not None and not re.fullmatch(NAME, given):
            parser.error(f"--{option}: must be letters, digits, '.', '_' and '-', beginning with a letter or digit")
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m export", description="Turn PyTorch definitions and their weights into artifacts."
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"a bundled model ({', '.join(BUNDLED)}), a checkpoint's folder, or its name on the hub",
    )
    parser.add_argument("--to", type=Path, default=Path("artifacts"), help="folder of artifacts (default: artifacts)")
    parser.add_argument("--version", default="1", help="the artifact's version (default: 1)")
    parser.add_argument("--name", help="the artifact's name (default: the last part of NAME)")
    parser.add_argument(
        "--task",
        choices=TASKS,
        help="the task to export a checkpoint for (default: the one that it was saved for)",
    )
    parser.add_argument(
        "--image-size", type=_image_size, metavar="HEIGHTxWIDTH", help="size of images (default: the checkpoint's own)"
    )
    parser.add_argument(
        "--max-tokens", type=_max_tokens, metavar="NUMBER",
        help="the most tokens of a text (default: as many as the checkpoint's settings allow, at most 2048)",
    )  # fmt: skip
    parser.add_argument(
        "--fast-jpeg",
        action="store_true",
        help="let the service decode large JPEGs at a reduced scale: quicker, but pixels differ by a few levels",
    )
    parser.add_argument("--revision", help="branch, tag or commit on the hub")
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="KEY", help="a key of a configuration to ignore; repeatable"
    )
    _add_presentation_options(parser)
    _add_graph_options(parser)
    parser.add_argument(
        "--verify", choices=("usual", "full"), default="usual",
        help="on how many random inputs the graphs are compared with the model (default: usual; bundled models: full)",
    )  # fmt: skip
    parser.add_argument("--verbose", action="store_true", help="print every comparison, not only the worst one")
    parser.add_argument("--dry-run", action="store_true", help="say what would be exported, or why not, and end")
    parser.add_argument("--list", action="store_true", help="list what can be exported")
    return parser


def _add_presentation_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a model is shown to those who see it for the first time."""
    parser.add_argument("--about", type=_about, metavar="SENTENCE", help="what the model does, for newcomers")
    parser.add_argument(
        "--example", action="append", default=[], metavar="TEXT|FILE",
        help="an input to try the model on: a text, or a png, jpeg or webp for one that takes images; repeatable "
        "(default: those of the checkpoint's model card, or else of its task)",
    )  # fmt: skip
    parser.add_argument(
        "--order", type=_order, metavar="NUMBER",
        help="models are listed by it, equal ones by name (default: 100, and bundled models before)",
    )  # fmt: skip


def _about(text: str) -> str:
    if not 1 <= len(text.strip()) <= MAX_ABOUT_CHARACTERS or not text.isprintable():
        raise argparse.ArgumentTypeError(f"must be a line of 1 to {MAX_ABOUT_CHARACTERS} characters")
    return text.strip()


def _order(text: str) -> int:
    if not re.fullmatch(r"\d{1,7}", text) or int(text) > MAX_ORDER:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to {MAX_ORDER}")
    return int(text)


def _add_graph_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which graphs an artifact has, and in which precision."""
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32", help="(default: fp32)")
    parser.add_argument("--opset", type=int, choices=OPSETS, help=f"of ONNX, {OPSETS[0]} to {OPSETS[-1]} (default: 20)")
    parser.add_argument(
        "--samples", type=Path,
        help="a folder of images, or a file with one text per line, on which few bits are compared (default: texts "
        "of ours where a decoder continues texts, else random inputs)",
    )  # fmt: skip
    parser.add_argument(
        "--calibrate", type=Path,
        help="with int8: a folder of images, or a file with one text per line, on which scales are chosen, which are "
        "then fixed; every second one is kept for the comparison, unless --samples gives others (default: scales are "
        "computed at run time)",
    )  # fmt: skip
    parser.add_argument(
        "--explain", choices=("float",),
        help=f"with int8: make {', '.join(get_args(GradientMethod))} in single floats (default: leave them out)",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="export few bits even if they lose more than is allowed")
    parser.add_argument(
        "--without", action="append", default=[], choices=(*METHODS_TO_LEAVE_OUT, "inside"), metavar="METHOD",
        help=f"a method of attention to leave out, one of {', '.join(METHODS_TO_LEAVE_OUT)}, or inside; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--methods", type=_methods, metavar="METHOD,METHOD",
        help="the methods of attention to keep, such as raw,rollout,libra; raw is always kept (default: all)",
    )  # fmt: skip


def _methods(text: str) -> set[Method]:
    """Return the methods that are listed, with `raw`."""
    found: set[Method] = {"raw"}
    for name in text.split(","):
        if name.strip() not in get_args(Method):
            raise argparse.ArgumentTypeError(
                f"must be of {', '.join(get_args(Method))}, separated by commas, given {name.strip()[:64]!r}"
            )
        found.add(cast(Method, name.strip()))
    return found


def _image_size(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9]\d{0,4})(?:x([1-9]\d{0,4}))?", text)
    if not found:
        raise argparse.ArgumentTypeError("must be such as 224 or 224x160, height first")
    height, width = found.groups()
    return int(height), int(width or height)


def _max_tokens(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,6}", text):
        raise argparse.ArgumentTypeError("must be a whole number above 0")
    return int(text)


def _with_fast_jpeg(source: Source) -> Source:
    """Return a source whose images may be decoded at a reduced scale. Raises CheckpointError if it takes no images."""
    if source.image is None:
        raise CheckpointError("--fast-jpeg: is for models that take images")
    return dataclasses.replace(source, inputs=(source.image.model_copy(update={"fast_jpeg": True}),))


def _presented(source: Source, arguments: argparse.Namespace) -> Source:
    """Return a source with the sentence, order and examples that the command was given. Raises CheckpointError."""
    from export.examples import with_given

    about, order = arguments.about or source.about, source.order if arguments.order is None else arguments.order
    source = dataclasses.replace(source, about=about, order=order)
    return with_given(source, arguments.example) if arguments.example else source


def _list() -> str:
    """Return what can be exported, for --list."""
    from export.checkpoints.families import FAMILIES

    lines = ["bundled:"] + [f"  {name}" for name in BUNDLED] + ["checkpoints, by model_type:"]
    for name, family in FAMILIES.items():
        options = f"  ({family.command_options})" if family.command_options else ""
        lines.append(f"  {name:<22}{', '.join(family.tasks)}{options}")
    lines.append("of every checkpoint: --name --task --precision --opset --revision --ignore --methods --without")
    lines.append("of every model: --about --example --order --verify --dry-run")
    lines.append("of those that take images: --fast-jpeg")
    lines.append("of those that read text: --max-tokens")
    lines.append(f"methods of attention: {', '.join(get_args(Method))}")
    return "\n".join(lines)


def _source(name: str, checkpoint: Checkpoint | None, arguments: argparse.Namespace) -> Source:
    """Return the source of an opened checkpoint, or of a bundled model. Raises ExportError."""
    from export.checkpoints.building.canvas import about_canvas
    from export.checkpoints.building.chat_form import with_chat
    from export.checkpoints.building.family import ExportOptions
    from export.checkpoints.families import FAMILIES
    from export.token_limit import with_max_tokens

    if checkpoint is None:
        return _bundled(name, arguments)
    start = time.perf_counter()
    target = arguments.name or re.sub(r"[^A-Za-z0-9._-]", "-", Path(name).resolve().name).lstrip(".-_")[:128]
    if not re.fullmatch(NAME, target):
        raise CheckpointError("--name: is needed, since NAME has no letter or digit to make one of")
    kind = str(checkpoint.config["model_type"])
    options = ExportOptions(target, arguments.task, arguments.image_size, tuple(arguments.ignore))
    try:
        with waiting(f"{target}: reading {len(checkpoint.tensors)} tensors"):
            source = FAMILIES[kind].source(checkpoint, options)
    except (MemoryError, RuntimeError, OverflowError) as error:  # sizes that no machine has
        raise CheckpointError(f"config.json: the model cannot be built: {str(error).splitlines()[0][:200]}") from error
    say(f"{target}: {kind} for {source.task}, {len(checkpoint.tensors)} tensors read", start)
    source = with_chat(with_max_tokens(source, arguments.max_tokens), checkpoint, say)
    if checkpoint.wrapper:
        say(f"  without {checkpoint.wrapper} before every name")
    grid = source.attention[0].grid
    for line in about_canvas(source.image, grid) if source.image and source.image.locate == "fit" and grid else ():
        say(f"  {line}")
    if source.partner:
        say(f"  of pictures; that of texts will be {source.partner.name}")
    for own in source.together:
        if unused := own.made_by["set_aside"]:
            say(f"  not used by {own.task}: {unused}")
    return source if arguments.example else _with_card(source, checkpoint)


def _bundled(name: str, arguments: argparse.Namespace) -> Source:
    """Return the source of a bundled model. Raises ExportError."""
    from export.bundled import SOURCES
    from model.weights import WeightsError

    if arguments.task or arguments.image_size or arguments.max_tokens or arguments.revision or arguments.ignore:
        raise CheckpointError("--task, --image-size, --max-tokens, --revision and --ignore are for checkpoints")
    try:
        source = SOURCES[name]()
    except WeightsError as error:
        raise ExportError(str(error)) from error
    return dataclasses.replace(source, name=arguments.name or source.name)


def _with_card(source: Source, checkpoint: Checkpoint) -> Source:
    """Return the source of a checkpoint with the examples of its model card, or of its task if the card has none.

    Says what is left out.
    """
    from export.checkpoints.reading.model_card import CARD, read_widget
    from export.examples import with_texts, with_usual

    texts, faults = read_widget(checkpoint)
    found, more = with_texts(source, texts)
    for fault in dict.fromkeys(faults + [f"example left out: {one}" for one in more]):
        say(f"  {CARD}: {fault}")
    if not found.examples:
        found = with_usual(source)
    if found.partner:
        found = dataclasses.replace(found, partner=with_usual(found.partner))
    if not found.examples:
        say("  no examples: the service's page has none to show; see --example")
    return found
