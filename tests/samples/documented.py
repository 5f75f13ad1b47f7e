"""Holds answers against the OpenAPI document of the service that gave them."""

import functools
import json
import re

from jsonschema import Draft202012Validator

REFERENCE = "#/components/"


class Documented:
    """The OpenAPI document of a service, read strictly: no answer has a field that its schema does not name."""

    def __init__(self, client):
        self.document = client.get("/openapi.json").json()
        self._components = _strict(self.document["components"])
        self.seen = set()
        """The operations and statuses that were held, such as `("classify", 200)`."""

    def check(self, answer):
        """Hold an answer against what the document says of its operation, status and type; return it."""
        operation = self.operation(answer.request.method, answer.request.url.path)
        described = self.resolved(operation["responses"][str(answer.status_code)])
        content = described.get("content", {})
        media_type = answer.headers.get("content-type", "").partition(";")[0]
        assert media_type in content or (not content and not answer.content), f"{media_type!r}: {list(content)}"
        validator = self._validator(json.dumps(content.get(media_type, {}).get("schema", {})))
        if media_type.endswith("json"):
            _hold(validator, answer.json())
        elif media_type == "text/event-stream":
            for line in answer.text.splitlines():
                if line.startswith("data: {"):
                    _hold(validator, json.loads(line.removeprefix("data: ")))
        self.seen.add((operation["operationId"], answer.status_code))
        return answer

    def operation(self, method, path):
        """Return what the document says of a method and a path."""
        matching = [
            template
            for template in self.document["paths"]
            if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template)), path)
        ]
        return self.document["paths"][min(matching, key=lambda template: template.count("{"))][method.lower()]

    def resolved(self, described):
        """Return what a reference refers to, or what is none as it is."""
        while place := described.get("$ref", "").removeprefix(REFERENCE):
            section, name = place.split("/")
            described = self.document["components"][section][name]
        return described

    @functools.cache  # noqa: B019 # few, and gone with the tests
    def _validator(self, schema):
        return Draft202012Validator({**_strict(json.loads(schema)), "components": self._components})


def _hold(validator, found):
    faults = [f"{fault.json_path}: {fault.message[:300]}" for fault in _leaves(validator.iter_errors(found))]
    assert not faults, faults[:10]


def _leaves(faults):
    """Yield the faults behind those that only say that no alternative fits."""
    for fault in faults:
        if fault.context:
            yield from _leaves(fault.context)
        yield fault


def _strict(described):
    """Return schemas in which no object has a member that is not named."""
    if isinstance(described, list):
        return [_strict(one) for one in described]
    if not isinstance(described, dict):
        return described
    found = {name: _strict(one) for name, one in described.items()}
    is_schema = isinstance(described.get("properties"), dict) and described.get("type") == "object"
    return {"additionalProperties": False, **found} if is_schema else found
