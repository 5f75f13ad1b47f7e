"""Checkpoints of decoders in the sizes of real ones: every number is random, in bfloat16, as hubs hold them."""

from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

from tests.samples.checkpoints import byte_pairs

SHAPES = {
    "qwen3-0.6b": transformers.Qwen3Config(
        vocab_size=151_936, hidden_size=1024, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
        head_dim=128, intermediate_size=3072, max_position_embeddings=40_960, tie_word_embeddings=True,
    ),
    "llama-1b": transformers.LlamaConfig(
        vocab_size=128_256, hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
        head_dim=64, intermediate_size=8192, max_position_embeddings=131_072, tie_word_embeddings=True,
    ),
    "qwen3-quarter": transformers.Qwen3Config(
        vocab_size=37_984, hidden_size=1024, num_hidden_layers=7, num_attention_heads=16, num_key_value_heads=8,
        head_dim=128, intermediate_size=3072, max_position_embeddings=40_960, tie_word_embeddings=True,
    ),
}  # fmt: skip
"""Qwen3-0.6B (596 million parameters), Llama 3.2 1B (1,236 million), and a quarter of the first."""


def write_checkpoint(folder: Path, shape: str) -> Path:
    """Write the checkpoint of a shape to a folder, and return the folder."""
    config = SHAPES[shape]
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(0)
    tensors = {name: _drawn(name, one, generator) for name, one in model.named_parameters()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config.architectures = [type(model).__name__]
    config.save_pretrained(folder)
    byte_pairs().save(str(folder / "tokenizer.json"))
    return folder


def _drawn(name: str, parameter: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Draw a tensor of a parameter's shape: norms around one, and matrices so large that attention is not uniform."""
    noise = torch.randn(parameter.shape, generator=generator)
    if parameter.ndim == 1:
        return noise.mul_(0.3).add_(1).bfloat16()
    return noise.mul_(0.1 if "embed" in name else 1.5 / parameter.shape[-1] ** 0.5).bfloat16()
