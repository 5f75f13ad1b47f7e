"""What a score is, and what may be asked of it: each refusal in words, and what is understood."""

import pytest

from contract.input_rules import TextRule
from service.errors import Unacceptable
from service.explanations.query import resolve
from service.explanations.score import baselines_of, points_of
from service.options.attention import AttentionOptions
from service.options.base import parse
from service.options.readers import Against
from tests.samples.attention_queries import continuer, embedder, query_of, translator, vit

TOKENS = {"a": 4, "b": 5, "far": 10}


def asked(model, **options):
    return resolve(parse(AttentionOptions, options, strings=False), model, TOKENS.get)


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (vit(), {"against": {"label": "cat"}}, "against: is for relevance, libra and integrated, the other methods"),
        (vit(), {"method": "libra", "against": "cat"}, 'against: must be an object with one of label, .* {"label"'),
        (vit(), {"method": "libra", "against": 1}, "against: must be an object"),
        (vit(), {"method": "libra", "against": {}}, "against: must be an object"),
        (vit(), {"method": "libra", "against": {"label": "cat", "index": 0}}, "against: must be an object"),
        (vit(), {"method": "libra", "against": {"label": 0}}, "against: must be an object"),
        (vit(), {"method": "libra", "against": {"index": True}}, "against: must be an object"),
        (vit(), {"method": "libra", "against": {"index": -1}}, "against: must be an object"),
        (vit(), {"method": "libra", "against": {"index": 3}}, "against: must be from 0 to 2, given 3"),
        (vit(), {"method": "libra", "against": {"label": "dog"}}, "against: must be a label of this model, given"),
        (vit(), {"method": "libra", "against": {"token": 1}}, "against: must be label or index for image-cl.*, given"),
        (vit(), {"method": "libra", "against": {"text": "cat"}}, "against: must be label or index .*, given text"),
        (vit(), {"method": "libra", "against": {"id": "x"}}, "against: must be label or index .*, given id"),
        (
            vit(),
            {"method": "libra", "target": "cow,0", "against": {"index": 1}},
            "against: must be another class than the target, given 1 as both",
        ),
        (translator(), {"method": "libra", "against": {"label": "a"}}, "against: must be token or text for text2text"),
        (translator(), {"method": "libra", "against": {"text": "ab"}}, "against: must be a text that is exactly one"),
        (translator(), {"method": "libra", "against": {"text": "far"}}, "against: must be a text that is exactly one"),
        (translator(), {"method": "libra", "against": {"token": 10}}, "against: must be from 0 to 9, given 10"),
        (embedder(), {"method": "libra"}, "against: libra explains what makes two embeddings alike, so it must"),
        (embedder(), {"method": "relevance"}, "against: relevance explains .* text or id of another input, given none"),
        (embedder(), {"method": "libra", "against": {"index": 1}}, "against: must be text or id for feature"),
        (embedder(), {"method": "libra", "against": {"image": ""}}, "against: must be text or id .*, given image"),
        (
            embedder(),
            {"method": "libra", "target": 1, "against": {"text": "a"}},
            "target: an embedding has no class or token; against names what it is compared with",
        ),
        (vit(), {"sides": "both"}, "sides: is for embeddings, explained by relevance, libra and integrated"),
        (vit(), {"method": "libra", "sides": "both"}, "sides: is for embeddings"),
        (embedder(), {"method": "rollout", "sides": "both"}, "sides: is for embeddings"),
        (vit(), {"baseline": "zero"}, "baseline: is for integrated"),
        (vit(), {"method": "integrated", "baseline": "mask"}, "baseline: this model has empty, zero, given mask"),
        (translator(), {"method": "integrated", "baseline": "mask"}, "baseline: this model has zero, given mask"),
        (vit(), {"method": "integrated", "steps": 0}, "steps: must be from 1 to 256 for integrated, given 0"),
        (vit(), {"method": "integrated", "steps": 257}, "steps: must be from 1 to 256 for integrated, given 257"),
        (vit(), {"method": "integrated", "steps": -1}, "steps: must be from 1 to 256 for integrated, given -1"),
        (vit(), {"method": "integrated", "steps": True}, "steps: must be from 1 to 256 for integrated, given true"),
        (vit(), {"method": "integrated", "steps": 1.5}, "steps: must be true or false, or for integrated a number"),
        (vit(), {"method": "integrated", "steps": "many"}, "steps: must be true or false, or for integrated a number"),
        (translator(), {"steps": 2}, "steps: a number is for integrated, given 2"),
        (translator(), {"method": "libra", "steps": 16}, "steps: a number is for integrated, given 16"),
    ],
)  # fmt: skip
def test_what_a_score_cannot_be_is_refused_with_the_reason(model, options, words):
    with pytest.raises(Unacceptable, match=f"^{words}"):
        asked(model, **options)


