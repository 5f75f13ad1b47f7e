"""The attention that a request asks for: its query, the size of the answer, the answer, its drawing. Runs nothing."""
