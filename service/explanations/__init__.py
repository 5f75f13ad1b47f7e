"""Attention that a request asks for: the question, the answer and its drawing. Runs nothing."""
