"""The decode loop: key-value caches, and how the next token is selected."""
