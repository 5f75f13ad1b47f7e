"""docs/quality.md and the recommendations, made of what was measured."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from benchmarks.quality.methods import METHODS, REFERENCES
from benchmarks.quality.template import TEMPLATE
from contract.manifest import Recommendation

NOT_MEASURED = "not measured"
WORDS = {
    "raw": "`raw`, last layer",
    "norm": "`norm`, last layer",
    **{name: name for name in (*REFERENCES, "brightness")},
}
DATES = ("dates", "dates-clm", "dates-mlm")


def written(results: Mapping[str, Any]) -> str:
    """Return the page. A part that was not measured is said to be missing."""
    tables: dict[str, Callable[[Any], str]] = {
        "glyphs": lambda found: located(found, 3),
        "resting": resting,
        "spots": spots,
        "digits": curves,
        "captions": captions,
        "objects": objects,
        "labels": labels,
        "reversal": rows_of_reversal,
        "dates-tags": tags,
        "dates-rank": ranks,
        "minilm": sentences,
        "spoken-digits": listening,
        "spoken-tera": probes,
        "photos": photographs,
        "matches": found_again,
        "judge": judge,
        "cost": cost,
    }
    made = {
        name.replace("-", "_"): table(results[name]) if name in results else NOT_MEASURED
        for name, table in tables.items()
    }
    made["saliency"] = salient(results) if SALIENT.keys() <= results.keys() else NOT_MEASURED
    made["random_weights"] = random_weights(results)
    made["dates"] = alignment({name: results[name] for name in DATES if name in results})
    made["layers"] = layers(results["dates"]["layers"]) if "dates" in results else NOT_MEASURED
    made["best"] = best(recommendations(results))
    made["asked"] = asked(results["glyphs"]) if "glyphs" in results else NOT_MEASURED
    made |= {
        f"short_{name.replace('-', '_')}": line(results[name]) if name in results else NOT_MEASURED
        for name, line in SHORT.items()
    }
    return TEMPLATE.format(**made)


def named(method: str) -> str:
    """Return a method as tables write it."""
    return WORDS.get(method, f"`{method}`")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def ordered(found: Iterable[str]) -> list[str]:
    """Return methods in the order of all tables."""
    known = (*METHODS, *REFERENCES, "brightness")
    return sorted(found, key=known.index)


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Return the mean, and the least and the most of several seeds."""
    mean = statistics.mean(values)
    if len(values) == 1 or f"{min(values):.{digits}f}" == f"{max(values):.{digits}f}":
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def _by_seed(setting: Mapping[str, Any], method: str, measure: str) -> list[float]:
    return [seed["methods"][method][measure] for seed in setting.values()]


# Known truth.


def located(found: Mapping[str, Any], digits: int) -> str:
    """Return three tables: pointing, mass and precision, a setting each column."""
    made = []
    for measure in ("pointing", "mass", "precision"):
        rows = [
            [named(method), *(spread(_by_seed(setting, method, measure), digits) for setting in found.values())]
            for method in ordered(_methods(found))
        ]
        made.append(table([f"*{measure}*", *found], rows))
    return "\n\n".join(made)


def _methods(found: Mapping[str, Any]) -> Iterable[str]:
    return next(iter(next(iter(found.values())).values()))["methods"]


def resting(found: Mapping[str, Any]) -> str:
    """Return pointing and mass of the answers that rest on the glyph, and what is answered without one."""
    head = [f"*{measure}*, {name}" for measure in ("pointing", "mass") for name in found]
    rows = [
        [
            named(method),
            *(
                spread(_by_seed(setting, method, measure))
                for measure in ("pointing", "mass")
                for setting in found.values()
            ),
        ]
        for method in ordered(_methods(found))
    ]
    counted = (f"{name}: {spread([seed['resting'] for seed in setting.values()])}" for name, setting in found.items())
    granted = (f"{share:.2f} `{name}`" for share, name in (seed["granted"] for seed in found["softmax, one"].values()))
    return (
        f"Without any glyph, the models with a softmax answer, by seed: {', '.join(granted)}. Of the right answers, "
        f"those counted here are: {'; '.join(counted)}.\n\n{table(['', *head], rows)}"
    )


