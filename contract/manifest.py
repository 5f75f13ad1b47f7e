"""The manifest of an artifact: everything that the service needs to know, so that it guesses nothing when it loads."""

from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from contract.contrast import Contrast
from contract.detection import Detection
from contract.example import MAX_FILE_BYTES, Example
from contract.generation import Generation
from contract.input_rules import KIND_NAME, InputRule, Inputs
from contract.part import NAME, FileName, Part, Size

Task = Literal[
    "image-classification",
    "text-classification",
    "token-classification",
    "question-answering",
    "feature-extraction",
    "sparse-embedding",
    "fill-mask",
    "text-generation",
    "text2text-generation",
    "image-to-text",
    "automatic-speech-recognition",
    "audio-classification",
    "graph-classification",
    "object-detection",
]

Role = Literal[
    "predict",
    "attention",
    "relevance",
    "libra",
    "integrated",
    "inside",
    "saliency",
    "hear",
    "encode",
    "decode",
    "align",
]

Sort = Literal["encoder", "decoder", "cross"]
"""What attends to what: an input to itself, an answer to itself, an answer to an input."""

KindName = Annotated[str, Field(pattern=KIND_NAME)]

Scales = Literal["row", "input", "fixed"]

Scores = Literal["softmax", "sigmoid", "identity"]

Method = Literal["raw", "rollout", "norm", "relevance", "libra", "integrated", "similar", "parts", "saliency"]

GradientMethod = Literal["relevance", "libra", "integrated"]
"""The methods that explain a score, each by a graph of its own, whose role has the name of the method."""

Omissible = Method | Literal["inside"]
"""What an artifact can be made without, if it is not raw: a method of attention, or the graph of what is inside."""

Dtype = Literal["float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool"]

GRADIENT_METHODS: tuple[GradientMethod, ...] = get_args(GradientMethod)

GRAPH_METHODS = ("raw", "rollout", "norm")
"""The methods whose maps the attention graph makes of weights. Its input `method` is an index into them."""

STATE_METHODS: tuple[Method, ...] = ("similar", "parts")
"""The methods that compare the states of tokens; the attention graph returns those after the layers `<kind>.after`."""

SALIENCY: Literal["saliency"] = "saliency"
"""The method that is of a picture alone, whatever its model makes of it, and the role of its graph."""

BASELINE = "baseline."
"""The prefix of the names of an integrated graph's inputs that hold the baseline."""

INSIDE = ("query", "key", "products", "scores", "weights", "value", "sum")
"""What the inside graph returns of each kind, as `<kind>.query` and so on."""

HIDDEN_SCORE = -6e4
"""A score of an inside graph that is at most this is that of a key which is hidden."""

FUSIONS = ("each", "mean", "max", "min")
"""Heads by index, or how all heads are fused. The attention graph's input `fusion` is an index into them."""

FIGURES = ("entropy", "special", "distance", "sink")
"""What `<kind>.diagnostics` holds along its last axis: images have all four (in windows not `sink`), others two."""

OBJECTS = "object"
"""The axis of what a detector looks for."""

POOL = "pool"
"""The axis of the one vector that attends to the last states of an encoder, and the name of that kind of attention."""

IMAGE_VISIBLE = "image_visible"
"""The input that says which cells of the grid begin in an image that was fitted in, (batch, cell)."""

SHOWN = "shown"
"""The input that says how many rows and columns of pixels an image fills that was fitted in, (batch, 2)."""

ANSWERED = "answered"
"""The input that says at which tokens of a target a decoder answers, (batch, answered). Without it, it does at all."""

BOX_NUMBERS = 4

LOGITS, BOXES = "logits", "boxes"
"""The two answers of a detector: for each object the logits of its class, and its box."""

BLANK = ""
"""The label of the class that writes nothing: no character begins at its frames, and one that follows is a new one."""

LEFT_OUT = "left out"
"""How `Manifest.verified` begins its entry for a method that the model has not, though its kind of model could."""

Name = Annotated[str, Field(pattern=NAME)]

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

MOST_EXAMPLES = 12

MAX_ABOUT_CHARACTERS = 300

MAX_ORDER = 1_000_000

