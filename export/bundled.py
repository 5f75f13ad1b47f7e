"""The sources of the bundled models: trained weights with their labels, image rule or tokenizer."""

import dataclasses
import functools
from collections.abc import Callable

from contract.generation import Generation
from contract.input_rules import ImageRule, SoundRule, TextRule
from contract.manifest import Recommendation, Task
from export.checkpoints.reading.tokenizers.tokenizer import character_tokenizer, word_tokenizer
from export.errors import CheckpointError
from export.networks import graphs_graphormer, graphs_gtn
from export.packaged import minilm, photos, whisper_tiny_en
from export.paired import scenes_clip
from export.plan import Source
from export.presentation import presented
from export.tasks.alignment import AlignedDecoder, aligned_image, aligned_text, cross_kind
from export.tasks.detection import object_detector
from export.tasks.generation import text_continuer, text_to_text
from export.tasks.image import image_model
from export.tasks.sound import planes_of, sound_embedder, speech_to_text
from export.tasks.text import text_model
from export.tasks.windows import windowed_image_model
from export.trained import made_by, trained
from model.architectures.captioner import CAPTIONER_SIZES, CAPTIONS_MEAN, CAPTIONS_STD
from model.architectures.convolutional import CONVOLUTIONAL_SIZES, Convolutional
from model.architectures.detector import DETECTOR_SIZES, SCENES_MEAN, SCENES_STD, Detector
from model.architectures.gpt import GPT, GPT_SIZES
from model.architectures.recurrent import RECURRENT_SIZES, Recurrent, RecurrentConfig
from model.architectures.speech_transformer import SPEECH_TRANSFORMER_SIZES, SPOKEN_MEL, SpeechTransformer
from model.architectures.swin import SCENES_MEAN as MARKED_MEAN
from model.architectures.swin import SCENES_STD as MARKED_STD
from model.architectures.swin import SWIN_SIZES, Swin
from model.architectures.tera import TERA_SIZES, Tera
from model.architectures.text_encoder import TEXT_ENCODER_SIZES, TextEncoder
from model.architectures.transformer import TRANSFORMER_SIZES, Transformer
from model.architectures.vit import DIGITS_BOX, DIGITS_MEAN, DIGITS_STD, VIT_SIZES, ViT, ViTConfig
from model.architectures.vit_variants import VARIANTS
from model.catalogue import BUNDLED
from model.parts.sound import LogMel
from model.vocabularies import ALPHABET, DATE_TAGS, END, MASK, MASK_TOKEN, PAD, SPECIALS, START, WORD_SPECIALS, WORDS


def digits() -> Source:
    """Return the classifier of handwritten digits."""
    return _one_digit("digits", VIT_SIZES["digits"])


def variant(name: str) -> Source:
    """Return a classifier of handwritten digits with another variant of attention."""
    return _one_digit(name, VARIANTS[name].config)


def digits_dino() -> Source:
    """Return the model that embeds handwritten digits."""
    return _one_digit("digits-dino", VIT_SIZES["digits"], "feature-extraction")


def scenes_dino() -> Source:
    """Return the model that embeds a handwritten digit anywhere in a picture."""
    name, config, model = "scenes-dino", VIT_SIZES["scenes-dino"], trained("scenes-dino", ViT)
    return image_model(
        name,
        model,
        config,
        family="vit",
        task="feature-extraction",
        rule=_whole_image(config.image, DIGITS_MEAN, DIGITS_STD),
        labels=(),
        made_by=made_by(name, config),
    )


def _one_digit(name: str, config: ViTConfig, task: Task = "image-classification") -> Source:
    height, width = config.image
    return image_model(
        name,
        trained(name, ViT),
        config,
        family="vit",
        task=task,
        rule=ImageRule(
            height=height,
            width=width,
            channels=1,
            locate="ink",
            ink_box=DIGITS_BOX,
            mean=(DIGITS_MEAN,),
            std=(DIGITS_STD,),
        ),
        labels=tuple("0123456789") if task == "image-classification" else (),
        made_by=made_by(name, config),
    )


def dates() -> Source:
    """Return the translator of written dates to ISO dates."""
    return _written_dates("dates")


def _written_dates(name: str) -> Source:
    config = TRANSFORMER_SIZES[name]
    return text_to_text(
        name,
        trained(name, Transformer),
        config,
        family="transformer",
        tokenizer=character_tokenizer(SPECIALS, ALPHABET),
        text=TextRule(tokenizer="tokenizer.json", max_tokens=config.length, padding=PAD),
        rules=ISO_RULES,
        made_by=made_by(name, config),
    )


