"""Rigs: what must hold under load, hostile input, stops, crashes and faults, tried on real processes."""