COMPARING: tuple[Task, ...] = ("text-classification", "feature-extraction", "question-answering")
"""The tasks that take a second text: as a pair with the first, or to be compared with it."""

WEIGHTS = "weights.bin"
"""The file that holds the weights of all graphs of an artifact."""

LIGHT_BYTES = 16 << 20
"""A model whose weights take fewer bytes is light: one run takes about a millisecond on a CPU, and the service packs
its weights for each graph."""


class File(Part):
    """A file beside the manifest."""

    file: FileName
    sha256: Sha256
    bytes: int = Field(ge=0)


class Port(Part):
    """An input or output of a graph; an axis is a fixed size or the name of one that varies."""

    name: str
    dtype: Dtype
    axes: tuple[Size | str, ...]


class Graph(File):
    """One ONNX file, for one role."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


class Window(Part):
    """The windows of one layer: squares of tokens, cut after a cyclic shift up and to the left (Liu et al. 2021)."""

    side: Size = Field(description="in tokens")
    shift: int = Field(0, ge=0, description="in tokens")


class Kind(Part):
    """The maps of one kind, in layer order, and the inputs of the graphs that compute them.

    The attention graph returns the same answers as the prediction graph. If all its other inputs, the controls, are 0
    or empty, it computes nothing else. The controls are `method`, `fusion` and `diagnose`; for each kind
    `<kind>.layers`, `<kind>.rows`, where -1 alone stands for the mean of all rows of a kind that `averages` (of cells
    that are `image_visible`, if the graph takes that), `<kind>.heads` and `<kind>.special`, which marks the special
    tokens among its keys; and for a kind with rollout `<kind>.discard`, the number of entries of a layer that are set
    to 0, and of an image `<kind>.sinks`: a head that gives one patch more than this share is left out, unless it is 0.
    A kind whose states are compared has `<kind>.after`, the layers after which they are returned.
    It returns `<kind>` (batch, heads, layers in their order, rows, key) and `<kind>.diagnostics` (batch, layer,
    head, query, figure), and `<kind>.states` (batch, layers in their order, query, width). Where tokens look around in
    windows, rows have zeros outside of theirs. Stages are kinds of their own: the rollout and the relevance of one that
    is `carried` have the keys of the first, through the stages between.

    The graphs relevance, libra and integrated explain a score. It is the logit of `explained` (batch): a class or
    token, or a negative number for the likeliest; less the logit of `against` (batch), unless that is negative. For a
    sequence they take the `position` (batch) of the token. For embeddings it is the cosine with `other` (batch, width).

    The relevance graph takes `rows` (batch, row) and `<kind>.layers` where there is only one kind, and returns `<kind>`
    (batch, row, key). The libra graph returns `<kind>` (batch, layer, key), the `biases` behind each layer (batch,
    layer), and the `score` (batch). The integrated graph runs at one point between a baseline and the input: it takes
    the tokens or pixels of the baseline as `baseline.<input>`, the weight of its states `blank` (batch), 0 for states
    of zeros, and the `point` (batch) from 0 to 1; it returns `<kind>` (batch, key): gradient times difference, summed
    over channels, or 0 where every row's point is an end, 0 or 1; and the `score` (batch).

    The saliency graph takes pixels, and how much of them is `shown`, as far as the model does. It returns `<kind>`
    (batch, key) of one kind, 0 for tokens that are no patches.

    The inside graph is there where all attention is of scaled products (Vaswani et al. 2017). It takes `<kind>.layers`,
    and the positions of one `query` (batch) and one `key` (batch). For each head and layer it returns the vectors
    `<kind>.query` q, `<kind>.key` k and `<kind>.value` v (batch, heads, layer, width); of that query and all keys the
    `<kind>.products` q·k/√width, the `<kind>.scores` (products, and what is added to them; at most `HIDDEN_SCORE` of a
    hidden key) and the `<kind>.weights`, their softmax (batch, heads, layer, key); and `<kind>.sum` (batch, heads,
    layer, width), the weighted sum of all values.
    """

    name: KindName = Field(description="unique in a model; of its inputs and outputs in the graphs, and of its maps")
    kind: Sort
    methods: tuple[Method, ...]
    maps: tuple[str, ...] = Field(description="for each layer, the path of the module that made the map")
    heads: Size
    query: str = Field(description="name of the axis")
    key: str = Field(description="name of the axis")
    normalized: bool = Field(description="true if rows sum to one")
    abreast: Size = Field(
        1, description="parallel attentions in a layer, whose maps add up: the number of maps in a row"
    )
    prefix: int = Field(0, description="tokens before the first patch or word, such as a class token")
    suffix: int = Field(0, ge=0, description="tokens behind the last patch, each of which becomes an object")
    grid: tuple[Size, Size] | None = Field(None, description="rows and columns of patches, for images")
    windows: tuple[Window, ...] = Field((), description="of each layer; empty where all tokens see all")
    carried: KindName | None = Field(None, description="the kind whose keys rollout and relevance have, if not its own")
    pooled: Literal["first", "last", "all"] = Field("first", description="the rows that an answer is made of")

    @model_validator(mode="after")
    def _whole_layers(self) -> "Kind":
        if len(self.maps) % self.abreast:
            raise ValueError("maps must be as many for each layer as abreast says")
        return self

    @property
    def fed(self) -> str:
        """Name of the axis of its keys in the graphs: a target's input is as long as the target."""
        return self.key.removesuffix("_input")

    @property
    def parallel(self) -> int:
        """Parallel attentions in one layer (Touvron et al. 2022). The manifest calls the number `abreast`."""
        return self.abreast

    @property
    def blocks(self) -> int:
        """Blocks of its stack, each of which has as many maps as there are parallel attentions."""
        return len(self.maps) // self.abreast

    @property
    def compares_states(self) -> bool:
        """True if the attention graph returns its states."""
        return any(method in self.methods for method in STATE_METHODS)

    @property
    def patches(self) -> slice:
        """Which tokens of an image are its patches."""
        rows, columns = self.grid or (0, 0)
        return slice(self.prefix, self.prefix + rows * columns)

    @property
    def length(self) -> int:
        """Tokens of an image: the prefix, the patches, and the suffix."""
        return int(self.patches.stop) + self.suffix

    def weights(self, queries: int, keys: int) -> int:
        """Return how many weights a head of a layer has; of windows, without the zeros outside of them."""
        return queries * max((window.side**2 for window in self.windows), default=keys)

    @property
    def averages(self) -> bool:
        """True if the graphs can return the mean of all rows: of patches without a token that stands for all."""
        return self.grid is not None and self.query == self.key and not self.prefix

    @property
    def has_sinks(self) -> bool:
        """True if a patch can be the sink of a head: all tokens of an image see all patches."""
        return self.grid is not None and self.query == self.key and not self.windows

    @property
    def first_object(self) -> int | None:
        """The row of the first object, of which the others follow; None if no row is one."""
        if self.query == OBJECTS:
            return 0
        return self.length - self.suffix if self.suffix else None


