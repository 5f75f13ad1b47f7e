"""Sounds on the page: chosen or recorded, what was said word by word, and what each word looked at."""

import functools
import io
import json
import wave

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.page.conftest import canvas_of, drawn, settled, state_of, violations
from tests.samples.in_process import in_process

RATE = 16_000
WORDS = "#answer .heard button"
TIMES = [(0.0, 0.3), (0.3, 0.6), (0.6, 0.8)]
TONE = """() => { navigator.mediaDevices.getUserMedia = async () => {
  const context = new AudioContext()
  const tone = new OscillatorNode(context, { frequency: 1000 })
  const end = context.createMediaStreamDestination()
  tone.connect(end)
  tone.start()
  return end.stream
} }"""
"""A microphone that hears a tone of 1000 Hz."""


ALPHAS = """(canvas) => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, 1)
  return data.filter((_, at) => at % 4 === 3).reduce((all, one) => [...all, one], [])
}"""


@pytest.fixture(scope="module")
def service(needed):
    """A service of a small Whisper of several languages, and one of English."""
    from tests.samples.exports import once
    from tests.samples.whisper import export_whispers

    with in_process(once("whispers", export_whispers)) as client:
        yield client


def wav(samples):
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes((samples * 32767).astype("<i2").tobytes())
    return file.getvalue()


NOISE = {
    "name": "talk.wav",
    "mimeType": "audio/wav",
    "buffer": wav(np.random.default_rng(0).uniform(-0.1, 0.1, int(0.8 * RATE))),
}


def attention_of(client, answer):
    """Return what was looked at for an answer; None of a sound that is too long for it."""
    found = client.get(f"/v1/attention/{answer}", params={"attention": "raw", "kind": "cross", "queries": "all"}).json()
    return found["results"][0]["attention"] if "results" in found else None


