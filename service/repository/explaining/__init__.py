"""What explains an answer of a loaded model."""