def dates_recurrent() -> Source:
    """Return the translator of written dates that is a recurrent encoder-decoder."""
    name, config = "dates-recurrent", RECURRENT_SIZES["dates-recurrent"]
    decoder = AlignedDecoder(
        cross_kind((DECODER_ATTENTION,), "source", joined=False),
        vocabulary=config.vocabulary,
        memory=_recurrent_memory(config),
        states={"decoder.state": config.width},
        unrolled=config.target_length,
    )
    return aligned_text(
        name,
        trained(name, Recurrent),
        decoder,
        family="recurrent",
        text=TextRule(tokenizer="tokenizer.json", max_tokens=config.length, padding=PAD),
        tokenizer=character_tokenizer(SPECIALS, ALPHABET),
        rules=ISO_RULES,
        made_by=made_by(name, config),
    )


def dates_convolutional() -> Source:
    """Return the translator of written dates that is a convolutional encoder-decoder."""
    name, config = "dates-convolutional", CONVOLUTIONAL_SIZES["dates-convolutional"]
    layers = tuple(f"decoder.blocks.{layer}" for layer in range(config.decoder))
    decoder = AlignedDecoder(
        cross_kind(tuple(f"{layer}.attention" for layer in layers), "source", joined=True),
        vocabulary=config.vocabulary,
        memory={"memory.key": config.width, "memory.value": config.width},
        states=dict.fromkeys(layers, config.width),
    )
    return aligned_text(
        name,
        trained(name, Convolutional),
        decoder,
        family="convolutional",
        text=TextRule(tokenizer="tokenizer.json", max_tokens=config.length, padding=PAD),
        tokenizer=character_tokenizer(SPECIALS, ALPHABET),
        rules=ISO_RULES,
        made_by=made_by(name, config),
    )


def captions(name: str) -> Source:
    """Return the model that describes images of several digits."""
    config, model = CAPTIONER_SIZES["captions"], trained(name, Recurrent)
    decoder = AlignedDecoder(
        cross_kind((DECODER_ATTENTION,), "image", joined=False, grid=config.grid),
        vocabulary=config.decoder.vocabulary,
        memory=_recurrent_memory(config.decoder),
        states={"decoder.state": config.decoder.width},
        unrolled=config.decoder.target_length,
    )
    return aligned_image(
        name,
        model,
        decoder,
        family="recurrent",
        image=_whole_image(config.image, CAPTIONS_MEAN, CAPTIONS_STD),
        tokenizer=word_tokenizer(WORD_SPECIALS, WORDS),
        rules=_rules(config.decoder.target_length),
        made_by=made_by(name, config),
    )


def scenes_detr() -> Source:
    """Return the model that finds the handwritten digits of an image."""
    name, config, model = "scenes-detr", DETECTOR_SIZES["scenes-detr"], trained("scenes-detr", Detector)
    return object_detector(
        name,
        model,
        config,
        family="detr",
        rule=_whole_image(config.image, SCENES_MEAN, SCENES_STD),
        labels=tuple(map(str, range(config.classes))),
        made_by=made_by(name, config),
    )


def scenes_swin() -> Source:
    """Return the model that reads the digit of the marked quarter of an image."""
    name, config, model = "scenes-swin", SWIN_SIZES["scenes-swin"], trained("scenes-swin", Swin)
    return windowed_image_model(
        name,
        model,
        config,
        family="swin",
        task="image-classification",
        rule=_whole_image(config.image, MARKED_MEAN, MARKED_STD),
        labels=tuple(map(str, range(config.classes))),
        made_by=made_by(name, config),
    )


def spoken_digits() -> Source:
    """Return the model that writes spoken digits in words."""
    name, config = "spoken-digits", SPEECH_TRANSFORMER_SIZES["spoken-digits"]
    return speech_to_text(
        name,
        trained(name, SpeechTransformer),
        config,
        LogMel(SPOKEN_MEL),
        family="speech-transformer",
        sound=_spoken(config.frames, config.rows),
        tokenizer=word_tokenizer(WORD_SPECIALS, WORDS),
        rules=_rules(config.length),
        aligned=tuple((config.decoder.layers - 1, head) for head in range(config.decoder.heads)),
        made_by=made_by(name, config),
        planes=planes_of(config),
    )


def spoken_tera() -> Source:
    """Return the model that embeds spoken digits."""
    name, config = "spoken-tera", TERA_SIZES["spoken-tera"]
    return sound_embedder(
        name,
        trained(name, Tera),
        config,
        LogMel(SPOKEN_MEL),
        family="tera",
        sound=_spoken(config.frames),
        made_by=made_by(name, config),
    )


def _spoken(frames: int, bands: int = 0) -> SoundRule:
    rate, hop, side = SPOKEN_MEL.rate, SPOKEN_MEL.hop, SPOKEN_MEL.window // 2
    return SoundRule(rate=rate, samples=3 * rate, side=side, hop=hop, frames=frames, bands=bands)


def _whole_image(sides: tuple[int, int], mean: float, std: float) -> ImageRule:
    """Return the rule of gray images that are resized to (height, width)."""
    height, width = sides
    return ImageRule(height=height, width=width, channels=1, locate="middle", resize=sides, mean=(mean,), std=(std,))


DECODER_ATTENTION = "decoder.attention"
"""The path of a recurrent decoder's attention."""


