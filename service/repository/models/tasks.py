"""The class that serves each task."""

from service.repository.models.detector import Detector
from service.repository.models.generator import Generator
from service.repository.models.predictor import MaskFiller, Predictor
from service.repository.models.served_model import ServedModel

TASKS: dict[str, type[ServedModel]] = {
    **dict.fromkeys(Predictor.own_endpoint, Predictor),
    "fill-mask": MaskFiller,
    "object-detection": Detector,
    **dict.fromkeys(("text-generation", "text2text-generation", "image-to-text"), Generator),
}
