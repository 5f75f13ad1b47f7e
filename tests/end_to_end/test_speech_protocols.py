"""What was said in a sound is the same by every protocol, in the form of each, and as OpenAPI describes it."""

import base64
import json

import pytest

from tests.samples.documented import Documented
from tests.samples.in_process import in_process
from tests.samples.sounds import written_sound

pytestmark = pytest.mark.families
SPEECH, TRANSLATIONS = "/v1/audio/transcriptions", "/v1/audio/translations"
SURE = 1e-6
"""A temperature at which the likeliest token is drawn."""
MOST = 200_000
SHORT, LONG = written_sound(0.8, 0), written_sound(3.3, 2)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    from tests.samples.exports import once
    from tests.samples.whisper import export_whispers

    with in_process(once("whispers", export_whispers), max_audio_bytes=MOST) as client:
        yield client


@pytest.fixture(scope="module")
def documented(client):
    return Documented(client)


@pytest.fixture(scope="module")
def native(client, documented):
    """What our own endpoint answers of a sound."""

    def ask(data, model="several", **options):
        path = f"/v1/models/{model}/transcribe"
        answer = client.post(path, content=data, params={"temperature": SURE, **options}, headers=WAV)
        (result,) = documented.check(answer).json()["results"]
        assert result["text"]
        return result

    return ask


WAV = {"Content-Type": "audio/wav"}


@pytest.fixture(scope="module")
def openai(client, documented):
    """What OpenAI's endpoints answer to a form."""

    def ask(data, path=SPEECH, status=200, model="several", **fields):
        form = {"model": model, "temperature": str(SURE), **fields}
        answer = client.post(path, files={"file": ("a.wav", data, "audio/wav")}, data=form)
        assert answer.status_code == status, answer.text
        return documented.check(answer)

    return ask


def test_openais_forms_of_an_answer_hold_what_our_own_endpoint_answers(native, openai):
    wanted = native(LONG, timestamps="segment")
    found = openai(LONG, response_format="verbose_json").json()
    assert found["text"] == wanted["text"]
    assert (found["task"], found["duration"], found["usage"]["seconds"]) == ("transcribe", 3.3, 4)
    assert found["language"] == {"en": "english", "de": "german", "fr": "french"}[wanted["language"]]
    assert "words" not in found
    ours = [
        (one["start"], one["end"], one["text"], one["log_probability"], one["compression_ratio"], one["temperature"])
        for one in wanted["segments"]
    ]
    names = ("start", "end", "text", "avg_logprob", "compression_ratio", "temperature")
    assert [tuple(one[name] for name in names) for one in found["segments"]] == ours
    assert [one["id"] for one in found["segments"]] == list(range(len(ours)))
    seeks = [one["seek"] for one in found["segments"]]
    assert seeks == sorted(seeks)
    assert seeks[0] == 0 < seeks[-1] < 330
    assert any(one["seek"] < one["start"] * 100 - 1 for one in found["segments"])
    assert all(one["tokens"] and one["seek"] <= one["start"] * 100 + 0.5 for one in found["segments"])
    assert openai(LONG).json() == {"text": wanted["text"], "usage": {"type": "duration", "seconds": 4}}
    said = openai(LONG, response_format="text")
    assert (said.text, said.headers["content-type"]) == (wanted["text"] + "\n", "text/plain; charset=utf-8")
    (first, *_) = wanted["segments"]
    lines = openai(LONG, response_format="srt").text.split("\n")
    assert lines[0] == "1"
    begin, end = (f"00:00:0{int(one)},{round(one % 1 * 1000):03}" for one in (first["start"], first["end"]))
    assert lines[1] == f"{begin} --> {end}"
    titles = openai(LONG, response_format="vtt")
    assert titles.headers["content-type"].startswith("text/vtt")
    assert titles.text.startswith(f"WEBVTT\n\n{lines[1]}\n".replace(",", "."))


def test_openais_words_are_ours_alone_or_beside_segments(native, openai):
    wanted = [
        {name: one[name] for name in ("word", "start", "end")} for one in native(SHORT, timestamps="word")["words"]
    ]
    words = {"response_format": "verbose_json", "timestamp_granularities[]": ["word"]}
    found = openai(SHORT, **words).json()
    assert found["words"] == wanted
    assert "segments" not in found
    both = openai(SHORT, **words | {"timestamp_granularities[]": ["word", "segment"]}).json()
    assert both["words"] == wanted
    assert both["segments"]


def test_a_stream_of_openais_makes_up_the_text(native, openai):
    lines = openai(LONG, stream="true").text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    *deltas, done = (json.loads(one.removeprefix("data: ")) for one in lines[:-2])
    wanted = native(LONG, timestamps="segment")
    assert {one["type"] for one in deltas} == {"transcript.text.delta"}
    assert len(deltas) == len(wanted["segments"]) > 2
    assert "".join(one["delta"] for one in deltas) == done["text"] == wanted["text"]
    assert done["type"] == "transcript.text.done"


