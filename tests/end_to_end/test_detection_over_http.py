"""Objects in images: what a client gets is what the definition computes, in pixels of the picture that it sent."""

import base64
import io
import json

import numpy as np
import pytest
import torch
from PIL import Image

from model.methods import attribution
from tests.samples import explanations_reference
from tests.samples.detectors import (
    CELL,
    CELLS,
    FITTED_MEAN,
    GRID,
    HEIGHT,
    LABELS,
    MEAN,
    MODELS,
    NOTHING,
    OBJECTS,
    SEVERAL,
    STD,
    WIDTH,
    encoded,
    picture,
    stretched,
    upright,
)
from tests.samples.http_requests import PNG, results
from tests.samples.in_process import in_process

PICTURES = [picture(seed) for seed in range(9)]
SENT = [encoded(pixels) for pixels in PICTURES]
EVERYTHING = {"layers": "all", "digits": 9}
EXACT = 1e-4
BESIDE = np.multiply(FITTED_MEAN, 255)
"""What becomes 0: no byte does."""


@pytest.fixture(scope="module")
def client(detectors):
    with in_process(detectors) as client:
        yield client


class Definition:
    """What computes logits, boxes and maps of pixels, in float64: of a numpy array, one image."""

    def __init__(self, name):
        self.name, self.model = name, MODELS[name]().double()

    def tensors(self, pixels, visible=None):
        """Return logits (object, class), boxes (object, 4) and maps (heads, query, key), through which gradients go."""
        mean = FITTED_MEAN if self.name == "fitted" else MEAN
        x = (torch.tensor(pixels, dtype=torch.float64) / 255 - torch.tensor(mean)) / torch.tensor(STD)
        given, shown = [x.permute(2, 0, 1)[None]], {}
        if self.name == "fitted":
            given.append(torch.tensor(visible)[None])
            beside = (pixels == BESIDE).all(-1)
            shown["shown"] = torch.tensor([[(~beside.all(1)).sum(), (~beside.all(0)).sum()]])
        logits, boxes, maps = self.model(*given, **shown)
        return logits[0], boxes[0], maps

    def __call__(self, pixels, visible=None):
        with torch.no_grad():
            logits, boxes, maps = self.tensors(pixels, visible)
        return logits.numpy(), boxes.numpy(), {name: one[0].numpy() for name, one in maps.items()}

    def chances(self, logits):
        """Return the probability of each class for each object, without that of no object."""
        if self.name == "fitted":
            return 1 / (1 + np.exp(-logits))
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        return (powers / powers.sum(-1, keepdims=True))[:, : len(LABELS)]

    def maps(self, pixels, kind, visible=None):
        """Return the maps of a kind, of which the name of each says it, in layer order."""
        ending = {"encoder": "encoder", "decoder": "attention", "cross": "cross"}[kind]
        begins = "encoder" if kind == "encoder" else "decoder"
        found = self(pixels, visible)[2]
        return [one for name, one in found.items() if name.startswith(begins) and (kind == begins or ending in name)
                and not (kind == "decoder" and name.endswith("cross"))]  # fmt: skip

    def found(self, pixels, size, threshold=0.5, top_k=100, visible=None):
        """Return objects as an answer has them, surest first, with boxes in pixels of a picture of a size."""
        logits, boxes, _ = self(pixels, visible)
        chances = self.chances(logits)
        pairs = []
        for number, of_object in enumerate(chances):
            classes = range(len(LABELS)) if self.name == "fitted" else [int(of_object.argmax())]
            pairs += [(-of_object[index], number, index) for index in classes if of_object[index] >= threshold]
        width, height = size
        shown = []
        for chance, number, index in sorted(pairs)[:top_k]:
            x, y, across, down = boxes[number] * [width, height, width, height]
            box = {"left": x - across / 2, "top": y - down / 2, "right": x + across / 2, "bottom": y + down / 2}
            named = {"label": LABELS[index], "index": index, "object": number}
            shown.append({**named, "probability": -chance, "box": box})
        return shown


@pytest.fixture(scope="module")
def definition():
    return Definition("tiny")


def post(client, endpoint="detect", content=SENT[SEVERAL], model="tiny", **options):
    given = {name: json.dumps(one) if isinstance(one, dict) else one for name, one in options.items()}
    return client.post(f"/v1/models/{model}/{endpoint}", content=content, headers=PNG, params=given)


def result(answer):
    (one,) = results(answer)
    return one


def detect(client, content=SENT[SEVERAL], **options):
    return result(post(client, "detect", content, **options))["objects"]


def attention(client, content=SENT[SEVERAL], **options):
    return result(post(client, "attention", content, **{"digits": 9} | options))["attention"]


def values(attention, kind):
    """The values (heads, row, key) of the first map of a kind."""
    shown = next(one for one in attention["maps"] if one["kind"] == kind)
    return np.array(shown["values"]).reshape(shown["shape"])


