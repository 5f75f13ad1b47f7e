"""What surrounds the tokens of a text in each layer, made of which of them are visible. Padding is not.

What surrounds those of an encoder-decoder is made of a mask of theirs, and of where queries and keys stand: a decoder
is also given one token at a time, and looks at a cache.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from model.parts.attention import Context, Contexts, Distances, causal, visible_keys
from model.parts.positions import RelativeBias, Rotary, near


class Unplaced(nn.Module):
    """Tokens see all that is visible; where they stand, their embeddings say."""

    def forward(self, visible: Tensor) -> Contexts:
        """Take visible (batch, token)."""
        return Context(visible_keys(visible))


class Causal(nn.Module):
    """Tokens see themselves and those before them, as far as these are visible (Radford et al. 2021, section 2.4)."""

    def forward(self, visible: Tensor) -> Contexts:
        """Take visible (batch, token)."""
        return Context(visible_keys(visible) & causal(visible.shape[1], visible.device))


class Biased(nn.Module):
    """A bias by distance, the same in all layers, is added to scores."""

    def __init__(self, bias: RelativeBias) -> None:
        super().__init__()
        self.bias = bias

    def forward(self, visible: Tensor) -> Contexts:
        """Take visible (batch, token)."""
        index = _places(visible)
        return Context(visible_keys(visible), self.bias(index, index))


class Turned(nn.Module):
    """Queries and keys are turned by their positions (Su et al. 2021, section 3.2.2)."""

    def __init__(self, rotary: Rotary) -> None:
        super().__init__()
        self.rotary = rotary

    def forward(self, visible: Tensor) -> Contexts:
        """Take visible (batch, token)."""
        return Context(visible_keys(visible), rotation=self.rotary(_places(visible)))


class LocalAndGlobal(nn.Module):
    """Some layers look at all tokens, the others at those that are at most `reach` away (Warner et al. 2024).

    Each kind has a rotation of its own (section 2.1.2, "ModernBERT"). `everywhere` says of each layer whether it looks
    at all tokens.
    """

    def __init__(self, everywhere: Sequence[bool], reach: int, whole: Rotary, local: Rotary) -> None:
        super().__init__()
        self.everywhere = tuple(everywhere)
        self.reach = reach
        self.whole, self.local = whole, local

    def forward(self, visible: Tensor) -> Contexts:
        """Take visible (batch, token) -> a context for each layer."""
        index, keys = _places(visible), visible_keys(visible)
        whole = Context(keys, rotation=self.whole(index))
        local = Context(keys & near(index, index, self.reach), rotation=self.local(index))
        return [whole if everywhere else local for everywhere in self.everywhere]


class Disentangled(nn.Module):
    """Distances have states, the same in all layers, of which `DisentangledAttention` makes scores.

    He et al. 2021, "DeBERTa", section 3.1; He et al. 2023, "DeBERTaV3". `class_of_each` is the class of each distance
    from 1 - length to length - 1, the query's position less the key's, and `norm` normalises their states.
    """

    class_of_each: Tensor

    def __init__(self, class_of_each: Tensor, states: nn.Embedding, norm: nn.Module) -> None:
        super().__init__()
        self.states = states
        self.norm = norm
        self.farthest = len(class_of_each) // 2
        self.register_buffer("class_of_each", class_of_each, persistent=False)

    def forward(self, visible: Tensor) -> Contexts:
        """Take visible (batch, token)."""
        index = _places(visible)
        classes = self.class_of_each[index[:, None] - index + self.farthest]  # (query, key)
        return Context(visible_keys(visible), distances=Distances(self.norm(self.states.weight), classes))


class Sight(nn.Module):
    """What a layer of a decoder sees: a token and all before it or, with a `window`, the last ones of these.

    Queries and keys are turned by `rotary`, if there is one.
    """

    def __init__(self, rotary: Rotary | None = None, window: int | None = None) -> None:
        super().__init__()
        self.rotary = rotary
        self.window = window

    def forward(self, visible: Tensor, positions: Tensor) -> Context:
        """Take visible (query, key) or (batch, 1, query, key), causal, and positions (query) or (batch, query).

        Positions are those of queries; keys stand at 0, 1, 2, ...
        """
        if self.window is not None:
            keys = torch.arange(visible.shape[-1], device=visible.device)
            away = positions[..., :, None] - keys  # (query, key) or (batch, query, key)
            visible = visible & (away if visible.ndim == away.ndim else away[:, None]).lt(self.window)
        return Context(visible, rotation=self.rotary(positions) if self.rotary else None)


class Sights(nn.Module):
    """Layers see in several ways: `way_of_each` says of each layer which."""

    def __init__(self, ways: Sequence[Sight], way_of_each: Sequence[int]) -> None:
        super().__init__()
        self.ways = nn.ModuleList(ways)
        self.way_of_each = tuple(way_of_each)

    def forward(self, visible: Tensor, positions: Tensor) -> Contexts:
        """Take what `Sight` takes -> a context for each layer."""
        seen = [way(visible, positions) for way in self.ways]
        return [seen[way] for way in self.way_of_each]


class Around(nn.Module):
    """Tokens of a text that is given at once see all others, as far as `sights` of a decoder and padding let."""

    def __init__(self, sights: nn.Module) -> None:
        super().__init__()
        self.sights = sights

    def seen(self, visible: Tensor) -> Tensor:
        """Take visible (batch, token) -> what each token may see, (batch, 1, query, key)."""
        return visible_keys(visible).expand(-1, -1, visible.shape[1], -1)

    def forward(self, visible: Tensor) -> Contexts:
        """Take visible (batch, token)."""
        seen = self.seen(visible)
        contexts: Contexts = self.sights(seen, _places(visible)[None])
        return contexts


class Before(Around):
    """Tokens see those before them alone."""

    def seen(self, visible: Tensor) -> Tensor:
        """Take visible (batch, token) -> what each token may see, (batch, 1, query, key)."""
        return visible_keys(visible) & causal(visible.shape[1], visible.device)


class SeenAlone(nn.Module):
    """Tokens see what a mask says; where they stand, their embeddings say."""

    def forward(self, visible: Tensor, query: Tensor, key: Tensor) -> Contexts:
        """Take visible (batch, heads, query, key), and positions of queries and keys."""
        return Context(visible)


class Apart(nn.Module):
    """A bias by distance is added to scores: one for all layers, or one of each layer's own."""

    def __init__(self, biases: Sequence[RelativeBias]) -> None:
        super().__init__()
        self.biases = nn.ModuleList(biases)

    def forward(self, visible: Tensor, query: Tensor, key: Tensor) -> Contexts:
        """Take visible (batch, heads, query, key), and positions of queries and keys, (token) or (batch, token)."""
        contexts = [Context(visible, bias(query, key)) for bias in self.biases]
        return contexts if len(contexts) > 1 else contexts[0]


def _places(visible: Tensor) -> Tensor:
    return torch.arange(visible.shape[1], device=visible.device)
