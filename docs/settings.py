"""Write docs/settings.md from the settings themselves: `python docs/settings.py`."""

from pathlib import Path

from service.settings import PREFIX, Settings


def table():
    """Return the document."""
    lines = [
        "# Settings",
        "",
        "Environment variables, read once at start. An unknown or ill-set one stops the start; all are named at once.",
        "",
        "| Variable | Default | Bounds | |",
        "|---|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        schema = Settings.model_json_schema()["properties"][name]
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        bounds = ", ".join(schema["enum"]) if "enum" in schema else ""
        if low is not None:
            more = "from" if "minimum" in schema else "above"
            bounds = f"{more} {low}" + (f" to {schema['maximum']}" if "maximum" in schema else "")
        lines.append(f"| `{PREFIX}{name.upper()}` | `{field.default}` | {bounds} | {field.description} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(table())