def assert_objects(found, wanted, size=(WIDTH, HEIGHT)):
    names = ("label", "index", "object")
    assert [[one[name] for name in names] for one in found] == [[one[name] for name in names] for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one["probability"] == pytest.approx(other["probability"], abs=EXACT)
        assert one["box"] == pytest.approx(other["box"], abs=0.01 + EXACT * max(size))


def is_close(found, wanted, share=EXACT):
    found, wanted = np.asarray(found), np.asarray(wanted)
    return found.shape == wanted.shape and np.abs(found - wanted).max(initial=0) <= share * np.abs(wanted).max(
        initial=0
    )


# objects


def test_the_pictures_differ_in_their_objects(definition):
    found = [definition.found(pixels, (WIDTH, HEIGHT)) for pixels in PICTURES]
    assert {len(one) for one in found} >= {0, 1, 2, 3, 4}
    assert (len(found[SEVERAL]), len({one["label"] for one in found[SEVERAL]}), found[NOTHING]) == (2, 2, [])
    every = definition.found(PICTURES[SEVERAL], (WIDTH, HEIGHT), 0)
    assert every != sorted(every, key=lambda one: one["object"])


@pytest.mark.parametrize("index", range(len(SENT)))
def test_the_objects_of_a_picture_are_those_of_the_definition_surest_first(client, definition, index):
    assert_objects(detect(client, SENT[index]), definition.found(PICTURES[index], (WIDTH, HEIGHT)))


def test_a_picture_without_an_object_has_none_and_its_maps_have_no_rows(client):
    seen = result(post(client, "detect", SENT[NOTHING], attention="raw"))
    assert seen["objects"] == []
    shapes = {one["kind"]: one["shape"] for one in seen["attention"]["maps"]}
    assert shapes == {"encoder": [1, 1, CELLS], "decoder": [1, 0, OBJECTS], "cross": [1, 0, CELLS]}
    assert [one["object"] for one in seen["attention"]["tokens"]["object"]] == list(range(OBJECTS))
    for kind in ("decoder", "cross"):
        drawn = post(client, "attention", SENT[NOTHING], kind=kind, format="png")
        assert (drawn.status_code, drawn.headers["Content-Type"]) == (200, "image/png"), drawn.text
        for more in ({"encoding": "base64"}, {"encoding": "base64", "dtype": "uint8"}, {"pool": 2}, {"format": "npz"}):
            assert post(client, "attention", SENT[NOTHING], kind=kind, **more).status_code == 200
    plain = Image.open(io.BytesIO(post(client, "attention", SENT[NOTHING], kind="cross", format="png").content))
    assert np.array_equal(np.asarray(plain), PICTURES[NOTHING])
    hard = attention(client, SENT[NOTHING], kind="cross", hard=True)["maps"][0]
    assert (hard["values"], hard["aligned"]) == ([[]], [[]])


@pytest.mark.parametrize("threshold", [0, 0.4, 0.55, 1])
def test_the_threshold_says_from_which_probability_an_object_counts(client, definition, threshold):
    for sent, pixels in zip(SENT[:4], PICTURES[:4], strict=True):
        wanted = definition.found(pixels, (WIDTH, HEIGHT), threshold)
        assert_objects(detect(client, sent, threshold=threshold), wanted)
        assert len(wanted) == OBJECTS or threshold
    assert detect(client, threshold=0.5) == detect(client)


def test_the_surest_are_answered_where_fewer_are_asked_for(client, definition):
    every = definition.found(PICTURES[SEVERAL], (WIDTH, HEIGHT), 0)
    for count in (1, 3, 1000):
        assert_objects(detect(client, top_k=count, threshold=0), every[:count])


@pytest.mark.parametrize("size", [(WIDTH, HEIGHT), (100, 40), (30, 90), (331, 7), (1, 500)])
@pytest.mark.parametrize("model", ["tiny", "sequence"])
def test_boxes_are_pixels_of_a_picture_of_any_size(client, model, size):
    sent = encoded(picture(3, *size))
    wanted = Definition(model).found(stretched(sent), size, 0.01)
    assert wanted
    assert_objects(detect(client, sent, model=model, threshold=0.01), wanted, size)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_boxes_are_upright_however_a_picture_is_stored(client, definition, orientation):
    sent = encoded(picture(2, 64, 40), orientation=orientation)
    size = (64, 40) if orientation < 5 else (40, 64)
    assert upright(sent).size == size
    seen = result(post(client, content=sent, attention="raw", threshold=0.2))
    assert_objects(seen["objects"], definition.found(stretched(sent), size, 0.2), size)
    said = seen["attention"]["image"]
    assert (said["width"], said["height"], said["orientation"]) == (*size, orientation)


def fitted(sent):
    """Return the pixels (height, width, 3) of a picture in the upper left, and which cells begin in it."""
    image = upright(sent)
    scale = min(WIDTH / image.width, HEIGHT / image.height)
    width, height = (max(1, int(side * scale + 1e-9)) for side in image.size)
    pixels = np.tile(BESIDE, (HEIGHT, WIDTH, 1))
    pixels[:height, :width] = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))
    rows, columns = (np.arange(count) * CELL < side for count, side in zip(GRID, (height, width), strict=True))
    return pixels, np.outer(rows, columns).ravel()


