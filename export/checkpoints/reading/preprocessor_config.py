"""Read `preprocessor_config.json`: how transformers prepares an image, as a rule for the service.

The rule reproduces its Pillow backend: an absent key has the default of the class, a flag that is null is false.
"""

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias, TypeGuard

from contract.input_rules import ImageRule
from export.errors import ProcessorError

Sides: TypeAlias = tuple[int, int]
"""Height and width in pixels."""
Filter: TypeAlias = Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"]
Settings: TypeAlias = Mapping[str, object]

PILLOW_FILTERS: dict[int, Filter] = {  # by Pillow's numbers
    0: "nearest",
    1: "lanczos",
    2: "bilinear",
    3: "bicubic",
    4: "box",
    5: "hamming",
}

HALF_MEAN = (0.5, 0.5, 0.5)
IMAGENET = {"image_mean": (0.485, 0.456, 0.406), "image_std": (0.229, 0.224, 0.225)}
CLIP = {"image_mean": (0.48145466, 0.4578275, 0.40821073), "image_std": (0.26862954, 0.26130258, 0.27577711)}
CENTER_CROP = {"do_center_crop": True, "crop_size": 224}

DEFAULTS: Settings = {
    "do_resize": True,
    "size": 224,
    "default_to_square": True,
    "resample": 3,
    "do_center_crop": False,
    "crop_size": None,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": HALF_MEAN,
    "image_std": HALF_MEAN,
    "do_convert_rgb": False,
    "do_pad": False,
}
PROCESSOR_DEFAULTS: dict[str, Settings] = {  # where a class differs from DEFAULTS
    "BeitImageProcessor": {"crop_size": 224},
    "BitImageProcessor": {**CLIP, **CENTER_CROP, "default_to_square": False, "do_convert_rgb": True},
    "CLIPImageProcessor": {**CLIP, **CENTER_CROP, "default_to_square": False, "do_convert_rgb": True},
    "ChineseCLIPImageProcessor": {**CLIP, **CENTER_CROP, "default_to_square": False, "do_convert_rgb": True},
    "ConvNextImageProcessor": {"size": 384, "default_to_square": False, "crop_pct": 224 / 256},
    "DINOv3ViTImageProcessor": {**IMAGENET, "resample": 2},  # which has no Pillow backend, and resizes floats
    "DeiTImageProcessor": {**CENTER_CROP, "size": 256},
    "PvtImageProcessor": IMAGENET,
    "SiglipImageProcessor": {"size": (224, 224), "default_to_square": False, "do_convert_rgb": True},
    "ViTImageProcessor": {"resample": 2},
}
DETECTOR_DEFAULTS: Settings = {
    **{key: DEFAULTS[key] for key in ("do_resize", "do_rescale", "rescale_factor", "do_normalize")},
    **IMAGENET,
    "resample": 2,
    "size": None,
    "max_size": None,
    "do_pad": True,
    "pad_size": None,
}
DETECTOR_SIZE, DETECTOR_LONGEST = 800, 1333  # the shorter side, and the most that the longer one may have
DETECTOR_PROCESSORS: Mapping[str, Settings] = dict.fromkeys(
    ("DetrImageProcessor", "ConditionalDetrImageProcessor", "YolosImageProcessor"), DETECTOR_DEFAULTS
)
MULTIPLES = {"YolosImageProcessor": 16}
"""Of a class: what sides are cut to multiples of, where `size` is the shortest and the longest edge."""
CANVAS_SHAPE = 3 / 4  # of a canvas whose sides are left to the image: that of most photographs

UNCROPPED_SIZE = 384  # pixels; from this size on ConvNext crops nothing

IRRELEVANT_KEYS = frozenset(  # keys that do not change the pixels
    """image_processor_type feature_extractor_type processor_class _processor_class _valid_processor_keys
    transformers_version use_fast backend device disable_grouping data_format input_data_format return_tensors
    model_input_names image_seq_length pad_size do_reduce_labels reduce_labels""".split()
)
DETECTOR_IRRELEVANT_KEYS = frozenset(  # of images to learn from, and of batches: every image is padded to the canvas
    "format do_convert_annotations pad_and_return_pixel_mask default_to_square do_convert_rgb".split()
)
EDGES, ROOM, WHOLE = ("shortest_edge", "longest_edge"), ("max_height", "max_width"), ("height", "width")


def read_image_rule(
    config: Mapping[str, object], image: tuple[int, int], channels: int, processor: str | None = None
) -> ImageRule:
    """Return the rule that prepares images for a network with inputs of this (height, width) and number of channels.

    If the processor yields another size, its geometry is scaled to this one. `processor` is the class to assume if the
    file names none, as old ones do. Raises ProcessorError.
    """
    if channels not in (1, 3):
        raise ValueError(f"channels: must be 1 or 3, given {channels}")
    settings = _settings(config, processor)
    resize, cut = _geometry(settings)
    if cut is None and resize is None:
        raise ProcessorError("do_resize", "true where do_center_crop is false", False)
    if cut is None:
        raise ProcessorError("do_center_crop", "true where size leaves the longer side to the image", False)
    if _flag(settings, "do_convert_rgb") and channels == 1:
        raise ProcessorError("do_convert_rgb", "false where the network takes one channel", True)
    mean, std = _normalization(settings, channels)
    return ImageRule(
        height=image[0],
        width=image[1],
        channels=1 if channels == 1 else 3,
        locate="middle",
        resize=_scale_resize(resize, cut, image),
        resample=_filter(settings),
        mean=mean,
        std=std,
    )


