"""A cross-encoder by FastAPI as most write it: a route that calls sentence-transformers' CrossEncoder."""

import argparse
import warnings

import fastapi
import pydantic
import uvicorn
from sentence_transformers import CrossEncoder


class Asked(pydantic.BaseModel):
    """A query and texts to rank."""

    query: str
    texts: list[str]


def application(folder):
    """Return the application; its route runs on FastAPI's threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder = CrossEncoder(folder, device="cpu")
    app = fastapi.FastAPI()

    @app.post("/rerank")
    def rerank(asked: Asked) -> list[float]:
        return encoder.predict([(asked.query, text) for text in asked.texts]).tolist()

    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    uvicorn.run(application(arguments.checkpoint), port=arguments.port, log_level="warning")
