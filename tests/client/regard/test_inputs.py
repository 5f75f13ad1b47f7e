import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image
from regard import BadInput, fetching
from regard.inputs import encode, encode_picture, encode_text, is_one

from tests.client.conftest import SEVEN, answer, told

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)


def pixels(encoded):
    return np.asarray(Image.open(io.BytesIO(encoded.picture)))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "AVIF"])
def test_files_that_the_service_reads_are_sent_as_they_are(kind, tmp_path):
    path = tmp_path / "picture"
    Image.fromarray(PIXELS).save(path, kind)
    for given in (path, str(path), path.read_bytes(), bytearray(path.read_bytes())):
        found = encode_picture(given)
        assert found.picture == path.read_bytes()
        assert found.media_type == f"image/{kind.lower()}"
        assert base64.b64decode(found.json) == path.read_bytes()


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "PPM"])
def test_other_files_are_sent_as_png(kind, tmp_path):
    path = tmp_path / "picture"
    Image.fromarray(PIXELS[..., 0]).save(path, kind)
    sent = Image.open(io.BytesIO(encode_picture(path).picture)).convert("L")
    np.testing.assert_array_equal(np.asarray(sent), PIXELS[..., 0])


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr"])
def test_images_of_every_mode_are_sent(mode):
    assert encode_picture(Image.fromarray(PIXELS).convert(mode)).picture


