"""The parameters that Hugging Face's clients send: which are honoured, and which are refused by name with a reason."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

from pydantic import BeforeValidator, Field

from contract.generation import LanguageCode, Sampling
from contract.manifest import Manifest
from contract.names import suggestion
from service.errors import Unacceptable
from service.options.attention import AttentionOptions
from service.options.base import SHARED, Options, RequestOptions, among, parse
from service.options.generation import SAMPLING, GenerateOptions
from service.options.predictions import (
    PICTURE_TEMPLATE,
    TEMPLATE,
    ClassifyOptions,
    ClassifyTextOptions,
    DetectOptions,
    NamedLabels,
    Template,
    TextOptions,
    listed_labels,
)
from service.options.readers import read_bad_words, read_stops
from service.repository.models.generator import Generator

O = TypeVar("O", bound=Options)  # noqa: E741 # the letter of Options
Refused = Mapping[str, tuple[tuple[object, ...], str]]
"""Parameters by name: the values that change nothing, and why others are refused."""

CLIENT_OPTIONS = frozenset({"wait_for_model", "use_cache", "use_gpu", "dont_load_model", "retry_on_error"})
"""Members of `options`, which older clients send. They speak of the servers of another service and change nothing."""
NESTED = ("generate_parameters", "generation_parameters", "generate_kwargs")
"""Parameters of generation may stand in one of these too, depending on the task of the client."""
ATTENTION = AttentionOptions.model_fields.keys() | {"attention"}

TEXTS: Refused = {
    "truncation_direction": (("right", "Right"), "the end of a text is cut off, never its beginning"),
}
VECTORS: Refused = {
    **TEXTS,
    "encoding_format": (("float",), "vectors are lists of numbers here; /v1/embeddings answers base64 too"),
}
WEIGHED = "probabilities of tokens that occurred already are not changed"
NOT_CUT = "an input that is too long is refused, not cut off"
CHOSEN = "only the tokens that were chosen are answered"
GENERATION: Refused = {
    "adapter_id": ((), "models have no adapters here"),
    "best_of": ((1,), "num_return_sequences answers all that are drawn"),
    "clean_up_tokenization_spaces": ((False,), "the text is what the tokenizer decodes"),
    "decoder_input_details": ((False,), "probabilities of the input's tokens are not computed"),
    "frequency_penalty": ((0,), WEIGHED),
    "grammar": ((), "the text follows the model alone"),
    "max_length": ((), "give max_new_tokens, which does not count the input"),
    "top_n_tokens": ((0,), CHOSEN),
    "alternatives": ((0,), CHOSEN),
    "truncate": ((False,), NOT_CUT),
    "truncation": (("do_not_truncate",), NOT_CUT),
    "use_cache": ((True,), "states of earlier tokens are always kept"),
    "watermark": ((False,), "texts have no watermark"),
}


class FunctionToApply(Options):
    """How logits become scores."""

    function_to_apply: Literal["softmax", "sigmoid", "none"] | None = Field(
        None, description="how logits become scores; as the model was trained, by default"
    )

    def applied(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the scores that are asked for."""
        if self.function_to_apply is None:
            return manifest
        scores = "identity" if self.function_to_apply == "none" else self.function_to_apply
        return manifest.model_copy(update={"scores": scores})


class ImageClassificationParameters(ClassifyOptions, FunctionToApply):
    """Parameters of image-classification and audio-classification."""


class TextClassificationParameters(ClassifyTextOptions, FunctionToApply):
    """Parameters of text-classification."""


class ZeroShotParameters(TextOptions):
    """Parameters of zero-shot-classification."""

    candidate_labels: Annotated[NamedLabels, BeforeValidator(listed_labels)] = Field(
        description="labels to choose from"
    )
    hypothesis_template: Template = Field(TEMPLATE, description="the sentence of a label, which stands for {}")
    multi_label: bool = Field(
        False, description="each label for itself, rather than one of them", json_schema_extra=SHARED
    )


class ZeroShotImageParameters(RequestOptions):
    """Parameters of zero-shot-image-classification."""

    candidate_labels: Annotated[NamedLabels, BeforeValidator(listed_labels)] = Field(
        description="labels to choose from"
    )
    hypothesis_template: Template = Field(PICTURE_TEMPLATE, description="the sentence of a label, which stands for {}")


class ObjectDetectionParameters(DetectOptions):
    """Parameters of object-detection."""


