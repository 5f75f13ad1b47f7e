"""What eight bits lose is measured, and refused if it is too much."""

import dataclasses
import io
import re

import numpy as np
import pytest
import torch
from PIL import ExifTags, Image, ImageOps
from tokenizers import Tokenizer

from contract.input_rules import ImageRule
from export.bundled import SOURCES
from export.checks import quantization_loss
from export.checks.quantization_loss import MAX_SAMPLES, check_losses, own_samples, read_samples, served_pixels
from export.errors import CheckpointError, ExportError
from export.tasks.detection import object_detector
from service.inputs.image_preprocessing import decode_image
from tests.samples.checkpoints import byte_pairs
from tests.samples.detectors import FITTED, GRID, LABELS, MODELS, SIZES
from tests.samples.images import encoded

RNG = np.random.default_rng(0)


def test_what_loses_too_much_is_refused_and_says_how_much():
    fine = {"1 - cosine": 1e-4, "other answer": 0.0, "maps moved": 0.01}
    check_losses(fine, "int8", real=True)
    check_losses(fine | {"other answer": 0.5}, "int8", real=False)  # inputs that are drawn lie between classes
    check_losses(fine | {"perplexity": 9e9, "perplexity in fp32": 8e9, "perplexity grown": 0.125}, "int4", real=True)
    for what, value, words in (
        ("1 - cosine", 0.02, "int8 loses too much: 1 - cosine 0.02, at most 0.01; --force exports it all the same"),
        ("maps moved", 0.2, "int8 loses too much: maps moved 0.2, at most 0.05; --force"),
        ("other answer", 0.5, "int8 loses too much: other answer 0.5, at most 0.1; --force"),
        ("1 - cosine", float("nan"), "int8 loses too much: 1 - cosine nan"),
        ("perplexity grown", 0.1, "int8 loses too much: perplexity grown 0.1, at most 0.05; --force"),
    ):
        with pytest.raises(ExportError, match=re.escape(words)):
            check_losses(fine | {what: value}, "int8", real=True)


def test_the_figures_are_those_of_the_definitions():
    one, other = np.array([[1.0, 0.0], [3.0, 4.0]]), np.array([[1.0, 1.0], [4.0, 3.0]])
    apart, another = quantization_loss._answer_losses(one, other)
    assert apart == pytest.approx(1 - (0.5**0.5 + 24 / 25) / 2)
    assert another == 0.5
    maps = np.array([[0.5, 0.5], [1.0, 0.0]])
    assert quantization_loss._total_variation([maps], [np.array([[0.5, 0.5], [0.25, 0.75]])]) == pytest.approx(0.375)


def test_the_probability_of_each_next_token_is_that_of_the_logits_before_it(monkeypatch):
    monkeypatch.setattr(quantization_loss, "ROWS_AT_ONCE", 2)
    logits, tokens = RNG.standard_normal((6, 9)).astype(np.float32), RNG.integers(0, 9, 6)
    shares = torch.from_numpy(logits).double().softmax(-1).log().numpy()
    found = quantization_loss.log_probabilities(logits, tokens)
    assert found == pytest.approx([shares[place, tokens[place + 1]] for place in range(5)])
    assert not quantization_loss.log_probabilities(logits[:1], tokens[:1]).size


def test_a_decoder_is_compared_on_its_examples_and_on_what_its_tokenizer_can_write():
    dates, sizes = SOURCES["dates-clm"](), []
    for tensors in own_samples(dates):
        given = dict(zip((port.name for port in dates.base.inputs), tensors, strict=True))
        sizes.append(given["target"].shape[1])
        assert given["answered"].tolist() == [list(range(sizes[-1]))], "it answers at every token"
    tokenizer = Tokenizer.from_str(dates.tokenizer)
    assert sizes == [len(tokenizer.encode(one.text).ids) for one in dates.examples], "it has no capital letters"
    with_letters = dataclasses.replace(dates, tokenizer=byte_pairs().to_str(), examples=())
    assert len(own_samples(with_letters)) == len(quantization_loss.TEXTS)
    assert own_samples(SOURCES["dates"]()) == []


def test_samples_are_read_as_inputs(tmp_path):
    digits, dates = SOURCES["digits"](), SOURCES["dates"]()
    for index in range(3):
        Image.fromarray(RNG.integers(0, 256, (40, 30, 3), dtype=np.uint8)).save(tmp_path / f"{index}.png")
    (tmp_path / "notes.txt").write_text("no image")
    found = read_samples(digits, tmp_path)
    assert [[tuple(tensor.shape) for tensor in tensors] for tensors in found] == [[(1, 28, 28, 1)]] * 3
    texts = tmp_path / "texts"
    texts.write_text("3/23/21\n\nthe third of May\n")
    (source, visible, target, answered), _ = read_samples(dates, texts)
    assert source.shape == visible.shape == (1, 7)
    assert visible.all()
    assert target.shape[0] == answered.shape[0] == 1


