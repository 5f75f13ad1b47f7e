"""Answers in JSON. Large arrays are serialized without passing through Python numbers."""

from collections.abc import Sequence

import orjson
from starlette.responses import Response

from contract.example import Example
from contract.manifest import Manifest
from service.answering.earlier import id_of_input
from service.answering.modalities import modality_of
from service.errors import NotFound
from service.explanations.answer import AttentionAnswer
from service.explanations.query import methods_of, runs_of
from service.explanations.score import baselines_of
from service.explanations.usual import usual
from service.generation.token_selection import Alternatives
from service.repository.explaining.long_texts import explained_tokens
from service.repository.models.generator import Generator
from service.repository.models.predictor import Classifier, Predictor
from service.repository.models.served_model import ServedModel
from service.repository.models.transcriber import DEFAULT_TASK


def answer(answer_id: str, served: ServedModel, results: Sequence[dict[str, object]]) -> dict[str, object]:
    """Return the document of an answer. Of several results each has the id of its input."""
    manifest = served.manifest
    shown = list(results)
    if len(shown) > 1:
        shown = [{"id": id_of_input(answer_id, number, len(shown)), **one} for number, one in enumerate(shown)]
    return {"id": answer_id, "model": manifest.name, "version": manifest.version, "results": shown}


def dump(body: object) -> bytes:
    """Serialize an answer, arrays included."""
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


def respond(body: object) -> Response:
    """Answer with JSON."""
    return Response(dump(body), media_type="application/json")


def result(shown: dict[str, object], attention: AttentionAnswer | None) -> dict[str, object]:
    """Return what an answer says of one input."""
    return {**shown, "attention": attention.json()} if attention else shown


def alternatives(served: Generator, found: Alternatives) -> dict[str, object]:
    """Return what is said of the likeliest tokens at a token's place; nothing if they were not asked for."""
    if not found:
        return {}
    text_of = served.target_tokenizer.text_of
    return {"alternatives": [{"token": token, "text": text_of(token), "log_probability": log} for token, log in found]}


def entry(served: ServedModel) -> dict[str, object]:
    """Return what a list of models in OpenAI's protocol says of one."""
    return {"id": served.manifest.name, "object": "model", "created": served.created, "owned_by": "regard"}


def describe(served: ServedModel) -> dict[str, object]:
    """Return what `GET /v1/models/{model}` says."""
    manifest, settings = served.manifest, served.settings
    session = next(iter(served.sessions.values()))
    generation = manifest.generation
    limits = {"answer_bytes": settings.max_answer_bytes, **modality_of(served).limits(settings)}
    if generation:
        limits |= {"max_new_tokens": generation.max_new_tokens, "num_beams": settings.max_beams}
    if isinstance(served, Generator) and served.inputs.tokenizer:
        limits["explained_tokens"] = {
            method: explained_tokens(served, method, runs_of(method)) for method in served.gradient_methods
        }
    return {
        "name": manifest.name,
        "version": manifest.version,
        "family": manifest.family,
        "task": manifest.task,
        "about": manifest.about,
        "order": manifest.order,
        "examples": [_example(manifest, index) for index in range(len(manifest.examples))],
        "state": served.state,
        "ready": served.ready,
        **entry(served),
        "provider": session.provider,
        "precision": manifest.precision,
        "weights_sha256": manifest.made_by.get("weights_sha256"),
        "scales": manifest.scales,
        "endpoints": list(served.endpoints),
        "inputs": _inputs(served),
        "labels": list(manifest.labels) if len(manifest.labels) <= 100 else len(manifest.labels),
        "attention": {
            "methods": methods_of(manifest),
            "best": manifest.best.model_dump() if manifest.best else None,
            "usual": usual(manifest),
            "baselines": baselines_of(manifest),
            "kinds": {
                kind.name: {
                    "kind": kind.kind,
                    "layers": len(kind.maps),
                    "blocks": kind.blocks,
                    "heads": kind.heads,
                    "query": kind.query,
                    "key": kind.key,
                    "prefix": kind.prefix,
                    "suffix": kind.suffix,
                    "windows": [window.model_dump() for window in kind.windows],
                    "grid": {"rows": kind.grid[0], "columns": kind.grid[1]} if kind.grid else None,
                    "normalized": kind.normalized,
                    "abreast": kind.parallel,
                    "methods": list(kind.methods),
                    "inside": "inside" in manifest.graphs,
                    "maps": list(kind.maps),
                }
                for kind in manifest.attention
            },
            "fidelity": manifest.verified,
        },
        "limits": limits,
    } | _own(served)


def _own(served: ServedModel) -> dict[str, object]:
    """Return what is said of some models alone.

    They are those of entailment, those that are compared, detectors, those that sample, those that translate, and
    those that hear.
    """
    manifest, own = served.manifest, dict[str, object]()
    if isinstance(served, Classifier) and served.entailment:
        own["zero_shot"] = dict(zip(("entailment", "contradiction"), served.entailment, strict=True))
    if contrast := manifest.contrast:
        own["contrast"] = contrast.model_dump(exclude={"pair"})
    if manifest.detection:
        own["detection"] = manifest.detection.model_dump()
    if generation := manifest.generation:
        if generation.sampling:
            own["sampling"] = generation.sampling.model_dump()
        if languages := generation.languages:
            codes = list(languages.tokens)
            own["languages"] = {"codes": codes, "source": languages.source, "target": languages.target}
        if speech := generation.speech:
            own["speech"] = {
                "languages": list(speech.languages),
                "tasks": list(speech.tasks) or [DEFAULT_TASK],
                "timestamps": ["none", "word"] if speech.first_time is None else ["none", "word", "segment"],
            }
    return own


def _example(manifest: Manifest, index: int) -> dict[str, object]:
    """Return an example's texts, or where its picture or sound is found, and the media type and labels that it has."""
    example = manifest.examples[index]
    if example.file:
        sort = "image" if example.image else "sound"
        labels = {} if example.labels is None else {"labels": example.labels}
        return {sort: f"/v1/models/{manifest.name}/examples/{index}", "type": example.media_type, **labels}
    return _texts(manifest, example)


def _texts(manifest: Manifest, example: Example) -> dict[str, object]:
    """Return the texts of an example, or the graph that its text is."""
    return {"graph": orjson.loads(example.text or "")} if manifest.graph else example.model_dump(exclude_none=True)


def example(served: ServedModel, number: str) -> Response:
    """Answer with an example: its file, or its texts in JSON. Raises NotFound for a number that none has."""
    examples = {str(index): one for index, one in enumerate(served.manifest.examples)}
    if number not in examples:
        has = f"must be 0 to {len(examples) - 1}" if examples else "this model has none"
        raise NotFound(f"example: {has}, given another")
    one = examples[number]
    if not one.file:
        return respond(_texts(served.manifest, one))
    # the export chose the type; every answer says nosniff, so no browser finds another in it
    return Response(served.example_files[one.file], media_type=one.media_type)


def _inputs(served: ServedModel) -> dict[str, object]:
    described = served.inputs.description()
    return described | {"mask": served.mask} if isinstance(served, Predictor) and served.mask else described
