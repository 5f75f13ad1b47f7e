import dataclasses
import io

import pytest
from PIL import Image

from contract.artifact import read_artifact
from contract.example import Example
from contract.input_rules import TextRule
from export.checkpoints.reading.tokenizers.tokenizer import character_tokenizer
from export.errors import CheckpointError
from export.examples import PASSAGES, TASK_TEXTS, with_files, with_given, with_texts, with_usual
from export.pipeline import export
from model.vocabularies import ALPHABET, MASK, MASK_TOKEN, SPECIALS
from tests.samples.export_models import classifier, translator

LONG = "a" * 2001


def of_task(task, **changes):
    """A small model that reads characters, said to be of another task."""
    return dataclasses.replace(translator(), task=task, **changes)


def filler():
    tokenizer = character_tokenizer(SPECIALS, ALPHABET, around="[START] $A [END]", mask=MASK_TOKEN)
    return of_task(
        "fill-mask", tokenizer=tokenizer, inputs=(TextRule(tokenizer="tokenizer.json", max_tokens=48, mask=MASK),)
    )


def picture(file, form="PNG", size=(6, 4)):
    Image.new("RGB", size, "red").save(file, form)
    return file


def test_texts_become_examples():
    source, faults = with_texts(translator(), [("3 may",), ("4 june",)])
    assert source.examples == (Example(text="3 may"), Example(text="4 june"))
    assert not faults
    assert not source.example_files


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "must have 1 to 2000 characters, given 0"),
        (" \n", "must have 1 to 2000 characters, given 0"),
        (LONG, "must have 1 to 2000 characters, given 2001"),
        ("a" * 49, "must have 1 to 48 tokens, given 49"),
        ("3 may \ud800", "must be Unicode, given half of a surrogate pair"),
    ],
)
def test_a_text_that_the_model_does_not_take_is_left_out_and_the_others_stay(text, fault):
    source, faults = with_texts(translator(), [("3 may",), (text,), ("4 june",)])
    assert [one.text for one in source.examples] == ["3 may", "4 june"]
    assert faults == [fault]


def test_the_longest_text_is_taken():
    source, faults = with_texts(translator(), [("a" * 48,)])
    assert len(source.examples) == 1, faults


def test_two_texts_are_for_tasks_that_compare_them():
    pair = ("3 may", "4 june")
    assert with_texts(translator(), [pair])[1] == ["must be one text for text2text-generation, given 2"]
    for task in ("text-classification", "feature-extraction"):
        assert with_texts(of_task(task), [pair])[0].examples == (Example(text="3 may", text_pair="4 june"),)


def test_a_pair_that_is_joined_is_measured_together_and_one_that_is_compared_apart():
    pair = ("a" * 30, "b" * 30)
    assert with_texts(of_task("feature-extraction"), [pair])[0].examples
    assert with_texts(of_task("text-classification"), [pair])[1] == ["must have 1 to 48 tokens, given 60"]


def test_a_question_has_a_context_as_long_as_it_may_be():
    source, faults = with_texts(of_task("question-answering"), [("when", "b" * 99), ("when",), ("a" * 48, "b")])
    assert source.examples == (Example(text="when", text_pair="b" * 99),)
    said = "must be a question and a text that answers it, given one text"
    assert faults == [said, "must have 1 to 48 tokens, given 49"]


def test_a_text_to_fill_holds_the_mask():
    source, faults = with_texts(filler(), [("3 [MASK]ay",), ("3 may",)])
    assert [one.text for one in source.examples] == ["3 [MASK]ay"]
    assert faults == ["must hold [MASK], given none"]


def test_a_model_of_images_takes_no_texts():
    assert with_texts(classifier(), [("3 may",)])[1] == [
        "must be a file, since the model takes images or sounds; given a text"
    ]


def test_no_more_than_twelve_are_kept():
    assert len(with_texts(translator(), [(f"{day} may",) for day in range(1, 15)])[0].examples) == 12


@pytest.mark.parametrize("task", TASK_TEXTS)
def test_a_model_without_examples_has_those_of_its_task(task):
    source = filler() if task == "fill-mask" else of_task(task)
    found = with_usual(source).examples
    assert len(found) == len(TASK_TEXTS[task])
    assert task != "fill-mask" or all("[MASK]" in one.text for one in found)


