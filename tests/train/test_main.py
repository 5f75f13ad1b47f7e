import importlib
import sys

import pytest

from model.catalogue import build
from model.weights import load_weights
from tests.conftest import ROOT
from train.__main__ import RECIPES, main


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_knows_how_many_steps_its_model_takes(name):
    assert importlib.import_module(f"train.recipes.{RECIPES[name]}").STEPS[name] > 0


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
        (["--steps", "5"], "--to: must be another folder than model/bundled with --steps or --seed"),
        (["--seed", "5"], "--to: must be another folder than model/bundled with --steps or --seed"),
        (["--steps", "5", "--to", "model/bundled"], "--to: must be another folder than model/bundled"),
        (["--seed", "5", "--to", "train/../model/bundled"], "--to: must be another folder than model/bundled"),
    ],
)
def test_the_bundled_weights_are_not_replaced_by_others_unasked(monkeypatch, capsys, arguments, said):
    monkeypatch.setattr("train.recipes.digits.train", None)
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["train", "digits", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, said in capsys.readouterr().err) == (2, True)


def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_trained(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("train.recipes.digits.train", None)
    (tmp_path / "file").touch()
    (tmp_path / "dates").touch()
    for names, to in (["digits"], tmp_path / "file"), (["digits", "dates"], tmp_path):
        monkeypatch.setattr(sys, "argv", ["train", *names, "--to", str(to)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = f"error: --to: must be a folder, {to / names[-1]} cannot be made: "
        assert (ended.value.code, said in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize("saved", [True, False])
def test_an_interruption_says_which_command_goes_on(monkeypatch, tmp_path, capsys, saved):
    def interrupt(name, run):
        if saved:
            run.saved.touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("train.recipes.digits.train", lambda name, run: (None, "accuracy"))
    monkeypatch.setattr("train.__main__.save_weights", lambda module, file, name: None)
    monkeypatch.setattr("train.recipes.dates.train", interrupt)
    options = ["--steps", "7", "--to", f"{tmp_path}/my weights"]
    monkeypatch.setattr(sys, "argv", ["train", *options, "digits", "dates", "scenes-detr"])
    assert main() == 130
    said = f"goes on from {tmp_path}/my weights/dates/resume.pt" if saved else "begins it again, nothing was saved"
    command = f"python -m train dates scenes-detr --steps 7 --to '{tmp_path}/my weights'"
    assert capsys.readouterr().err == f"dates: interrupted; `{command}` {said}\n"


def test_a_run_that_cannot_go_on_is_refused(monkeypatch, tmp_path, capsys):
    def refuse(name, run):
        raise ValueError("resume.pt: is of another run")

    monkeypatch.setattr("train.recipes.digits.train", refuse)
    monkeypatch.setattr(sys, "argv", ["train", "digits", "--to", str(tmp_path)])
    assert main() == 2
    assert capsys.readouterr().err == "digits: not trained: resume.pt: is of another run\n"
