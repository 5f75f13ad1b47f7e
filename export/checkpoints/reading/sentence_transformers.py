"""Read what a sentence-transformers folder declares: pooling, normalisation, the longest text."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from export.checkpoints.reading.checkpoint import Checkpoint, read_json
from export.errors import CheckpointError

if TYPE_CHECKING:
    from model.parts.heads import Pooling

MODULES_FILE = "modules.json"
SETTINGS_FILES = (
    "sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json",
    "sentence_camembert_config.json", "sentence_albert_config.json", "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
)  # fmt: skip
"""The names of the Transformer's settings, of which the library reads the first that is there."""
IRRELEVANT_SETTINGS = ("transformer_task", "modality_config", "module_output_name", "unpad_inputs")
"""Settings of the Transformer that change no answer to a text."""
DECLARATION_FILE = "config_sentence_transformers.json"
POOLINGS: dict[str, "Pooling"] = {
    "cls": "first",
    "mean": "mean",
    "max": "max",
    "mean_sqrt_len_tokens": "mean_sqrt_length",
}
LEGACY_POOLING_PREFIX = "pooling_mode_"
"""The prefix of one flag per pooling, in folders without `pooling_mode`."""


@dataclass(frozen=True)
class SentenceSettings:
    """How token states become the embedding of a text. The defaults are those of the library."""

    pooling: "Pooling" = "mean"
    unit: bool = False
    max_tokens: int | None = None
    lower_case: bool = False


def read_sentence_settings(checkpoint: Checkpoint) -> SentenceSettings:
    """Read the declaration. Raises CheckpointError for a module, pooling or prompt that is not supported."""
    if not checkpoint.has(MODULES_FILE):
        return SentenceSettings()
    modules = read_json(checkpoint.folder / MODULES_FILE)
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise CheckpointError(f"{MODULES_FILE}: must list modules")
    kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules]
    if kinds not in (["Transformer"], ["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise CheckpointError(
            f"{MODULES_FILE}: must be Transformer, Pooling and perhaps Normalize, given {', '.join(kinds)[:200]}"
        )
    if path := modules[0].get("path"):
        raise CheckpointError(f"{MODULES_FILE}: the Transformer must lie in the folder itself, given {path!r}")
    check_declaration(checkpoint)
    pooling = POOLINGS["mean"]
    if len(kinds) > 1:
        path = str(modules[1].get("path", ""))
        file = f"{path}/config.json"
        if not path or "/" in path or path.startswith(".") or not checkpoint.has(file):
            raise CheckpointError(
                f"{MODULES_FILE}: Pooling must have a folder with a config.json beside it, given {path!r}"
            )
        pooling = _read_pooling(file, checkpoint.json(file))
    if kinds[-1] == "Normalize":
        _check_normalized(checkpoint, f"{modules[2].get('path', '')}/config.json")
    limit, lower_case = _read_settings(checkpoint)
    return SentenceSettings(pooling, kinds[-1] == "Normalize", limit, lower_case)


def check_declaration(checkpoint: Checkpoint) -> None:
    """Raise CheckpointError for what `config_sentence_transformers.json` asks for and is not done."""
    declared = checkpoint.json(DECLARATION_FILE)
    if name := declared.get("default_prompt_name"):
        raise CheckpointError(
            f"{DECLARATION_FILE}: default_prompt_name must be null, given {name!r}; put prompts before texts"
        )
    if (width := declared.get("truncate_dim")) is not None:
        raise CheckpointError(f"{DECLARATION_FILE}: truncate_dim must be null, given {width!r}; vectors are not cut")


def _read_settings(checkpoint: Checkpoint) -> tuple[int | None, bool]:
    """Return the most tokens of a text, and whether texts are in lower case. Raises CheckpointError."""
    file = next(filter(checkpoint.has, SETTINGS_FILES), SETTINGS_FILES[0])
    settings = checkpoint.json(file)
    limit, lower_case = settings.pop("max_seq_length", None), settings.pop("do_lower_case", False)
    for name, value in settings.items():
        if value and name not in IRRELEVANT_SETTINGS:
            raise CheckpointError(f"{file}: {name} is not supported, given {str(value)[:64]}")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise CheckpointError(f"{file}: max_seq_length must be a number above 0, given {limit!r}")
    return limit, bool(lower_case)


def _check_normalized(checkpoint: Checkpoint, file: str) -> None:
    """Raise CheckpointError if anything but the embedding is made as long as one."""
    settings = checkpoint.json(file) if not file.startswith("/") else {}
    for name, value in settings.items():
        if value not in (None, "sentence_embedding"):
            raise CheckpointError(f"{file}: {name} must be sentence_embedding, given {str(value)[:64]!r}")


def _read_pooling(file: str, config: dict[str, Any]) -> "Pooling":
    legacy = [
        key.removeprefix(LEGACY_POOLING_PREFIX)
        for key, value in config.items()
        if key.startswith(LEGACY_POOLING_PREFIX) and value
    ]
    modes = (
        config.get("pooling_mode") or [mode.removesuffix("_token").removesuffix("_tokens") for mode in legacy] or "mean"
    )
    modes = modes if isinstance(modes, list) else [modes]
    modes = ["mean_sqrt_len_tokens" if mode == "mean_sqrt_len" else mode for mode in modes]
    if len(modes) != 1 or str(modes[0]) not in POOLINGS:
        raise CheckpointError(
            f"{file}: pooling_mode must be one of {', '.join(POOLINGS)}, given {', '.join(map(str, modes))}"
        )
    return POOLINGS[str(modes[0])]
