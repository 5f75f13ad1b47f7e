"""Render a chat template, which is a program from a checkpoint, in jinja's sandbox: a process of its own, with bounds.

It is run as a script, so that it imports nothing of ours. It reads a document from its standard input, and writes one
to its standard output: for each conversation its text, or why there is none.
"""

import json
import resource
import sys
from typing import Any, NoReturn

import jinja2
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

MOST_BYTES = 1 << 30
"""Of memory, all libraries included."""
MOST_SECONDS = 5
"""Of the processor."""
MOST_CHARACTERS = 1 << 20
"""Of a text."""
MOST_SAID = 200


class Generation(Extension):
    """The block `generation` marks what an assistant wrote. Its text is what stands in it."""

    tags = {"generation"}  # noqa: RUF012 # as jinja declares it

    def parse(self, parser: Any) -> Any:  # noqa: ANN401 # jinja has no types for it
        """Return the statements of the block."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def render(template: str, variables: dict[str, object], conversations: list[dict[str, object]]) -> list[dict[str, str]]:
    """Return of each conversation its `text`, or in `refused` why the template makes none of it.

    As `apply_chat_template` of the transformers library does, but for a clock, which there is none of. (The reference
    gives templates `strftime_now`; those that look for it have a date of their own where it is missing.)
    """
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _json
    environment.globals["raise_exception"] = _refuse
    try:
        compiled = environment.from_string(template)
    except Exception as error:  # whatever a template raises
        return [{"refused": _said(error)}] * len(conversations)
    return [_rendered(compiled, {**variables, **one}) for one in conversations]


def _rendered(compiled: jinja2.Template, given: dict[str, object]) -> dict[str, str]:
    try:
        text = compiled.render(tools=None, documents=None, **given)
    except Exception as error:
        return {"refused": _said(error)}
    return {"text": text} if len(text) <= MOST_CHARACTERS else {"refused": f"at most {MOST_CHARACTERS} characters"}


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:MOST_SAID]


def _refuse(message: object) -> NoReturn:
    raise jinja2.TemplateError(str(message))


def _json(value: object, ensure_ascii: bool = False, **options: Any) -> str:  # noqa: ANN401 # theirs
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    json.dump(render(**json.load(sys.stdin)), sys.stdout)
