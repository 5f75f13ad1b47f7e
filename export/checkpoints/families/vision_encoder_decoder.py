"""Decoders of texts behind encoders of pictures: TrOCR (Li et al. 2021), and GPT-2 behind a ViT."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

from torch import Tensor, nn

from contract.manifest import Task
from export.checkpoints.building.family import ExportOptions, Family, made_by, read_config
from export.checkpoints.building.image_family import VisionTransformerFamily
from export.checkpoints.building.sequence_family import stack_names
from export.checkpoints.building.tensor_names import UNUSED, Names, copy_of, cut, moved
from export.checkpoints.building.text_decoder import CrossAttentionConfig, Parts, TextDecoder, cross_stack
from export.checkpoints.families.beit import BEIT
from export.checkpoints.families.deit import DEIT
from export.checkpoints.families.dinov2 import DINOV2
from export.checkpoints.families.gpt2 import BLOCK, GPT2, with_scales
from export.checkpoints.families.gpt2 import Config as GPT2Config
from export.checkpoints.families.vit import VIT
from export.checkpoints.reading.checkpoint import CONFIG, Checkpoint, without_keys
from export.checkpoints.reading.config import GENERATION_KEYS, Activation, Depth, Index, Size
from export.checkpoints.reading.config import Config as BaseConfig
from export.checkpoints.reading.generation_config import read_generation
from export.checkpoints.reading.tokenizers.tokenizer import read_tokenizer, special_token
from export.errors import CheckpointError
from export.plan import Source
from export.tasks.image_to_text import image_to_text
from model.architectures.transformer import PADDING_OFFSET
from model.architectures.vision_encoder_decoder import VisionEncoderDecoder, VisionEncoderDecoderConfig
from model.parts.embedding import Embedding, tied_linear
from model.parts.positions import SinusoidalPositions
from model.parts.stacks import POST_NORM, PRE_NORM, PlainSizes


class TrOCRConfig(CrossAttentionConfig):
    """The decoder's part of `config.json`, of TrOCR."""

    vocab_size: Size = 50265
    d_model: Size = 1024
    decoder_layers: Depth = 12
    decoder_attention_heads: Size = 16
    decoder_ffn_dim: Size = 4096
    activation_function: Activation = "gelu"
    max_position_embeddings: Size = 512
    scale_embedding: bool = False
    use_learned_position_embeddings: bool = True
    layernorm_embedding: bool = True
    pad_token_id: Index = 1


class TrOCRDecoder(TextDecoder[TrOCRConfig]):
    """Blocks as BART's, which normalise behind each branch; positions are learned, or sinusoids without a norm."""

    def compose(self, config: TrOCRConfig, source: int | None) -> Parts:
        """Compose the decoder of states `source` wide, by default as wide as its own."""
        width, length = config.d_model, config.max_position_embeddings
        sizes = PlainSizes(
            width,
            config.decoder_layers,
            config.decoder_attention_heads,
            config.decoder_ffn_dim,
            config.activation_function,
        )
        tokens = nn.Embedding(config.vocab_size, width)
        offset = PADDING_OFFSET if config.use_learned_position_embeddings else config.pad_token_id + 1
        learned = nn.Embedding(offset + length, width)
        sinusoids = SinusoidalPositions(offset + length, width, interleaved=False, inclusive=True)
        target = Embedding(
            tokens,
            learned if config.use_learned_position_embeddings else sinusoids,
            scale=width**0.5 if config.scale_embedding else 1.0,
            offset=offset,
            norm=nn.LayerNorm(width) if config.layernorm_embedding else None,
        )
        return Parts(sizes, length, target, cross_stack(sizes, source, POST_NORM))


class CrossGPT2Config(CrossAttentionConfig, GPT2Config):
    """The decoder's part of `config.json`, of a GPT-2."""