def spots(found: Mapping[str, Any]) -> str:
    """Return the table of spots: pointing alone."""
    rows = [
        [
            named(method),
            *(", ".join(f"{one:.2f}" for one in _by_seed(setting, method, "pointing")) for setting in found.values()),
        ]
        for method in ordered(_methods(found))
    ]
    return table(["pointing, seeds 0, 1, 2", *found], rows)


def asked(found: Mapping[str, Any]) -> str:
    """Return how many pictures are answered rightly, and how many patches are evidence."""
    rows = [
        [
            name,
            spread([seed["right"] for seed in setting.values()]),
            f"{statistics.mean(seed['touched'] for seed in setting.values()):.1f}",
        ]
        for name, setting in found.items()
    ]
    return table(["setting", "pictures answered rightly", "patches that a glyph touches"], rows)


def random_weights(results: Mapping[str, Any]) -> str:
    """Return the rank correlations with models of random weights."""
    columns: dict[str, dict[str, list[float]]] = {}
    for name, setting in results.get("glyphs", {}).items():
        for seed in setting.values():
            for method, values in seed.get("random weights", {}).items():
                columns.setdefault(f"glyphs, {name}", {}).setdefault(method, []).extend(values)
    if "digits" in results:
        columns["`digits`"] = results["digits"]["random weights"]
    if not columns:
        return NOT_MEASURED
    some = [method for method in ordered(next(iter(columns.values()))) if method != "random"]  # it knows of no model
    rows = [
        [
            named(method),
            *(f"{statistics.mean(own[method]):+.2f} ({_least_most(own[method])})" for own in columns.values()),
        ]
        for method in some
    ]
    return table(["", *columns], rows)


def _least_most(values: Sequence[float]) -> str:
    return f"{min(values):+.2f} to {max(values):+.2f}"


# Digits and captions.


def curves(found: Mapping[str, Any]) -> str:
    """Return areas with intervals, and the difference from rollout with its own."""

    def cell(mean: float, half: float, sign: str = "") -> str:
        return f"{mean:{sign}.3f} ± {half:.3f}"

    rows = [
        [
            named(method),
            *(
                text
                for name in ("deletion", "insertion")
                for text in (
                    cell(*own[name]["area"]),
                    "" if method == "rollout" else cell(*own[name]["less rollout"], sign="+"),
                )
            ),
        ]
        for method, own in ((method, found["methods"][method]) for method in ordered(found["methods"]))
    ]
    return table(
        ["", "deletion (lower is better)", "less rollout", "insertion (higher is better)", "less rollout"], rows
    )


def objects(found: Mapping[str, Any]) -> str:
    """Return the table of found objects, with the other layers of raw behind the methods."""
    named_layers = {f"`raw`, {name}": own for name, own in found["layers"].items()}
    of_methods = {named(method): found["methods"][method] for method in ordered(found["methods"])}
    measures = ("pointing", "mass", "precision")
    rows = [[name, *(f"{own[one]:.3f}" for one in measures)] for name, own in (of_methods | named_layers).items()]
    return table(["", *measures], rows)


def labels(found: Mapping[str, Any]) -> str:
    """Return what is answered rightly, and how well each method points at what a label names."""
    asked = [
        [name, *(f"{own[one]:.3f}" for one in ("right", "over swapped")), str(own["labels"]), f"{own['patches']:.1f}"]
        for name, own in found.items()
    ]
    head = ["trained", "both labels first", "label above that with swapped colours", "labels asked for", "patches each"]
    columns = [(name, score, one) for name in found for score, one in LABEL_COLUMNS]
    rows = [
        [named(method), *(_label_cell(found[name]["methods"][method][score], one) for name, score, one in columns)]
        for method in ordered(found["with"]["methods"])
    ]
    pointing = table(["", *(f"{name}: *{one}*, {score}" for name, score, one in columns)], rows)
    return f"{table(head, asked)}\n\n{pointing}"


