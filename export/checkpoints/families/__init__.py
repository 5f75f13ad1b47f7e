"""The families of checkpoints, by the `model_type` of their configuration. A file is loaded when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from contract.manifest import Task
from export.checkpoints.reading.architectures import check_architectures
from export.checkpoints.reading.checkpoint import CONFIG
from export.errors import CheckpointError

if TYPE_CHECKING:
    from export.checkpoints.building.family import Family

IMAGES: tuple[Task, ...] = ("image-classification", "feature-extraction")
OBJECTS: tuple[Task, ...] = ("object-detection",)
TEXTS: tuple[Task, ...] = (
    "text-classification",
    "token-classification",
    "question-answering",
    "fill-mask",
    "sparse-embedding",
    "feature-extraction",
)
UNASKED = tuple(task for task in TEXTS if task != "question-answering")
VECTORS: tuple[Task, ...] = ("feature-extraction",)
CONTINUED: tuple[Task, ...] = ("text-generation", "text-classification", "feature-extraction")
SPEECH: tuple[Task, ...] = ("automatic-speech-recognition", "audio-classification", "feature-extraction")
SEQUENCES: tuple[Task, ...] = ("text2text-generation",)

LISTED: dict[str, tuple[str, tuple[Task, ...]]] = {
    **{name: (name, IMAGES) for name in ("vit", "deit", "dinov2", "swin", "swinv2")},
    "dinov2_with_registers": ("dinov2", IMAGES),
    "dinov3_vit": ("dinov3_vit", ("feature-extraction",)),
    **dict.fromkeys(("beit", "data2vec-vision"), ("beit", IMAGES)),
    **{name: (name, IMAGES) for name in ("vit_msn", "ijepa")},
    "vit_mae": ("vit_mae", ("feature-extraction",)),
    "detr": ("detr", OBJECTS),
    "table-transformer": ("table_transformer", OBJECTS),
    **{name: (name, OBJECTS) for name in ("conditional_detr", "yolos")},
    **{name: (name, TEXTS) for name in ("bert", "roberta")},
    **dict.fromkeys(("xlm-roberta", "camembert"), ("roberta", TEXTS)),
    **{name: (name, TEXTS) for name in ("distilbert", "mpnet", "modernbert", "electra", "albert")},
    "deberta-v2": ("deberta_v2", TEXTS),
    "jina_embeddings_v3": ("jina_embeddings_v3", TEXTS),
    **{name: (name, UNASKED) for name in ("nomic_bert", "gte", "eurobert")},
    "new": ("gte", UNASKED),
    **dict.fromkeys(("roberta-prelayernorm", "xlm-roberta-xl"), ("roberta_prelayernorm", TEXTS)),
    **{name: (name, VECTORS) for name in ("clip", "chinese_clip", "siglip")},
    "gpt2": ("gpt2", CONTINUED),
    **dict.fromkeys(("llama", "mistral"), ("llama", CONTINUED)),
    **dict.fromkeys(("qwen2", "qwen3"), ("qwen", CONTINUED)),
    **{name: (name, CONTINUED) for name in ("smollm3", "olmo2", "granite", "phi3", "gpt_neox")},
    "gptj": ("gptj", ("text-generation",)),
    "gemma3_text": ("gemma3", CONTINUED),
    **{name: (name, SEQUENCES) for name in ("marian", "mbart", "pegasus", "m2m_100")},
    "whisper": ("whisper", ("automatic-speech-recognition",)),
    **{name: (name, SPEECH) for name in ("wav2vec2", "hubert")},
    "audio-spectrogram-transformer": ("audio_spectrogram_transformer", ("audio-classification", "feature-extraction")),
    **dict.fromkeys(("t5", "mt5", "umt5"), ("t5", SEQUENCES)),
    "bart": ("bart", (*SEQUENCES, "text-classification")),
    "vision-encoder-decoder": ("vision_encoder_decoder", ("image-to-text",)),
}
"""`model_type` -> the file of its family, and its tasks. So much of a folder is said without PyTorch, which the files
need."""


def check_type(config: Mapping[str, Any], requested: Task | None) -> None:
    """Raise CheckpointError for a configuration whose type, or whose architecture, is not supported."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in LISTED:
        raise CheckpointError(f"{CONFIG}: model_type must be one of {', '.join(LISTED)}, given {str(kind)[:64]!r}")
    check_architectures(kind, LISTED[kind][1], config, requested)


class _Families(Mapping[str, "Family[Any]"]):
    """The families by `model_type`."""

    def __getitem__(self, name: str) -> Family[Any]:
        """Return a family. Raises KeyError if there is none of that name."""
        module = importlib.import_module(f"{__name__}.{LISTED[name][0]}")
        return next(one for one in vars(module).values() if getattr(one, "model_type", None) == name)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a family of that name, which is not loaded."""
        return name in LISTED

    def __iter__(self) -> Iterator[str]:
        """Yield the names, in the order of lists."""
        return iter(LISTED)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(LISTED)


FAMILIES: Mapping[str, Family[Any]] = _Families()
