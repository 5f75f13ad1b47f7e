"""What an answer says of attention: its maps, what their axes stand for, and figures about them."""

from typing import Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from contract import manifest
from service.api.openapi.components import Part
from service.explanations.evaluation import MeasureName

Method = TypeAliasType("Method", manifest.Method)
Kind = TypeAliasType("Kind", manifest.KindName)
Sort = TypeAliasType("Sort", manifest.Sort)
"""A type of this form is a component of its name."""


class Token(Part):
    """A token, or a word, of an axis that is a text; or a node of a graph."""

    text: str
    span: tuple[int, int] | None = Field(
        description="characters of the text that was sent, or the place of a node; null for special tokens"
    )
    special: bool
    sequence: int | None = Field(None, description="0 or 1: the text of a pair that it is in")
    message: int | None = Field(None, description="of a chat: the message that it is in, the answer's behind the last")
    role: Literal["system", "user", "assistant"] | None = Field(None, description="whose message that is")


class Grid(Part):
    """The patches of an image."""

    rows: int
    columns: int


class Box(Part):
    """A rectangle, in pixels of the image as it was sent, upright."""

    left: float
    top: float
    right: float
    bottom: float


class Detected(Part):
    """An object of an image."""

    label: str
    index: int = Field(description="of the class")
    probability: float
    object: int = Field(description="its number, by which its relevance is asked for")
    box: Box


class Frames(Part):
    """The frames of a sound, in seconds; those behind `count` are silence."""

    step: float
    start: float
    count: int


class Axes(Part):
    """What the rows and columns of maps stand for: tokens, or the patches of an image behind `prefix` other tokens."""

    source: list[Token] | None = Field(None, description="of the text that was sent")
    target: list[Token] | None = Field(None, description="that each row of a generated text emitted")
    target_input: list[Token] | None = Field(None, description="that each row of a generated text was fed")
    object: list[Detected] | None = Field(None, description="all that a detector looks for, found or not")
    node: list[Token] | None = Field(
        None, description="of the graph that was sent, behind a virtual one if there is one"
    )
    frame: Frames | None = None
    grid: Grid | None = None
    prefix: int | None = Field(None, description="tokens before the first patch, such as a class token")


class SentGraph(Part):
    """The graph as it was read, and where its nodes may be drawn."""

    directed: bool
    edges: list[tuple[int, int, int]] = Field(description="from which node, to which, and the index of the type")
    places: list[tuple[float, float]] = Field(description="of each node: across and down, from 0 to 1")


class SentImage(Part):
    """The image as it was sent, and the rectangle of it that the grid covers."""

    width: int
    height: int
    orientation: int = Field(description="that EXIF states, 1 to 8; width, height and box are of the upright image")
    box: Box


class ExplainedClass(Part):
    """The class or token whose score a map explains, or what it is explained against."""

    index: int | None = Field(None, description="of a class")
    mask: int | None = Field(None, description="of fill-mask: which mask of the text")
    object: int | None = Field(None, description="of a detector: the number of the object")
    entity: int | None = Field(None, description="of tag: its number")
    answer: int | None = Field(None, description="of answer: its number")
    part: Literal["start", "end"] | None = None
    position: int | None = Field(None, description="of an entity's first token, or of an answer's end")
    token: int | None = Field(None, description="of fill-mask and generated texts")
    label: str | None = Field(None, description="the class, the text of a token that fills a mask, or the end")
    text: str | None = Field(None, description="of a generated token")


class Conserved(Part):
    """Of libra: how shares add up."""

    tokens: float = Field(description="their sum over all tokens")
    biases: float = Field(description="their sum over the biases behind the layer")
    score: float = Field(description="the score, which both make")
    precision: str | None = Field(None, description="that the score is computed in, where predictions have another")


