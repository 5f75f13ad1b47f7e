"""BART (Lewis et al. 2020): an encoder-decoder with learned positions."""

from export.checkpoints.building.sequence_family import SequenceConfig, SequenceFamily, stack_names
from export.checkpoints.building.tensor_names import Names

HEAD: Names = {"final_logits_bias": "head.bias"}
CLASSIFIER: Names = {"classification_head.dense": "head.0", "classification_head.out_proj": "head.2"}

BART = SequenceFamily(
    "bart",
    SequenceConfig,
    {
        **stack_names(),
        "encoder.embed_positions": "source.positions",
        "encoder.layernorm_embedding": "source.norm",
        "decoder.embed_positions": "target.positions",
        "decoder.layernorm_embedding": "target.norm",
    },
    heads={"text2text-generation": HEAD, "text-classification": CLASSIFIER},
    prefix="model.",
)
