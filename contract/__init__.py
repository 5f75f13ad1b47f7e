"""What an artifact is: the manifest, and how to read and check one. Standard library and pydantic only."""
