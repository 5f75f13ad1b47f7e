"""Write docs/settings.md from the settings themselves: `python docs/settings.py`."""

from pathlib import Path

from service.settings import PREFIX, Settings


def table():
    """Return the document."""
    lines = [
        "# Settings",
        "",
        "The service reads these environment variables once, at start. If one is unknown or has an invalid value, the",
        "service does not start; the message names all such variables.",
        "",
        "| Variable | Default | Bounds | |",
        "|---|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        lines.append(f"| `{PREFIX}{name.upper()}` | `{field.default}` | {bounds(name)} | {field.description} |")
    return "\n".join(lines) + "\n"


def bounds(name):
    """Return the values that a setting may have, nothing where any will do."""
    schema = Settings.model_json_schema()["properties"][name]
    schema |= schema.get("anyOf", ({},))[0]  # of a setting that may be None, the other type
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    if low is None:
        return ", ".join(schema.get("enum", ()))
    more = "from" if "minimum" in schema else "above"
    return f"{more} {low}" + (f" to {schema['maximum']}" if "maximum" in schema else "")


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(table())
