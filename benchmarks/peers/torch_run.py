"""Predicts with PyTorch: `CHECKPOINT CLASS fp32|bf16 eager|compiled INPUTS`, then a JSON line for every run."""

import json
import sys
import time

import numpy as np
import torch
import transformers


def main(checkpoint, kind, precision, way, inputs):
    """Answer each line with the seconds of runs, or with the logits of all inputs."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = (
        getattr(transformers, kind).from_pretrained(checkpoint, dtype=torch.float32, attn_implementation="sdpa").eval()
    )
    if precision == "bf16":
        model.to(torch.bfloat16)
    given = {name: torch.from_numpy(array) for name, array in np.load(inputs).items() if not name.startswith("calib")}
    if "pixels" in given:
        pixels = (given["pixels"].permute(0, 3, 1, 2) / 255 - 0.5) / 0.5
        feed = {"pixel_values": pixels.to(model.dtype)}
    else:
        feed = {"input_ids": given["source"], "attention_mask": given["source_visible"].long()}
        feed["token_type_ids"] = given["source_types"]
    run = torch.compile(model) if way == "compiled" else model
    print(json.dumps({"version": f"torch {torch.__version__}, transformers {transformers.__version__}"}), flush=True)
    with torch.inference_mode():
        for line in sys.stdin:
            asked = json.loads(line)
            if "batch" in asked:
                part = {name: array[: asked["batch"]].contiguous() for name, array in feed.items()}
                seconds = []
                for _ in range(asked["runs"]):
                    start = time.perf_counter()
                    run(**part)
                    seconds.append(time.perf_counter() - start)
                print(json.dumps({"seconds": seconds}), flush=True)
            else:
                parts = [
                    {name: array[at : at + 8] for name, array in feed.items()}
                    for at in range(0, len(next(iter(feed.values()))), 8)
                ]
                logits = torch.cat([run(**part).logits.float() for part in parts])
                print(json.dumps({"logits": logits.tolist()}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