class GPT2Decoder(TextDecoder[CrossGPT2Config]):
    """Blocks of a GPT-2 (Radford et al. 2019) that look at the source between their two branches."""

    def compose(self, config: CrossGPT2Config, source: int | None) -> Parts:
        """Compose the decoder of states `source` wide, by default as wide as its own."""
        own = GPT2.sizes(config)
        sizes = PlainSizes(own.width, own.layers, own.heads, own.hidden, own.activation, own.epsilon)
        target = own.embed(nn.Embedding(own.vocabulary, own.width))
        return Parts(sizes, own.length, target, cross_stack(sizes, source, PRE_NORM))

    def adapt(self, config: CrossGPT2Config, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Fold the scale of the scores into the queries."""
        return with_scales(config, tensors)


CROSS_NAMES: Names = {
    "h.{}.ln_cross_attn": f"{BLOCK}.cross_norm",
    "h.{}.crossattention.q_attn": cut(f"{BLOCK}.cross.query", transposed=True),
    "h.{}.crossattention.c_attn": cut(f"{BLOCK}.cross.key", f"{BLOCK}.cross.value", transposed=True),
    "h.{}.crossattention.c_proj": cut(f"{BLOCK}.cross.output", transposed=True),
    **dict.fromkeys(("h.{}.crossattention.bias", "h.{}.crossattention.masked_bias"), UNUSED),  # of older checkpoints
}
DECODERS: Mapping[str, TextDecoder[Any]] = {
    one.model_type: one
    for one in (
        TrOCRDecoder(
            "trocr",
            TrOCRConfig,
            {
                "embed_tokens": "target.tokens",
                "embed_positions": "target.positions",
                "embed_positions._float_tensor": UNUSED,  # where sinusoids lay once
                "layernorm_embedding": "target.norm",
                **{
                    their.removeprefix("decoder."): ours
                    for their, ours in stack_names().items()
                    if their.startswith("decoder.")
                },
            },
            prefix="model.decoder.",
            output="output_projection",
        ),
        GPT2Decoder(
            "gpt2",
            CrossGPT2Config,
            {
                **{
                    their: ours.replace("embed.", "target.") if isinstance(ours, str) else ours
                    for their, ours in GPT2.names.items()
                },
                **dict.fromkeys(GPT2.unused, UNUSED),
                **CROSS_NAMES,
            },
            prefix=GPT2.prefix,
            output="lm_head",
        ),
    )
}
"""The decoders, by the `model_type` of their part of the configuration."""


ENCODERS: Mapping[str, VisionTransformerFamily[Any]] = {one.model_type: one for one in (VIT, DEIT, BEIT, DINOV2)}
"""The families of encoders, whose last states are looked at."""


class Config(BaseConfig):
    """`config.json`: that of the encoder, that of the decoder, and tokens."""

    encoder: dict[str, Any]
    decoder: dict[str, Any]
    is_encoder_decoder: Literal[True] = True  # type: ignore[assignment] # the other of two
    irrelevant_keys = frozenset({"processor_class", "vocab_size"})


@dataclass(frozen=True)
class EncoderAndDecoder:
    """The encoder and the decoder of a checkpoint, and what is configured of each."""

    encoder: VisionTransformerFamily[Any]
    encoder_config: Any
    decoder: TextDecoder[Any]
    decoder_config: Any


VISION = "vision."


@dataclass(frozen=True)
class VisionEncoderDecoderFamily(Family[Config]):
    """A family whose encoder is that of a family of pictures."""

    command_options: ClassVar[str] = "--image-size"

    def both(self, config: Config) -> EncoderAndDecoder:
        """Return what is configured. Raises CheckpointError for an encoder or a decoder that is not read."""
        encoder, decoder = _kind_of(ENCODERS, config, "encoder"), _kind_of(DECODERS, config, "decoder")
        return EncoderAndDecoder(
            encoder,
            read_config(encoder.config, encoder.model_type, config.encoder, "encoder."),
            decoder,
            read_config(decoder.config, decoder.model_type, config.decoder, "decoder."),
        )

    def body(self, config: Config) -> Names:
        """Return the names of both parts' tensors, and of what leads from one to the other."""
        both = self.both(config)
        others = {name: UNUSED for names in (*both.encoder.heads.values(), both.encoder.unused) for name in names}
        return {
            **moved(others, "encoder.", ""),
            **moved(both.encoder.names, "encoder.", VISION),
            **moved(both.decoder.names, f"decoder.{both.decoder.prefix}", ""),
            "enc_to_dec_proj": "bridge",
        }

    def head_names(self, config: Config, task: Task) -> Names:
        """Return the output's name: its matrix is the embedding, unless the decoder says that it is not."""
        both = self.both(config)
        output = f"decoder.{both.decoder.output}.weight"
        return {output: copy_of("head.weight") if both.decoder_config.tie_word_embeddings else "head.weight"}

    def adapt(self, config: Config, module: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Change the tensors as their families do."""
        assert isinstance(module, VisionEncoderDecoder)  # noqa: S101 # for the type checker
        both = self.both(config)
        seen = {name.removeprefix(VISION): tensor for name, tensor in tensors.items() if name.startswith(VISION)}
        written = {name: tensor for name, tensor in tensors.items() if not name.startswith(VISION)}
        seen = both.encoder.adapt(both.encoder_config, module.vision, seen)
        written = both.decoder.adapt(both.decoder_config, written)
        return {**{f"{VISION}{name}": tensor for name, tensor in seen.items()}, **written}

    def build(self, checkpoint: Checkpoint, options: ExportOptions, config: Config, task: Task) -> Source:
        """Compose the definition, fill it with the checkpoint's tensors, and return the source."""
        config = config.model_copy(
            update={part: without_keys(getattr(config, part), options.ignored) for part in ("encoder", "decoder")}
        )
        both = self.both(config)
        rule = both.encoder.rule(checkpoint, options, both.encoder_config)
        pictures = checkpoint.only(lambda name: name.startswith("encoder."))
        try:
            seen = both.encoder.sizes(both.encoder_config, (rule.height, rule.width), pictures)
        except ValueError as error:
            raise CheckpointError(f"{CONFIG}: {error}; say another size with --image-size HEIGHTxWIDTH") from error
        parts = both.decoder.compose(both.decoder_config, both.decoder_config.cross_attention_hidden_size)
        sizes = VisionEncoderDecoderConfig(seen, parts.sizes, parts.target.tokens.num_embeddings, parts.length)
        module, unused = self.fill(
            VisionEncoderDecoder(
                both.encoder.composed(both.encoder_config, seen, nn.Identity()),
                self._bridge(both, seen.width, parts.sizes.width),
                parts.target,
                parts.decoder,
                tied_linear(parts.target.tokens)
                if both.decoder_config.tie_word_embeddings
                else nn.Linear(parts.sizes.width, sizes.vocabulary, bias=False),
            ),
            checkpoint,
            config,
            task,
        )
        tokenizer = read_tokenizer(of_decoder(checkpoint, config), sizes.vocabulary)
        rules = read_generation(
            of_decoder(checkpoint, config),
            continues=False,
            vocabulary=sizes.vocabulary,
            positions=sizes.length,
            ignored=options.ignored,
        )
        padding = special_token(checkpoint, tokenizer, "pad_token")
        return image_to_text(
            options.name,
            module,
            sizes,
            family=self.model_type,
            rule=rule,
            tokenizer=tokenizer.to_str(pretty=True),
            rules=rules.model_copy(update={"padding": padding}),
            made_by=made_by(self.model_type, sizes, checkpoint, unused),
        )

    @staticmethod
    def _bridge(both: EncoderAndDecoder, seen: int, written: int) -> nn.Module:
        """Return what leads from the encoder's states to those that the decoder looks at."""
        said = both.decoder_config.cross_attention_hidden_size
        if said not in (None, seen):
            raise CheckpointError(
                f"{CONFIG}: decoder.cross_attention_hidden_size must be the encoder's {seen}, given {said}"
            )
        return nn.Linear(seen, written) if said is None and seen != written else nn.Identity()


K = TypeVar("K")


def _kind_of(known: Mapping[str, K], config: Config, part: str) -> K:
    """Return what a part of a configuration is of. Raises CheckpointError for what is not known."""
    given = str(getattr(config, part).get("model_type"))
    if given not in known:
        raise CheckpointError(f"{CONFIG}: {part}.model_type must be one of {', '.join(known)}, given {given[:64]!r}")
    return known[given]


def of_decoder(checkpoint: Checkpoint, config: Config) -> Checkpoint:
    """Return a checkpoint whose configuration is the decoder's where the whole one's says nothing."""
    known = {key: value for key, value in config.decoder.items() if key in GENERATION_KEYS or key == "model_type"}
    whole = {key: value for key, value in checkpoint.config.items() if value is not None and key != "model_type"}
    return dataclasses.replace(checkpoint, config=known | whole)


VISION_ENCODER_DECODER = VisionEncoderDecoderFamily("vision-encoder-decoder", Config, {}, heads={"image-to-text": {}})
