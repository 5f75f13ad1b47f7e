"""A definition in float64 computes as one whose every number is float64, and holds its large matrices as they were."""

import copy

import pytest
import torch

from export.checks import exact
from export.checks.exact import in_float64, in_single_floats, rounded
from model.architectures.vit import vit
from model.methods.attribution import Balanced
from model.parts.embedding import tied_linear
from tests.samples.checkpoints import sharpened
from tests.samples.export_models import VIT
from tests.samples.four_bits import rounded_model


class Tied(torch.nn.Module):
    """Tokens -> logits, by a matrix that is also the embedding, and a layer with biases."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(30, 16)
        self.layer = torch.nn.Linear(16, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.head = tied_linear(self.embed)

    def forward(self, tokens):
        x = self.embed(tokens)
        self.entered = x.detach().requires_grad_()
        return self.head(self.norm(torch.tanh(self.layer(self.entered))))


def test_a_definition_computes_in_float64_and_gets_its_single_floats_back():
    model = sharpened(vit(VIT))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with in_float64(model) as wide:
        assert {tensor.dtype for tensor in wide.parameters()} == {torch.float64}
    for name, tensor in model.state_dict().items():
        assert tensor.dtype == before[name].dtype
        assert torch.equal(tensor, before[name])
    with pytest.raises(ValueError, match="module: must hold single floats, given"), in_float64(model.half()):
        pass


def test_in_four_bits_each_layer_reads_its_matrix_rounded_and_an_embedding_stays(monkeypatch):
    monkeypatch.setattr(exact, "WIDENED_AT_ONCE", 16 * 7)
    model, tokens = sharpened(Tied()), torch.tensor([[3, 29, 0]])
    wanted, embedded = rounded_model(model)(tokens), model.embed(tokens).double()
    with in_float64(model, "int4") as wide:
        torch.testing.assert_close(wide(tokens), wanted, rtol=1e-6, atol=1e-6)
        assert torch.equal(wide.embed(tokens), embedded)


def test_single_floats_are_rounded_to_four_bits_for_a_while():
    model, tokens = sharpened(Tied()), torch.tensor([[3, 29, 0]])
    before, wanted = model(tokens), rounded_model(model)(tokens)
    with rounded(model, "int4"):
        found = model(tokens)
        with in_float64(model, "int4") as wide:
            torch.testing.assert_close(wide(tokens), wanted, rtol=1e-6, atol=1e-6)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)
    assert (found - before).abs().max() > 0.01
    with rounded(model, "fp32"):
        assert torch.equal(model(tokens), before)
    assert torch.equal(model(tokens), before)


@pytest.mark.parametrize("balanced", [False, True])
def test_large_matrices_stay_single_floats_and_change_nothing(monkeypatch, balanced):
    monkeypatch.setattr(exact, "LARGE_NUMBERS", 200)
    monkeypatch.setattr(exact, "WIDENED_AT_ONCE", 16 * 7)
    model, tokens = sharpened(Tied()), torch.tensor([[3, 29, 0], [7, 7, 1]])
    wanted_of = copy.deepcopy(model).double()

    def answers(module):
        with Balanced() if balanced else torch.enable_grad():
            logits = module(tokens)
        (gradient,) = torch.autograd.grad(logits[..., 5].sum(), module.entered)
        return logits.detach(), gradient

    with in_float64(model) as wide:
        assert wide.embed.weight is wide.head.weight
        assert [wide.embed.weight.dtype, wide.layer.weight.dtype, wide.layer.bias.dtype] == [
            torch.float32, torch.float32, torch.float64,
        ]  # fmt: skip
        for ours, theirs in zip(answers(wide), answers(wanted_of), strict=True):
            assert ours.dtype == torch.float64
            torch.testing.assert_close(ours, theirs, rtol=1e-14, atol=1e-14)
        single = in_single_floats(wide)
        assert single.head.weight is wide.embed.weight
        found = single(tokens)
        assert found.dtype == torch.float32
    assert torch.equal(found, model(tokens))
    assert "forward" not in vars(model.embed)
    assert model.layer.bias.dtype == torch.float32
