"""RoBERTa (Liu et al. 2019): a BERT whose positions begin after that of padding, trained without pairs."""

import dataclasses

from export.checkpoints.families import bert
from export.checkpoints.reading.config import Index
from model.architectures.text_encoder import TextEncoderConfig


class Config(bert.Config):
    """`config.json`."""

    pad_token_id: Index = 1


class RobertaFamily(bert.BertFamily):
    """Like BERT, with other names for its heads."""

    def sizes(self, config: bert.Config) -> TextEncoderConfig:
        """Return the definition's sizes."""
        offset = (config.pad_token_id or 0) + 1
        sizes = super().sizes(config)
        return dataclasses.replace(sizes, offset=offset, length=sizes.length - offset)


def _like_roberta(model_type: str) -> RobertaFamily:
    return RobertaFamily(
        model_type,
        Config,
        bert.NAMES,
        heads={
            "text-classification": {"classifier.dense": "head.dense", "classifier.out_proj": "head.output"},
            "fill-mask": {
                "lm_head.dense": "head.dense",
                "lm_head.layer_norm": "head.norm",
            },
            "feature-extraction": {},
        },
        prefix="roberta.",
        unused=("embeddings.position_ids", "pooler.dense"),
        output_layer="lm_head.decoder",
        output_bias="lm_head.bias",
        mask_activation="gelu",
    )


ROBERTA = _like_roberta("roberta")
XLM_ROBERTA = _like_roberta("xlm-roberta")
"""XLM-RoBERTa (Conneau et al. 2020): the same, of a hundred languages."""
CAMEMBERT = _like_roberta("camembert")
"""CamemBERT (Martin et al. 2020): the same, of French."""
