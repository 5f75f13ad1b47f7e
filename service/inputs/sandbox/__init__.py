"""Confined processes that decode images."""