@pytest.mark.parametrize("size", [(WIDTH, HEIGHT), (96, 20), (30, 64), (17, 17), (500, 3)])
def test_a_picture_that_is_fitted_in_has_boxes_that_are_shares_of_itself_and_an_object_may_be_of_several_classes(
    client, size
):
    sent = encoded(picture(5, *size))
    pixels, visible = fitted(sent)
    definition = Definition("fitted")
    wanted = definition.found(pixels, size, 0.6, visible=visible)
    assert len({one["object"] for one in wanted}) < len(wanted)
    assert_objects(detect(client, sent, model="fitted", threshold=0.6), wanted, size)
    seen = attention(client, sent, model="fitted", kind="cross", threshold=0.6)
    numbers = list(dict.fromkeys(one["object"] for one in wanted))
    assert seen["maps"][0]["objects"] == numbers
    mixed = definition.maps(pixels, "cross", visible)[-1].mean(0)
    assert is_close(values(seen, "cross")[0], mixed[numbers])
    assert not values(seen, "cross")[0][:, ~visible].any()


def test_beside_a_picture_that_is_fitted_in_the_network_is_fed_zeros(client):
    sent = encoded(picture(5, 30, 64))
    given = client.get(f"/v1/attention/{post(client, content=sent, model='fitted').json()['id']}/input").json()
    numbers = ((fitted(sent)[0] / 255 - FITTED_MEAN) / STD).reshape(-1, 3)
    assert (numbers == 0).all(1).sum() == HEIGHT * (WIDTH - HEIGHT * 30 // 64)
    for name, value in {"mean": numbers.mean(0), "std": numbers.std(0), "most": numbers.max(0)}.items():
        assert given["pixels"]["tensor"][name] == pytest.approx(value, abs=1e-4)


@pytest.mark.parametrize("size", [(96, 20), (30, 64)])
def test_cells_beside_a_picture_that_is_fitted_in_are_in_no_mean(client, size):
    sent = encoded(picture(5, *size))
    pixels, visible = fitted(sent)
    assert 0 < visible.sum() < CELLS
    maps = Definition("fitted").maps(pixels, "encoder", visible)
    seen = attention(client, sent, model="fitted", kind="encoder", layers="all", diagnostics=True)
    for one, weights in zip(seen["maps"], maps, strict=True):
        assert is_close(np.array(one["values"])[0, 0], weights.mean(0)[visible].mean(0))
    rolled = explanations_reference.rollout([one[None].mean(1) for one in maps])[0]
    shown = values(attention(client, sent, model="fitted", kind="encoder", method="rollout"), "encoder")
    assert is_close(shown[0, 0], rolled[visible].mean(0))
    asked = {"model": "fitted", "kind": "encoder", "method": "norm"}
    norms = values(attention(client, sent, queries="all", **asked), "encoder")[0]
    assert is_close(values(attention(client, sent, **asked), "encoder")[0, 0], norms[visible].mean(0))
    (figures,) = [one for one in seen["diagnostics"] if one["kind"] == "encoder"]
    assert figures["max_entropy"] == pytest.approx(np.log(visible.sum()))
    rows = [one[:, visible][:, :, visible] for one in maps]
    logs = [np.where(one > 0, -one * np.log(np.maximum(one, 1e-300)), 0).sum(-1).mean(-1) for one in rows]
    assert np.array(figures["entropy"]) == pytest.approx(np.array(logs), abs=EXACT)
    at = np.array([divmod(cell, GRID[1]) for cell in np.flatnonzero(visible)]) * CELL
    apart = np.linalg.norm(at[:, None] - at, axis=-1)
    distances = [(one * apart).sum(-1).mean(-1) for one in rows]
    assert np.array(figures["distance"]) == pytest.approx(np.array(distances), abs=1e-3)


def test_the_distance_of_a_sequence_is_that_of_its_patches(client):
    (encoder,) = attention(client, model="sequence", diagnostics=True)["diagnostics"]
    maps = Definition("sequence").maps(PICTURES[SEVERAL], "encoder")
    at = np.array([divmod(cell, GRID[1]) for cell in range(CELLS)]) * CELL
    apart = np.linalg.norm(at[:, None] - at, axis=-1)
    among = [one[:, 1 : 1 + CELLS, 1 : 1 + CELLS] for one in maps]
    wanted = [((one * apart).sum(-1) / one.sum(-1)).mean(-1) for one in among]
    assert np.array(encoder["distance"]) == pytest.approx(np.array(wanted), abs=1e-3)


# rows


@pytest.mark.parametrize("index", [0, 1, 4])
def test_the_default_rows_are_those_of_the_objects_that_are_found_and_the_mean_of_the_image(client, definition, index):
    seen = attention(client, SENT[index], **EVERYTHING)
    numbers = [one["object"] for one in definition.found(PICTURES[index], (WIDTH, HEIGHT))]
    for kind in ("decoder", "cross"):
        shown = [one for one in seen["maps"] if one["kind"] == kind]
        wanted = definition.maps(PICTURES[index], kind)
        assert [one["layer"] for one in shown] == list(range(len(wanted)))
        for one, weights in zip(shown, wanted, strict=True):
            assert one["objects"] == numbers
            assert is_close(np.array(one["values"])[0], weights.mean(0)[numbers])
    wanted = definition.maps(PICTURES[index], "encoder")
    for one, weights in zip((one for one in seen["maps"] if one["kind"] == "encoder"), wanted, strict=True):
        assert "objects" not in one
        assert is_close(np.array(one["values"])[0], weights.mean(0).mean(0, keepdims=True))
    listed = seen["tokens"]["object"]
    assert [one["object"] for one in listed] == list(range(OBJECTS))
    likeliest = definition.found(PICTURES[index], (WIDTH, HEIGHT), 0)
    assert_objects(listed, sorted(likeliest, key=lambda one: one["object"]))
    assert seen["tokens"]["grid"] == {"rows": GRID[0], "columns": GRID[1]}
    assert seen["image"]["box"] == {"left": 0, "top": 0, "right": WIDTH, "bottom": HEIGHT}


def test_rows_are_chosen_by_index_or_all_or_as_their_mean_or_by_what_is_found(client, definition):
    cross = definition.maps(PICTURES[SEVERAL], "cross")[-1]
    encoder = definition.maps(PICTURES[SEVERAL], "encoder")[-1]
    asked = {"kind": "cross", "heads": "all"}
    assert is_close(values(attention(client, queries="all", **asked), "cross"), cross)
    assert is_close(values(attention(client, queries="2,0", **asked), "cross"), cross[:, [2, 0]])
    assert is_close(values(attention(client, queries="-1", **asked), "cross"), cross[:, [3]])
    mean = values(attention(client, queries="mean", kind="encoder"), "encoder")
    assert is_close(mean, encoder.mean(0).mean(0)[None, None])
    assert is_close(values(attention(client, queries="5:8", kind="encoder"), "encoder")[0], encoder.mean(0)[5:8])
    found = [one["object"] for one in detect(client, threshold=0.4)]
    assert 0 < len(found) < OBJECTS
    seen = attention(client, queries="found", threshold=0.4, **asked)
    assert is_close(values(seen, "cross"), cross[:, found])
    first = attention(client, queries="found", top_k=1, **asked)["maps"][0]
    assert (first["shape"], first["objects"]) == ([2, 1, CELLS], [detect(client)[0]["object"]])


def test_the_mean_row_of_rollout_is_the_mean_of_its_rows(client, definition):
    fused = [one[None].mean(1) for one in definition.maps(PICTURES[SEVERAL], "encoder")]
    wanted = explanations_reference.rollout(fused)[0]
    shown = values(attention(client, method="rollout", kind="encoder"), "encoder")[0]
    assert is_close(shown, wanted.mean(0, keepdims=True))
    assert is_close(values(attention(client, method="rollout", kind="encoder", queries="all"), "encoder")[0], wanted)
    norms = attention(client, method="norm", kind="encoder", queries="all")
    mean = attention(client, method="norm", kind="encoder")
    assert is_close(values(mean, "encoder")[0], values(norms, "encoder")[0].mean(0, keepdims=True))


def test_a_sequence_has_rows_of_a_class_token_patches_and_objects(client):
    definition = Definition("sequence")
    encoder = definition.maps(PICTURES[0], "encoder")[-1].mean(0)
    found = [one["object"] for one in definition.found(PICTURES[0], (WIDTH, HEIGHT))]
    assert 0 < len(found) < OBJECTS
    seen = attention(client, SENT[0], model="sequence")
    assert seen["maps"][0]["objects"] == found
    assert is_close(values(seen, "encoder")[0], encoder[[1 + CELLS + number for number in found]])
    assert seen["tokens"]["prefix"] == 1
    assert is_close(values(attention(client, SENT[0], model="sequence", queries="cls"), "encoder")[0], encoder[:1])
    every = attention(client, SENT[0], model="sequence", queries="all")
    assert is_close(values(every, "encoder")[0], encoder)
    kind = client.get("/v1/models/sequence").json()["attention"]["kinds"]["encoder"]
    assert (kind["prefix"], kind["suffix"], kind["grid"]) == (1, OBJECTS, {"rows": GRID[0], "columns": GRID[1]})


def test_found_objects_of_a_sequence_are_compared_with_the_patches_of_both_pictures(client):
    other = client.post("/v1/models/sequence/detect", content=SENT[1], headers=PNG).json()["id"]
    asked = {"model": "sequence", "method": "similar", "queries": "found", "against": json.dumps({"id": other})}
    seen = attention(client, SENT[0], **asked)
    own, theirs = seen["maps"][0], seen["against"]["maps"][0]
    found = [one["object"] for one in Definition("sequence").found(PICTURES[0], (WIDTH, HEIGHT))]
    assert own["objects"] == theirs["objects"] == found
    assert own["shape"] == theirs["shape"] == [1, len(found), 1 + CELLS + OBJECTS]
    assert len(seen["against"]["tokens"]["object"]) == OBJECTS
    for more in ({}, {"method": "parts", "queries": None}):
        given = {name: value for name, value in ({**asked, **more}).items() if value is not None}
        picture = post(client, "attention", SENT[0], **given, format="png")
        assert picture.headers["content-type"] == "image/png", picture.text


# what explains an object


def score_of(definition, pixels, number, index, against=None):
    def explain():
        logits, *_ = definition.tensors(pixels)
        return (logits[number, index] - (logits[number, against] if against is not None else 0))[None]

    return explain


def positive_parts(definition, pixels, number, index, against=None):
    """Return Ā of every map, by name: each weight times the gradient of a score by autograd."""
    logits, _, maps = definition.tensors(pixels)
    score = logits[number, index] - (logits[number, against] if against is not None else 0)
    gradients = torch.autograd.grad(score, list(maps.values()))
    return {
        name: explanations_reference.positive(one.detach().numpy(), gradient.numpy())
        for (name, one), gradient in zip(maps.items(), gradients, strict=True)
    }


def relevance_of(definition, pixels, number, index, against=None):
    """Return the rows (key) of an object in relevance of `decoder` and `cross`."""
    parts = positive_parts(definition, pixels, number, index, against)
    kinds = {"encoder": [], "decoder": [], "cross": []}
    for name, one in parts.items():
        kinds["cross" if name.endswith("cross") else name.partition(".")[0]].append(one)
    own, cross = explanations_reference.bimodal(kinds["encoder"], kinds["decoder"], kinds["cross"])
    return own[0, number], cross[0, number]


def likeliest(definition, pixels, number):
    return int(definition.chances(definition(pixels)[0])[number].argmax())


@pytest.mark.parametrize("against", [None, "bird"])
@pytest.mark.parametrize("number", [0, 3])
def test_the_relevance_of_an_object_is_that_of_its_likeliest_class_by_autograd(client, definition, number, against):
    pixels, index = PICTURES[SEVERAL], likeliest(definition, PICTURES[SEVERAL], number)
    rather = None if against is None else LABELS.index(against)
    own, cross = relevance_of(definition, pixels, number, index, rather)
    options = {} if against is None else {"against": {"label": against}}
    seen = attention(client, method="relevance", target=number, **options)
    assert is_close(values(seen, "decoder"), own[None, None])
    assert is_close(values(seen, "cross"), cross[None, None])
    for a_map in seen["maps"]:
        assert a_map["target"] == {"object": number, "index": index, "label": LABELS[index]}
        assert a_map.get("against") == (None if against is None else {"index": rather, "label": against})


def test_the_surest_object_is_explained_where_none_is_named_and_each_that_is_named(client, definition):
    surest = definition.found(PICTURES[SEVERAL], (WIDTH, HEIGHT), 0)[0]["object"]
    for method in ("relevance", "libra", "integrated"):
        plain = attention(client, method=method)
        assert {one["target"]["object"] for one in plain["maps"]} == {surest}
        both = attention(client, method=method, target=f"{surest},2", kind="cross")["maps"]
        assert [one["target"]["object"] for one in both] == [surest, 2]
        assert is_close(both[0]["values"], values(plain, "cross"), 1e-3)
        assert not is_close(both[0]["values"], both[1]["values"], 0.1)
    nothing = attention(client, SENT[NOTHING], method="libra")["maps"][0]["target"]
    assert nothing["object"] == definition.found(PICTURES[NOTHING], (WIDTH, HEIGHT), 0)[0]["object"]


@pytest.mark.parametrize("against", [None, 1])
def test_libra_of_an_object_is_its_definition_and_adds_up(client, definition, against):
    pixels, number = PICTURES[1], 2
    index = likeliest(definition, pixels, number)
    assert index != against
    wanted = attribution.libra(
        definition.model, [definition.model.encoder], score_of(definition, pixels, number, index, against)
    )
    options = {} if against is None else {"against": {"index": against}}
    (shown,) = attention(client, SENT[1], method="libra", target=number, **options)["maps"]
    assert (shown["kind"], shown["shape"], shown["signed"]) == ("cross", [1, 1, CELLS], True)
    assert is_close(shown["values"][0][0], wanted.tokens[0][0][0].numpy())
    figures = shown["conserved"]
    assert figures["biases"] == pytest.approx(float(wanted.biases[0]), rel=1e-3, abs=1e-3)
    assert figures["score"] == pytest.approx(float(wanted.score[0]), abs=1e-3)
    assert figures["tokens"] + figures["biases"] == pytest.approx(figures["score"], abs=1e-3)
    assert np.min(shown["values"]) < 0 < np.max(shown["values"])


def test_libra_of_a_sequence_adds_up_with_the_positions_between_its_blocks(client):
    shown = attention(client, model="sequence", method="libra", layers="all", target=1)["maps"]
    definition, pixels = Definition("sequence"), PICTURES[SEVERAL]
    index = likeliest(definition, pixels, 1)
    wanted = attribution.libra(definition.model, [definition.model.encoder], score_of(definition, pixels, 1, index))
    assert [one["layer"] for one in shown] == [0, 1]
    for layer, one in enumerate(shown):
        assert is_close(one["values"][0][0], wanted.tokens[0][layer][0].numpy())
        assert one["conserved"]["tokens"] + one["conserved"]["biases"] == pytest.approx(
            one["conserved"]["score"], abs=1e-3
        )


def test_relevance_of_an_object_of_a_sequence_is_the_row_of_its_token(client):
    definition, pixels = Definition("sequence"), PICTURES[SEVERAL]
    parts = positive_parts(definition, pixels, 3, likeliest(definition, pixels, 3))
    wanted = explanations_reference.relevance(list(parts.values()))[0, 1 + CELLS + 3]
    seen = attention(client, model="sequence", method="relevance", target=3)
    assert is_close(values(seen, "encoder")[0, 0], wanted)


@pytest.mark.parametrize("baseline", ["empty", "zero"])
def test_integrated_of_an_object_is_its_definition(client, definition, baseline):
    pixels, number = PICTURES[1], 2
    index = likeliest(definition, pixels, number)
    black = score_of(definition, np.zeros_like(pixels), number, index) if baseline == "empty" else None
    wanted = attribution.integrated(
        [definition.model.encoder], score_of(definition, pixels, number, index), black, steps=3
    )
    options = {"method": "integrated", "target": number, "steps": 3, "baseline": baseline}
    (shown,) = attention(client, SENT[1], **options)["maps"]
    assert is_close(shown["values"][0][0], wanted.tokens[0][0].numpy(), 1e-3)
    assert shown["completeness"]["score"] == pytest.approx(float(wanted.score), abs=1e-3)
    assert shown["completeness"]["baseline"] == pytest.approx(float(wanted.baseline), abs=1e-3)


@pytest.mark.parametrize(
    "options", [{"method": "libra"}, {"method": "raw", "kind": "cross", "queries": 2}, {"method": "relevance"}]
)
def test_curves_of_an_object_are_those_of_pictures_with_black_cells(client, definition, options):
    pixels, number = PICTURES[1], 2
    index = likeliest(definition, pixels, number)
    options = {"kind": "cross", "evaluate": "deletion,insertion", "target": number, **options}
    shown = attention(client, SENT[1], **options)
    said = shown["evaluation"]
    assert (said["target"], said["object"], said["measure"]) == (index, number, "probability")
    hottest = np.argsort(-values(shown, "cross")[0, 0], kind="stable")

    def chance(gone):
        there = np.ones(GRID)
        there.flat[gone] = 0
        kept = pixels * np.kron(there, np.ones((CELL, CELL)))[:, :, None]
        return definition.chances(definition(kept)[0])[number, index]

    counts = [round(step / 10 * CELLS) for step in range(11)]
    deletion, insertion = (curve["probabilities"] for curve in said["curves"])
    assert deletion == pytest.approx([chance(hottest[:count]) for count in counts], abs=EXACT)
    assert insertion == pytest.approx([chance(hottest[count:]) for count in counts], abs=EXACT)


@pytest.mark.parametrize("index", [SEVERAL, NOTHING])
def test_all_methods_of_the_surest_object_are_compared_whether_it_is_found_or_not(client, definition, index):
    surest = definition.found(PICTURES[index], (WIDTH, HEIGHT), 0)[0]
    said = attention(client, SENT[index], evaluate="compare")["evaluation"]
    assert (said["object"], said["target"]) == (surest["object"], surest["index"])
    assert [one["method"] for one in said["compare"]] == [
        "raw",
        "norm",
        "relevance",
        "libra",
        "integrated",
        "saliency",
        "random",
    ]
    for compared in said["compare"]:
        assert compared["deletion"]["probabilities"][0] == pytest.approx(surest["probability"], abs=EXACT)
    png = post(client, "attention", SENT[index], evaluate="compare", format="png")
    assert png.headers["Content-Type"] == "image/png"


# forms of requests and answers


def close(found, wanted):
    """Are two results the same, but for the last digits that a batch may change."""
    assert_objects(found["objects"], wanted["objects"])
    assert found.keys() == wanted.keys()
    if "attention" in wanted:
        for one, other in zip(found["attention"]["maps"], wanted["attention"]["maps"], strict=True):
            assert is_close(one.pop("values"), other.pop("values"))
            assert one == other


@pytest.mark.parametrize("options", [{}, {"threshold": 0.4}, {"attention": {"digits": 9, "layers": "all"}}])
def test_five_images_of_one_request_are_answered_as_if_alone_in_json_and_as_a_form(client, options):
    body = {"images": [base64.b64encode(one).decode() for one in SENT[:5]], **options}
    together = client.post("/v1/models/tiny/detect", json=body).json()["results"]
    flat = {name: one for name, one in options.items() if name != "attention"}
    flat |= {"attention": "raw", **options["attention"]} if "attention" in options else {}
    files = [("image", one) for one in SENT[:5]]
    form = client.post("/v1/models/tiny/detect", files=files, data={name: str(one) for name, one in flat.items()})
    assert len(together) == 5
    for sent, found, other in zip(SENT, together, form.json()["results"], strict=False):
        for evaluation in (found, other):
            del evaluation["id"]  # of one of several inputs
            close(evaluation, result(post(client, "detect", sent, **flat)))


def drawn(client, content, **options):
    answer = post(client, "attention", content, format="png", **options)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "image/png"), answer.text
    return np.asarray(Image.open(io.BytesIO(answer.content))).astype(int)


