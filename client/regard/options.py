"""The options of attention, as the service has them. `python -m client.signatures` writes them into methods.

Each says what it means and, in brackets, what it is where it is left out.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, TypedDict

from regard.maps import Json, KindName

Method: TypeAlias = Literal[
    "raw", "rollout", "norm", "relevance", "libra", "integrated", "similar", "parts", "saliency", "best"
]
"""How maps are computed; the service's docs/attention.md says which to take for which question."""
Indices: TypeAlias = int | Sequence[int] | str
"""An index, several, `"all"`, a range such as `"8:12"`, or of heads `"mean"`, `"max"`, `"min"`."""


class AttentionOptions(TypedDict, total=False):
    """Options of attention beside the method. Those that are left out have the service's defaults."""

    kind: KindName
    """Which attention: encoder, decoder or cross (all that the model has)."""
    layers: Indices
    """-1, [0, 1], "8:12" or "all" (the last one for raw and norm; else all, or what the method needs)."""
    heads: Indices
    """Which heads, "all" for each of them, or how they are fused: "mean", "max", "min" ("mean")."""
    queries: Indices | str
    """Rows: "all", "cls", "mean", or their numbers (the class token's, or the mean of all, or of a text all)."""
    target: int | str | Json | Sequence[int | str | Json]
    """What relevance, libra and integrated explain: a class, a place, an entity or an object (what was answered)."""
    threshold: float
    """Of a detector: the probability from which an object counts as found, and has a row (that of the answer)."""
    against: Mapping[str, object] | object
    """What it is explained against: another class or token, {"label": "7"}; of embeddings another answer, picture or
    text; of libra and integrated a list of two: what makes it like the first rather than like the second; of `rerank`
    another text (nothing)."""
    sides: Literal["own", "both"]
    """Of embeddings: "both" explains the other input too ("own")."""
    baseline: Literal["empty", "mask", "padding", "zero"]
    """Of integrated: where the path begins (the first of these that the model has)."""
    steps: bool | int
    """Of integrated: points of the path (16); of a stream, True for a row with each token (False)."""
    fusion: Literal["mean", "max", "min"]
    """Of rollout: how heads are fused ("mean")."""
    start_layer: int
    """Of rollout: the first layer, without those before (0)."""
    discard: float
    """Of rollout: the share of a layer's smallest weights that count as 0 (0.0)."""
    sinks: Literal["keep", "out"]
    """Of rollout of images: "out" leaves out heads that look at one patch, whatever they are asked ("keep")."""
    align: Literal["emit", "input"]
    """The row of a token that was written: where it came out, or where it went in ("emit")."""
    hard: bool
    """Also the token that each row of cross looks at most (False)."""
    merge: Literal["words", "sentences"]
    """"words" adds up the tokens of each word, "sentences" of each sentence (tokens)."""
    diagnostics: bool
    """Also figures of every head: entropy, weight on special tokens, distance, sink (False)."""
    evaluate: Sequence[Literal["deletion", "insertion", "compare"]]
    """Also curves of the score as what the map shows is taken away or put back (none)."""
    orders: int
    """Of these curves: how many random orders are beside them (1)."""
    pool: int
    """Larger maps come as the largest value of each block, at most this number a side (whole)."""


class LookOptions(AttentionOptions, total=False):
    """Options of what is looked at for an answer: those of attention, and how the input is read."""

    truncate: bool
    """Cut a text that is too long, which is refused otherwise (False)."""
    overflow: Literal["window"]
    """Read a text that is too long in overlapping windows (refused)."""
    stride: int
    """How many tokens a window shares with the one before (128, or half of a smaller one)."""
    aggregate: Literal["none", "simple", "first", "average", "max"]
    """How tokens become entities ("simple")."""
    ignore: Sequence[str]
    """Labels that are no entity (["O"])."""
    dimensions: int
    """The first numbers of a vector alone (all)."""
    prompt_name: str
    """Which of the model's prompts is put before every text (the model's default)."""
    prompt: str
    """What is put before every text, in place of the model's prompt (the model's)."""
    priority: Literal["interactive", "batch"]
    """"batch" lets others go first ("interactive")."""


class PictureOptions(LookOptions, total=False):
    """Options of attention that the service draws."""

    width: int
    """Pixels, 64 to 4096 (of an image its own, of texts what they need)."""
    colormap: Literal["viridis", "magma", "inferno", "turbo", "gray"]
    """Colours of the heat ("viridis")."""
    opacity: float
    """Of the heat where it is hottest, 0 to 1 (0.8)."""
    ground: Literal["grey", "photo"]
    """Under the heat: the picture in grey, or as it was sent ("grey")."""
    scale: Literal["clipped", "full"]
    """Colours end at the 98th percentile, or at the largest value ("clipped")."""


class AskedAttention(AttentionOptions, total=False):
    """Attention that is asked for beside a prediction: its method and options."""

    method: Method
    """How maps are computed (what measured best on this model)."""


class LookedAt(AskedAttention, LookOptions, total=False):
    """What `attention` takes: its method and options, and how the input is read."""
