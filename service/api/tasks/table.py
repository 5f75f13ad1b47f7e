"""The tasks, by their names in manifests."""

from typing import Any

from service.api.tasks.labels import Labels
from service.api.tasks.masks import Masks
from service.api.tasks.objects import Objects
from service.api.tasks.task import Task
from service.api.tasks.vectors import Vectors
from service.api.tasks.written import Written
from service.repository.models.served_model import ServedModel

TASKS: tuple[Task[Any], ...] = (Labels(), Objects(), Vectors(), Masks(), Written())


def task_of(served: ServedModel) -> Task[Any]:
    """Return the task of a model."""
    return next(task for task in TASKS if task.endpoint == served.endpoints[0])
