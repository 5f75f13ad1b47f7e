import pytest
import torch
import transformers

from model.parts.embedding import alone
from model.parts.resnet import RESNET_SIZES, STRIDE, FrozenBatchNorm, ResNetConfig, folded, resnet
from tests.samples.attention_reference import assert_same, randn
from tests.samples.detectors_reference import BACKBONE, copy_resnet, randomised


def small(block, **sizes):
    return ResNetConfig(
        **{"channels": 3, "stem": 8, "widths": (8, 16, 24, 32), "depths": (1, 2, 1, 1), **sizes}, block=block
    )


@pytest.mark.parametrize(
    ("block", "options"),
    [
        ("bottleneck", {}),
        ("bottleneck_first", {"downsample_in_bottleneck": True}),
        ("basic", {"layer_type": "basic"}),
    ],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_it_is_the_reference_library_s(block, options, channels):
    theirs = randomised(
        transformers.ResNetModel(transformers.ResNetConfig(**BACKBONE | options, num_channels=channels))
    )
    ours = resnet(small(block, channels=channels)).double()
    copy_resnet(theirs, ours)
    pixels = randn(2, channels, 96, 64)
    with torch.no_grad():
        found = ours(pixels)
        assert found.shape == (2, 32, 96 // STRIDE, 64 // STRIDE)
        assert_same(found, theirs(pixels).last_hidden_state)


@pytest.mark.parametrize("block", ["bottleneck", "bottleneck_first", "basic"])
def test_in_a_canvas_it_computes_of_every_image_what_it_does_of_the_image_alone(block):
    ours = randomised(resnet(small(block)))
    pixels, shown = randn(3, 3, 96, 128), torch.tensor([[96, 128], [65, 33], [31, 100]])
    with torch.no_grad(), alone(ours, shown, 96):
        found = ours(pixels)
    with torch.no_grad():
        for image, cells, (down, across) in zip(pixels, found, shown.tolist(), strict=True):
            expected = ours(image[None, :, :down, :across])[0]
            assert_same(cells[:, : expected.shape[1], : expected.shape[2]], expected)
        assert (ours(pixels)[1:, :, 0, 0] - found[1:, :, 0, 0]).abs().max() > 1e-3  # what is beside would show


def test_a_batch_norm_whose_statistics_are_frozen_is_a_scale_and_a_shift():
    norm = randomised(torch.nn.BatchNorm2d(5))
    ours = FrozenBatchNorm(5).double()
    scale, shift = folded(norm.weight, norm.bias, norm.running_mean, norm.running_var)
    ours.load_state_dict({"scale": scale, "shift": shift})
    x = randn(2, 5, 3, 4)
    assert_same(ours(x), norm(x))


# the published networks, without the parameters of their classifiers
MILLIONS = {"resnet18": 11.2, "resnet34": 21.3, "resnet50": 23.5, "resnet101": 42.5, "resnet152": 58.1}


@pytest.mark.parametrize("name", RESNET_SIZES)
def test_the_sizes_of_the_paper_have_as_many_parameters_as_the_published_networks(name):
    with torch.device("meta"):
        module = resnet(RESNET_SIZES[name])
    assert round(sum(parameter.numel() for parameter in module.parameters()) / 1e6, 1) == MILLIONS[name]


def test_bottlenecks_of_a_width_that_has_no_quarter_are_refused():
    with pytest.raises(ValueError, match=r"^bottlenecks: widths must be multiples of 4, given \(6, 16, 24, 32\)$"):
        small("bottleneck", widths=(6, 16, 24, 32))