class GenerationParameters(GenerateOptions):
    """Parameters of text-generation and of what else generates texts."""

    do_sample: bool | None = Field(None, description="draw tokens (true), or take the likeliest (false)")
    return_full_text: bool = Field(False, description="the input before the text that continues it")
    bad_words_ids: Annotated[tuple[str | tuple[int, ...], ...], read_bad_words()] | None = Field(
        None, description="the tokens of bad_words"
    )
    stop_sequences: Annotated[tuple[str, ...], read_stops()] | None = Field(None, description="the older name of stop")
    details: bool = Field(False, description="tokens with log-probabilities, and why the text ended")

    src_lang: LanguageCode | None = Field(None, description="the language of the text, as source_language")
    tgt_lang: LanguageCode | None = Field(None, description="the language of the answer, as target_language")

    def search(self, served: Generator) -> GenerateOptions:
        """Return the options of generation. Raises Unacceptable for parameters that exclude each other."""
        if self.return_full_text and not served.continues:
            raise Unacceptable("return_full_text: must be false, this model's texts do not continue their input")
        if (self.source_language and self.src_lang) or (self.target_language and self.tgt_lang):
            raise Unacceptable("src_lang, tgt_lang: are other names of source_language and target_language, given both")
        languages = {
            "source_language": self.source_language or self.src_lang,
            "target_language": self.target_language or self.tgt_lang,
        }
        words = {
            "bad_words": (*(self.bad_words or ()), *(self.bad_words_ids or ())) or None,
            "stop": (*(self.stop or ()), *(self.stop_sequences or ())),
        }
        options = parse(
            GenerateOptions,
            self.model_dump(include=set(GenerateOptions.model_fields)) | languages | words,
            strings=False,
        )
        if self.do_sample is None:
            return options
        if not self.do_sample and options.samples:
            raise Unacceptable(f"do_sample: must be true where {SAMPLING} are given")
        if self.do_sample and self.temperature == 0:
            raise Unacceptable("do_sample: must be false where temperature is 0")
        if options.samples:
            return options
        if self.do_sample:
            default = served.generation.sampling or Sampling()
            return options.model_copy(update={"temperature": default.temperature})
        beams = options.num_beams or served.generation.num_beams  # as the reference library, which does not draw them
        return options.model_copy(update={"temperature": 0.0, "num_beams": beams})


def check_client_options(given: object) -> None:
    """Check the `options` of older clients, none of which changes anything. Raises Unacceptable for others."""
    known = ", ".join(sorted(CLIENT_OPTIONS))
    if given is None:
        return
    if not isinstance(given, dict) or not given.keys() <= CLIENT_OPTIONS:
        raise Unacceptable(f"options: known are {known}; what is asked of the model belongs in parameters")
    if not all(value is None or isinstance(value, bool) for value in given.values()):
        raise Unacceptable(f"options: {known} must be true or false")


def merged(parameters: object, beside: Mapping[str, object]) -> dict[str, object]:
    """Return parameters and those that stand beside them or in them. Raises Unacceptable for one that is given twice.

    A parameter that is null counts as not given.
    """
    if parameters is not None and not isinstance(parameters, dict):
        raise Unacceptable("parameters: must be an object")
    own = dict(parameters or {})
    nested = [own.pop(name, None) or {} for name in NESTED]
    if not all(isinstance(one, dict) for one in nested):
        raise Unacceptable(f"parameters: {', '.join(NESTED)} must be objects")
    found: dict[str, object] = {}
    for given in (own, beside, *nested):
        more = {name: value for name, value in given.items() if value is not None}
        if found.keys() & more.keys():
            raise Unacceptable("parameters: each may be given once, given one twice")
        found |= more
    return found


def parse_parameters(kind: type[O], given: Mapping[str, object], refused: Refused, manifest: Manifest) -> O:
    """Return parameters. Raises Unacceptable, with the reason, for those that are not honoured or not known."""
    if asked := sorted(ATTENTION & given.keys()):
        raise Unacceptable(f"{asked[0]}: is an option of attention, which /v1/models/{manifest.name}/attention answers")
    rest = dict(given)
    for name, (neutral, why) in refused.items():
        if name in rest and not among(rest.pop(name), neutral):
            rule = f"must be {' or '.join(map(_shown, neutral))}" if neutral else "is not served"
            raise Unacceptable(f"{name}: {rule}; {why}")
    known = kind.model_fields.keys() | refused.keys()
    if unknown := rest.keys() - known:
        raise Unacceptable(
            f"parameters: this model's task is {manifest.task}, whose parameters are {', '.join(sorted(known))}; "
            f"given another{suggestion(min(unknown), known)}"
        )
    return parse(kind, rest, strings=False)


def _shown(value: object) -> str:
    """Return a value as JSON has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
