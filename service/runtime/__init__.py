"""The use of onnxruntime: sessions, execution providers, and the device with a thread for each core."""
