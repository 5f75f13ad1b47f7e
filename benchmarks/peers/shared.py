"""What every peer does alike: its parameters, its session, and the way from a JPEG to five classes.

Runs in a peer's own environment: it imports nothing of this project.
"""

import argparse
import io

import numpy as np
import onnxruntime as ort
from PIL import Image

CLASSES = 5


def parameters(given=None):
    """Return what the command line says, `sys.argv` where no other is given."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="predict.onnx of an artifact")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, default=1, help="processes, each with a session of its own")
    parser.add_argument("--threads", type=int, default=1, help="of one inference")
    parser.add_argument("--batch", type=int, default=1, help="images that run together at most")
    parser.add_argument("--timeout", type=float, default=0, help="milliseconds that a batch waits to fill")
    parser.add_argument("--pool", type=int, default=2, help="threads that decode")
    return parser.parse_args(given)


def session(path, threads):
    """Return a session whose threads do not spin while they wait: the server needs the cores too."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return ort.InferenceSession(path, options, ["CPUExecutionProvider"])


class Model:
    """The graph that regard serves."""

    def __init__(self, path, threads):
        self.session = session(path, threads)
        _, height, width, channels = self.session.get_inputs()[0].shape
        self.size, self.mode = (width, height), "RGB" if channels == 3 else "L"

    def decode(self, data):
        """Return the bytes of an image as uint8 (height, width, channels)."""
        image = Image.open(io.BytesIO(data)).convert(self.mode)
        pixels = np.asarray(image.resize(self.size, Image.Resampling.BILINEAR))
        return pixels if self.mode == "RGB" else pixels[:, :, None]

    def classify(self, images):
        """Run decoded images together; return an answer each."""
        (logits,) = self.session.run(["logits"], {"pixels": np.stack(images)})
        return [answer(row) for row in logits]


def answer(logits):
    """Return the likeliest classes, best first."""
    chances = np.exp(logits - logits.max())
    chances /= chances.sum()
    best = np.argsort(-chances)[:CLASSES]
    return {"labels": [{"index": int(index), "probability": float(chances[index])} for index in best]}
