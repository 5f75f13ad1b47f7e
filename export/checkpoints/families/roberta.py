"""RoBERTa (Liu et al. 2019): a BERT whose positions begin after that of padding, trained without pairs."""

import dataclasses

from export.checkpoints.building.tensor_names import Names
from export.checkpoints.building.text_family import C, TextFamily, of_words
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


def like_roberta(
    family: type[TextFamily[C]], model_type: str, config: type[C], names: Names, prefix: str = "roberta."
) -> TextFamily[C]:
    """Return a family whose heads have the names of RoBERTa's."""
    return family(
        model_type,
        config,
        names,
        heads={
            "text-classification": {"classifier.dense": "head.dense", "classifier.out_proj": "head.output"},
            "token-classification": {"classifier": "head"},
            "question-answering": {"qa_outputs": "head"},
            **of_words({"lm_head.dense": "head.dense", "lm_head.layer_norm": "head.norm"}),
            "feature-extraction": {},
        },
        prefix=prefix,
        unused=("embeddings.position_ids", "pooler.dense"),
        output_layer="lm_head.decoder",
        output_bias="lm_head.bias",
        mask_activation="gelu",
    )


ROBERTA, XLM_ROBERTA, CAMEMBERT = (
    like_roberta(RobertaFamily, model_type, Config, bert.NAMES)
    for model_type in ("roberta", "xlm-roberta", "camembert")
)
"""RoBERTa; XLM-RoBERTa (Conneau et al. 2020), of a hundred languages; CamemBERT (Martin et al. 2020), of French."""
