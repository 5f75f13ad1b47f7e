"""A checkpoint of each case fills our definition, which computes in float64 what the reference library computes.

This is the quick level, in PyTorch alone: it sees wrong names, sizes, activations, offsets, padding, tokens and rules
of generation. Graphs and answers over HTTP are held in tests/end_to_end/, of the cases that are exported.
"""

import io
import json
import re

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer

from service.errors import Unacceptable
from service.explanations.ctc import read
from service.inputs.image_preprocessing import decode_image
from service.options.generation import GenerateOptions
from tests.samples.checkpoints import CASES, CHOSEN, checkpoint_of, reference, source_of_case
from tests.samples.fidelity import RESIZED, WITH_MAPS, close, draw, normalised, of_checkpoint, real_places
from tests.samples.reference_images import photograph, processed
from tests.samples.reference_texts import (
    ASKED,
    LANGUAGES,
    TEXTS,
    encoded,
    generated_by,
    generated_of,
    has_a_file,
    sentences,
    tokenizer_of,
)
from tests.samples.searching import Searching, generated

pytestmark = pytest.mark.families
transformers.logging.set_verbosity_error()
EXACT = 1e-6
"""The tolerance, times the larger of 1 and the largest value. All is in float64 but tables of positions and means of
pixels."""

PREPROCESSOR = "preprocessor_config.json"


def of_task(*tasks):
    return [name for name, case in CHOSEN.items() if case.task in tasks]


@pytest.fixture(scope="module")
def sources():
    """What returns the source of a case, which is read once; its definition is in float64."""
    known = {}

    def source(name):
        if name not in known:
            known[name] = source_of_case(name)
            known[name].traced.double()
        return known[name]

    return source


def tensors(feed):
    return [torch.from_numpy(array) for array in feed.values()]


@pytest.mark.parametrize("name", WITH_MAPS)
@torch.no_grad()
def test_answers_maps_and_values_are_those_of_the_reference_library(sources, name):
    source = sources(name)
    feed = draw(source, source.plan("predict").inputs, 3)
    ours, theirs = source.traced.observe(*tensors(feed)), of_checkpoint(name, source)(feed)

    def real(axis, place):
        """Return which rows or keys of maps are no padding, to be multiplied with (batch, heads, query, key)."""
        return np.expand_dims(feed["source_visible"], (1, place)) if axis == "source" else 1

    close(real_places(source, ours.answer.numpy(), feed), theirs.answer.numpy(), "answer", EXACT)
    for name_of, ours_of, theirs_of in zip(theirs.others, ours.others, theirs.others.values(), strict=True):
        close(ours_of.numpy(), theirs_of.numpy(), name_of, EXACT)
    for kind, weights, values in zip(source.attention, ours.weights, ours.values, strict=True):
        rows, keys = real(kind.query, 3), real(kind.key, 3)
        for layer, (mine, wanted) in enumerate(zip(weights, theirs.maps(kind.kind), strict=True)):
            close(mine.numpy() * rows, wanted * rows, f"{kind.kind} of layer {layer}", EXACT)
            assert np.abs(wanted[0] * wanted.shape[-1] - 1).max() > 0.3, "uniform maps would show little"
        for mine, wanted in zip(values, theirs.values[kind.kind], strict=True):
            close(mine.numpy() * keys, wanted * keys, f"values of {kind.kind}", EXACT)


@pytest.mark.parametrize("name", sorted(CHOSEN.keys() - set(WITH_MAPS)))
@torch.no_grad()
def test_answers_and_windows_are_those_of_the_reference_library(sources, name):
    """It returns the maps of the last block of each stage alone, so those of every block are caught."""
    source, theirs, caught = sources(name), reference(checkpoint_of(name)), []
    for path, module in theirs.named_modules():
        if re.search(r"blocks\.\d+\.attention$", path):
            getattr(module, "self", module).register_forward_hook(
                lambda module, given, found: caught.append(found[1].numpy())
            )
    feed = draw(source, source.plan("predict").inputs, 3)
    pixels = normalised(source.image, torch.from_numpy(feed["pixels"]))
    wanted = theirs(pixels, output_attentions=True).logits.numpy()
    ours = source.traced.observe(*tensors(feed))
    close(ours.answer.numpy(), wanted, "answer", EXACT)
    for mine, windows in zip([layer for kind in ours.weights for layer in kind], caught, strict=True):
        close(mine.numpy().reshape(windows.shape), windows, "windows", EXACT)


