"""Serves artifacts over HTTP. Nothing here imports torch."""

VERSION = "0.1.0"
