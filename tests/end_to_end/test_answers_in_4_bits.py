"""Four bits served: a decoder writes and looks as its definition does with rounded matrices, and says what is lost."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from export.pipeline import export
from model.architectures.gpt import GPTConfig
from model.vocabularies import ALPHABET, SPECIALS
from tests.samples.export_models import continuer
from tests.samples.four_bits import rounded_model
from tests.samples.in_process import inside
from tests.samples.traces import traces_kept

SIZES = GPTConfig(len(SPECIALS) + len(ALPHABET), length=32, width=40, layers=2, heads=2, hidden=72)
TEXT = "march 3"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("four")
    with traces_kept():
        export(continuer(SIZES), "1", folder, "int4", force=True)
    return folder


def test_a_decoder_in_four_bits_is_its_definition_with_rounded_matrices(folder):
    source = continuer(SIZES)
    model, exact = rounded_model(source.traced.model), source.traced.model.double()
    tokens = Tokenizer.from_str(source.tokenizer).encode(TEXT).ids
    before = len(tokens)
    with inside(folder) as (client, _):
        described = client.get("/v1/models/continued").json()
        asked = {"inputs": TEXT, "max_new_tokens": 6}
        (result,) = client.post("/v1/models/continued/generate", json=asked).json()["results"]
        whole = {"layers": "all", "heads": "all", "queries": "all", "digits": 7}
        (shown,) = client.post("/v1/models/continued/attention", json={"inputs": TEXT, "attention": whole}).json()[
            "results"
        ]
    assert described["precision"] == "int4"
    fidelity = described["attention"]["fidelity"]
    assert all(f"int4, 16 drawn inputs: {what}" in fidelity for what in ("perplexity", "perplexity in fp32"))
    assert fidelity["libra"].startswith("left out: 4-bit weights have no gradient")
    with torch.no_grad():
        for found in result["tokens"]:
            odds = model(torch.tensor([tokens]))[0][0, -1].log_softmax(-1)
            assert found["token"] == int(odds.argmax())
            assert found["log_probability"] == pytest.approx(float(odds.max()), abs=1e-5)
            tokens.append(found["token"])
        maps, unrounded = (one(torch.tensor([tokens[:before]]))[1] for one in (model, exact))
    for layer in shown["attention"]["maps"]:
        got = np.array(layer["values"])[:, :before, :before]
        assert np.abs(got - maps[layer["name"]][0].numpy()).max() < 1e-5
        assert np.abs(got - unrounded[layer["name"]][0].numpy()).max() > 1e-3
