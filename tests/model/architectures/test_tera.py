import numpy as np
import torch

from model.architectures.tera import TeraConfig, heard, tera
from tests.samples.attention_reference import attention, gelu, layer_norm, linear, randn, sharpen, weights_of

SIZES = TeraConfig(bands=6, frames=11, width=16, layers=2, heads=4, hidden=24)


def test_states_are_those_of_an_encoder_of_frames():
    model = sharpen(tera(SIZES))
    sound = randn(2, 6, 11)
    states, maps = model.states(sound)
    w = weights_of(model)
    angle = np.arange(11)[:, None] / 10000 ** (np.arange(0, 16, 2) / 16)
    places = np.stack((np.sin(angle), np.cos(angle)), axis=-1).reshape(11, 16)
    x = linear(w, "module.embed.projection", sound.numpy().transpose(0, 2, 1)) + places
    x = layer_norm(w, "module.embed.norm", x, 1e-12)
    for layer in range(2):
        block = f"module.encoder.blocks.{layer}"
        mixed, weights = attention(w, f"{block}.attention", 4, x, x)
        x = layer_norm(w, f"{block}.attention_norm", x + mixed, 1e-12)
        fed = linear(w, f"{block}.feed_forward.2", gelu(linear(w, f"{block}.feed_forward.0", x)))
        x = layer_norm(w, f"{block}.feed_forward_norm", x + fed, 1e-12)
        np.testing.assert_allclose(maps[f"encoder.blocks.{layer}.attention"].detach(), weights, atol=1e-6)
        assert np.ptp(weights, axis=-1).max() > 0.3
    np.testing.assert_allclose(states.detach(), x, atol=1e-5)  # sinusoids are single floats


def test_the_answer_is_the_mean_of_the_frames_that_hold_sound():
    model = sharpen(tera(SIZES))
    sound = randn(3, 6, 11)
    sound[0, :, 7:] = sound[0].min()  # silence behind
    sound[1, 3:, 2] = sound[1].min()  # a frame with a few silent bands holds sound
    sound[2] = -1.5  # nothing but silence
    shown = heard(sound)
    assert shown.sum(1).tolist() == [7, 11, 0]
    answer, _ = model(sound)
    states, _ = model.states(sound)
    torch.testing.assert_close(answer[0], states[0, :7].mean(0))
    torch.testing.assert_close(answer[1], states[1].mean(0))
    assert not answer[2].any()
