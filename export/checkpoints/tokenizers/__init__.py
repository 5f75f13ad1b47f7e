"""Tokenizers of checkpoints, as one `tokenizer.json`."""
