import numpy as np
from regard import axes
from regard.axes import Place
from regard.reading import read_attention

from tests.client.conftest import looked, mapped

PATCHES = np.zeros((1, 1, 6))


def written(name, at=None):
    return {"text": name, "span": None if at is None else [at, at + 1], "special": at is None}


TOKENS = {
    "source": [written("[CLS]"), written("a", 0), written("b", 2)],
    "target": [written("x", 0), written("[END]")],
    "target_input": [written("[START]"), written("x", 0)],
}


def text_look(values, kind="encoder", **changed):
    return read_attention({"method": "raw", "maps": [mapped(values, kind, **changed)], "tokens": TOKENS})


def named(look):
    (one,) = look.maps
    return [place.name for place in axes.columns(look, one)], axes.rows(look, one)


def test_columns_and_rows_of_a_text_are_its_tokens():
    found = text_look(np.zeros((1, 3, 3)))
    assert named(found) == (["[CLS]", "a", "b"],) * 2
    assert axes.columns(found, found.maps[0])[1:] == [Place("a", 0, 1), Place("b", 2, 3)]
    assert axes.columns(found, found.maps[0])[1].fields == {"text": "a", "start": 0, "end": 1}
    assert named(text_look(np.zeros((1, 2, 3)), "cross")) == (["[CLS]", "a", "b"], ["x", "[END]"])
    assert named(text_look(np.zeros((1, 2, 2)), "decoder")) == (["[START]", "x"], ["x", "[END]"])


def test_a_row_is_what_looks_or_what_is_explained():
    assert named(text_look(np.zeros((1, 1, 3)), rows=[2]))[1] == ["b"]
    assert named(text_look(np.zeros((1, 1, 3)), target={"index": 1, "label": "good"}))[1] == ["good"]
    assert named(text_look(np.zeros((1, 2, 3)), targets=[{"text": "p"}, {"text": "q"}]))[1] == ["p", "q"]
    assert named(text_look(np.zeros((1, 1, 3))))[1] == [axes.ALL]


def test_blocks_of_tokens_are_counted():
    assert named(text_look(np.zeros((1, 2, 2)))) == (["0", "1"], ["0", "1"])


def test_columns_of_a_picture_are_what_stands_before_its_patches_and_behind_them():
    look = read_attention(looked(mapped(np.zeros((1, 2, 11)), objects=[3, 0]), prefix=1))
    places = axes.columns(look, look.maps[0])
    assert [place.name for place in places[:2]] == ["[0]", "0,0"]
    assert [place.cell for place in places] == [None, *[(at // 3, at % 3) for at in range(6)], *[None] * 4]
    assert places[6].fields == {"row": 1, "column": 2}
    assert places[-1].name == "cat"
    assert axes.rows(look, look.maps[0]) == ["cat", "cat"]
    objects = read_attention(looked(mapped(np.zeros((1, 4, 4)), "decoder")))
    assert named(objects) == (["cat"] * 4, ["cat"] * 4)


def test_columns_of_a_sound_are_seconds():
    look = read_attention({"method": "raw", "maps": [mapped(np.zeros((1, 1, 2)))], "tokens": {}}, step=0.25)
    assert axes.columns(look, look.maps[0]) == [Place("0.00 s", 0, 0.25), Place("0.25 s", 0.25, 0.5)]


def test_a_title_says_what_is_explained_or_which_head_looks():
    look = text_look(np.zeros((2, 3, 3)), heads=[4, 7])
    assert axes.title(look, look.maps[0], 1) == "raw, layer 1, head 7"
    against = text_look(np.zeros((1, 1, 3)), target={"label": "good"}, against={"label": "bad"})
    assert axes.title(against, against.maps[0], 0) == "raw of good against bad"


def test_drawn_are_the_maps_of_the_last_kind():
    maps = [mapped(PATCHES, kind) for kind in ("encoder", "cross", "cross")]
    assert [one.kind for one in axes.maps_of(read_attention(looked(*maps)))] == ["cross", "cross"]
