"""Artifact to HTTP: route, decode, batch, run, present. No torch here."""

VERSION = "0.1.0"
