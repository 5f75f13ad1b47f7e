"""The attention that a request asks for: the query, the size of its answer, the answer and its drawing. Runs nothing."""
