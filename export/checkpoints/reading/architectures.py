"""What a checkpoint is for, by the `architectures` of its configuration: the classes that it was saved from."""

from collections.abc import Collection, Mapping
from typing import Any

from contract.manifest import Task
from export.checkpoints.reading.checkpoint import CONFIG
from export.errors import CheckpointError

ARCHITECTURES: tuple[tuple[str, Task | None], ...] = (
    ("ElectraForPreTraining", None),  # it finds words that were replaced
    ("ForImageClassificationWithTeacher", "image-classification"),
    ("ForImageClassification", "image-classification"),
    ("ForObjectDetection", "object-detection"),
    ("ForSequenceClassification", "text-classification"),
    ("ForSequenceClassification", "audio-classification"),
    ("ForAudioClassification", "audio-classification"),
    ("ForCTC", "automatic-speech-recognition"),
    ("ForTokenClassification", "token-classification"),
    ("ForQuestionAnswering", "question-answering"),
    ("ForMaskedLM", "fill-mask"),
    ("ForPreTraining", "fill-mask"),
    ("LMHeadModel", "text-generation"),
    ("ForCausalLM", "text-generation"),
    ("MTModel", "text2text-generation"),
    ("ForConditionalGeneration", "text2text-generation"),
    ("ForConditionalGeneration", "automatic-speech-recognition"),
    ("VisionEncoderDecoderModel", "image-to-text"),
    ("Model", "feature-extraction"),
)
"""Ending of the class that a checkpoint was saved from -> the task of that class, by its family; None if it is none of
ours."""


def named_in(config: Mapping[str, Any]) -> list[str]:
    """Return the classes that a configuration names."""
    named = config.get("architectures")
    return [str(one) for one in named] if isinstance(named, list) else []


def task_of(architecture: str, tasks: Collection[Task]) -> Task | None:
    """Return the task of an architecture, if it is among these."""
    own = next((ending for ending, _ in ARCHITECTURES if architecture.endswith(ending)), None)
    return next((task for ending, task in ARCHITECTURES if ending == own and task and task in tasks), None)


def check_architectures(kind: str, tasks: Collection[Task], config: Mapping[str, Any], requested: Task | None) -> None:
    """Raise CheckpointError if a configuration names only architectures of tasks that its `kind` has not.

    A task that is `requested` is tried whatever they are. An architecture without a head is none of them.
    """
    named = named_in(config)
    if requested is None and named and not any(task_of(one, tasks) or one.endswith("Model") for one in named):
        endings = [f"...{ending} ({task})" for ending, task in ARCHITECTURES if task in tasks]
        body = ", or add --task feature-extraction for the body alone" if "feature-extraction" in tasks else ""
        raise CheckpointError(
            f"{CONFIG}: architectures: {', '.join(named)[:200]} is not supported; "
            f"of {kind} there are {', '.join(endings)}{body}"
        )
