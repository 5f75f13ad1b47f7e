import numpy as np
import pytest
import torch

from model.architectures.whisper import WhisperConfig, whisper
from model.parts.stacks import StackSizes
from tests.samples.attention_reference import sharpen

SIZES = WhisperConfig(
    60, bands=8, frames=12, length=20, width=16, encoder=StackSizes(2, 2, 24), decoder=StackSizes(3, 4, 20)
)
PARTS = (("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value"), ("out_proj", "output"))


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_a_sound_has_half_as_many_states_as_frames_and_maps_of_three_kinds():
    model = sharpen(whisper(SIZES))
    target = torch.randint(60, (2, 5))
    logits, maps = model(drawn(2, 8, 24), target)
    assert logits.shape == (2, 5, 60)
    assert maps["encoder.blocks.1.attention"].shape == (2, 2, 12, 12)
    assert maps["decoder.blocks.2.attention"].shape == (2, 4, 5, 5)
    assert maps["decoder.blocks.2.cross"].shape == (2, 4, 5, 12)
    assert len(maps) == 2 + 3 + 3


def test_steps_write_what_the_whole_pass_does():
    model = sharpen(whisper(SIZES))
    target, sound = torch.randint(60, (2, 6)), drawn(2, 8, 24)
    whole, _ = model(sound, target)
    memory, _ = model.hear(sound)
    past = [(torch.zeros(2, 4, 8, 4).double(), torch.zeros(2, 4, 8, 4).double()) for _ in range(3)]
    for place in range(6):
        logits, past, _ = model.step(target[:, place], torch.full((2,), place), past, memory, None)
        torch.testing.assert_close(logits, whole[:, place])


def names(theirs):
    """Return our names of the reference library's parameters."""
    found = {}
    for name, weight in theirs.state_dict().items():
        ours = name.removeprefix("model.").replace(".layers.", ".blocks.").replace(".self_attn.", ".attention.")
        ours = ours.replace("self_attn_layer_norm", "attention_norm").replace(".encoder_attn.", ".cross.")
        ours = ours.replace("encoder_attn_layer_norm", "cross_norm").replace("final_layer_norm", "feed_forward_norm")
        ours = (
            ours.replace("fc1", "feed_forward.0")
            .replace("fc2", "feed_forward.2")
            .replace("encoder.conv1", "source.first")
        )
        ours = ours.replace("encoder.conv2", "source.second").replace("encoder.embed_positions", "source.positions")
        ours = ours.replace("decoder.embed_positions", "target.positions").replace(
            "decoder.embed_tokens", "target.tokens"
        )
        ours = ours.replace("encoder.layer_norm", "encoder.norm").replace("decoder.layer_norm", "decoder.norm")
        ours = ours.replace("proj_out", "head")
        for part, named in PARTS:
            ours = ours.replace(f".{part}.", f".{named}.")
        found[ours] = weight
    return found


@pytest.mark.families
def test_it_computes_what_the_reference_library_does():
    import transformers

    config = transformers.WhisperConfig(
        vocab_size=60, num_mel_bins=8, max_source_positions=12, max_target_positions=20, d_model=16, encoder_layers=2,
        encoder_attention_heads=2, encoder_ffn_dim=24, decoder_layers=3, decoder_attention_heads=4, decoder_ffn_dim=20,
        attn_implementation="eager", pad_token_id=0, bos_token_id=1, eos_token_id=1, decoder_start_token_id=2,
        init_std=0.3,
    )  # fmt: skip
    theirs = transformers.WhisperForConditionalGeneration(config).double().eval()
    model = whisper(SIZES).double()
    model.load_state_dict(names(theirs))
    sound, target = drawn(2, 8, 24), torch.randint(3, 60, (2, 7))
    wanted = theirs(sound, decoder_input_ids=target, output_attentions=True)
    logits, maps = model(sound, target)
    torch.testing.assert_close(logits, wanted.logits, atol=1e-9, rtol=0)
    for kind, layers in (
        ("encoder.blocks.{}.attention", wanted.encoder_attentions),
        ("decoder.blocks.{}.attention", wanted.decoder_attentions),
        ("decoder.blocks.{}.cross", wanted.cross_attentions),
    ):
        for layer, expected in enumerate(layers):
            torch.testing.assert_close(maps[kind.format(layer)], expected, atol=1e-9, rtol=0)
            assert np.ptp(expected[0].detach().numpy(), axis=-1).max() > 0.1
