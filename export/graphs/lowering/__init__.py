"""The last steps of a graph: 8 bits, half floats, fusions, rewrites for a GPU, blocks of queries, the decode step."""
