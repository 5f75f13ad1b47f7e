"""Many answers in one file: of numpy, of JSON a line, or of Parquet."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import BadInput, NotInstalled
from regard.showing import checked_path

if TYPE_CHECKING:
    from regard.attention import Attention
    from regard.results import Result


def save_many(path: str | Path, answers: Iterable[Result]) -> None:
    """Write answers, with the attention that came with them, into one file by the ending of its name.

    `.jsonl` has a line for each: `model`, `id`, `answer` and `attention` as the service sent them, whose arrays are
    base64. `.npz` has the arrays, `results/0/maps/0` and `results/0/vector`, and all else as JSON in `meta`, as the
    service's own does. `.parquet` has a row for each, with the values and shapes of maps as lists; it needs pyarrow.
    Raises BadInput for another ending and where no file can be written, NotInstalled without pyarrow.
    """
    to = checked_path(path, FORMS)
    try:
        FORMS[to.suffix.lower()](to, answers)
    except OSError as error:
        raise BadInput(f"path: cannot be written: {error.strerror}") from error


def _entry(answer: Result) -> dict[str, Any]:
    return {"model": answer.asked.model.name, "id": answer.id, "answer": answer.json}


def _save_lines(to: Path, answers: Iterable[Result]) -> None:
    with to.open("w", encoding="utf-8") as file:
        for answer in answers:
            attention = answer.attention.json if answer.attention else None
            file.write(json.dumps({**_entry(answer), "attention": attention}, ensure_ascii=False) + "\n")


def _save_arrays(to: Path, answers: Iterable[Result]) -> None:
    arrays: dict[str, Any] = {}
    results = []
    for number, answer in enumerate(answers):
        name = f"results/{number}"
        entry = _entry(answer)
        if (vector := getattr(answer, "vector", None)) is not None:
            arrays[f"{name}/vector"] = vector
            entry["answer"] = {key: value for key, value in answer.json.items() if key != "embedding"}
        if answer.attention:
            entry["attention"] = _without_values(answer.attention)
            arrays |= {f"{name}/maps/{at}": one.values for at, one in enumerate(answer.attention.maps)}
        results.append(entry)
    meta = json.dumps({"results": results}, ensure_ascii=False).encode()
    np.savez_compressed(to, meta=np.frombuffer(meta, np.uint8), **arrays)


def _without_values(attention: Attention) -> dict[str, Any]:
    return {**attention.json, "maps": [one.details for one in attention.maps]}


def _save_rows(to: Path, answers: Iterable[Result]) -> None:
    try:
        pyarrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise NotInstalled(f"save_many: .parquet needs pyarrow; pip install pyarrow ({error})") from error
    rows = [
        {
            "model": answer.asked.model.name,
            "id": answer.id,
            "said": answer.said,
            "answer": json.dumps(answer.json, ensure_ascii=False),
            "method": answer.attention.method if answer.attention else None,
            "maps": [one.name for one in answer.attention.maps] if answer.attention else [],
            "shapes": [list(one.values.shape) for one in answer.attention.maps] if answer.attention else [],
            "values": [one.values.ravel().tolist() for one in answer.attention.maps] if answer.attention else [],
        }
        for answer in answers
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), to)


FORMS: Mapping[str, Callable[[Path, Iterable[Result]], None]] = {
    ".npz": _save_arrays, ".jsonl": _save_lines, ".parquet": _save_rows,
}  # fmt: skip