SALIENT: dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "objects": lambda found: {"scenes-detr": found["methods"]},
    "labels": lambda found: {"scenes-clip": {method: own["alone"] for method, own in found["with"]["methods"].items()}},
    "saliency": dict,
}
"""The parts that saliency is compared in, and what methods are worth on each of their models."""


def salient(results: Mapping[str, Any]) -> str:
    """Return how well saliency points, and each method on the same pictures."""
    columns: dict[str, dict[str, Any]] = {}
    for part, of_models in SALIENT.items():
        for name, own in of_models(results[part]).items():
            columns.setdefault(name, {}).update(own)

    def cell(own: Mapping[str, Any] | None) -> str:
        return "" if own is None else f"{own['pointing']:.3f}; {own['mass']:.2f}"

    some = [method for method in (*METHODS, "random") if any(method in own for own in columns.values())]
    rows = [[named(method), *(cell(own.get(method)) for own in columns.values())] for method in ("saliency", *some)]
    head = [f"`{name}` ({own['saliency']['count']})" for name, own in columns.items()]
    return table(["*pointing*; *mass*", *head], rows)


LABEL_COLUMNS = (("alone", "pointing"), ("against the other", "pointing"), ("against the other", "mass"))


def _label_cell(own: Mapping[str, Any], measure: str) -> str:
    low, high = own["interval"]
    return f"{own[measure]:.3f}" + (f" ({low:.3f} to {high:.3f})" if measure == "pointing" else "")


def captions(found: Mapping[str, Any]) -> str:
    """Return the table of captions."""
    rows = [
        [f"`{name}`", f"{own['right'] / own['scenes']:.3f}", f"{own['on'] / own['words']:.3f}", str(own["words"])]
        for name, own in found.items()
    ]
    return table(["", "captions right", "`raw`: words whose hottest cell touches their digit", "words"], rows)


# Sequences and sentences.


def alignment(found: Mapping[str, Any]) -> str:
    """Return the alignment errors, and the mass on the right place."""
    if not found:
        return NOT_MEASURED
    some = ordered({method for own in found.values() for method in own["methods"]})

    def cell(own: Mapping[str, Any] | None) -> str:
        if own is None:
            return "has none"
        low, high = own["interval"]
        return f"{own['error']:.3f} ({low:.3f} to {high:.3f}); {own['mass']:.2f}"

    rows = [[named(method), *(cell(own["methods"].get(method)) for own in found.values())] for method in some]
    head = [f"`{name}` ({own['tokens']} characters)" for name, own in found.items()]
    return table(["error (95 %); mass", *head], rows)


def layers(found: Mapping[str, Sequence[float]]) -> str:
    """Return errors by layer."""
    count = len(next(iter(found.values())))
    rows = [
        [f"`{name.split(',')[0]}`,{name.split(',')[1]}", *(f"{error:.2f}" for error in own)]
        for name, own in found.items()
    ]
    return table(["`dates`: method, row", *(f"layer {layer}" for layer in range(count))], rows)


def rows_of_reversal(found: Mapping[str, Any]) -> str:
    """Return errors of a reversed sequence: in the best layer for raw and norm."""
    seeds = list(found.values())
    rows = [
        [
            f"`{name.split(',')[0]}`,{name.split(',')[1]}, best layer",
            ", ".join(f"{min(seed['layers'][name]):.2f}" for seed in seeds),
        ]
        for name in seeds[0]["layers"]
    ]
    rows += [
        [named(method), ", ".join(f"{seed['methods'][method]['error']:.2f}" for seed in seeds)]
        for method in ordered(seeds[0]["methods"])
        if method not in ("raw", "norm")
    ]
    return table(["alignment error of a reversal", "seeds 0, 1, 2"], rows)


