"""Attention as most serve it today: transformers with `output_attentions`, behind FastAPI's own JSON.

A `def` route on a pool of threads; rollout is computed from the weights in PyTorch; nothing is batched.
"""

import argparse
import contextlib
import io

import anyio.to_thread
import numpy as np
import torch
import transformers
import uvicorn
from fastapi import Depends, FastAPI, Request
from PIL import Image

CLASSES = 5


def parameters(given=None):
    """Return what the command line says, `sys.argv` where no other is given."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="folder of a ViT's checkpoint")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, default=1, help="processes, each with weights of its own")
    parser.add_argument("--threads", type=int, default=1, help="of one inference")
    parser.add_argument("--pool", type=int, default=2, help="requests that a process runs at a time")
    return parser.parse_args(given)


def rollout(attentions):
    """Return the class token's row of Abnar & Zuidema's rollout of (1, head, query, key) a layer."""
    through = torch.eye(attentions[0].shape[-1])
    for weights in attentions:
        mixed = weights[0].mean(0) + torch.eye(weights.shape[-1])
        through = mixed / mixed.sum(-1, keepdim=True) @ through
    return through[0]


SHOWN = {
    "rollout": lambda attentions: rollout(attentions).tolist(),
    "class-token": lambda attentions: attentions[-1][0].mean(0)[0].tolist(),
    "everything": lambda attentions: [weights[0].tolist() for weights in attentions],
}


def pixels_of(data, side):
    """Return the bytes of an image as what the model takes; quicker than the library's processor."""
    image = Image.open(io.BytesIO(data)).convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
    scaled = (np.asarray(image, np.float32) / 255 - 0.5) / 0.5
    return torch.from_numpy(scaled).permute(2, 0, 1)[None]


async def body(request: Request):
    return await request.body()


def create():
    """Return the application; every worker process calls this."""
    given = parameters()
    torch.set_num_threads(given.threads)
    model = transformers.ViTForImageClassification.from_pretrained(given.model, attn_implementation="eager").eval()

    @contextlib.asynccontextmanager
    async def lifespan(_):
        anyio.to_thread.current_default_thread_limiter().total_tokens = given.pool
        yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/{shown}")
    def look(shown: str, data: bytes = Depends(body)):
        with torch.inference_mode():
            found = model(pixels_of(data, model.config.image_size), output_attentions=True)
            chances, indices = found.logits[0].softmax(-1).topk(CLASSES)
            labels = [
                {"index": index, "probability": chance}
                for index, chance in zip(indices.tolist(), chances.tolist(), strict=True)
            ]
            return {"labels": labels, "attention": SHOWN[shown](found.attentions)}

    return app


if __name__ == "__main__":
    transformers.utils.logging.disable_progress_bar()
    given = parameters()
    uvicorn.run(
        "serve_transformers:create",
        factory=True,
        port=given.port,
        workers=given.workers,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
    )
