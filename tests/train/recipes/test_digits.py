import pytest
import torch

from train.data.handwritten_digits import pixels, scans, strokes
from train.fit import Run
from train.recipes import digits


@pytest.mark.slow
def test_training_returns_the_model_and_the_figure_it_earns(monkeypatch):
    monkeypatch.setattr(digits, "strokes", lambda count, seed: strokes(20, seed))
    split = scans()
    model, figure = digits.train("digits", Run(2))
    with torch.no_grad():
        right = (model(pixels(split[2]))[0].argmax(1) == split[3]).sum().item()
    assert figure == f"accuracy {100 * right / 360:.2f}% ({right} of 360 held-out scans)"
    assert not model.training
    again, _ = digits.train("digits", Run(2))
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), again.parameters(), strict=True))
