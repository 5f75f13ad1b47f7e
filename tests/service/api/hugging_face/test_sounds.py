"""Parameters of automatic-speech-recognition, and what was said as the pipeline of transformers writes it."""

from types import SimpleNamespace

import pytest

from service.api.pipelines.parameters import merged, parse_parameters
from service.api.pipelines.sounds import SPEECH, SpeechRecognitionParameters, recognized
from service.errors import Unacceptable
from service.explanations.spoken_words import Word
from service.options.transcription import TEMPERATURES, TranscribeOptions
from service.repository.models.transcript import Segment, Transcript

MANIFEST = SimpleNamespace(name="talk", task="automatic-speech-recognition")


def asked(**parameters):
    return parse_parameters(SpeechRecognitionParameters, merged(parameters, {}), SPEECH, MANIFEST).asked


@pytest.mark.parametrize(("parameters", "ours"), [
    ({}, {}),
    ({"return_timestamps": False}, {}),
    ({"return_timestamps": True}, {"timestamps": "segment"}),
    ({"return_timestamps": "word"}, {"timestamps": "word"}),
    ({"generate_kwargs": {"language": "<|de|>", "task": "translate"}}, {"language": "de", "task": "translate"}),
    ({"generate_kwargs": {"language": "French"}}, {"language": "fr"}),
    ({"generate_kwargs": {"temperature": list(TEMPERATURES)}}, {}),
    ({"generation_parameters": {"do_sample": False, "num_beams": 2}}, {"temperature": 0.0, "num_beams": 2}),
    ({"do_sample": True}, {"temperature": 1.0}),
    ({"do_sample": True, "temperature": 0.3}, {"temperature": 0.3}),
    ({"condition_on_prev_tokens": False}, {"condition_on_previous_text": False}),
    ({"chunk_length_s": 30, "generate_kwargs": {"use_cache": True}}, {}),
])  # fmt: skip
def test_parameters_ask_for_what_our_own_endpoint_is_asked(parameters, ours):
    found = asked(**parameters)
    assert type(found) is TranscribeOptions
    assert found == TranscribeOptions(**ours)


@pytest.mark.parametrize(("parameters", "said"), [
    ({"return_timestamps": "char"}, 'return_timestamps: must be true, false or "word"'),
    ({"return_timestamps": 1}, 'return_timestamps: must be true, false or "word"'),
    ({"chunk_length_s": 10}, "chunk_length_s: must be 0 or 30; windows are"),
    ({"generate_kwargs": {"top_p": 0.9}}, "top_p: is not served; texts are drawn by temperature alone"),
    ({"generate_kwargs": {"max_new_tokens": 9}}, "max_new_tokens: is not served; the text of a window ends"),
    ({"generate_kwargs": {"prompt_ids": [1]}}, "parameters: this model's task is automatic-speech-recognition"),
    ({"generate_kwargs": {"temperature": [0.0, 0.5]}}, "temperature: "),
    ({"do_sample": True, "temperature": 0}, "do_sample: must be true where"),
    ({"do_sample": False, "temperature": 0.5}, "do_sample: must be true where"),
    ({"attention": "raw"}, "attention: is an option of attention"),
])  # fmt: skip
def test_parameters_that_are_not_honoured_are_refused_by_name(parameters, said):
    with pytest.raises(Unacceptable) as refused:
        asked(**parameters)
    assert refused.value.detail.startswith(said)


def test_chunks_keep_the_spaces_before_them():
    words = (Word(" Hello", 0.0, 0.424, 0.9), Word(" world.", 0.424, 1.2, 0.8))
    whole = Transcript("en", 1.5, (Segment(0.0, 1.2, " Hello world.", (), -0.5, None, 1.0, 0.0, words),), ())
    assert recognized(whole, TranscribeOptions()) == {"text": "Hello world."}
    segments = [{"text": " Hello world.", "timestamp": [0.0, 1.2]}]
    assert recognized(whole, TranscribeOptions(timestamps="segment"))["chunks"] == segments
    assert recognized(whole, TranscribeOptions(timestamps="word"))["chunks"] == [
        {"text": " Hello", "timestamp": [0.0, 0.42]}, {"text": " world.", "timestamp": [0.42, 1.2]},
    ]  # fmt: skip
