"""Fifty texts of each of ten checkpoints: what our definition generates is what the reference library generates.

Greedily and by beams, every step computed anew, and with the caches that the graphs of a service have.
"""

import pytest
import torch
import transformers

from service.arrays import log_softmax
from service.options.generation import GenerateOptions
from tests.samples.checkpoints import CASES, checkpoint_of, reference, source_of_case
from tests.samples.reference_texts import encoded, generated_by, sentences
from tests.samples.searching import Searching, generated

pytestmark = [pytest.mark.families, pytest.mark.slow]
transformers.logging.set_verbosity_error()

CHECKPOINTS = (
    "llama-3", "mistral-window", "qwen2", "qwen3", "smollm3", "gemma3", "phi3", "gptj", "t5", "marian",
)  # fmt: skip
"""Angles of four kinds, windows, layers that turn nothing, norms of heads, biases of distances, and memory."""
TEXTS, SEED = 50, 61
ASKED = ({"num_beams": 1, "max_new_tokens": 9}, {"num_beams": 3, "max_new_tokens": 9})


@torch.no_grad()
def generated_with_caches(source, tokens, asked):
    """Return the target of the service's search, driven by the definition's steps, each of which is fed one token."""
    rules, options = source.generation, GenerateOptions(**asked)
    search = Searching(source).search(options, tokens)
    encode, decode = source.plan("encode").module, source.plan("decode").module
    given, count = torch.tensor([tokens]), len(source.generation.caches)
    if rules.start is None:
        first, behind = tokens[-1], len(tokens) - 1
        memory = ()
        caches = [torch.nn.functional.pad(one, (0, 0, 0, 12)) for one in encode(given)]
    else:
        first, behind = rules.start, 0
        memory = encode(given, torch.ones_like(given, dtype=torch.bool))
        heads, width = source.plan("decode").inputs[3].axes[1::2]
        caches = [torch.zeros(1, heads, 12, width, dtype=torch.float64) for _ in range(count)]
    rows = len(search.live)
    caches, memory = ([one.repeat_interleave(rows, 0) for one in some] for some in (caches, memory))
    visible = () if rules.start is None else (torch.ones(rows, len(tokens), dtype=torch.bool),)
    while not search.done:
        live = [one.tokens for one in search.live]
        token = torch.tensor([target[-1] if target else first for target in live])
        position = torch.full((rows,), behind + len(live[0]))
        logits, *caches = decode(token, position, *visible, *caches, *memory)
        parents = search.advance(log_softmax(logits.numpy()))
        caches = [one[parents] for one in caches]
    return list(rules.without_end(search.best().tokens))


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_fifty_texts_go_on_as_in_the_reference_library_with_caches_and_without(name):
    source, model, found = source_of_case(name), reference(checkpoint_of(name)), set()
    source.traced.double()
    for asked in ASKED:
        for text in sentences(name, TEXTS, SEED):
            tokens = encoded(name, text)
            wanted = generated_by(model, tokens, **asked)
            assert generated(source, tokens, asked) == wanted, (asked, text)
            assert generated_with_caches(source, tokens, asked) == wanted, (asked, text)
            found.add(tuple(wanted))
    assert len(found) > 15, "a model that always says the same would prove little"


def test_ten_checkpoints_are_compared():
    assert len(CHECKPOINTS) == 10
    assert set(CHECKPOINTS) <= CASES.keys()