class Completeness(Part):
    """Of integrated: how shares add up."""

    tokens: float = Field(description="their sum over all tokens")
    score: float
    baseline: float = Field(description="the score of the baseline")
    error: float = Field(description="of the sum: tokens - (score - baseline)")
    relative_error: float = Field(
        description="its size as a share of that difference; where it is above 0.05 the values say little"
    )
    precision: str | None = Field(None, description="that the scores are computed in, where predictions have another")


class Share(Part):
    """What some columns of a row make up."""

    sum: float
    share: float = Field(description="of the sum of all absolute values")


class Parts(Part):
    """What the parts of a generated token's row make up."""

    source: Share | None = Field(None, description="of all but chats")
    instructions: Share | None = Field(None, description="of a chat: the system's message")
    context: Share | None = Field(None, description="of a chat: all other messages")
    prefix: Share = Field(description="the tokens generated before it")
    start: Share | None = Field(None, description="the token that generation starts with")
    template: Share | None = Field(None, description="of a chat: what the model's form puts around messages")


class ExplainedToken(Part):
    """A generated token that a row explains, and figures of the row."""

    position: int
    token: int
    text: str
    against: ExplainedClass | None = None
    conserved: Conserved | None = None
    completeness: Completeness | None = None
    steps: int | None = Field(None, description="of integrated: points of its path")
    parts: Parts | None = None


class Pooled(Part):
    """The numbers of rows and columns of a map whose values are those of blocks of them."""

    queries: int
    keys: int


class Map(Part):
    """The attention map of one module, or of several layers combined."""

    name: str = Field(description="path of the module that made it")
    kind: Kind
    layer: int | None = Field(description="null where layers are joined")
    layers: list[int] | None = Field(None, description="those that are joined")
    heads: Literal["mean", "max", "min", "sum"] | list[int] | None = Field(
        description="null of similar, parts and saliency"
    )
    queries: None = Field(None, description="where one row stands for the whole answer, or the whole picture")
    by_message: list[list[list[float]]] | None = Field(
        None,
        description="of a chat, by head and row: the sum of the values of each message's tokens; last of the others",
    )
    rows: list[int] | None = Field(None, description="of a text with some of the rows: which tokens they stand for")
    normalized: bool = Field(description="true if each row sums to one")
    signed: bool | None = Field(None, description="true of libra and integrated: values are shares of a score")
    grid: Grid | None = Field(None, description="of its columns, where the stages of a model have different ones")
    objects: list[int] | None = Field(None, description="of found objects: the number of each row's object")
    target: ExplainedClass | None = Field(None, description="the class, mask or object that is explained")
    targets: list[ExplainedToken] | None = Field(None, description="the generated token that each row explains")
    against: ExplainedClass | None = Field(None, description="what the target is explained against")
    conserved: Conserved | None = None
    completeness: Completeness | None = None
    steps: int | None = Field(None, description="of integrated: points of the path; of several targets, the fewest")
    baseline: str | None = Field(None, description="of integrated: where the path begins")
    aligned: list[list[int]] | None = Field(
        None, description="of cross with `hard`: by head, the column that each row looks at most"
    )
    shape: tuple[int, int, int] = Field(description="heads, queries, keys; of parts red, green and blue are the first")
    pool: Pooled | None = None
    dtype: Literal["float32", "uint8"] | None = Field(None, description="of values in base64")
    scale: float | None = Field(None, description="of uint8: with n = byte - zero, a value is n |n| scale")
    zero: int | None = Field(None, description="of uint8 where a value is negative: the byte of 0; else it is 0")
    values: list[list[list[float]]] | str = Field(description="lists, or base64 of an array of that shape and dtype")


class Sink(Part):
    """A head that gives most of its attention to one patch, whichever token asks."""

    layer: int
    head: int
    share: float = Field(description="of the attention of all rows, that of the patch")


