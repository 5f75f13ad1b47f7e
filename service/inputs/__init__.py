"""Texts to tokens and images to pixels."""
