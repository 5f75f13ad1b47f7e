"""A small Whisper, exported and served: what a client gets is what the reference library writes."""

import base64
import io
import wave

import numpy as np
import pytest
import torch
import transformers

from service.explanations import ctc
from tests.samples.http_requests import results
from tests.samples.in_process import in_process

pytestmark = pytest.mark.families
transformers.logging.set_verbosity_error()
RATE = 16_000
WAV = {"Content-Type": "audio/wav"}
PLAIN = {
    "temperature": 0,
    "compression_ratio_threshold": None,
    "logprob_threshold": None,
    "no_speech_threshold": None,
    "condition_on_previous_text": False,
}
"""What the reference library does where it is asked for nothing."""


@pytest.fixture(scope="module")
def whispers(tmp_path_factory):
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
def references(whispers):
    return {name: Reference(folder) for name, folder in whispers.items()}


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


def test_words_say_how_much_of_them_was_heard(client):
    data, _ = written(sound(0.9, 2))
    found = transcribe(client, "english", data, timestamps="word", attention={"method": "libra"})
    (first, *_) = found["attention"]["maps"]
    shares = [one["parts"]["source"]["share"] for one in first["targets"]]
    assert found["words"]
    for word in found["words"]:
        assert min(shares) - 1e-4 <= word["heard"] <= max(shares) + 1e-4
    assert "heard" not in transcribe(client, "english", data, timestamps="word")["words"][0]


@pytest.fixture(scope="module")
def frames(families, tmp_path_factory):
    """What serves a model whose frames write characters, and one that classifies spectrograms."""
    folder = tmp_path_factory.mktemp("frames")
    for name in ("wav2vec2", "ast"):
        (folder / name).symlink_to(families(name))
    with in_process(folder) as client:
        yield client


@pytest.mark.parametrize("seed", range(3))
def test_frames_write_what_the_reference_library_s_do_and_words_are_explained(frames, seed):
    from tests.samples.checkpoints import checkpoint_of

    data, samples = written(sound(0.9 + seed / 10, seed))
    model = transformers.Wav2Vec2ForCTC.from_pretrained(checkpoint_of("wav2vec2")).eval()
    exact = samples.astype(np.float64)
    values = (exact - exact.mean()) / np.sqrt(exact.var() + 1e-7)
    with torch.no_grad():
        logits = model.double()(torch.tensor(values)[None]).logits[0].numpy()
    described = frames.get("/v1/models/wav2vec2").json()
    wanted = ctc.read(logits, described["labels"], described["inputs"]["step"])
    path = "/v1/models/wav2vec2/"
    (found,) = results(frames.post(f"{path}transcribe?timestamps=word", content=data, headers=WAV))
    assert found["text"] == wanted.text
    assert [one["word"] for one in found["words"]] == [one.text for one in wanted.words]
    assert [one["start"] for one in found["words"]] == [round(one.start, 2) for one in wanted.words]
    for method in ("libra", "relevance", "raw"):
        asked = frames.post(f"{path}attention?method={method}", content=data, headers=WAV)
        (result,) = results(asked)
        assert result["attention"]["tokens"]["frame"]["count"] == len(logits)
    last = len(wanted.words) - 1
    (result,) = results(frames.post(f"{path}attention?method=libra&target={last}", content=data, headers=WAV))
    (target,) = {one["target"]["label"] for one in result["attention"]["maps"]}
    assert target == wanted.words[last].text
    refused = frames.post(f"{path}attention?method=libra&target={last + 1}", content=data, headers=WAV)
    assert (refused.status_code, refused.json()["detail"].split(",")[0]) == (422, "target: must be a word")
    picture = frames.post(f"{path}attention?method=libra&format=png", content=data, headers=WAV)
    assert picture.content.startswith(b"\x89PNG")


def test_a_spectrogram_is_classified_as_by_the_reference_library(frames):
    from tests.samples.checkpoints import checkpoint_of

    folder = checkpoint_of("ast")
    described = frames.get("/v1/models/ast").json()
    seconds = described["inputs"]["seconds"]
    data, samples = written(sound(1.0, 5)[: int(seconds * RATE * 0.8)])
    model = transformers.ASTForAudioClassification.from_pretrained(folder).eval()
    features = transformers.ASTFeatureExtractor.from_pretrained(folder)(samples, RATE, return_tensors="pt")
    with torch.no_grad():
        chances = model(features.input_values).logits.softmax(-1)[0].numpy()
    (found,) = results(frames.post("/v1/models/ast/classify", content=data, headers=WAV))
    for label in found["labels"]:
        assert label["probability"] == pytest.approx(float(chances[label["index"]]), abs=1e-3)
    (result,) = results(frames.post("/v1/models/ast/attention?method=rollout", content=data, headers=WAV))
    assert result["attention"]["tokens"]["grid"]["rows"] > 1
    long = written(sound(1.0, 5))[0]
    refused = frames.post("/v1/models/ast/classify", content=long, headers=WAV)
    assert refused.status_code == 413
