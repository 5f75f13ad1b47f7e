"""What is measured on models that hear: words, where each was heard, and what a linear layer reads off states."""

from collections.abc import Callable

from model.catalogue import bundled
from train.recipes import spoken_digits, tera

Report = Callable[[str], None]


def listening_table(report: Report) -> dict:
    """Measure what a Speech-Transformer hears, and when."""
    report("spoken-digits")
    alone, breath = spoken_digits.measured(bundled("spoken-digits"))
    mean, *heads = spoken_digits.within(alone).tolist()
    return {
        "alone": {"words": alone.words, "wrong": alone.wrong},
        "breath": {"words": breath.words, "wrong": breath.wrong},
        "timed": len(alone.times),
        "within": {"last layer": mean, "heads": heads},
    }


def probe_table(report: Report) -> dict:
    """Fit linear probes to what a TERA, mel means and random weights make of words."""
    report("spoken-tera")
    return {
        name: {"digit": digit, "voice": voice} for name, (digit, voice) in tera.measured(bundled("spoken-tera")).items()
    }
