"""Differences are recorded."""

import numpy as np
import pytest

from export.checks.comparison import MOST_TURNED, Ledger
from export.errors import ExportError


def test_a_ledger_keeps_the_worst():
    ledger = Ledger()
    for difference in (1e-6, 3e-6, 2e-6):
        ledger.compare("it", np.array([difference]), np.array([0.0]), "here")
    assert ledger.worst == {"it": pytest.approx(3e-6)}


def test_in_8_bits_a_sharp_head_may_turn_on_drawn_tokens_but_no_graph_may_answer_something_else():
    rng = np.random.default_rng(0)
    maps = np.eye(8)[rng.integers(0, 8, (4, 64))]
    turned = maps.copy()
    turned[0, 0] = np.roll(turned[0, 0], 1)
    for precision, taken in (("int8", True), ("fp32", False), ("int4", False), ("fp16", False)):
        ledger = Ledger(precision)
        if taken:
            ledger.compare("maps", turned, maps, "here", maps=True)
            assert ledger.worst["maps"] == 1
            continue
        with pytest.raises(ExportError, match="must agree within"):
            ledger.compare("maps", turned, maps, "here", maps=True)
    for other in (np.roll(maps, 1, 0), np.zeros_like(maps), maps * np.nan, maps * (2 + MOST_TURNED)):
        with pytest.raises(ExportError, match=r"maps: must agree within 0\.5"):
            Ledger("int8").compare("maps", other, maps, "here", maps=True)
