"""What a model was fed of an earlier request: its pixels, tokens, samples or nodes, after all that prepares them."""

import base64
import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from PIL import Image

from contract.input_rules import SAMPLES, GraphRule, ImageRule, SoundRule, TextRule
from contract.manifest import SHOWN
from service.answering.call import Call
from service.answering.earlier import check_one_input, prepare_earlier
from service.answering.modalities import permit_decoding
from service.inputs.model_input import ModelInput, cost_of
from service.options.base import RequestOptions
from service.repository.models.served_model import ServedModel
from service.store.stored_request import StoredRequest


async def what_was_fed(call: Call[ServedModel], options: RequestOptions, stored: StoredRequest) -> dict[str, object]:
    """Return what the model was fed of a stored request, prepared as it was then.

    Raises Unacceptable for a request of several inputs, and Busy.
    """
    check_one_input(stored)
    served, modality, caller = call.served, call.modality, call.caller(options)
    cost = sum(map(cost_of, modality.likely_lengths(stored.inputs)))
    with served.prediction_budget.permit(cost, caller):
        pending = await prepare_earlier(call.state, served, stored)
        with permit_decoding([pending], caller):
            item = await pending.decode()
            show, rule = OF_MODALITY[served.inputs.modality], served.manifest.inputs[0]
            return await call.state.present(served.manifest.name, served.prediction_budget, show, item, rule)


def _pixels(item: ModelInput, rule: ImageRule) -> dict[str, object]:
    """Return the pixels as a png, where in the image they come from, and their numbers as the graph normalises them."""
    pixels = item.arrays["pixels"]  # (height, width, channels) of uint8
    file = io.BytesIO()
    Image.fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels).save(file, "PNG")
    normal = (pixels / 255 - np.array(rule.mean)) / np.array(rule.std)
    if SHOWN in item.arrays:  # what is beside the image
        down, across = item.arrays[SHOWN].tolist()
        normal[down:], normal[:, across:] = 0, 0
    numbers = normal.reshape(-1, rule.channels)
    figures = {"mean": numbers.mean(0), "std": numbers.std(0), "least": numbers.min(0), "most": numbers.max(0)}
    shown: dict[str, object] = {"shape": pixels.shape, "mean": rule.mean, "std": rule.std}
    if item.picture:
        edges = dict(zip(("left", "top", "right", "bottom"), item.picture.box, strict=True))
        shown |= {"box": edges, "image": {"width": item.picture.width, "height": item.picture.height}}
    tensor = {name: values.round(4).tolist() for name, values in figures.items()}
    return {"pixels": {**shown, "tensor": tensor, "png": base64.b64encode(file.getvalue()).decode()}}


def _tokens(item: ModelInput, rule: TextRule | GraphRule) -> dict[str, object]:
    """Return the tokens with their ids and types, in the order in which the graph takes them."""
    return {"tokens": [{"id": one.index, **one.json(), "type": one.type} for one in item.tokens]}


def _samples(item: ModelInput, rule: SoundRule) -> dict[str, object]:
    """Return how many samples the graph takes, how many of them are of the sound, and how loud they are."""
    heard = min(len(item.sound.samples), rule.samples) if item.sound else 0
    samples = item.arrays[SAMPLES][rule.side : rule.side + heard].astype(np.float64)
    figures = {"least": samples.min(), "most": samples.max(), "loudness": np.sqrt(np.mean(samples**2))}
    numbers = {name: round(float(value), 6) for name, value in figures.items()}
    return {"samples": {"count": len(item.arrays[SAMPLES]), "heard": heard, "rate": rule.rate, **numbers}}


OF_MODALITY: Mapping[str, Callable[[ModelInput, Any], dict[str, object]]] = {
    "image": _pixels,
    "text": _tokens,
    "sound": _samples,
    "graph": _tokens,
}
"""By the modality of an input."""
