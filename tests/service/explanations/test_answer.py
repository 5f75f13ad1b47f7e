"""Answers with attention: their size is known before, and their numbers are rounded as query_of."""

import numpy as np
import orjson

from service.explanations.answer import AttentionAnswer
from tests.samples.attention_queries import TOKENS, query_of, read


def test_values_are_rounded_to_the_digits_asked_for():
    query = query_of(digits=2)
    (shown,) = AttentionAnswer(query, read(np.full((1, 1, 1, TOKENS), 1 / 3, np.float32), query), axes={}).json()[
        "maps"
    ]
    assert b"0.33," in orjson.dumps(shown["values"], option=orjson.OPT_SERIALIZE_NUMPY)
