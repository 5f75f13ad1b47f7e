"""onnxruntime: sessions, providers, the device and its thread."""