def tags(found: Mapping[str, Any]) -> str:
    """Return how often the hottest character is of the part, and the mass on it."""
    rows = []
    for method in ordered(found["methods"]):
        own = found["methods"][method]
        low, high = own["interval"]
        rows.append([named(method), f"{own['pointing']:.3f} ({low:.3f} to {high:.3f})", f"{own['mass']:.3f}"])
    return table([f"`dates-tags` ({found['parts']} parts)", "pointing (95 %)", "mass"], rows)


def ranks(found: Mapping[str, Any]) -> str:
    """Return how often the part that differs is what speaks most against the wrong reading."""
    rows = []
    for method in ordered(found["methods"]):
        own = found["methods"][method]
        low, high = own["text"]["interval"]
        text = f"{own['text']['all']:.3f} ({low:.3f} to {high:.3f})"
        shares = (own[of]["all"] for of in ("query", "difference"))
        names = (own[of]["named"] for of in ("text", "query", "difference"))
        rows.append([named(method), text, *(f"{share:.3f}" for share in (*shares, *names))])
    first = f"`dates-rank` ({found['questions']} dates, {found['named']} with a month's name)"
    columns = ["wrong reading (95 %)", "written date", "difference"]
    return table([first, *columns, *(f"month's name: {one.split(' (')[0]}" for one in columns)], rows)


def sentences(found: Mapping[str, Any]) -> str:
    """Return in how many pairs the noun is the hottest."""
    rows = [
        [
            named(method),
            f"{own['hottest']:.2f} ({own['interval'][0]:.2f} to {own['interval'][1]:.2f})",
            f"{own['hottest word']:.2f}",
            f"{own['mass']:.2f}",
        ]
        for method, own in ((method, found["methods"][method]) for method in ordered(found["methods"]))
    ]
    return table(["", "the noun is the hottest token (95 %)", "the hottest of the words", "mass on the noun"], rows)


# The judge, and the cost.


