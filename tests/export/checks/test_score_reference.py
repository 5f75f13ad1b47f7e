"""The scores of the reference: a logit, the difference of two, a cosine; and that libra sees the length of a vector."""

import pytest
import torch

from contract.manifest import GRADIENT_METHODS
from export.checks.score_reference import draw_targets, explain, score_of
from model.methods.attribution import Balanced
from tests.samples.attention_reference import assert_same, randn
from tests.samples.export_models import translator


def test_the_score_of_an_embedding_is_its_cosine_with_the_other():
    answer, other = randn(3, 5), randn(3, 5, seed=2)
    expected = (answer * other).sum(1) / (answer.norm(dim=1) * other.norm(dim=1))
    assert_same(score_of(answer, {"other": other.float(), "kept": torch.ones(3, 5)}), expected, 1e-6)


def test_the_cosine_is_of_the_numbers_that_are_kept():
    answer, other = randn(2, 5), randn(2, 5, seed=2)
    kept = torch.tensor([[1, 1, 1, 0, 0], [1.0, 1, 0, 0, 0]])
    (first, second) = (
        torch.nn.functional.cosine_similarity(answer[row, :width], other[row, :width], dim=0)
        for row, width in enumerate((3, 2))
    )
    assert_same(score_of(answer, {"other": other, "kept": kept}), torch.stack([first, second]), 1e-6)


def test_the_length_of_an_embedding_is_a_constant_to_libra():
    answer, other = randn(3, 5).requires_grad_(), randn(3, 5, seed=2)
    with Balanced():
        score = score_of(answer, {"other": other, "kept": torch.ones(3, 5)})
    (gradient,) = torch.autograd.grad(score.sum(), answer)
    assert_same(gradient * answer.detach().norm(dim=1, keepdim=True), other / other.norm(dim=1, keepdim=True))
    assert_same((gradient * answer).sum(1), score)


def test_the_score_of_a_class_may_be_less_that_of_another():
    logits = randn(3, 5)
    controls = {"explained": torch.tensor([-1, 2, 0]), "against": torch.tensor([-1, 4, -1])}
    largest = logits[0].max()
    assert_same(score_of(logits, controls), torch.stack([largest, logits[1, 2] - logits[1, 4], logits[2, 0]]))


@pytest.mark.parametrize("method", GRADIENT_METHODS)
def test_every_method_can_be_computed_in_single_floats_too(method):
    source = translator()
    plan, sizes = source.plan(method), source.verified_at[-1]
    given = dict(zip((port.name for port in plan.inputs), plan.example(sizes, 1), strict=True))
    answer = source.traced.observe(*source.plan("predict").example(sizes, 1)).answer
    controls = draw_targets(plan, source.traced.kinds, answer, sizes, 1)
    inputs = {name: tensor for name, tensor in given.items() if name not in controls}
    single = explain(method, source.traced, inputs, controls)
    exact = explain(method, source.traced.double(), inputs, controls)
    for one, wanted in zip(single, exact, strict=True):
        assert one.dtype == torch.float32
        assert_same(one.double(), wanted, 1e-4)