@pytest.mark.parametrize("options", [{"opacity": 0, "queries": 1}, {"method": "libra", "opacity": 0, "target": 1}])
def test_a_picture_shows_the_box_of_an_object_and_nothing_else_where_heat_is_transparent(client, options):
    width, height = WIDTH * 10, HEIGHT * 10
    pixels = np.kron(PICTURES[6], np.ones((10, 10, 1), np.uint8))
    sent = encoded(pixels)
    box = next(one for one in detect(client, sent, threshold=0) if one["object"] == 1)["box"]
    left, right = max(box["left"], 0), min(box["right"], width)
    top, bottom = max(box["top"], 0), min(box["bottom"], height)
    assert right - left > 40
    assert bottom - top > 40
    changed = np.abs(drawn(client, sent, kind="cross", ground="photo", **options) - pixels).sum(-1) > 0
    rows, columns = np.nonzero(changed)
    near = 8  # lines of two pixels, the outer of which are beside the box
    distances = np.minimum(
        np.minimum(abs(columns - box["left"]), abs(columns - box["right"])),
        np.minimum(abs(rows - box["top"]), abs(rows - box["bottom"])),
    )
    assert len(rows)
    assert distances.max() <= near
    assert (columns >= box["left"] - near).all()
    assert (columns <= box["right"] + near).all()
    assert (rows >= box["top"] - near).all()
    assert (rows <= box["bottom"] + near).all()
    shown = drawn(client, sent, kind="cross", **options)
    middle, across = int((top + bottom) / 2), int((left + right) / 2)
    edges = {
        (middle, round(box["left"])),
        (middle, round(box["right"]) - 1),
        (round(box["top"]), across),
        (round(box["bottom"]) - 1, across),
    }
    inside = [(row, column) for row, column in edges if 0 < row < height - 1 and 0 < column < width - 1]
    assert inside
    for row, column in inside:
        assert (shown[row - 2 : row + 3, column - 2 : column + 3] == 255).all(-1).any()


