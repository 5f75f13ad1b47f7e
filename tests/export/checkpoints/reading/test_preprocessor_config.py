import ast
import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
import skimage.data
import torch
import transformers
from PIL import Image
from sklearn.datasets import load_sample_image
from transformers.image_processing_utils import get_size_dict
from transformers.image_transforms import get_resize_output_image_size

from export.checkpoints.reading.preprocessor_config import (
    DEFAULTS,
    DETECTOR_IRRELEVANT_KEYS,
    DETECTOR_PROCESSORS,
    IRRELEVANT_KEYS,
    PILLOW_FILTERS,
    PROCESSOR_DEFAULTS,
    detector_canvas,
    processed_size,
    read_detector_rule,
    read_image_rule,
)
from export.errors import ProcessorError
from export.traced.images import Normalize
from service.inputs.image_preprocessing import _resized, decode_image
from tests.samples.images import encoded

LIMIT = 10**6
PIXEL = 1 / 255


def cut(image, height, width):
    """The middle of an image; odd sizes are where rounding shows."""
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


PHOTOGRAPHS = {
    "landscape": Image.fromarray(load_sample_image("china.jpg")),
    "portrait": Image.fromarray(load_sample_image("flower.jpg")).transpose(Image.Transpose.ROTATE_90),
    "square": Image.fromarray(skimage.data.astronaut()),
    "odd": Image.fromarray(skimage.data.chelsea()),
    "odd, upright": cut(Image.fromarray(skimage.data.coffee()), 399, 301),
    "small": cut(Image.fromarray(skimage.data.rocket()), 61, 90),
    "narrow": cut(Image.fromarray(skimage.data.rocket()), 427, 33),
    "tiny": cut(Image.fromarray(skimage.data.chelsea()), 3, 2),
    "of the size": cut(Image.fromarray(skimage.data.coffee()), 224, 224),
    "grey": Image.fromarray(skimage.data.camera()),
}


FILES = {name: encoded(image, compress_level=0) for name, image in PHOTOGRAPHS.items()}


def reference(config, image):
    kind = config["image_processor_type"]
    return getattr(transformers, f"{kind}Pil").from_dict(config)(image)["pixel_values"][0]


def normalized(pixels, rule):
    """Return pixels of the service's as the reference has them: (channel, height, width)."""
    return ((pixels / 255 - np.array(rule.mean)) / np.array(rule.std)).transpose(2, 0, 1)


def compared(config, name, channels=3):
    """Hold the photograph's normalised pixels against the reference's; gives the worst difference, in pixels' units."""
    image = PHOTOGRAPHS[name].convert("L" if channels == 1 else "RGB")
    theirs = reference(config, image)
    rule = read_image_rule(config, theirs.shape[1:], channels)
    ours = normalized(decode_image(FILES[name], rule, LIMIT).pixels, rule)
    assert ours.shape == theirs.shape
    return (np.abs(ours - theirs) * np.array(rule.std)[:, None, None]).max()


def of_kind(kind):
    return lambda **settings: {"image_processor_type": f"{kind}ImageProcessor", **settings}


vit, deit, bit, convnext = map(of_kind, ("ViT", "DeiT", "Bit", "ConvNext"))


OF_FLOATS = ("DINOv3ViTImageProcessor",)
"""Processors that the reference has in torchvision alone, where they resize floats."""
OF_BYTES = tuple(kind for kind in PROCESSOR_DEFAULTS if kind not in OF_FLOATS)