def judge(found: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Return the measures of Quantus, and the largest difference from ours."""
    names = list(next(iter(found.values())))
    rows = [[named(method), *(f"{found[method][name][0]:.3f}" for name in names)] for method in ordered(found)]
    apart = max(abs(one - other) for own in found.values() for one, other in own.values())
    return f"{table(['', *(f'`{name}`' for name in names)], rows)}\n\nThe largest difference from ours is {apart:.6f}."


def cost(found: Mapping[str, Mapping[str, float]]) -> str:
    """Return the cost of each method as a multiple of a prediction."""
    rows = [
        [named(method), *(f"{own[method]:.1f}" if method in own else "has none" for own in found.values())]
        for method in METHODS
    ]
    return table(["", *(f"`{name}`" for name in found)], rows)


# In short.


def short_glyphs(found: Mapping[str, Any]) -> str:
    """Return how well libra points in the worst setting, beside relevance and rollout."""
    means = {
        method: [statistics.mean(_by_seed(setting, method, "pointing")) for setting in found.values()]
        for method in ("libra", "relevance", "rollout")
    }
    own, *others = (f"{min(values):.2f} to {max(values):.2f}" for values in means.values())
    return f"its hottest patch is evidence in {own} (`relevance`: {others[0]}; `rollout`: {others[1]})"


def short_digits(found: Mapping[str, Any]) -> str:
    """Return the deletion areas."""
    areas = {method: found["methods"][method]["deletion"]["area"][0] for method in ("integrated", "libra", "rollout")}
    return "deletion on `digits`: " + ", ".join(f"`{method}` {area:.3f}" for method, area in areas.items())


def short_dates(found: Mapping[str, Any]) -> str:
    """Return the alignment errors."""
    errors = {method: found["methods"][method]["error"] for method in ("libra", "relevance", "integrated")}
    return "wrong on `dates`: " + ", ".join(f"`{method}` {error:.2f}" for method, error in errors.items())


def short_minilm(found: Mapping[str, Any]) -> str:
    """Return how often the shared noun is the hottest token."""
    shares = {method: found["methods"][method]["hottest"] for method in ("libra", "integrated", "relevance", "rollout")}
    return "the shared noun is the hottest token: " + ", ".join(
        f"`{name}` {share:.2f}" for name, share in shares.items()
    )


def short_captions(found: Mapping[str, Any]) -> str:
    """Return how often the hottest cell is on the word's digit."""
    return (
        ", ".join(f"`{name}` {own['on'] / own['words']:.2f}" for name, own in found.items())
        + " of words on their digit"
    )


def short_objects(found: Mapping[str, Any]) -> str:
    """Return how often the hottest cell touches the box of the object."""
    shares = {method: found["methods"][method]["pointing"] for method in ("libra", "relevance", "integrated", "raw")}
    return "the hottest cell is on the object: " + ", ".join(f"`{name}` {share:.2f}" for name, share in shares.items())


def short_labels(found: Mapping[str, Any]) -> str:
    """Return how often the hottest patch is on the digit that a label names, of two."""
    own = found["with"]["methods"]
    alone, against = (
        ", ".join(f"`{name}` {own[name][score]['pointing']:.2f}" for name in names)
        for score, names in (("alone", ("relevance", "libra")), ("against the other", ("libra", "integrated")))
    )
    return f"the hottest patch is on the digit that is named, of two: {alone}; against the other: {against}"


def short_listening(found: Mapping[str, Any]) -> str:
    """Return how often the centre of a row is within its word."""
    share = found["within"]["last layer"]
    return f"`spoken-digits`: the centre of {share:.2f} of rows is within the word"


SHORT: dict[str, Callable[[Any], str]] = {
    "glyphs": short_glyphs,
    "digits": short_digits,
    "dates": short_dates,
    "minilm": short_minilm,
    "captions": short_captions,
    "objects": short_objects,
    "labels": short_labels,
    "spoken-digits": short_listening,
}


def photographs(found: Mapping[str, Any]) -> str:
    """Return what is seen of each map in each style."""
    rows = []
    for style, maps in found["styles"].items():
        for name, one in maps.items():
            numbers = (one["changed"], one["mass"], one["least"], one["order"])
            rows.append([name, style, *(f"{number:.2f}" for number in numbers)])
    head = ["map", "drawn", "pixels seen", "of the map", "of the least seen", "in its order"]
    return table(head, sorted(rows, key=lambda row: row[0]))


def found_again(found: Mapping[str, Any]) -> str:
    """Return how often a patch is found again in each changed copy, after each layer."""
    layers = found["layers"]
    changes = next(iter(layers.values()))
    rows = [[change, *(f"{one[change]:.2f}" for one in layers.values())] for change in changes]
    return table(["copy", *(f"after layer {layer}" for layer in layers)], rows)


# Sounds.


def listening(found: Mapping[str, Any]) -> str:
    """Return the tables of words that are heard, and of where."""
    errors = [
        [sort, f"{own['wrong'] / own['words']:.4f}", str(own["words"])]
        for sort, own in (("each digit alone", found["alone"]), ("in one breath", found["breath"]))
    ]
    within = [["last layer, mean of its heads", f"{found['within']['last layer']:.3f}"]]
    heads = found["within"]["heads"]
    within += [
        [f"layer {layer}, heads 0 to {len(heads) // 2 - 1}", ", ".join(f"{share:.3f}" for share in own)]
        for layer, own in enumerate((heads[: len(heads) // 2], heads[len(heads) // 2 :]))
    ]
    head = ["`raw`, cross-attention", f"rows of {found['timed']} words whose centre is within the word"]
    return f"{table(['said', 'word error', 'words'], errors)}\n\n{table(head, within)}"


def probes(found: Mapping[str, Any]) -> str:
    """Return what linear layers find."""
    rows = [[name, f"{own['digit']:.3f}", f"{own['voice']:.3f}"] for name, own in found.items()]
    return table(["a linear layer is given", "digits found", "voices found"], rows)


# Recommendations.


def recommendations(results: Mapping[str, Any]) -> dict[str, Recommendation]:
    """Return the method that measured best for each bundled model on which one did, among those that it serves.

    Of methods with the same figure, the one with more mass on the truth.
    """
    found = {}
    if "digits" in results:
        own = {method: results["digits"]["methods"][method]["deletion"]["area"][0] for method in METHODS}
        found["digits"] = _recommended("deletion area, lower is better", own, own)
    for name in DATES:
        if name in results:
            some = {method: one for method, one in results[name]["methods"].items() if method in METHODS}
            errors = {method: one["error"] for method, one in some.items()}
            order = {method: (one["error"], -one["mass"]) for method, one in some.items()}
            found[name] = _recommended("alignment error, lower is better", errors, order)
    if "dates-tags" in results:
        some = {method: one for method, one in results["dates-tags"]["methods"].items() if method in METHODS}
        shares = {method: one["pointing"] for method, one in some.items()}
        order = {method: (-one["pointing"], -one["mass"]) for method, one in some.items()}
        found["dates-tags"] = _recommended(
            "share of parts of which the hottest character is one, higher is better", shares, order
        )
    if "dates-rank" in results:
        some = {method: one for method, one in results["dates-rank"]["methods"].items() if method in METHODS}
        shares = {method: one["text"]["all"] for method, one in some.items()}
        order = {method: (-one["text"]["all"], -one["difference"]["all"]) for method, one in some.items()}
        found["dates-rank"] = _recommended(
            "share of wrong readings whose hottest character is of the part that differs, higher is better",
            shares,
            order,
        )
    if "minilm" in results:
        some = {method: results["minilm"]["methods"][method] for method in METHODS}
        shares = {method: one["hottest"] for method, one in some.items()}
        order = {method: (-one["hottest"], -one["mass"]) for method, one in some.items()}
        found["minilm"] = _recommended("share of nouns that are the hottest token, higher is better", shares, order)
    if "objects" in results:
        some = {method: one for method, one in results["objects"]["methods"].items() if method in METHODS}
        shares = {method: one["pointing"] for method, one in some.items()}
        order = {method: (-one["pointing"], -one["mass"]) for method, one in some.items()}
        found["scenes-detr"] = _recommended(
            "share of objects whose hottest cell is on their box, higher is better", shares, order
        )
    if "labels" in results:
        some = {method: own for method, own in results["labels"]["with"]["methods"].items() if method in METHODS}
        shares = {method: own["alone"]["pointing"] for method, own in some.items()}
        order = {method: (-own["alone"]["pointing"], -own["alone"]["mass"]) for method, own in some.items()}
        found["scenes-clip"] = _recommended(
            "share of labels whose hottest patch is on the digit that is named, higher is better", shares, order
        )
    for name, one in results.get("captions", {}).items():
        share = {"raw": one["on"] / one["words"]}
        found[name] = _recommended(
            "share of words whose hottest cell is on their digit, higher is better", share, share
        )
    return found


def _recommended(measure: str, values: Mapping[str, float], order: Mapping[str, Any]) -> Recommendation:
    rounded = {method: round(value, 4) for method, value in values.items()}
    return Recommendation(method=min(order, key=order.__getitem__), measure=measure, values=rounded)  # type: ignore[arg-type] # names of methods


def best(found: Mapping[str, Recommendation]) -> str:
    """Return the recommendations as a table."""
    rows = [
        [f"`{name}`", f"`{one.method}`", one.measure, f"{one.values[one.method]:.3f}"] for name, one in found.items()
    ]
    return table(["model", "`method=best` is", "by", "its figure"], rows) if rows else NOT_MEASURED