def processed_size(config: Mapping[str, object], processor: str | None = None) -> tuple[int, int] | None:
    """Return the (height, width) of processed images; None if it varies with the image."""
    return _geometry(_settings(config, processor))[1]


def read_detector_rule(
    config: Mapping[str, object], image: tuple[int, int], channels: int, processor: str | None = None
) -> ImageRule:
    """Return the rule that prepares images for a detector with inputs of this (height, width).

    Images keep their shape, and are resized as the processor says, as far as they fit into the inputs; but those that
    the processor resizes to a height and a width fill the inputs. Raises ProcessorError.
    """
    settings = _detector_settings(config, processor)
    mean, std = _normalization(settings, channels)
    names, sides = _detector_size(settings)
    if names == WHOLE and _pad_size(settings) not in (None, sides):
        raise ProcessorError(
            "pad_size", "absent, or the same, where size is a height and a width", settings["pad_size"]
        )
    edges = names == EDGES
    return ImageRule(
        height=image[0],
        width=image[1],
        channels=1 if channels == 1 else 3,
        locate="middle" if names == WHOLE else "fit",
        resize=image if names == WHOLE else min(sides) if edges else sides,
        longest=sides[1] if edges else None,
        multiple=MULTIPLES.get(_class_of(config, processor)[1], 1) if edges else 1,
        resample=_filter(settings),
        mean=mean,
        std=std,
    )


def detector_canvas(config: Mapping[str, object], processor: str | None = None) -> tuple[int, int]:
    """Return the (height, width) in which to fit the images of a detector, where nothing else is asked for.

    It is that of the processor or, if it depends on the image, that of a landscape of 4:3. Raises ProcessorError.
    """
    settings = _detector_settings(config, processor)
    if padded := _pad_size(settings):
        return padded
    names, sides = _detector_size(settings)
    if names != EDGES:
        return sides
    height = min(sides)
    return height, min(int(height / CANVAS_SHAPE), sides[1])


def pad_size(config: Mapping[str, object], processor: str | None = None) -> Sides | None:
    """Return the (height, width) that a detector's images are filled up to, None if none is said. Raises as above."""
    return _pad_size(_detector_settings(config, processor))


def _pad_size(settings: Settings) -> Sides | None:
    if not _flag(settings, "do_pad") or settings["pad_size"] is None:
        return None
    sides = _sides(settings, "pad_size", square=True)
    if isinstance(sides, int):
        raise ProcessorError("pad_size", '{"height", "width"} in pixels', settings["pad_size"])
    return sides


def _detector_size(settings: Settings) -> tuple[tuple[str, str], Sides]:
    """Return what the numbers of `size` are called, and the numbers. Raises ProcessorError."""
    size, most = settings["size"], settings["max_size"]
    if size is None:
        size, most = DETECTOR_SIZE, DETECTOR_LONGEST
    if _is_side(size):
        size = {"shortest_edge": size, "longest_edge": DETECTOR_LONGEST if most is None else most}
    if isinstance(size, Mapping) and all(map(_is_side, size.values())):
        for names in (EDGES, WHOLE, ROOM):
            if size.keys() == set(names):
                return names, (size[names[0]], size[names[1]])
    kinds = ('{"shortest_edge", "longest_edge"}', '{"height", "width"}', '{"max_height", "max_width"}')
    raise ProcessorError("size", f"an int, {', '.join(kinds)} in pixels", settings["size"])


def _detector_settings(config: Settings, processor: str | None) -> Settings:
    settings = _read_settings(config, processor, DETECTOR_PROCESSORS, IRRELEVANT_KEYS | DETECTOR_IRRELEVANT_KEYS)
    if not _flag(settings, "do_resize"):
        raise ProcessorError("do_resize", "true", settings["do_resize"])
    return settings


def _settings(config: Settings, processor: str | None) -> Settings:
    kinds = {name: {**DEFAULTS, **own} for name, own in PROCESSOR_DEFAULTS.items()}
    settings = _read_settings(config, processor, kinds, IRRELEVANT_KEYS)
    if _flag(settings, "do_pad"):
        raise ProcessorError("do_pad", "false", True)
    return settings


def _read_settings(
    config: Settings, processor: str | None, kinds: Mapping[str, Settings], irrelevant: frozenset[str]
) -> dict[str, object]:
    """Return the settings of the file over the defaults of the class that it names."""
    key, known = _class_of(config, processor)
    if known not in kinds:
        raise ProcessorError(key or "image_processor_type", f"one of {', '.join(kinds)}", config.get(key, processor))
    settings = dict(kinds[known])
    for key, value in config.items():
        if key in settings:
            settings[key] = value
        elif key not in irrelevant and value is not None:
            raise ProcessorError(key, f"absent from a {known}", value)
    return settings


