"""The inputs that an artifact takes: a class for each sort of input, by the `modality` of its rule."""

from collections.abc import Callable
from typing import Any, TypeAlias

from contract.artifact import Artifact
from service.inputs.image_inputs import ImageInputs
from service.inputs.text_inputs import TextInputs

Inputs: TypeAlias = ImageInputs | TextInputs
SORTS: dict[str, Callable[[Artifact, Any], Inputs]] = {"image": ImageInputs.of, "text": TextInputs}


def open_inputs(artifact: Artifact) -> Inputs:
    """Return what turns images or texts into inputs. Raises ArtifactError for a tokenizer that cannot be read."""
    rule = artifact.manifest.inputs[0]
    return SORTS[rule.modality](artifact, rule)
