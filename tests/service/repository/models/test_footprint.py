"""What an input takes, counted from the manifest alone."""

import pytest

from contract.manifest import Kind, Port
from service.repository.models.footprint import ATTENTION_RUN, GRADIENT_RUN, STATE_BYTES, Footprint
from tests.samples.small_manifest import manifest_of

LENGTHS = {"source": 7}


@pytest.fixture
def footprint():
    kind = Kind(
        name="encoder", kind="encoder", maps=("a.0", "a.1"), heads=3, query="source", key="source", normalized=True,
        methods=("raw",),
    )  # fmt: skip
    return Footprint(manifest_of(width=12, attention=(kind,)))


def test_maps_are_counted_by_layer_head_and_weight(footprint):
    (kind,) = footprint.manifest.attention
    assert footprint.maps(LENGTHS) == 4 * len(kind.maps) * kind.heads * 7 * 7
    assert footprint.maps({}) == 4 * len(kind.maps) * kind.heads


def test_a_short_text_is_charged_for_its_states_and_a_long_one_for_its_maps(footprint):
    (kind,) = footprint.manifest.attention
    assert footprint.gradient({"source": 1}) == STATE_BYTES * len(kind.maps) * 12
    assert footprint.gradient({"source": 4096}) == footprint.maps({"source": 4096})


def test_a_sparse_encoder_takes_more_for_the_words_of_every_token(footprint):
    plain = footprint.run(LENGTHS, by_gradient=True), footprint.run(LENGTHS, by_gradient=False)
    graphs = footprint.manifest.graphs
    answer = Port(name="weights", dtype="float32", axes=("batch", 100))
    given = {**graphs, "predict": graphs["predict"].model_copy(update={"outputs": (answer,)})}
    sparse = Footprint(footprint.manifest.model_copy(update={"task": "sparse-embedding", "graphs": given}))
    assert (footprint.words, sparse.words) == (0, 100)
    more = sparse.run(LENGTHS, by_gradient=True) - plain[0], sparse.run(LENGTHS, by_gradient=False) - plain[1]
    assert more == (7 * 100 * GRADIENT_RUN.words, 7 * 100 * ATTENTION_RUN.words)


def test_a_gradient_takes_more_for_its_states(footprint):
    (kind,) = footprint.manifest.attention
    states = len(kind.maps) * 7 * 12
    for by_gradient, most in ((False, ATTENTION_RUN), (True, GRADIENT_RUN)):
        taken = footprint.run(LENGTHS, by_gradient=by_gradient)
        assert taken == int(most.maps * footprint.maps(LENGTHS) + most.states * states)
