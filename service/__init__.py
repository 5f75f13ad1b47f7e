"""Serves artifacts over HTTP. Nothing here imports torch."""

import os

# onnxruntime reads it when it is imported, and would otherwise report each use to its maker and write a device id and a
# database into the home folder; nothing that this package runs may do that, whatever the environment says
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

VERSION = "0.1.0"
