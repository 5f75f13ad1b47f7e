"""The class that serves each task."""

from contract.input_rules import TextRule
from contract.manifest import Manifest
from service.repository.models.detector import Detector
from service.repository.models.extractor import Extractor
from service.repository.models.generator import Generator
from service.repository.models.mask_filler import MaskFiller
from service.repository.models.predictor import Classifier, Embedder
from service.repository.models.recognizer import Recognizer
from service.repository.models.sequence_classifier import SequenceClassifier
from service.repository.models.served_model import ServedModel
from service.repository.models.sparse_embedder import SparseEmbedder
from service.repository.models.tagger import Tagger
from service.repository.models.transcriber import Transcriber

CLASSES: tuple[type[ServedModel], ...] = (
    Classifier, Embedder, SparseEmbedder, MaskFiller, Tagger, Extractor, Detector, Generator, Transcriber,
)  # fmt: skip
TASKS = {task: served for served in CLASSES for task in served.tasks}


def class_of(manifest: Manifest) -> type[ServedModel] | None:
    """Return the class that serves a model; None if its task is not served."""
    rule, served = manifest.inputs[0], TASKS.get(manifest.task)
    if manifest.task in Recognizer.tasks and manifest.generation is None:
        return Recognizer
    read_twice = isinstance(rule, TextRule) and rule.decoder_start is not None
    return SequenceClassifier if served is Classifier and read_twice else served
