"""Whisper in the layout of CTranslate2: its folder becomes a checkpoint in the layout of Hugging Face.

The file `model.bin` holds, after a head, tensors by name: dimensions, the type of numbers, and the numbers, all little
endian (CTranslate2, `model_spec.py`). Projections that read the same states are joined there.
"""

import json
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from export.checkpoints.reading.checkpoint import CONFIG, WEIGHTS
from export.errors import CheckpointError

Array = npt.NDArray[Any]
TYPES = {0: "<f4", 1: "i1", 2: "<i2", 3: "<i4", 4: "<f2"}
HEAD_WIDTH = 64
"""Of every Whisper; the file does not say it."""
PROJECTIONS = ("q_proj", "k_proj", "v_proj")
ENGLISH_WORDS = 51_864
"""The vocabulary of those of English alone, whose tokens begin one earlier."""
SIZES = {
    "max_source_positions": 1500,
    "max_target_positions": 448,
    "activation_function": "gelu",
    "scale_embedding": False,
}
FEATURES = {
    "feature_extractor_type": "WhisperFeatureExtractor", "sampling_rate": 16_000, "hop_length": 160, "chunk_length": 30,
    "n_fft": 400, "n_samples": 480_000, "nb_max_frames": 3000, "padding_value": 0.0, "return_attention_mask": False,
}  # fmt: skip


