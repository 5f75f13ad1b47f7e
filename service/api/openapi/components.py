"""Components of the OpenAPI document: what its operations refer to by name, so that each is defined once.

Generators make a class of every component, and name it as the component is named.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from service.options.base import Options
from service.options.generation import GenerateOptions
from service.options.transcription import TranscribeOptions

Json = dict[str, Any]
NULL: Json = {"type": "null"}
PLACE = "#/components/{section}/{name}"
JSON = "application/json"


def _never_null(schema: Json) -> None:
    """Say of fields with a default that they may be absent, and not that they may be null."""
    for name, described in schema.get("properties", {}).items():
        if "default" in described:
            schema["properties"][name] = without_null(described)


def without_null(schema: Json) -> Json:
    """Return the schema of a value without its default, and without null, if the value may be something else."""
    rest = {name: value for name, value in schema.items() if name != "default"}
    others = [one for one in rest.get("anyOf", []) if one != NULL]
    if not others:
        return rest
    del rest["anyOf"]
    return {**others[0], **rest} if len(others) == 1 else {"anyOf": others, **rest}


class Part(BaseModel):
    """Base of what answers hold. A field whose default is None may be absent; if it is there, it is not null."""

    model_config = ConfigDict(json_schema_extra=_never_null)


class _Schemas(GenerateJsonSchema):
    """Schemas without titles of fields, which only repeat their names."""

    def field_title_should_be_set(self, schema: object) -> bool:
        """Return False."""
        return False


class Components:
    """The components that endpoints have referred to while they were described.

    Options that several kinds inherit from one of the `bases` are described once, in a component of its name.
    """

    def __init__(self, *bases: type[Options]) -> None:
        self._bases = bases
        self._kinds: dict[str, type[BaseModel]] = {base.__name__: base for base in bases}
        self._parts: dict[str, str] = {}
        self._sections: dict[str, dict[str, Json]] = {"schemas": {}, "parameters": {}, "responses": {}}

    def schema(self, kind: type[BaseModel]) -> Json:
        """Return a reference to the schema of a class. Raises ValueError if another class has its name."""
        if self._kinds.setdefault(kind.__name__, kind) is not kind:
            raise ValueError(f"components: {kind.__name__} must be one class, given another")
        return reference("schemas", kind.__name__)

    def named(self, section: str, name: str, described: Json) -> Json:
        """Return a reference to a component of that name. Raises ValueError if another one has it."""
        if self._sections[section].setdefault(name, described) != described:
            raise ValueError(f"components: {name} must be described once, given another")
        return reference(section, name)

    def part_of(self, kind: type[Options], name: str, options: Json) -> Json:
        """Return a reference to a component of some options of a kind, to which that of the kind refers too."""
        self._parts[kind.__name__] = name
        return self.named("schemas", name, {"type": "object", "properties": options})

    def options(self, *kinds: type[Options]) -> Json:
        """Return the schema of each option of some kinds, by name."""
        found: Json = {}
        for kind in kinds:
            found |= self._options(TypeAdapter(kind).json_schema(schema_generator=_Schemas)).get("properties", {})
        return found

    def used_by(self, paths: Json) -> dict[str, Json]:
        """Return the components that some paths refer to, and those that these refer to, by section."""
        known = {**self._sections, "schemas": {**self._definitions(), **self._sections["schemas"]}}
        found: dict[str, Json] = {}
        waiting = list(_references(paths))
        while waiting:
            section, name = waiting.pop()
            if name in found.get(section, {}):
                continue
            found.setdefault(section, {})[name] = described = known[section][name]
            waiting += _references(described)
        return {section: dict(sorted(ones.items())) for section, ones in sorted(found.items())}

    def _definitions(self) -> dict[str, Json]:
        """Return the schemas of all classes, and of those that they hold, by name."""
        of_options = [kind for kind in self._kinds.values() if issubclass(kind, Options)]
        others = [kind for kind in self._kinds.values() if not issubclass(kind, Options)]
        found = {name: self._options(schema) for name, schema in _definitions(of_options).items()}
        for base in self._bases:
            found[base.__name__].pop("additionalProperties")  # those who inherit from it have more
            heirs = [kind for kind in of_options if issubclass(kind, base) and kind is not base]
            found |= {
                one.__name__: _inheriting(found[one.__name__], base.__name__, found[base.__name__]) for one in heirs
            }
        for heir in self._parts.keys() & found.keys():
            part = self._parts[heir]
            found[heir] = _inheriting(found[heir], part, self._sections["schemas"][part])
        return {name: _untitled(schema) for name, schema in (_definitions(others) | found).items()}

    def _options(self, schema: Json) -> Json:
        """Return the schema of options, with the words that each may have, and shared ones, as components of their own.

        They have no defaults: a generated client would send each, as if it had been asked for.
        """
        properties = {}
        for name, described in schema.get("properties", {}).items():
            title = "".join(part.capitalize() for part in name.split("_"))
            default = described.pop("default", None)
            if default and not isinstance(default, dict | list):
                described["description"] = f"{described.get('description', '')} (default: {default})".lstrip()
            if described.pop("shared", False):
                properties[name] = self.named("schemas", f"{title}Option", described)
                continue
            for choice in (described, *described.get("anyOf", [])):
                if "enum" in choice:
                    values = {"type": choice.pop("type"), "enum": choice.pop("enum")}
                    choice |= self.named("schemas", f"{title}Option", values)
            properties[name] = described
        return {**schema, "properties": properties} if properties else schema


COMPONENTS = Components(GenerateOptions, TranscribeOptions)
"""Those of this service."""


def reference(section: str, name: str) -> Json:
    """Return a reference to a component."""
    return {"$ref": PLACE.format(section=section, name=name)}


def in_json(kind: type[BaseModel]) -> Json:
    """Return the content of a body in JSON that a class describes."""
    return {JSON: {"schema": COMPONENTS.schema(kind)}}


def any_of(*kinds: type[BaseModel]) -> Json:
    """Return the schema of a value that one of some classes describes."""
    return {"anyOf": [COMPONENTS.schema(kind) for kind in kinds]}


OF_EVERY_PROTOCOL = {
    401: "no API key, or one that is not known, where keys are needed",
    403: "a key without the scope",
    408: "the body did not arrive in time",
    500: "the service failed; its log says why",
}


def refusals(kind: type[BaseModel], said: Mapping[int, str], media_type: str = JSON) -> dict[int | str, Json]:
    """Return the refusals of a protocol, each a component: by status, what is said of it, and OF_EVERY_PROTOCOL."""
    content = {media_type: {"schema": COMPONENTS.schema(kind)}}
    return {
        status: COMPONENTS.named(
            "responses",
            f"{kind.__name__.removesuffix('Error')}{status}",
            {"description": description, "content": content},
        )
        for status, description in sorted({**OF_EVERY_PROTOCOL, **said}.items())
    }


def _definitions(kinds: Iterable[type[BaseModel]]) -> dict[str, Json]:
    wanted: list[Any] = [(kind, "validation", TypeAdapter(kind)) for kind in kinds]
    template = PLACE.format(section="schemas", name="{model}")
    _, found = TypeAdapter.json_schemas(wanted, ref_template=template, schema_generator=_Schemas)
    definitions: dict[str, Json] = found.get("$defs", {})
    return definitions


def _inheriting(schema: Json, base: str, inherited: Json) -> Json:
    """Return the schema of options with those that are a base's in the component of the base, which has that name."""
    options = inherited["properties"]
    own = {name: one for name, one in schema["properties"].items() if options.get(name) != one}
    rest: Json = {"type": "object", "properties": own}
    if required := [name for name in schema.get("required", ()) if name in own]:
        rest["required"] = required
    parts = [reference("schemas", base), rest]
    return {"description": schema["description"], "allOf": parts, "unevaluatedProperties": False}


def _untitled(schema: Json) -> Json:
    """Return a schema without its title, which only repeats its name."""
    return {name: value for name, value in schema.items() if name != "title"}


def _references(value: object) -> Iterable[tuple[str, str]]:
    """Yield the section and name of all components that a part of the document refers to."""
    if isinstance(value, dict):
        for name, one in value.items():
            if name == "$ref" and (place := re.fullmatch(r"#/components/(\w+)/(\w+)", one)):
                yield place[1], place[2]
            else:
                yield from _references(one)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)