def test_a_model_that_ranks_has_queries_with_several_passages():
    ranker = dataclasses.replace(of_task("text-classification"), labels=("LABEL_0",), scores="sigmoid")
    found = [(one.text, one.text_pair) for one in with_usual(ranker).examples]
    assert found == [one for one in PASSAGES if one in found], "but for those that are too long for it"
    assert {text for text, _ in found} == {text for text, _ in PASSAGES}
    softmax = dataclasses.replace(ranker, scores="softmax")
    assert all(one.text_pair is None for one in with_usual(softmax).examples)


def test_the_mask_is_the_model_s_own():
    source = filler()
    other = source.tokenizer.replace("[MASK]", "<mask>")
    found = with_usual(dataclasses.replace(source, tokenizer=other)).examples
    assert [one.text for one in found] == ["The cat sat on the <mask>.", "It <mask> all <mask>."]


def test_images_have_no_examples_that_suit_every_model():
    assert with_usual(classifier()).examples == ()


@pytest.mark.parametrize(("form", "ending"), [("PNG", "png"), ("JPEG", "jpg"), ("WEBP", "webp")])
def test_a_picture_is_named_by_its_content(tmp_path, form, ending):
    file = picture(tmp_path / "photo.txt", form)
    source = with_files(classifier(), [file, file])
    assert source.example_files == dict.fromkeys((f"example-0.{ending}", f"example-1.{ending}"), file.read_bytes())
    assert [one.image for one in source.examples] == list(source.example_files)


def animated(file):
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])


def cut(file):
    noise = Image.effect_noise((64, 64), 90)
    noise.save(file, "PNG")
    file.write_bytes(file.read_bytes()[:-900])


@pytest.mark.parametrize(
    "write",
    [
        animated, cut, lambda file: file.write_bytes(b""), lambda file: file.write_text("<svg/>"),
        lambda file: picture(file, "BMP"), lambda file: file.write_bytes(b"\x89PNG\r\n\x1a\n"),
    ],
    ids=["gif", "cut", "empty", "svg", "bmp", "head alone"],
)  # fmt: skip
def test_another_file_is_no_example(tmp_path, write):
    file = tmp_path / "picture.png"
    write(file)
    with pytest.raises(CheckpointError) as refusal:
        with_given(classifier(), [str(file)])
    assert str(refusal.value) == f"--example: must be a whole png, jpeg or webp, {file} is not"


def test_a_picture_is_small(tmp_path):
    noise = io.BytesIO()
    Image.effect_noise((520, 520), 90).save(noise, "PNG")
    file = tmp_path / "noise.png"
    file.write_bytes(noise.getvalue())
    with pytest.raises(CheckpointError) as refusal:
        with_given(classifier(), [str(file)])
    assert str(refusal.value) == f"--example: at most 262144 bytes, {file} has {len(noise.getvalue())}"


def test_a_model_of_images_is_given_files(tmp_path):
    with pytest.raises(CheckpointError, match=r"must be a file, since the model takes images; .*none is none"):
        with_given(classifier(), [str(tmp_path / "none")])
    with pytest.raises(CheckpointError, match="must be a file, since the model takes images"):
        with_given(classifier(), [str(tmp_path)])


def test_what_is_given_is_taken_or_refused():
    assert with_given(translator(), ["3 may"]).examples == (Example(text="3 may"),)
    with pytest.raises(CheckpointError) as refusal:
        with_given(translator(), ["3 may", LONG])
    assert str(refusal.value) == "--example: must have 1 to 2000 characters, given 2001"
    with pytest.raises(CheckpointError) as refusal:
        with_given(translator(), ["3 may"] * 13)
    assert str(refusal.value) == "--example: at most 12 times, given 13"


def test_pictures_lie_in_the_artifact_and_are_checked_with_it(tmp_path):
    source = with_files(classifier(), [picture(tmp_path / "one.png")])
    source = dataclasses.replace(source, about="Tells a from b.", order=7)
    folder = export(source, "1", tmp_path / "artifacts")
    manifest = read_artifact(folder).manifest
    assert manifest.examples == (Example(image="example-0.png"),)
    assert (manifest.about, manifest.order) == ("Tells a from b.", 7)
    assert "example-0.png" in [file.file for file in manifest.files]
    assert (folder / "example-0.png").read_bytes() == (tmp_path / "one.png").read_bytes()
