"""The protocols of rerankers, whose documents name the model: Jina's and Cohere's `rerank`, and vLLM's `score`."""
