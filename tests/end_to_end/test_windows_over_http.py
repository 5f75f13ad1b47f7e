"""Swin and Swin V2 as they are served: answers and every map against the reference library, through stages too.

The reference library returns the weights of the last block of each stage alone, so every attention is hooked. Windows
are unfolded here by rolling a picture of the tokens' numbers, and products are those of dense squares.
"""

import base64
import io
import json

import numpy as np
import pytest
import torch
from PIL import Image

from tests.samples.checkpoints import checkpoint_of, reference
from tests.samples.detectors import encoded
from tests.samples.export_command import export_command
from tests.samples.http_requests import PNG, results
from tests.samples.in_process import in_process

pytestmark = pytest.mark.families

SIDE, PATCH, WINDOW, HEADS = 32, 2, 4, (2, 4)
GRIDS = (16, 8)
MODELS = {"swin": "swin", "swin-v2": "swinv2"}
"""Cases, and the names of their bodies in the reference library."""
EXACT = {"digits": 9}


@pytest.fixture(scope="module")
def client(families, tmp_path_factory):
    folder = tmp_path_factory.mktemp("windows")
    for name in MODELS:
        (folder / name).symlink_to(families(name))
    with in_process(folder) as client:
        yield client


def places(grid, shift):
    """The token of each slot of each window, (windows, slot)."""
    rolled = np.roll(np.arange(grid * grid).reshape(grid, grid), (-shift, -shift), (0, 1))
    count = grid // WINDOW
    return rolled.reshape(count, WINDOW, count, WINDOW).transpose(0, 2, 1, 3).reshape(count * count, -1)


class Reference:
    """What the reference library sees of one image, in float64, as squares of all tokens."""

    def __init__(self, name, pixels):
        self.model = reference(checkpoint_of(name))
        base = getattr(self.model, MODELS[name])
        self.squares = []
        """The weights of each stage, (heads, query, key) a layer."""
        self.windows = []
        hooks, found = [], {}

        def watch(stage, block, part):
            def hook(_, __, answer):
                answer[1].retain_grad()
                found[stage, block] = answer[1]

            hooks.append(part.register_forward_hook(hook))

        for stage, layer in enumerate(base.encoder.layers):
            for block, one in enumerate(layer.blocks):
                watch(stage, block, getattr(one.attention, "self", one.attention))
        settings = json.loads((checkpoint_of(name) / "preprocessor_config.json").read_text())
        mean, std = (np.array(settings[key]) for key in ("image_mean", "image_std"))
        given = torch.tensor(((pixels / 255 - mean) / std).transpose(2, 0, 1)[None], requires_grad=True)
        self.logits = self.model(given, output_attentions=True).logits[0]
        for hook in hooks:
            hook.remove()
        self.found = found

    def square(self, stage, block, windows):
        """Unfold (windows, heads, slot, slot) to (heads, token, token)."""
        grid, shift = GRIDS[stage], WINDOW // 2 if block % 2 else 0
        square = np.zeros((windows.shape[1], grid * grid, grid * grid))
        for own, tokens in zip(windows, places(grid, shift), strict=True):
            square[:, tokens[:, None], tokens] = own
        return square

    def weights(self, stage, block):
        return self.square(stage, block, self.found[stage, block].detach().numpy())

    def relevance(self, stage, block):
        """E_h (A ⊙ ∇A)⁺ of the likeliest class."""
        weights = self.found[stage, block]
        if weights.grad is None:
            self.logits.max().backward(retain_graph=True)
        return self.square(stage, block, (weights * weights.grad).clamp(min=0).detach().numpy()).mean(0)


