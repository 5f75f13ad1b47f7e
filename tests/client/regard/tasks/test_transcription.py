import json

import anyio
import numpy as np
import pytest
import regard
from regard.asynchronous import AsyncModel
from regard.service import Model

from tests.client.conftest import answer, described, told

FIGURES = {"log_probability": -0.2, "no_speech_probability": None, "compression_ratio": 1.5, "temperature": 0.0}
SEGMENT = {"start": 0.1, "end": 1.2, "text": " Salt & pepper.", **FIGURES}
WORDS = [
    {"word": "Salt", "start": 0.1, "end": 0.4, "probability": 0.99},
    {"word": "&", "start": 0.4, "end": 0.5, "probability": 0.5},
    {"word": "pepper.", "start": 0.5, "end": 1.2, "probability": 0.25},
]
PLAIN = {"text": "Salt & pepper.", "language": "en", "duration": 1.5}
MODEL = described(
    task="automatic-speech-recognition",
    endpoints=["transcribe", "attention"],
    inputs={"rate": 16_000, "seconds": 30.0, "step": 0.02},
)
SOUND = np.zeros(3)


def asked(call, *results):
    """Return what a call makes of results, and the body of the request that it sent."""
    content = json.dumps({"id": "i", "results": list(results)}).encode()
    with told(answer(200, content)) as (url, sent), regard.Service(url) as service:
        found = call(Model(service._transport, MODEL))
    return found, json.loads(sent[0].partition(b"\r\n\r\n")[2])


def test_words_and_segments_are_read_and_an_array_is_sent_with_its_rate():
    timed = {**PLAIN, "words": WORDS, "segments": [SEGMENT]}
    found, body = asked(lambda model: model.transcribe(SOUND, 8000, timestamps="word", language="en"), timed)
    (sound,) = body.pop("audio")
    assert sound.startswith("UklGR")
    assert body == {"timestamps": "word", "language": "en"}
    assert (found.text, found.language, found.duration) == ("Salt & pepper.", "en", 1.5)
    assert found.words[2] == regard.SpokenWord("pepper.", 0.5, 1.2, 0.25)
    assert found.segments == [regard.Segment(0.1, 1.2, " Salt & pepper.", [], *FIGURES.values())]
    assert found.srt() == "1\n00:00:00,100 --> 00:00:01,200\nSalt & pepper.\n\n"
    assert found.vtt(1).count("-->") == 3


def test_segments_are_subtitles_where_words_have_no_times():
    found, _ = asked(lambda model: model.transcribe(b"RIFF", timestamps="segment"), {**PLAIN, "segments": [SEGMENT]})
    assert found.vtt() == "WEBVTT\n\n00:00:00.100 --> 00:00:01.200\nSalt &amp; pepper.\n\n"
    silent, _ = asked(lambda model: model(b"RIFF", timestamps="segment"), {**PLAIN, "segments": []})
    assert silent.srt() == ""


def test_without_times_there_are_no_subtitles():
    found, _ = asked(lambda model: model.transcribe(b"RIFF"), PLAIN)
    with pytest.raises(regard.BadInput, match='srt: needs times; ask with timestamps="word"'):
        found.srt()


def test_a_notebook_shows_words_with_their_times_and_plays_the_sound(tmp_path):
    timed = {**PLAIN, "words": WORDS, "segments": [SEGMENT]}
    found, _ = asked(lambda model: model.transcribe((SOUND, 8000)), timed)
    shown = found._repr_mimebundle_()
    assert shown["text/plain"] == "m: Salt & pepper."
    assert '<audio controls src="data:audio/wav;base64,UklGR' in shown["text/html"]
    assert 'title="0.40–0.50 s, 50%">&amp;</span>' in shown["text/html"]  # noqa: RUF001 # as a span is written
    tints = [f"{one['probability'] / 2:.2f}" for one in WORDS]
    assert [f"0.{part[:2]}" for part in shown["text/html"].split("255,0.")[1:]] == tints
    found.save(tmp_path / "said.html")
    assert shown["text/html"] in (tmp_path / "said.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (SOUND, "must be an array with its rate"),
        ((SOUND, "8000"), "rate: of an array must be its samples a second"),
        (b"", "must be a path, an address, bytes, a file, or an array"),
        (3, "given int"),
        ("nowhere.wav", "'nowhere.wav' cannot be read: No such file"),
    ],
)
def test_what_is_no_sound_is_refused_before_it_is_sent(given, said):
    with regard.Service("http://127.0.0.1:9") as service, pytest.raises(regard.BadInput, match=said):
        Model(service._transport, MODEL).transcribe(given)


