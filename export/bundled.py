"""The sources of the bundled models: trained weights, labels, image rule or tokenizer."""

import dataclasses
from collections.abc import Callable
from typing import Any

import onnx
import torch

from contract.artifact import sha256
from contract.manifest import ImageRule, TextRule
from export.plan import Source
from export.tasks import image_classifier, text_to_text
from export.tokenizer import characters
from export.trace import OPSET
from model.alphabet import ALPHABET, END, PAD, SPECIALS, START, UNKNOWN
from model.catalogue import BUNDLED, bundled
from model.scan import BOX, MEAN, STD
from model.transformer import TRANSFORMER_SIZES, Transformer, TransformerConfig
from model.vit import VIT_SIZES, ViT, ViTConfig


def digits() -> Source:
    """Return the handwritten digits."""
    config, model = VIT_SIZES["digits"], bundled("digits")
    assert isinstance(model, ViT)  # noqa: S101 # for the type checker
    rule = ImageRule(
        height=config.image[0], width=config.image[1], channels=1, locate="ink", ink_box=BOX, mean=(MEAN,), std=(STD,)
    )
    return image_classifier("digits", model, config, rule, tuple("0123456789"), _made_by("digits", config))


def dates() -> Source:
    """Return the written dates."""
    config, model = TRANSFORMER_SIZES["dates"], bundled("dates")
    assert isinstance(model, Transformer)  # noqa: S101 # for the type checker
    return text_to_text(
        "dates",
        model,
        config,
        tokenizer=characters(SPECIALS, ALPHABET),
        text=TextRule(tokenizer="tokenizer.json", max_tokens=config.length, pad=PAD, unknown=UNKNOWN),
        start=START,
        end=END,
        max_new_tokens=16,
        made_by=_made_by("dates", config),
    )


SOURCES: dict[str, Callable[[], Source]] = {"digits": digits, "dates": dates}


def _made_by(name: str, config: ViTConfig | TransformerConfig) -> dict[str, Any]:
    sizes = {
        key: list(value) if isinstance(value, tuple) else value for key, value in dataclasses.asdict(config).items()
    }
    return {
        "definition": name,
        **sizes,
        "weights_sha256": sha256(BUNDLED / name / "model.safetensors"),
        "torch": torch.__version__.split("+")[0],
        "onnx": onnx.__version__,
        "opset": OPSET,
    }
