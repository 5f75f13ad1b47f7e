"""Layouts of checkpoints that hear: older names of their weights, what their sizes make of sounds, what is refused."""

import json
import re
import shutil

import pytest
import torch
import transformers as T

from contract.input_rules import SoundRule
from export.checkpoints.families import FAMILIES
from export.errors import CheckpointError
from model.architectures.speech_encoder import SpeechEncoderConfig
from tests.samples.checkpoints import LETTER_TOKENS, checkpoint_of, letters, source_of, speech
from tests.samples.export_command import export_command
from tests.samples.export_folders import configured, edit, renamed

OF_30_S = {"samples": 480_000, "frames": 1500, "hop": 320, "apart": 320, "varies": True, "least": 320}
NORMED = "encoder.pos_conv_embed.conv"
PROCESSOR = "preprocessor_config.json"


@pytest.fixture
def checkpoint(tmp_path):
    """Copy a checkpoint of the given name, to be changed."""
    return lambda name: shutil.copytree(checkpoint_of(name), tmp_path / name)


def set_up(**settings):
    return lambda folder: edit(folder, PROCESSOR, lambda it: it.update(settings))


def older(name):
    end = re.escape(f"{NORMED}.parametrizations.weight.original")
    return [re.sub(f"{end}(.)", lambda found: f"{NORMED}.weight_{'gv'[int(found[1])]}", name)]


@pytest.mark.families
@pytest.mark.parametrize("name", ["wav2vec2", "hubert"])
def test_a_weight_norm_by_its_older_names_is_the_same_model(checkpoint, name):
    folder = checkpoint(name)
    new = source_of(folder)
    renamed(older)(folder)
    assert f"{NORMED}.weight_g" in (folder / "model.safetensors").read_bytes().decode("latin1")
    old = source_of(folder)
    kernels = [one.traced.model.positions.convolution.weight for one in (new, old)]
    assert torch.equal(*kernels)
    theirs = getattr(T, json.loads((folder / "config.json").read_text())["architectures"][0]).from_pretrained(folder)
    torch.testing.assert_close(kernels[0], theirs.base_model.encoder.pos_conv_embed.conv.weight)


@pytest.mark.families
def test_what_training_alone_needs_is_set_aside(tmp_path):
    speech(T.Wav2Vec2ForPreTraining, codevector_dim=8, proj_codevector_dim=8).make().save_pretrained(tmp_path)
    for name, content in letters().items():
        (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match="add --task, one of automatic-speech-recognition, audio-classification"):
        source_of(tmp_path)
    source = source_of(tmp_path, task="feature-extraction")
    assert "quantizer.codevectors" in source.made_by["set_aside"]
    assert "project_hid.weight" in source.made_by["set_aside"]


@pytest.mark.families
@pytest.mark.parametrize(
    ("name", "rule", "labels"),
    [
        (
            "wav2vec2",
            {"rate": 16_000, **OF_30_S},
            ["", *LETTER_TOKENS[1:4], " ", *LETTER_TOKENS[5:]],
        ),
        (
            "wav2vec2-stable",
            {"rate": 8000, **OF_30_S},
            ["", *LETTER_TOKENS[1:5], *"etao hi"],
        ),
        (
            "ast",
            {"rate": 16_000, "samples": 400 + 29 * 160, "frames": 7, "hop": 160, "apart": 640, "least": 400},
            ["cat", "dog", "bird"],
        ),
    ],
)
def test_a_rule_says_what_the_sizes_make_of_a_sound(name, rule, labels):
    source = source_of(checkpoint_of(name))
    (kind,) = source.attention
    assert source.sound == SoundRule(**rule)
    assert list(source.labels) == labels
    assert (kind.grid, kind.prefix) == (((4, 7), 2) if name == "ast" else (None, 0))


