import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from train import fit as fitting
from train.fit import Run, fit


def test_fitting_learns_a_batch_and_ends_in_inference_mode():
    torch.manual_seed(0)
    some, labels = torch.randn(32, 1, 28, 28), torch.arange(32) % 10
    model = nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 10)).eval()
    values = []

    def loss():
        assert model.training
        value = F.cross_entropy(model(some), labels)
        values.append(value.item())
        return value

    fit(model, loss, Run(40), rate=3e-3, label="test")
    assert not model.training
    assert len(values) == 40
    assert values[0] > 2 > 0.2 > values[-1]


def test_fitting_warms_up_to_its_rate_cools_down_to_nothing_and_cuts_steep_slopes():
    line, places = nn.Linear(1, 1, bias=False), []

    def loss():
        places.append(line.weight.item())
        steep = 1e6 if len(places) in (30, 60) else 1.0
        return line.weight.sum() * steep  # a constant slope once it is cut, so that a step is as long as the rate

    fit(line, loss, Run(100), rate=1e-3, label="test")
    lengths = -np.diff([*places, line.weight.item()])
    assert lengths.argmax() in (4, 5, 6)
    assert lengths.max() == pytest.approx(1e-3, rel=0.06)
    assert lengths[0] == pytest.approx(lengths.max() / 5, rel=0.05)
    assert lengths[52] == pytest.approx(lengths.max() / 2, rel=0.06)
    assert lengths[-1] < lengths.max() / 500


def test_fitting_forgets_the_slope_of_the_batch_before():
    line, places = nn.Linear(1, 1, bias=False), []
    nn.init.zeros_(line.weight)

    def loss():
        places.append(line.weight.item())
        return line.weight.sum() * (1.0 if len(places) <= 10 else 0.0)

    fit(line, loss, Run(100), rate=1e-3, label="test")
    lengths = -np.diff(places)
    assert abs(lengths[60]) < lengths.max() / 50


def weights_after(run, stop_at=None):
    """The weights of a line that is fitted to numbers drawn from all generators, stopped at a step if so asked."""
    rng, generator = run.begin(), torch.Generator().manual_seed(run.seed)
    line, calls = nn.Linear(1, 1), []

    def loss():
        calls.append(1)
        if len(calls) == stop_at:
            raise KeyboardInterrupt
        x = torch.randn(4, 1) + torch.rand(1, generator=generator) + rng.random()
        return F.mse_loss(line(x), 2 * x)

    try:
        fit(line, loss, run, rate=1e-2, label="test", rng=rng, generator=generator)
    except KeyboardInterrupt:
        assert stop_at
    return line.weight.item(), len(calls)


def test_a_run_that_was_interrupted_ends_where_it_would_have_ended(monkeypatch, tmp_path):
    monkeypatch.setattr(fitting, "SECONDS_BETWEEN_SAVES", 0.0)
    whole, _ = weights_after(Run(20))
    run = Run(20, saved=tmp_path / "resume.pt")
    weights_after(run, stop_at=8)
    torch.manual_seed(5)
    resumed, steps = weights_after(run)
    assert steps == 13
    assert resumed == whole
    with pytest.raises(ValueError, match=r"is of a run of .*'steps': 20.*; go on with that, or remove the file"):
        weights_after(Run(21, saved=run.saved))


def test_another_seed_is_another_run():
    assert weights_after(Run(5)) == weights_after(Run(5)) != weights_after(Run(5, seed=1))
