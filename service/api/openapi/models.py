"""What is said of the service and its models."""

from typing import Literal

from pydantic import Field

from contract.chat import Chat
from contract.generation import Sampling
from contract.manifest import Scales, Task
from service.api.openapi.attention import Best, Grid, Kind, Method, Sort
from service.api.openapi.components import Part
from service.api.openapi.requests import GraphObject
from service.repository.models.served_model import ModelState


class Live(Part):
    """The process answers."""

    live: Literal[True]


class Ready(Part):
    """Every session has run once."""

    ready: Literal[True]


class Reloaded(Part):
    """What became of one model."""

    model: str
    version: str
    outcome: Literal["loaded", "replaced", "unchanged", "removed", "refused"]
    reason: str | None = Field(None, description="of one that is refused")


class Reload(Part):
    """What became of each model."""

    models: list[Reloaded]


class Example(Part):
    """An input to try a model on: texts, or a graph, or where its picture or sound is found."""

    text: str | None = None
    text_pair: str | None = Field(None, description="of feature-extraction, a text to compare with the first")
    image: str | None = Field(None, description="the path of the picture")
    sound: str | None = Field(None, description="the path of the sound")
    graph: GraphObject | None = None
    type: str | None = Field(None, description="the media type of a picture or sound")
    labels: list[str] | None = Field(None, description="labels to choose among for the picture")


class ImageSize(Part):
    """The size that a model scales images to."""

    height: int
    width: int
    channels: int


class TextSize(Part):
    """What a model takes of a text."""

    max_tokens: int
    mask: str | None = Field(None, description="of fill-mask: how a mask is written")
    prompt: str | None = Field(None, description="put before every text")
    prompts: dict[str, str] | None = Field(None, description="what may be put there instead, by name")
    default_prompt: str | None = Field(None, description="the name of what is put there")
    chat: Chat | None = Field(None, description="of models that take messages: how these become a text")
    no_chat: str | None = Field(None, description="why none are taken, though the checkpoint has a template of chats")


class SoundSize(Part):
    """What a model takes of a sound, whatever its rate."""

    rate: int = Field(description="samples a second")
    seconds: float = Field(description="of a window; a longer sound has several")
    step: float = Field(description="seconds of a frame")


class GraphSize(Part):
    """What a model takes of a graph."""

    nodes: int = Field(description="at most")
    edges: int = Field(description="at most")
    node_types: list[str]
    edge_types: list[str]
    directed: bool = Field(description="false: edges lead both ways")
    plain: int | None = Field(description="the type of a node that says nothing")


class BestMethod(Best):
    """The method that explained the model best, by one measure of its task."""

    method: Method


class Window(Part):
    """Windows of a layer: squares of tokens, cut after a cyclic shift."""

    side: int
    shift: int


class AttentionKind(Part):
    """One kind of attention of a model."""

    kind: Sort = Field(description="what attends to what")
    layers: int = Field(description="maps, one for each attention of a layer")
    blocks: int = Field(description="layers whose states can be compared")
    heads: int
    query: str = Field(description="what rows stand for")
    key: str = Field(description="what columns stand for")
    prefix: int = Field(description="tokens before the first patch or word, such as a class token")
    suffix: int = Field(description="tokens behind the last patch, each of which becomes an object")
    windows: list[Window] = Field(description="of each layer whose tokens look around in windows")
    grid: Grid | None = Field(description="of the patches of an image")
    normalized: bool = Field(description="true if rows sum to one")
    abreast: int = Field(description="parallel attentions in a layer, whose maps add up")
    methods: list[Method]
    inside: bool = Field(description="true if GET /v1/attention/{id}/inside looks into it")
    maps: list[str] = Field(description="for each layer, the path of the module that makes the map")


class ModelAttention(Part):
    """What can be asked of a model's attention, and how exact it is."""

    methods: list[Method]
    best: BestMethod | None = Field(description="null where it was not measured")
    usual: dict[str, str | float] = Field(
        description="options of attention that show best what was looked at, as far as is known; of a detector, for "
        "one object"
    )
    baselines: list[str] = Field(description="of integrated")
    kinds: dict[Kind, AttentionKind]
    fidelity: dict[str, str | float | list[list[int]]] = Field(
        description="worst differences measured at export, by what was compared, and the shapes tried"
    )


class Limits(Part):
    """The limits of one request."""

    inputs: int
    answer_bytes: int
    image_bytes: int | None = None
    image_pixels: int | None = None
    audio_bytes: int | None = None
    audio_seconds: float | None = None
    max_new_tokens: int | None = None
    num_beams: int | None = None
    explained_tokens: dict[Method, int] | None = Field(
        None,
        description="of models that write from a text, by method: the tokens of it, or with what continues it, over "
        "which one written token can be explained",
    )


class Detection(Part):
    """What a detector looks for."""

    objects: int = Field(description="how many in every image")
    threshold: float = Field(description="probability from which an object counts as found, by default")


class Languages(Part):
    """The languages of a model, by the codes of `source_language` and `target_language`."""

    codes: list[str]
    source: str | None = Field(description="where a request does not say; null if the model is not told")
    target: str | None = Field(description="where a request does not say; null if the model chooses")


class SpeechModel(Part):
    """What options of transcribe may be."""

    languages: list[str] = Field(description="empty of a model that knows one")
    tasks: list[str]
    timestamps: list[str]


class ModelEntry(Part):
    """A model as OpenAI's protocol lists it."""

    id: str
    object: Literal["model"]
    created: int = Field(description="seconds since 1970")
    owned_by: str


class ContrastedModel(Part):
    """The model that another one is compared with, and how: scale·cos + bias, of the cosine of two vectors."""

    partner: str = Field(description="its name; either of the two takes pictures and texts")
    scale: float
    bias: float
    scores: Literal["softmax", "sigmoid"] = Field(description="how scores of a picture's labels become probabilities")


class Model(ModelEntry):
    """What one model takes, answers and shows."""

    name: str
    version: str
    family: str
    task: Task
    about: str | None = Field(description="a sentence for newcomers")
    order: int = Field(description="by which models are listed")
    examples: list[Example]
    state: ModelState = Field(description="failed: its runs fail; it is tried again every few seconds")
    ready: bool
    provider: str = Field(description="what onnxruntime runs it on")
    precision: str
    weights_sha256: str | None = Field(description="of the file of weights that it was exported from")
    scales: Scales | None = Field(description="of int8, what a scale is of")
    endpoints: list[str] = Field(description="the ends of the paths that serve it, such as classify")
    inputs: ImageSize | TextSize | SoundSize | GraphSize
    labels: list[str] | int = Field(description="their number where there are more than 100")
    attention: ModelAttention
    limits: Limits
    sampling: Sampling | None = Field(None, description="of models that sample where a request does not say")
    languages: Languages | None = Field(None, description="of models that translate among several")
    speech: SpeechModel | None = Field(None, description="of models that write what was said")
    detection: Detection | None = Field(None, description="of detectors")
    contrast: ContrastedModel | None = Field(None, description="of models that are compared: pictures with texts")
    zero_shot: dict[str, int] | None = Field(None, description="the classes of models that take labels of a request")


class Models(Part):
    """The models that are loaded, with all that is known of them (`models`), and as OpenAI lists them (`data`)."""

    object: Literal["list"]
    data: list[ModelEntry]
    models: list[Model]
