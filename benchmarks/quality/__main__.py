"""`python -m benchmarks.quality [PART ...]`: measure what is missing, or the named parts anew; write docs/quality.md.

What was measured is kept in docs/quality.json, so that the page can be written anew without measuring. The trained
models are kept in build/quality/.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.quality import (
    cost,
    images,
    judge,
    labels,
    matches,
    objects,
    page,
    photos,
    ranks,
    salient,
    sounds,
    tags,
    texts,
)
from export.bundled import SOURCES
from export.errors import CheckpointError
from export.plan import Source
from model.catalogue import BUNDLED

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "docs" / "quality.json"
PAGE = ROOT / "docs" / "quality.md"
TRAINED = ROOT / "build" / "quality"
SEEDS = (0, 1, 2)
GLYPHS, SPOTS, LABELLED = 400, 300, 150
"""Held-out pictures."""


def report(line: str) -> None:
    """Say what is being measured."""
    print(line, file=sys.stderr, flush=True)


def aligned(name: str) -> dict:
    """Measure a bundled model of dates."""
    source = SOURCES[name]()
    return texts.alignment_table(source, texts.asked_of(name, source), report)


def packaged(name: str, measure: Callable[[Source, Callable[[str], None]], dict]) -> dict | None:
    """Measure a model whose weights come in a package, if that is installed."""
    try:
        source = SOURCES[name]()
    except CheckpointError as error:
        report(f"left out: {error}")
        return None
    return measure(source, report)


def judged() -> dict | None:
    """Let Quantus judge the first seed of the first setting, if it is installed."""
    if fault := judge.why_not():
        report(f"left out: the judge is Quantus, of the extra quality: {fault}")
        return None
    return images.judged(TRAINED, GLYPHS, report)


PARTS: dict[str, Callable[[], dict | None]] = {
    "glyphs": lambda: images.glyph_tables(SEEDS, TRAINED, GLYPHS, report),
    "resting": lambda: images.resting_tables(SEEDS, TRAINED, GLYPHS, report),
    "spots": lambda: images.spot_tables(SEEDS, SPOTS, report),
    "digits": lambda: images.digit_table(SOURCES["digits"](), report),
    "captions": lambda: images.caption_table(report),
    "objects": lambda: objects.object_table(SOURCES["scenes-detr"](), SPOTS, report),
    "labels": lambda: labels.label_tables(TRAINED, LABELLED, report),
    "saliency": lambda: salient.salient_table(SPOTS, LABELLED, report),
    "reversal": lambda: texts.reversal_table(SEEDS, report),
    "dates": lambda: aligned("dates"),
    "dates-clm": lambda: aligned("dates-clm"),
    "dates-mlm": lambda: aligned("dates-mlm"),
    "dates-tags": lambda: tags.tag_table(SOURCES["dates-tags"](), report),
    "dates-rank": lambda: ranks.rank_table(SOURCES["dates-rank"](), report),
    "minilm": lambda: packaged("minilm", texts.sentence_table),
    "spoken-digits": lambda: sounds.listening_table(report),
    "spoken-tera": lambda: sounds.probe_table(report),
    "photos": lambda: packaged("photos", photos.photo_table),
    "matches": lambda: packaged("photos", matches.match_table),
    "judge": judged,
    "cost": lambda: cost.cost_table(SOURCES["digits"](), SOURCES["dates"](), report),
}


def main() -> int:
    """Measure, keep, and write the page and the recommendations."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"measure anew: {', '.join(PARTS)}")
    wanted = parser.parse_args().parts
    if strangers := set(wanted) - PARTS.keys():
        parser.error(f"PART: must be one of {', '.join(PARTS)}, given {', '.join(sorted(strangers))}")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name, measure in PARTS.items():
        results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        if name in wanted or (not wanted and name not in results):
            found = measure()
            if found is not None:
                results[name] = found
                ordered = {part: results[part] for part in PARTS if part in results}
                RESULTS.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    results = json.loads(RESULTS.read_text())
    PAGE.write_text(page.written(results), encoding="utf-8")
    for name, best in page.recommendations(results).items():
        (BUNDLED / name).mkdir(exist_ok=True)
        (BUNDLED / name / "best.json").write_text(best.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
