"""The masked autoencoder (He et al. 2022): its encoder of whole images, a ViT. Its decoder has no task here."""

from export.checkpoints.families import vit

DECODED = ("decoder.decoder_layers.{}", "decoder.decoder_encoder.layer.{}")
"""A block of the decoder, as it was published and as the reference library saves it."""


class Config(vit.Config):
    """`config.json`, whose decoder and masks are of training."""

    irrelevant_keys = frozenset(
        """decoder_hidden_size decoder_intermediate_size decoder_num_attention_heads decoder_num_hidden_layers
        mask_ratio norm_pix_loss""".split()
    )


VIT_MAE = vit.ViTFamily(
    "vit_mae",
    Config,
    vit.NAMES,
    heads={"feature-extraction": {}},
    prefix="vit.",
    unused=(
        *(f"decoder.{name}" for name in ("decoder_embed", "decoder_norm", "decoder_pos_embed", "decoder_pred")),
        "decoder.mask_token",
        *(
            name.replace("encoder.layer.{}", block)
            for name in vit.NAMES
            for block in DECODED
            if name.startswith("encoder.layer.{}")
        ),
    ),
    processor="ViTImageProcessor",
)