@pytest.mark.parametrize("name", [
    name for name in of_task("image-classification", "feature-extraction")
    if "size" in CASES[name].files.get(PREPROCESSOR, {}) and not name.startswith("dinov3")  # which has none in Pillow
])  # fmt: skip
def test_an_image_is_prepared_as_by_the_reference_library(sources, name):
    rule, file = sources(name).image, io.BytesIO()
    photograph().save(file, "PNG")
    pixels = decode_image(file.getvalue(), rule, 10**7).pixels
    ours = (pixels / 255 - rule.mean) / rule.std
    close(ours.transpose(2, 0, 1)[None], processed(name, photograph()), "pixels", 1e-6)


@pytest.mark.parametrize("name", of_task("automatic-speech-recognition"))
@torch.no_grad()
def test_characters_and_words_with_their_times_are_those_of_the_reference_library(sources, name):
    source, written = sources(name), set()
    settings = CASES[name].files["tokenizer_config.json"]  # the reference library forgets the delimiter of a folder
    theirs = transformers.Wav2Vec2CTCTokenizer(str(checkpoint_of(name) / "vocab.json"), **settings)
    lower = str.lower if theirs.do_lower_case else str  # it lowers the text alone
    feed = draw(source, source.plan("predict").inputs, 6, whole=True)
    feed["samples"] = np.concatenate([feed["samples"] * gain for gain in (1, -3, 0.3, 2)], axis=1)
    heard = source.traced.observe(*tensors(feed)).answer.numpy()
    for logits in (*heard, *(heard - heard.mean(1, keepdims=True))):  # centred, each class is the likeliest somewhere
        ours = read(logits, source.labels, source.sound.step)
        wanted = theirs.decode(logits.argmax(-1), output_char_offsets=True, output_word_offsets=True)
        assert ours.text == wanted.text
        for found, offsets, key in (
            (ours.characters, wanted.char_offsets, "char"),
            (ours.words, wanted.word_offsets, "word"),
        ):
            assert [(one.text, one.start, one.end) for one in found] == [
                (
                    lower(one[key]),
                    *(pytest.approx(one[f"{end}_offset"] * source.sound.step) for end in ("start", "end")),
                )
                for one in offsets
            ]
        written.add(ours.text)
    assert len(written) > 6
    assert any(" " in text for text in written)


@pytest.mark.parametrize("name", of_task("image-classification", "text-classification", "object-detection"))
def test_labels_and_scores_are_those_of_the_configuration(sources, name):
    source = sources(name)
    config = json.loads((checkpoint_of(name) / "config.json").read_text())
    exclusive = config.get("problem_type") != "multi_label_classification" and name != "conditional-detr"
    of_one_label = {"bert-rank": "sigmoid", "roberta-rank": "identity"}
    of_one_label |= dict.fromkeys(("modernbert-first", "nomic-bert", "qwen3-rank"), "sigmoid")
    assert source.labels == tuple(config["id2label"].values())
    assert source.scores == of_one_label.get(name, "softmax" if exclusive else "sigmoid")


@pytest.mark.parametrize("name", [name for name, case in CHOSEN.items() if case.tokenizer or case.prepare])
def test_texts_and_pairs_have_the_tokens_of_the_reference_library(sources, name):
    source = sources(name)
    ours = Tokenizer.from_str(source.tokenizer or source.target_tokenizer)
    texts = TEXTS if has_a_file(name) else sentences(name, 8, seed=0)
    for text in texts:
        assert ours.encode(text).ids == encoded(name, text)
    if source.task in ("text-classification", "question-answering"):
        theirs = tokenizer_of(name)
        for pair in ((TEXTS[1], TEXTS[0]), ("", TEXTS[3])):
            mine, wanted = ours.encode(*pair), theirs.encode(*pair)
            for field in ("ids", "offsets", "special_tokens_mask", "sequence_ids"):
                assert getattr(mine, field) == getattr(wanted, field), field
            assert mine.type_ids == wanted.type_ids or source.made_by.get("types", 0) < 2
    if source.task == "fill-mask":
        assert source.text.mask == ours.token_to_id(CASES[name].mask)


