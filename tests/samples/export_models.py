"""Small models with their sources, and the folders of their graphs."""

import onnxruntime as ort
import torch
from torch import nn

from contract.generation import Generation
from contract.input_rules import ImageRule, TextRule
from export.checkpoints.reading.tokenizers.tokenizer import character_tokenizer
from export.pack import GraphWriter
from export.pipeline import write_graphs
from export.tasks.generation import text_continuer, text_to_text
from export.tasks.image import image_model
from export.tasks.text import text_model
from export.tasks.windows import windowed_image_model
from model.architectures.gpt import gpt
from model.architectures.swin import SwinConfig, swin
from model.architectures.text_encoder import TextEncoderConfig, text_encoder
from model.architectures.transformer import TransformerConfig, vaswani
from model.architectures.vit import ViTConfig, vit
from model.parts.heads import Pool, Unit
from model.parts.stacks import StackSizes
from model.vocabularies import ALPHABET, SPECIALS
from tests.samples.traces import traced_once, traces_kept

VIT = ViTConfig((8, 12), 1, patch=(4, 4), width=16, layers=2, heads=2, hidden=32, classes=3)
STACK = StackSizes(layers=2, heads=2, hidden=32)
TRANSFORMER = TransformerConfig(len(SPECIALS) + len(ALPHABET), length=48, width=16, encoder=STACK, decoder=STACK)


def sharpened(module):
    """Weights large enough that attention is not uniform, or every bug passes."""
    torch.manual_seed(0)
    for parameter in module.parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, std=1.5 / parameter.shape[1] ** 0.5)
    return module.eval()


def classifier(model=None, config=VIT):
    torch.manual_seed(0)
    height, width = config.image
    rule = ImageRule(
        height=height, width=width, channels=1, locate="middle", resize=(height, width), mean=(0.5,), std=(0.25,)
    )
    return image_model(
        "small",
        model or sharpened(vit(config)),
        config,
        family="vit",
        task="image-classification",
        rule=rule,
        labels=("a", "b", "c"),
        made_by={},
    )


def windowed():
    """A Swin of one stage, whose second block is shifted."""
    torch.manual_seed(0)
    config = SwinConfig((32, 32), 1, (4, 4), width=16, depths=(2,), heads=(2,), window=4, ratio=2, classes=3)
    rule = ImageRule(height=32, width=32, channels=1, locate="middle", resize=(32, 32), mean=(0.5,), std=(0.25,))
    return windowed_image_model(
        "windowed", sharpened(swin(config)), config, family="swin", task="image-classification", rule=rule,
        labels=("a", "b", "c"), made_by={},
    )  # fmt: skip


def translator(model=None, config=TRANSFORMER, most=12):
    torch.manual_seed(0)
    return text_to_text(
        "pair",
        model or sharpened(vaswani(config)),
        config,
        family="transformer",
        tokenizer=character_tokenizer(SPECIALS, ALPHABET),
        text=TextRule(tokenizer="tokenizer.json", max_tokens=48),
        rules=Generation(start=1, end=2, max_new_tokens=most, caches=(), memory=()),
        made_by={},
    )


def continuer(config):
    torch.manual_seed(0)
    return text_continuer(
        "continued",
        sharpened(gpt(config)),
        config,
        family="gpt",
        text=TextRule(tokenizer="tokenizer.json", max_tokens=config.length, padding=0),
        tokenizer=character_tokenizer(SPECIALS, ALPHABET, around="[START] $A"),
        rules=Generation(start=None, end=2, max_new_tokens=config.length, caches=(), memory=()),
        made_by={},
    )


def embedder(pooling):
    torch.manual_seed(0)
    config = TextEncoderConfig(len(SPECIALS) + len(ALPHABET), length=24, width=16, layers=2, heads=2, hidden=20)
    return text_model(
        "embedded",
        sharpened(text_encoder(config, Pool(pooling, Unit()))),
        config,
        family="text_encoder",
        task="feature-extraction",
        text=TextRule(tokenizer="tokenizer.json", max_tokens=config.length, padding=0),
        tokenizer=character_tokenizer(SPECIALS, ALPHABET, around="[START] $A"),
        made_by={},
    )


def written(source, folder):
    with traces_kept(), GraphWriter(folder) as graphs:
        write_graphs(source, graphs)
    return folder


def opened(folder):
    return lambda role: ort.InferenceSession(folder / f"{role}.onnx")


def traced(source):
    return traced_once(source.base, source.traced_at)
