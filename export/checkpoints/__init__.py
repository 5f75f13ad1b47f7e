"""Checkpoints in the Hugging Face layout: their files are read and their tensors fill our definitions."""
