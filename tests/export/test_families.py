"""Every family, every task: the exported graph against the reference library in float64, predictions and all maps."""

import json

import numpy as np
import onnxruntime as ort
import pytest
import torch

from contract.artifact import read_artifact
from tests.export.checkpoints import CASES, reference

LENGTH = 11
TOLERANCE = 1e-4
POOLING = {"bert-features": "mean_sqrt_length", "distilbert-features": "max"}


def ids(shape, vocabulary, seed):
    return torch.randint(6, vocabulary, shape, generator=torch.Generator().manual_seed(seed))


def visible(batch):
    lengths = torch.tensor([LENGTH, 3, 7, 1, 9][:batch])
    return torch.arange(LENGTH)[None] < lengths[:, None]


def pooled(states, shown, pooling):
    """The definition of each pooling, of rows of different length."""
    rows = [state[mask] for state, mask in zip(states, shown, strict=True)]
    pool = {
        "mean": lambda row: row.mean(0),
        "max": lambda row: row.amax(0),
        "mean_sqrt_length": lambda row: row.sum(0) / len(row) ** 0.5,
    }[pooling]
    return torch.stack([pool(row) for row in rows])


def of_images(name, manifest, model, batch):
    rule = manifest.image
    shape = (batch, rule.height, rule.width, rule.channels)
    pixels = np.random.default_rng(batch).integers(0, 256, shape, dtype=np.uint8)
    normal = torch.tensor(((pixels / 255 - np.array(rule.mean)) / np.array(rule.std)).transpose(0, 3, 1, 2))
    more = {"interpolate_pos_encoding": True} if name == "vit-larger" else {}
    out = model(normal, output_attentions=True, **more)
    answer = out.pooler_output if manifest.task == "feature-extraction" else out.logits
    return {"pixels": pixels}, [answer, torch.stack(out.attentions, 1)], None


def of_texts(name, manifest, model, batch):
    shown = visible(batch)
    tokens = ids((batch, LENGTH), model.config.vocab_size, batch)
    ports = {port.name for port in manifest.graphs["predict"].inputs}
    feed = {"source": tokens, "source_visible": shown}
    more = {}
    if "source_types" in ports:
        types = ids((batch, LENGTH), 100, 9) % model.config.type_vocab_size
        feed["source_types"] = more["token_type_ids"] = types
    padding = model.config.pad_token_id or 0
    out = model(tokens.where(shown, padding), attention_mask=shown.long(), output_attentions=True, **more)
    if manifest.task == "fill-mask":
        feed["masked"] = masked = torch.stack((torch.zeros(batch, dtype=torch.long), shown.sum(1) - 1), 1)
        logits = out.prediction_logits if hasattr(out, "prediction_logits") else out.logits
        answer = torch.stack([row[places] for row, places in zip(logits, masked, strict=True)])
    elif manifest.task == "feature-extraction":
        answer = pooled(out.last_hidden_state, shown, POOLING.get(name, "mean"))
        if name in POOLING:  # these folders declare a normalisation
            answer = answer / answer.norm(dim=1, keepdim=True)
    else:
        answer = out.logits
    return {port: tensor.numpy() for port, tensor in feed.items()}, [answer, torch.stack(out.attentions, 1)], shown


def of_continued(name, manifest, model, batch):
    tokens = ids((batch, LENGTH), model.config.vocab_size, batch)
    out = model(tokens, output_attentions=True)
    return {"target": tokens.numpy()}, [out.logits, torch.stack(out.attentions, 1)], None


def of_pairs(name, manifest, model, batch):
    shown, vocabulary = visible(batch), model.config.vocab_size
    source, target = ids((batch, LENGTH), vocabulary, batch), ids((batch, 7), vocabulary, batch + 1)
    out = model(source, attention_mask=shown.long(), decoder_input_ids=target, output_attentions=True)
    kinds = (out.encoder_attentions, out.decoder_attentions, out.cross_attentions)
    feed = {"source": source.numpy(), "source_visible": shown.numpy(), "target": target.numpy()}
    return feed, [out.logits, *(torch.stack(kind, 1) for kind in kinds)], shown


ASK = {"text-generation": of_continued, "text2text-generation": of_pairs}


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("name", CASES)
def test_predictions_and_every_map_are_the_reference_library_s(families, name, batch):
    artifact = read_artifact(families / "artifacts" / name / "1")
    manifest = artifact.manifest
    assert manifest.task == CASES[name].task
    ask = ASK.get(manifest.task, of_images if manifest.image else of_texts)
    with torch.no_grad():
        feed, wanted, shown = ask(name, manifest, reference(families / "checkpoints" / name), batch)
    graph = manifest.graphs["attention"]
    assert [port.name for port in graph.outputs][1:] == [kind.kind for kind in manifest.attention]
    got = ort.InferenceSession(artifact.path(graph.file)).run(None, feed)
    predicted = ort.InferenceSession(artifact.path(manifest.graphs["predict"].file)).run(None, feed)
    assert np.abs(predicted[0] - wanted[0].numpy()).max() < TOLERANCE
    for port, ours, theirs in zip(graph.outputs, got, wanted, strict=True):
        for row in range(batch):
            # what stands at padding is nobody's
            part = (
                (slice(None), slice(None), shown[row].numpy()) if shown is not None and port.name == "encoder" else ...
            )
            assert np.abs(ours[row][part] - theirs[row].numpy()[part]).max() < TOLERANCE, port.name
    for kind, maps in zip(manifest.attention, wanted[1:], strict=True):
        assert (maps - 1 / maps.shape[-1]).abs().max() > 0.05, kind  # uniform maps would hide every fault


@pytest.mark.parametrize("name", CASES)
def test_what_was_made_and_measured_is_said(families, name):
    manifest = read_artifact(families / "artifacts" / name / "1").manifest
    config = json.loads((families / "checkpoints" / name / "config.json").read_text())
    assert manifest.family == manifest.made_by["definition"] == config["model_type"]
    assert len(str(manifest.made_by["weights_sha256"])) == 64
    assert manifest.verified["row sums"] < 1e-5
    if manifest.task in ("image-classification", "text-classification"):
        assert manifest.labels == ("cat", "dog", "bird")


@pytest.mark.parametrize(
    ("name", "prefix", "grid"),
    [
        ("vit", 1, (2, 3)),
        ("vit-features", 1, (2, 6)),
        ("vit-larger", 1, (4, 4)),
        ("deit", 2, (2, 2)),
        ("dinov2", 1, (2, 2)),
        ("dinov2-registers", 4, (2, 2)),
        ("bert", 1, None),
    ],
)
def test_prefix_and_grid_are_those_of_the_family(families, name, prefix, grid):
    (kind,) = read_artifact(families / "artifacts" / name / "1").manifest.attention
    assert (kind.prefix, kind.grid) == (prefix, grid)
