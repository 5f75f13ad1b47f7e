import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # as in service/__init__.py: onnxruntime reads it when it is imported