def in_words(client, route):
    """Answer as the service does, with the text of its tokens cut into three words: random weights write no words."""
    response = route.fetch()
    found = response.json()
    (result,) = found["results"]
    attention = attention_of(client, found["id"])
    if attention:
        result["text"] = "".join(one["text"] for one in attention["tokens"]["target"] if not one["special"])
    text = result["text"]
    cuts = [0, len(text) // 3, 2 * len(text) // 3, len(text)]
    result["words"] = [
        {"word": text[one:other], "start": start, "end": end, "probability": 0.5}
        for one, other, (start, end) in zip(cuts, cuts[1:], TIMES, strict=False)
    ]
    route.fulfill(response=response, json=found)


@pytest.fixture
def page(visit, service):
    page = visit().at(model="english")
    page.locator("#record").wait_for()
    page.route("**/transcribe?*", functools.partial(in_words, service))
    return page


def rows_of(client, answer, word):
    """Return what the tokens of a word looked at, the mean of their rows: (frames of the sound,)."""
    attention = attention_of(client, answer)
    text, rows = "", []
    for row, token in enumerate(attention["tokens"]["target"]):
        start = len(text)
        if not token["special"]:
            text += token["text"]
            rows.append((start, max(len(text), start + 1), row))  # a part of a character is of the next letter
    begin = text.index(word)
    chosen = [row for start, end, row in rows if end > begin and start < begin + len(word)]
    return np.array(attention["maps"][0]["values"])[0][chosen].mean(0)[:40]


def test_a_sound_is_chosen_its_words_are_heard_and_each_has_its_heat(page, service):
    with page.expect_request("**/transcribe?*") as sent:
        page.locator("#choose-file").set_input_files(NOISE)
    settled(page)
    assert sent.value.post_data_buffer == NOISE["buffer"]
    assert "timestamps=word" in sent.value.url
    page.locator("#spectrogram").wait_for()
    assert page.locator(WORDS).count() == 3
    ground = canvas_of(page.locator("#spectrogram canvas").first)
    assert len(np.unique(ground)) > 50
    assert violations(page) == {}

    first = canvas_of(page.locator("#spectrogram .heat"))
    page.locator("#looks .matrix-cells").click(position={"x": 5, "y": 5})
    assert "row" in state_of(page)
    page.evaluate("document.getElementById('player').playbackRate = 0.1")  # so that the word is heard for seconds
    page.locator(WORDS).nth(1).click()
    expect(page.locator(WORDS).nth(1)).to_have_attribute("aria-current", "true")
    assert state_of(page)["object"] == "1"
    assert "row" not in state_of(page), "the word is seen in place of the token"
    assert 0.3 <= page.evaluate("document.getElementById('player').currentTime") < 0.6
    second = canvas_of(page.locator("#spectrogram .heat"))
    assert not np.array_equal(first, second)
    wanted = rows_of(service, state_of(page)["id"], page.locator(WORDS).nth(1).text_content())
    assert second.shape[:2] == (1, len(wanted))
    assert f"looks most at {wanted.argmax() * 0.02:.2f} s" in page.locator("#spectrogram .readout").inner_text()
    alphas = np.array(page.locator("#spectrogram .heat").evaluate(ALPHAS))
    assert np.diff(alphas[wanted.argsort()]).min() >= 0, "the more was looked at, the less is seen through"
    assert alphas.max() == round(255 * 0.8)

    first_row = np.array(attention_of(service, state_of(page)["id"])["maps"][0]["values"])[0, 0, :40]
    hottest = f"“{first_row.argmax() * 0.02:.2f}\u00a0s”: {first_row.max():.3g}"
    assert hottest in page.locator("#look > .readout").inner_text(), "silence behind the sound keeps its share"

    page.locator("#spectrogram .spectrum").click(position={"x": 2, "y": 20})
    assert page.evaluate("document.getElementById('player').currentTime") < 0.1
    page.evaluate("document.getElementById('player').pause()")
    page.reload()
    settled(page)
    assert page.locator("#spectrogram").count() == 1, "the tab keeps a small sound"


def test_what_a_microphone_hears_is_sent_as_a_wav_of_16_bits(page):
    page.evaluate(TONE)
    page.locator("#record").click()
    page.get_by_text("Recording …").wait_for()
    page.wait_for_timeout(500)
    with page.expect_request("**/transcribe?*") as sent:
        page.locator("#record").click()
    with wave.open(io.BytesIO(sent.value.post_data_buffer)) as file:
        assert (file.getnchannels(), file.getsampwidth()) == (1, 2)
        rate, samples = file.getframerate(), np.frombuffer(file.readframes(file.getnframes()), "<i2")
    assert 0.3 < len(samples) / rate < 5
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    assert spectrum.argmax() * rate / len(samples) == pytest.approx(1000, abs=5)
    settled(page)
    assert "recording.wav" in page.inner_text("#input")


def test_an_example_is_heard_at_once(visit, service):
    def with_example(route):
        response = route.fetch()
        found = response.json()
        for model in found["models"]:
            model["examples"] = [{"sound": f"/v1/models/{model['name']}/examples/0", "type": "audio/wav"}]
        route.fulfill(response=response, json=found)

    seen = visit()
    seen.page.route("**/v1/models", with_example)
    seen.page.route("**/examples/0", lambda route: route.fulfill(body=NOISE["buffer"], content_type="audio/wav"))
    seen.page.route("**/transcribe?*", functools.partial(in_words, service))
    page = seen.at(model="english")
    page.locator("#spectrogram").wait_for()
    assert page.locator("#example-0").inner_text() == "Sound 1"
    assert page.locator(WORDS).count() == 3
    assert "-o 'example.wav'" in page.inner_text("#request pre")


def test_a_page_that_gets_no_microphone_says_why(visit):
    seen = visit()
    seen.page.add_init_script("Object.defineProperty(navigator, 'mediaDevices', { value: undefined })")
    page = seen.at(model="english")
    assert page.locator("#record").is_disabled()
    assert "pages of https and of localhost alone" in page.inner_text("#input")
    page.evaluate("dispatchEvent(new ClipboardEvent('paste', { clipboardData: new DataTransfer() }))")
    drawn(page)
    assert "Nothing was found" not in page.inner_text("#input")


def test_of_a_sound_that_is_longer_than_the_model_hears_at_once_the_words_are_there(page):
    long = NOISE | {"buffer": wav(np.random.default_rng(1).uniform(-0.1, 0.1, 2 * RATE))}
    page.locator("#choose-file").set_input_files(long)
    settled(page)
    page.locator("#spectrogram").wait_for()
    assert page.locator(WORDS).count() == 3
    assert "what the model looked at is not shown" in page.inner_text("#spectrogram")
    assert page.locator("#answer .problem").count() == 0


def test_a_spectrogram_is_the_logarithm_of_what_numpy_transforms(page):
    samples = np.random.default_rng(2).normal(size=2000).astype(np.float32)
    found = page.evaluate(
        """async (samples) => {
          const { spectrogramOf } = await import('/page/spectrogram.js')
          const { values, ...rest } = spectrogramOf(Float32Array.from(samples))
          return { ...rest, values: [...values] }
        }""",
        samples.tolist(),
    )
    columns, rows = found["columns"], found["rows"]
    assert (columns, rows) == (16, 256)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(512) / 512)
    padded = np.pad(samples.astype(np.float64), 512)
    starts = [int(np.floor((column + 0.5) * 2000 / columns - 256 + 0.5)) + 512 for column in range(columns)]
    wanted = np.stack([np.abs(np.fft.rfft(window * padded[at : at + 512]))[:256][::-1] for at in starts], 1)
    assert np.exp(np.array(found["values"]).reshape(rows, columns)) == pytest.approx(wanted, abs=2e-4)
    assert found["top"] == pytest.approx(np.log(wanted).max(), abs=1e-5)


def test_rows_of_words_are_those_of_their_tokens(page):
    tokens = [
        ("<|en|>", True),
        (" He", False),
        ("llo", False),
        (",", False),
        ("<|1.00|>", False),
        (" t", False),
        ("", False),
        ("hé", False),
    ]
    words = [{"word": "Hello,"}, {"word": "thé"}, {"word": "gone"}]
    found = page.evaluate(
        """async ([words, tokens]) => (await import('/page/transcript.js')).rowsOf(words, tokens)""",
        [words, [{"text": text, "special": special} for text, special in tokens]],
    )
    assert json.dumps(found) == "[[1, 2, 3], [5, 6, 7], []]"