@pytest.mark.families
def test_the_usual_sizes_make_frames_of_20_ms():
    """Configurations of the base models leave out what is the default."""
    for name in ("wav2vec2", "hubert"):
        config = FAMILIES[name].config()
        sizes = SpeechEncoderConfig(
            config.conv_dim,
            config.conv_kernel,
            config.conv_stride,
            128,
            16,
            width=768,
            layers=12,
            heads=12,
            hidden=3072,
        )
        assert (sizes.window, sizes.hop) == (400, 320)


CHANGES = {
    "an adapter": ("wav2vec2", configured(adapter_attn_dim=16), "adapter_attn_dim: not known of wav2vec2"),
    "an adapter behind": ("wav2vec2", configured(add_adapter=True), "add_adapter: Input should be False"),
    "weighted layers": ("hubert-sounds", configured(use_weighted_layer_sum=True), "use_weighted_layer_sum: Input"),
    "a batch norm of positions": ("hubert", configured(conv_pos_batch_norm=True), "conv_pos_batch_norm: Input should"),
    "another norm": (
        "wav2vec2",
        configured(feat_extract_norm="batch"),
        "feat_extract_norm: Input should be 'group' or",
    ),
    "a kernel too few": ("wav2vec2", configured(conv_kernel=[10, 8]), "as many, given 3, 2 and 3"),
    "a convolution too wide": ("wav2vec2", configured(conv_dim=[6, 8, 12]), r"conv_layers.2.conv.weight must be \[12"),
    "groups that do not divide": ("wav2vec2", configured(num_conv_pos_embedding_groups=3), "divisible by groups"),
    "no processor": ("wav2vec2", lambda folder: (folder / PROCESSOR).unlink(), f"{PROCESSOR}: must be in the"),
    "two channels": ("wav2vec2", set_up(feature_size=2), f"{PROCESSOR}: feature_size must be 1, given 2"),
    "a rate of a word": (
        "wav2vec2",
        set_up(sampling_rate="fast"),
        "sampling_rate must be a number of samples, given fast",
    ),
    "a rate of nothing": ("ast", set_up(sampling_rate=0), "sampling_rate must be a number of samples, given 0"),
    "other bands": ("ast", set_up(num_mel_bins=64), f"{PROCESSOR}: num_mel_bins must be 24, given 64"),
    "another length": ("ast", set_up(max_length=31), f"{PROCESSOR}: max_length must be 30, given 31"),
    "a mean of a word": ("ast", set_up(mean="low"), "mean and std must be numbers, std above 0"),
    "no spread": ("ast", set_up(std=0), "mean and std must be numbers, std above 0"),
    "a patch too large": ("ast", configured(patch_size=25), "spectrogram: must hold a patch of 25x25, given 24x30"),
}


@pytest.mark.families
@pytest.mark.parametrize("change", CHANGES)
def test_what_a_checkpoint_must_not_hold_is_refused_by_name(checkpoint, change):
    name, spoil, words = CHANGES[change]
    folder = checkpoint(name)
    spoil(folder)
    with pytest.raises(CheckpointError, match=words):
        source_of(folder)


@pytest.mark.families
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--image-size", "24"), "--image-size: wav2vec2 takes no images"),
        (("--max-tokens", "24"), "--max-tokens: is for models that read text"),
        (("--fast-jpeg",), "--fast-jpeg: is for models that take images"),
        (
            ("--example", "hello"),
            "--example: must be a file, since the model takes sounds",
        ),
        (("--precision", "int8", "--samples", "README.md"), "--samples: is for models that take images or texts"),
        (("--precision", "int8", "--calibrate", "README.md"), "--calibrate: is for models that take images or texts"),
    ],
)
def test_an_option_that_does_not_apply_is_refused(checkpoint, capsys, tmp_path, options, words):
    folder = checkpoint("wav2vec2")
    assert export_command(folder, "--to", tmp_path / "out", *options) == 2
    assert f"not exported: {words}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.families
def test_a_dry_run_says_how_long_a_sound_may_be(capsys, tmp_path):
    assert export_command(checkpoint_of("wav2vec2-stable"), "--to", tmp_path, "--dry-run") == 0
    assert "takes     sounds of at most 60 s at 8000 Hz" in capsys.readouterr().out