class Diagnostics(Part):
    """Figures of the layers and heads of one kind, each a list for each layer of a number for each head."""

    kind: Kind
    max_entropy: float = Field(description="that of a row which looks at all columns alike, in nats")
    entropy: list[list[float]] = Field(description="of a row, in nats, the mean of all rows")
    special: list[list[float]] = Field(description="the mass on special tokens")
    distance: list[list[float]] | None = Field(None, description="of images: to the patches that are looked at")
    sink: list[list[float]] | None = Field(
        None, description="of images, but not in windows: the largest share of all rows' attention that one patch has"
    )
    sinks: list[Sink] | None = Field(None, description="with `sink`: the heads where it is more than a half")


class RandomCurve(Part):
    """The curve of a random order; of the first one, with those of `others`."""

    seed: int
    probabilities: list[float]
    area: float
    others: "list[RandomCurve] | None" = None


class Curve(Part):
    """How the score changes as parts are taken away, or put back, in the order of a map; beside a random order's."""

    name: Literal["deletion", "insertion"]
    probabilities: list[float] = Field(description="the measure at each of the fractions")
    area: float = Field(description="under the curve: its mean height")
    random: RandomCurve


class MethodCurve(Part):
    """The curve of a method in a comparison."""

    probabilities: list[float]
    area: float


class Compared(Part):
    """The curves of a method, or of the random order, in a comparison."""

    method: str = Field(description="or random")
    seed: int | None = Field(None, description="of the random order")
    deletion: MethodCurve
    insertion: MethodCurve


class Evaluation(Part):
    """Curves of deletion and insertion, of one map (`curves`) or of all methods (`compare`)."""

    target: int | None = Field(description="the class or token whose score is measured; null of embeddings")
    mask: int | None = Field(None, description="of fill-mask: which mask of the text")
    object: int | None = Field(None, description="of a detector: the number of the object")
    entity: int | None = Field(None, description="of tag: its number")
    answer: int | None = Field(None, description="of answer: its number")
    part: Literal["start", "end"] | None = None
    position: int | None = Field(None, description="of the token in a generated text, or of a label")
    measure: MeasureName
    fractions: list[float] = Field(description="of the parts that are taken away or put back")
    curves: list[Curve] | None = None
    compare: list[Compared] | None = None


class Best(Part):
    """By which measure the method is the best."""

    measure: str
    values: dict[Method, float] = Field(description="of each method that was measured")


class OtherAttention(Part):
    """The other input of an embedding: its kind and, where both sides are asked for, its attention."""

    kind: Literal["text", "image", "id"] = Field(description="how the request names it")
    than: dict[str, str] | None = Field(None, description="of two, the `kind` of that whose likeness is taken off")
    method: Method | None = None
    maps: list[Map] | None = None
    tokens: Axes | None = None
    image: SentImage | None = None
    graph: SentGraph | None = None
    best: Best | None = None


class Place(Part):
    """A row or a column."""

    position: int
    text: str | None = Field(None, description="of a token")


class InsideHead(Part):
    """The numbers of a head, which add up."""

    head: int
    query: list[float] = Field(description="q")
    key: list[float] = Field(description="k")
    bias: float | None = Field(description="added to the product; null where the key is hidden")
    score: float | None = Field(description="scale * sum(q * k) + bias; null where the key is hidden")
    scores: list[float | None] = Field(description="of all keys; their softmax are the weights")
    weight: float
    value: list[float] = Field(description="v")
    sum: list[float] = Field(description="of weight * v over all keys")


class Inside(Part):
    """What the heads of a layer make of a row and a column."""

    id: str
    model: str
    version: str
    kind: Kind
    layer: int
    query: Place
    key: Place
    scale: float
    heads: list[InsideHead]


class Attention(Part):
    """The attention maps of one input, where the request asks for them."""

    method: Method
    maps: list[Map]
    tokens: Axes
    image: SentImage | None = None
    graph: SentGraph | None = None
    diagnostics: list[Diagnostics] | None = Field(None, description="entropy and other figures, where asked for")
    best: Best | None = Field(None, description="where the best method was asked for")
    against: OtherAttention | None = Field(None, description="the other input of an embedding")
    evaluation: Evaluation | None = Field(None, description="where asked for")
