"""Models that label the tokens of a text, of which entities are made."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from contract.artifact import MANIFEST, Artifact, ArtifactError
from service.arrays import Array, log_softmax
from service.errors import Unacceptable
from service.explanations.entities import Entity, find_entities, without_overlaps
from service.explanations.query import AttentionQuery
from service.explanations.selection import Target
from service.inputs.model_input import ModelInput, Text
from service.options.base import RequestOptions
from service.options.tags import EntityOptions
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import Prediction
from service.settings import Settings

OUTSIDE = "O"
"""The label of what is no entity, in models that have one."""


class Tagger(Predictor):
    """A classifier of tokens: logits of labels for every token of a text."""

    tasks = ("token-classification",)
    endpoints = ("tag", "attention")
    answers_places = True

    def __init__(self, artifact: Artifact, device: str, settings: Settings) -> None:
        super().__init__(artifact, device, settings)
        if not self.inputs.tokenizer or not self.manifest.labels:
            raise ArtifactError(artifact.path(MANIFEST), "a token-classification model needs texts and labels")
        self.tokenizer = self.inputs.tokenizer

    def entities(self, text: Text, item: ModelInput, prediction: Prediction, options: EntityOptions) -> list[Entity]:
        """Return the entities of a text, in order."""
        assert isinstance(text, str)  # noqa: S101 # it takes no pairs
        chances, tokens = probabilities_of(prediction), item.tokens
        return find_entities(
            text, tokens, chances, self.manifest.labels, self.tokenizer, options.aggregate, options.ignore
        )

    def joined(
        self, text: Text, windows: Sequence[tuple[ModelInput, Prediction]], options: EntityOptions
    ) -> list[tuple[int, Entity]]:
        """Return the entities of a text in windows, each with the number of its window, in order."""
        return without_overlaps([self.entities(text, item, prediction, options) for item, prediction in windows])

    def explained(
        self,
        windows: Sequence[tuple[ModelInput, Prediction]],
        found: Sequence[tuple[int, Entity]],
        query: AttentionQuery,
    ) -> tuple[int, ModelInput]:
        """Return the window of a text that a query explains, by its number, with the entities that are explained.

        Raises Unacceptable for an entity that there is not, and for entities of several windows.
        """
        numbers = chosen_entities([one for _, one in found], query)
        if not numbers:
            window = max(range(len(windows)), key=lambda place: self._likelihood(*windows[place], query))
            return window, windows[window][0]
        (window, *others) = {found[number][0] for number in numbers}
        if others:
            raise Unacceptable("target: entities of several windows of a text are explained one at a time")
        named = [(found[number][1].index, found[number][1].tokens[0], number) for number in numbers]
        return window, replace(windows[window][0], entities=named)

    def _likelihood(self, item: ModelInput, prediction: Prediction, query: AttentionQuery) -> float:
        target = self.likeliest(item, prediction, query)
        return float(probabilities_of(prediction)[target.position, target.token])

    def query_with(self, query: AttentionQuery, options: RequestOptions) -> AttentionQuery:
        """Return a query about the entities that options find.

        They are explained against `O`, unless it counts as an entity, or the request says otherwise.
        """
        entities = options if isinstance(options, EntityOptions) else EntityOptions()
        query = replace(query, entities=entities)
        says = "against" in query.options.model_fields_set
        if says or not query.by_gradient or OUTSIDE not in entities.ignore or OUTSIDE not in self.manifest.labels:
            return query
        return replace(query, against=self.manifest.labels.index(OUTSIDE))

    def targets_after(
        self, item: ModelInput, query: AttentionQuery, prediction: Prediction, text: Text
    ) -> list[Target]:
        """Return the entities that are explained, each by its label at its first token; by default the surest.

        Of a text without an entity, that is the label that is not ignored, where it is likeliest. Raises Unacceptable
        for an entity that there is not, and for one whose label is what it is explained against.
        """
        if item.entities:
            targets = [Target(index, (place,), place, number) for index, place, number in item.entities]
        else:
            found = self.entities(text, item, prediction, query.entities)
            numbers = chosen_entities(found, query)
            targets = [_target(found[number], number) for number in numbers]
        targets = targets or [self.likeliest(item, prediction, query)]
        if any(target.token == query.against for target in targets):
            raise Unacceptable("against: must be another label than the entity's, given the same")
        return targets

    def likeliest(self, item: ModelInput, prediction: Prediction, query: AttentionQuery) -> Target:
        """Return the label that is not ignored, where it is likeliest: what is explained of a text without entities.

        Raises Unacceptable for a text without a token, and where all labels are ignored.
        """
        if item.special["source"].all():
            raise Unacceptable("input: must hold at least one token to be explained, given none")
        if set(self.manifest.labels) <= {*query.entities.ignore}:
            raise Unacceptable("ignore: must leave a label to be explained, leaves none")
        chances = probabilities_of(prediction)
        chances[item.special["source"]] = 0
        ignored = [query.entities.ignore.count(label) > 0 for label in self.manifest.labels]
        chances[:, ignored] = -1
        place, index = divmod(int(chances.argmax()), chances.shape[1])
        return Target(index, (place,), place, None)

    def target_entry(self, target: Target, prediction: Prediction) -> dict[str, object]:
        """Return what an answer says of a target: the entity, if it is one, and the token whose label it is."""
        return {**self.entity_entry(target), **self.class_entry(target.token)}

    def entity_entry(self, target: Target) -> dict[str, object]:
        """Return the number of the entity that a target is, if it is one, and the position of its first token."""
        entity = {} if target.index is None else {"entity": target.index}
        return {**entity, "position": target.position}


def chosen_entities(found: Sequence[Entity], query: AttentionQuery) -> Sequence[int]:
    """Return the numbers of the entities that a query explains, by default of the surest; none where there is none.

    Raises Unacceptable for an entity that there is not.
    """
    if query.targets is None:
        return [max(range(len(found)), key=lambda place: found[place].probability)] if found else []
    if max(query.targets) >= len(found):
        raise Unacceptable(f"target: must be an entity of the text, of which there are {len(found)}, given another")
    return query.targets


def _target(entity: Entity, number: int) -> Target:
    place = entity.tokens[0]
    return Target(entity.index, (place,), place, number)


def probabilities_of(prediction: Prediction) -> Array:
    """Return the probabilities of labels (token, label)."""
    chances: Array = np.exp(log_softmax(prediction))
    return chances
