"""What several tests of training share."""

import pytest
import torch

from train import fit as fitting
from train.data.handwritten_digits import scans
from train.fit import Run
from train.recipes.dino import Dino


def squares(brightest=1.0):
    """Fields whose ink is a square as bright as their label is high."""
    fields = torch.zeros(10, 1, 56, 56)
    fields[:, :, 10:46, 10:46] = torch.linspace(0.3, brightest, 10)[:, None, None, None]
    return fields, torch.arange(10)


def same(one, other):
    """True if two models have the same weights."""
    return all(torch.equal(mine, theirs) for mine, theirs in zip(one.parameters(), other.parameters(), strict=True))


@pytest.fixture(scope="module")
def split():
    """Few of the scans, as `scans` gives all of them."""
    known, labels, held, held_labels = scans()
    return known[:60], labels[:60], held[:40], held_labels[:40]


@pytest.fixture
def resumed(monkeypatch, tmp_path):
    """What trains by four steps of DINO, is interrupted after the third, and goes on."""
    monkeypatch.setattr(fitting, "SECONDS_BETWEEN_SAVES", 0.0)
    run, follow = Run(4, saved=tmp_path / "resume.pt"), Dino.follow

    def stop_at_the_third(self, steps):
        follow(self, steps)
        if self.taken == 3:
            raise KeyboardInterrupt

    def trained(recipe, name):
        with monkeypatch.context() as patched:
            patched.setattr(Dino, "follow", stop_at_the_third)
            with pytest.raises(KeyboardInterrupt):
                recipe.train(name, run)
        return recipe.train(name, run)[0]

    return trained
