"""A small Whisper, exported and served: what a client gets is what the reference library writes."""

import base64
import io
import wave

import numpy as np
import pytest
import transformers

from tests.samples.http_requests import results
from tests.samples.in_process import in_process

pytestmark = pytest.mark.families
transformers.logging.set_verbosity_error()
RATE = 16_000
PLAIN = {
    "temperature": 0,
    "compression_ratio_threshold": None,
    "logprob_threshold": None,
    "no_speech_threshold": None,
    "condition_on_previous_text": False,
}
"""What the reference library does where it is asked for nothing."""


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    from tests.samples.whisper import save_whisper

    folder = tmp_path_factory.mktemp("whisper")
    return {"several": save_whisper(folder / "several"), "english": save_whisper(folder / "english", ())}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    from tests.samples.exports import once
    from tests.samples.whisper import export_whispers

    with in_process(once("whispers", export_whispers)) as client:
        yield client


def sound(seconds, seed=0):
    """Noise whose colour changes ten times a second."""
    draw = np.random.default_rng(seed)
    pieces = []
    for _ in range(round(seconds * 10)):
        noise = draw.normal(size=RATE // 10)
        pieces.append(np.convolve(noise, draw.normal(size=9), "same") * draw.uniform(0.02, 0.06))
    return np.clip(np.concatenate(pieces), -1, 1).astype(np.float32)


def written(samples):
    """A WAV file of 16 bits, and the samples that it holds."""
    whole = np.round(samples * 32768).clip(-32768, 32767).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes(whole.tobytes())
    return file.getvalue(), (whole / 32768).astype(np.float32)


class Reference:
    """The reference library, of one checkpoint."""

    def __init__(self, folder):
        self.model = transformers.WhisperForConditionalGeneration.from_pretrained(folder).eval()
        self.features = transformers.WhisperFeatureExtractor.from_pretrained(folder)
        self.tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))

    def write(self, samples, **options):
        long = len(samples) > self.features.n_samples
        more = {"truncation": False, "padding": "longest", "return_attention_mask": True} if long else {}
        given = self.features(samples, sampling_rate=RATE, return_tensors="pt", **more)
        if long:
            options |= {"return_timestamps": True, "attention_mask": given.attention_mask}
        return self.model.generate(given.input_features, return_segments=True, **options)

    def text(self, found):
        """The text of segments, without times."""
        first = self.model.generation_config.no_timestamps_token_id + 1
        tokens = [token for one in found["segments"][0] for token in one["tokens"].tolist() if token < first]
        return self.tokenizer.decode(tokens, skip_special_tokens=True)


@pytest.fixture(scope="module")
def references(checkpoints):
    return {name: Reference(folder) for name, folder in checkpoints.items()}


def transcribe(client, name, data, **options):
    body = {"audio": [base64.b64encode(data).decode()], **PLAIN, **options}
    (result,) = results(client.post(f"/v1/models/{name}/transcribe", json=body))
    return result


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["several", "english"])
def test_a_short_sound_is_written_as_by_the_reference_library(client, references, name, seed):
    data, samples = written(sound(0.8, seed))
    theirs = references[name]
    found = transcribe(client, name, data)
    task = {"task": "transcribe"} if name == "several" else {}
    assert found["text"] == theirs.text(theirs.write(samples, **task)).strip()
    assert found["duration"] == pytest.approx(0.8)
    if name == "several":
        language = theirs.model.detect_language(
            theirs.features(samples, sampling_rate=RATE, return_tensors="pt").input_features
        )
        assert theirs.tokenizer.decode(language.tolist()) == f"<|{found['language']}|>"
        for options in ({"language": "fr"}, {"language": "de", "task": "translate"}):
            wanted = theirs.text(theirs.write(samples, **options)).strip()
            assert transcribe(client, name, data, **options)["text"] == wanted


def segments_of(theirs, wanted):
    found = [(round(float(one["start"]), 2), theirs.text({"segments": [[one]]})) for one in wanted["segments"][0]]
    return [one for one in found if one[1].strip()]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "language"), [("several", {"language": "de"}), ("english", {})])
def test_times_are_those_of_the_reference_library(client, references, name, language, seed):
    data, samples = written(sound(1.0, seed))
    wanted = segments_of(references[name], references[name].write(samples, return_timestamps=True, **language))
    found = transcribe(client, name, data, timestamps="segment", **language)
    assert [(one["start"], one["text"]) for one in found["segments"]] == wanted


@pytest.mark.parametrize("conditioned", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_a_long_sound_is_written_window_by_window_as_by_the_reference_library(client, references, seed, conditioned):
    data, samples = written(sound(4.37, seed))
    theirs = references["several"]
    wanted = segments_of(theirs, theirs.write(samples, language="en", condition_on_prev_tokens=conditioned))
    options = {"timestamps": "segment", "language": "en", "condition_on_previous_text": conditioned}
    found = transcribe(client, "several", data, **options)
    assert [(one["start"], one["text"]) for one in found["segments"]] == wanted