CONFIGS = {
    **{kind: {"image_processor_type": kind} for kind in OF_BYTES},
    **{f"resample {number}": vit(resample=number, size=96) for number in PILLOW_FILTERS},
    **{f"shorter side, resample {number}": bit(resample=number, size=100, crop_size=96) for number in PILLOW_FILTERS},
    "an int is a square": vit(size=64),
    "an int is the shorter side": bit(size=64, crop_size=60),
    "an int is told to be the shorter side": vit(size=64, default_to_square=False, do_center_crop=True, crop_size=60),
    "a list": vit(size=[48, 80]),
    "not square": vit(size={"height": 100, "width": 61}),
    "the shorter side of a ViT": vit(size={"shortest_edge": 80}, do_center_crop=True, crop_size=[70, 64]),
    "height and width of a BiT": bit(size={"height": 80, "width": 91}, crop_size={"height": 64, "width": 65}),
    "a cut with an odd rest": deit(size=[99, 80], crop_size=64),
    "a cut that is padded": deit(size=96, crop_size=128),
    "a cut that is padded, with an odd rest": deit(size=[81, 94], crop_size=[95, 97]),
    "a cut padded at two sides only": bit(size=65, crop_size={"height": 60, "width": 98}),
    "cut without a resize": deit(do_resize=False, crop_size=[255, 90]),
    "a small ConvNext": convnext(size=224),
    "a ConvNext with crop_pct": convnext(size={"shortest_edge": 96}, crop_pct=0.95),
    "a ConvNext just too small": convnext(size=383, crop_pct=1),
    "a ConvNext that is padded": convnext(size=96, crop_pct=1.25),
    "not rescaled": vit(size=64, do_rescale=False, image_mean=[120, 110, 100], image_std=[60, 61, 62]),
    "not normalised": vit(size=64, do_normalize=False),
    "neither": vit(size=64, do_rescale=False, rescale_factor=None, do_normalize=False),
    "another factor": vit(size=64, rescale_factor=1 / 127.5, image_mean=1.0, image_std=[1, 1, 1]),
    "means and stds": vit(size=64, image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225]),
    "flags that are null": deit(size=64, do_normalize=None, do_center_crop=None, do_convert_rgb=None, do_pad=None),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_every_pixel_is_the_one_of_the_reference(config):
    worst = {name: compared(config, name) for name in PHOTOGRAPHS}
    assert max(worst.values()) < 1e-6, "a pixel that differs does by 0.004; this is their float32"


@pytest.mark.parametrize("kind", OF_FLOATS)
def test_pixels_of_a_processor_of_floats_are_less_than_a_level_away(kind):
    rule = read_image_rule({"image_processor_type": kind}, (224, 224), 3)
    for name, photograph in PHOTOGRAPHS.items():
        floats = torch.from_numpy(np.array(photograph.convert("RGB"))).permute(2, 0, 1)[None].double()
        resized = torch.nn.functional.interpolate(floats, (224, 224), mode="bilinear", antialias=True)
        away = np.abs(decode_image(FILES[name], rule, LIMIT).pixels - resized[0].permute(1, 2, 0).numpy())
        assert away.max() < 1, name


@pytest.mark.parametrize("kind", OF_FLOATS)
def test_the_defaults_of_a_processor_of_floats_are_those_of_the_reference(kind):
    """Its class cannot be loaded without torchvision, so its file is read."""
    module = "transformers.models.dinov3_vit.image_processing_dinov3_vit"
    classes = ast.parse(Path(importlib.util.find_spec(module).origin).read_text()).body
    (body,) = [one.body for one in classes if isinstance(one, ast.ClassDef) and one.name == kind]
    theirs = {one.targets[0].id: ast.unparse(one.value) for one in body if isinstance(one, ast.Assign)}
    assert theirs == {
        "resample": "PILImageResampling.BILINEAR", "image_mean": "IMAGENET_DEFAULT_MEAN",
        "image_std": "IMAGENET_DEFAULT_STD", "size": "{'height': 224, 'width': 224}",
        "do_resize": "True", "do_rescale": "True", "do_normalize": "True",
    }  # fmt: skip
    rule = read_image_rule({"image_processor_type": kind}, (224, 224), 3)
    assert (rule.resize, rule.resample, rule.mean, rule.std) == (
        (224, 224), "bilinear", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["grey", "odd", "small"])
def test_one_channel_is_the_reference_of_a_grey_image(name):
    config = vit(size=[60, 28], image_mean=0.1307, image_std=[0.3081])
    assert compared(config, name, channels=1) < 1e-6


def test_the_shorter_side_leaves_the_longer_one_that_of_the_reference():
    for height in [*range(1, 60), 223, 224, 225, 427, 640, 1023, 3456]:
        for width in range(1, 900, 7):
            for shorter in (1, 17, 224, 256, 439):
                photograph = np.broadcast_to(np.uint8(0), (3, height, width))
                theirs = get_resize_output_image_size(photograph, shorter, False, input_data_format="channels_first")
                assert _resized((width, height), shorter) == theirs[::-1]


