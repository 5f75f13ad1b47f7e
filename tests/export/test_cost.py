"""What an export will take is said before, and one that memory does not hold is refused."""

import dataclasses

import pytest
import torch

from contract.input_rules import TextRule
from export import cost
from export.checkpoints.reading.tokenizers.tokenizer import character_tokenizer
from export.errors import CheckpointError
from export.tasks.text import text_model
from export.token_limit import with_max_tokens
from model.architectures.text_encoder import TextEncoderConfig, text_encoder
from model.parts.heads import Pool, Unit
from model.vocabularies import ALPHABET, SPECIALS
from tests.samples.export_models import classifier, translator

GB = 1e9


@pytest.fixture(scope="module")
def large():
    """A source with the sizes of XLM-R large, without its numbers."""
    sizes = TextEncoderConfig(250_002, length=8192, width=1024, layers=24, heads=16, hidden=4096)
    with torch.device("meta"):
        model = text_encoder(sizes, Pool("mean", Unit()))
    text = TextRule(tokenizer="tokenizer.json", max_tokens=8192, padding=1)
    tokenizer = character_tokenizer(SPECIALS, ALPHABET)
    return text_model(
        "large", model, sizes, family="xlm-roberta", task="feature-extraction", text=text, tokenizer=tokenizer,
        made_by={},
    )  # fmt: skip


def test_memory_grows_with_parameters_and_with_the_square_of_the_longest_text(large):
    usual, whole = (cost.memory_bytes(with_max_tokens(large, most), "usual") for most in (None, 8192))
    assert 7.5 * GB < usual < 12 * GB
    assert whole - usual == 16 * 16 * (8192**2 - 2048**2)


def test_a_text_that_memory_does_not_hold_is_refused_with_what_it_would_take(large, monkeypatch, tmp_path):
    monkeypatch.setattr(cost, "free_bytes", lambda: 22_000_000_000)
    with pytest.raises(CheckpointError) as refused:
        cost.announce(with_max_tokens(large, 8192), "fp32", "usual", tmp_path)
    words = (
        "--max-tokens: texts of 8192 tokens need about 25.0 GB of memory to be verified, this machine has 22.0 GB free"
    )
    assert str(refused.value) == f"{words}; give fewer"


def test_a_model_that_memory_does_not_hold_is_refused_whatever_its_texts(large, monkeypatch, tmp_path):
    monkeypatch.setattr(cost, "free_bytes", lambda: 4_000_000_000)
    with pytest.raises(CheckpointError, match=r"NAME: needs about 7.8 GB of memory to be verified at all"):
        cost.check_room(large, "fp32", "usual", tmp_path)


def test_a_disk_without_room_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(cost.shutil, "disk_usage", lambda _: dataclasses.make_dataclass("Usage", ["free"])(1000))
    with pytest.raises(CheckpointError, match=r"--to: needs 0 MB, the disk has 0 MB"):
        cost.announce(classifier(), "fp32", "usual", tmp_path)


def test_what_is_free_is_the_least_of_what_linux_and_the_control_group_say(monkeypatch, tmp_path):
    monkeypatch.setattr(cost, "MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(cost, "CONTROL_GROUP", tmp_path)
    assert cost.free_bytes() is None, "nobody says"
    (tmp_path / "meminfo").write_text("MemTotal:  100 kB\nMemAvailable:   50 kB\n")
    assert cost.free_bytes() == 50 << 10
    (tmp_path / "memory.current").write_text("1000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert cost.free_bytes() == 50 << 10
    (tmp_path / "memory.max").write_text("3000\n")
    (tmp_path / "memory.stat").write_text("anon 300\nfile 700\n")
    assert cost.free_bytes() == 2700, "pages of files can be dropped"


def test_time_grows_with_what_is_compared(monkeypatch):
    monkeypatch.setattr(cost, "_speed", lambda: 1e9)
    for source in (classifier(), translator()):
        usual, full = (cost.seconds(source, extent) for extent in ("usual", "full"))
        assert 0 < usual < full / 2
    assert [cost.format_time(one) for one in (0.1, 43, 119, 121, 400)] == ["5 s", "45 s", "120 s", "2 min", "7 min"]
