"""TODO: what service/repository/tasks.py is."""

from service.repository.generator import Generator
from service.repository.predictor import Predictor
from service.repository.served_model import ServedModel

TASKS: dict[str, type[ServedModel]] = {
    **dict.fromkeys(Predictor.own_endpoint, Predictor),
    **dict.fromkeys(("text-generation", "text2text-generation", "image-to-text"), Generator),
}