@pytest.mark.parametrize("kind", OF_BYTES)
def test_the_defaults_are_those_of_the_reference(kind):
    theirs = getattr(transformers, f"{kind}Pil")()
    ours = {**DEFAULTS, **PROCESSOR_DEFAULTS[kind]}
    for key, value in ours.items():
        their = getattr(theirs, key)
        if key in ("size", "crop_size") and value is not None:
            square = bool(ours["default_to_square"] or key == "crop_size")
            assert dict(their) == get_size_dict(value, default_to_square=square)
        elif key in ("image_mean", "image_std"):
            assert tuple(their) == value
        else:
            assert (their or False) == (value or False), key


@pytest.mark.parametrize("kind", OF_BYTES)
def test_a_file_that_the_reference_writes_can_be_read(kind):
    theirs = getattr(transformers, f"{kind}Pil")()
    image = processed_size(theirs.to_dict())
    assert image == theirs(PHOTOGRAPHS["odd"])["pixel_values"][0].shape[1:]
    assert read_image_rule(theirs.to_dict(), image, 3) == read_image_rule({"image_processor_type": kind}, image, 3)


@pytest.mark.parametrize(
    "named",
    [
        {"image_processor_type": "DeiTImageProcessor"},
        {"image_processor_type": "DeiTImageProcessorFast"},
        {"image_processor_type": "DeiTImageProcessorPil"},
        {"feature_extractor_type": "DeiTFeatureExtractor"},
        {"image_processor_type": None, "feature_extractor_type": "DeiTFeatureExtractor"},
        {"image_processor_type": "DeiTImageProcessor", "feature_extractor_type": "ViTFeatureExtractor"},
    ],
)
def test_the_class_goes_by_all_its_names(named):
    rule = read_image_rule(named, (224, 224), 3)
    assert (rule.resize, rule.resample) == ((256, 256), "bicubic")
    assert read_image_rule(named, (224, 224), 3, processor="ViTImageProcessor") == rule


def test_an_old_file_without_the_class_is_read_as_the_one_said():
    old = {"do_normalize": True, "do_resize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": 224}
    assert read_image_rule(old, (224, 224), 3, "ViTImageProcessor") == read_image_rule(vit(), (224, 224), 3)
    assert processed_size(old, "ViTImageProcessor") == (224, 224)


def test_keys_that_do_not_change_the_pixels_change_nothing():
    config = vit(
        **dict.fromkeys(IRRELEVANT_KEYS - {"image_processor_type"}, "anything"), crop_pct=None, unheard_of=None
    )
    assert read_image_rule(config, (224, 224), 3) == read_image_rule(vit(), (224, 224), 3)


def test_usual_factors_leave_mean_and_std_exactly_as_they_are():
    rule = read_image_rule(bit(rescale_factor=0.00392156862745098), (224, 224), 3)
    assert rule.mean == (0.48145466, 0.4578275, 0.40821073)
    assert rule.std == (0.26862954, 0.26130258, 0.27577711)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (vit(), (224, 224)),
        (vit(size=[48, 80]), (48, 80)),
        (bit(crop_size=[100, 90]), (100, 90)),
        (convnext(), (384, 384)),
        (convnext(size=224), (224, 224)),
        (bit(do_center_crop=False), None),
        (vit(do_resize=False), None),
        (convnext(do_resize=False), None),
    ],
)
def test_size_is_what_the_processor_yields(config, expected):
    assert processed_size(config) == expected


@pytest.mark.parametrize(
    ("config", "image", "resize"),
    [
        (vit(), (384, 384), (384, 384)),
        (vit(), (96, 160), (96, 160)),
        (deit(), (384, 384), (439, 439)),  # 256 * 384 / 224
        (deit(), (224, 448), (256, 512)),
        (deit(size=[256, 300]), (112, 448), (128, 600)),
        (bit(size=256), (384, 384), 439),
        (bit(size=256), (224, 448), 512),  # one of 224 would have to be padded
        (bit(size=256, crop_size=[224, 448]), (112, 448), 256),
        (convnext(size=224), (112, 112), 128),
        (convnext(size=224), (384, 384), 439),
        (convnext(), (224, 224), (224, 224)),
        (deit(size=2), (64, 64), (1, 1)),
    ],
)
def test_another_size_scales_the_geometry_of_the_processor(config, image, resize):
    rule = read_image_rule(config, image, 3)
    assert rule.resize == resize
    assert (rule.height, rule.width) == image


