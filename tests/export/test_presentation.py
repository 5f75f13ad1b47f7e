import io
import wave

import pytest
from PIL import Image

from contract.manifest import COMPARING, MAX_ABOUT_CHARACTERS, MOST_EXAMPLES
from export.bundled import SOURCES
from export.packaged import WHISPER
from export.presentation import FILES, PRESENTATIONS
from model.catalogue import BUNDLED


def test_every_bundled_model_is_presented_and_nothing_else():
    assert PRESENTATIONS.keys() == SOURCES.keys()


def test_the_models_that_a_newcomer_sees_first_are_not_the_first_of_the_alphabet():
    assert list(PRESENTATIONS)[:5] == ["photos", "digits", "dates", "scenes-detr", "scenes-swin"]


@pytest.mark.parametrize("name", SOURCES)
def test_a_bundled_model_has_a_sentence_examples_that_it_takes_and_its_place(name):
    if name == "whisper-tiny-en":
        pytest.importorskip(WHISPER, reason="its package of 70 MB is not installed")
    source = SOURCES[name]()
    assert source.order == list(PRESENTATIONS).index(name)
    assert 20 <= len(source.about) <= MAX_ABOUT_CHARACTERS
    assert 3 <= len(source.examples) <= MOST_EXAMPLES
    assert len(set(source.examples)) == len(source.examples)
    if source.image:
        assert [one.image for one in source.examples] == list(source.example_files)
        for content in source.example_files.values():
            assert len(content) <= (40_000 if name == "photos" else 10_000)  # each artifact holds them
            with Image.open(io.BytesIO(content)) as image:
                assert max(image.size) <= (480 if name == "photos" else 192)
    elif source.sound:
        assert [one.sound for one in source.examples] == list(source.example_files)
        for content in source.example_files.values():
            assert len(content) <= (120_000 if name == "whisper-tiny-en" else 60_000)
            with wave.open(io.BytesIO(content)) as sound:
                assert sound.getnframes() <= source.sound.samples
    else:
        assert not source.example_files
        pairs = name in ("minilm", "dates-rank")
        assert {one.text_pair is not None for one in source.examples} == {pairs}
        assert not pairs or source.task in COMPARING


def test_every_bundled_file_is_shown():
    for name, files in FILES.items():
        assert {file.name for file in (BUNDLED / name / "examples").iterdir()} == set(files)
