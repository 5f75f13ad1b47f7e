"""The base of the families of two towers: a checkpoint becomes two sources, of pictures and of texts."""

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from pydantic import Field

from contract.contrast import Comparison
from contract.manifest import Task
from export.checkpoints.building.family import ExportOptions, Family, made_by
from export.checkpoints.building.image_family import VisionTransformerFamily
from export.checkpoints.building.tensor_names import Names
from export.checkpoints.building.text_family import TextConfig
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.config import Activation, Config, Depth, Epsilon, Size
from export.checkpoints.reading.tokenizers.tokenizer import read_tokenizer, text_rule
from export.errors import CheckpointError
from export.plan import Source
from export.tasks.text import text_model
from model.architectures.text_encoder import TextEncoder, TextEncoderConfig

FEATURES: dict[Task, Names] = {"feature-extraction": {}}
LONGEST_NAME = 128
OF_TEXTS = "-text"
"""What the name of the texts' artifact ends in, behind that of the pictures'."""
TowerName: TypeAlias = Literal["vision", "text"]
TOWERS: tuple[TowerName, ...] = get_args(TowerName)
BEGINNINGS: Mapping[TowerName, tuple[str, ...]] = {
    "text": ("text_model.", "text_projection."),
    "vision": ("vision_model.", "visual_projection."),
}
"""How the names of a tower's tensors begin."""
SPECIAL_TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")
"""What old configurations say wrong of them; the tokenizer's files say it right."""


class TextTowerConfig(Config):
    """What configurations of encoders of texts have in common."""

    vocab_size: Size
    hidden_size: Size = 768
    num_hidden_layers: Depth = 12
    num_attention_heads: Size = 12
    intermediate_size: Size = 3072
    max_position_embeddings: Size
    hidden_act: Activation
    layer_norm_eps: Epsilon


class TowersConfig(Config):
    """What configurations of two towers have in common: that of each. What was given to make it overrides it."""

    text_config: dict[str, Any] = Field({})
    vision_config: dict[str, Any] = Field({})
    text_config_dict: dict[str, Any] | None = None
    vision_config_dict: dict[str, Any] | None = None

    def of(self, tower: TowerName) -> dict[str, Any]:
        """Return the configuration of a tower."""
        given: dict[str, Any] | None = getattr(self, f"{tower}_config_dict")
        found: dict[str, Any] = getattr(self, f"{tower}_config") if given is None else given
        return found


T = TypeVar("T", bound=TextTowerConfig | TextConfig)
P = TypeVar("P", bound=TowersConfig)


def text_sizes(config: TextTowerConfig) -> TextEncoderConfig:
    """Return the sizes of an encoder of texts."""
    return TextEncoderConfig(
        config.vocab_size,
        length=config.max_position_embeddings,
        width=config.hidden_size,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        hidden=config.intermediate_size,
        activation=config.hidden_act,
        epsilon=config.layer_norm_eps,
    )


@dataclass(frozen=True)
class TextTower(Family[T]):
    """The encoder of texts of two towers."""

    filled: bool = False
    """True if every text is filled with padding up to the most tokens, and padding is seen."""

    @abstractmethod
    def compose(self, config: T) -> tuple[TextEncoder, TextEncoderConfig]:
        """Return the definition, not yet filled, and its sizes."""

    def build(self, checkpoint: Checkpoint, options: ExportOptions, config: T, task: Task) -> Source:
        """Compose the definition, fill it with the checkpoint's tensors, and return the source."""
        tokenizer = read_tokenizer(checkpoint, config.vocab_size)
        module, sizes = self.compose(config)
        rule = text_rule(checkpoint, tokenizer, sizes.length)
        if self.filled:
            rule = rule.model_copy(update={"filled": True})
        module, unused = self.fill(module, checkpoint, config, task)
        return text_model(
            options.name,
            module,
            sizes,
            family=self.model_type,
            task=task,
            text=rule,
            tokenizer=tokenizer.to_str(pretty=True),
            made_by=made_by(self.model_type, sizes, checkpoint, unused),
        )


@dataclass(frozen=True, kw_only=True)
class TwoTowers(Family[P]):
    """A family that embeds pictures and texts so that they can be compared."""

    image: VisionTransformerFamily[Any]
    text: TextTower[Any]
    scores: Literal["softmax", "sigmoid"]
    command_options = VisionTransformerFamily.command_options

    def of_both(self, config: P) -> dict[str, Any]:
        """Return what the configuration says of both towers beside theirs; by default nothing."""
        return {}

    def build(self, checkpoint: Checkpoint, options: ExportOptions, config: P, task: Task) -> Source:
        """Return the source of pictures, whose partner is that of texts."""
        comparison = self._comparison(checkpoint)
        named = dataclasses.replace(options, name=f"{options.name[: LONGEST_NAME - len(OF_TEXTS)]}{OF_TEXTS}")
        pictures, texts = (self._of(checkpoint, config, tower) for tower in TOWERS)
        image = self.image.build(pictures, options, self.image.read(pictures), task)
        text = self.text.build(texts, named, self.text.read(texts), task)
        partner = dataclasses.replace(text, comparison=comparison)
        return dataclasses.replace(image, comparison=comparison, partner=partner)

    def _of(self, checkpoint: Checkpoint, config: P, tower: TowerName) -> Checkpoint:
        """Return the part of a checkpoint that is of one tower."""
        own = {key: value for key, value in config.of(tower).items() if key not in SPECIAL_TOKENS}
        found = checkpoint.only(lambda name: name.startswith(BEGINNINGS[tower]))
        return dataclasses.replace(found, config={**own, **self.of_both(config), "model_type": self.model_type})

    def _comparison(self, checkpoint: Checkpoint) -> Comparison:
        """Return how vectors are compared. Raises CheckpointError for tensors that are of neither tower, nor of it."""
        own = dict(checkpoint.only(lambda name: not name.startswith(sum(BEGINNINGS.values(), ()))).load())
        expected = {"logit_scale", "logit_bias"} if self.scores == "sigmoid" else {"logit_scale"}
        if own.keys() != expected or any(one.numel() != 1 for one in own.values()):
            raise CheckpointError(
                f"weights: beside those of text_model and vision_model must be {', '.join(sorted(expected))}, a number "
                f"each, given {', '.join(sorted(own)[:20]) or 'nothing'}"
            )
        bias = own["logit_bias"].item() if "logit_bias" in own else 0.0
        return Comparison(scale=own["logit_scale"].double().exp().item(), bias=bias, scores=self.scores)
