import json

import pytest
from pydantic import ValidationError

from contract.manifest import Manifest
from tests.samples.manifest_documents import IMAGE, MISSING, SOUND, TEXT, changed, entry, graph, steps

OPTIONAL = {
    "schema_version": 6,
    "about": None,
    "order": 100,
    "examples": [],
    "labels": [],
    "detection": None,
    "image.name": "image",
    "text.name": "text",
    "generation": None,
    "scores": "softmax",
    "image.resize": None,
    "image.resample": "bilinear",
    "image.longest": None,
    "image.multiple": 1,
    "image.fast_jpeg": False,
    "width": None,
    "explained": None,
    "best": None,
    "scales": None,
    "text.mask": None,
    "text.padding": None,
    "text.prompts": {},
    "text.default_prompt": None,
    "text.decoder_start": None,
    "sound.name": "sound",
    "sound.side": 0,
    "sound.bands": 0,
    "sound.apart": None,
    "sound.varies": False,
    "sound.least": 1,
    "attention.0.abreast": 1,
    "attention.0.prefix": 0,
    "attention.0.grid": None,
    "attention.0.suffix": 0,
    "attention.0.windows": [],
    "attention.0.carried": None,
    "attention.0.pooled": "first",
    "contrast": None,
    "text.filled": False,
    "generation.num_beams": 1,
    "generation.length_penalty": 1.0,
    "generation.default_new_tokens": None,
    "generation.default_length": None,
    "generation.early_stopping": False,
    "generation.sampling": None,
    "generation.sampling.temperature": 1.0,
    "generation.sampling.top_k": None,
    "generation.sampling.by_default": True,
    **{f"generation.sampling.{cut}": None for cut in ("min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff")},
    "generation.sampling.top_p": None,
    "generation.min_length": 0,
    "generation.min_new_tokens": 0,
    "generation.forced_first": None,
    "generation.forced_last": None,
    "generation.suppressed": [],
    "generation.suppressed_first": [],
    "generation.no_repeat_ngram": 0,
    "generation.source_no_repeat_ngram": 0,
    "generation.bad_words": [],
    "generation.biases": [],
    "generation.repetition_penalty": 1.0,
    "generation.source_penalty": 1.0,
    "generation.length_decay": None,
    "generation.num_return_sequences": 1,
    "generation.renormalized": False,
    "generation.tokenizer": None,
    "generation.padding": None,
    "generation.speech": None,
    "generation.languages": None,
}


def read(document):
    return Manifest.model_validate_json(json.dumps(document))


def refused(document):
    """The words of every fault that is found, each after the place it is found at."""
    with pytest.raises(ValidationError) as refusal:
        read(document)
    places = [".".join(map(str, error["loc"])).removeprefix("inputs.0.") for error in refusal.value.errors()]
    return dict(zip(places, (error["msg"] for error in refusal.value.errors()), strict=True))


PARTS = {
    "": IMAGE,
    "graphs.predict.": IMAGE["graphs"]["predict"],
    "graphs.predict.inputs.0.": IMAGE["graphs"]["predict"]["inputs"][0],
    "files.0.": IMAGE["files"][0],
    "image.": IMAGE["inputs"][0],
    "attention.0.": IMAGE["attention"][0],
    "text.": TEXT["inputs"][0],
    "sound.": SOUND["inputs"][0],
    "generation.": TEXT["generation"],
    "generation.sampling.": TEXT["generation"]["sampling"],
    "generation.biases.0.": TEXT["generation"]["biases"][0],
    "generation.caches.0.": TEXT["generation"]["caches"][0],
}


def holder(path):
    return SOUND if path.startswith("sound.") else TEXT if path.startswith(("text.", "generation.")) else IMAGE


@pytest.mark.parametrize("document", [IMAGE, TEXT, SOUND], ids=["image", "text", "sound"])
def test_a_manifest_says_after_a_round_trip_what_it_said_before(document):
    manifest = read(document)
    assert json.loads(manifest.model_dump_json()) == document
    assert Manifest.model_validate_json(manifest.model_dump_json()) == manifest
    assert read(manifest.model_dump(mode="json")) == manifest


@pytest.mark.parametrize("path", PARTS)
def test_an_unknown_key_is_refused_in_every_part(path):
    assert refused(changed(holder(path), f"{path}surprise", 1)) == {f"{path}surprise": "Extra inputs are not permitted"}


