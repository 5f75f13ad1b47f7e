"""What the sizes of a configuration make is measured before it is made."""

import pytest
import torch
from torch import nn

from export.checkpoints.building.size_limit import FREE_NUMBERS, SizeLimit
from export.errors import CheckpointError
from tests.samples.checkpoints import source_of
from tests.samples.export_folders import configured

MAKE = {
    "one tensor": lambda: torch.empty(2 * FREE_NUMBERS),
    "many": lambda: [nn.Linear(1024, 1024) for _ in range(32)],
    "a range": lambda: torch.arange(0, 4 * FREE_NUMBERS, 2),
    "a product": lambda: torch.arange(100_000)[:, None] * torch.arange(100_000)[None],
    "what each of many blocks computes": lambda: [torch.arange(4096)[:, None] + torch.arange(4096) for _ in range(4)],
    "a matrix of any width": lambda: nn.Linear(1 << 40, 1),
}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_more_numbers_than_fit_the_weights_are_refused(make):
    with (
        pytest.raises(CheckpointError, match=r"must fit the weights, which hold 1000 numbers, given far larger ones"),
        SizeLimit(1000),
    ):
        make()


def test_what_fits_is_made_as_ever():
    with SizeLimit(0):
        made = nn.Linear(3, 2)
        assert made(torch.ones(1, 3)).isfinite().all()
    with SizeLimit(FREE_NUMBERS):
        torch.empty(2 * FREE_NUMBERS)


@pytest.mark.parametrize(
    ("name", "sizes", "words"),
    [
        ("bert", {"num_hidden_layers": 10**9}, "num_hidden_layers: Input should be less than or equal to 1024"),
        ("bert", {"num_labels": 10**9, "id2label": None}, "num_labels: Input should be less than or equal to 1000000"),
        ("bert", {"hidden_size": 2**63}, "hidden_size: Input should be less than 2147483648"),
        ("bert", {"hidden_size": 10**9}, "must fit the weights"),
        ("bert", {"intermediate_size": 10**9}, "must fit the weights"),
        ("gpt2", {"n_positions": 10**9}, "must fit the weights"),
        ("marian", {"max_position_embeddings": 10**7}, "must fit the weights"),
        ("vit", {"intermediate_size": 10**9}, "must fit"),
    ],
)
def test_a_size_that_the_weights_do_not_have_is_refused(checkpoint, name, sizes, words):
    folder = checkpoint(name)
    configured(**sizes)(folder)
    with pytest.raises(CheckpointError, match=words):
        source_of(folder)
