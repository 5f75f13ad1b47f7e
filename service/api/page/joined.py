"""The page's modules as one script, for an inline script in a frame that can import nothing.

Each module becomes a function: what it imports are the parameters, what it exports is returned. That is possible
because the modules keep to a few forms, which `read` checks: `import { a, b } from './x.js'`, and `export` before a
function, a constant or a class, at the beginning of a line. A module's constant is the document's, so that a second
script goes on from those that the first one has. Comments and the space before lines are left out: a fifth of what is
sent.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PAGE = Path(__file__).parent / "static"
IMPORT = re.compile(r"^import \{(\s*[\w$]+(?:\s*,\s*[\w$]+)*,?\s*)\} from '\./([\w.-]+)'$", re.MULTILINE)
OTHER_IMPORT = re.compile(
    r"^\s*import\s*([{*'\"]|[\w$]+\s*,|[\w$]+[ \t]+from\b)|\bimport\s*(\(\s*['\"`]\.|\.\s*meta\b)", re.MULTILINE
)
EXPORT = re.compile(r"^export ((?:async )?function|const|class) ([\w$]+)", re.MULTILINE)
COMMENT = re.compile(r"^[ \t]*/\*[\s\S]*?\*/$|^[ \t]*//.*$|(?<=[\w)}\]',;{]) // .*$", re.MULTILINE)
"""A comment that begins a line, or ends one."""
INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
EXPORT_OF_LIBRARY = re.compile(r"\bexport\{([\w$\s,]*)\};?\s*\Z")
"""How the vendored file ends: `export{a as html,b as render};`."""
OTHER_EXPORT = re.compile(r"^\s*export\s*([{*]|(default|async|function|class|const|let|var)\b)", re.MULTILINE)


class JoinError(ValueError):
    """The modules cannot be joined."""


@dataclass(frozen=True)
class Module:
    """A module: its code without import and export, and the names that these had."""

    code: str
    imports: tuple[tuple[str, tuple[str, ...]], ...]
    exports: Mapping[str, str]
    """The name within the module by the name that others import."""


def joined(entry: str = "app.js", folder: Path = PAGE, *, behind: str | None = None) -> str:
    """Return a script that does what a module does with all that it imports. An HTML page can hold it.

    It comes `behind` the script of another entry, whose modules it then shares. Raises JoinError if a module is
    missing, has another form, or imports itself by way of others.
    """
    modules = _modules(entry, folder)
    arrows = {name: [other for other, _ in module.imports] for name, module in modules.items()}
    try:
        order = list(TopologicalSorter(arrows).static_order())
    except CycleError as error:
        raise JoinError(f"modules: must not import one another in a circle, given {' '.join(error.args[1])}") from error
    there = _modules(behind, folder) if behind else {}
    functions = "\n".join(_as_function(name, modules[name]) for name in order if name not in there)
    return _without_markup(f"'use strict'\n{functions}\n")


def _modules(entry: str, folder: Path) -> dict[str, Module]:
    """Return a module and all that it imports by way of others, by name."""
    modules: dict[str, Module] = {}
    wanted = [entry]
    while wanted:
        name = wanted.pop()
        if name not in modules:
            modules[name] = read(name, folder)
            wanted += [other for other, _ in modules[name].imports]
    for name, module in modules.items():
        for other, names in module.imports:
            if missing := sorted(set(names) - set(modules[other].exports)):
                raise JoinError(f"{name}: {other} exports no {', '.join(missing)}")
    return modules


def read(name: str, folder: Path = PAGE) -> Module:
    """Read a module. Raises JoinError if it is missing or has another form."""
    try:
        code = (folder / name).read_text(encoding="utf-8")
    except OSError as error:
        raise JoinError(f"{name}: cannot be read: {error.strerror}") from error
    if not EXPORT_OF_LIBRARY.search(code):
        code = INDENT.sub("", COMMENT.sub(_blank, code))
    imports = tuple((match[2], _names(match[1])) for match in IMPORT.finditer(code))
    code = IMPORT.sub(_blank, code)
    if found := OTHER_IMPORT.search(code):
        raise JoinError(f"{name}: must import as import {{ a, b }} from './x.js', given {_line(code, found)}")
    exports = {match[2]: match[2] for match in EXPORT.finditer(code)}
    code = EXPORT.sub(r"\1 \2", code)
    if last := EXPORT_OF_LIBRARY.search(code):
        pairs = [one.split(" as ") for one in last[1].split(",")]
        exports |= {pair[-1].strip(): pair[0].strip() for pair in pairs}
        code = code[: last.start()]
    if found := OTHER_EXPORT.search(code):
        raise JoinError(f"{name}: must export a function, a const or a class by its name, given {_line(code, found)}")
    return Module(code, imports, exports)


def _names(listed: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in listed.split(",") if name.strip())


def _blank(match: re.Match[str]) -> str:
    """Return as many empty lines as were matched, so that the lines of a module keep their numbers."""
    return "\n" * match[0].count("\n")


def _line(code: str, match: re.Match[str]) -> str:
    return f"line {code.count(chr(10), 0, match.end()) + 1}"


def _as_function(name: str, module: Module) -> str:
    """Return the definition of a constant that holds what a module exports."""
    parameters = ", ".join(f"{{ {', '.join(names)} }}" for _, names in module.imports)
    arguments = ", ".join(_constant(other) for other, _ in module.imports)
    exports = ", ".join(outer if outer == inner else f"{outer}: {inner}" for outer, inner in module.exports.items())
    return f"const {_constant(name)} = (({parameters}) => {{\n{module.code}\nreturn {{ {exports} }}\n}})({arguments})"


def _constant(name: str) -> str:
    return "$" + re.sub(r"\W", "_", name)


def _without_markup(script: str) -> str:
    """Return a script without `</script` and `<!--`, in whose place is what means the same in strings and regexes."""
    return re.sub("</(?=script)", r"<\\/", script, flags=re.IGNORECASE).replace("<!--", r"<\x21--")
