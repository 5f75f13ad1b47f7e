"""What an export would make, in words: its graphs and methods, its size, and what making it would take."""

from pathlib import Path

from export.checks.trials import Extent
from export.cost import file_bytes, format_time, memory_bytes, seconds
from export.plan import Precision, Source


def describe(source: Source, target: Path, precision: Precision, extent: Extent) -> str:
    """Return lines that say what the export of a source would make at `target`, and what that would take."""
    methods = dict.fromkeys(method for kind in source.attention for method in kind.methods)
    takes = []
    if image := source.image:
        takes.append(f"images of {image.height}x{image.width} pixels")
    if text := source.text:
        takes.append(f"texts of at most {text.max_tokens} tokens")
    if sound := source.sound:
        takes.append(f"sounds of at most {sound.seconds:.4g} s at {sound.rate} Hz")
    if graph := source.graph:
        takes.append(f"graphs of at most {graph.nodes} nodes and {graph.edges} edges")
    duration = format_time(seconds(source, extent))
    lines = {
        "model": f"{source.family} for {source.task}, in {precision}",
        "takes": " and ".join(takes),
        "graphs": ", ".join(plan.role for plan in source.plans),
        "methods": ", ".join(methods),
        "files": f"about {file_bytes(source, precision) / 1e6:.0f} MB",
        "export": f"about {memory_bytes(source, precision, extent) / 1e9:.1f} GB of memory, {duration}",
        "would go": f"to {target}" + (", and replace what is there" if target.exists() else ""),
    }
    return "\n".join([f"{source.name}:", *(f"  {name:<9} {value}" for name, value in lines.items())])