def test_no_more_samples_are_read_than_are_used(tmp_path, monkeypatch):
    (digits, dates), opened, read = (SOURCES[name]() for name in ("digits", "dates")), [], Image.open
    monkeypatch.setattr(Image, "open", lambda file: opened.append(file) or read(file))
    (tmp_path / "images").mkdir()
    for index in range(MAX_SAMPLES + 5):
        Image.new("L", (28, 28)).save(tmp_path / f"images/{index}.png")
    assert len(read_samples(digits, tmp_path / "images")) == len(opened) == MAX_SAMPLES
    texts = tmp_path / "texts"
    texts.write_bytes(b"3/23/21\n\n" * (1 << 17) + b"\xff")  # which is no UTF-8, and is not reached
    assert len(read_samples(dates, texts)) == MAX_SAMPLES


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(60, 200), (333, 41), (20, 30)])
@pytest.mark.parametrize(
    "options",
    [
        {"locate": "fit"},
        {"locate": "fit", "resize": 30, "longest": 44, "multiple": 8},
        {"locate": "fit", "resize": (30, 40)},
        {"locate": "middle", "resize": 40},
        {"locate": "middle", "resize": (30, 70)},
        {"locate": "middle"},
    ],
)
def test_an_image_is_read_as_the_service_reads_it(options, size, channels):
    mean, std = (0.5, 0.4, 0.1)[:channels], (0.5,) * channels
    rule = ImageRule(height=36, width=50, channels=channels, resample="bicubic", mean=mean, std=std, **options)
    image, file = Image.fromarray(RNG.integers(0, 256, (*size, 3), dtype=np.uint8)), io.BytesIO()
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    image.save(file, "PNG", exif=exif)
    given = decode_image(file.getvalue(), rule, 10**6).pixels
    np.testing.assert_array_equal(served_pixels(ImageOps.exif_transpose(Image.open(file)), rule), given)


def test_of_a_picture_that_is_fitted_in_samples_say_what_the_service_says(tmp_path):
    said = {"family": "detr", "labels": LABELS, "made_by": {}}
    source = object_detector("fitted", MODELS["fitted"](), SIZES, rule=FITTED, scores="sigmoid", **said)
    sent = encoded(Image.new("RGB", (30, 50), "red"))
    (tmp_path / "one.png").write_bytes(sent)
    ((pixels, visible, shown),) = read_samples(source, tmp_path)
    picture = decode_image(sent, FITTED, 10**6)
    assert np.array_equal(pixels[0].numpy(), picture.pixels)
    assert np.array_equal(visible[0].numpy(), picture.visible_cells(GRID))
    assert shown.tolist() == [[32, 19]] == [list(picture.shown)]


@pytest.mark.parametrize(("name", "length"), [("dates-mlm", 96), ("minilm", 122)])
def test_texts_longer_than_those_that_are_verified_keep_their_end(tmp_path, name, length):
    """96 is the most that the first model takes."""
    source = SOURCES[name]()
    texts = tmp_path / "texts"
    texts.write_text("1 " * 120 + "\n3/23/21\n")
    long, short = (tensors[0][0] for tensors in read_samples(source, texts))
    assert len(long) == length
    assert (long[0], long[-1]) == (short[0], short[-1])


@pytest.mark.parametrize(("name", "given"), [("digits", "empty"), ("dates", "empty.txt")])
def test_samples_that_are_none_are_refused(tmp_path, name, given):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(
        CheckpointError, match=r"^--samples: must be a (folder of images|file of texts), given one that"
    ):
        read_samples(SOURCES[name](), tmp_path / given)
    with pytest.raises(CheckpointError, match=r"^--samples: cannot be read: no such file or folder"):
        read_samples(SOURCES[name](), tmp_path / "none")


def test_samples_that_cannot_be_read_are_refused_or_left_out(tmp_path, monkeypatch):
    (tmp_path / "latin.txt").write_bytes("café".encode("latin-1"))
    with pytest.raises(CheckpointError, match=r"^--samples: must be a file of texts in UTF-8 that can be read$"):
        read_samples(SOURCES["dates"](), tmp_path / "latin.txt")
    (tmp_path / "images").mkdir()
    digits = SOURCES["digits"]()
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    Image.new("1", (100, 100)).save(tmp_path / "images/bomb.png")
    Image.new("L", (28, 28)).save(tmp_path / "images/fine.png")
    assert len(read_samples(digits, tmp_path / "images")) == 1
