"""`python -m export digits dates --to artifacts`: make artifacts, say what was done and how far it was off."""

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path

import onnx
import onnxruntime as ort

from contract.manifest import NAME, Role
from export.bundled import SOURCES
from export.optimize import ExportError, optimize
from export.pack import write_graphs, write_manifest
from export.plan import Source
from export.trace import trace
from export.verify import verify
from model.weights import WeightsError


def main() -> int:
    """Export the named models. Returns the exit status: 0, 1 where a check failed, 2 where the request is wrong."""
    parser = argparse.ArgumentParser(prog="python -m export", description="Turn PyTorch definitions into artifacts.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of: {', '.join(SOURCES)}")
    parser.add_argument("--to", type=Path, default=Path("artifacts"), help="folder of artifacts (default: artifacts)")
    parser.add_argument("--version", default="1", help="the artifact's version (default: 1)")
    parser.add_argument("--list", action="store_true", help="list what can be exported")
    arguments = parser.parse_args()
    if arguments.list:
        print(*SOURCES, sep="\n")
        return 0
    unknown = [name for name in arguments.names if name not in SOURCES]
    if unknown or not arguments.names:
        parser.error(f"name: must be one or more of {', '.join(SOURCES)}, given {', '.join(unknown) or 'none'}")
    if not re.fullmatch(NAME, arguments.version):
        parser.error("version: must be letters, digits, '.', '_' and '-', beginning with a letter or digit")
    for name in arguments.names:
        try:
            export(SOURCES[name](), arguments.version, arguments.to)
        except (ExportError, WeightsError) as error:
            print(f"{name}: not exported: {error}", file=sys.stderr)
            return 1
    return 0


def export(source: Source, version: str, root: Path) -> Path:
    """Make `<root>/<name>/<version>/` and return it; until every check has passed, nothing is there."""
    target = root / source.name / version
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".", suffix=".partial") as temporary:
        folder = Path(temporary, version)
        folder.mkdir()
        say(f"{source.name}: {len(source.plans)} graphs")
        graphs: dict[Role, onnx.ModelProto] = {}
        for plan in source.plans:
            start = time.perf_counter()
            traced = trace(plan, source.traced)
            graphs[plan.role] = optimize(traced, plan)
            nodes = len(graphs[plan.role].graph.node)
            say(f"  trace     {plan.role:<10}{nodes:>5} nodes, {plan.attentions} attentions", start)
        if source.tokenizer:
            (folder / "tokenizer.json").write_text(source.tokenizer, encoding="utf-8")
        written, saved = write_graphs(graphs, folder)
        say(f"  optimize  weights {written / 1e6:.2f} MB, shared by the graphs: {saved / 1e6:.2f} MB not written again")
        start = time.perf_counter()
        worst = verify(source, {role: _session(folder / f"{role}.onnx") for role in graphs})
        say(f"  verify    {len(source.tried)} shapes against float64, alone and padded", start)
        for what, difference in sorted(worst.items()):
            say(f"            {what:<36} differs by at most {difference:.1e}")
        write_manifest(source, version, worst, folder)
        if target.exists():
            target.rename(Path(temporary, "old"))
        folder.rename(target)
    say(f"  pack      {target}")
    return target


def say(line: str, since: float | None = None) -> None:
    """Print a step, with the seconds it took."""
    print(line if since is None else f"{line:<56}{time.perf_counter() - since:>6.1f} s", flush=True)


def _session(file: Path) -> ort.InferenceSession:
    return ort.InferenceSession(file, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    sys.exit(main())