def test_openais_languages_have_codes_or_names_and_translations_are_into_english(native, openai):
    wanted = native(SHORT, language="de")["text"]
    assert len({wanted, native(SHORT, language="fr")["text"], native(SHORT, language="en")["text"]}) > 1
    for language in ("de", "German"):
        assert openai(SHORT, language=language).json()["text"] == wanted
        assert openai(SHORT, language=language, response_format="verbose_json").json()["language"] == "german"
    assert openai(SHORT, TRANSLATIONS).json()["text"] == native(SHORT, task="translate")["text"]
    found = openai(SHORT, TRANSLATIONS, response_format="verbose_json").json()
    assert found["task"] == "translate"
    assert openai(SHORT, model="english", response_format="verbose_json").json()["language"] == "english"


@pytest.mark.parametrize(("fields", "status", "parameter", "said"), [
    ({"model": "whisper-1"}, 404, "model", "model: must be one of english, several, given another"),
    ({"response_format": "diarized_json"}, 400, "response_format", "response_format: "),
    ({"stream": "true", "response_format": "srt"}, 400, "stream", "stream: is of response_format json"),
    ({"timestamp_granularities[]": ["word"]}, 400, "timestamp_granularities", "timestamp_granularities: are of"),
    ({"response_format": "verbose_json", "timestamp_granularities[]": ["word", "line"]}, 400,
     "timestamp_granularities", "timestamp_granularities: must be some of segment, word"),
    ({"include[]": ["logprobs"]}, 400, None, "include: is not served; verbose_json has"),
    ({"known_speaker_names[]": ["a"]}, 400, None, "known_speaker_names: is not served; a model that writes"),
    ({"chunking_strategy": "server_vad"}, 400, "chunking_strategy", "chunking_strategy: "),
    ({"language": "xx"}, 400, "language", "language: must be one of en, de, fr, given another"),
    ({"language": ["en", "de"]}, 400, None, "options: each may be given once"),
    ({"temperature": "1.5"}, 400, "temperature", "temperature: "),
    ({"path": TRANSLATIONS, "language": "de"}, 400, None, "options: unknown option"),
    ({"path": TRANSLATIONS, "model": "english"}, 400, None, "task: this model only transcribes"),
    ({"data": b""}, 400, "file", "file: must hold at least one byte, given none"),
    ({"data": b"RIFF"}, 415, None, "file: must be a WAV"),
    ({"data": b"0" * (MOST + 1)}, 413, "file", "file: at most 200000 bytes, given 200001"),
])  # fmt: skip
def test_openais_refusals_name_the_field(openai, fields, status, parameter, said):
    error = openai(**{"data": SHORT, "status": status, **fields}).json()["error"]
    assert error["message"].startswith(said)
    assert error["param"] == parameter


def test_openais_form_has_one_file_a_model_and_nothing_that_is_empty(client, documented, openai):
    assert openai(SHORT, language="", prompt="", chunking_strategy="auto").json()["text"]
    for sent, status, said in (
        ({"files": [("file", ("a.wav", SHORT))] * 2, "data": {"model": "several"}}, 400, "file: must be one, given 2"),
        ({"files": {"file": ("a.wav", SHORT)}}, 400, "model: must be the name"),
        ({"files": {"audio": ("a.wav", SHORT)}, "data": {"model": "several"}}, 400, "form: files must be in the field"),
        ({"json": {"model": "several"}}, 415, "Content-Type: must be multipart/form-data"),
    ):
        answer = documented.check(client.post(SPEECH, **sent))
        assert (answer.status_code, answer.json()["error"]["message"][: len(said)]) == (status, said)


def test_attention_can_be_asked_for_later_whatever_the_protocol(client, documented, openai):
    answer = openai(SHORT)
    seen = documented.check(client.get(f"/v1/attention/{answer.headers['x-request-id']}?method=raw&kind=cross"))
    (shape,) = (one["shape"] for one in seen.json()["results"][0]["attention"]["maps"])
    assert shape[-1] == 50


def test_hugging_faces_pipeline_answers_text_and_chunks(client, documented, native):
    encoded = base64.b64encode(SHORT).decode()

    def ask(inputs=encoded, status=200, **parameters):
        body = {"inputs": inputs, "parameters": parameters}
        answer = documented.check(client.post("/v1/models/several", json=body))
        assert answer.status_code == status, answer.text
        return answer.json()

    sure = {"generate_kwargs": {"temperature": SURE, "language": "german"}}
    whole = native(SHORT, language="de")
    assert ask(**sure) == {"text": whole["text"]}
    assert ask([encoded, encoded], **sure) == [{"text": whole["text"]}] * 2
    timed = native(SHORT, language="de", timestamps="segment")
    chunks = [{"text": one["text"], "timestamp": [one["start"], one["end"]]} for one in timed["segments"]]
    assert ask(**sure, return_timestamps=True) == {"text": timed["text"], "chunks": chunks}
    words = native(SHORT, language="de", timestamps="word")["words"]
    found = ask(**sure, return_timestamps="word")["chunks"]
    assert [{"word": one["text"].strip(), "timestamp": one["timestamp"]} for one in found] == [
        {"word": one["word"], "timestamp": [one["start"], one["end"]]} for one in words
    ]
    raw = documented.check(client.post("/v1/models/several", content=SHORT))
    assert raw.json().keys() == {"text"}
    for parameters, said in (
        ({"return_timestamps": "char"}, 'return_timestamps: must be true, false or "word"'),
        ({"generate_kwargs": {"top_k": 3}}, "top_k: is not served"),
        ({"generate_kwargs": {"forced_decoder_ids": []}}, "parameters: this model's task is"),
        ({"chunk_length_s": 10}, "chunk_length_s: must be 0 or 30; windows are"),
    ):
        assert ask(status=422, **parameters)["error"].startswith(said)