@pytest.mark.parametrize("path", [f"{part}{name}" for part, fields in PARTS.items() for name in fields])
def test_a_field_is_required_unless_it_has_a_documented_default(path):
    document = changed(holder(path), path, MISSING)
    if path in OPTIONAL:
        value = json.loads(read(document).model_dump_json())
        for step in steps(path):
            value = value[step]
        assert value == OPTIONAL[path]
    elif path == "image.ink_box":  # of an image that is found by its ink
        assert refused(document) == {"image": "Value error, ink_box must be there exactly if locate is ink"}
    elif path.endswith(".modality"):
        assert refused(document) == {"inputs.0": "Unable to extract tag using discriminator 'modality'"}
    else:
        assert refused(document) == {path: "Field required"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("schema_version", 5),
        ("schema_version", "6"),
        ("schema_version", None),
        ("name", 7),
        ("family", None),
        ("task", "guessing"),
        ("precision", "fp64"),
        ("graphs", []),
        ("graphs.predict.bytes", "19"),
        ("graphs.predict.bytes", 19.5),
        ("graphs.predict.inputs", None),
        ("graphs.predict.inputs.0.dtype", "float64"),
        ("graphs.predict.inputs.0.axes", "batch"),
        ("files.0.sha256", "0" * 63),
        ("files.0.sha256", "0" * 65),
        ("files.0.sha256", "A" * 64),
        ("image.height", "28"),
        ("image.height", 28.0),
        ("image.height", True),
        ("image.height", 0),
        ("image.width", -1),
        ("image.channels", 2),
        ("image.locate", "guess"),
        ("image.ink_box", 0),
        ("labels", "zero"),
        ("labels", [1]),
        ("attention.0.kind", "self"),
        ("attention.0.heads", 0),
        ("attention.0.normalized", 1),
        ("attention.0.normalized", "true"),
        ("attention.0.grid", [7]),
        ("attention.0.grid", [7, 7, 7]),
        ("attention.0.grid", [0, 7]),
        ("text.max_tokens", 0),
        ("text.mask", "4"),
        ("text.prompts", {"query": 1}),
        ("text.prompts", ["query: "]),
        ("text.default_prompt", 1),
        ("text.decoder_start", "2"),
        ("scores", "argmax"),
        ("image.resize", [28]),
        ("image.resize", 0),
        ("image.resample", "sinc"),
        ("generation.early_stopping", "always"),
        ("generation.sampling.temperature", 0),
        ("generation.sampling.top_p", 1.5),
        ("generation.min_length", -1),
        ("generation.suppressed", 5),
        ("generation.no_repeat_ngram", -1),
        ("generation.repetition_penalty", 0.0),
        ("generation.bad_words", [[]]),
        ("generation.num_return_sequences", 0),
        ("generation.sampling.min_p", 1.5),
        ("generation.max_new_tokens", 0),
        ("generation.num_beams", 0),
        ("generation.length_penalty", "1"),
        ("generation.caches.0.past", 1),
        ("about", ""),
        ("about", "a" * 301),
        ("order", -1),
        ("order", 1.0),
        ("examples.0.image", 1),
        ("examples", [{"image": "example-0.png"}] * 13),
    ],
)
def test_a_value_of_another_type_or_out_of_bounds_is_refused_where_it_stands(path, value):
    faults = refused(changed(holder(path), path, value))
    assert faults
    assert all(place.startswith(path) for place in faults)


@pytest.mark.parametrize(
    ("path", "value"),
    [("graphs.predict.inputs.0.axes.1", 0), ("graphs.predict.inputs.0.axes.1", True), ("image.std.0", 0.0)],
)
def test_an_axis_or_a_deviation_of_nothing_is_refused(path, value):
    assert all(place.startswith(path) for place in refused(changed(IMAGE, path, value)))


def test_a_graph_for_an_unknown_role_is_refused():
    assert list(refused(changed(IMAGE, "graphs.guess", graph("guess", b"")))) == ["graphs.guess.[key]"]


BAD_NAMES = [
    "../etc",
    "..",
    ".",
    "",
    "a" * 129,
    ".hidden",
    "-rf",
    "_a",
    "a/b",
    "a\\b",
    "a b",
    "a\n",
    "a\x00",
    "ä",
    "\u0661",  # a digit, but not of ASCII
]


@pytest.mark.parametrize(
    "path", ["name", "version", "files.0.file", "graphs.predict.file", "text.tokenizer", "generation.tokenizer"]
)
@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_is_no_plain_file_name_is_refused(path, name):
    assert list(refused(changed(holder(path), path, name))) == [path]


@pytest.mark.parametrize("path", ["name", "version", "files.0.file", "graphs.predict.file"])
@pytest.mark.parametrize("name", ["a", "0", "a" * 128, "vit_b-16.2", "A..b", "model.safetensors"])
def test_a_plain_name_is_kept(path, name):
    read(changed(IMAGE, path, name))


