"""What an export will take is said before, and one that memory does not hold is refused."""

import dataclasses

import pytest
import torch

from contract.generation import Generation
from contract.input_rules import TextRule
from export import cost
from export.checkpoints.reading.tokenizers.tokenizer import character_tokenizer
from export.errors import CheckpointError
from export.tasks.generation import text_continuer
from export.tasks.text import text_model
from export.token_limit import with_max_tokens
from model.architectures.gpt import gpt
from model.architectures.gpt_variants import LlamaConfig
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
    lengths = None, 8000, 8192
    usual, long, longer = (cost.memory_bytes(with_max_tokens(large, most), "fp32", "usual") for most in lengths)
    assert 6 * GB < usual < 8 * GB
    assert longer - long == 20 * 16 * (8192**2 - 8000**2) + 20 * 24 * 1024 * (8192 - 8000)


def test_a_text_that_memory_does_not_hold_is_refused_with_what_it_would_take(large, monkeypatch, tmp_path):
    monkeypatch.setattr(cost, "free_bytes", lambda: 22_000_000_000)
    with pytest.raises(CheckpointError) as refused:
        cost.announce(with_max_tokens(large, 8192), "fp32", "usual", tmp_path)
    words = (
        "--max-tokens: texts of 8192 tokens need about 28.2 GB of memory to be verified, this machine has 22.0 GB free"
    )
    assert str(refused.value) == f"{words}; give fewer"


def test_a_model_that_memory_does_not_hold_is_refused_whatever_its_texts(large, monkeypatch, tmp_path):
    monkeypatch.setattr(cost, "free_bytes", lambda: 4_000_000_000)
    with pytest.raises(CheckpointError, match=r"NAME: needs about 6.1 GB of memory to be verified at all"):
        cost.check_room(large, "fp32", "usual", tmp_path)


@pytest.fixture(scope="module")
def decoder():
    """A source with the sizes of Qwen3-0.6B, without its numbers."""
    sizes = LlamaConfig(
        151_936, length=40_960, width=1024, layers=28, heads=16, hidden=3072, key_heads=8, head=128, heads_normed=True
    )
    with torch.device("meta"):
        model = gpt(sizes)
    source = text_continuer(
        "decoder", model, sizes, family="qwen3", text=TextRule(tokenizer="tokenizer.json", max_tokens=2048, padding=1),
        tokenizer=character_tokenizer(SPECIALS, ALPHABET), made_by={},
        rules=Generation(start=None, end=2, max_new_tokens=2048, caches=(), memory=()),
    )  # fmt: skip
    return with_max_tokens(source, None)


def test_a_decoder_of_596_million_parameters_takes_what_was_measured(decoder):
    """7.32 GB were measured, while the last step was compared: benchmarks/RESULTS.md."""
    assert cost.memory_bytes(decoder, "fp32", "usual") == pytest.approx(7.32 * GB, rel=0.13)
    assert cost.held_bytes(decoder, "fp32") == pytest.approx(6.13 * GB, rel=0.05)


def test_few_bits_keep_embeddings_and_what_follows_heads_in_floats(decoder):
    table, matrices = 151_936 * 1024, 28 * (1024 * (2 * 2048 + 2 * 1024) + 3 * 1024 * 3072)
    norms = 28 * (2 * 1024 + 2 * 128) + 1024
    floats = 4 * (table + norms + 28 * 2048 * 1024)
    assert cost.file_bytes(decoder, "fp32") == 4 * (table + matrices + norms)
    assert cost.file_bytes(decoder, "int8") == floats + table + matrices
    assert cost.file_bytes(decoder, "int4") == floats + 0.625 * (table + matrices)
    explained = dataclasses.replace(decoder, explained="fp32")
    assert cost.file_bytes(explained, "int8") == 4 * (table + matrices + norms) + table + matrices


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
