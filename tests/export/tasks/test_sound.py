"""Models that hear become graphs of samples."""

import numpy as np
import onnxruntime as ort
import pytest
import torch
import transformers

from contract.artifact import read_artifact
from contract.generation import Generation
from contract.input_rules import SoundRule
from contract.manifest import GRADIENT_METHODS
from export.checkpoints.reading.tokenizers.tokenizer import word_tokenizer
from export.pipeline import export
from export.tasks.sound import planes_of, sound_embedder, speech_to_text
from model.architectures.speech_transformer import SpeechTransformerConfig, speech_transformer
from model.architectures.tera import TeraConfig, tera
from model.parts.sound import LogMel, MelSizes
from model.parts.stacks import StackSizes
from model.vocabularies import END, PAD, START, WORD_SPECIALS, WORDS
from tests.samples.attention_reference import sharpen
from tests.samples.export_command import export_command
from tests.samples.whisper import save_whisper

MEL = MelSizes(rate=800, window=40, hop=20, bands=12)
SIZES = SpeechTransformerConfig(
    13, bands=12, frames=7, length=9, width=16, channels=5, maps=3, planes=2,
    encoder=StackSizes(2, 2, 24), decoder=StackSizes(2, 4, 20),
)  # fmt: skip
SOUND = SoundRule(rate=800, samples=560, side=20, hop=20, frames=7, bands=3)


def listener():
    """Return the source of a small Speech-Transformer whose attention is far from uniform."""
    return speech_to_text(
        "listener",
        sharpen(speech_transformer(SIZES)).float(),
        SIZES,
        LogMel(MEL),
        family="speech-transformer",
        sound=SOUND,
        tokenizer=word_tokenizer(WORD_SPECIALS, WORDS),
        rules=Generation(start=START, end=END, padding=PAD, max_new_tokens=9, caches=(), memory=()),
        aligned=((1, 3), (0, 2)),
        made_by={"definition": "listener"},
        planes=planes_of(SIZES),
    )


def embedder():
    """Return the source of a small TERA."""
    sizes = TeraConfig(bands=12, frames=28, width=16, layers=2, heads=2, hidden=24)
    rule = SOUND.model_copy(update={"frames": 28, "bands": 0})
    model = sharpen(tera(sizes)).float()
    return sound_embedder("embedder", model, sizes, LogMel(MEL), family="tera", sound=rule, made_by={"definition": "e"})


def test_maps_along_time_and_along_frequency_are_kinds_of_their_own():
    source = listener()
    kinds = {kind.name: kind for kind in source.attention}
    assert list(kinds) == ["encoder", "decoder", "cross", "time", "frequency"]
    assert kinds["time"].maps == ("source.planes.0.time", "source.planes.1.time")
    assert kinds["time"].methods == kinds["frequency"].methods == ("raw", "rollout")
    assert kinds["cross"].methods == ("raw", "norm", *GRADIENT_METHODS)
    axes = {port.name: port.axes for port in source.base.outputs}
    assert axes["source.planes.1.time"] == ("batch", 3, 7, 7)
    assert axes["source.planes.1.time.value"] == ("batch", 3, 7, 3)
    assert axes["source.planes.1.frequency"] == ("batch", 3, 3, 3)
    assert axes["source.planes.1.frequency.value"] == ("batch", 3, 3, 7)
    assert axes["encoder.blocks.0.input"] == ("batch", 7, 16)
    assert source.plan("hear").inputs[0].axes == ("batch", 600)
    assert source.plan("align").outputs[0].axes == ("batch", 2, "target", 7)


