"""Training data: digits drawn and scanned, scenes of digits, written dates."""
