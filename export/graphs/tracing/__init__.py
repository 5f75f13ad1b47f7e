"""A definition becomes a graph: torch's export, with operators that ONNX lacks replaced."""