REFUSED = [
    ("image_processor_type must be one of BeitImageProcessor, .*, given None", {}),
    ("image_processor_type must be one of .*, given 'LevitFast'", {"image_processor_type": "LevitFast"}),
    ("feature_extractor_type must be one of .*, given 'DetrPil'", {"feature_extractor_type": "DetrPil"}),
    ("do_thumbnail must be absent from a ViTImageProcessor, given True", vit(do_thumbnail=True)),
    ("crop_pct must be absent from a ViTImageProcessor, given 0.9", vit(crop_pct=0.9)),
    ("auto_map must be absent from a ViTImageProcessor", vit(auto_map={"AutoImageProcessor": "code.Processor"})),
    ("rescale_offset must be absent from a ViTImageProcessor, given False", vit(rescale_offset=False)),
    ("do_pad must be false, given True", vit(do_pad=True)),
    ("do_resize must be true or false, given 1", vit(do_resize=1)),
    ("do_rescale must be true or false, given 'yes'", vit(do_rescale="yes")),
    ("do_normalize must be true or false, given 0", vit(do_normalize=0)),
    ("do_center_crop must be true or false, given 0.875", vit(do_center_crop=0.875)),
    ("do_convert_rgb must be true or false, given 'RGB'", vit(do_convert_rgb="RGB")),
    ("default_to_square must be true or false, given 2", vit(default_to_square=2)),
    ("do_resize must be true where do_center_crop is false, given False", vit(do_resize=False)),
    ("do_resize must be true where do_center_crop is false, given False", convnext(do_resize=None)),
    ("do_center_crop must be true where size leaves the longer side to the image, given", bit(do_center_crop=False)),
    ("do_center_crop must be true where size leaves", {"image_processor_type": "SiglipImageProcessor", "size": 224}),
    ("do_center_crop must be false where crop_pct says what is cut, given True", convnext(do_center_crop=True)),
    ('size must be an int or {"shortest_edge"}, given', convnext(size={"height": 224, "width": 224})),
    ("crop_pct must be a number above 0, given 0", convnext(crop_pct=0)),
    ("crop_pct must be a number above 0, given None", convnext(crop_pct=None)),
    ("crop_size must be an int, .* given None", vit(do_center_crop=True)),
    ("crop_size must be an int, or a height and a width, given {'shorte", deit(crop_size={"shortest_edge": 224})),
    ("crop_size must be .*224, 224.* where do_resize is false, given .*100, 100", deit(do_resize=False, crop_size=100)),
    *(
        ("size must be an int, .height, width., .* in pixels, given", vit(size=size))
        for size in (
            None, 0, -1, True, 224.0, "224", [224], [1, 2, 3], [224, 0], [224, 224.0], {}, {"height": 224},
            {"longest_edge": 224}, {"shortest_edge": 224, "longest_edge": 300}, {"max_height": 2, "max_width": 2},
            {"min_pixels": 1, "max_pixels": 9}, {"height": 224, "width": None}, {"shortest_edge": "224"},
        )
    ),
    *(
        ("resample must be one of 0, 1, 2, 3, 4, 5, given", vit(resample=resample))
        for resample in (6, -1, True, None, 2.0, "sharp", [2])
    ),
    *(
        ("rescale_factor must be a number above 0, given", vit(rescale_factor=factor))
        for factor in (0, -1, None, "1/255", math.nan)
    ),
    *(
        (f"{key} must be a number, or a list of 3, given", vit(**{key: value}))
        for key in ("image_mean", "image_std")
        for value in (None, "0.5", True, [], [0.5], [0.5] * 4, [0.5, 0.5, None], [0.5, 0.5, math.inf])
    ),
    ("image_std must be a number above 0, given 0.0", vit(image_std=[0.5, 0.5, 0])),
    ("image_std must be a number above 0, given -0.5", vit(image_std=-0.5)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "config"), REFUSED, ids=[f"{n} {words[:24]}" for n, (words, _) in enumerate(REFUSED)]
)
def test_what_no_rule_can_stand_for_is_refused_by_name(words, config):
    with pytest.raises(ProcessorError, match=f"^preprocessor_config.json: {words}"):
        read_image_rule(config, (224, 224), 3)


