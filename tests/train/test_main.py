import importlib
import sys

import pytest

from model.catalogue import BUNDLED, build
from model.weights import load_weights
from train.__main__ import RECIPES, main


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_knows_how_many_steps_its_model_takes(name):
    assert importlib.import_module(f"train.recipes.{RECIPES[name]}").STEPS[name] > 0


def test_every_bundled_model_has_a_recipe():
    trained = {folder.name for folder in BUNDLED.iterdir() if folder.is_dir()} - {"minilm"}  # others trained that
    assert RECIPES.keys() == trained


def test_a_model_is_trained_and_its_weights_are_written(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["train", "digits-plain", "--steps", "1", "--to", str(tmp_path)])
    assert main() == 0
    file = tmp_path / "digits-plain" / "model.safetensors"
    load_weights(build("digits-plain"), file, "digits-plain")
    assert capsys.readouterr().out.startswith("digits-plain: accuracy ")
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_run_that_cannot_go_on_is_refused(monkeypatch, tmp_path, capsys):
    def refuse(name, run):
        raise ValueError("resume.pt: is of another run")

    monkeypatch.setattr("train.recipes.digits.train", refuse)
    monkeypatch.setattr(sys, "argv", ["train", "digits", "--to", str(tmp_path)])
    assert main() == 2
    assert capsys.readouterr().err == "digits: not trained: resume.pt: is of another run\n"
