"""Artifact to HTTP: route, decode, batch, run, present. No torch here."""