def read_tensors(file: Path) -> dict[str, Array]:
    """Return the tensors of a `model.bin` by name. Raises CheckpointError for a file that is cut or another."""
    try:
        with file.open("rb") as opened:
            _number(opened, "I")  # the version of the layout
            _name(opened)
            _number(opened, "I")  # that of the specification
            return dict(_tensor(opened) for _ in range(_number(opened, "I")))
    except (struct.error, KeyError, ValueError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{file.name}: must be of CTranslate2, in a layout that is read") from error


def _number(file: BinaryIO, form: str) -> int:
    return int(struct.unpack(f"<{form}", file.read(struct.calcsize(form)))[0])


def _name(file: BinaryIO) -> str:
    return file.read(_number(file, "H"))[:-1].decode()


def _tensor(file: BinaryIO) -> tuple[str, Array]:
    name = _name(file)
    dimensions = [_number(file, "I") for _ in range(_number(file, "B"))]
    kind = TYPES[_number(file, "B")]
    return name, np.frombuffer(file.read(_number(file, "I")), kind).reshape(dimensions)


def whisper_tensors(read: Mapping[str, Array]) -> dict[str, Array]:
    """Return the tensors of a Whisper under the names that checkpoints of Hugging Face have. Keys have no bias."""
    found: dict[str, Array] = {}

    def linear(name: str, at: str) -> None:
        found[f"{name}.weight"], found[f"{name}.bias"] = read[f"{at}/weight"], read[f"{at}/bias"]

    def norm(name: str, at: str) -> None:
        found[f"{name}.weight"], found[f"{name}.bias"] = read[f"{at}/gamma"], read[f"{at}/beta"]

    def attention(name: str, at: str, *, crossed: bool = False) -> None:
        joined = [f"{at}/linear_0", f"{at}/linear_1"] if crossed else [f"{at}/linear_0"]
        weights, biases = (np.concatenate([read[f"{one}/{part}"] for one in joined]) for part in ("weight", "bias"))
        for projection, weight, bias in zip(PROJECTIONS, np.split(weights, 3), np.split(biases, 3), strict=True):
            found[f"{name}.{projection}.weight"] = weight
            if projection != "k_proj":
                found[f"{name}.{projection}.bias"] = bias
        linear(f"{name}.out_proj", f"{at}/linear_{len(joined)}")

    for side in ("encoder", "decoder"):
        found[f"{side}.embed_positions.weight"] = read[f"{side}/position_encodings/encodings"]
        norm(f"{side}.layer_norm", f"{side}/layer_norm")
        for layer in range(layers_of(read, side)):
            at, name = f"{side}/layer_{layer}", f"{side}.layers.{layer}"
            attention(f"{name}.self_attn", f"{at}/self_attention")
            norm(f"{name}.self_attn_layer_norm", f"{at}/self_attention/layer_norm")
            if side == "decoder":
                attention(f"{name}.encoder_attn", f"{at}/attention", crossed=True)
                norm(f"{name}.encoder_attn_layer_norm", f"{at}/attention/layer_norm")
            norm(f"{name}.final_layer_norm", f"{at}/ffn/layer_norm")
            linear(f"{name}.fc1", f"{at}/ffn/linear_0")
            linear(f"{name}.fc2", f"{at}/ffn/linear_1")
    for convolution in ("conv1", "conv2"):
        linear(f"encoder.{convolution}", f"encoder/{convolution}")
    found["decoder.embed_tokens.weight"] = read["decoder/embeddings/weight"]
    return {f"model.{name}": np.ascontiguousarray(array, np.float32) for name, array in found.items()}


def layers_of(read: Mapping[str, Array], side: str) -> int:
    """Return how many layers a side has."""
    layer = f"{side}/layer_"
    return 1 + max(
        int(number)
        for name in read
        if name.startswith(layer) and (number := name[len(layer) :].split("/")[0]).isdigit()
    )


def write_whisper(source: Path, folder: Path) -> None:
    """Write the checkpoint that a folder of CTranslate2 was made of, with what its release says of it."""
    read = read_tensors(source / "model.bin")
    tensors = whisper_tensors(read)
    save_file(tensors, folder / WEIGHTS)
    vocabulary, width = tensors["model.decoder.embed_tokens.weight"].shape
    bands = tensors["model.encoder.conv1.weight"].shape[1]
    end = 50_257 - (vocabulary == ENGLISH_WORDS)
    tokens = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), end) | {"decoder_start_token_id": end + 1}
    sizes = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            ("layers", layers_of(read, side)),
            ("attention_heads", width // HEAD_WIDTH),
            ("ffn_dim", 4 * width),
        )
    }
    named = {"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper"}
    own = {"vocab_size": vocabulary, "num_mel_bins": bands, "d_model": width}
    _write(folder / CONFIG, {**named, **own, **sizes, **SIZES, **tokens})
    _write(folder / "generation_config.json", tokens | _generation(source, several=vocabulary != ENGLISH_WORDS))
    _write(folder / "preprocessor_config.json", {**FEATURES, "feature_size": bands})
    shutil.copy(source / "tokenizer.json", folder / "tokenizer.json")
    special = dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"), "<|endoftext|>")
    _write(folder / "tokenizer_config.json", {"tokenizer_class": "WhisperTokenizer", **special})


def _generation(source: Path, *, several: bool) -> dict[str, Any]:
    """Return what targets begin with, the tokens that are not written, and the heads that align."""
    given = json.loads((source / "config.json").read_text(encoding="utf-8"))
    tokenizer = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    tokens = {one["content"]: one["id"] for one in tokenizer["added_tokens"]}
    languages = {name: token for name, token in tokens.items() if token in given.get("lang_ids", ())}
    tasks = {name: tokens[f"<|{name}|>"] for name in ("transcribe", "translate")} if several else {}
    return {
        "alignment_heads": given["alignment_heads"],
        "suppress_tokens": given["suppress_ids"],
        "begin_suppress_tokens": given["suppress_ids_begin"],
        "no_timestamps_token_id": tokens["<|notimestamps|>"],
        "prev_sot_token_id": tokens["<|startofprev|>"],
        "max_initial_timestamp_index": 50,
        "max_length": SIZES["max_target_positions"],
        "is_multilingual": several,
        **({"lang_to_id": languages, "task_to_id": tasks} if several else {}),
    }


def _write(file: Path, content: Mapping[str, object]) -> None:
    file.write_text(json.dumps(content), encoding="utf-8")
