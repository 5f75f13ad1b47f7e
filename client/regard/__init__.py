"""Asks a regard service: predictions, and what a model looked at."""