@pytest.mark.parametrize(
    ("name", "prefix", "grid"),
    [("vit", 1, (2, 3)), ("vit-features", 1, (2, 6)), ("vit-larger", 1, (4, 4)), ("deit", 2, (2, 2)),
     ("dinov2", 1, (2, 2)), ("dinov2-registers", 4, (2, 2)), ("dinov3", 4, (2, 3)),
     ("beit-shared", 1, (3, 4)), ("ijepa", 0, (2, 3)), ("yolos", 1, (3, 4)), ("bert", 1, None)],
)  # fmt: skip
def test_prefix_and_grid_are_those_of_the_family(sources, name, prefix, grid):
    (kind,) = sources(name).attention
    assert (kind.prefix, kind.grid) == (prefix, grid)


# Generation


@pytest.mark.parametrize("name", of_task("text-generation", "text2text-generation"))
def test_generation_is_the_reference_library_s_token_for_token(sources, name):
    """With the checkpoint's own rules and defaults, greedy, and with beams and a penalty asked for."""
    source, model, found = sources(name), reference(checkpoint_of(name)), set()
    for seed, asked in enumerate(ASKED):
        for text in sentences(name, 6, seed):
            tokens = encoded(name, text)
            ours = generated(source, tokens, asked)
            assert ours == generated_by(model, tokens, **asked), (asked, text)
            found.add(tuple(ours))
    assert len(found) > 8, "a model that always says the same would prove little"


@pytest.mark.parametrize("name", of_task("image-to-text"))
def test_what_is_written_of_a_picture_is_the_reference_library_s_token_for_token(sources, name):
    source, model, found = sources(name), reference(checkpoint_of(name)), set()
    ports = source.plan("predict").inputs
    more = {"interpolate_pos_encoding": True} if name in RESIZED else {}
    for batch, asked in enumerate(ASKED, 3):
        for pixels in torch.from_numpy(draw(source, ports, batch)["pixels"]).split(1):
            ours = generated(source, [], asked, pixels)
            assert ours == generated_of(model, normalised(source.image, pixels), **asked, **more), asked
            found.add(tuple(ours))
    assert len(found) > 4, "a model that always says the same would prove little"


@pytest.mark.parametrize("name", [name for name in LANGUAGES if name in CHOSEN])
def test_languages_are_those_of_the_reference_library(sources, name):
    source, model, found = sources(name), reference(checkpoint_of(name)), set()
    languages, codes = LANGUAGES[name], list(LANGUAGES[name].tokens)
    said = source.generation.languages
    assert languages.tokens.items() <= said.tokens.items()
    assert said.tokens.get(said.source) == (languages.own if has_a_file(name) else said.tokens["en"])
    for seed, (code, target) in enumerate((codes, codes[::-1])):
        for text in sentences(name, 4, seed):
            tokens = encoded(name, text, code)
            ours = generated(source, tokens, {"target_language": target})
            choice = {languages.choice: languages.tokens[target]}
            assert ours == generated_by(model, tokens, **choice), (code, target, text)
            found.add(tuple(ours))
    assert len(found) > 4


def test_a_language_of_many_that_a_model_does_not_have_is_refused(sources):
    source = sources("m2m-100")
    languages = source.generation.languages
    assert (len(languages.tokens), languages.source, languages.target) == (100, "en", None)
    with pytest.raises(Unacceptable, match="source_language: must be one of af, am, ar, ast, az, ba, be, bg and 92"):
        Searching(source).language_tokens(GenerateOptions(source_language="xx"))
