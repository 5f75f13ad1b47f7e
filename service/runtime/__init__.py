"""The use of onnxruntime: sessions, execution providers, and the device with its thread."""
