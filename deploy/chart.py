"""Write the Helm chart k8s/chart from the overlays and components: `make chart` (needs kubectl or kustomize).

Each switch of the chart is a rendering by kustomize. A template is the rendering of the CPU overlay, in which a field
that another rendering changes, adds or leaves out stands below the condition of its switch. So there is one truth, and
what is tested of the overlays is what the chart installs; `tests/deploy/test_chart.py` compares the two.
"""

import copy
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from os.path import relpath
from pathlib import Path
from typing import Any

import yaml

from deploy.chart_values import (
    EXPRESSIONS,
    INSTANCE,
    KEEP,
    LABEL,
    OWN,
    RELEASE,
    SWITCHES,
    Documents,
    Given,
    Key,
    chart_files,
)

K8S = Path(__file__).parents[1] / "k8s"
TO = K8S / "chart"
ABSENT: Any = object()
NAMING = ("name", "serviceAccountName")
"""Fields that name a resource of ours, where their value is one."""


def render(overlay: str, *components: str) -> Documents:
    """Return what kustomize makes of an overlay, the monitoring and components, by kind and name, but the namespace."""
    with tempfile.TemporaryDirectory() as folder:

        def path(*names: str) -> str:
            return relpath(K8S.joinpath(*names), Path(folder).resolve())

        said = {
            "kind": "Kustomization",
            "resources": [path("overlays", overlay), path("monitoring")],
            "components": [path("components", name) for name in components],
        }
        (Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump(said))
        command = ["kubectl", "kustomize"] if shutil.which("kubectl") else ["kustomize", "build"]
        done = subprocess.run([*command, folder], capture_output=True, text=True, check=True)  # noqa: S603 # our own words
    # the hash of the settings' name is in an annotation of the chart
    found = yaml.safe_load_all(re.sub(r"\b(regard-settings)-[a-z0-9]{10}\b", r"\1", done.stdout))
    return {key(one): one for one in found if one["kind"] != "Namespace"}


def key(document: Mapping[str, Any]) -> Key:
    """Return the kind and the name of a resource."""
    return document["kind"], document["metadata"]["name"]


# A release


def of_release(node: Any, names: set[str]) -> Any:  # noqa: ANN401 # YAML
    """Return a node whose names and namespace are the release's, and which selects the pods of the release alone."""
    if isinstance(node, list):
        return [of_release(one, names) for one in node]
    if not isinstance(node, dict):
        return node
    found: dict[str, Any] = {}
    for name, one in node.items():
        found[name] = of_release(one, names)
        if name in NAMING and isinstance(one, str) and one in names:
            found[name] = Given(f'"{RELEASE}{"" if one == "regard" else "-" + one.removeprefix("regard-")}"')
        elif name == "namespace" and one == "regard":
            found[name] = Given('"{{ .Release.Namespace }}"')
        elif name == LABEL:
            found[INSTANCE] = Given(f'"{RELEASE}"')
    return found


def put(node: Any, path: Sequence[str], value: Any) -> None:  # noqa: ANN401 # YAML
    """Put a value at a path where something is; a part in [] is an item by its name or type, `+name` may be new."""
    first, *rest = path
    if isinstance(node, list):
        items = [one for one in node if isinstance(one, dict) and first[1:-1] in (one.get("name"), one.get("type"))]
        if first.isdigit() and not rest:
            node[int(first)] = value
        elif rest and (found := node[int(first)] if first.isdigit() else next(iter(items), None)) is not None:
            put(found, rest, value)
    elif rest:
        put(node.get(first, {}), rest, value)
    elif first.startswith("+") or first in node:
        node[first.removeprefix("+")] = value


def renderings() -> dict[str, Documents]:
    """Return what the chart is made of: the CPU overlay by "", and the rendering of each switch, of a release."""
    plain = render("cpu")
    found = {"": plain}
    for name, switch in SWITCHES.items():
        rendered = render(switch.overlay, *switch.parts) if (switch.parts or switch.overlay != "cpu") else plain
        found[name] = copy.deepcopy(rendered)
        switch.change(found[name])
        found[name] = {one: plain[one] if document is KEEP else document for one, document in found[name].items()}
    names = {name for documents in found.values() for _, name in documents}
    for switch_name, documents in found.items():
        found[switch_name] = {one: of_release(document, names) for one, document in documents.items()}
        for where, path, value in EXPRESSIONS:
            if where in found[switch_name]:
                put(found[switch_name][where], path.split("/"), value)
    return found


# Templates


def entry(mark: str, node: Any, variants: Mapping[str, Any], indent: int) -> Iterator[str]:  # noqa: ANN401 # YAML
    """Yield the lines of a node below its mark: `name:`, `-`, or nothing for a document.

    `variants` are what it is with each switch; ABSENT where it is not there.
    """
    changed = {switch: one for switch, one in variants.items() if one is not node and one != node}
    gone = [switch for switch, one in changed.items() if one is ABSENT]
    others = {switch: one for switch, one in changed.items() if one is not ABSENT}
    if node is ABSENT:
        yield from chain(mark, others, iter(()), indent)
        return
    if gone:
        yield f"{{{{- if not ({either(gone)}) }}}}"
    if all(mergeable(node, one) for one in others.values()):
        yield from whole(mark, node, others, indent)
    else:
        yield from chain(mark, others, whole(mark, node, {}, indent), indent)
    if gone:
        yield "{{- end }}"


