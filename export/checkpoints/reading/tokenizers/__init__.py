"""Tokenizers in other forms than tokenizer.json are converted to it."""