class Recommendation(Part):
    """The method that explained this model best, by one measure of its task."""

    method: Method
    measure: str = Field(description="such as deletion area; what it is measured on stands beside the weights")
    values: dict[Method, float] = Field(description="of each method that was measured")


class Manifest(Part, Inputs):
    """`manifest.json`."""

    schema_version: Literal[6] = 6
    name: Name
    version: Name
    family: str
    task: Task
    about: Annotated[str, Field(min_length=1, max_length=MAX_ABOUT_CHARACTERS)] | None = Field(
        None, description="a sentence for those who see the model for the first time"
    )
    order: int = Field(100, ge=0, le=MAX_ORDER, description="models are listed by it, equal ones by name")
    examples: Annotated[tuple[Example, ...], Field(max_length=MOST_EXAMPLES)] = ()
    precision: Literal["fp32", "fp16", "bf16", "int8", "int4"]
    scales: Scales | None = Field(
        None,
        description="of int8, what a scale is of: a token, a whole input (which then runs alone), or fixed at export; "
        "encode and decode have those of tokens; null is that of tokens too",
    )
    graphs: dict[Role, Graph]
    files: tuple[File, ...] = Field(description="everything else in the folder: weights, tokenizer")
    inputs: tuple[InputRule, ...] = Field(description="of one request, by name")
    labels: tuple[str, ...] = Field(
        (),
        description="of classes; of speech recognition without generation, what each class of a frame writes: a space "
        "ends a word, and the blank writes nothing (Graves et al. 2006)",
    )
    scores: Scores = Field(
        "softmax",
        description="logits to probabilities: one label, or each for itself; identity: logits are answered as they are",
    )
    attention: tuple[Kind, ...]
    width: Size | None = Field(None, description="numbers in the state of a token, where states can be explained")
    generation: Generation | None = None
    detection: Detection | None = None
    contrast: Contrast | None = Field(None, description="the model that this one is compared with, and how")
    explained: Literal["fp32"] | None = Field(
        None, description="precision of the graphs that explain a score, where it is not that of the others"
    )
    best: Recommendation | None = Field(None, description="null where no method was measured on this model")
    made_by: dict[str, str | int | float | bool | list[int]] = Field(
        description="definition, sizes, sha256 of the weights, versions of the libraries"
    )
    verified: dict[str, str | float | list[list[int]]] = Field(
        description="worst differences measured at export, by what was compared, and the shapes tried"
    )

    @model_validator(mode="after")
    def _whole(self) -> "Manifest":
        for what, names in (
            ("input", [rule.name for rule in self.inputs]),
            ("kind of attention", [kind.name for kind in self.attention]),
        ):
            if len(set(names)) != len(names):
                raise ValueError(f"each {what} must have a name of its own")
        if not self.inputs:
            raise ValueError("a model must have an input")
        if self.generation and not {"encode", "decode"} <= self.graphs.keys():
            raise ValueError("generation needs the graphs encode and decode")
        if (self.task == "object-detection") != (self.detection is not None):
            raise ValueError("detection is for object-detection, which needs it")
        if self.contrast and (self.task != "feature-extraction" or self.contrast.partner == self.name):
            raise ValueError("contrast is for feature-extraction, and names another model")
        if self.task == "automatic-speech-recognition" and not self.generation and self.labels.count(BLANK) != 1:
            raise ValueError("labels of speech recognition without generation must hold one blank")
        if self.detection and (self.image is None or not self.labels):
            raise ValueError("detection needs an image rule and labels")
        listed = [file.file for file in self.all_files()]
        if len(set(listed)) != len(listed):
            raise ValueError("a file is listed twice")
        if self.text and self.text.tokenizer not in listed:
            raise ValueError("the tokenizer is not among the files")
        if self.generation and self.generation.tokenizer and self.generation.tokenizer not in listed:
            raise ValueError("the targets' tokenizer is not among the files")
        return self

    @model_validator(mode="after")
    def _examples_fit(self) -> "Manifest":
        sizes = {file.file: file.bytes for file in self.files}
        for example in self.examples:
            if (example.image is None) != (self.image is None) or (example.sound is None) != (self.sound is None):
                raise ValueError("examples must be images or sounds where the model takes these, and else texts")
            if example.text_pair is not None and self.task not in COMPARING:
                raise ValueError(f"text_pair is for {', '.join(COMPARING)}")
            if example.file and example.file not in sizes:
                raise ValueError("the file of an example is not among the files")
            if example.file and sizes[example.file] > MAX_FILE_BYTES:
                raise ValueError(f"the file of an example must have at most {MAX_FILE_BYTES} bytes")
        return self

    @property
    def answers(self) -> tuple[Port, ...]:
        """What the model answers in one pass: the outputs of the attention graph that are not of attention."""
        shown = {f"{kind.name}{end}" for kind in self.attention for end in ("", ".diagnostics", ".states")}
        return tuple(port for port in self.graphs["attention"].outputs if port.name not in shown)

    def label_of(self, index: int) -> str:
        """Return the name of a class; its index where it has none."""
        return self.labels[index] if self.labels else str(index)

    def all_files(self) -> tuple[File, ...]:
        """Every file the folder holds beside the manifest."""
        return (*self.graphs.values(), *self.files)


def was_left_out(manifest: Manifest, method: Omissible) -> bool:
    """Return whether the export left a method, or `inside`, out. The entry of `verified` holds the reason."""
    return str(manifest.verified.get(method, "")).startswith(LEFT_OUT)
