"""What is asked of one step inside attention, and how it is answered."""

import numpy as np
import orjson
import pytest

from contract.manifest import HIDDEN_SCORE, INSIDE
from service.errors import TooLarge, Unacceptable
from service.explanations.inside import InsideQuery, check_inside_size, inside_answer, resolve_inside
from service.inputs.model_input import Token
from service.options.base import parse
from service.options.inside import InsideOptions
from tests.samples.attention_queries import HEADS, WIDTH, finder, looked_into, vit

LENGTHS = {"image": 5, "object": 4}


def asked(manifest, lengths=LENGTHS, **options):
    return resolve_inside(parse(InsideOptions, {"query": 0, "key": 0, **options}, strings=False), manifest, lengths)


def found(**more):
    rng = np.random.default_rng(0)
    made = {
        what: rng.standard_normal((HEADS, WIDTH if what in ("query", "key", "value", "sum") else 5)) for what in INSIDE
    }
    return {name: array.astype(np.float32) for name, array in {**made, **more}.items()}


def test_layers_and_positions_may_be_counted_from_the_end():
    manifest = looked_into(vit())
    query = asked(manifest, query=-1, key=4)
    assert (query.kind, query.layer, query.query, query.key, query.digits) == (manifest.attention[0], 2, 4, 4, 5)
    assert asked(manifest, layer=-3).layer == asked(manifest, layer=0).layer == 0


def test_rows_and_columns_are_those_of_the_kind():
    query = asked(looked_into(finder()), kind="cross", query=3, key=-1)
    assert (query.query, query.key) == (3, 4)


@pytest.mark.parametrize(
    ("manifest", "options", "words"),
    [
        (vit(), {}, "inside: this model's artifact has no graph of it; if all its attention is of scaled dot products"),
        (vit().model_copy(update={"verified": {"inside": "left out: it differs"}}), {}, "inside: was left out when"),
        (looked_into(vit()), {"layer": 3}, "layer: must be from -3 to 2, given 3"),
        (looked_into(vit()), {"query": 5}, "query: must be from -5 to 4, given 5"),
        (looked_into(vit()), {"key": -6}, "key: must be from -5 to 4, given -6"),
        (looked_into(vit()), {"kind": "cross"}, "kind: this model has encoder, given another"),
        (looked_into(finder()), {}, "kind: this model has encoder, decoder, cross, given none"),
        (looked_into(finder()), {"kind": "cross", "query": 4}, "query: must be from -4 to 3, given 4"),
    ],
)
def test_what_the_model_has_not_is_refused(manifest, options, words):
    with pytest.raises(Unacceptable) as refusal:
        asked(manifest, **options)
    assert refusal.value.detail.startswith(words)


def test_an_answer_that_would_be_too_large_is_refused():
    manifest = looked_into(vit())
    query = asked(manifest)
    body = orjson.dumps(inside_answer(query, found(), {}), option=orjson.OPT_SERIALIZE_NUMPY)
    with pytest.raises(TooLarge, match=r"inside: at most 700 bytes an answer, this one may have \d+; ask for fewer"):
        check_inside_size(query, manifest, LENGTHS, 700)
    check_inside_size(query, manifest, LENGTHS, 2000)
    with pytest.raises(TooLarge):
        check_inside_size(query, manifest, LENGTHS, len(body) - 1)


def test_a_hidden_key_has_neither_score_nor_bias_and_no_weight():
    scores = np.array([[1.5, HIDDEN_SCORE * 2, 0, 0, 0]] * HEADS)
    numbers = found(scores=scores, products=np.ones((HEADS, 5)), weights=np.array([[0.5, 0, 0.5, 0, 0]] * HEADS))
    kind = vit().attention[0]
    seen, hidden = (
        orjson.loads(orjson.dumps(inside_answer(InsideQuery(kind, 0, 0, key, 5), numbers, {}),
                                  option=orjson.OPT_SERIALIZE_NUMPY))["heads"][1]
        for key in (0, 1)
    )  # fmt: skip
    assert (seen["bias"], seen["score"], seen["weight"]) == (0.5, 1.5, 0.5)
    assert (hidden["bias"], hidden["score"], hidden["weight"]) == (None, None, 0)
    assert seen["scores"] == hidden["scores"] == [1.5, None, 0, 0, 0]


def test_numbers_are_rounded_and_tokens_have_their_texts():
    kind = vit().attention[0].model_copy(update={"query": "target", "key": "source"})
    axes = {"source": [Token(1, "a", (0, 1)), Token(2, "b", (1, 2))]}
    answer = inside_answer(InsideQuery(kind, 1, 2, 1, 2), found(), axes)
    assert (answer["query"], answer["key"]) == ({"position": 2}, {"position": 1, "text": "b"})
    assert answer["scale"] == pytest.approx(WIDTH**-0.5)
    assert answer["heads"][0]["value"].tolist() == [round(float(x), 2) for x in found()["value"][0].astype(float)]
    assert [head["head"] for head in answer["heads"]] == [0, 1]
