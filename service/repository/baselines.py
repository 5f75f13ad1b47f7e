"""Baselines: the input that integrated gradients start from, in place of one that a client sent."""

from collections.abc import Mapping

import numpy as np

from contract.manifest import Manifest
from service.arrays import Array
from service.inputs.model_input import ModelInput
from service.options import Baseline


def baseline_controls(item: ModelInput, baseline: Baseline, manifest: Manifest) -> Mapping[str, Array]:
    """Return the inputs `baseline.<input>` and `blank` of the graph of integrated gradients, without the batch's axis.

    Pixels become black. Tokens become mask or padding tokens, except special ones and the masks that are asked about.
    Zeros are states, not tokens: then the graph takes any tokens, and `blank` is 0.
    """
    names = [port.name for port in manifest.graphs["integrated"].inputs if port.name.startswith(PREFIX)]
    controls: dict[str, Array] = {"blank": np.float32(baseline != "zero")[()]}
    for name in names:
        own = name.removeprefix(PREFIX)
        controls[name] = _replaced(own, item, baseline, manifest) if baseline != "zero" else item.arrays[own]
    return controls
