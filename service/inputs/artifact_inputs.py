"""The inputs that an artifact takes."""

from contract.artifact import MANIFEST, Artifact, ArtifactError
from contract.manifest import IMAGE_VISIBLE
from service.inputs.image_inputs import ImageInputs
from service.inputs.text_inputs import TextInputs


def open_inputs(artifact: Artifact) -> ImageInputs | TextInputs:
    """Return what turns images or texts into inputs. Raises ArtifactError for a tokenizer that cannot be read."""
    image, text = artifact.manifest.image, artifact.manifest.text
    if image:
        detection = artifact.manifest.detection
        told = any(port.name == IMAGE_VISIBLE for port in artifact.manifest.graphs["attention"].inputs)
        count = detection.objects if detection else 0
        return ImageInputs(image, artifact.manifest.attention, count, tells_visible=told)
    if text:
        return TextInputs(artifact, text)
    raise ArtifactError(artifact.path(MANIFEST), "must have an image rule or a text rule, given none")