def test_sixteen_bits_become_eight():
    given = np.arange(0, 65536, 257, np.uint16).reshape(8, 32)
    sent = Image.open(io.BytesIO(encode_picture(Image.fromarray(given)).picture))
    np.testing.assert_array_equal(np.asarray(sent), given // 257)


@pytest.mark.parametrize("mode", ["I", "F"])
def test_a_mode_that_does_not_say_what_is_white_is_refused(mode):
    with pytest.raises(BadInput, match=f"such as L or RGB, given {mode}"):
        encode_picture(Image.new(mode, (7, 5)))


def test_an_image_is_sent_upright():
    image = Image.fromarray(PIXELS)
    exif = image.getexif()
    exif[0x0112] = 6
    file = io.BytesIO()
    image.save(file, "TIFF", exif=exif)
    np.testing.assert_array_equal(pixels(encode_picture(Image.open(file))), np.rot90(PIXELS, -1))


@pytest.mark.parametrize(
    ("array", "wanted"),
    [
        (PIXELS, PIXELS),
        (PIXELS[..., :1], PIXELS[..., 0]),
        (PIXELS[..., 0], PIXELS[..., 0]),
        (PIXELS / 255, PIXELS),
        ((PIXELS / 255).astype(np.float16), PIXELS),
        (PIXELS.astype(np.int64), PIXELS),
        (PIXELS[..., 0] > 99, (PIXELS[..., 0] > 99) * 255),
        (np.dstack([PIXELS, PIXELS[..., 0]]), np.dstack([PIXELS, PIXELS[..., 0]])),
    ],
)
def test_arrays_are_bytes_or_floats_from_0_to_1(array, wanted):
    np.testing.assert_allclose(pixels(encode_picture(array)), wanted, atol=0 if array.dtype != np.float16 else 1)


TENSOR = torch.from_numpy(PIXELS.copy()).permute(2, 0, 1)


@pytest.mark.parametrize(
    ("given", "most"),
    [
        (TENSOR, 0),
        (TENSOR.permute(1, 2, 0), 0),
        ((TENSOR / 255).requires_grad_(), 0),
        ((TENSOR / 255).bfloat16(), 1),
    ],
)
def test_a_tensor_is_a_picture_with_its_channels_first_or_last(given, most):
    np.testing.assert_allclose(pixels(encode_picture(given)), PIXELS, atol=most)


def test_a_file_that_is_open_is_read(tmp_path):
    with SEVEN.open("rb") as file:
        assert encode(file, "image").picture == SEVEN.read_bytes()
    assert encode(io.BytesIO(b"RIFF"), "sound").sound == b"RIFF"
    assert encode(io.BytesIO(b'{"nodes": [0], "edges": []}'), "graph").graph == {"nodes": [0], "edges": []}
    assert is_one(io.BytesIO())
    assert is_one(TENSOR)
    assert not is_one(TENSOR[None])


def test_a_sound_may_be_a_tensor_with_its_channels_first():
    samples = np.array([[0, 1, 2, 3], [4, 5, 6, 7]], np.int16)
    assert encode((torch.from_numpy(samples), 8000), "sound").sound == encode((samples.T, 8000), "sound").sound


def test_an_address_is_downloaded_within_a_limit(monkeypatch):
    with told(answer(200, SEVEN.read_bytes(), "image/png")) as (url, asked):
        found = encode(f"{url}/seven.png", "image")
        assert encode(f"{url}/seven.png", "text").text == f"{url}/seven.png", "to a model of texts it is one"
        assert encode(f"{url}/seven.png", "either").picture == found.picture
    assert (found.picture, found.name) == (SEVEN.read_bytes(), f"{url}/seven.png")
    assert len(asked) == 2
    monkeypatch.setattr(fetching, "MOST_BYTES", 100)
    for answered, said in (
        (answer(200, b"x" * 101), "at most 100 bytes"),
        (answer(404), "404"),
        (b"", "RemoteProtocol"),
    ):
        with told(answered) as (url, _), pytest.raises(BadInput, match=f"{url}/a.png: .*{said}"):
            encode(f"{url}/a.png", "image")


def test_what_is_wrong_with_a_file_is_said_with_its_name(tmp_path):
    (tmp_path / "a.png").write_text("no picture")
    for given in (tmp_path / "a.png", str(tmp_path / "a.png")):
        with pytest.raises(BadInput, match=f"^{tmp_path}/a.png: picture: must be an image") as caught:
            encode(given, "image")
    assert str(caught.value).count("a.png") == 1


def cut_off():
    """A picture that Pillow has opened, and cannot read to its end."""
    file = io.BytesIO()
    Image.effect_noise((64, 64), 50).save(file, "PNG")
    return Image.open(io.BytesIO(file.getvalue()[:-800]))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("no/such/file.png", "a str is a path here"),
        (b"not a picture", "must be an image that Pillow reads"),
        (b"", "must be an image that Pillow reads"),
        ("", "cannot be read"),
        ("a\0b", "cannot be read"),
        (7, "given int"),
        (None, "given NoneType"),
        (np.zeros((0, 3)), "given (0, 3)"),
        (np.zeros((2, 2, 5)), "given (2, 2, 5)"),
        (np.zeros(3), "given (3,)"),
        (np.full((2, 2), 255.0), "floats must be from 0 to 1"),
        (np.full((2, 2), np.nan), "floats must be from 0 to 1"),
        (np.full((2, 2), 256), "whole numbers must be from 0 to 255"),
        (np.full((2, 2), -1, np.int8), "whole numbers must be from 0 to 255"),
        (np.zeros((2, 2), complex), "whole numbers or floats, given complex128"),
        (io.StringIO("text"), 'file: must be open for bytes (open(path, "rb")), given one of str'),
        (torch.full((3, 2, 2), 2.0), "floats must be from 0 to 1"),
        (SEVEN.read_bytes()[:40], "picture: "),
        (Image.new("L", (4, 4)).crop((2, 2, 2, 3)), "picture: must have pixels, given 0 x 1"),
        (Image.new("La", (2, 2)), "picture: cannot be read"),
        (cut_off(), "picture: cannot be read"),
    ],
)
def test_what_is_no_picture_is_refused_before_it_is_sent(given, said):
    with pytest.raises(BadInput) as caught:
        encode(given, "image")
    assert said in str(caught.value)


def test_texts_and_pairs_are_sent_as_the_service_reads_them():
    assert encode("3/23/21", "text").json == "3/23/21"
    assert encode(("a", "b"), "text").json == {"text": "a", "text_pair": "b"}
    assert encode_text("naïve").size == 6
    assert encode_text(("ab", "c")).size == 3


@pytest.mark.parametrize("given", [b"bytes", 3, ("a",), ("a", "b", "c"), ("a", 1), ["a"], None, (), "\ud800"])
def test_what_is_no_text_is_refused_before_it_is_sent(given):
    with pytest.raises(BadInput, match="text: must be"):
        encode(given, "text")
