import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # as in service/__init__.py: onnxruntime reads it when it is imported

for name in [name for name in os.environ if name.startswith("REGARD_")]:
    del os.environ[name]  # every test chooses its own settings, and gives the processes it starts no others
