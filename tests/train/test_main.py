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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--steps", "0", "--to", "x"], "--steps: must be at least 1, given 0"),
        (["--seed", "9" * 30, "--to", "x"], "--seed: must have 64 bits at most"),
        (["--steps", "5"], "--to: must be given with --steps or --seed"),
        (["--seed", "5"], "--to: must be given with --steps or --seed"),
    ],
)
def test_the_bundled_weights_are_not_replaced_by_others_unasked(monkeypatch, capsys, arguments, said):
    monkeypatch.setattr("train.recipes.digits.train", None)
    monkeypatch.setattr(sys, "argv", ["train", "digits", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, said in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize("saved", [True, False])
def test_an_interruption_says_whether_the_run_can_go_on(monkeypatch, tmp_path, capsys, saved):
    def interrupt(name, run):
        if saved:
            run.saved.touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("train.recipes.digits.train", interrupt)
    monkeypatch.setattr(sys, "argv", ["train", "digits", "--to", str(tmp_path)])
    assert main() == 130
    said = "the same command goes on from" if saved else "nothing was saved"
    assert f"digits: interrupted; {said}" in capsys.readouterr().err


def test_a_run_that_cannot_go_on_is_refused(monkeypatch, tmp_path, capsys):
    def refuse(name, run):
        raise ValueError("resume.pt: is of another run")

    monkeypatch.setattr("train.recipes.digits.train", refuse)
    monkeypatch.setattr(sys, "argv", ["train", "digits", "--to", str(tmp_path)])
    assert main() == 2
    assert capsys.readouterr().err == "digits: not trained: resume.pt: is of another run\n"
