"""Options of transcription as a model has them. What is answered is in tests/end_to_end/test_speech_protocols.py."""

import pytest

from service.api.tasks.transcription import fitted
from service.errors import Unacceptable
from service.options.transcription import RecognizeOptions, TranscribeOptions
from service.repository.models.recognizer import Recognizer
from service.repository.models.transcriber import Transcriber

WRITES, HEARS = object.__new__(Transcriber), object.__new__(Recognizer)


def test_a_model_whose_frames_write_characters_has_few_options():
    asked = TranscribeOptions(timestamps="word", priority="batch")
    assert fitted(WRITES, asked) is asked
    assert fitted(HEARS, asked) == RecognizeOptions(timestamps="word", priority="batch")


@pytest.mark.parametrize("asked", [{"language": "en"}, {"task": "translate"}, {"temperature": 0.0}, {"stream": True}])
def test_what_it_cannot_do_is_refused(asked):
    assert fitted(WRITES, TranscribeOptions(**asked))
    with pytest.raises(Unacceptable, match=r"^options: unknown option.*; known are priority, timestamps"):
        fitted(HEARS, TranscribeOptions(**asked))