def mergeable(node: Any, other: Any) -> bool:  # noqa: ANN401 # YAML
    """Return whether two nodes can be written field by field: mappings, or lists of items with names."""
    both = (node, other)
    return all(isinstance(one, dict) for one in both) or all(
        isinstance(one, list) and one and all(isinstance(item, dict) and "name" in item for item in one) for one in both
    )


def chain(mark: str, others: Mapping[str, Any], last: Iterator[str], indent: int) -> Iterator[str]:
    """Yield what a node is by the first switch that is on; `last` without any."""
    written = {switch: "\n".join(whole(mark, one, {}, indent)) for switch, one in others.items()}
    rest = [*last]
    word = "if"
    for text in dict.fromkeys(written[switch] for switch in SWITCHES if switch in written):
        yield f"{{{{- {word} {either([switch for switch in SWITCHES if written.get(switch) == text])} }}}}"
        yield text
        word = "else if"
    if rest and written:
        yield "{{- else }}"
    yield from rest
    if written:
        yield "{{- end }}"


def either(switches: Sequence[str]) -> str:
    """Return the condition that one of some switches is on."""
    conditions = [SWITCHES[switch].when for switch in switches]
    return conditions[0] if len(conditions) == 1 else f"or {' '.join(f'({one})' for one in conditions)}"


def whole(mark: str, node: Any, variants: Mapping[str, Any], indent: int) -> Iterator[str]:  # noqa: ANN401 # YAML
    """Yield a node that is there, and which each switch changes field by field."""
    pad = " " * indent
    inner = indent + 2 if mark else indent
    if isinstance(node, Given):
        yield f"{pad}{mark} {node.text.replace('INDENT', str(inner))}"
    elif isinstance(node, dict) and node:
        names = dict.fromkeys(name for one in (node, *variants.values()) for name in one)
        fields = (
            line
            for name in names
            for line in entry(f"{name}:", node.get(name, ABSENT), by(variants, name), inner)
        )  # fmt: skip
        yield from below(mark, [*fields], indent)
    elif isinstance(node, list) and node:
        yield f"{pad}{mark}"
        if variants:
            items = {one["name"]: one for one in node}
            variants = {switch: {one["name"]: one for one in other} for switch, other in variants.items()}
            for name in dict.fromkeys(name for one in (items, *variants.values()) for name in one):
                yield from entry("-", items.get(name, ABSENT), by(variants, name), inner)
        else:
            for item in node:
                yield from entry("-", item, {}, inner)
    elif isinstance(node, str) and "\n" in node:
        yield f"{pad}{mark} |" + ("" if node.endswith("\n") else "-")
        yield from (f"{' ' * inner}{escaped(line)}" if line else "" for line in node.removesuffix("\n").split("\n"))
    else:
        yield f"{pad}{mark} {escaped(json.dumps(node, ensure_ascii=False))}"


def by(variants: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Return a field of each variant; ABSENT where it has none."""
    return {switch: one.get(name, ABSENT) for switch, one in variants.items()}


def below(mark: str, lines: list[str], indent: int) -> Iterator[str]:
    """Yield lines below a mark. The first of an item stands beside its dash, unless it is a condition."""
    if mark == "-" and not lines[0].startswith("{{-"):
        lines[0] = f"{' ' * indent}- {lines[0].lstrip()}"
    elif mark:
        yield f"{' ' * indent}{mark}"
    yield from lines


def escaped(text: str) -> str:
    """Return a text in which the braces of Prometheus and Grafana are none of the template's."""
    return text.replace("{{", '{{ "{{" }}')


def template(where: Key, found: Mapping[str, Documents]) -> str:
    """Return the template of a resource, below a condition if it is not there with every switch."""
    there = {switch: documents.get(where, ABSENT) for switch, documents in found.items()}
    text = "\n".join(entry("", there.pop(""), there, 0))
    return f"{{{{- if {OWN[where]} }}}}\n{text}\n{{{{- end }}}}\n" if where in OWN else f"{text}\n"


def write(to: Path = TO) -> None:
    """Write the chart."""
    found = renderings()
    shutil.rmtree(to, ignore_errors=True)
    (to / "templates").mkdir(parents=True)
    for kind, name in dict.fromkeys(where for documents in found.values() for where in documents):
        file = "-".join((kind, *name.split("-")[name.startswith("regard-") :])).lower()
        (to / f"templates/{file}.yaml").write_text(template((kind, name), found))
    for name, text in chart_files(render("cpu"), render("cpu", "keda")).items():
        (to / name).write_text(text)


if __name__ == "__main__":
    write()
