"""Export a definition and its weights to an artifact: trace, derive graphs, verify, pack."""
