"""What Hugging Face's clients speak: pipelines at a model's own path, and Text Embeddings Inference beneath it."""
