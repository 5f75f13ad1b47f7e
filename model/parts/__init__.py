"""What models are composed of: attention, positions, blocks, heads, embeddings."""