def merging():
    """The matrix that averages the four tokens that become one, (merged token, token)."""
    matrix = np.zeros((GRIDS[1] ** 2, GRIDS[0] ** 2))
    for token in range(GRIDS[0] ** 2):
        row, column = divmod(token, GRIDS[0])
        matrix[row // 2 * GRIDS[1] + column // 2, token] = 0.25
    return matrix


def image(seed):
    drawn = np.random.default_rng(seed)
    return np.kron(drawn.integers(0, 256, (8, 8, 3)), np.ones((4, 4, 1))).astype(np.uint8)


PICTURE = image(3)


@pytest.fixture(scope="module", params=MODELS)
def seen(request):
    found = Reference(request.param, PICTURE)
    found.name = request.param
    return found


def ask(client, name, endpoint="attention", picture=PICTURE, **options):
    return client.post(f"/v1/models/{name}/{endpoint}", content=encoded(picture), params=options, headers=PNG)


def maps(client, name, **options):
    return results(ask(client, name, **EXACT, **options))[0]["attention"]["maps"]


def values(client, name, **options):
    (one,) = maps(client, name, **options)
    return np.array(one["values"])


def close(ours, theirs, tolerance=1e-5):
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= tolerance * max(1, np.abs(theirs).max())


def test_the_answer_is_that_of_the_reference_library(client, seen):
    labels = ask(client, seen.name, "classify", top_k=3).json()["results"][0]["labels"]
    ours = np.array([one["probability"] for one in sorted(labels, key=lambda one: one["index"])])
    close(ours, seen.logits.softmax(-1).detach().numpy())


def test_every_map_of_every_stage_is_that_of_the_reference_library_over_all_tokens(client, seen):
    for stage, heads in enumerate(HEADS):
        found = maps(client, seen.name, kind=f"stage{stage + 1}", layers="all", heads="all", queries="all")
        assert [one["name"] for one in found] == [f"stages.{stage}.blocks.{block}.attention" for block in range(2)]
        for block, one in enumerate(found):
            theirs = seen.weights(stage, block)
            ours = np.array(one["values"])
            assert one["shape"] == [heads, GRIDS[stage] ** 2, GRIDS[stage] ** 2]
            assert one["grid"] == {"rows": GRIDS[stage], "columns": GRIDS[stage]}
            close(ours, theirs)
            assert not ours[theirs == 0].any()
            assert np.abs(ours.sum(-1) - 1).max() < 1e-5


def test_blocks_without_a_shift_see_nothing_across_windows_and_shifted_ones_do(client, seen):
    straight, shifted = (seen.weights(0, block) for block in range(2))
    window = np.arange(GRIDS[0]) // WINDOW
    same = (window[:, None] * 4 + window).ravel()
    apart = same[:, None] != same
    assert not straight[:, apart].any()
    assert shifted[:, apart].any()


def test_some_rows_and_heads_are_those_of_the_whole(client, seen):
    ours = values(client, seen.name, kind="stage1", layers=1, heads="1", queries="200,3,77")
    close(ours, seen.weights(0, 1)[[1]][:, [200, 3, 77]])


@pytest.mark.parametrize("heads", ["mean", "max", "min"])
def test_the_default_row_is_the_mean_of_all(client, seen, heads):
    fused = {"mean": np.mean, "max": np.max, "min": np.min}[heads]
    for stage in range(2):
        ours = values(client, seen.name, kind=f"stage{stage + 1}", heads=heads)
        close(ours[0], fused(seen.weights(stage, 1).mean(1, keepdims=True), 0))


def rolled_out(seen, through, stage):
    """What `through` makes of each layer of each stage up to this one, multiplied back to the first stage's tokens."""
    joint = np.eye(GRIDS[stage] ** 2)
    for number in reversed(range(stage + 1)):
        if number < stage:
            joint = joint @ merging()
        for block in reversed(range(2)):
            joint = joint @ through(number, block)
    return joint


@pytest.mark.parametrize("stage", [0, 1])
def test_rollout_is_the_product_of_all_layers_and_of_the_merging(client, seen, stage):
    def through(number, block):
        mixed = seen.weights(number, block).mean(0) + np.eye(GRIDS[number] ** 2)
        return mixed / mixed.sum(-1, keepdims=True)

    joint = rolled_out(seen, through, stage)
    kind = f"stage{stage + 1}"
    close(values(client, seen.name, method="rollout", kind=kind, queries="all")[0], joint)
    (mean,) = maps(client, seen.name, method="rollout", kind=kind)
    assert (mean["shape"], mean["grid"]) == ([1, 1, GRIDS[0] ** 2], {"rows": GRIDS[0], "columns": GRIDS[0]})
    close(np.array(mean["values"])[0], joint.mean(0, keepdims=True))


def test_relevance_passes_through_both_stages(client, seen):
    joint = rolled_out(seen, lambda number, block: np.eye(GRIDS[number] ** 2) + seen.relevance(number, block), stage=1)
    close(values(client, seen.name, method="relevance")[0], joint.mean(0, keepdims=True), 3e-5)
    close(values(client, seen.name, method="relevance", queries="5,60")[0], joint[[5, 60]], 3e-5)


def test_signed_shares_are_of_the_first_stage_and_add_up(client, seen):
    (libra,) = maps(client, seen.name, method="libra")
    assert (libra["kind"], libra["shape"]) == ("stage1", [1, 1, GRIDS[0] ** 2])
    parts = libra["conserved"]
    assert abs(parts["tokens"] + parts["biases"] - parts["score"]) < 1e-4 * max(1, abs(parts["score"]))
    assert abs(parts["score"] - seen.logits.detach().max().item()) < 1e-4
    (integrated,) = maps(client, seen.name, method="integrated", steps=64)
    score = abs(integrated["completeness"]["score"] - integrated["completeness"]["baseline"])
    assert abs(integrated["completeness"]["error"]) < 0.05 * max(1, score)


def test_the_answer_is_the_same_alone_and_with_others(client, seen):
    alone = values(client, seen.name, method="rollout", kind="stage2")
    files = [("image", encoded(image(seed))) for seed in (1, 2, 3, 4)]
    answer = client.post(
        f"/v1/models/{seen.name}/attention", files=files, params={"method": "rollout", "kind": "stage2", **EXACT}
    )
    found = [np.array(one["attention"]["maps"][0]["values"]) for one in answer.json()["results"]]
    close(found[2], alone, 1e-6)
    assert np.abs(found[0] - alone).max() > 1e-4


def test_a_model_says_its_windows(client, seen):
    kinds = client.get(f"/v1/models/{seen.name}").json()["attention"]["kinds"]
    assert list(kinds) == ["stage1", "stage2"]
    for name, grid in zip(kinds, GRIDS, strict=True):
        assert kinds[name]["kind"] == "encoder"
        assert kinds[name]["windows"] == [{"side": WINDOW, "shift": 0}, {"side": WINDOW, "shift": WINDOW // 2}]
        assert kinds[name]["grid"] == {"rows": grid, "columns": grid}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"queries": "cls"},
            "queries: cls needs a class token, and this kind of map has no row of one; ask for all or for indices",
        ),
        ({"kind": "stage3"}, "kind: this model has stage1, stage2, given another"),
        ({"method": "libra", "kind": "stage2"}, "method libra: is in stage1, not stage2 of this model"),
        ({"method": "relevance", "kind": "stage1"}, "method relevance: is in stage2, not stage1 of this model"),
        (
            {"method": "rollout", "discard": 0.5},
            "discard: is of maps of all tokens, and those of this model look around in windows",
        ),
        ({"kind": "stage2", "queries": 64}, "queries: must be from -64 to 63, given 64"),
        ({"format": "png"}, "format: a png shows one kind; ask for kind, one of stage1, stage2"),
    ],
)
def test_what_a_model_of_windows_has_not_is_refused(client, options, words):
    answer = ask(client, "swin", **options)
    assert (answer.status_code, answer.json()["detail"]) == (422, words)


