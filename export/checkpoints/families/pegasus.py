"""PEGASUS (Zhang et al. 2020): an encoder-decoder that normalises before its branches, for summaries."""

from export.checkpoints.building.sequence_family import PreNormConfig, SequenceFamily
from export.checkpoints.families.marian import MARIAN
from export.checkpoints.reading.config import Index


class Config(PreNormConfig):
    """`config.json`."""

    extra_pos_embeddings: Index | None = None  # type: ignore[assignment] # sinusoids have no extra rows, whatever it is


PEGASUS = SequenceFamily(
    "pegasus",
    Config,
    MARIAN.names,
    heads=MARIAN.heads,
    prefix=MARIAN.prefix,
    definition=MARIAN.definition,
    sinusoids=True,
)
