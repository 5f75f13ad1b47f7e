"""Differences are recorded."""

import numpy as np
import pytest

from export.checks.comparison import Ledger


def test_a_ledger_keeps_the_worst():
    ledger = Ledger()
    for difference in (1e-6, 3e-6, 2e-6):
        ledger.compare("it", np.array([difference]), np.array([0.0]), "here")
    assert ledger.worst == {"it": pytest.approx(3e-6)}
