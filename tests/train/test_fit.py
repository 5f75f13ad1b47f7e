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


def test_a_recipe_knows_the_step_that_it_is_at_when_it_goes_on(monkeypatch, tmp_path):
    monkeypatch.setattr(fitting, "SECONDS_BETWEEN_SAVES", 0.0)
    run, line, told = Run(6, saved=tmp_path / "resume.pt"), nn.Linear(1, 1), []

    def loss():
        if told[-1] == ("before", 4) and len(told) == 9:
            raise KeyboardInterrupt
        return line.weight.sum()

    def once():
        fit(
            line, loss, run, rate=1e-2, label="test",
            before=lambda step: told.append(("before", step)), after=lambda step: told.append(("after", step)),
        )  # fmt: skip

    with pytest.raises(KeyboardInterrupt):
        once()
    once()
    steps = [*range(4), *range(4, 6)]
    whole = [(word, step) for step in steps for word in ("before", "after")]
    assert told == [*whole[:8], ("before", 4), *whole[8:]]


def test_a_loss_that_is_not_finite_ends_the_run_before_it_spoils_the_weights():
    line, losses = nn.Linear(1, 1), iter([1.0, float("nan"), 1.0])
    with pytest.raises(ValueError, match="step 1: the loss or its gradient is not finite"):
        fit(line, lambda: line.weight.sum() * next(losses), Run(3), rate=1e-2, label="test")
    assert line.weight.isfinite().all()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and no more", None], ids=["empty", "cut off", "another model's"])
def test_a_file_that_cannot_be_resumed_from_is_named(tmp_path, content):
    file = tmp_path / "resume.pt"
    if content is None:
        torch.save({"run": {"steps": 3, "seed": 0}, "module": nn.Linear(2, 2).state_dict()}, file)
    else:
        file.write_bytes(content)
    line = nn.Linear(1, 1)
    with pytest.raises(ValueError, match=r"resume.pt: cannot be resumed from; remove the file"):
        fit(line, lambda: line.weight.sum(), Run(3, saved=file), rate=1e-2, label="test")


def test_another_seed_is_another_run():
    assert weights_after(Run(5)) == weights_after(Run(5)) != weights_after(Run(5, seed=1))
