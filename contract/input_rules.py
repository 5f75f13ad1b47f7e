"""How inputs become what graphs take: a rule for each sort of input, which its `modality` names."""

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from contract.chat import Chat, PairForm
from contract.part import FileName, Part, Size

KIND_NAME = r"^[a-z][a-z0-9_]{0,31}$"

SAMPLES, FRAMES = "samples", "frame"
"""The input of every graph that hears, whose axis has its name where sounds vary; and the axis of what these become."""

BANDS = "band"
"""The axis of a sound's frequencies, where attention is along them."""

FILLED = "filled"
"""The input that says how many frames of the spectrum a sound fills, (batch); the others are left out."""

NODES, EDGES = "node", "edges"
"""The inputs of every graph of a model of graphs: the types of nodes, whose axis has its name; and edges by type."""

InputName = Annotated[str, Field(pattern=KIND_NAME)]

MOST_TYPES = 256

TypeName = Annotated[str, Field(min_length=1, max_length=64)]

Baseline: TypeAlias = Literal["empty", "mask", "padding", "zero"]
"""What integrated gradients start from: a black picture, mask tokens, padding tokens, or states of zeros."""


class ImageRule(Part):
    """How a decoded image becomes the graph's uint8 pixels (height, width, channels); the graph normalises them.

    `locate` says which part of the image is looked at: `ink` finds the strokes of one written sign, light or dark,
    and centres their bounding box with its longer side at `ink_box` pixels, as bright strokes on black; `middle`
    resizes the whole image and cuts the middle of it, black where it is too small; `fit` resizes the whole image, in
    its shape (`fitted`), and puts it at the upper left. A graph may take how many rows and columns of pixels it fills,
    `shown` (batch, 2), beside which normalised pixels are 0: without it, what is beside is `mean`, rounded to a byte.
    A graph may take which patches begin in the image, `image_visible` (batch, patch).
    """

    modality: Literal["image"] = "image"
    name: InputName = "image"
    height: Size
    width: Size
    channels: Literal[1, 3]
    locate: Literal["ink", "middle", "fit"]
    ink_box: Size | None = None
    resize: tuple[Size, Size] | Size | None = Field(
        None,
        description="of `middle`: to (height, width), or the shorter side to a number of pixels; null leaves the size; "
        "of `fit`: as large as fits into (height, width), or the shorter side; null: as large as fits into the inputs",
    )
    longest: Size | None = Field(None, description="of `fit`: the most pixels of the longer side")
    multiple: Size = Field(1, description="of `fit`: sides are cut to multiples of it")
    resample: Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"] = "bilinear"
    fast_jpeg: bool = Field(
        False, description="decode a large JPEG at a reduced scale: quicker, but some pixels differ by a few levels"
    )
    mean: tuple[float, ...] = Field(description="a channel, of pixels in [0, 1]; applied inside the graph")
    std: tuple[Annotated[float, Field(gt=0)], ...] = Field(description="as mean")

    @model_validator(mode="after")
    def _a_number_a_channel(self) -> "ImageRule":
        if not len(self.mean) == len(self.std) == self.channels:
            raise ValueError("mean and std must hold one number a channel")
        return self

    @model_validator(mode="after")
    def _a_box_for_ink(self) -> "ImageRule":
        if (self.ink_box is not None) != (self.locate == "ink"):
            raise ValueError("ink_box must be there exactly if locate is ink")
        if self.ink_box is not None and self.ink_box > min(self.height, self.width):
            raise ValueError("ink_box must fit into height and width")
        return self

    def fitted(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and height to which `fit` resizes an image of this width and height.

        It is what `resize` and `longest` say or, if that does not fit into the inputs, the largest size that does.
        """
        size = self.wanted(width, height)
        if size and size[0] <= self.width and size[1] <= self.height:
            return size
        if width * self.height >= height * self.width:
            return self._cut(self.width, height * self.width // width)
        return self._cut(width * self.height // height, self.height)

    def _cut(self, *sides: int) -> tuple[int, int]:
        """Return sides as multiples of `multiple`, where they are no less, and at least 1."""
        across, down = (max(1, side - side % self.multiple or side) for side in sides)
        return across, down

    def wanted(self, width: int, height: int) -> tuple[int, int] | None:
        """Return the width and height that `fit` would give an image if the inputs were as large as need be.

        None says that only the inputs bound it. Sides are rounded as the transformers library does
        (`get_size_with_aspect_ratio`, `get_image_size_for_max_height_width`), in floats.
        """
        if self.resize is None:
            return None
        if isinstance(self.resize, tuple):
            scale = min(self.resize[0] / height, self.resize[1] / width)
            return self._cut(int(width * scale), int(height * scale))
        (shorter, longer), side = sorted((width, height)), float(self.resize)
        if self.longest and longer / shorter * side > self.longest:
            side = self.longest * shorter / longer
        if round(side) == shorter:
            return self._cut(width, height)
        sides = round(side), int(side * longer / shorter)
        return self._cut(*sides if width <= height else sides[::-1])

    @property
    def stand_ins(self) -> dict[str, int]:
        """The tokens that may stand for others: none."""
        return {}

    @property
    def baselines(self) -> tuple[Baseline, ...]:
        """What integrated gradients may start from in place of an image: a black one."""
        return ("empty",)

    @property
    def most_tokens(self) -> int:
        """The most tokens where their number varies between inputs: 0, since it does not."""
        return 0


class TextRule(Part):
    """How a text becomes token indices."""

    modality: Literal["text"] = "text"
    name: InputName = "text"
    tokenizer: FileName
    max_tokens: Size = Field(description="those that the tokenizer adds included")
    mask: int | None = Field(None, description="the token that stands for one that is missing, as in fill-mask")
    padding: int | None = Field(None, description="the token that fills a batch, where there is one")
    filled: bool = Field(False, description="every text is filled with padding up to max_tokens, and padding is seen")
    prompts: dict[str, str] | None = Field(
        {}, description="what may be put before a text, by name; null where nothing may be put there"
    )
    default_prompt: str | None = Field(None, description="the name of the prompt that is put before every text")
    decoder_start: int | None = Field(
        None, description="the token before the text in a decoder that is given the text too, and answers at its end"
    )
    chat: Chat | None = Field(None, description="how messages become a text", exclude_if=lambda form: form is None)
    pair: PairForm | None = Field(
        None,
        description="how two texts become one; by default as the tokenizer puts them together",
        exclude_if=lambda form: form is None,
    )
    no_chat: str | None = Field(
        None,
        description="why they do not, though the checkpoint has a template of chats",
        exclude_if=lambda reason: reason is None,
    )

    @model_validator(mode="after")
    def _a_padding_to_fill_with(self) -> "TextRule":
        if self.filled and self.padding is None:
            raise ValueError("padding must be there where texts are filled")
        return self

    @model_validator(mode="after")
    def _a_prompt_of_that_name(self) -> "TextRule":
        if self.default_prompt is not None and self.default_prompt not in (self.prompts or {}):
            raise ValueError("default_prompt must be the name of a prompt")
        return self

    @property
    def prompt(self) -> str:
        """What is put before every text."""
        return "" if self.default_prompt is None or self.prompts is None else self.prompts[self.default_prompt]

    @property
    def stand_ins(self) -> dict[str, int]:
        """The tokens that may stand for others, where the text has them."""
        return {name: token for name in ("mask", "padding") if (token := getattr(self, name)) is not None}

    @property
    def baselines(self) -> tuple[Baseline, ...]:
        """What integrated gradients may start from in place of a text: one of stand-ins."""
        known: tuple[Baseline, ...] = ("mask", "padding")
        return tuple(name for name in known if name in self.stand_ins)

    @property
    def most_tokens(self) -> int:
        """The most tokens where their number varies between inputs."""
        return self.max_tokens


class SoundRule(Part):
    """How a sound becomes the graph's float32 samples (sample), from -1 to 1; the graph makes frames of them.

    It is the mean of its channels at `rate` samples a second, with silence behind it up to `samples`. On each side of
    these are `side` more, which the first and last frames reach into: what was there, or the mirrored end of the sound.
    A graph may take how many frames of the spectrum the sound `fills`, `filled` (batch): the others are left out.
    Where the sound `varies`, the graph takes it as long as it is, and has as many frames as it fills; sounds of one
    batch then have one length, since nothing says where one ends.
    """

    modality: Literal["sound"] = "sound"
    name: InputName = "sound"
    rate: Size = Field(description="samples a second")
    samples: Size = Field(description="that are heard at once, at most where they vary")
    side: int = Field(0, ge=0, description="samples on each side of these")
    hop: Size = Field(
        description="samples from one frame of the spectrum to the next, of which the model makes `frames`"
    )
    frames: Size = Field(description="of which attention is, at most; of a spectrum in patches, its columns")
    bands: int = Field(0, ge=0, description="of which attention along frequency is; 0 where there is none")
    apart: Size | None = Field(None, description="samples from one of these to the next; null: samples / frames")
    varies: bool = Field(False, description="the graph takes a sound as long as it is; else silence is behind it")
    least: Size = Field(1, description="samples of the shortest sound, which fill one frame of the spectrum")

    @model_validator(mode="after")
    def _as_many_frames(self) -> "SoundRule":
        if self.varies and self.fills(self.samples) != self.frames:
            raise ValueError("frames of a sound that varies must be those that its samples fill")
        return self

    def fills(self, samples: int) -> int:
        """Return how many frames of the spectrum a number of samples fills."""
        return (samples - self.least) // self.hop + 1

    @property
    def seconds(self) -> float:
        """How long a sound may be."""
        return self.samples / self.rate

    @property
    def step(self) -> float:
        """Seconds from one frame to the next."""
        return (self.apart or self.samples / self.frames) / self.rate

    @property
    def stand_ins(self) -> dict[str, int]:
        """The tokens that may stand for others: none."""
        return {}

    @property
    def baselines(self) -> tuple[Baseline, ...]:
        """What integrated gradients may start from in place of a sound: silence."""
        return ("empty",)

    @property
    def most_tokens(self) -> int:
        """The most tokens where their number varies between inputs; else 0."""
        return self.frames if self.varies else 0


class GraphRule(Part):
    """How a graph becomes types of nodes, `node` (node), and its `edges` (type, node, node), from row to column.

    Edges lead both ways unless they are `directed`. A model may have a `virtual` node (Gilmer et al. 2017), which is
    put before the others, with the first type and without edges.
    """

    modality: Literal["graph"] = "graph"
    name: InputName = "graph"
    node_types: Annotated[tuple[TypeName, ...], Field(min_length=1, max_length=MOST_TYPES)]
    edge_types: Annotated[tuple[TypeName, ...], Field(min_length=1, max_length=MOST_TYPES)]
    nodes: Size = Field(description="of a graph, at most")
    edges: Size = Field(description="as they are sent, at most")
    directed: bool = False
    virtual: bool = False
    plain: int | None = Field(None, ge=0, description="the type of a node that says nothing, where there is one")

    @model_validator(mode="after")
    def _types_of_their_own(self) -> "GraphRule":
        if any(len(set(names)) < len(names) for names in (self.node_types, self.edge_types)):
            raise ValueError("each type must have a name of its own")
        if self.plain is not None and self.plain >= len(self.node_types):
            raise ValueError("plain must be the index of a type of nodes")
        return self

    @property
    def stand_ins(self) -> dict[str, int]:
        """The types that may stand for others."""
        return {} if self.plain is None else {"mask": self.plain}

    @property
    def baselines(self) -> tuple[Baseline, ...]:
        """What integrated gradients may start from in place of a graph: the same edges between plain nodes."""
        return () if self.plain is None else ("mask",)

    @property
    def most_tokens(self) -> int:
        """The most nodes, the virtual one included."""
        return self.nodes + self.virtual


Rule: TypeAlias = ImageRule | TextRule | SoundRule | GraphRule

InputRule = Annotated[Rule, Field(discriminator="modality")]


class Inputs:
    """What has a tuple of inputs, each a rule with a name and a modality."""

    if TYPE_CHECKING:  # at run time it would be the first field of a manifest
        inputs: tuple[Rule, ...]

    @property
    def image(self) -> ImageRule | None:
        """The rule of the input that is an image, if there is one."""
        return next((rule for rule in self.inputs if isinstance(rule, ImageRule)), None)

    @property
    def text(self) -> TextRule | None:
        """The rule of the input that is a text, if there is one."""
        return next((rule for rule in self.inputs if isinstance(rule, TextRule)), None)

    @property
    def sound(self) -> SoundRule | None:
        """The rule of the input that is a sound, if there is one."""
        return next((rule for rule in self.inputs if isinstance(rule, SoundRule)), None)

    @property
    def graph(self) -> GraphRule | None:
        """The rule of the input that is a graph, if there is one."""
        return next((rule for rule in self.inputs if isinstance(rule, GraphRule)), None)
