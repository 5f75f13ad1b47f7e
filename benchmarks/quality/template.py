"""The text of docs/quality.md around its tables."""

TEMPLATE = """{glyphs}{spots}{digits}{captions}{reversal}{minilm}{judge}{cost}{random_weights}{dates}{layers}{best}{asked}
"""
