import torch
from torch import nn

from model.architectures.vision_encoder_decoder import VisionEncoderDecoder
from model.architectures.vit import ViTConfig, vit
from model.parts.attention import MultiHeadAttention
from model.parts.blocks import Decoder
from model.parts.embedding import Embedding, tied_linear
from model.parts.stacks import PRE_NORM, PlainSizes
from tests.samples.attention_reference import sharpen

IMAGE = ViTConfig((8, 12), 3, patch=(4, 4), width=12, layers=2, heads=3, hidden=16, classes=0)
WRITTEN = PlainSizes(16, 3, 4, 20, "relu")
PATCHES = 1 + 2 * 3


def model():
    def cross():
        return WRITTEN.attention(source=IMAGE.width)

    tokens = nn.Embedding(40, 16)
    parts = {"attention": WRITTEN.attention, "cross": cross, "feed_forward": WRITTEN.feed_forward}
    decoder = Decoder(WRITTEN.blocks(PRE_NORM.decoder_block, **parts), nn.LayerNorm(16))
    target = Embedding(tokens, nn.Embedding(20, 16))
    return sharpen(VisionEncoderDecoder(vit(IMAGE, nn.Identity()), nn.Identity(), target, decoder, tied_linear(tokens)))


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_tokens_look_at_all_patches_and_the_class_token_and_at_tokens_before_them():
    logits, maps = model()(drawn(2, 3, 8, 12), torch.randint(40, (2, 5)))
    assert logits.shape == (2, 5, 40)
    assert maps["vision.encoder.blocks.1.attention"].shape == (2, 3, PATCHES, PATCHES)
    assert maps["decoder.blocks.2.attention"].shape == (2, 4, 5, 5)
    assert maps["decoder.blocks.2.cross"].shape == (2, 4, 5, PATCHES)
    assert len(maps) == 2 + 3 + 3


def test_steps_write_what_the_whole_pass_does():
    reads, target, pixels = model(), torch.randint(40, (2, 6)), drawn(2, 3, 8, 12)
    whole, _ = reads(pixels, target)
    memory, _ = reads.encode(pixels)
    past = [(torch.zeros(2, 4, 8, 4).double(), torch.zeros(2, 4, 8, 4).double()) for _ in range(3)]
    for place in range(6):
        logits, past, _ = reads.step(target[:, place], torch.full((2,), place), past, memory, None)
        torch.testing.assert_close(logits, whole[:, place])


def test_keys_and_values_may_be_of_states_of_another_width():
    looking, source = MultiHeadAttention(6, 2, source=10), torch.randn(1, 4, 10)
    key, value = looking.remember(source)
    torch.testing.assert_close(key.transpose(1, 2).flatten(2), source @ looking.key.weight.T + looking.key.bias)
    torch.testing.assert_close(value.transpose(1, 2).flatten(2), source @ looking.value.weight.T + looking.value.bias)
    mixed, _ = looking.read(torch.randn(1, 3, 6), (key, value))
    assert mixed.shape == (1, 3, 6)
