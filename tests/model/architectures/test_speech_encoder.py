import dataclasses

import numpy as np
import pytest
import torch

from model.architectures.speech_encoder import SpeechEncoderConfig, speech_encoder
from model.parts.heads import EachLinear
from tests.samples.attention_reference import sharpen

SIZES = SpeechEncoderConfig(
    channels=(6, 8, 8), kernels=(10, 3, 2), strides=(5, 2, 2), positions=8, groups=2, width=16, layers=2, heads=2,
    hidden=24,
)  # fmt: skip
STABLE = dataclasses.replace(SIZES, each_norm=True, convolution_bias=True, norm_first=True, positions=5)
PARTS = {
    "feature_extractor.conv_layers": "features",
    ".conv.": ".convolution.",
    "feature_projection.layer_norm": "projection.0",
    "feature_projection.projection": "projection.1",
    "encoder.pos_conv_embed": "positions",
    "encoder.layers": "encoder.blocks",
    "final_layer_norm": "feed_forward_norm",
    "feed_forward.intermediate_dense": "feed_forward.0",
    "feed_forward.output_dense": "feed_forward.2",
    "q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "output",
    "lm_head": "head",
}  # fmt: skip


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("sizes", [SIZES, STABLE])
def test_frames_follow_from_kernels_and_strides(sizes):
    model = sharpen(speech_encoder(sizes, EachLinear(16, 5)))
    assert (sizes.hop, sizes.window) == (20, 30)
    for frames in (1, 2, 7):
        for more in (0, 19):
            logits, maps = model(drawn(2, 30 + 20 * (frames - 1) + more))
            assert logits.shape == (2, frames, 5)
    assert maps["encoder.blocks.1.attention"].shape == (2, 2, 7, 7)
    assert len(maps) == 2
    assert model.width == 5


def test_sizes_of_convolutions_must_be_as_many():
    with pytest.raises(ValueError, match="as many, given 3, 2 and 3"):
        dataclasses.replace(SIZES, kernels=(10, 3))


def names(theirs, sizes):
    """Return our names of the reference library's parameters, and its weight-normed kernel as it is used."""
    found = {}
    state = theirs.state_dict()
    for name, weight in state.items():
        ours = name.partition(".")[2] if name.startswith(("wav2vec2.", "hubert.")) else name
        for part, named in PARTS.items():
            ours = ours.replace(part, named)
        if ours.startswith("features"):
            ours = ours.replace("layer_norm", "norm")
        ours = ours.replace(".layer_norm.", ".attention_norm.") if ".blocks." in ours else ours
        ours = ours.replace("encoder.layer_norm", "encoder.norm" if sizes.norm_first else "norm")
        found[ours] = weight
    found.pop("masked_spec_embed")
    for end in "01":
        found.pop(f"positions.convolution.parametrizations.weight.original{end}")
    body = theirs.base_model.encoder.pos_conv_embed.conv
    return found | {"positions.convolution.weight": body.weight}


@pytest.mark.families
@pytest.mark.parametrize("sizes", [SIZES, STABLE], ids=["group", "layer"])
@pytest.mark.parametrize("kind", ["Wav2Vec2", "Hubert"])
def test_it_computes_what_the_reference_library_does(sizes, kind):
    import transformers

    config = getattr(transformers, f"{kind}Config")(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, conv_dim=list(sizes.channels),
        conv_kernel=list(sizes.kernels), conv_stride=list(sizes.strides), num_conv_pos_embeddings=sizes.positions,
        num_conv_pos_embedding_groups=2, vocab_size=5, attn_implementation="eager", conv_bias=sizes.convolution_bias,
        feat_extract_norm="layer" if sizes.each_norm else "group", do_stable_layer_norm=sizes.norm_first,
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = sharpen(getattr(transformers, f"{kind}ForCTC")(config).double().eval())
    model = speech_encoder(sizes, EachLinear(16, 5)).double()
    model.load_state_dict(names(theirs, sizes))
    samples = drawn(2, 333)
    wanted = theirs(samples, output_attentions=True)
    logits, maps = model(samples)
    torch.testing.assert_close(logits, wanted.logits, atol=1e-9, rtol=0)
    for layer, expected in enumerate(wanted.attentions):
        torch.testing.assert_close(maps[f"encoder.blocks.{layer}.attention"], expected, atol=1e-9, rtol=0)
        assert np.ptp(expected[0].detach().numpy(), axis=-1).max() > 0.1
