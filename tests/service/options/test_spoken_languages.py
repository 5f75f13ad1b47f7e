"""The names of languages are those of the reference library, and name what they name there."""

import pytest

from service.errors import Unacceptable
from service.options.base import parse
from service.options.spoken_languages import CODES, NAMES
from service.options.transcription import TranscribeOptions


def test_names_are_those_of_the_reference_library():
    whisper = pytest.importorskip("transformers.models.whisper.tokenization_whisper")
    assert NAMES == whisper.LANGUAGES
    assert CODES.items() <= whisper.TO_LANGUAGE_CODE.items()


@pytest.mark.parametrize("given", ["de", "DE", "german", "German", "<|de|>"])
def test_a_language_is_given_by_its_code_its_name_or_its_token(given):
    for strings in (True, False):
        assert parse(TranscribeOptions, {"language": given}, strings=strings).language == "de"


@pytest.mark.parametrize("given", ["<|xx|>", "ger man", "", 7])
def test_what_is_no_language_is_refused(given):
    with pytest.raises(Unacceptable, match=r"^language: "):
        parse(TranscribeOptions, {"language": given}, strings=False)