def test_a_picture_shows_the_patches_of_its_map(client):
    for kind, method in (("stage1", "raw"), ("stage2", "raw"), ("stage2", "rollout"), ("stage2", "relevance")):
        drawn = Image.open(io.BytesIO(ask(client, "swin", kind=kind, method=method, format="png").content))
        assert drawn.size == (SIDE, SIDE)
        assert np.abs(np.asarray(drawn).astype(int) - PICTURE).max() > 20


def test_parts_of_an_image_are_taken_away_in_the_order_of_a_map(client):
    for options in ({"kind": "stage1"}, {"method": "rollout", "kind": "stage2"}, {"method": "relevance"}):
        (curve,) = results(ask(client, "swin", evaluate="deletion", **options))[0]["attention"]["evaluation"]["curves"]
        assert len(curve["probabilities"]) == 11


def test_an_evaluation_of_the_maps_of_several_stages_asks_for_one_of_them(client):
    answer = ask(client, "swin", evaluate="deletion", method="rollout")
    words = "evaluate: is of one kind, given 2; ask for one of them as kind"
    assert (answer.status_code, answer.json()["detail"]) == (422, words)


def test_a_comparison_is_of_the_last_stage_that_shows_the_patches_of_the_first(client):
    def curves(**options):
        evaluation = ask(client, "swin", **options).json()["results"][0]["attention"]["evaluation"]
        return evaluation["compare"] if "compare" in evaluation else evaluation["curves"]

    compared = {one["method"]: one["deletion"] for one in curves(evaluate="compare")}
    assert set(compared) == {"raw", "norm", "rollout", "relevance", "libra", "integrated", "saliency", "random"}
    for method, kind in (("rollout", "stage2"), ("relevance", "stage2"), ("raw", "stage1")):
        (own,) = curves(method=method, kind=kind, evaluate="deletion")
        assert compared[method]["probabilities"] == own["probabilities"]