def test_a_picture_has_a_panel_for_each_object_that_is_found_and_a_matrix_names_them(client):
    large = encoded(np.kron(PICTURES[SEVERAL], np.ones((4, 4, 1), np.uint8)))  # 192 x 128, text is 12 pixels high
    assert drawn(client, large, kind="cross", threshold=0).shape == (2 * (128 + 30) + 12, 2 * (192 + 12) + 12, 3)
    assert drawn(client, large, kind="cross", top_k=1).shape == (128, 192, 3)
    assert drawn(client, large, kind="encoder").shape == (128, 192, 3)
    assert drawn(client, large, kind="cross", threshold=0.55).shape == (128, 192, 3)
    matrix, fewer = (drawn(client, large, kind="decoder", threshold=0, top_k=count) for count in (4, 1))
    assert matrix.shape[0] > fewer.shape[0]
    refused = post(client, "attention", large, format="png")
    assert (refused.status_code, refused.json()["detail"]) == (
        422, "format: a png shows one kind; ask for kind, one of encoder, decoder, cross"
    )  # fmt: skip


def test_npz_and_base64_hold_the_numbers_of_json(client):
    plain = attention(client, **EVERYTHING)
    arrays = np.load(io.BytesIO(post(client, "attention", format="npz", layers="all").content))
    (meta,) = json.loads(bytes(arrays["meta"]))["results"]
    meta = meta["attention"]
    assert meta["tokens"] == plain["tokens"]
    packed = attention(client, layers="all", encoding="base64")["maps"]
    for one, other, wanted in zip(meta["maps"], packed, plain["maps"], strict=True):
        assert one.get("objects") == other.get("objects") == wanted.get("objects")
        assert arrays[one["array"]] == pytest.approx(np.array(wanted["values"]), abs=1e-7)
        found = np.frombuffer(base64.b64decode(other["values"]), other["dtype"]).reshape(other["shape"])
        assert found == pytest.approx(np.array(wanted["values"]), abs=1e-7)


