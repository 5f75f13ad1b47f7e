"""Embeddings by FastAPI as most write it: a route that tokenises a text and runs the graph, on a pool of threads."""

from pathlib import Path

import numpy as np
import orjson
from serve_fastapi import application, run
from shared import parameters, session
from tokenizers import Tokenizer


def create():
    """Return the application, which answers as OpenAI's endpoint does; every worker process calls this."""
    given = parameters()
    graph = session(given.model, given.threads)
    tokenizer = Tokenizer.from_file(str(Path(given.model).with_name("tokenizer.json")))
    tokenizer.no_padding()

    def embed(data):
        found = tokenizer.encode(orjson.loads(data)["input"])
        feed = {
            "source": np.array([found.ids], np.int64),
            "source_visible": np.ones((1, len(found.ids)), bool),
            "source_types": np.array([found.type_ids], np.int64),
        }
        (rows,) = graph.run(["embeddings"], feed)
        return {"data": [{"embedding": rows[0].tolist(), "index": 0, "object": "embedding"}], "object": "list"}

    return application("/v1/embeddings", embed, given.pool)


if __name__ == "__main__":
    run("serve_embedding:create")