@pytest.mark.parametrize("method", ["relevance", "libra"])
@pytest.mark.parametrize("target", [-1, "-1", ["-1"]])
def test_a_token_may_be_counted_from_the_end_as_a_number_or_as_a_query_has_it(method, target):
    assert asked(translator(), method=method, target=target).targets == (-1,)
    with pytest.raises(Unacceptable, match="target: must be from 0 to 2 or a label, given another"):
        asked(vit(), method=method, target=target)


@pytest.mark.parametrize(
    ("model", "against", "wanted"),
    [
        (vit(), {"label": "cow"}, 1), (vit(), {"label": "3"}, 2), (vit(), {"index": 2}, 2), (vit(), {"index": 0}, 0),
        (translator(), {"token": 9}, 9), (continuer(), {"text": "b"}, 5), (embedder(), {"text": "b"}, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["relevance", "libra", "integrated"])
def test_what_a_target_is_explained_against_is_the_number_of_a_class_or_token(model, against, wanted, method):
    assert asked(model, method=method, against=against).against == wanted


def test_a_query_string_holds_the_same_object_as_json():
    options = parse(AttentionOptions, {"method": "libra", "against": '{"label": "cow"}'}, strings=True)
    assert options.against == Against("label", "cow")
    assert resolve(options, vit()).against == 1
    for text in ("cow", '"cow"', "1", "[]", "{", '{"label": "cow"', "null"):
        with pytest.raises(Unacceptable, match="against: must be an object"):
            parse(AttentionOptions, {"method": "libra", "against": text}, strings=True)


def test_baselines_are_those_that_the_model_has_a_picture_or_tokens_for():
    text = TextRule(tokenizer="tokenizer.json", max_tokens=8)
    assert baselines_of(vit()) == ["empty", "zero"]
    assert baselines_of(vit("raw")) == []
    assert baselines_of(embedder()) == ["mask", "padding", "zero"]
    assert baselines_of(continuer()) == ["padding", "zero"]
    assert baselines_of(embedder().model_copy(update={"inputs": (text,)})) == ["zero"]
    generation = continuer().generation
    both = text.model_copy(update={"mask": 3})
    for own, padding, wanted in (
        (None, None, ["mask", "zero"]), ("target.json", None, ["zero"]), ("target.json", 3, ["mask", "zero"]),
    ):  # fmt: skip
        targets = generation.model_copy(update={"start": 1, "tokenizer": own, "padding": padding})
        assert baselines_of(translator().model_copy(update={"inputs": (both,), "generation": targets})) == wanted


def test_the_first_baseline_that_the_model_has_is_the_default_and_only_integrated_has_one():
    assert query_of(method="integrated").baseline == "empty"
    assert query_of(method="integrated", baseline="zero").baseline == "zero"
    assert query_of(embedder(), method="integrated", against={"text": "a"}).baseline == "mask"
    assert query_of(method="libra").baseline is None


@pytest.mark.parametrize(("steps", "points"), [(1, 1), ("256", 256), (None, 16), ("false", 16), (False, 16)])
def test_a_path_has_as_many_points_as_are_asked_for_and_sixteen_by_default(steps, points):
    given = {} if steps is None else {"steps": steps}
    assert points_of(parse(AttentionOptions, {"method": "integrated", **given}, strings=False)) == points


@pytest.mark.parametrize("word", ["true", "True", "1", "yes", "on", "t", "y", "false", "0", "no", "off", "f", "n"])
def test_a_boolean_of_a_query_is_what_it_was(word):
    options = parse(AttentionOptions, {"steps": word}, strings=True)
    assert bool(options.steps) == (word.lower() in ("true", "1", "yes", "on", "t", "y"))
