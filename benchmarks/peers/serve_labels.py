"""Labels of pictures by FastAPI as most write it: a route that calls transformers' CLIPModel, and keeps labels."""

import argparse
import base64
import functools
import io

import fastapi
import pydantic
import torch
import transformers
import uvicorn
from PIL import Image


class Asked(pydantic.BaseModel):
    """A picture in base64, and the sentences of labels."""

    image: str
    texts: list[str]


def application(folder: str, kept: int) -> fastapi.FastAPI:
    """Return the application; its route runs on FastAPI's threads, and keeps the vectors of some sentences."""
    model = transformers.CLIPModel.from_pretrained(folder).eval()
    pixels_of = transformers.CLIPImageProcessorPil.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    @functools.lru_cache(kept)
    def vectors(texts: tuple[str, ...]) -> torch.Tensor:
        found = model.get_text_features(**tokenizer(list(texts), padding=True, return_tensors="pt")).pooler_output
        return found / found.norm(dim=1, keepdim=True)

    app = fastapi.FastAPI()

    @app.post("/classify")
    def classify(asked: Asked) -> list[float]:
        with torch.inference_mode():
            image = Image.open(io.BytesIO(base64.b64decode(asked.image))).convert("RGB")
            found = model.get_image_features(**pixels_of(image, return_tensors="pt")).pooler_output[0]
            scores = vectors(tuple(asked.texts)) @ (found / found.norm()) * model.logit_scale.exp()
            return scores.softmax(0).tolist()

    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    uvicorn.run(application(arguments.checkpoint, 64), port=arguments.port, log_level="warning")