@pytest.mark.slow
def test_a_speech_transformer_is_exported_with_all_its_methods(tmp_path):
    source = listener()
    folder = export(source, "1", tmp_path)
    manifest = read_artifact(folder).manifest
    assert set(GRADIENT_METHODS) <= manifest.graphs.keys()
    session = ort.InferenceSession(folder / "attention.onnx")
    samples = torch.randn(2, 600, generator=torch.Generator().manual_seed(0)).numpy()
    target = np.array([[1, 4, 5], [1, 7, 2]])
    controls = {port.name: np.zeros([0] * len(port.shape), np.int64) for port in session.get_inputs()[2:]}
    controls |= {"diagnose": np.array(False), "answered": np.array([[2, 0], [1, 2]])}
    controls |= {
        f"{kind.name}.special": np.zeros((2, {"frequency": 3, "decoder": 3}.get(kind.name, 7)), bool)
        for kind in manifest.attention
    }
    controls |= {"frequency.layers": np.arange(2), "frequency.rows": np.arange(3), "frequency.heads": np.arange(3)}
    found = dict(
        zip(
            (port.name for port in session.get_outputs()),
            session.run(None, {"samples": samples, "target": target, **controls}),
            strict=True,
        )
    )
    with torch.no_grad():
        sound = source.traced.frames(torch.from_numpy(samples))
        logits, maps = source.traced.model(sound, torch.from_numpy(target))
    np.testing.assert_allclose(found["logits"][0], logits[0, [2, 0]], atol=1e-3)
    np.testing.assert_allclose(found["logits"][1], logits[1, [1, 2]], atol=1e-3)
    for layer in range(2):
        wanted = maps[f"source.planes.{layer}.frequency"]
        np.testing.assert_allclose(found["frequency"][:, :, layer], wanted, atol=1e-4)


@pytest.mark.slow
def test_an_embedder_of_sounds_is_exported_with_all_its_methods(tmp_path):
    source = embedder()
    folder = export(source, "1", tmp_path)
    manifest = read_artifact(folder).manifest
    assert {*GRADIENT_METHODS, "inside"} <= manifest.graphs.keys()
    samples = torch.randn(2, 600, generator=torch.Generator().manual_seed(0))
    samples[1, 300:] = 0
    (found,) = ort.InferenceSession(folder / "predict.onnx").run(None, {"samples": samples.numpy()})
    with torch.no_grad():
        wanted = source.traced.model(source.traced.frames(samples))[0]
    np.testing.assert_allclose(found, wanted, atol=1e-4)


MEDIUM = {
    "vocab_size": 51_865, "d_model": 1024, "encoder_layers": 24, "decoder_layers": 24, "encoder_attention_heads": 16,
    "decoder_attention_heads": 16, "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096, "max_source_positions": 1500,
    "max_target_positions": 448,
}  # fmt: skip


@pytest.mark.slow
def test_the_sizes_of_whisper_medium_are_exported_and_hear_as_the_reference_library(tmp_path, monkeypatch, capsys):
    """Its maps need more memory than machines have; so it is not verified, and what it hears is compared here."""
    checkpoint = save_whisper(tmp_path / "medium", sizes=MEDIUM)
    monkeypatch.setattr("export.cost.free_bytes", lambda: 24 << 30)
    assert export_command(str(checkpoint), "--to", str(tmp_path)) != 0
    assert "the maps of 30 s need about" in capsys.readouterr().err
    monkeypatch.setattr("export.pipeline.verify_files", lambda *_, **__: {})
    monkeypatch.setattr("export.cost.free_bytes", lambda: None)
    assert export_command(str(checkpoint), "--name", "heard", "--to", str(tmp_path)) == 0
    noise = 0.1 * np.random.default_rng(0).normal(size=30 * 16_000).astype(np.float32)
    features = transformers.WhisperFeatureExtractor.from_pretrained(checkpoint)(
        noise, sampling_rate=16_000, return_tensors="pt"
    )
    model = transformers.WhisperForConditionalGeneration.from_pretrained(checkpoint).eval()
    with torch.no_grad():
        memory = model.model.encoder(features.input_features).last_hidden_state
        keys = model.model.decoder.layers[23].encoder_attn.k_proj(memory)
    del model
    artifact = read_artifact(tmp_path / "heard/1")
    graph = artifact.manifest.graphs["hear"]
    side = (graph.inputs[0].axes[1] - len(noise)) // 2
    feed = {"samples": np.pad(noise, side, "reflect")[None], "filled": np.array([3001])}
    name = next(port.name for port in graph.outputs if "blocks.23." in port.name and "key" in port.name)
    (found,) = ort.InferenceSession(artifact.path(graph.file)).run([name], feed)
    np.testing.assert_allclose(found.transpose(0, 2, 1, 3).reshape(keys.shape), keys, atol=1e-3)
