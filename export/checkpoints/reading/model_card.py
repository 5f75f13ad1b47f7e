"""Read the examples of a model card: the texts of `widget` in the front matter of README.md. Its prose is not read."""

from typing import Any

import yaml
from huggingface_hub.repocard import REGEX_YAML_BLOCK

from export.checkpoints.reading.checkpoint import Checkpoint

CARD = "README.md"
MAX_CARD_BYTES = 1 << 20
MOST_ENTRIES = 100
LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Reads YAML without its types: no number of any base, no merge of keys, nothing of Python; all scalars are strings."""
NOTHING = ("", "~", "null", "Null", "NULL")
"""How YAML writes that there is no value."""


def read_widget(checkpoint: Checkpoint) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return the texts of the card's examples, one or two each, and why others are left out.

    A card is what somebody wrote for people, so nothing that is wrong with it ends an export.
    """
    if not checkpoint.has(CARD):
        return [], []
    file = checkpoint.folder / CARD
    try:
        if (size := file.stat().st_size) > MAX_CARD_BYTES:
            return [], [f"is not read: at most {MAX_CARD_BYTES} bytes, given {size}"]
        front = REGEX_YAML_BLOCK.search(file.read_text(encoding="utf-8-sig"))
        fields: Any = yaml.load(front[2], LOADER) if front else {}  # noqa: S506 # it makes strings, lists, dicts
        entries = (fields or {}).get("widget") or []
        entries = [] if entries in NOTHING else entries
    except Exception as error:  # whatever a parser of YAML raises
        return [], [f"is not read: {type(error).__name__}"]
    if not isinstance(entries, list):
        return [], ["is not read: widget must be a list"]
    texts, faults = [], []
    for entry in entries[:MOST_ENTRIES]:
        found, fault = _texts(entry)
        texts += found
        faults += [fault] if fault else []
    return texts, faults


def _texts(entry: object) -> tuple[list[tuple[str, ...]], str | None]:
    """Return the examples of an entry, or why it has none."""
    if isinstance(entry, dict):
        text, pair = entry.get("text"), entry.get("text_pair")
        if isinstance(text, str) and text not in NOTHING:
            return [(text, pair) if isinstance(pair, str) and pair not in NOTHING else (text,)], None
        first, others = entry.get("source_sentence"), entry.get("sentences")
        if isinstance(first, str) and isinstance(others, list):
            return [(first, other) for other in others[:MOST_ENTRIES] if isinstance(other, str)], None
        if "src" in entry:
            return [], "example left out: src is an address, which is not fetched; see --example"
    return [], "example left out: must have a text"
