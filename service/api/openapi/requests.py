"""What the predictions take: documents in JSON, forms, and options in the query."""

from typing import Annotated, Any, Literal, get_args

from pydantic import Field, WithJsonSchema

from contract.manifest import Method
from service.api.openapi.components import COMPONENTS, Json, without_null
from service.options.answers import SpanOptions
from service.options.attention import AttentionOptions
from service.options.base import Options, RequestOptions
from service.options.generation import GenerateOptions
from service.options.inside import InsideOptions
from service.options.predictions import (
    CutOptions,
    DetectOptions,
    PromptOptions,
    Threshold,
    WindowOptions,
)
from service.options.tags import EntityOptions
from service.options.transcription import TranscribeOptions

BINARY: Json = {"type": "string", "format": "binary"}
Base64 = Annotated[str, WithJsonSchema({"type": "string", "format": "byte"})]


class TextPair(Options):
    """Two texts that are read together."""

    text: str
    text_pair: str


class Question(Options):
    """A question, and the text that answers it."""

    question: str
    context: str


class Images(Options):
    """Images in base64, and attention."""

    images: list[Base64] = Field(description="encoded, in base64 or as data: URLs")
    attention: AttentionOptions = AttentionOptions()


class Sounds(Options):
    """Sounds in base64, and attention."""

    audio: list[Base64] = Field(description="encoded, in base64 or as data: URLs")
    attention: AttentionOptions = AttentionOptions()


class NodeOfType(Options):
    """A node, with an id of its own where edges name nodes by these."""

    type: int | str | None = Field(None, description="by index or name; a node without one says nothing")
    id: int | str | None = None


class EdgeBetween(Options):
    """An edge, as networkx writes it."""

    source: int | str
    target: int | str
    type: int | str | None = Field(None, description="by index or name; may be left out where there is one type")


class GraphObject(Options):
    """A graph, in a short form or as networkx writes it (`node_link_data`)."""

    nodes: list[int | str | NodeOfType] = Field(description="the type of each")
    edges: list[tuple[int | str, int | str] | tuple[int | str, int | str, int | str] | EdgeBetween] = Field(
        [], description="from which node, to which, and the type"
    )
    directed: bool | None = Field(None, description="false: edges lead both ways; by default as the model has it")


class Graphs(Options):
    """Graphs, and attention."""

    graphs: list[GraphObject]
    attention: AttentionOptions = AttentionOptions()


class Texts(Options):
    """Texts, and attention."""

    inputs: str | list[str]
    attention: AttentionOptions = AttentionOptions()


class TextPart(Options):
    """A part of a message."""

    type: Literal["text"]
    text: str


