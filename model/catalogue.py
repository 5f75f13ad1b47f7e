"""Every model by name: which definition, which sizes, and for the bundled ones which weights."""

from collections.abc import Callable
from pathlib import Path

from torch import nn

from model.architectures.captioner import CAPTIONER_SIZES, captioner
from model.architectures.convolutional import CONVOLUTIONAL_SIZES, convolutional
from model.architectures.detector import DETECTOR_SIZES, detector
from model.architectures.gpt import GPT_SIZES, gpt
from model.architectures.graph_transformer_network import GRAPH_TRANSFORMER_NETWORK_SIZES, graph_transformer_network
from model.architectures.graphormer import GRAPHORMER_SIZES, graphormer
from model.architectures.recurrent import RECURRENT_SIZES, recurrent_text, unattended_text
from model.architectures.speech_transformer import SPEECH_TRANSFORMER_SIZES, speech_transformer
from model.architectures.swin import SWIN_SIZES, swin
from model.architectures.swin_v2 import SWIN_V2_SIZES, swin_v2
from model.architectures.tera import TERA_SIZES, tera
from model.architectures.text_encoder import TEXT_ENCODER_SIZES, tagger, text_ranker, word_filler
from model.architectures.transformer import TRANSFORMER_SIZES, vaswani
from model.architectures.two_towers import TWO_TOWERS_SIZES, clip
from model.architectures.vit import VIT_SIZES, vit
from model.architectures.vit_variants import VARIANTS
from model.parts.attention_variants import Bilinear, Hard
from model.parts.heads import FirstState
from model.parts.stacks import PRE_NORM
from model.vocabularies import DATE_TAGS
from model.weights import load_weights

CATALOGUE: dict[str, Callable[[], nn.Module]] = {
    **{name: lambda config=config: vit(config) for name, config in VIT_SIZES.items()},  # type: ignore[misc] # mypy cannot infer a lambda's default
    **{name: lambda one=one: one.compose(one.config) for name, one in VARIANTS.items()},  # type: ignore[misc] # as above
    "transformer_base": lambda: vaswani(TRANSFORMER_SIZES["transformer_base"]),
    "transformer_big": lambda: vaswani(TRANSFORMER_SIZES["transformer_big"]),
    "dates": lambda: vaswani(TRANSFORMER_SIZES["dates"], PRE_NORM),
    "dates-bilinear": lambda: vaswani(TRANSFORMER_SIZES["dates-bilinear"], PRE_NORM, Bilinear),
    "captions-soft": lambda: captioner(CAPTIONER_SIZES["captions"]),
    "captions-hard": lambda: captioner(CAPTIONER_SIZES["captions"], Hard()),
    "dates-recurrent": lambda: recurrent_text(RECURRENT_SIZES["dates-recurrent"]),
    "dates-plain": lambda: unattended_text(RECURRENT_SIZES["dates-plain"]),
    **{name: lambda config=config: convolutional(config) for name, config in CONVOLUTIONAL_SIZES.items()},  # type: ignore[misc] # as above
    **{name: lambda config=config: detector(config) for name, config in DETECTOR_SIZES.items()},  # type: ignore[misc] # as above
    **{name: lambda config=config: swin(config) for name, config in SWIN_SIZES.items()},  # type: ignore[misc] # as above
    **{name: lambda config=config: swin_v2(config) for name, config in SWIN_V2_SIZES.items()},  # type: ignore[misc] # as above
    **{name: lambda config=config: speech_transformer(config) for name, config in SPEECH_TRANSFORMER_SIZES.items()},  # type: ignore[misc] # as above
    **{name: lambda config=config: tera(config) for name, config in TERA_SIZES.items()},  # type: ignore[misc] # as above
    **{name: lambda config=config: clip(config) for name, config in TWO_TOWERS_SIZES.items()},  # type: ignore[misc] # as above
    **{name: lambda config=config: graphormer(config) for name, config in GRAPHORMER_SIZES.items()},  # type: ignore[misc] # as above
    **{
        name: lambda config=config: graph_transformer_network(config)  # type: ignore[misc] # as above
        for name, config in GRAPH_TRANSFORMER_NETWORK_SIZES.items()
    },
    "digits-dino": lambda: vit(VIT_SIZES["digits"], FirstState()),
    "scenes-dino": lambda: vit(VIT_SIZES["scenes-dino"], FirstState()),
    "dates-mlm": lambda: word_filler(TEXT_ENCODER_SIZES["dates-mlm"]),
    "dates-tags": lambda: tagger(TEXT_ENCODER_SIZES["dates-tags"], len(DATE_TAGS)),
    "dates-rank": lambda: text_ranker(TEXT_ENCODER_SIZES["dates-rank"]),
    **{name: lambda config=config: gpt(config) for name, config in GPT_SIZES.items()},  # type: ignore[misc] # as above
}

BUNDLED = Path(__file__).parent / "bundled"
"""One folder a trained model: `model.safetensors` and its card."""


def build(name: str) -> nn.Module:
    """Return a catalogue model with freshly initialised weights, in inference mode."""
    if name not in CATALOGUE:
        raise ValueError(f"model: must be one of {', '.join(sorted(CATALOGUE))}, given {name!r}")
    return CATALOGUE[name]().eval()


def bundled(name: str) -> nn.Module:
    """Return a bundled model with its trained weights, in inference mode."""
    module = build(name)
    load_weights(module, BUNDLED / name / "model.safetensors", name)
    return module
