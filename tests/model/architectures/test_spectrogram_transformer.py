import numpy as np
import pytest
import torch
from torch import nn

from model.architectures.spectrogram_transformer import SpectrogramConfig, spectrogram_transformer
from model.parts.heads import PrefixMean
from tests.samples.attention_reference import sharpen

SIZES = SpectrogramConfig(
    bands=12, frames=21, patch=(4, 4), stride=(3, 2), width=16, layers=2, heads=2, hidden=24, classes=3
)


def head():
    return PrefixMean(2, nn.Sequential(nn.LayerNorm(16, eps=1e-12), nn.Linear(16, 3)))


def test_patches_overlap_by_what_the_stride_leaves():
    model = sharpen(spectrogram_transformer(SIZES, head()))
    spectrogram = torch.randn(2, 1, 12, 21).double()
    logits, maps = model(spectrogram)
    assert SIZES.grid == (3, 9)
    assert logits.shape == (2, 3)
    assert maps["encoder.blocks.1.attention"].shape == (2, 2, 29, 29)
    cut = spectrogram[:, 0, 3:7, 4:8].flatten(1)  # the second row of patches, the third column
    projection = model.patches.projection
    wanted = cut @ projection.weight.flatten(1).T + projection.bias
    torch.testing.assert_close(model.patches(spectrogram)[:, 9 + 2], wanted)


def test_a_spectrogram_holds_a_patch():
    with pytest.raises(ValueError, match="a patch of 16x4, given 12x21"):
        SpectrogramConfig(12, 21, (16, 4), (1, 1), width=16, layers=1, heads=1, hidden=4, classes=2)


def names(theirs):
    """Return our names of the reference library's parameters."""
    parts = {
        "audio_spectrogram_transformer.": "", "embeddings.cls_token": "class_token", "layers.": "encoder.blocks.",
        "embeddings.distillation_token": "distillation_token", "embeddings.position_embeddings": "positions.weight",
        "embeddings.patch_embeddings": "patches", "q_proj": "query", "k_proj": "key", "v_proj": "value",
        "o_proj": "output", "layernorm_before": "attention_norm", "layernorm_after": "feed_forward_norm",
        "mlp.fc1": "feed_forward.0", "mlp.fc2": "feed_forward.2", "classifier.layernorm": "head.behind.0",
        "classifier.dense": "head.behind.1",
    }  # fmt: skip
    found = {}
    for name, weight in theirs.state_dict().items():
        ours = name
        for part, named in parts.items():
            ours = ours.replace(part, named)
        ours = "encoder.norm" + ours.removeprefix("layernorm") if ours.startswith("layernorm") else ours
        found[ours] = weight[0] if ours == "positions.weight" else weight
    return found


@pytest.mark.families
def test_it_computes_what_the_reference_library_does(monkeypatch):
    import transformers

    config = transformers.ASTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, patch_size=4, num_labels=3,
        frequency_stride=3, time_stride=2, max_length=21, num_mel_bins=12, attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = sharpen(transformers.ASTForAudioClassification(config).double().eval())
    model = spectrogram_transformer(SIZES, head()).double()
    model.load_state_dict(names(theirs))
    spectrogram = torch.randn(2, 21, 12, dtype=torch.float64)
    with monkeypatch.context() as patched:  # its softmax is in single floats
        patched.setattr(torch.nn.functional, "softmax", lambda scores, dim, dtype: scores.softmax(dim))
        wanted = theirs(spectrogram, output_attentions=True)
    logits, maps = model(spectrogram.transpose(1, 2)[:, None])
    torch.testing.assert_close(logits, wanted.logits, atol=1e-9, rtol=0)
    for layer, expected in enumerate(wanted.attentions):
        torch.testing.assert_close(maps[f"encoder.blocks.{layer}.attention"], expected, atol=1e-9, rtol=0)
        assert np.ptp(expected[0].detach().numpy(), axis=-1).max() > 0.1
