"""Tokenizers, all in the format of `tokenizer.json`."""