@pytest.mark.parametrize(("queries", "row"), [({}, None), ({"queries": 5}, 5), ({"queries": 63}, 63)])
def test_relevance_is_evaluated_without_the_identity_that_it_starts_from(client, seen, queries, row):
    (shown,) = maps(client, seen.name, method="relevance", encoding="base64", **queries)  # some evidence is tiny
    relevance = np.frombuffer(base64.b64decode(shown["values"]), "<f4").astype(np.float64)
    evidence = relevance - (merging().mean(0) if row is None else merging()[row])
    at_random = np.random.default_rng(0).permutation(len(evidence))  # the order of what is 0
    order = at_random[np.argsort(-evidence[at_random], kind="stable")]
    seven_decimals = {"digits": 7, "evaluate": "deletion"}
    answer = ask(client, seen.name, method="relevance", **seven_decimals, **queries)
    evaluation = answer.json()["results"][0]["attention"]["evaluation"]
    index = shown["target"]["index"]
    for step in (2, 5, 8):
        pixels = PICTURE.copy()
        for token in order[: round(step / 10 * len(order))]:
            down, across = (place * PATCH for place in divmod(token, GRIDS[0]))
            pixels[down : down + PATCH, across : across + PATCH] = 0
        (result,) = ask(client, seen.name, "classify", pixels, top_k=3).json()["results"]
        (chance,) = [one["probability"] for one in result["labels"] if one["index"] == index]
        assert evaluation["curves"][0]["probabilities"][step] == pytest.approx(chance, abs=2e-4)


@pytest.mark.parametrize(
    ("image_size", "fault"),
    [("24x40", "must be multiples of the window's 4"), ("31x32", "must be multiples of the patch"), ("34x34", "even")],
)
def test_an_image_that_windows_do_not_fill_is_refused(tmp_path, capsys, image_size, fault):
    given = ["--name", "other", "--image-size", image_size, "--to", tmp_path]
    assert export_command(checkpoint_of("swin"), *given) == 2
    said = capsys.readouterr().err
    assert fault in said
    assert "--image-size HEIGHTxWIDTH" in said
