"""Values as JSON has them."""

import json

import numpy as np
from regard.plain import plain


def test_what_numpy_and_python_hold_becomes_what_json_holds():
    given = {"a": np.arange(3), "b": (np.float32(0.5), range(2), "text"), "c": {"d": np.bool_(True)}, "e": None}
    assert json.loads(json.dumps(plain(given))) == {
        "a": [0, 1, 2], "b": [0.5, [0, 1], "text"], "c": {"d": True}, "e": None
    }  # fmt: skip
