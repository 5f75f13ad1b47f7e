"""What the service's JSON says of attention, read."""

import base64
from collections.abc import Sequence
from typing import Literal

import numpy as np

from regard.attention import Attention
from regard.maps import Curve, Diagnosis, Evaluation, Json, Map, SentGraph, Sink, Token
from regard.objects import read_box, read_detected


def read_attention(json: Json, step: float | None = None) -> Attention:
    """Return the attention of one input from the service's JSON; of a sound, `step` is the seconds of a frame.

    Raises KeyError, TypeError or ValueError.
    """
    axes = {axis: found for axis, found in json["tokens"].items() if isinstance(found, list)}
    objects = axes.pop("object", ())
    tokens = {axis: [_token(one) for one in found] for axis, found in axes.items()}
    image, opposite = json.get("image"), json.get("against")
    return Attention(
        method=json["method"],
        maps=[read_map(one) for one in json["maps"]],
        tokens=tokens,
        grid=_grid(json["tokens"]["grid"]) if image else None,
        prefix=json["tokens"]["prefix"] if image else 0,
        size=(image["width"], image["height"]) if image else None,
        orientation=image["orientation"] if image else 1,
        box=read_box(image["box"]) if image else None,
        step=step,
        graph=_graph(json["graph"]) if json.get("graph") else None,
        objects=[read_detected(one) for one in objects],
        diagnostics=[_diagnosis(one) for one in json.get("diagnostics") or ()],
        evaluation=_evaluation(json["evaluation"], json["method"]) if json.get("evaluation") else None,
        against=read_attention({**opposite, "method": json["method"]}) if opposite and "maps" in opposite else None,
        json=json,
    )


def read_map(json: Json) -> Map:
    """Return a map from the service's JSON, whose values are lists or base64."""
    values, shape = json["values"], tuple(json["shape"])
    if isinstance(values, str):
        array = np.frombuffer(base64.b64decode(values), json["dtype"]).reshape(shape)
        if json["dtype"] == "uint8":
            steps = array.astype(np.float64) - json.get("zero", 0)
            array = steps * np.abs(steps) * json["scale"]
    else:
        array = np.array(values).reshape(shape)
    return Map(
        name=json["name"],
        kind=json["kind"],
        layer=json["layer"],
        heads=json["heads"],
        normalized=json["normalized"],
        signed=json.get("signed", False),
        values=array.astype(np.float32),
        target=json.get("target"),
        objects=_objects_of_rows(json),
        targets=json.get("targets", ()),
        grid=_grid(json["grid"]) if json.get("grid") else None,
        details={name: value for name, value in json.items() if name != "values"},
    )


def _graph(json: Json) -> SentGraph:
    edges, places = np.array(json["edges"], np.intp), np.array(json["places"], np.float64)
    return SentGraph(json["directed"], edges.reshape(-1, 3), places.reshape(-1, 2))


def _grid(json: Json) -> tuple[int, int]:
    return json["rows"], json["columns"]


def _objects_of_rows(json: Json) -> Sequence[int]:
    """Return the number of each row's object: of those that are found, or of the one that is explained."""
    explained = (json.get("target") or {}).get("object")
    found: Sequence[int] = json.get("objects", () if explained is None else (explained,))
    return found


def _token(json: Json) -> Token:
    span = json["span"]
    return Token(json["text"], (span[0], span[1]) if span else None, json["special"], json.get("sequence"))


def _diagnosis(json: Json) -> Diagnosis:
    sinks = [Sink(**one) for one in json.get("sinks", ())]
    figures = {name: value for name, value in json.items() if isinstance(value, list) and name != "sinks"}
    heads = {name: np.array(value, np.float64) for name, value in figures.items()}
    return Diagnosis(json["kind"], json["max_entropy"], heads, sinks)


def _evaluation(json: Json, method: str) -> Evaluation:
    """Return the curves of one map beside the random order's, or those of all methods."""
    found = []
    for curve in json.get("curves", ()):
        random = curve["random"]
        found.append(_curve(method, curve["name"], curve))
        found += [_curve("random", curve["name"], one) for one in (random, *random.get("others", ()))]
    for compared in json.get("compare", ()):
        found += [_curve(compared["method"], name, compared[name]) for name in ("deletion", "insertion")]
    return Evaluation(json["measure"], np.array(json["fractions"]), found, json.get("target"))


def _curve(method: str, name: Literal["deletion", "insertion"], json: Json) -> Curve:
    return Curve(method, name, np.array(json["probabilities"]), json["area"])
