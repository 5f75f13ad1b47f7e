"""Decoders alone of other blocks, norms and positions, against their equations in float64 numpy."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from model.architectures.gpt import gpt, text_reader
from model.architectures.gpt_variants import GemmaConfig, LlamaConfig, NeoXConfig, Olmo2Config
from model.parts.heads import Pool
from model.parts.positions import Rotary
from model.parts.stretch import Llama3
from tests.samples.attention_reference import (
    assert_same,
    gelu,
    layer_norm,
    linear,
    sharpen,
    softmax,
    weights_of,
)

TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5, 8, 9, 7]])
SIZES = {"length": 12, "width": 8, "layers": 3, "heads": 4, "hidden": 12, "epsilon": 0.1}
LLAMA = LlamaConfig(13, **SIZES, key_heads=2, theta=30.0, head=6)
CONFIGS = {
    "llama": LLAMA,
    "biases": replace(LLAMA, bias=True, output_bias=True, gate_bias=True, key_heads=1, head=None),
    "normed heads": replace(LLAMA, heads_normed=True, stretch=Llama3(4.0, length=8)),
    "windows": replace(LLAMA, near=(0, 2), window=3, still=(1, 2)),
    "a share turned": replace(LLAMA, turned=4, scale=1.5),
    "olmo2": Olmo2Config(13, **SIZES, key_heads=2, theta=30.0, head=6),
    "neox": NeoXConfig(13, **SIZES, theta=30.0, head=6, turned=2, activation="gelu", bias=True, output_bias=True),
    "neox, one after the other": NeoXConfig(13, **SIZES, theta=30.0, head=6, activation="gelu", beside=False),
    "gemma": GemmaConfig(
        13, **SIZES, key_heads=2, theta=900.0, local_theta=30.0, head=6, near=(0, 2), window=3, heads_normed=True,
        scale=8**0.5, activation="gelu",
    ),
}  # fmt: skip


def made(name):
    config = CONFIGS[name]
    return sharpen(gpt(config, nn.Linear(8, 13, bias=False))).eval()


def rms(w, name, x, epsilon=0.1):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * w[f"{name}.weight"]


def turned(x, angles):
    """Turn the first entries of x (batch, token, width of a head) as complex numbers; angles (token, pair)."""
    half = angles.shape[1]
    pairs = (x[..., :half] + 1j * x[..., half : 2 * half]) * np.exp(1j * angles)
    return np.concatenate((pairs.real, pairs.imag, x[..., 2 * half :]), -1)


def heads_of(w, path, config, x, layer, angles):
    """Return what attention adds and its maps: of each head, whose key and value serve others, too."""
    width, share = config.head_width, config.heads // (config.key_heads or config.heads)
    query, key, value = (linear(w, f"{path}.{part}", x) for part in ("query", "key", "value"))
    if isinstance(config, Olmo2Config):
        query, key = rms(w, f"{path}.query_norm.norm", query), rms(w, f"{path}.key_norm.norm", key)
    away = np.subtract.outer(np.arange(7), np.arange(7))
    seen = (away >= 0) & (away < (config.window if layer in config.near else 99))
    mixed, maps = [], []
    for head in range(config.heads):
        own, served = (slice(place * width, (place + 1) * width) for place in (head, head // share))
        q, k = query[..., own], key[..., served]
        if config.heads_normed:
            q, k = rms(w, f"{path}.query_norm", q), rms(w, f"{path}.key_norm", k)
        if layer not in config.still:
            q, k = turned(q, angles), turned(k, angles)
        maps.append(softmax(np.where(seen, q @ k.swapaxes(-1, -2) / width**0.5, -np.inf)))
        mixed.append(maps[-1] @ value[..., served])
    return linear(w, f"{path}.output", np.concatenate(mixed, -1)), np.stack(maps, 1)


def fed(w, path, config, x):
    """Return what the feed-forward adds."""
    if isinstance(config, NeoXConfig):
        return linear(w, f"{path}.2", gelu(linear(w, f"{path}.0", x)))
    gate = linear(w, f"{path}.gate", x)
    opened = gelu(gate) if config.activation == "gelu" else gate / (1 + np.exp(-gate))
    return linear(w, f"{path}.output", opened * linear(w, f"{path}.up", x))


def reference(w, config):
    """Return logits and maps, as the papers of each configuration write them."""
    own = layer_norm if isinstance(config, NeoXConfig) else rms

    def norm(name, x):
        return own(w, name, x, 0.1)

    x, maps = w["module.embed.tokens.weight"][TOKENS] * config.scale, []
    for layer in range(config.layers):
        theta = config.local_theta if isinstance(config, GemmaConfig) and layer in config.near else config.theta
        frequencies = Rotary(config.turned or config.head_width, theta, config.stretch).frequencies.numpy()
        angles = np.arange(7)[:, None] * frequencies.astype(np.float64)
        path = f"module.decoder.blocks.{layer}"
        behind = isinstance(config, Olmo2Config)  # where norms stand
        y = x if behind else norm(f"{path}.attention_norm", x)
        added, found = heads_of(w, f"{path}.attention", config, y, layer, angles)
        if behind or isinstance(config, GemmaConfig):
            added = norm(f"{path}.attention_{'norm' if behind else 'scale'}", added)
        read = x if getattr(config, "beside", False) else x + added
        y = fed(w, f"{path}.feed_forward", config, read if behind else norm(f"{path}.feed_forward_norm", read))
        if behind or isinstance(config, GemmaConfig):
            y = norm(f"{path}.feed_forward_{'norm' if behind else 'scale'}", y)
        x = x + added + y
        maps.append(found)
    return linear(w, "module.head", norm("module.decoder.norm", x)), maps


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_logits_and_maps_are_those_of_the_equations(name):
    module = made(name)
    logits, maps = module(TOKENS)
    wanted, wanted_maps = reference(weights_of(module), CONFIGS[name])
    assert_same(logits, wanted, 1e-5)  # angles are single floats
    assert list(maps) == [f"decoder.blocks.{layer}.attention" for layer in range(3)]
    for found, seen in zip(maps.values(), wanted_maps, strict=True):
        assert_same(found, seen, 1e-5)
        assert np.abs(seen[:, :, -1] - 1 / 7).max() > 0.2, "uniform maps would show little"


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_steps_with_a_cache_give_what_one_pass_gives(name):
    module, config, capacity = made(name), CONFIGS[name], 9
    whole, maps = module(TOKENS)
    shape = (2, config.key_heads or config.heads, capacity, config.head_width)
    past = []
    for pair in module.remember(TOKENS[:, :4]):
        room = [torch.zeros(shape, dtype=torch.float64) for _ in pair]
        for empty, known in zip(room, pair, strict=True):
            empty[:, :, :4] = known
        past.append(tuple(room))
    lengths = torch.tensor([2, 4])  # of two prompts, padded on the right
    for step in range(3):
        position = lengths - 1 + step
        logits, past, seen = module.step(TOKENS[torch.arange(2), position], position, past)
        for row in range(2):
            at = int(position[row])
            assert_same(logits[row], whole[row, at], 1e-6)
            for path, weights in seen.items():
                assert_same(weights[row, :, 0, : at + 1], maps[path][row, :, at, : at + 1], 1e-6)


@torch.no_grad()
def test_a_text_that_is_read_has_the_states_of_one_that_is_continued():
    for name, config in CONFIGS.items():
        module = made(name)
        states, maps = module.states(TOKENS)
        reader = text_reader(gpt(config, Pool("last", nn.Identity())), config.before()).double()
        reader.load_state_dict({
            key.replace("decoder.", "encoder."): one
            for key, one in module.state_dict().items()
            if not key.startswith("head.")
        })  # fmt: skip
        tokens = torch.nn.functional.pad(TOKENS, (0, 2))
        visible = torch.arange(9).expand(2, -1) < 7
        vector, own = reader(tokens, visible)
        assert_same(vector, states[:, -1].numpy())
        for key, weights in maps.items():
            assert_same(own[key.replace("decoder.", "encoder.")][..., :7, :7], weights.numpy())


@torch.no_grad()
def test_a_gemma_that_embeds_sees_half_a_window_on_each_side():
    config = replace(CONFIGS["gemma"], window=4)
    reader = text_reader(gpt(config, Pool("mean", nn.Identity())), config.around())
    visible = torch.arange(7).expand(2, -1) < torch.tensor([[7], [5]])
    seen = {name: weights > 0 for name, weights in sharpen(reader)(TOKENS, visible)[1].items()}
    away = np.abs(np.subtract.outer(np.arange(7), np.arange(7)))
    for layer in range(3):
        near = away <= (2 if layer in config.near else 99)
        for text, length in enumerate((7, 5)):
            wanted = near & (np.arange(7) < length)
            found = seen[f"encoder.blocks.{layer}.attention"][text].numpy()
            rows = np.arange(7) < length
            assert (found[:, rows] == wanted[rows]).all()