def test_the_open_inference_protocol_takes_sounds_and_answers_tensors(client, native):
    metadata = client.get("/v2/models/several").json()
    assert metadata["inputs"] == [{"name": "audio", "datatype": "BYTES", "shape": [-1, 1]}]
    assert [(one["name"], one["datatype"]) for one in metadata["outputs"]] == [
        ("text", "BYTES"), ("language", "BYTES"), ("duration", "FP32"),
    ]  # fmt: skip
    whole = native(SHORT)
    data = [base64.b64encode(SHORT).decode()] * 2
    body = {"inputs": [{"name": "audio", "datatype": "BYTES", "shape": [2], "data": data}]}
    answer = client.post("/v2/models/several/infer", json={**body, "parameters": {"temperature": SURE}})
    assert answer.status_code == 200, answer.text
    found = {one["name"]: one["data"] for one in answer.json()["outputs"]}
    assert found["text"] == [whole["text"]] * 2
    assert found["language"] == [whole["language"]] * 2
    assert found["duration"] == pytest.approx([0.8, 0.8])
    length = {"Inference-Header-Content-Length": "0"}
    raw = client.post("/v2/models/several/infer", content=SHORT, headers=length)
    assert raw.status_code == 200, raw.text


def test_what_our_own_endpoint_and_models_say_is_described(client, documented, native):
    found = native(LONG, timestamps="word")
    assert found["words"]
    lines = documented.check(
        client.post("/v1/models/several/transcribe?stream=true&timestamps=word", content=LONG, headers=WAV)
    )
    assert lines.text.startswith("event: segment\n")
    for path in ("transcribe?attention=raw", "attention?method=integrated&steps=2", "attention?language=english"):
        documented.check(client.post(f"/v1/models/several/{path}", content=SHORT, headers=WAV))
    several, english = (documented.check(client.get(f"/v1/models/{name}")).json() for name in ("several", "english"))
    assert several["speech"] == {
        "languages": ["en", "de", "fr"], "tasks": ["transcribe", "translate"],
        "timestamps": ["none", "word", "segment"],
    }  # fmt: skip
    assert english["speech"] == several["speech"] | {"languages": [], "tasks": ["transcribe"]}
    assert several["inputs"] == {"rate": 16_000, "seconds": 1, "step": 0.02}
    limits = several["limits"]
    assert (limits["inputs"], limits["audio_bytes"], limits["audio_seconds"]) == (8, MOST, 600)
    assert limits["max_new_tokens"] == 64


def test_models_whose_frames_write_characters_answer_in_the_same_forms(families):
    data = written_sound(1.0, 3)
    encoded = base64.b64encode(data).decode()
    with in_process(families("wav2vec2").parent) as client:
        documented = Documented(client)
        model = families("wav2vec2").name

        def ask(status=200, **fields):
            form = {"model": model, **fields}
            answer = documented.check(client.post(SPEECH, files={"file": ("a.wav", data)}, data=form))
            assert answer.status_code == status, answer.text
            return answer.json()

        path = f"/v1/models/{model}"
        native = documented.check(client.post(f"{path}/transcribe?timestamps=word", content=data, headers=WAV))
        (wanted,) = native.json()["results"]
        assert wanted["words"]
        assert ask()["text"] == wanted["text"]
        found = ask(response_format="verbose_json", **{"timestamp_granularities[]": ["word", "segment"]})
        assert [one["word"] for one in found["words"]] == [one["word"] for one in wanted["words"]]
        assert [one["text"] for one in found["segments"]] == [one["text"] for one in wanted["segments"]]
        for fields in ({"language": "en"}, {"prompt": "names"}, {"temperature": "0.5"}, {"stream": "true"}):
            assert ask(400, **fields)["error"]["message"].startswith("options: unknown option")
        answer = documented.check(client.post(path, json={"inputs": encoded, "return_timestamps": "word"}))
        assert answer.json()["text"] == wanted["text"]
        assert len(answer.json()["chunks"]) == len(wanted["words"])
        described = documented.check(client.get(path)).json()
        assert "speech" not in described
