"""What the clients of Hugging Face's pipelines send, and the forms in which they take answers."""