def test_a_network_of_one_channel_cannot_be_given_rgb():
    with pytest.raises(ProcessorError, match="do_convert_rgb must be false where the network takes one channel"):
        read_image_rule(bit(image_mean=0.5, image_std=0.5), (224, 224), 1)
    with pytest.raises(ProcessorError, match=r"image_mean must be a number, or a list of 1, given \(0.5, 0.5, 0.5\)"):
        read_image_rule(vit(), (224, 224), 1)
    with pytest.raises(ValueError, match="channels: must be 1 or 3, given 4"):
        read_image_rule(vit(), (224, 224), 4)


# Detectors


CANVAS = (96, 128)


def detr(kind="DetrImageProcessor", **settings):
    return {"image_processor_type": kind, **settings}  # with the means of ImageNet, which no bytes are


def fed(picture, rule):
    """Return what the network is given of a picture that was fitted in."""
    normalize = Normalize(rule.mean, rule.std).double()
    return normalize(torch.from_numpy(picture.pixels[None]), torch.tensor([picture.shown]))[0].numpy()


SIZES = [
    {"max_height": 96, "max_width": 128},
    {"max_height": 50, "max_width": 77},
    {"shortest_edge": 64, "longest_edge": 96},
    {"shortest_edge": 90, "longest_edge": 91},
]


@pytest.mark.parametrize("kind", DETECTOR_PROCESSORS)
@pytest.mark.parametrize(("size", "resample"), [*((size, 2) for size in SIZES), (SIZES[0], 3)])
@pytest.mark.parametrize("name", [name for name in PHOTOGRAPHS if name not in ("grey", "narrow")])
def test_every_pixel_and_what_is_picture_are_those_of_the_reference_in_a_canvas(kind, size, resample, name):
    height, width = CANVAS
    config = detr(kind, size=size, resample=resample, pad_size={"height": height, "width": width})
    theirs = getattr(transformers, f"{kind}Pil").from_dict(config)(PHOTOGRAPHS[name])
    assert detector_canvas(config) == CANVAS
    rule = read_detector_rule(config, CANVAS, 3)
    picture = decode_image(FILES[name], rule, LIMIT)
    assert np.abs(fed(picture, rule) - theirs["pixel_values"][0]).max() < 1e-5
    cells = picture.visible_cells((3, 4)).reshape(3, 4)
    mask = torch.tensor(theirs["pixel_mask"][0])[None, None].float()
    assert np.array_equal(cells, torch.nn.functional.interpolate(mask, size=(3, 4))[0, 0].bool().numpy())


@pytest.mark.parametrize("size", [96, {"shortest_edge": 64, "longest_edge": 107}, {"max_height": 90, "max_width": 64}])
@pytest.mark.parametrize("kind", ["DetrImageProcessor", "YolosImageProcessor"])
def test_sizes_are_rounded_as_the_reference_rounds_them(kind, size):
    config = detr(kind, size=size, max_size=107)
    resized = getattr(transformers, f"{kind}Pil").from_dict(config)
    rule = read_detector_rule(config, (128, 128), 3)
    for height in range(60, 130, 3):
        for width in range(60, 300, 7):
            theirs = resized.resize(np.zeros((3, height, width), np.uint8), resized.size).shape[1:]
            assert rule.fitted(width, height)[::-1] == theirs, (width, height)


def test_a_canvas_too_small_for_what_the_processor_says_is_filled():
    rule = read_detector_rule(detr(size={"shortest_edge": 64, "longest_edge": 107}), (64, 96), 3)
    sizes = {(640, 480): (85, 64), (480, 640): (48, 64), (640, 360): (96, 54), (30, 30): (64, 64), (9, 900): (1, 64)}
    assert {size: rule.fitted(*size) for size in sizes} == sizes


