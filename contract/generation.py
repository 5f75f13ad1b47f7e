"""How an artifact that generates is driven: part of its manifest."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from contract.part import FileName, Part, Size

LanguageCode = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,31}$")]
MOST_LANGUAGES = 1000
COUNT, LIKELIEST, TOKENS = "count", "likeliest", "likeliest.tokens"
"""A decode step takes how many (1) tokens are to be looked at, and returns the logarithms of the likeliest ones' shares
and these tokens, both (batch, count), beside the logits of all."""

GENERATING: tuple[Literal["hear", "encode", "decode", "align"], ...] = ("hear", "encode", "decode", "align")
"""The roles that only models that generate have, of which the first and the last are of models that hear."""

ALIGNED = "aligned"
"""What the graph `align` returns: the weights of some heads that attend to frames, (batch, head, target, frame)."""


class Cache(Part):
    """One tensor that a decode step takes and returns, with room for `capacity` tokens.

    A step writes one token a row; where it is given the same memory to return, nothing else moves.
    """

    past: str
    present: str


Penalty = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Tokens = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]


class Bias(Part):
    """What is added to the logit of the last of some tokens behind the others."""

    tokens: Tokens
    bias: float


class Sampling(Part):
    """How tokens are drawn: what holds where a request does not say."""

    temperature: Annotated[float, Field(gt=0)] = 1.0
    top_k: Size | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    min_p: Share | None = None
    top_h: Share | None = None
    typical_p: Share | None = None
    epsilon_cutoff: Share | None = None
    eta_cutoff: Share | None = None
    by_default: bool = Field(True, description="whether they are drawn where a request does not ask for it")


class Languages(Part):
    """The languages of a model that translates among several; each is a token, of sources and of targets.

    The tokenizer puts the token of `source` around every text, and the service that of the language of a request in its
    place. The token of the target's language is the start token (mBART, Liu et al. 2020), or the first token generated
    (M2M-100, Fan et al. 2020).
    """

    tokens: Annotated[dict[LanguageCode, Annotated[int, Field(ge=0)]], Field(min_length=1, max_length=MOST_LANGUAGES)]
    source: LanguageCode | None = Field(
        None, description="where a request does not say; null if sources are not marked"
    )
    target: LanguageCode | None = Field(None, description="where a request does not say; null if the model chooses")
    begins: Literal["start", "first"] = Field(description="the token of a target that says its language")

    @model_validator(mode="after")
    def _known(self) -> "Languages":
        if not {self.source, self.target} <= {None, *self.tokens}:
            raise ValueError("source and target must be among the languages")
        return self


class Speech(Part):
    """What a model that hears writes first: its start token, the language, the task, and whether it gives times.

    Times are tokens, each of a step of the encoder's frames more than the one before (Radford et al. 2023, section
    2.3). Behind the start come no others where a model has none.
    """

    languages: Annotated[dict[LanguageCode, Annotated[int, Field(ge=0)]], Field(max_length=MOST_LANGUAGES)] = Field(
        {}, description="the token of each; empty where a model knows one language"
    )
    tasks: dict[Literal["transcribe", "translate"], Annotated[int, Field(ge=0)]] = Field(
        {}, description="the token of each"
    )
    without_times: int | None = Field(None, description="the token that says that none come; the first time is next")
    most_first: int | None = Field(None, ge=0, description="steps before which the first time lies")
    previous: int | None = Field(None, description="the token before what was heard before")
    silence: int | None = Field(None, description="the token that says that nobody speaks")

    @property
    def first_time(self) -> int | None:
        """The token of the time 0."""
        return None if self.without_times is None else self.without_times + 1

    def named_tokens(self) -> tuple[int, ...]:
        """Return the tokens that are named."""
        single = (self.without_times, self.previous, self.silence)
        return (*self.languages.values(), *self.tasks.values(), *(token for token in single if token is not None))


class Generation(Part):
    """How the graphs that generate are driven, what may be generated, and the defaults of requests that do not say.

    A target stands behind a prefix: its start token or, where the model continues the source, the source itself. Where
    it hears, the graph `hear` turns samples into memory, `encode` the first tokens of a target into caches, and `align`
    takes a whole target and returns the weights of the heads that follow what is said.
    """

    start: int | None = Field(description="first token of every target; null where targets continue the source")
    end: int | tuple[int, ...] = Field(description="token that ends a target, or several, or none")
    max_new_tokens: Size = Field(description="most tokens of a target, the end token included")
    default_new_tokens: Size | None = Field(None, description="where a request does not say")
    default_length: Size | None = Field(None, description="the same, the prefix included; null for both means the most")
    num_beams: Size = 1
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = Field(
        False, description="true: a beam search is done once it has num_beams; never: once none can become better"
    )
    sampling: Sampling | None = Field(None, description="null where the likeliest token is taken")
    min_length: int = Field(0, ge=0, description="tokens, the prefix included, before which none ends")
    min_new_tokens: int = Field(0, ge=0, description="tokens of the target, before which none ends")
    forced_first: int | None = Field(None, description="the first token generated")
    forced_last: int | None = Field(None, description="the last token generated where a target reaches its limit")
    suppressed: tuple[int, ...] = Field((), description="tokens that are never generated")
    suppressed_first: tuple[int, ...] = Field((), description="tokens that are not generated first")
    no_repeat_ngram: int = Field(0, ge=0, description="length of the sequences that come once at most; 0 is off")
    source_no_repeat_ngram: int = Field(0, ge=0, description="the same, of those of the source")
    bad_words: tuple[Tokens, ...] = Field((), description="sequences that are never completed")
    biases: tuple[Bias, ...] = ()
    repetition_penalty: Penalty = Field(1.0, description="of tokens that came already; 1 is off")
    source_penalty: Penalty = Field(1.0, description="of tokens that the source has, which it favours; 1 is off")
    length_decay: tuple[int, float] | None = Field(
        None, description="from how many tokens on ends gain, and the factor by which they do"
    )
    renormalized: bool = Field(False, description="what the rules leave is brought back to a sum of one")
    num_return_sequences: Size = Field(1, description="texts of an input")
    tokenizer: FileName | None = Field(None, description="of targets, where it is not that of sources")
    padding: int | None = Field(None, description="of targets, as that of a text rule")
    languages: Languages | None = Field(None, description="of models that translate among several")
    speech: Speech | None = Field(None, description="of models that hear")
    caches: tuple[Cache, ...]
    memory: tuple[str, ...] = Field(description="outputs of encode or hear, inputs of decode")

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end a target."""
        return (self.end,) if isinstance(self.end, int) else self.end

    def without_end(self, target: tuple[int, ...]) -> tuple[int, ...]:
        """Return a target without the token that ends it, if one does."""
        return target[:-1] if target[-1] in self.ends else target

    def named_tokens(self) -> dict[str, tuple[int, ...]]:
        """Return the tokens that the rules name, by the field that does."""
        single = {name: getattr(self, name) for name in ("start", "forced_first", "forced_last", "padding")}
        return {
            "end": self.ends,
            **{name: (token,) for name, token in single.items() if token is not None},
            "suppressed": self.suppressed,
            "suppressed_first": self.suppressed_first,
            "bad_words": tuple(token for word in self.bad_words for token in word),
            "biases": tuple(token for one in self.biases for token in one.tokens),
            "languages": tuple(self.languages.tokens.values()) if self.languages else (),
            "speech": self.speech.named_tokens() if self.speech else (),
        }
