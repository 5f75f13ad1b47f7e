"""What each task takes and answers, a file for each; and the table of them."""

from service.api.openapi.tasks import labels, masks, objects, vectors, written

TASKS = (labels, objects, vectors, masks, written)