def test_an_earlier_picture_is_asked_about_by_its_id_with_another_threshold(client):
    answer = post(client, threshold=0.1)
    identity = answer.json()["id"]
    for threshold in (0.1, 0.55):
        wanted = attention(client, kind="cross", threshold=threshold)
        again = client.get(f"/v1/attention/{identity}", params={"kind": "cross", "threshold": threshold, "digits": 9})
        assert result(again)["attention"] == wanted
    assert result(client.get(f"/v1/attention/{identity}", params={"method": "libra", "target": 3}))
    refused = client.get(f"/v1/attention/{identity}", params={"threshold": 2})
    assert (refused.status_code, refused.json()["detail"].partition(":")[0]) == (422, "threshold")


def test_a_model_says_what_it_looks_for(client):
    about = client.get("/v1/models/tiny").json()
    assert (about["task"], about["endpoints"]) == ("object-detection", ["detect", "attention"])
    assert about["detection"] == {"objects": OBJECTS, "threshold": 0.5}
    assert about["labels"] == list(LABELS)
    assert {name: (one["kind"], one["query"], one["key"]) for name, one in about["attention"]["kinds"].items()} == {
        "encoder": ("encoder", "image", "image"),
        "decoder": ("decoder", "object", "object"),
        "cross": ("cross", "object", "image"),
    }
    assert about["attention"]["kinds"]["encoder"]["methods"] == ["raw", "rollout", "norm"]