def _rules(most: int) -> Generation:
    return Generation(start=START, end=END, padding=PAD, max_new_tokens=most, caches=(), memory=())


ISO_RULES = _rules(16)
"""The rules by which ISO dates are generated."""


def _recurrent_memory(config: RecurrentConfig) -> dict[str, int]:
    return {
        f"{DECODER_ATTENTION}.key": config.alignment,
        f"{DECODER_ATTENTION}.value": config.source,
        "memory.state": config.width,
    }


def dates_mlm() -> Source:
    """Return the model that fills gaps in lines of written dates."""
    config, model = TEXT_ENCODER_SIZES["dates-mlm"], trained("dates-mlm", TextEncoder)
    return text_model(
        "dates-mlm",
        model,
        config,
        family="bert",
        task="fill-mask",
        text=TextRule(tokenizer="tokenizer.json", max_tokens=config.length, mask=MASK, padding=PAD),
        tokenizer=character_tokenizer(SPECIALS, ALPHABET, around="[START] $A [END]", mask=MASK_TOKEN),
        made_by=made_by("dates-mlm", config),
    )


def dates_tags() -> Source:
    """Return the model that finds the parts of dates."""
    config, model = TEXT_ENCODER_SIZES["dates-tags"], trained("dates-tags", TextEncoder)
    return text_model(
        "dates-tags",
        model,
        config,
        family="bert",
        task="token-classification",
        text=TextRule(tokenizer="tokenizer.json", max_tokens=config.length, padding=PAD),
        tokenizer=character_tokenizer(SPECIALS, ALPHABET, around="[START] $A [END]"),
        labels=DATE_TAGS,
        made_by=made_by("dates-tags", config),
    )


def dates_rank() -> Source:
    """Return the model that ranks ISO dates by a written one."""
    name, config, model = "dates-rank", TEXT_ENCODER_SIZES["dates-rank"], trained("dates-rank", TextEncoder)
    return text_model(
        name,
        model,
        config,
        family="bert",
        task="text-classification",
        text=TextRule(tokenizer="tokenizer.json", max_tokens=config.length, mask=MASK, padding=PAD),
        tokenizer=character_tokenizer(
            SPECIALS, ALPHABET, around="[START] $A [END]", pair="[START] $A [END] $B:1 [END]:1", mask=MASK_TOKEN
        ),
        labels=("meant",),
        scores="sigmoid",
        made_by=made_by(name, config),
    )


def dates_clm() -> Source:
    """Return the model that continues lines of written dates."""
    config, model = GPT_SIZES["dates-clm"], trained("dates-clm", GPT)
    return text_continuer(
        "dates-clm",
        model,
        config,
        family="gpt2",
        text=TextRule(tokenizer="tokenizer.json", max_tokens=config.length, padding=PAD),
        tokenizer=character_tokenizer(SPECIALS, ALPHABET, around="[START] $A"),
        rules=Generation(start=None, end=END, max_new_tokens=config.length, caches=(), memory=()),
        made_by=made_by("dates-clm", config),
    )


def with_best(name: str, make: Callable[[], Source]) -> Source:
    """Return a bundled source with the method that `best.json` beside its weights recommends, if there is one.

    Raises CheckpointError if the file cannot be read.
    """
    source, file = make(), BUNDLED / name / "best.json"
    if not file.is_file():
        return source
    try:
        return dataclasses.replace(source, best=Recommendation.model_validate_json(file.read_bytes()))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file}: recommends no method: {' '.join(str(error).split())}") from error


def _made(name: str, make: Callable[[], Source]) -> Source:
    return presented(with_best(name, make))


_MAKERS: dict[str, Callable[[], Source]] = {
    "digits": digits,
    "digits-dino": digits_dino,
    "scenes-dino": scenes_dino,
    "dates": dates,
    "dates-mlm": dates_mlm,
    "dates-clm": dates_clm,
    "dates-tags": dates_tags,
    "dates-rank": dates_rank,
    "dates-bilinear": functools.partial(_written_dates, "dates-bilinear"),
    "dates-recurrent": dates_recurrent,
    "dates-convolutional": dates_convolutional,
    **{name: functools.partial(captions, name) for name in ("captions-soft", "captions-hard")},
    **{"scenes-detr": scenes_detr, "scenes-swin": scenes_swin, "scenes-clip": scenes_clip},
    "graphs-graphormer": graphs_graphormer,
    "graphs-gtn": graphs_gtn,
    "spoken-digits": spoken_digits,
    "spoken-tera": spoken_tera,
    **{name: functools.partial(variant, name) for name in VARIANTS},
    "minilm": minilm,
    "photos": photos,
    "whisper-tiny-en": whisper_tiny_en,
}

SOURCES: dict[str, Callable[[], Source]] = {
    name: functools.partial(_made, name, make) for name, make in _MAKERS.items()
}
"""What makes the source of each bundled model, by name."""
