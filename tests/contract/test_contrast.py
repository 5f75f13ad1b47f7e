"""What a manifest says of two models that are compared."""

import pytest
from pydantic import ValidationError

from contract.contrast import Contrast

GIVEN = {"partner": "clip-text", "pair": "0" * 64, "scale": 100.0}


def test_a_contrast_is_by_softmax_and_without_a_bias_unless_it_says_more():
    found = Contrast(**GIVEN)
    assert (found.bias, found.scores) == (0, "softmax")
    assert Contrast.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize(
    "wrong", [{"scale": 0.0}, {"pair": "0"}, {"partner": "../clip"}, {"scores": "identity"}, {"temperature": 1.0}]
)
def test_what_a_contrast_cannot_say_is_refused(wrong):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        Contrast(**GIVEN | wrong)
