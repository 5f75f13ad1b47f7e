"""A file of CTranslate2, written here by its layout, becomes the checkpoint of the reference library."""

import json
import struct

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from export.checkpoints.reading.checkpoint import WEIGHTS
from export.ctranslate2 import read_tensors, write_whisper
from export.errors import CheckpointError

KINDS = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4}


def written(tensors):
    def name(text):
        return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"

    found = struct.pack("<I", 6) + name("WhisperSpec") + struct.pack("<II", 3, len(tensors))
    for key, array in tensors.items():
        sizes = b"".join(struct.pack("<I", side) for side in array.shape)
        data = array.tobytes()
        found += name(key) + struct.pack("<B", array.ndim) + sizes
        found += struct.pack("<BI", KINDS[str(array.dtype)], len(data)) + data
    return found


def joined(state, at, projections):
    weights = np.concatenate([state[f"{at}.{one}.weight"] for one in projections])
    nothing = np.zeros_like(state[f"{at}.q_proj.bias"])
    return weights, np.concatenate([state.get(f"{at}.{one}.bias", nothing) for one in projections])


def specification(state, layers):
    """The tensors as CTranslate2 names and joins them."""
    found = {}

    def put(name, weight, bias, parts=("weight", "bias")):
        found.update({f"{name}/{part}": array for part, array in zip(parts, (weight, bias), strict=True)})

    def copy(name, at, parts=("weight", "bias")):
        put(name, state[f"{at}.weight"], state[f"{at}.bias"], parts)

    norm = ("gamma", "beta")
    for side in ("encoder", "decoder"):
        found[f"{side}/position_encodings/encodings"] = state[f"{side}.embed_positions.weight"]
        copy(f"{side}/layer_norm", f"{side}.layer_norm", norm)
        for layer in range(layers):
            name, at = f"{side}/layer_{layer}", f"{side}.layers.{layer}"
            put(f"{name}/self_attention/linear_0", *joined(state, f"{at}.self_attn", ("q_proj", "k_proj", "v_proj")))
            copy(f"{name}/self_attention/linear_1", f"{at}.self_attn.out_proj")
            copy(f"{name}/self_attention/layer_norm", f"{at}.self_attn_layer_norm", norm)
            if side == "decoder":
                put(f"{name}/attention/linear_0", *joined(state, f"{at}.encoder_attn", ("q_proj",)))
                put(f"{name}/attention/linear_1", *joined(state, f"{at}.encoder_attn", ("k_proj", "v_proj")))
                copy(f"{name}/attention/linear_2", f"{at}.encoder_attn.out_proj")
                copy(f"{name}/attention/layer_norm", f"{at}.encoder_attn_layer_norm", norm)
            copy(f"{name}/ffn/layer_norm", f"{at}.final_layer_norm", norm)
            copy(f"{name}/ffn/linear_0", f"{at}.fc1")
            copy(f"{name}/ffn/linear_1", f"{at}.fc2")
    copy("encoder/conv1", "encoder.conv1")
    copy("encoder/conv2", "encoder.conv2")
    found["decoder/embeddings/weight"] = state["decoder.embed_tokens.weight"]
    return found


def test_a_whisper_has_the_tensors_and_sizes_that_it_was_made_of(tmp_path):
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    torch.manual_seed(0)
    config = WhisperConfig(
        vocab_size=60, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=1,
        decoder_attention_heads=1, encoder_ffn_dim=256, decoder_ffn_dim=256, pad_token_id=1, bos_token_id=1,
        eos_token_id=1, decoder_start_token_id=2, suppress_tokens=[], begin_suppress_tokens=[],
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config)
    state = {
        name.removeprefix("model."): tensor.numpy()
        for name, tensor in model.state_dict().items()
        if name != "proj_out.weight"
    }
    (tmp_path / "model.bin").write_bytes(written(specification(state, 2)))
    said = {"alignment_heads": [[1, 0]], "suppress_ids": [3], "suppress_ids_begin": [4], "lang_ids": [50, 51]}
    (tmp_path / "config.json").write_text(json.dumps(said))
    special = ["<|en|>", "<|de|>", "<|translate|>", "<|transcribe|>", "<|startofprev|>", "<|notimestamps|>"]
    added = [{"content": name, "id": 50 + place} for place, name in enumerate(special)]
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))
    folder = tmp_path / "made"
    folder.mkdir()
    write_whisper(tmp_path, folder)
    found = load_file(folder / WEIGHTS)
    assert found.keys() == {f"model.{name}" for name in state}
    for name, array in state.items():
        np.testing.assert_array_equal(found[f"model.{name}"], array, err_msg=name)
    read = json.loads((folder / "config.json").read_text())
    wanted = config.to_dict()
    own = read.keys() - {"architectures", "bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"}
    assert {name: read[name] for name in own} == {name: wanted[name] for name in own}
    rules = json.loads((folder / "generation_config.json").read_text())
    assert rules["lang_to_id"] == {"<|en|>": 50, "<|de|>": 51}
    assert (rules["no_timestamps_token_id"], rules["is_multilingual"]) == (55, True)


@pytest.mark.parametrize("data", [b"", b"abc", written({"a": np.zeros(3, np.float32)})[:-5]])
def test_another_file_is_refused(tmp_path, data):
    file = tmp_path / "model.bin"
    file.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"^model\.bin: must be of CTranslate2"):
        read_tensors(file)
