"""Queries and keys of a prompt are turned by one node each, as they are defined to be."""

import copy

import numpy as np
import pytest
import torch

from export.graphs.lowering.turns import fuse_turns
from model.architectures.gpt_variants import GemmaConfig, LlamaConfig, NeoXConfig
from model.parts.stretch import Yarn
from model.vocabularies import ALPHABET, SPECIALS
from tests.samples.export_graphs import copied, kinds, session, traced_in
from tests.samples.export_models import continuer

SIZES = {"width": 32, "layers": 3, "heads": 4, "key_heads": 2, "head": 16, "hidden": 24}
"""Of three layers, the last leaves keys only, and the others turn queries too."""


@pytest.mark.parametrize(
    ("config", "options", "turned"),
    [
        (LlamaConfig, {"stretch": Yarn(4.0, 1.5, 16)}, 5),
        (GemmaConfig, {"near": (1,), "window": 5, "local_theta": 100.0}, 5),
        (NeoXConfig, {"turned": 8}, 0),
    ],
)
def test_a_prompt_leaves_the_caches_of_the_definition(config, options, turned):
    source = continuer(config(len(SPECIALS) + len(ALPHABET), length=48, **SIZES, **options))
    plan = source.plan("encode")
    graph = fuse_turns(copied(traced_in(plan, source.traced_at)), plan)
    assert kinds(graph).count("RotaryEmbedding") == turned
    assert ("Sub" in kinds(graph)) == (not turned or "window" in options), "of windows there is a difference"
    (tokens,) = plan.example({"batch": 2, "source": 31}, 1)
    with torch.no_grad():
        wanted = copy.deepcopy(plan.module).double()(tokens)
    for port, exact, found in zip(
        plan.outputs, wanted, session(graph).run(None, {"source": tokens.numpy()}), strict=True
    ):
        limit = 1e-5 * exact.abs().max().item()
        np.testing.assert_allclose(found, exact.numpy(), atol=limit, err_msg=port.name)
