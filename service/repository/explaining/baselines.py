"""Baselines: the input that integrated gradients start from, in place of one that a client sent."""

from collections.abc import Mapping

import numpy as np

from contract.input_rules import Baseline
from contract.manifest import BASELINE, Manifest
from service.arrays import Array
from service.inputs.model_input import ModelInput


def baseline_controls(item: ModelInput, baseline: Baseline, manifest: Manifest) -> Mapping[str, Array]:
    """Return the inputs `baseline.<input>` and `blank` of the graph of integrated gradients, without the batch's axis.

    Pixels become black, and samples silent. Tokens become mask or padding tokens, except special ones and the masks
    that are asked about.
    The baseline `zero` is states of zeros: then the graph takes any tokens.
    """
    controls: dict[str, Array] = {"blank": np.array(float(baseline != "zero"), np.float32)}
    for port in manifest.graphs["integrated"].inputs:
        if port.name.startswith(BASELINE):
            axis = port.name.removeprefix(BASELINE)
            own = item.arrays[axis]
            controls[port.name] = own if baseline == "zero" else _replaced(axis, item, baseline, manifest)
    return controls


def _replaced(axis: str, item: ModelInput, baseline: Baseline, manifest: Manifest) -> Array:
    own = item.arrays[axis]
    if axis in ("pixels", "samples"):
        return np.zeros_like(own)
    kept = item.special[axis].copy()
    if axis == "source" and "masked" in item.arrays:
        kept[item.arrays["masked"]] = True
    return np.where(kept, own, _token(axis, baseline, manifest))


def _token(axis: str, baseline: Baseline, manifest: Manifest) -> int:
    """Return the token that replaces others. Targets with a tokenizer of their own have only a padding token."""
    generation = manifest.generation
    if axis == "target" and generation and generation.tokenizer:
        token = generation.padding
    else:
        token = manifest.inputs[0].stand_ins.get(baseline)
    if token is None:
        raise ValueError(f"{axis}: the baseline {baseline} needs a token, given none")
    return token
