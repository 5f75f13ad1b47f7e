"""What is said between the service and a decoder is read as it was meant, and nothing else is."""

import numpy as np
import pytest

from contract.input_rules import SoundRule
from service.errors import TooLarge, Unacceptable, Unsupported
from service.inputs.decoding import Request
from service.inputs.model_input import Picture, Sound
from service.inputs.sandbox.messages import (
    ANSWER_HEADER,
    REQUEST_HEADER,
    Answer,
    decoded_answer,
    read_rule,
    refusal_answer,
    request_head,
)
from tests.samples.hostile_fork_server import LIES, said
from tests.samples.images import INK, middle

PIXELS = np.random.default_rng(3).integers(0, 256, (28, 28, 1), np.uint8)
PICTURE = Picture(PIXELS, (-1.5, 2.0, 30.25, 28.0), 40, 30, 6)
REQUEST = Request(INK, 10_000, 1200)


def read(request, data, piece=None):
    """Return what an answer holds that comes in pieces of `piece` bytes."""
    answer, at, found = Answer(request), 0, None
    while at < len(data):
        assert found is None, "it was whole before"
        rest = answer.rest
        taken = data[at : at + min(len(rest), piece or len(data))]
        rest[: len(taken)] = taken
        found = answer.add(len(taken))
        at += len(taken)
    return found


@pytest.mark.parametrize("piece", [None, 1, 343, 344, 345, 500])
@pytest.mark.parametrize("rule", [INK, None])
def test_a_picture_arrives_as_it_was_sent(rule, piece):
    picture = PICTURE if rule else Picture(PIXELS[:20], (0.0, 0.0, 28.0, 20.0), 28, 20)
    found = read(REQUEST._replace(rule=rule), decoded_answer(picture), piece)
    assert np.array_equal(found.pixels, picture.pixels)
    assert (found.box, found.width, found.height, found.orientation) == (
        picture.box,
        picture.width,
        picture.height,
        picture.orientation,
    )


SOUND = SoundRule(rate=16_000, samples=16_000, hop=160, frames=50)


@pytest.mark.parametrize("piece", [None, 1, 345])
def test_a_sound_arrives_as_it_was_sent(piece):
    samples = np.random.default_rng(4).uniform(-1, 1, 1100).astype(np.float32)
    found = read(REQUEST._replace(rule=SOUND), decoded_answer(Sound(samples, 16_000)), piece)
    assert np.array_equal(found.samples, samples)
    assert found.rate == 16_000
    with pytest.raises(ValueError, match="size"):
        read(REQUEST._replace(rule=SOUND, announced=1099), decoded_answer(Sound(samples, 16_000)), piece)


def test_a_sound_is_of_one_row():
    with pytest.raises(ValueError, match="one row"):
        read(REQUEST._replace(rule=SOUND), decoded_answer(PICTURE))


def test_a_picture_does_not_change_after_it_was_read():
    answer, sent = Answer(REQUEST), decoded_answer(PICTURE)
    answer.rest[: len(sent)] = sent
    found = answer.add(len(sent))
    assert found.pixels.base is answer._data.base or found.pixels.base is answer._data, "memory of this process alone"
    with pytest.raises(ValueError, match="as many bytes as it announces"):
        answer.add(1)
    assert np.array_equal(found.pixels, PIXELS)


@pytest.mark.parametrize("kind", [TooLarge, Unacceptable, Unsupported])
@pytest.mark.parametrize("rule", [INK, None])
def test_a_refusal_arrives_as_it_was_sent(kind, rule):
    found = read(REQUEST._replace(rule=rule), refusal_answer(kind("image: must be " + "o" * 285)))
    assert type(found) is kind
    assert found.detail == "image: must be " + "o" * 285


@pytest.mark.parametrize("name", LIES)
@pytest.mark.parametrize("piece", [None, 300])
def test_no_lie_is_believed(name, piece):
    with pytest.raises(ValueError, match=r"^(answer|picture|box|refusal): must "):
        read(Request(INK, 10_000, 10_000), LIES[name], piece)


def test_an_image_has_no_more_pixels_than_were_announced():
    read(REQUEST, said(width=1200, height=1))
    with pytest.raises(ValueError, match="must have a size"):
        read(REQUEST, said(width=1201, height=1))


def test_an_answer_that_is_short_is_not_yet_one():
    for data in (decoded_answer(PICTURE)[:-1], refusal_answer(TooLarge("image: a"))[:-1], b"\0"):
        assert read(REQUEST, data) is None


@pytest.mark.parametrize("rule", [INK, middle(30, 40, 3, resize=50), middle(30, 40, 1, resize=(30, 40)), None])
def test_a_request_is_read_as_it_was_meant(rule):
    head = request_head(Request(rule, 1 << 40, 77), 12345)
    rule_bytes, *numbers = REQUEST_HEADER.unpack(head[: REQUEST_HEADER.size])
    assert numbers == [12345, 1 << 40, 77]
    assert len(head) == REQUEST_HEADER.size + rule_bytes
    assert read_rule(head[REQUEST_HEADER.size :]) == rule


def test_the_header_has_no_gaps_that_depend_on_the_machine():
    assert (REQUEST_HEADER.size, ANSWER_HEADER.size) == (24, 344)
