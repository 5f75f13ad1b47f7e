"""Components of the OpenAPI document."""

from typing import Literal

import pytest
from pydantic import Field

from service.api.openapi.components import NULL, Components, Part, without_null
from service.options.base import Options


class Inner(Part):
    """A part of an answer."""

    known: int | None
    more: str | None = Field(None, description="sometimes")


class Outer(Part):
    """An answer."""

    inner: Inner | None = None
    rows: list[int] | str | None = None
    nothing: None = None


class Asked(Options):
    """What is asked."""

    colour: Literal["red", "blue"] = Field("red", description="of the sky")
    width: int | None = Field(None, ge=1)


def schemas(*kinds):
    components = Components()
    return components.used_by([components.schema(kind) for kind in kinds])["schemas"]


def test_what_may_be_absent_is_not_required_and_never_null():
    found = schemas(Outer)
    assert found.keys() == {"Outer", "Inner"}
    assert "required" not in found["Outer"]
    assert found["Outer"]["properties"] == {
        "inner": {"$ref": "#/components/schemas/Inner"},
        "rows": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "string"}]},
        "nothing": NULL,
    }
    assert found["Inner"]["required"] == ["known"]
    assert found["Inner"]["properties"]["known"] == {"anyOf": [{"type": "integer"}, NULL]}
    assert found["Inner"]["properties"]["more"] == {"type": "string", "description": "sometimes"}


def test_options_say_their_defaults_in_words_and_their_choices_are_components():
    found = schemas(Asked)
    assert found["ColourOption"] == {"type": "string", "enum": ["red", "blue"]}
    assert found["Asked"]["properties"] == {
        "colour": {"$ref": "#/components/schemas/ColourOption", "description": "of the sky (default: red)"},
        "width": {"anyOf": [{"type": "integer", "minimum": 1}, NULL]},
    }
    assert found["Asked"]["additionalProperties"] is False


def test_a_name_means_one_thing():
    components = Components()
    components.schema(Asked)
    with pytest.raises(ValueError, match="Asked must be one class"):
        components.schema(type("Asked", (Options,), {}))
    components.named("parameters", "a", {"in": "query"})
    assert components.named("parameters", "a", {"in": "query"}) == {"$ref": "#/components/parameters/a"}
    with pytest.raises(ValueError, match="a must be described once"):
        components.named("parameters", "a", {"in": "path"})


def test_only_what_is_referred_to_is_in_the_document():
    components = Components()
    components.schema(Outer)
    asked = components.schema(Asked)
    assert components.used_by([asked])["schemas"].keys() == {"Asked", "ColourOption"}


def test_a_schema_that_is_null_alone_stays():
    assert without_null({"anyOf": [NULL]}) == {"anyOf": [NULL]}
