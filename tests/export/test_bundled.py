"""What is bundled: each is worth what its card says, and becomes an artifact by the command that users type."""

import json
import random
import re
import shutil
import subprocess
import sys
import wave

import numpy as np
import pytest
import torch

from contract.artifact import read_artifact
from contract.manifest import Recommendation
from contract.names import UNSERVED
from export.bundled import SOURCES, with_best
from export.errors import CheckpointError
from export.pipeline import export
from model.architectures.vit_variants import VARIANTS
from model.catalogue import BUNDLED, bundled
from tests.conftest import ROOT
from tests.samples.export_models import classifier
from train.__main__ import RECIPES
from train.data.handwritten_digits import scans
from train.data.spoken_digits import LENGTH
from train.data.written_dates.examples import example
from train.recipes import captions, spoken_digits, tera
from train.recipes.dates import exact
from train.recipes.digits import read_right

PACKAGED = {"minilm", "photos", "whisper-tiny-en"}
"""Their weights come in packages."""
DATES = {"dates-bilinear": 0.95, "dates-recurrent": 0.99, "dates-plain": 0.97, "dates-convolutional": 0.97}
"""The least share of 500 expressions of held-out dates that is read right."""
MOST_BYTES = {"dates": 6e6}
needs_voices = pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")


def test_everything_bundled_has_weights_a_card_a_recipe_and_a_source():
    names = {folder.name for folder in BUNDLED.iterdir()} - PACKAGED
    assert names == RECIPES.keys() == SOURCES.keys() - PACKAGED | {*UNSERVED}
    for name in names:
        assert {file.name for file in (BUNDLED / name).iterdir()} >= {"model.safetensors", "README.md"}, name
        assert (BUNDLED / name / "model.safetensors").stat().st_size <= MOST_BYTES.get(name, 3e6), name


@pytest.mark.parametrize("name", DATES)
def test_dates_are_read_in_every_way(name):
    rng = random.Random(5)
    pairs = [example(rng, held=True) for _ in range(500)]
    assert exact(bundled(name), pairs) >= DATES[name] * len(pairs)


@pytest.mark.parametrize(("name", "least"), [("captions-soft", 0.92), ("captions-hard", 0.97)])
def test_captions_are_right_and_their_words_look_at_their_digits(name, least):
    _, _, held, labels = scans()
    some = captions.scenes(held, labels, torch.Generator().manual_seed(7), 300)
    right, on, words = captions.measure(bundled(name), some)
    assert right >= 0.96 * len(some)
    assert on >= least * words


def test_examples_of_spoken_digits_are_heard_as_their_files_are_named():
    files = sorted((BUNDLED / "spoken-digits" / "examples").glob("*.wav"))
    said = []
    for file in files:
        assert file.stat().st_size < 60_000
        with wave.open(str(file)) as sound:
            assert sound.getparams()[:3] == (1, 2, spoken_digits.RATE)
            frames = np.frombuffer(sound.readframes(sound.getnframes()), "<i2")
        samples = np.zeros(LENGTH, np.float32)
        samples[: len(frames)] = frames / 32768
        said.append(spoken_digits.Utterance(samples, tuple(map(int, file.stem)), []))
    assert len(said) == 3
    assert spoken_digits.measure(bundled("spoken-digits"), said).wrong == 0


@needs_voices
def test_words_are_heard_of_voices_that_nobody_trained_on_and_when_they_are_said(monkeypatch):
    monkeypatch.setattr(spoken_digits, "HELD_VOICES", 15)
    monkeypatch.setattr(spoken_digits, "HELD_UTTERANCES", 100)
    alone, breath = spoken_digits.measured(bundled("spoken-digits"))
    assert alone.wrong <= 0.06 * alone.words
    assert breath.wrong <= 0.08 * breath.words
    assert spoken_digits.within(alone)[0] >= 0.9


@pytest.mark.slow
@needs_voices
def test_a_linear_layer_reads_more_digits_off_states_than_off_random_weights(monkeypatch):
    monkeypatch.setattr(tera, "HELD_VOICES", 40)
    found = tera.measured(bundled("spoken-tera"))
    (digits, _), (others, _) = found["its states"], found["random weights"]  # of voices these tell more, says the card
    assert digits > others + 0.05


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_reads_as_its_card_says(name):
    _, _, held, labels = scans()
    (said,) = re.findall(r"\((\d+) of 360 held-out scans\)", (BUNDLED / name / "README.md").read_text())
    assert abs(read_right(bundled(name), held, labels) - int(said)) <= 1


def test_the_best_method_is_read_from_beside_the_weights(tmp_path, monkeypatch):
    monkeypatch.setattr("export.bundled.BUNDLED", tmp_path)
    assert with_best("small", classifier).best is None
    best = {"method": "rollout", "measure": "deletion area", "values": {"rollout": 0.19, "raw": 0.3}}
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "best.json").write_text(json.dumps(best))
    source = with_best("small", classifier)
    assert source.best == Recommendation(**best)
    monkeypatch.setattr("export.bundled.BUNDLED", BUNDLED)
    assert SOURCES["digits"]().best.method == "integrated"
    for name, without, wanted in (("whole", [], source.best), ("less", ["rollout"], None)):
        assert read_artifact(export(source, "1", tmp_path / name, without=without)).manifest.best == wanted


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"method": "lime", "measure": "area", "values": {}}', '{"method": "raw"}']
)
def test_a_recommendation_that_is_none_is_an_error_that_names_its_file(tmp_path, monkeypatch, content):
    monkeypatch.setattr("export.bundled.BUNDLED", tmp_path)
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "best.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"small/best\.json: recommends no method: .*\S$"):
        with_best("small", classifier)


def test_what_is_recommended_for_bundled_models_can_be_read():
    for file in BUNDLED.glob("*/best.json"):
        best = Recommendation.model_validate_json(file.read_bytes())
        assert best.method in best.values, file


LARGEST_WEIGHT = {"digits-re-attention": 17}
"""The largest weight of maps that are no distributions: re-attention normalises over heads, so float32 errs by more."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SOURCES.keys() - PACKAGED))
def test_a_bundled_model_becomes_an_artifact(tmp_path, name):
    done = subprocess.run(
        [sys.executable, "-m", "export", name, "--to", tmp_path], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = read_artifact(tmp_path / name / "1").manifest
    raw = [value for what, value in manifest.verified.items() if what.startswith("raw")]
    assert max(raw) <= 1e-5 * LARGEST_WEIGHT.get(name, 1)
