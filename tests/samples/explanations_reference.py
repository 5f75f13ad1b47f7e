"""What can be read off attention, in float64 numpy from the papers' equations, head by head and image by image.

Nothing here shares a formula's form with `model/methods/explanations.py`: products run from the first layer on over
whole matrices, sums over heads are written out, entries are discarded one by one.
"""

import numpy as np


def draw(*shape, seed=0, sharpness=3.0):
    """Draw attention whose rows sum to one and are far from uniform."""
    scores = np.random.default_rng(seed).normal(size=shape) * sharpness
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def fused(weights, fusion):
    """Fuse (batch, heads, query, key) over heads."""
    heads = [np.asarray(weights[:, head], np.float64) for head in range(weights.shape[1])]
    if fusion == "mean":
        return sum(heads) / len(heads)
    found = heads[0]
    for head in heads[1:]:
        found = np.maximum(found, head) if fusion == "max" else np.minimum(found, head)
    return found


def sinks(weights, prefix, patches):
    """The largest part of a head's attention that one patch has, (batch, heads)."""
    queries, columns = weights.shape[2], range(prefix, prefix + patches)
    return np.array([[max(head[:, key].sum() / queries for key in columns) for head in image] for image in weights])


def fused_without(weights, out, fusion):
    """Fuse (batch, heads, query, key) over the heads that are not `out` (batch, heads)."""
    kept = [
        np.stack([head for head, left in zip(image, own, strict=True) if not left])
        for image, own in zip(weights, out, strict=True)
    ]
    return np.stack([fused(image[None], fusion)[0] for image in kept])


def discarded(fused, count):
    """Set the `count` smallest entries of every image to 0, the earlier of equals first; the first key's stay."""
    found = np.array(fused, np.float64)
    for image in found:
        places = sorted(np.ndindex(image.shape), key=lambda place: (image[place], place))
        for query, key in places[:count]:
            if key:
                image[query, key] = 0
    return found


def rollout(layers, included=None):
    """R_l = rownorm(A_l + I) R_{l-1}, R_0 = I (Abnar & Zuidema 2020): (batch, token, token)."""
    size = layers[0].shape[-1]
    joint = np.broadcast_to(np.eye(size), layers[0].shape)
    for index, layer in enumerate(layers):
        if included is None or index in included:
            mixed = np.asarray(layer, np.float64) + np.eye(size)
            joint = np.stack([one / one.sum(1)[:, None] @ before for one, before in zip(mixed, joint, strict=True)])
    return joint


def norms(weights, value, output):
    """‖Σ_h a_ij^h (x_j W_V^h + b_V^h) W_O^h‖ (Kobayashi et al. 2020), the vectors themselves: (batch, query, key).

    value (batch, heads, key, width of a head); output (heads x width of a head, width), rows are a head's one after
    the other.
    """
    size = value.shape[-1]
    added = 0
    for head in range(value.shape[1]):
        seen = value[:, head] @ output[head * size : (head + 1) * size]  # (batch, key, width)
        added = added + weights[:, head, :, :, None] * seen[:, None]  # (batch, query, key, width)
    return np.sqrt((added**2).sum(-1))


def positive(weights, gradient):
    """E_h (A ⊙ ∇A)⁺: every head's negative evidence goes before heads are averaged (Chefer et al. 2021, equation 5)."""
    heads = [np.maximum(weights[:, head] * gradient[:, head], 0) for head in range(weights.shape[1])]
    return sum(heads) / len(heads)


def relevance(layers, included=None):
    """R_l = R_{l-1} + Ā_l R_{l-1}, R_0 = I (equation 6): (batch, token, token)."""
    joint = np.broadcast_to(np.eye(layers[0].shape[-1]), layers[0].shape)
    for index, layer in enumerate(layers):
        if included is None or index in included:
            joint = joint + layer @ joint
    return joint


def evidence(layers):
    """R - I of equation 6, of which nothing is lost next to the ones: X_l = X_{l-1} + Ā_l + Ā_l X_{l-1}, X_0 = 0."""
    found = np.zeros(layers[0].shape)
    for layer in layers:
        found = found + layer + layer @ found
    return found


def shares(evidence):
    """X / rowsum(X) + I of X = R - I (equations 8 and 9), row by row; a sum below 1e-30 counts as 1e-30."""
    found = np.array(evidence, np.float64)
    for image in found:
        for index, row in enumerate(image):
            row /= max(row.sum(), 1e-30)
            row[index] += 1
    return found


def bimodal(encoder, decoder, cross):
    """R_qq (batch, target, target) and R_qi (batch, target, source) of equations 6 to 11."""
    source = shares(evidence(encoder))
    across = np.zeros(cross[0].shape)
    for count, (self_layer, cross_layer) in enumerate(zip(decoder, cross, strict=True), 1):
        own = evidence(decoder[:count])
        across = across + self_layer @ across
        across = across + np.swapaxes(shares(own), 1, 2) @ cross_layer @ source
    return own + np.eye(own.shape[-1]), across


def entropy(weights):
    """-Σ_j a_ij ln a_ij, of which a zero has no part: (batch, heads, query)."""
    weights = np.asarray(weights, np.float64)
    found = np.zeros(weights.shape)
    np.log(weights, out=found, where=weights > 0)
    return -(weights * found).sum(-1)


def special(weights, among):
    """The mass on special keys, `among` (batch, key): (batch, heads, query)."""
    return np.stack([image[:, :, chosen].sum(-1) for image, chosen in zip(weights, among, strict=True)])


def distance(weights, grid, patch, prefix):
    """Σ_j â_ij ‖p_i - p_j‖ in pixels, patches `patch` (height, width) apart: (batch, heads, query), 0 in the prefix."""
    found = np.zeros(weights.shape[:-1])
    places = [(row * patch[0], column * patch[1]) for row in range(grid[0]) for column in range(grid[1])]
    for query, (y, x) in enumerate(places):
        apart = np.array([((y - down) ** 2 + (x - across) ** 2) ** 0.5 for down, across in places])
        among = weights[:, :, prefix + query, prefix : prefix + len(places)]
        found[:, :, prefix + query] = among @ apart / among.sum(-1)
    return found
