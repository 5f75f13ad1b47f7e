"""OpenAI's protocol: embeddings and completions."""
