"""Checkpoints in the Hugging Face layout: opened, read, fitted to our definitions."""