def _class_of(config: Settings, processor: str | None) -> tuple[str, str]:
    """Return the key that names the class of a processor, empty if none does, and the class by its present name."""
    key = next((key for key in ("image_processor_type", "feature_extractor_type") if config.get(key)), "")
    name = str(config.get(key, processor))
    return key, name.replace("FeatureExtractor", "ImageProcessor").removesuffix("Fast").removesuffix("Pil")


def _geometry(settings: Settings) -> tuple[Sides | int | None, Sides | None]:
    """Return what an image is resized to (an int is its shorter side), and the size cropped from that."""
    square = _flag(settings, "default_to_square")
    resize = _sides(settings, "size", square) if _flag(settings, "do_resize") else None
    crops = _flag(settings, "do_center_crop")
    if "crop_pct" in settings:
        if crops:
            raise ProcessorError("do_center_crop", "false where crop_pct says what is cut", True)
        return _crop_share(resize, settings)
    if crops:
        cut = _sides(settings, "crop_size", square=True)
        if isinstance(cut, int):
            raise ProcessorError("crop_size", "an int, or a height and a width", settings["crop_size"])
        return resize, cut
    return resize, resize if isinstance(resize, tuple) else None


def _crop_share(resize: Sides | int | None, settings: Settings) -> tuple[Sides | int | None, Sides | None]:
    """Return the geometry of ConvNext, which crops the share `crop_pct` of an image that is not large."""
    share = _number("crop_pct", settings["crop_pct"])
    if isinstance(resize, tuple):
        raise ProcessorError("size", 'an int or {"shortest_edge"}', settings["size"])
    if resize is None:
        return None, None
    return int(resize / share) if resize < UNCROPPED_SIZE else (resize, resize), (resize, resize)


def _scale_resize(resize: Sides | int | None, cut: Sides, image: Sides) -> Sides | int | None:
    """Return what to resize to for inputs of the size `image`, in the ratio of `resize` to `cut`."""
    if cut == image:
        return resize
    if resize is None:
        raise ProcessorError("crop_size", f"{image} where do_resize is false", cut)
    if isinstance(resize, int):  # the larger of both, so that no padding becomes necessary
        return max(1, round(max(resize * image[0] / cut[0], resize * image[1] / cut[1])))
    return max(1, round(resize[0] * image[0] / cut[0])), max(1, round(resize[1] * image[1] / cut[1]))


def _normalization(settings: Settings, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and std of pixels in [0, 1], which include the processor's factor."""
    factor = _number("rescale_factor", settings["rescale_factor"]) if _flag(settings, "do_rescale") else 1.0
    mean, std = (0.0,) * channels, (1.0,) * channels
    if _flag(settings, "do_normalize"):
        mean = _numbers(settings, "image_mean", channels)
        std = tuple(_number("image_std", value) for value in _numbers(settings, "image_std", channels))
    unit = 255 * factor  # a white pixel's value before mean and std; (x * factor - mean) / std stays the same
    return tuple(value / unit for value in mean), tuple(value / unit for value in std)


def _filter(settings: Settings) -> Filter:
    resample = settings["resample"]
    named = resample.lower() if isinstance(resample, str) else None
    if filter_ := next((one for one in PILLOW_FILTERS.values() if one == named), None):
        return filter_
    if not _is_whole(resample) or resample not in PILLOW_FILTERS:
        raise ProcessorError("resample", f"one of {', '.join(map(str, PILLOW_FILTERS))}", resample)
    return PILLOW_FILTERS[resample]


def _flag(settings: Settings, key: str) -> bool:
    value = settings[key]
    if value is not None and not isinstance(value, bool):
        raise ProcessorError(key, "true or false", value)
    return bool(value)


def _sides(settings: Settings, key: str, square: bool) -> Sides | int:
    """Return (height, width), or the shorter side as an int."""
    value = settings[key]
    if isinstance(value, Mapping) and value.keys() == {"shortest_edge"} and _is_side(value["shortest_edge"]):
        return value["shortest_edge"]
    if _is_side(value):
        return (value, value) if square else value
    pair = value
    if isinstance(value, Mapping) and value.keys() == {"height", "width"}:
        pair = (value["height"], value["width"])
    if isinstance(pair, list | tuple) and len(pair) == 2 and all(map(_is_side, pair)):
        return pair[0], pair[1]
    raise ProcessorError(key, 'an int, [height, width], {"height", "width"} or {"shortest_edge"} in pixels', value)


def _numbers(settings: Settings, key: str, channels: int) -> tuple[float, ...]:
    value = settings[key]
    values = value if isinstance(value, list | tuple) else [value] * channels
    if len(values) != channels or not all(map(_is_number, values)):
        raise ProcessorError(key, f"a number, or a list of {channels}", value)
    return tuple(map(float, values))


def _number(key: str, value: object) -> float:
    if not _is_number(value) or value <= 0:
        raise ProcessorError(key, "a number above 0", value)
    return float(value)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_side(value: object) -> TypeGuard[int]:
    return _is_whole(value) and value > 0
