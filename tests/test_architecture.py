"""The architecture as rules: which package and which room may not import which, and how large a file may be."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import get_args

import pytest

from contract.manifest import Method, Task
from tests.conftest import ROOT

PACKAGES = ("contract", "model", "train", "export", "service", "client")
MAY_NOT_IMPORT = {
    "contract": "model train export service regard torch onnx onnxruntime fastapi numpy",
    "model": "contract train export service regard onnx onnxruntime onnxscript fastapi starlette sklearn",
    "train": "contract export service regard onnx onnxruntime onnxscript fastapi starlette",
    "export": "train service regard fastapi starlette uvicorn",
    "service": "model train export regard torch onnx onnxscript safetensors",
    "client": "contract model train export service onnx onnxruntime fastapi starlette pydantic",
    "benchmarks": "tests",
}
"""Packages: train -> model -> export -> artifact -> service, with contract below export and service.

The client knows none of them, and nobody knows the client: HTTP is between them.
"""
MAY_KNOW = {
    "service.errors": "",
    "service.settings": "",
    "service.arrays": "",
    "service.child_processes": "",
    "service.concurrency": "",
    "service.options": "errors",
    "service.telemetry": "settings",
    "service.http": "errors settings telemetry",
    "service.inputs": "arrays batching child_processes errors settings telemetry",
    "service.runtime": "arrays errors settings",
    "service.batching": "errors runtime telemetry",
    "service.generation": "arrays batching concurrency errors runtime settings telemetry",
    "service.explanations": "arrays errors inputs options",
    "service.repository": "arrays batching child_processes concurrency errors explanations generation inputs options "
    "runtime settings telemetry",
    "service.store": "errors inputs settings",
    "service.state": "batching.admission concurrency errors http inputs repository runtime settings store telemetry",
    "service.answering": "batching.fair_queue concurrency errors explanations generation http inputs options "
    "repository settings state store",
    "service.api": "answering arrays errors explanations generation http inputs options repository settings "
    "state store",
    "service.app": "api batching errors http inputs repository runtime settings state store telemetry",
    "service.process": "app child_processes errors explanations http inputs repository runtime settings store "
    "telemetry",
    "service.keys": "http",
    "service.tune": "repository runtime settings",
    "service.__main__": "process settings telemetry",
    "export.errors": "",
    "export.traced": "",
    "export.plan": "errors traced",
    "export.pack": "plan",
    "export.progress": "",
    "export.tasks": "errors plan traced",
    "export.graphs": "errors plan traced",
    "export.checks": "errors plan traced",
    "export.checkpoints": "errors plan tasks",
    "export.examples": "errors plan tasks",
    "export.presentation": "errors examples plan",
    "export.ctranslate2": "checkpoints errors",
    "export.packaged": "checkpoints ctranslate2 errors plan",
    "export.bundled": "checkpoints errors networks packaged paired plan presentation tasks trained",
    "export.networks": "plan tasks trained",
    "export.paired": "checkpoints plan tasks trained",
    "export.trained": "checkpoints",
    "export.token_limit": "checkpoints errors plan",
    "export.cost": "checks errors plan progress",
    "export.dry_run": "checks cost plan",
    "export.verification": "checks graphs pack plan progress",
    "export.pipeline": "checks cost errors graphs pack plan progress tasks traced verification",
    "export.command": (
        "bundled checkpoints checks cost dry_run errors examples graphs pipeline plan progress token_limit"
    ),
    "export.__main__": "",
}
"""Rooms, and modules beside them: each may import these of its package, and nothing else of it."""
WITHIN = {
    "model": {"parts": "", "methods": "parts", "architectures": "parts"},
    "export.graphs": {
        "editing": "",
        "tracing": "",
        "maps": "editing",
        "gradients": "editing maps",
        "lowering": "editing",
    },
    "export.checkpoints": {"reading": "", "building": "reading", "families": "building reading"},
    "service.repository": {
        "models": "",
        "explaining": "models",
        "loading": "explaining models",
        "loops": "models",
        "registry": "loading loops models",
    },
    "service.api": {
        "reading": "",
        "responses": "",
        "pipelines": "responses",
        "tasks": "pipelines reading responses",
        "native": "reading responses tasks",
    },
}
"""Rooms within a package or a room: of those beside it, each imports these."""
NEEDS_NO_PYTORCH = "export.checkpoints.reading"
KNOW_ONNXRUNTIME = {"service/runtime/io_binding.py", "service/runtime/session.py"}
TOO_HEAVY_FOR_DECODERS = {"starlette", "fastapi", "orjson", "anyio", "asyncio", "structlog", "onnxruntime"}
IMPORTED_BY_DECODERS = {
    "service", "contract", "numpy", "PIL", "pydantic", "pydantic_core", "annotated_types", "typing_extensions",
    "typing_inspection", "soundfile", "cffi",
}  # fmt: skip
"""Beside the standard library; ARCHITECTURE.md says what they are for."""
MOST_COMPARISONS = 10
"""Of the service, with the name of a task or of a method: what is particular to one is a row of a table."""
MOST_LINES = 400
LONG_FILES = {
    "client/regard/model.py": "is written by client/signatures: every option stands in the signature",
    "client/regard/async_model.py": "as model.py",
    "client/regard/looking.py": "as model.py",
}
"""Files of more lines, and why."""
MOST_METHODS = 20
"""Of a class, properties among them."""
CLASSES_OF_MANY_METHODS = {
    "client/regard/model.py Model": "its methods are the client's API",
    "client/regard/async_model.py AsyncModel": "as Model",
}
MOST_LINES_OF_A_FUNCTION = 60
LONG_FUNCTIONS = {
    "client/regard/model.py": "is written by client/signatures: every option is said in a docstring",
    "client/regard/async_model.py": "as model.py",
    "client/regard/looking.py": "as model.py",
    "service/app.py create_app": "the lifespan is a closure, in the order in which things start and stop",
}


def module_of(file):
    name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    return name.removeprefix("client.")


@cache
def files(place):
    """Return the files of a package, a room or a module, by the names of their modules."""
    path = ROOT.joinpath(*place.split("."))
    found = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    return {module_of(file): file for file in found}


@cache
def tree(file):
    return ast.parse(file.read_text())


def imports(file):
    """Return the full names of what a file imports; `from a import b` imports a.b, whether that is a module or not."""
    found = set()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def lies_in(name, place):
    return name == place or name.startswith(f"{place}.")


@pytest.mark.parametrize("package", MAY_NOT_IMPORT)
def test_a_package_imports_only_what_lies_below_it(package):
    assert files(package)
    for module, file in files(package).items():
        for other in MAY_NOT_IMPORT[package].split():
            assert not [name for name in imports(file) if lies_in(name, other)], f"{module} must not import {other}"


@pytest.mark.parametrize("room", MAY_KNOW)
def test_a_room_imports_only_the_rooms_that_it_may_know(room):
    package = room.partition(".")[0]
    known = (room, *(f"{package}.{name}" for name in MAY_KNOW[room].split()))
    assert files(room)
    for module, file in files(room).items():
        of_package = {name for name in imports(file) if lies_in(name, package)} - {"service.VERSION"}
        strangers = [name for name in of_package if not any(lies_in(name, place) for place in known)]
        assert not strangers, f"{module} imports {strangers}"


@pytest.mark.parametrize("room", MAY_KNOW)
def test_a_room_uses_every_room_that_it_may_know(room):
    package = room.partition(".")[0]
    used = {name for file in files(room).values() for name in imports(file)}
    for known in MAY_KNOW[room].split():
        assert any(lies_in(name, f"{package}.{known}") for name in used), f"{room} does not import {known}"


@pytest.mark.parametrize(("place", "room"), [(place, room) for place in WITHIN for room in WITHIN[place]])
def test_a_room_within_another_imports_only_its_neighbours_below(place, room):
    names = {name for file in files(f"{place}.{room}").values() for name in imports(file) if lies_in(name, place)}
    used = {name.removeprefix(f"{place}.").partition(".")[0] for name in names}
    assert used - {room} == set(WITHIN[place][room].split())


def test_what_reads_checkpoints_needs_no_pytorch():
    modules = ", ".join(files(NEEDS_NO_PYTORCH))
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("package", ["service", "export"])
def test_every_room_has_a_rule(package):
    places = {".".join(module.split(".")[:2]) for module in files(package)} - {package}
    assert places == {room for room in MAY_KNOW if lies_in(room, package)}


def test_no_module_imports_itself_by_way_of_others():
    modules = {name: file for package in PACKAGES for name, file in files(package).items()}
    arrows = {}
    for name, file in modules.items():
        found = (other if other in modules else other.rpartition(".")[0] for other in imports(file))
        arrows[name] = modules.keys() & set(found) - {name}
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")


def test_two_files_of_the_service_know_onnxruntime():
    knowing = {
        str(file.relative_to(ROOT))
        for file in files("service").values()
        if any(lies_in(name, "onnxruntime") for name in imports(file))
    }
    assert knowing == KNOW_ONNXRUNTIME


KEEP_CONTEXTS_APART = {"service.http.paced_starts"}
"""What begins requests of all connections, which must know nothing of one another."""


def test_nothing_travels_in_context_variables():
    for module, file in files("service").items():
        knows = any(lies_in(name, "contextvars") for name in imports(file))
        assert knows == (module in KEEP_CONTEXTS_APART), module


def test_what_decodes_images_in_confined_processes_imports_nothing_of_http():
    code = "import sys, service.inputs.sandbox.fork_server; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & TOO_HEAVY_FOR_DECODERS
    known = sys.stdlib_module_names | IMPORTED_BY_DECODERS
    assert {name for name in loaded - known if not name.startswith("_")} == set()


def names_a_task_or_method(node):
    names = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
    return bool(names & {*get_args(Task), *get_args(Method), "best"}) or "_TASKS" in ast.unparse(node)


def test_the_service_asks_tables_rather_than_compare_names_of_tasks_and_methods():
    found = [
        f"{module}: {ast.unparse(node)}"
        for module, file in files("service").items()
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Compare)
        and ast.unparse(node.left).rpartition(".")[2] in ("task", "method")
        and any(names_a_task_or_method(one) for one in node.comparators)
    ]
    assert len(found) <= MOST_COMPARISONS, found


def test_files_are_short():
    long = {
        str(file.relative_to(ROOT))
        for package in PACKAGES
        for file in files(package).values()
        if len(file.read_text().splitlines()) > MOST_LINES
    }
    assert long == LONG_FILES.keys()


def test_classes_have_few_methods():
    many = {
        f"{file.relative_to(ROOT)} {node.name}"
        for package in PACKAGES
        for file in files(package).values()
        for node in ast.walk(tree(file))
        if isinstance(node, ast.ClassDef)
        and sum(isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in node.body) > MOST_METHODS
    }
    assert many == CLASSES_OF_MANY_METHODS.keys()


def test_functions_are_short():
    long = {
        f"{file.relative_to(ROOT)} {node.name}"
        for package in PACKAGES
        for file in files(package).values()
        for node in ast.walk(tree(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno >= MOST_LINES_OF_A_FUNCTION
    }
    written = {name for name in LONG_FUNCTIONS if " " not in name}  # whole files
    assert {name for name in long if name.split()[0] not in written} == LONG_FUNCTIONS.keys() - written
    assert {name.split()[0] for name in long} >= written
