"""Recurrent networks and their decoder with attention, in float64 numpy from the papers' equations."""

import numpy as np

from tests.samples.attention_reference import linear, softmax


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru(w, name, x, state, suffix=""):
    """One step (Cho et al. 2014, as PyTorch has it: the reset gate after the product)."""
    gates = [
        np.split(value @ w[f"{name}.weight_{side}{suffix}"].T + w[f"{name}.bias_{side}{suffix}"], 3, axis=-1)
        for side, value in (("ih", x), ("hh", state))
    ]
    reset, update = (sigmoid(gates[0][index] + gates[1][index]) for index in (0, 1))
    new = np.tanh(gates[0][2] + reset * gates[1][2])
    return (1 - update) * new + update * state


def annotations(w, x):
    """States of a text (token, inputs), read forwards and backwards."""
    found = []
    for name, order in (("forwards", range(len(x))), ("backwards", reversed(range(len(x))))):
        state, states = np.zeros(w[f"{name}.weight_hh_l0"].shape[1]), {}
        for place in order:
            state = states[place] = gru(w, name, x[place], state, "_l0")
        found.append(np.stack([states[place] for place in range(len(x))]))
    return np.concatenate(found, -1), found[1][0]


def cut(w, name):
    return {path.removeprefix(f"{name}."): array for path, array in w.items() if path.startswith(f"{name}.")}


def maxout(w, name, x):
    return linear(w, f"{name}.pairs", x).reshape(-1, 2).max(-1)


def recurring(w, annotated, summary, target, select=lambda shares: shares):
    """Bahdanau et al. 2015, appendix A.2.2, of one input: logits (target, vocabulary) and weights (target, source)."""
    key, maps = linear(w, "module.decoder.attention.key", annotated), []

    def look(state):
        bent = np.tanh(state @ w["module.decoder.attention.query.weight"].T + key)
        maps.append(select(softmax(bent @ w["module.decoder.attention.score.weight"][0, :, 0])))
        return maps[-1] @ annotated

    return decoding(w, summary, look, target), np.stack(maps)


def decoding(w, summary, look, target):
    """Logits (target, vocabulary) of a decoder whose every step is given what `look` returns of the state before it."""
    state, logits = np.tanh(linear(w, "module.first.0", summary)), []
    for token in target:
        y, context = w["module.decoder.tokens.weight"][token], look(state)
        state = gru(w, "module.decoder.cell", np.concatenate((y, context)), state)
        read = maxout(w, "module.decoder.readout", np.concatenate((y, state, context)))
        logits.append(linear(w, "module.decoder.head", read))
    return np.stack(logits)
