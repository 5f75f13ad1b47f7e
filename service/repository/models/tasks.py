"""The class that serves each task."""

from service.repository.models.detector import Detector
from service.repository.models.extractor import Extractor
from service.repository.models.generator import Generator
from service.repository.models.mask_filler import MaskFiller
from service.repository.models.predictor import Classifier, Embedder
from service.repository.models.served_model import ServedModel
from service.repository.models.tagger import Tagger

CLASSES: tuple[type[ServedModel], ...] = (Classifier, Embedder, MaskFiller, Tagger, Extractor, Detector, Generator)
TASKS = {task: served for served in CLASSES for task in served.tasks}
