"""A T5 by its equations, in float64 and one head after the other."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from model.architectures.t5 import T5Config, t5
from model.parts.attention import causal
from model.parts.stacks import StackSizes
from tests.samples.attention_reference import assert_same, gelu, linear, relu, sharpen, softmax, weights_of

WIDTH, KEY, HEADS, BUCKETS, FARTHEST = 8, 3, 2, 8, 6
SIZES = {
    "vocabulary": 11, "length": 20, "width": WIDTH, "encoder": StackSizes(2, HEADS, 10),
    "decoder": StackSizes(3, HEADS, 12), "key_width": KEY, "buckets": BUCKETS, "farthest": FARTHEST, "epsilon": 1e-2,
}  # fmt: skip
SOURCE = torch.tensor([[1, 5, 3, 3, 9, 10, 2, 4, 1], [7, 7, 2, 0, 0, 0, 0, 0, 0]])
VISIBLE = torch.tensor([[True] * 9, [True] * 3 + [False] * 6])
TARGET = torch.tensor([[0, 4, 4, 9, 1, 2, 8, 3], [0, 10, 3, 3, 5, 6, 1, 7]])


def bucket(distance, *, both_ways):
    """Raffel et al. 2020, section 2.1, as in the authors' code: of a key's position less a query's."""
    buckets, start = (BUCKETS // 2, BUCKETS // 2 * (distance > 0)) if both_ways else (BUCKETS, 0)
    away = abs(distance) if both_ways else max(-distance, 0)
    exact = buckets // 2
    if away < exact:
        return start + away
    grown = math.log(away / exact) / math.log(FARTHEST / exact) * (buckets - exact)
    return start + min(exact + int(grown), buckets - 1)


def bias_of(table, length, *, both_ways):
    """(head, query, key)."""
    places = range(length)
    rows = [[table[bucket(key - query, both_ways=both_ways)] for key in places] for query in places]
    return np.array(rows).transpose(2, 0, 1)


def norm(w, name, x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-2) * w[f"{name}.weight"]


def attend(w, name, x, source, visible, bias=0):
    """Return (output, weights (batch, head, query, key)): scores are products, and nothing divides them."""
    query, key, value = (
        linear(w, f"{name}.query", x),
        linear(w, f"{name}.key", source),
        linear(w, f"{name}.value", source),
    )
    mixed, maps = [], []
    for head in range(HEADS):
        columns = slice(head * KEY, head * KEY + KEY)
        scores = query[..., columns] @ key[..., columns].swapaxes(-1, -2)
        scores = scores + (bias[head] if isinstance(bias, np.ndarray) else bias)
        maps.append(softmax(np.where(visible, scores, -np.inf)))
        mixed.append(maps[-1] @ value[..., columns])
    return linear(w, f"{name}.output", np.concatenate(mixed, -1)), np.stack(maps, 1)


def feed(w, name, x, bend, *, gated):
    if gated:
        return linear(w, f"{name}.output", bend(linear(w, f"{name}.gate", x)) * linear(w, f"{name}.up", x))
    return linear(w, f"{name}.2", bend(linear(w, f"{name}.0", x)))


def written(model, config, bend):
    """Return the logits and maps of the equations."""
    w, maps = weights_of(model, "m"), {}
    seen, earlier = VISIBLE.numpy()[:, None, :], causal(TARGET.shape[1]).numpy()

    def tables(side, layer, length, *, both_ways):
        table = w[f"m.{side}_contexts.biases.{layer if config.own else 0}.table.weight"]
        return bias_of(table, length, both_ways=both_ways)

    x = w["m.source.tokens.weight"][SOURCE.numpy()]
    for layer in range(2):
        name = f"encoder.blocks.{layer}"
        bias, y = tables("source", layer, 9, both_ways=True), norm(w, f"m.{name}.attention_norm", x)
        mixed, maps[f"{name}.attention"] = attend(w, f"m.{name}.attention", y, y, seen, bias)
        x = x + mixed
        y = norm(w, f"m.{name}.feed_forward_norm", x)
        x = x + feed(w, f"m.{name}.feed_forward", y, bend, gated=config.gated)
    memory = norm(w, "m.encoder.norm", x)
    x = w["m.source.tokens.weight"][TARGET.numpy()]
    for layer in range(3):
        name = f"decoder.blocks.{layer}"
        bias, y = tables("target", layer, 8, both_ways=False), norm(w, f"m.{name}.attention_norm", x)
        mixed, maps[f"{name}.attention"] = attend(w, f"m.{name}.attention", y, y, earlier, bias)
        x = x + mixed
        mixed, maps[f"{name}.cross"] = attend(w, f"m.{name}.cross", norm(w, f"m.{name}.cross_norm", x), memory, seen)
        x = x + mixed
        y = norm(w, f"m.{name}.feed_forward_norm", x)
        x = x + feed(w, f"m.{name}.feed_forward", y, bend, gated=config.gated)
    x = norm(w, "m.decoder.norm", x) * (WIDTH**-0.5 if config.rescaled else 1)
    return x @ w.get("m.head.weight", w["m.source.tokens.weight"]).T, maps


@pytest.mark.parametrize(
    ("options", "bend", "untied"),
    [
        ({}, relu, False),
        ({"gated": True, "activation": "gelu", "rescaled": False}, gelu, True),
        ({"own": True, "rescaled": False}, relu, False),
    ],
    ids=["1.0", "1.1", "a table a layer"],
)
def test_logits_and_maps_are_those_of_the_equations(options, bend, untied):
    config = T5Config(**SIZES, **options)
    model = sharpen(t5(config, nn.Linear(WIDTH, 11, bias=False) if untied else None))
    logits, maps = model(SOURCE, VISIBLE, TARGET)
    wanted, wanted_maps = written(model, config, bend)
    assert_same(logits.detach(), wanted)
    assert maps.keys() == wanted_maps.keys()
    for name, found in maps.items():
        assert_same(found.detach(), wanted_maps[name])
    assert not [name for name, _ in model.named_parameters() if name.endswith(".bias")]


def test_a_bias_of_distances_changes_what_is_answered_and_each_layer_has_its_own_where_it_says_so():
    model = sharpen(t5(T5Config(**SIZES, own=True)))
    before = model(SOURCE, VISIBLE, TARGET)[0].detach()
    for contexts, layers in ((model.source_contexts, 2), (model.target_contexts, 3)):
        assert len(contexts.biases) == layers
        for bias in contexts.biases:
            held = bias.table.weight.detach().clone()
            with torch.no_grad():
                bias.table.weight[0] += 1
            assert (model(SOURCE, VISIBLE, TARGET)[0] - before).abs().max() > 1e-3
            bias.table.weight.data.copy_(held)
