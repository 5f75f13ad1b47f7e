"""Predicts with OpenVINO's provider of onnxruntime: `MODEL.onnx INPUTS`, then a JSON line for every run."""

import json
import os
import sys
import time

import numpy as np
import onnxruntime as ort

PROVIDER = "OpenVINOExecutionProvider"


def main(path, inputs):
    """Answer each line with the seconds of runs, or with the logits of all inputs."""
    given = {name: array for name, array in np.load(inputs).items() if not name.startswith("calib")}
    options = ort.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # as the service has it
    hints = {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": os.cpu_count()}
    provider = (PROVIDER, {"device_type": "CPU", "load_config": json.dumps({"CPU": hints})})
    session = ort.InferenceSession(path, options, providers=[provider])
    if session.get_providers()[0] != PROVIDER:
        raise RuntimeError(f"runs on {session.get_providers()[0]}")
    feed = {port.name: given[port.name] for port in session.get_inputs()}
    count = len(next(iter(feed.values())))
    print(json.dumps({"version": f"onnxruntime-openvino {ort.__version__}"}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "batch" in asked:
            part, seconds = {name: array[: asked["batch"]] for name, array in feed.items()}, []
            for _ in range(asked["runs"]):
                start = time.perf_counter()
                session.run(None, part)
                seconds.append(time.perf_counter() - start)
            print(json.dumps({"seconds": seconds}), flush=True)
        else:
            parts = [{name: array[at : at + 8] for name, array in feed.items()} for at in range(0, count, 8)]
            logits = np.concatenate([session.run(None, part)[0] for part in parts])
            print(json.dumps({"logits": logits.tolist()}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
