"""The table of families: what an artifact says of its checkpoint, and what the documentation says of the families."""

import json
import re

import pytest
from pydantic_core import PydanticUndefined

from contract.artifact import read_artifact
from export.checkpoints.building.tower_family import TwoTowers
from export.checkpoints.families import FAMILIES, LISTED
from export.checkpoints.families.vision_encoder_decoder import DECODERS
from export.checkpoints.reading.config import ACTIVATIONS
from export.checkpoints.reading.tokenizers.classes import CLASSES as ROWS
from tests.conftest import ROOT
from tests.samples.checkpoints import CASES, EXPORTED, NLI


@pytest.mark.parametrize("name", EXPORTED)
def test_what_was_made_and_measured_is_said(families, checkpoints, name):
    manifest = read_artifact(families(name) / "1").manifest
    config = json.loads((checkpoints(name) / "config.json").read_text())
    assert manifest.family == manifest.made_by["definition"] == config["model_type"]
    assert manifest.task == CASES[name].task
    assert len(str(manifest.made_by["weights_sha256"])) == 64
    assert manifest.verified["row sums"] < 1e-5
    if manifest.task in ("image-classification", "text-classification", "object-detection"):
        own = {"rank": ("LABEL_0",), "nli": tuple(NLI["label2id"])}
        assert manifest.labels == own.get(name.rpartition("-")[2], ("cat", "dog", "bird"))


def test_the_documentation_lists_every_family_with_its_tasks():
    text = (ROOT / "docs/checkpoints.md").read_text()
    table = re.findall(
        r"^\|(.*)\|(.*)\|.*\|$", text.partition("## Families")[2].partition("\n\n`arch")[0], re.MULTILINE
    )
    listed = {name: tasks for names, tasks in table[2:] for name in re.findall(r"`([\w-]+)`", names)}
    assert listed.keys() == FAMILIES.keys()
    for name, family in FAMILIES.items():
        assert re.findall(r"[a-z0-9]+-[a-z-]+", listed[name]) == [*family.tasks], name
        assert LISTED[name][1] == family.tasks, name


COMING = {"clip", "siglip", "chinese_clip"}
"""Families that the documentation names, and that are not here yet."""


def test_what_the_documentation_says_of_repositories_is_true_of_their_families():
    text = (ROOT / "docs/checkpoints.md").read_text().partition("## Repositories")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w.-]+/[\w.-]+)` \| `([\w-]+)` \| (.*) \| (.*) \|$", text, re.MULTILINE)
    assert len(rows) > 40
    assert len({repository for repository, *_ in rows}) == len(rows)
    for repository, kind, said, source in rows:
        assert re.match("supported|refused[:,]|not tried", said), repository
        assert not said.startswith("supported") or kind in FAMILIES.keys() | COMING, repository
        assert re.fullmatch(r"([TRIVFL]|\[.*\]\(https:.*\)|[ ,])+", source), repository


FROM_PIECES = {"marian", "mbart", "pegasus", "m2m_100"}
"""Families whose class makes its tokenizer of a SentencePiece model, and changes nothing of a `tokenizer.json`."""
OF_CHARACTERS = {"wav2vec2", "hubert"}
"""Families that write a character for each class of a frame, and tokenize nothing."""


@pytest.mark.families  # it imports the reference library
def test_what_the_class_of_a_familys_tokenizer_sets_is_known():
    """Without it, a folder whose settings are silent would have other tokens than in the reference library."""
    from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES as CLASSES

    named = {name: CLASSES[name] for name in FAMILIES if CLASSES.get(name) and name not in FROM_PIECES | OF_CHARACTERS}
    assert {"bert", "roberta", "gpt2", "bart"} <= named.keys()
    assert {name: kind for name, kind in named.items() if kind not in ROWS} == {}


@pytest.mark.families
@pytest.mark.parametrize("name", FAMILIES)
def test_the_defaults_of_a_configuration_are_those_of_the_reference_library(name):
    """A folder may leave out what is the default. None is ours where other keys or the weights say it."""
    from transformers import CONFIG_MAPPING

    theirs, family = CONFIG_MAPPING["gte" if name == "new" else name](), FAMILIES[name]
    configured = [(theirs, family.config)]
    if isinstance(family, TwoTowers):
        configured = [(theirs.vision_config, family.image.config), (theirs.text_config, family.text.config)]
    if name == "vision-encoder-decoder":  # whose parts have defaults; those of encoders are of their families
        behind = {"is_decoder": True, "add_cross_attention": True}
        configured = [(CONFIG_MAPPING[kind](**behind), part.config) for kind, part in DECODERS.items()]
    for config, own in configured:
        ours = {field: info.default for field, info in own.model_fields.items() if hasattr(config, field)}
        ours = {field: default for field, default in ours.items() if default not in (None, PydanticUndefined)}
        assert len(ours) > 6
        for field, default in ours.items():
            wanted = getattr(config, field)
            activates = field in ("activation_function", "hidden_act", "hidden_activation")
            wanted = ACTIVATIONS.get(wanted, wanted) if activates else wanted
            assert default == (tuple(wanted) if isinstance(wanted, list) else wanted), field
