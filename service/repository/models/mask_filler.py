"""Models that fill masks in a text."""

from dataclasses import replace

import numpy as np

from contract.artifact import MANIFEST, Artifact, ArtifactError
from service.errors import Unacceptable
from service.explanations.query import AttentionQuery
from service.explanations.selection import Target, select
from service.inputs.model_input import ModelInput
from service.repository.models.of_words import OfWords
from service.repository.models.served_model import Prediction
from service.settings import Settings

MOST_MASKS = 64
"""The most masks of one text."""


class MaskFiller(OfWords):
    """A masked language model: logits over the vocabulary for every mask of a text."""

    tasks = ("fill-mask",)
    endpoints = ("fill-mask", "attention")
    answers_places = True
    mask: str

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        super().__init__(artifact, device, settings)
        if not self.inputs.tokenizer or self.inputs.rule.mask is None:
            raise ArtifactError(artifact.path(MANIFEST), "a fill-mask model needs a text rule with a mask token")
        self.mask_index = self.inputs.rule.mask
        self.mask = self.tokenizer.piece(self.mask_index)
        self.example_text = f"The cat sat on the {self.mask}."

    def complete_input(self, item: ModelInput) -> ModelInput:
        """Return the input with the positions of its masks. Raises Unacceptable for none or too many."""
        masked = np.flatnonzero(item.arrays["source"] == self.mask_index)
        if not 1 <= len(masked) <= MOST_MASKS:
            raise Unacceptable(f"input: must hold {self.mask} 1 to {MOST_MASKS} times, given {len(masked)}")
        return replace(item, arrays={**item.arrays, "masked": masked}, lengths={**item.lengths, "masked": len(masked)})

    def targets(self, item: ModelInput, query: AttentionQuery) -> list[Target]:
        """Return the masks that a gradient method explains. Raises Unacceptable for a mask that it does not have."""
        positions = item.arrays["masked"].tolist()
        masks = range(len(positions)) if query.targets is None else select("target", query.targets, len(positions))
        return [Target(-1, (positions[mask],), mask, mask) for mask in masks]

    def chosen(self, target: Target, prediction: Prediction) -> Target:
        """Return the target of a mask with the likeliest token for it."""
        return replace(target, token=int(prediction[target.position].argmax()))

    def target_entry(self, target: Target, prediction: Prediction) -> dict[str, object]:
        """Return what an answer says of a target: a mask and the likeliest token for it."""
        return {"mask": target.index, **self.class_entry(self.chosen(target, prediction).token)}