@pytest.mark.parametrize(("given", "rate"), [("talk.wav", None), ("talk.wav", 8000), (SOUND, 8000), (b"RIFF", None)])
def test_one_sound_is_no_batch(given, rate):
    with pytest.raises(regard.BadInput, match="inputs: must be a list, given one"):
        asked(lambda model: model.transcribe_batch(given, rate), PLAIN)


def test_a_batch_names_the_sound_that_cannot_be_sent():
    found, body = asked(lambda model: model.transcribe_batch([SOUND, SOUND], 8000), PLAIN, PLAIN)
    assert (len(found), len(body["audio"])) == (2, 2)
    with pytest.raises(regard.BadInput, match=r"^inputs\[1\]: sound: "):
        asked(lambda model: model.transcribe_batch([b"RIFF", SOUND]), PLAIN)


EVENTS = b"".join(
    f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
    for name, data in (("segment", {**SEGMENT, "words": WORDS}), ("done", {"id": "i", "results": [PLAIN]}))
)


def test_segments_come_as_they_are_heard():
    stream = answer(200, EVENTS, "text/event-stream")
    with (
        told(stream) as (url, sent),
        regard.Service(url) as service,
        Model(service._transport, MODEL).transcribe(b"RIFF", stream=True) as heard,
    ):
        (segment,) = heard
    assert b'"stream": true' in sent[0] or b'"stream":true' in sent[0]
    assert (segment.text, [one.word for one in segment.words]) == (" Salt & pepper.", ["Salt", "&", "pepper."])
    assert heard.result.text == "Salt & pepper."


def test_the_twin_transcribes_too():
    async def both(url):
        async with regard.AsyncService(url) as service:
            model = AsyncModel(service._transport, MODEL)
            whole = await model.transcribe(SOUND, 8000)
            async with model.transcribe(b"RIFF", stream=True) as heard:
                return whole.text, [one.text async for one in heard], heard.result.text

    whole = answer(200, json.dumps({"id": "i", "results": [PLAIN]}).encode())
    with told(whole, answer(200, EVENTS, "text/event-stream")) as (url, _):
        assert anyio.run(both, url) == ("Salt & pepper.", [" Salt & pepper."], "Salt & pepper.")


def test_attention_of_a_sound_knows_the_seconds_of_its_frames():
    row = {"name": "c", "kind": "cross", "layer": 1, "heads": "mean", "normalized": True, "shape": [1, 1, 3]}
    looked = {"method": "raw", "maps": [{**row, "values": [[[0.2, 0.7, 0.1]]]}], "tokens": {"target": []}}
    found, body = asked(lambda model: model.transcribe(b"RIFF", attention="raw"), {**PLAIN, "attention": looked})
    assert body["attention"]["method"] == "raw"
    assert found.attention.maps[0].values[0, 0].argmax() * found.attention.step == 0.02
    content = json.dumps({"id": "i", "results": [{"attention": looked}]}).encode()
    with told(answer(200, content)) as (url, _), regard.Service(url) as service:
        assert Model(service._transport, MODEL).look(found, "raw").step == 0.02
    assert found.asked.model.sort == "sound"


@pytest.mark.parametrize(("options", "same"), [({}, False), ({"seed": 0}, True), ({"temperature": 0}, True)])
def test_what_may_be_drawn_at_random_is_not_asked_for_again(options, same):
    found, _ = asked(lambda model: model.transcribe(b"RIFF", **options), PLAIN)
    assert found.asked.is_repeatable is same
