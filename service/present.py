"""Present: arrays to answers. Large arrays go to JSON without passing through Python numbers."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import orjson
from starlette.responses import Response

from service.attention import METHODS, Ask, rollable
from service.images import Picture
from service.search import Hypothesis
from service.served import Logits, ReadMaps, Served, TextGenerator
from service.texts import Token


def answer(request_id: str, served: Served, results: Sequence[dict[str, object]]) -> dict[str, object]:
    """Return what every prediction is wrapped in."""
    manifest = served.manifest
    return {"id": request_id, "model": manifest.name, "version": manifest.version, "results": list(results)}


def dump(body: object) -> bytes:
    """Serialize an answer, arrays included."""
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


def respond(body: object) -> Response:
    """Answer with JSON."""
    return Response(dump(body), media_type="application/json")


def labels(served: Served, logits: Logits, top_k: int) -> list[dict[str, object]]:
    """Return the likeliest labels, best first; equals in the order of their indices."""
    probabilities = softmax(logits)
    order = np.argsort(-probabilities, kind="stable")[:top_k]
    names = served.manifest.labels
    return [
        {
            "label": names[index] if names else str(index),
            "index": int(index),
            "probability": float(probabilities[index]),
        }
        for index in order
    ]


def sequence(served: TextGenerator, hypothesis: Hypothesis, penalty: float) -> dict[str, object]:
    """Return a generated text with its tokens, its score, and whether it ended or was cut."""
    end = served.generation.end
    tokens = [token for token in served.texts.generated(hypothesis.tokens, end) if token.span is not None]
    return {
        "text": served.texts.decode([token.index for token in tokens]),
        "tokens": [
            {"index": place, "token": token.index, "text": token.text, "log_probability": log}
            for place, (token, log) in enumerate(zip(tokens, hypothesis.logs, strict=False))
        ],
        "score": hypothesis.score(penalty),
        "finish_reason": "stop" if hypothesis.tokens[-1] == end else "length",
    }


def image_attention(served: Served, ask: Ask, maps: ReadMaps, picture: Picture) -> dict[str, object]:
    """Return maps with the grid that their tokens make and the rectangle of the image that the grid covers."""
    kind = served.manifest.attention[0]
    rows, columns = kind.grid or (0, 0)
    left, top, right, bottom = (round(edge, 2) for edge in picture.box)
    return {
        "method": ask.method,
        "maps": maps,
        "tokens": {"grid": {"rows": rows, "columns": columns}, "prefix": kind.prefix},
        "image": {
            "width": picture.width,
            "height": picture.height,
            "box": {"left": left, "top": top, "right": right, "bottom": bottom},
        },
    }


def text_attention(
    served: TextGenerator, ask: Ask, maps: ReadMaps, source: Sequence[Token], target: Sequence[int]
) -> dict[str, object]:
    """Return maps with the tokens of their axes: `target` is what each row emitted, `target_input` what it was fed."""
    start = served.generation.start
    emitted = served.texts.generated(target, served.generation.end)
    fed = [Token(start, served.texts.piece(start), None), *emitted[:-1]]
    axes = {"source": source, "target": emitted, "target_input": fed}
    return {
        "method": ask.method,
        "maps": maps,
        "tokens": {axis: [token.json() for token in tokens] for axis, tokens in axes.items()},
    }


def describe(served: Served) -> dict[str, object]:
    """Return what `GET /v1/models/{model}` says."""
    manifest, settings = served.manifest, served.settings
    session = next(iter(served.sessions.values()))
    image, text, generation = manifest.image, manifest.text, manifest.generation
    limits: dict[str, object] = {"inputs": settings.max_inputs, "answer_bytes": settings.max_answer_bytes}
    if image:
        limits |= {"image_bytes": settings.max_image_bytes, "image_pixels": settings.max_image_pixels}
    if generation:
        limits |= {"max_new_tokens": generation.max_new_tokens, "num_beams": settings.max_beams}
    return {
        "name": manifest.name,
        "version": manifest.version,
        "family": manifest.family,
        "task": manifest.task,
        "state": "ready" if served.ready else "warming up",
        "provider": session.provider,
        "precision": manifest.precision,
        "endpoints": list(served.endpoints),
        "inputs": {"height": image.height, "width": image.width, "channels": image.channels}
        if image
        else {"max_tokens": text.max_tokens if text else None},
        "labels": list(manifest.labels) if len(manifest.labels) <= 100 else len(manifest.labels),
        "attention": {
            "methods": list(METHODS),
            "kinds": {
                kind.kind: {
                    "layers": len(kind.maps),
                    "heads": kind.heads,
                    "query": kind.query,
                    "key": kind.key,
                    "prefix": kind.prefix,
                    "grid": {"rows": kind.grid[0], "columns": kind.grid[1]} if kind.grid else None,
                    "normalized": kind.normalized,
                    "methods": [method for method in METHODS if method != "rollout" or rollable(kind)],
                    "maps": list(kind.maps),
                }
                for kind in manifest.attention
            },
            "fidelity": manifest.verified,
        },
        "limits": limits,
    }


def softmax(logits: Logits) -> npt.NDArray[np.float64]:
    """Return probabilities along the last axis, in float64."""
    exact = np.exp(logits.astype(np.float64) - float(logits.max()))
    return exact / math.fsum(exact)
