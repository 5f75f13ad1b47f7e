"""Text generation: the decode loop, its key-value caches, and the selection of the next token."""
