"""The options of attention."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, WithJsonSchema

from contract.input_rules import Baseline
from contract.manifest import KindName, Method
from service.options.base import Number, Options
from service.options.readers import (
    AGAINST_SCHEMA,
    MOST_STEPS,
    Against,
    read_against,
    read_indices,
    read_steps,
    read_targets,
    read_words,
)

DEFAULT_STEPS = 16
Merge: TypeAlias = Literal["words", "sentences"]
"""What tokens are merged into."""


class AttentionOptions(Options):
    """Options of attention, for any request."""

    method: Literal[Method, "best"] = Field(
        "raw",
        description="how maps are computed; best is the one that explained this model best, where one was measured",
    )
    kind: KindName | None = Field(None, description="all that the model has, by default")
    layers: Annotated[Any, read_indices("all")] = Field(
        None,
        description="by default -1 for raw and norm, 0 for libra (the states that enter the layer), two thirds of the "
        "depth for similar and parts (the states after the layer), else all",
    )
    heads: Annotated[Any, read_indices("all", "mean", "max", "min")] = Field(
        None, description="which, or how fused; mean by default"
    )
    queries: Annotated[Any, read_indices("all", "cls", "mean", "found")] = Field(
        None,
        description="rows; of a detector those of the objects that are found; else cls, that of the class token; else, "
        "of an image, the mean of all; else all, as for similar. parts and saliency have one row",
    )
    target: Annotated[Any, read_targets()] = Field(
        None,
        description="for relevance, libra and integrated: classes by index or label, positions of a sequence, or "
        "numbers of objects or entities; of an answer {answer, part}, its start or end; what was predicted, every "
        "token, or the surest of these, by default. Digits are an index, whatever the labels are",
    )
    against: Annotated[Against | None, read_against(), WithJsonSchema(AGAINST_SCHEMA)] = Field(
        None,
        description="for relevance, libra and integrated: what speaks for the target rather than for this class or "
        "token, of entities O by default (null for none); for embeddings, similar and parts, the other text or image. "
        "In a query, the same object as JSON",
    )
    sides: Literal["own", "both"] = Field(
        "own", description="for embeddings: explain the other input too, in the answer's `against`"
    )
    baseline: Baseline | None = Field(
        None, description="of integrated: where the path begins; the first of these that the model has, by default"
    )
    fusion: Literal["mean", "max", "min"] | None = Field(None, description="of rollout, the same as heads")
    discard: Number = Field(0.0, ge=0, lt=1, description="for rollout: share of a layer's smallest weights set to 0")
    sinks: Literal["keep", "out"] = Field(
        "keep",
        description="for rollout of images: out leaves out each head that gives more than half of its attention to one "
        "patch, whatever it is asked",
    )
    start_layer: int | None = Field(None, description="for rollout: the first layer, the earlier ones left out")
    align: Literal["emit", "input"] = Field(
        "emit", description="the row of a generated token: where it came out, or where it went in"
    )
    hard: bool = Field(False, description="also the source token that each row of cross looks at most")
    merge: Merge | None = Field(
        None, description="columns of the tokens of a word, or of a sentence, summed, rows averaged"
    )
    diagnostics: bool = Field(
        False, description="also entropy, mass on special tokens, distance and sink, by layer and head"
    )
    evaluate: Annotated[Any, read_words("deletion", "insertion", "compare")] = Field(
        (),
        description="the probability of what is explained, as patches or tokens are deleted or inserted in the order "
        "of the map; compare: in that of every method",
    )
    orders: int = Field(1, ge=1, le=8, description="of deletion and insertion: random orders to compare with")
    steps: Annotated[bool | int, read_steps()] = Field(
        False,
        description=f"of integrated: points of the path, 1 to {MOST_STEPS}, by default {DEFAULT_STEPS}, and "
        "three times as many where these miss more than 5 % of the difference that is explained; "
        "or with stream, true: each token's event holds its row of cross",
    )
    format: Literal["json", "npz", "png"] | None = Field(None, description="by Accept, by default; else json")
    pool: int | None = Field(
        None,
        ge=2,
        le=256,
        description="of JSON and npz: maps of more rows or columns are answered as the largest value (by its size) of "
        "each block, at most this number a side",
    )
    digits: int = Field(5, ge=1, le=9, description="decimals of a number in JSON")
    encoding: Literal["list", "base64"] = Field(
        "list", description="of values in JSON: lists, or base64 of the bytes of an array, little-endian, row by row"
    )
    dtype: Literal["float32", "uint8"] = Field(
        "float32", description="of npz and base64; uint8 with a scale, and a zero, a map"
    )
    width: int | None = Field(
        None,
        ge=64,
        le=4096,
        description="of png: pixels of the whole picture; by default that of the image, or what its texts need",
    )
    colormap: Literal["viridis", "magma", "inferno", "turbo", "gray"] = Field("viridis", description="of png")
    opacity: Number = Field(0.8, ge=0, le=1, description="of a png's heat over the image, where it is hottest")
    ground: Literal["grey", "photo"] = Field(
        "grey",
        description="of a png, under the heat: the image in grey, darker where the model does not look; or as it was "
        "sent",
    )
    scale: Literal["clipped", "full"] = Field(
        "clipped",
        description="of a png's heat over an image: colours end at the 98th percentile of the values that are not 0, "
        "or higher, so that at most half of the sum is above; or at the largest value",
    )
