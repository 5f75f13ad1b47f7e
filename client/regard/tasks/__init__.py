"""The tasks of models: a file for each, with what it answers and the options that it takes; and the table of them."""

from collections.abc import Mapping
from typing import Any

from regard.models import Description
from regard.results import Look, Result
from regard.tasks.answering import ANSWER
from regard.tasks.classification import CLASSIFY
from regard.tasks.detection import DETECT
from regard.tasks.embedding import EMBED
from regard.tasks.fill_mask import FILL_MASK
from regard.tasks.generation import GENERATE
from regard.tasks.sparse_embedding import EMBED_SPARSE
from regard.tasks.tagging import TAG
from regard.tasks.task import Task
from regard.tasks.transcription import TRANSCRIBE

TASKS: Mapping[str, Task[Any]] = {
    one.endpoint: one for one in (CLASSIFY, DETECT, EMBED, EMBED_SPARSE, FILL_MASK, GENERATE, TAG, ANSWER, TRANSCRIBE)
}


def task_of(model: Description) -> Task[Result]:
    """Return what a model was made for. Of a task that is not known here, the answer is its JSON alone."""
    endpoint = model.endpoints[0]
    return TASKS.get(endpoint) or Task(endpoint, Look)