def test_what_images_are_filled_up_to_is_the_canvas_or_refused_by_name():
    size = {"shortest_edge": 64, "longest_edge": 96}
    assert detector_canvas(detr(size=size, pad_size=128)) == (128, 128)
    assert detector_canvas(detr(size=size, pad_size=[96, 128])) == (96, 128)
    assert detector_canvas(detr(size=size, pad_size=128, do_pad=False)) == (64, 85)
    for given, words in (({"shortest_edge": 9}, '{"height", "width"} in pixels'), ("9", "an int"), (0, "an int")):
        with pytest.raises(ProcessorError, match=f"pad_size must be {words}"):
            detector_canvas(detr(size=size, pad_size=given))
    whole = {"height": 60, "width": 33}
    assert read_detector_rule(detr(size=whole, pad_size=whole), (60, 33), 3).locate == "middle"
    with pytest.raises(ProcessorError, match="pad_size must be absent, or the same, where size is a height"):
        read_detector_rule(detr(size=whole, pad_size=128), (60, 33), 3)


def test_a_photograph_of_the_usual_shape_is_resized_as_by_the_published_settings():
    config = {"image_processor_type": "DetrImageProcessor", "size": {"shortest_edge": 60, "longest_edge": 100}}
    height, width = detector_canvas(config)
    assert (height, width) == (60, 80)
    photograph = PHOTOGRAPHS["landscape"].resize((640, 480))
    rule = read_detector_rule(config, (60, 80), 3)
    pixels = decode_image(encoded(photograph), rule, LIMIT).pixels
    assert np.abs(normalized(pixels, rule) - reference(config, photograph)).max() < 1e-5


def test_a_height_and_a_width_are_filled():
    config = detr(size={"height": 60, "width": 33})
    theirs = reference(config, PHOTOGRAPHS["odd"])
    rule = read_detector_rule(config, detector_canvas(config), 3)
    pixels = decode_image(FILES["odd"], rule, LIMIT).pixels
    assert np.abs(normalized(pixels, rule) - theirs).max() < 1e-5


@pytest.mark.parametrize("kind", DETECTOR_PROCESSORS)
def test_the_defaults_of_a_detector_are_those_of_the_reference(kind):
    theirs = getattr(transformers, f"{kind}Pil")()
    for key, value in DETECTOR_PROCESSORS[kind].items():
        if key not in ("size", "max_size"):
            assert getattr(theirs, key) == value
    written = read_detector_rule(theirs.to_dict(), CANVAS, 3)
    assert written == read_detector_rule({"image_processor_type": kind}, CANVAS, 3)
    assert detector_canvas(theirs.to_dict()) == detector_canvas({"image_processor_type": kind}) == (800, 1066)


@pytest.mark.parametrize(
    ("size", "more", "canvas"),
    [
        (800, {}, (800, 1066)),
        (800, {"max_size": 1000}, (800, 1000)),
        ({"shortest_edge": 800, "longest_edge": 800}, {}, (800, 800)),
        ({"shortest_edge": 900, "longest_edge": 800}, {}, (800, 800)),
        ({"max_height": 30, "max_width": 50}, {}, (30, 50)),
        ({"height": 30, "width": 50}, {}, (30, 50)),
    ],
)
def test_a_canvas_is_what_the_sizes_of_a_detector_make_of_most_photographs(size, more, canvas):
    assert detector_canvas(detr(size=size, **more)) == canvas


def test_keys_of_annotations_and_of_batches_change_nothing():
    keys = dict.fromkeys((DETECTOR_IRRELEVANT_KEYS | IRRELEVANT_KEYS) - {"image_processor_type"}, "anything")
    assert read_detector_rule(detr(**keys), CANVAS, 3) == read_detector_rule(detr(), CANVAS, 3)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (vit(), "image_processor_type must be one of DetrImageProcessor, .*, given 'ViTImageProcessor'"),
        (detr(do_resize=False), "do_resize must be true, given False"),
        (detr(size={"shortest_edge": 800}), "size must be an int, .*longest_edge.*, given"),
        (detr(size={"height": 800, "width": 0}), "size must be an int, .*, given"),
        (detr(size="large"), "size must be an int, .*, given 'large'"),
        (detr(resample=9), "resample must be one of 0, 1, 2, 3, 4, 5, given 9"),
        (detr(wishful=1), "wishful must be absent from a DetrImageProcessor, given 1"),
    ],
)
def test_what_no_rule_of_a_detector_can_stand_for_is_refused_by_name(config, words):
    with pytest.raises(ProcessorError, match=f"^preprocessor_config.json: {words}"):
        read_detector_rule(config, detector_canvas(config), 3)
