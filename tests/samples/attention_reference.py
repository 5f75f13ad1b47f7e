"""What several tests here compare with: the papers' equations in float64 numpy, and weights under which faults show."""

import math

import numpy as np
import torch

ERF = np.vectorize(math.erf, otypes=[np.float64])


def sharpen(module, seed=0):
    """Give a module float64 weights large enough that attention is far from uniform.

    Under fresh weights every map is nearly uniform, and a lost scale, mask or permutation changes almost nothing.
    """
    random = torch.Generator().manual_seed(seed)
    module.double()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=random, dtype=torch.float64)
            if parameter.dim() > 1:
                parameter.copy_(noise * 1.5 / math.sqrt(parameter[0].numel()))
            else:
                parameter.copy_(0.5 * noise + (0 if name.endswith("bias") else 1))
    return module.eval()


def randn(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weights_of(module, name="module"):
    """Return a module's parameters as arrays, as if it were the part `name` of another."""
    return {f"{name}.{path}": parameter.detach().numpy() for path, parameter in module.named_parameters()}


def relu(x):
    return np.maximum(x, 0)


def gelu(x):
    return x * (1 + ERF(x / math.sqrt(2))) / 2


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def linear(w, name, x):
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0)


def layer_norm(w, name, x, epsilon=1e-5):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * w[f"{name}.weight"] + w[f"{name}.bias"]


def attention(w, name, heads, x, source, visible=None, bias=None):
    """One head after the other, each on its own columns: (output, weights (batch, heads, query, key)).

    `bias` (batch, heads, query, key) is added to scores.
    """
    query, key, value = (
        linear(w, f"{name}.query", x),
        linear(w, f"{name}.key", source),
        linear(w, f"{name}.value", source),
    )
    size = query.shape[-1] // heads
    mixed, maps = [], []
    for start in range(0, query.shape[-1], size):
        columns = slice(start, start + size)
        scores = query[..., columns] @ key[..., columns].swapaxes(-1, -2) / math.sqrt(size)
        if bias is not None:
            scores = scores + bias[:, start // size]
        maps.append(softmax(scores if visible is None else np.where(np.asarray(visible), scores, -np.inf)))
        mixed.append(maps[-1] @ value[..., columns])
    return linear(w, f"{name}.output", np.concatenate(mixed, -1)), np.stack(maps, 1)


def feed_forward(w, name, x, activation):
    return linear(w, f"{name}.2", activation(linear(w, f"{name}.0", x)))


def encoder_block(w, name, heads, x, *, pre_norm, activation, visible=None, bias=None, epsilon=1e-5):
    """Return (x, map) of one block, the residual sums written out for either place of the norm."""

    def norm(part, x):
        return layer_norm(w, f"{name}.{part}_norm", x, epsilon)

    if pre_norm:
        y = norm("attention", x)
        mixed, found = attention(w, f"{name}.attention", heads, y, y, visible, bias)
        x = x + mixed
        return x + feed_forward(w, f"{name}.feed_forward", norm("feed_forward", x), activation), found
    mixed, found = attention(w, f"{name}.attention", heads, x, x, visible, bias)
    x = norm("attention", x + mixed)
    return norm("feed_forward", x + feed_forward(w, f"{name}.feed_forward", x, activation)), found


def decoder_block(w, name, heads, x, memory, *, pre_norm, visible, memory_visible):
    """Return (x, own map, map of the cross attention) of one block."""

    def norm(part, x):
        return layer_norm(w, f"{name}.{part}_norm", x)

    if pre_norm:
        y = norm("attention", x)
        mixed, own = attention(w, f"{name}.attention", heads, y, y, visible)
        x = x + mixed
        mixed, cross = attention(w, f"{name}.cross", heads, norm("cross", x), memory, memory_visible)
        x = x + mixed
        return x + feed_forward(w, f"{name}.feed_forward", norm("feed_forward", x), relu), own, cross
    mixed, own = attention(w, f"{name}.attention", heads, x, x, visible)
    x = norm("attention", x + mixed)
    mixed, cross = attention(w, f"{name}.cross", heads, x, memory, memory_visible)
    x = norm("cross", x + mixed)
    return norm("feed_forward", x + feed_forward(w, f"{name}.feed_forward", x, relu)), own, cross


def copy_attention(ours, theirs):
    """Copy a MultiHeadAttention's weights into an nn.MultiheadAttention."""
    parts = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def copy_block(ours, theirs):
    """Copy a block's weights into torch's layer of the same kind, whose norms are numbered in order of use."""
    copy_attention(ours.attention, theirs.self_attn)
    norms = [ours.attention_norm, ours.feed_forward_norm]
    if hasattr(ours, "cross"):
        copy_attention(ours.cross, theirs.multihead_attn)
        norms.insert(1, ours.cross_norm)
    for number, norm in enumerate(norms, 1):
        getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())
    theirs.linear1.load_state_dict(ours.feed_forward[0].state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward[2].state_dict())


def assert_same(given, expected, tolerance=1e-10):
    """Compare arrays or tensors of one shape, absolutely."""
    given, expected = torch.as_tensor(given), torch.as_tensor(expected)
    torch.testing.assert_close(given, expected, rtol=0, atol=tolerance)


def assert_batch_is_its_rows(model, x):
    """Hold logits and maps of a batch against those of each of its inputs alone."""
    logits, maps = model(x)
    alone = [model(x[index : index + 1]) for index in range(len(x))]
    assert_same(logits, torch.cat([one for one, _ in alone]))
    assert_same_maps(maps, {name: torch.cat([found[name] for _, found in alone]) for name in maps})


def assert_same_maps(given, expected, tolerance=1e-10):
    assert given.keys() == expected.keys()
    for name in given:
        assert_same(given[name], expected[name], tolerance)
