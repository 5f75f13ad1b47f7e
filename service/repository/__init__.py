"""Loaded models: loading, reloading, predicting, generating, explaining."""
