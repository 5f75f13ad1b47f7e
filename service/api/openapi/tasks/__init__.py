"""What each task takes and answers, a file for each; and the table of them."""

from service.api.openapi.tasks import (
    labels,
    masks,
    objects,
    ranking,
    similarity,
    spans,
    tags,
    transcription,
    vectors,
    words,
    written,
)

TASKS = (labels, objects, vectors, words, masks, tags, spans, written, transcription)
BESIDE = (ranking, similarity)
"""What some models of a task answer beside it."""
