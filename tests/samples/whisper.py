"""Small checkpoints of Whisper in the form of the reference library, with sharp attention."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import WhisperConfig, WhisperForConditionalGeneration

LETTERS = 256
SPECIAL = ("<|endoftext|>", "<|startoftranscript|>")
OTHERS = ("<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>")
TIMES = 51
"""Steps of 0.02 s in a second, both ends included."""
SECONDS = 1
SMALL = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_source_positions": 50 * SECONDS, "max_target_positions": 64,
}  # fmt: skip


def save_whisper(
    folder: Path,
    languages: tuple[str, ...] = ("en", "de", "fr"),
    seed: int = 0,
    sizes: Mapping[str, int] = SMALL,
) -> Path:
    """Save a Whisper that hears one second at a time, or of other sizes; without languages it is of English alone.

    Return the folder.
    """
    torch.manual_seed(seed)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = [*SPECIAL, *(f"<|{code}|>" for code in languages), *OTHERS]
    times = [f"<|{step * 0.02:.2f}|>" for step in range(TIMES)]
    tokenizer = Tokenizer(models.BPE({letter: place for place, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in names])
    tokenizer.add_tokens([AddedToken(name, special=False) for name in times])
    of = tokenizer.token_to_id
    config = WhisperConfig(
        **{"vocab_size": LETTERS + len(names) + TIMES, **sizes}, num_mel_bins=80, pad_token_id=of(SPECIAL[0]),
        bos_token_id=of(SPECIAL[0]), eos_token_id=of(SPECIAL[0]), decoder_start_token_id=of(SPECIAL[1]),
        suppress_tokens=[], begin_suppress_tokens=[],
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, tensor in model.named_parameters() if sizes is SMALL else ():
            if "decoder.embed_positions" in name:
                tensor.normal_(0, 1)  # so that what follows is not what was before
            elif "embed_tokens" in name:
                tensor.normal_(0, 0.2)
                tensor[-TIMES:] *= 0.6  # times are rare where nobody asks for them
            elif tensor.ndim > 1 and "embed_positions" not in name:
                sharp = 20 if "conv" in name or "encoder_attn" in name else 6 if "_proj" in name else 2
                tensor.mul_(sharp)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    said = {"pad_token": SPECIAL[0], "eos_token": SPECIAL[0], "bos_token": SPECIAL[0]}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "WhisperTokenizerFast", **said}))
    seconds = sizes["max_source_positions"] // 50
    length = seconds * 16_000
    features = {
        "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 80, "sampling_rate": 16_000,
        "hop_length": 160, "chunk_length": seconds, "n_fft": 400, "n_samples": length, "nb_max_frames": length // 160,
        "padding_side": "right", "padding_value": 0.0, "return_attention_mask": False,
    }  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(features))
    generation = {
        "alignment_heads": [[0, 1], [1, 0]], "decoder_start_token_id": of(SPECIAL[1]), "eos_token_id": of(SPECIAL[0]),
        "pad_token_id": of(SPECIAL[0]), "bos_token_id": of(SPECIAL[0]), "max_length": sizes["max_target_positions"],
        "is_multilingual": bool(languages),
        "no_timestamps_token_id": of("<|notimestamps|>"), "prev_sot_token_id": of("<|startofprev|>"),
        "max_initial_timestamp_index": 20, "return_timestamps": False,
        "suppress_tokens": [of(name) for name in (*SPECIAL[1:], *OTHERS[:5])],
        "begin_suppress_tokens": [of(SPECIAL[0])],
        **({"lang_to_id": {f"<|{code}|>": of(f"<|{code}|>") for code in languages},
            "task_to_id": {"transcribe": of("<|transcribe|>"), "translate": of("<|translate|>")}} if languages else {}),
    }  # fmt: skip
    (folder / "generation_config.json").write_text(json.dumps(generation))
    return folder


def export_whispers(folder: Path) -> None:
    """Make the artifacts of two small checkpoints, one of several languages and one of English."""
    from tests.samples.export_command import export_command

    for name, languages in (("several", ("en", "de", "fr")), ("english", ())):
        with tempfile.TemporaryDirectory() as temporary:
            checkpoint = save_whisper(Path(temporary) / name, languages)
            assert export_command(str(checkpoint), "--name", name, "--to", str(folder)) == 0
