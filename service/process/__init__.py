"""The processes: start, listen, stop, and several workers."""
