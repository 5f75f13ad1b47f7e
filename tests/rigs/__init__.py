"""Rigs: what must hold under load, hostile input, stops, crashes and faults, and in Firefox; on real processes."""