def test_there_is_an_input_and_each_has_a_name_of_its_own():
    assert refused(changed(IMAGE, "inputs", [])) == {"": "Value error, a model must have an input"}
    twice = changed(IMAGE, "inputs", [*IMAGE["inputs"], *IMAGE["inputs"]])
    assert refused(twice) == {"": "Value error, each input must have a name of its own"}


@pytest.mark.parametrize(("samples", "frames"), [(400, 1), (719, 1), (720, 2), (16_000, 49)])
def test_frames_of_a_sound_that_varies_are_those_of_its_samples(samples, frames):
    varies = changed(SOUND, "sound.varies", True)
    rule = read(varies).sound
    assert (rule.fills(samples), rule.step, rule.most_tokens) == (frames, 0.02, 49)
    read(changed(changed(varies, "sound.samples", samples), "sound.frames", frames))
    wanted = {"sound": "Value error, frames of a sound that varies must be those that its samples fill"}
    assert refused(changed(varies, "sound.frames", 50)) == refused(changed(varies, "sound.hop", 300)) == wanted


def test_frames_of_a_sound_with_silence_behind_it_are_those_of_all_samples():
    rule = read(
        SOUND | {"inputs": [{"modality": "sound", "rate": 16_000, "samples": 480_000, "hop": 160, "frames": 1500}]}
    ).sound
    assert (rule.step, rule.seconds, rule.most_tokens) == (0.02, 30, 0)


@pytest.mark.parametrize("labels", [[], ["a", " "], ["", "", "a"]])
def test_speech_recognition_without_generation_has_one_blank(labels):
    assert refused(changed(SOUND, "labels", labels)) == {
        "": "Value error, labels of speech recognition without generation must hold one blank"
    }


def test_each_kind_of_attention_has_a_name_of_its_own():
    twice = changed(IMAGE, "attention", [*IMAGE["attention"], *IMAGE["attention"]])
    assert refused(twice) == {"": "Value error, each kind of attention must have a name of its own"}


@pytest.mark.parametrize("name", ["Encoder", "stage.2", "", "a" * 33, "2nd"])
def test_a_kind_whose_name_could_not_be_that_of_a_port_is_refused(name):
    assert list(refused(changed(IMAGE, "attention.0.name", name))) == ["attention.0.name"]


def test_detection_is_for_detectors_alone():
    words = "Value error, detection is for object-detection, which needs it"
    found = {"objects": 8, "threshold": 0.5}
    assert refused(changed(IMAGE, "detection", found)) == {"": words}
    assert refused(changed(IMAGE, "task", "object-detection")) == {"": words}
    detector = changed(changed(IMAGE, "task", "object-detection"), "detection", found)
    assert read(detector).detection.objects == 8
    assert refused(changed(detector, "labels", [])) == {"": "Value error, detection needs an image rule and labels"}


@pytest.mark.parametrize("role", ["encode", "decode"])
def test_generation_needs_its_two_graphs(role):
    words = "Value error, generation needs the graphs encode and decode"
    assert refused(changed(TEXT, f"graphs.{role}", MISSING)) == {"": words}
    read(changed(changed(TEXT, f"graphs.{role}", MISSING), "generation", None))


@pytest.mark.parametrize("name", ["weights.bin", "predict.onnx"])
def test_a_file_may_be_listed_only_once(name):
    twice = [*IMAGE["files"], entry(name, b"again")]
    assert refused(changed(IMAGE, "files", twice)) == {"": "Value error, a file is listed twice"}


def test_two_graphs_may_not_share_a_file():
    document = changed(IMAGE, "graphs.attention.file", "predict.onnx")
    assert refused(document) == {"": "Value error, a file is listed twice"}


def test_the_tokenizer_must_be_among_the_files():
    words = "Value error, the tokenizer is not among the files"
    assert refused(changed(TEXT, "files", [])) == {"": words}
    assert refused(changed(TEXT, "text.tokenizer", "other.json")) == {"": words}


def test_the_tokenizer_of_targets_must_be_among_the_files():
    words = "Value error, the targets' tokenizer is not among the files"
    assert refused(changed(TEXT, "generation.tokenizer", "other.json")) == {"": words}


def test_every_fault_is_reported_with_its_place():
    faults = refused(changed(changed(IMAGE, "name", "../etc"), "image.height", "28"))
    assert list(faults) == ["name", "image.height"]


def test_all_files_are_those_of_the_graphs_and_the_others():
    names = [file.file for file in read(IMAGE).all_files()]
    assert names == ["predict.onnx", "attention.onnx", "weights.bin", "example-0.png"]


@pytest.mark.parametrize("path", ["name", "image.height", "files", "graphs.predict.file"])
def test_a_manifest_cannot_be_changed(path):
    *way, last = path.split(".")
    part = read(IMAGE)
    for step in way:
        part = part[step] if isinstance(part, dict) else getattr(part, step)
    with pytest.raises(ValidationError, match="frozen"):
        setattr(part, last, None)


