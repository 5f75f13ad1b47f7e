"""Checks of an artifact: its graphs against the definition in float64, and the losses of 8 bits."""
