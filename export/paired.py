"""The source of the bundled model of two towers: that of pictures, whose partner is that of texts."""

import dataclasses

from contract.contrast import Comparison
from contract.input_rules import ImageRule, TextRule
from export.checkpoints.reading.tokenizers.tokenizer import label_tokenizer
from export.plan import Source
from export.tasks.image import image_model
from export.tasks.text import text_model
from export.trained import made_by, trained
from model.architectures.text_encoder import TextEncoder
from model.architectures.two_towers import TWO_TOWERS_SIZES, TwoTowers
from model.architectures.vit import DIGITS_MEAN, DIGITS_STD, ViT
from model.vocabularies import LABEL_WORDS, PAD, SPECIALS


def scenes_clip() -> Source:
    """Return the model that compares pictures of coloured digits with labels, whose partner takes the labels."""
    return two_towers(trained("scenes-clip", TwoTowers))


def two_towers(towers: TwoTowers, name: str = "scenes-clip") -> Source:
    """Return the source of a model with the sizes of `scenes-clip`."""
    config = TWO_TOWERS_SIZES[name]
    assert isinstance(towers.image, ViT)  # noqa: S101 # for the type checker
    assert isinstance(towers.text, TextEncoder)  # noqa: S101 # as above
    height, width = config.image.image
    comparison = Comparison(scale=towers.scale.exp().item())
    text = text_model(
        f"{name}-text",
        towers.text,
        config.text,
        family="clip",
        task="feature-extraction",
        text=TextRule(tokenizer="tokenizer.json", max_tokens=config.text.length, padding=PAD),
        tokenizer=label_tokenizer(SPECIALS, LABEL_WORDS, "[START] $A [END]"),
        made_by=made_by(name, config.text),
    )
    image = image_model(
        name,
        towers.image,
        config.image,
        family="clip",
        task="feature-extraction",
        rule=ImageRule(
            height=height,
            width=width,
            channels=3,
            locate="middle",
            resize=config.image.image,
            mean=(DIGITS_MEAN,) * 3,
            std=(DIGITS_STD,) * 3,
        ),
        labels=(),
        made_by=made_by(name, config.image),
    )
    partner = dataclasses.replace(text, comparison=comparison)
    return dataclasses.replace(image, comparison=comparison, partner=partner)