# refusals


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold": 2}, "threshold: Input should be less than or equal to 1"),
        ({"threshold": -0.1}, "threshold: Input should be greater than or equal to 0"),
        ({"threshold": "abc"}, "threshold: Input should be a valid number"),
        ({"threshold": "NaN"}, "threshold: Input should be a finite number"),
        ({"top_k": 0}, "top_k: Input should be greater than or equal to 1"),
        ({"method": "relevance", "target": OBJECTS}, "target: must be numbers of objects, from 0 to 3, given another"),
        ({"method": "relevance", "target": -1}, "target: must be numbers of objects, from 0 to 3, given another"),
        ({"method": "libra", "target": "cat"}, "target: must be numbers of objects, from 0 to 3, given another"),
        ({"method": "libra", "target": "1,1"}, "target: each may be given once, given one twice"),
        ({"target": 1}, "target: is for relevance, libra and integrated"),
        ({"method": "libra", "against": '{"label": "cow"}'}, "against: must be a label of this model, given another"),
        ({"method": "libra", "against": '{"index": 3}'}, "against: must be from 0 to 2, given 3"),
        ({"method": "libra", "against": '{"text": "cat"}'}, "against: must be label or index for object-detection"),
        ({"queries": "cls"}, "queries: cls needs a class token, and this kind of map has no row of one"),
        ({"queries": "found"}, "queries: found is of objects, and this kind of map has no rows of any"),
        ({"queries": "found", "kind": "encoder"}, "queries: found is of objects, and this kind of map has no rows"),
        ({"queries": "mean", "kind": "cross"}, "queries: mean is of the patches of images without a class token"),
        ({"queries": "4", "kind": "cross"}, "queries: must be from -4 to 3, given 4"),
        ({"queries": "some"}, "queries: must be 'all', 'cls', 'mean', 'found', an index"),
        ({"queries": "0", "method": "relevance"}, "queries: are the targets' own; choose them by target"),
        ({"method": "libra", "layers": 1}, "layers: libra of several kinds of attention is of the input"),
        ({"kind": "fork"}, "kind: this model has encoder, decoder, cross, given another"),
        ({"kind": "Fork"}, "kind: String should match pattern"),
        ({"method": "rollout", "kind": "cross"}, "method rollout: needs maps of tokens onto themselves"),
        ({"method": "libra", "kind": "decoder"}, "method libra: is in cross, not decoder of this model"),
        ({"method": "integrated", "kind": "encoder"}, "method integrated: is in cross, not encoder of"),
        ({"merge": "words"}, "merge: is for texts, this model takes images"),
        ({"align": "input"}, "align: is for raw, rollout and norm of generated tokens"),
        ({"evaluate": "deletion", "kind": "encoder"}, "evaluate: is of cross, whose columns are the input"),
        ({"evaluate": "deletion", "method": "libra", "target": "0,1"}, "evaluate: needs one map of one row"),
        ({"max_new_tokens": 3}, "options: unknown option; known are "),
        ({"truncate": True}, "options: unknown option; known are "),
    ],
)
def test_options_without_meaning_are_refused_with_the_reason(client, options, words):
    answer = post(client, "attention", **options)
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"].startswith(words)


def test_rows_that_a_sequence_has_not_are_refused(client):
    mean = post(client, "attention", model="sequence", queries="mean")
    assert (mean.status_code, mean.json()["detail"][:19]) == (422, "queries: mean is of")
    cross = post(client, "attention", model="sequence", kind="cross")
    assert (cross.status_code, cross.json()["detail"]) == (422, "kind: this model has encoder, given another")


def test_what_else_a_detector_is_asked_is_refused_with_what_it_serves(client):
    for endpoint in ("classify", "embed", "generate", "fill-mask"):
        answer = post(client, endpoint)
        assert (answer.status_code, answer.json()["detail"]) == (
            404, f"{endpoint}: this model's task is object-detection; it serves detect, attention"
        )  # fmt: skip
    assert post(client, content=b"no image").status_code == 415
    flat = post(client, threshold=0.5, layers="all")
    assert (flat.status_code, flat.json()["detail"][:28]) == (422, "layers: is an option of atte")
