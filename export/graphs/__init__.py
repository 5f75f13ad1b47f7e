"""ONNX graphs: traced from PyTorch, extended node by node, fused, and converted to lower precisions."""
