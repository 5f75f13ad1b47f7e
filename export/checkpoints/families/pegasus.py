"""PEGASUS (Zhang et al. 2020): an encoder-decoder that normalises before its branches, for summaries."""

from dataclasses import dataclass

from torch import nn

from export.checkpoints.building.sequence_family import PreNormConfig, SequenceFamily
from export.checkpoints.families.marian import MARIAN
from export.checkpoints.reading.config import Index
from model.architectures.transformer import Transformer, TransformerConfig, marian
from model.parts.stacks import Wiring


class Config(PreNormConfig):
    """`config.json`."""

    extra_pos_embeddings: Index | None = None  # type: ignore[assignment] # sinusoids have no extra rows, whatever it is


@dataclass(frozen=True)
class PegasusFamily(SequenceFamily[Config]):
    """Like Marian, with norms before the branches."""

    def sizes(self, config: Config) -> TransformerConfig:
        """Return the definition's sizes."""
        return self.common(config, embedding_norm=False, static_positions=True)

    def compose(
        self, config: Config, sizes: TransformerConfig, wiring: Wiring, scale: float, head: nn.Linear | None
    ) -> Transformer:
        """Compose the definition."""
        return marian(sizes, wiring, scale=scale, head=head)


PEGASUS = PegasusFamily("pegasus", Config, MARIAN.names, heads=MARIAN.heads, prefix=MARIAN.prefix)