@pytest.mark.parametrize("field", ["mean", "std"])
def test_mean_and_std_hold_one_number_a_channel(field):
    with pytest.raises(ValidationError, match="mean and std must hold one number a channel"):
        Manifest.model_validate_json(json.dumps(changed(IMAGE, f"image.{field}", [0.5, 0.5])))


TEXTS = {"text": "It rained.", "text_pair": "I like tea."}


@pytest.mark.parametrize(
    ("example", "words"),
    [
        ({}, "exactly one of text, image and sound must be given"),
        ({"text": "3 may", "image": "example-0.png"}, "exactly one of text, image and sound must be given"),
        ({"text_pair": "3 may"}, "exactly one of text, image and sound must be given"),
        ({"image": "example-0.png", "text_pair": "3 may"}, "text_pair needs text"),
        ({"text": "3 may", "labels": ["a red seven"]}, "labels need an image"),
    ],
)
def test_an_example_is_one_input(example, words):
    assert refused(changed(IMAGE, "examples", [example])) == {"examples.0": f"Value error, {words}"}


@pytest.mark.parametrize("field", ["text", "text_pair"])
@pytest.mark.parametrize("text", ["", "a" * 2001, 3])
def test_a_text_of_an_example_has_bounds(field, text):
    document = changed(TEXT, "examples", [{"text": "3 may", field: text}])
    assert list(refused(document)) == [f"examples.0.{field}"]


@pytest.mark.parametrize(
    "name", ["picture", "picture.svg", "picture.PNG", ".png", "a.png\n", "../a.png", "a.html", "a.jpeg"]
)
def test_the_name_of_a_picture_says_one_of_three_types(name):
    assert list(refused(changed(IMAGE, "examples.0.image", name))) == ["examples.0.image"]


@pytest.mark.parametrize(
    ("ending", "media_type"), [("png", "image/png"), ("jpg", "image/jpeg"), ("webp", "image/webp")]
)
def test_the_media_type_of_a_picture_is_that_of_its_name(ending, media_type):
    document = changed(IMAGE, "files.1.file", f"seven.{ending}")
    assert read(changed(document, "examples.0.image", f"seven.{ending}")).examples[0].media_type == media_type
    assert read(TEXT).examples[0].media_type is None


def test_examples_are_what_the_model_takes():
    words = {"": "Value error, examples must be images or sounds where the model takes these, and else texts"}
    assert refused(changed(IMAGE, "examples", [{"text": "3 may"}])) == words
    assert refused(changed(TEXT, "examples", [{"image": "example-0.png"}])) == words


def test_the_picture_of_an_example_must_be_among_the_files():
    words = {"": "Value error, the file of an example is not among the files"}
    assert refused(changed(IMAGE, "examples.0.image", "other.png")) == words
    graphs = changed(IMAGE, "graphs.predict.file", "other.png")
    assert refused(changed(graphs, "examples.0.image", "other.png")) == words


def test_the_picture_of_an_example_is_small():
    read(changed(IMAGE, "files.1.bytes", 262144))
    words = {"": "Value error, the file of an example must have at most 262144 bytes"}
    assert refused(changed(IMAGE, "files.1.bytes", 262145)) == words


def test_two_texts_are_for_tasks_that_take_two():
    words = {"": "Value error, text_pair is for text-classification, feature-extraction, question-answering"}
    assert refused(changed(TEXT, "examples", [TEXTS])) == words
    for task in ("text-classification", "feature-extraction"):
        found = read(changed(changed(TEXT, "examples", [TEXTS]), "task", task)).examples[0]
        assert (found.text, found.text_pair) == ("It rained.", "I like tea.")


def test_a_box_of_ink_fits_into_the_image():
    words = "Value error, ink_box must fit into height and width"
    assert refused(changed(IMAGE, "image.ink_box", IMAGE["inputs"][0]["height"] + 1))["image"] == words
    words = "Value error, ink_box must be there exactly if locate is ink"
    assert refused(changed(IMAGE, "image.locate", "middle"))["image"] == words


def test_parallel_attentions_are_as_many_in_each_layer():
    count = len(IMAGE["attention"][0]["maps"])
    found = refused(changed(IMAGE, "attention.0.abreast", count + 1))
    assert found == {"attention.0": "Value error, maps must be as many for each layer as abreast says"}


def test_a_default_prompt_is_one_of_the_prompts():
    assert read(changed(TEXT, "text.default_prompt", "query")).text.prompt == "query: "
    assert read(TEXT).text.prompt == ""
    assert refused(changed(TEXT, "text.default_prompt", "passage")) == {
        "text": "Value error, default_prompt must be the name of a prompt"
    }
