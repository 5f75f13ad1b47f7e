"""Predicts with OpenVINO: `MODEL.onnx fp32|bf16|int8 INPUTS FOLDER`, then a JSON line for every run.

8-bit models are calibrated with the inputs whose names begin with `calibration.`, and kept in the folder.
"""

import json
import os
import sys
import time
from pathlib import Path

import nncf
import numpy as np
import openvino as ov


def quantized(core, model, given, kept):
    """Return the 8-bit model, which is made if it is not there."""
    if not kept.exists():
        few = {name.removeprefix("calibration."): array for name, array in given.items() if name.startswith("calib")}
        count = len(next(iter(few.values())))
        samples = nncf.Dataset([{name: array[at : at + 1] for name, array in few.items()} for at in range(count)])
        kind = nncf.ModelType.TRANSFORMER
        ov.save_model(nncf.quantize(model, samples, model_type=kind, subset_size=count), kept, compress_to_fp16=False)
    return core.read_model(kept)


def main(path, precision, inputs, folder):
    """Answer each line with the seconds of runs, or with the logits of all inputs."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    core, given = ov.Core(), dict(np.load(inputs))
    model = core.read_model(path)
    if precision == "int8":
        model = quantized(core, model, given, Path(folder, f"{Path(path).parent.parent.name}.int8.xml"))
    feed = {name: array for name, array in given.items() if not name.startswith("calib")}
    hints = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": os.cpu_count()}
    if precision != "int8":
        hints["INFERENCE_PRECISION_HINT"] = {"fp32": "f32", "bf16": "bf16"}[precision]
    ready = {}

    def request(batch):
        if batch not in ready:
            fixed = model.clone()
            fixed.reshape({port: [batch, *feed[port.any_name].shape[1:]] for port in fixed.inputs})
            ready[batch] = core.compile_model(fixed, "CPU", hints).create_infer_request()
        return ready[batch]

    used = request(1).get_compiled_model().get_property("INFERENCE_PRECISION_HINT").get_type_name()
    about = {"version": f"openvino {ov.__version__.split('-')[0]}, nncf {nncf.__version__}", "rest": used}
    print(json.dumps(about), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "batch" in asked:
            part = {name: np.ascontiguousarray(array[: asked["batch"]]) for name, array in feed.items()}
            ask, seconds = request(asked["batch"]), []
            for _ in range(asked["runs"]):
                start = time.perf_counter()
                ask.infer(part)
                seconds.append(time.perf_counter() - start)
            print(json.dumps({"seconds": seconds}), file=answers, flush=True)
        else:
            logits = []
            for at in range(0, len(next(iter(feed.values()))), 8):
                found = request(8).infer({name: array[at : at + 8] for name, array in feed.items()})
                logits += found[request(8).get_compiled_model().output(0)].tolist()
            print(json.dumps({"logits": logits}), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