class ChatMessage(Options):
    """A message of a chat; developer is another word for system."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]


class Messages(Options):
    """The messages of a chat, and attention."""

    messages: list[ChatMessage] = Field(description="in their order; the system's is the first, the user's the last")
    attention: AttentionOptions = AttentionOptions()


class TextsOrPairs(Options):
    """Texts or pairs of texts, and attention."""

    inputs: str | TextPair | list[str | TextPair]
    attention: AttentionOptions = AttentionOptions()


class AttendImages(GenerateOptions, CutOptions, Images):
    """Images to attend to. `threshold` is of detectors, `dimensions` of embeddings, the rest of what generates."""

    threshold: Threshold = None


class AttendGraphs(CutOptions, Graphs):
    """Graphs to attend to. `dimensions` is of embeddings."""


class AttendTexts(GenerateOptions, EntityOptions, SpanOptions, WindowOptions, PromptOptions):
    """Texts to attend to. `truncate` and pairs are of models that predict, windows of those that rank or answer, as
    `most_tokens` and `impossible`; prompts and `dimensions` of embeddings; the other options of those that generate.
    """

    inputs: str | TextPair | Question | list[str | TextPair | Question]
    attention: AttentionOptions = AttentionOptions()


class AttendMessages(GenerateOptions, Messages):
    """Messages to attend to, of models that take chats."""


METHOD: Json = {"enum": [*get_args(Method), "best"], "type": "string"}
"""The method by which attention is asked for in a form or a query."""


def flat(*kinds: type[Options]) -> Json:
    """Return the schemas of options as a form or a query has them: one value each, and never null."""
    return {name: _scalar(schema) for name, schema in COMPONENTS.options(*kinds).items()}


def _scalar(schema: Json) -> Json:
    if any(one.get("type") == "object" for one in (schema, *schema.get("anyOf", ()))):
        return {"type": "string", "description": schema["description"]}
    given = without_null(schema)
    words = [one for one in given.get("anyOf", []) if one.get("type") != "array"]
    return {**given, "anyOf": words} if words else given


def query(*kinds: type[Options]) -> list[Json]:
    """Return the options of a file in a raw body or form as parameters of the query, each as the first kind has it."""
    method = COMPONENTS.named("schemas", "MethodOption", METHOD)
    method |= {"description": "ask for attention too, by this method"}
    found = {"attention": parameter("attention", method)}
    for kind in kinds:
        of_all = kind in (RequestOptions, AttentionOptions)
        shared = {} if of_all else RequestOptions.model_fields
        prefix = "" if of_all else f"{kind.__name__.removesuffix('Options').lower()}_"
        own = {name: schema for name, schema in flat(kind).items() if name not in {*shared, *found}}
        found |= {name: parameter(name, schema, f"{prefix}{name}") for name, schema in own.items()}
    return list(found.values())


def of_inside() -> list[Json]:
    """Return the options of what is inside as parameters of the query, of which the row and the column are required."""
    found = []
    for name, schema in flat(InsideOptions).items():
        shared = name in ("priority", "digits")
        required = InsideOptions.model_fields[name].is_required()
        found.append(parameter(name, schema, name if shared else f"inside_{name}", required=required))
    return found


def parameter(name: str, schema: Json, component: str | None = None, *, required: bool = False) -> Json:
    """Return a parameter of the query, which is a component, by default of its own name."""
    described: Json = {"name": name, "in": "query", "schema": dict(schema)} | ({"required": True} if required else {})
    if "description" in schema:
        described["description"] = described["schema"].pop("description")
    return COMPONENTS.named("parameters", component or name, described)


def threshold() -> Json:
    """Return the parameter of detectors beside the options of models that generate."""
    return parameter("threshold", flat(DetectOptions)["threshold"], "detect_threshold")


def form(name: str, *kinds: type[Options], files: str = "image") -> Json:
    """Return a form of that name: files, options of attention, and those of some kinds."""
    in_json = COMPONENTS.options(AttentionOptions)
    shared = {
        "attention": COMPONENTS.named("schemas", "MethodOption", METHOD),
        **flat(RequestOptions, AttentionOptions),
    }
    same = {option: schema for option, schema in shared.items() if in_json.get(option) == schema}
    others = {"type": "object", "properties": {name: one for name, one in shared.items() if name not in same}}
    part = COMPONENTS.part_of(AttentionOptions, "SimpleAttentionOptions", same)
    options = COMPONENTS.named("schemas", "FormOptions", {"allOf": [part, others]})
    sent: Json = {"type": "object", "properties": {files: {"type": "array", "items": BINARY}}, "required": [files]}
    whole = COMPONENTS.named("schemas", f"{files.capitalize()}Form", {"allOf": [options, sent]})
    own = {field: schema for field, schema in flat(*kinds).items() if field not in shared}
    if not own:
        return whole
    return COMPONENTS.named("schemas", name, {"allOf": [whole, {"type": "object", "properties": own}]})


def audio_form() -> Json:
    """Return the form of sounds to transcribe, whose options have one value each."""
    sent = form("", files="audio")
    return COMPONENTS.named("schemas", "TranscribeForm", {"allOf": [sent, COMPONENTS.schema(TranscribeOptions)]})


def attend_form() -> Json:
    """Return the form of images to attend to: that of models that generate, and the threshold of detectors."""
    own = {"type": "object", "properties": {"threshold": flat(DetectOptions)["threshold"]}}
    return COMPONENTS.named("schemas", "AttendForm", {"allOf": [form("GenerateForm", GenerateOptions), own]})


IMAGES, SOUNDS = ("image/png", "image/jpeg", "image/webp"), ("audio/wav",)
"""The media types that are named of raw bodies; every other that begins as these is read too."""


def raw_or(documents: Json, sent: Json, media: tuple[str, ...] = IMAGES) -> dict[str, Any]:
    """Return the bodies of an endpoint that takes a file as it is, a form, or a document in JSON."""
    return {
        "application/json": {"schema": documents},
        "multipart/form-data": {"schema": sent},
        **{media_type: {"schema": BINARY} for media_type in (*media, "application/octet-stream")},
    }
