"""The tasks, by their names in manifests."""

from typing import Any

from service.api.tasks.labels import Labels
from service.api.tasks.masks import Masks
from service.api.tasks.objects import Objects
from service.api.tasks.ranking import Ranking
from service.api.tasks.similarity import Similarity
from service.api.tasks.spans import Spans
from service.api.tasks.tags import Tags
from service.api.tasks.task import Endpoint, Task
from service.api.tasks.transcription import Transcription
from service.api.tasks.vectors import Vectors
from service.api.tasks.words import Words
from service.api.tasks.written import Written
from service.repository.models.served_model import ServedModel

TASKS: tuple[Task[Any], ...] = (
    Labels(),
    Objects(),
    Vectors(),
    Words(),
    Masks(),
    Tags(),
    Spans(),
    Written(),
    Transcription(),
)

BESIDE: tuple[Endpoint[Any], ...] = (Ranking(), Similarity())
"""What some models of a task answer beside it."""


def task_of(served: ServedModel) -> Task[Any]:
    """Return the task of a model."""
    return next(task for task in TASKS if task.endpoint == served.endpoints[0])
