"""The inputs that an artifact takes: a class for each sort of input, by the `modality` of its rule."""

from collections.abc import Callable
from typing import Any, TypeAlias

from contract.artifact import Artifact
from service.inputs.graph_inputs import GraphInputs
from service.inputs.image_inputs import ImageInputs
from service.inputs.sound_inputs import SoundInputs
from service.inputs.text_inputs import TextInputs

Inputs: TypeAlias = ImageInputs | TextInputs | SoundInputs | GraphInputs
SORTS: dict[str, Callable[[Artifact, Any], Inputs]] = {
    "image": ImageInputs.of,
    "text": TextInputs,
    "sound": SoundInputs,
    "graph": GraphInputs,
}


def open_inputs(artifact: Artifact) -> Inputs:
    """Return what makes inputs of what is sent. Raises ArtifactError for a tokenizer that cannot be read."""
    rule = artifact.manifest.inputs[0]
    return SORTS[rule.modality](artifact, rule)
