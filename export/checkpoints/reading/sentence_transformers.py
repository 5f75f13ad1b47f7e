"""Read what a sentence-transformers folder declares: task, pooling, what is behind it, prompts, the longest text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from contract.manifest import Task
from export.checkpoints.reading.checkpoint import Checkpoint, read_json
from export.errors import CheckpointError

if TYPE_CHECKING:
    from model.parts.heads import Pooling, WordPooling

MODULES_FILE = "modules.json"
SETTINGS_FILES = (
    "sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json",
    "sentence_camembert_config.json", "sentence_albert_config.json", "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
)  # fmt: skip
"""The names of the Transformer's settings, of which the library reads the first that is there."""
IRRELEVANT_SETTINGS = ("transformer_task", "modality_config", "module_output_name", "unpad_inputs")
"""Settings of the Transformer that change no answer to a text."""
OF_STATES, OF_LOGITS = "feature-extraction", "fill-mask"
"""The `transformer_task` of a Transformer that answers with states, which is the usual one, or with logits of words."""
DECLARATION_FILE = "config_sentence_transformers.json"
LOGIT_SCORE = "LogitScore"
"""The module of a decoder that ranks by what it says next."""
POOLINGS: dict[str, "Pooling"] = {
    "cls": "first",
    "mean": "mean",
    "max": "max",
    "mean_sqrt_len_tokens": "mean_sqrt_length",
    "weightedmean": "weighted_mean",
    "lasttoken": "last",
}
LEGACY_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""One flag for each pooling, in folders without `pooling_mode`."""
BEHIND = ("Dense", "Normalize", "Dropout")
"""The modules that may stand behind pooling, in any order and number; a Dropout changes no answer."""
ACTIVATIONS = {
    "Identity": "identity",
    "Tanh": "tanh",
    "ReLU": "relu",
    "GELU": "gelu",
    "SiLU": "silu",
}
"""Class in `torch.nn.modules` -> our name."""
ITS_VECTOR = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}
"""What a module behind pooling may say that it takes and makes."""


@dataclass(frozen=True)
class Dense:
    """A linear layer with an activation; its weights lie in a folder of its own."""

    path: str
    inputs: int
    outputs: int
    activation: str
    bias: bool
    residual: bool
    """True if the input is added to the result, projected where the widths differ."""


Behind: TypeAlias = Dense | Literal["unit"]
"""What is behind pooling: a layer, or that vectors have length one."""
WORD_POOLINGS: dict[str, "WordPooling"] = {"max": "max", "sum": "sum"}
LOGS = {"relu": 1, "log1p_relu": 2}
"""Activation of SpladePooling -> how many logarithms there are."""


@dataclass(frozen=True)
class SpladePooling:
    """How logits of tokens become weights of words. The defaults are those of the library."""

    pooling: "WordPooling" = "max"
    logs: int = 1


@dataclass(frozen=True)
class SentenceSettings:
    """How token states become the embedding of a text. The defaults are those of the library."""

    pooling: "Pooling" = "mean"
    behind: tuple[Behind, ...] = ()
    max_tokens: int | None = None
    lower_case: bool = False
    prompts: Mapping[str, str] | None = field(default_factory=dict)
    """None where pooling would leave them out, which it does not here."""
    default_prompt: str | None = None
    dimensions: int | None = None
    """How many numbers of a vector are answered, the first ones; None for all. They are not normalised again."""
    words: SpladePooling = SpladePooling()
    """Of a model that weighs words."""

    @property
    def layers(self) -> list[Dense]:
        """Return the layers behind pooling."""
        return [one for one in self.behind if isinstance(one, Dense)]


def declared_task(checkpoint: Checkpoint) -> Task | None:
    """Return what the modules of a folder make of texts; None without modules, and of a cross-encoder's classifier."""
    kinds = read_modules(checkpoint)[1] if checkpoint.has(MODULES_FILE) else []
    if LOGIT_SCORE in kinds:
        return "text-classification"
    if not kinds or checkpoint.json(DECLARATION_FILE).get("model_type") == "CrossEncoder":
        return None
    return "sparse-embedding" if "SpladePooling" in kinds else "feature-extraction"


def read_sentence_settings(checkpoint: Checkpoint) -> SentenceSettings:
    """Read the declaration. Raises CheckpointError for a module, pooling or prompt that is not supported."""
    if not checkpoint.has(MODULES_FILE):
        return SentenceSettings()
    modules, kinds = read_modules(checkpoint)
    if kinds[:2] not in (["Transformer"], ["Transformer", "Pooling"]) or not set(kinds[2:]) <= set(BEHIND):
        raise CheckpointError(
            f"{MODULES_FILE}: must be Transformer, Pooling and then {', '.join(BEHIND)}, given {', '.join(kinds)[:200]}"
        )
    check_first(modules[0])
    file, settings = settings_of(checkpoint)
    if takes_messages(settings):
        raise CheckpointError(f"{file}: modality_config must be of texts that are no messages")
    if (task := settings.get("transformer_task", OF_STATES)) != OF_STATES:
        raise CheckpointError(f"{MODULES_FILE}: must be a Transformer for {OF_STATES}, given {str(task)[:64]}")
    prompts: Mapping[str, str] | None
    prompts, default_prompt, dimensions = read_declaration(checkpoint)
    pooling = POOLINGS["mean"]
    if len(kinds) > 1:
        file = f"{path_of(checkpoint, 'Pooling', modules[1])}/config.json"
        config = checkpoint.json(file)
        pooling = _read_pooling(file, config, prompted=default_prompt is not None)
        prompts = None if config.get("include_prompt") is False else prompts
    behind: list[Behind] = []
    for kind, module in zip(kinds[2:], modules[2:], strict=True):
        if kind == "Dense":
            behind.append(_read_dense(checkpoint, path_of(checkpoint, kind, module)))
        elif kind == "Normalize":
            file = f"{module.get('path', '')}/config.json"
            _check_vector(file, {} if file.startswith("/") else checkpoint.json(file))
            behind.append("unit")
    limit, lower_case = read_settings(checkpoint)
    return SentenceSettings(pooling, tuple(behind), limit, lower_case, prompts, default_prompt, dimensions)


def read_sparse_settings(checkpoint: Checkpoint, vocabulary: int) -> SentenceSettings:
    """Read how a sparse encoder makes weights of words of a vocabulary; without modules, as SPLADE v2 does.

    Raises CheckpointError for a module, option or prompt that is not supported.
    """
    if not checkpoint.has(MODULES_FILE):
        return SentenceSettings()
    modules, kinds = read_modules(checkpoint)
    settings = settings_of(checkpoint)[1]
    task = settings.get("transformer_task", OF_LOGITS if kinds[:1] == ["MLMTransformer"] else None)
    if kinds not in (["MLMTransformer", "SpladePooling"], ["Transformer", "SpladePooling"]) or task != OF_LOGITS:
        raise CheckpointError(
            f"{MODULES_FILE}: must be a Transformer for {OF_LOGITS} and SpladePooling, given "
            f"{', '.join(kinds)[:200]} for {str(task)[:64]}"
        )
    check_first(modules[0])
    prompts, default_prompt, dimensions = read_declaration(checkpoint)
    most = checkpoint.json(DECLARATION_FILE).get("max_active_dims")
    for name, given in (("truncate_dim", dimensions), ("max_active_dims", most)):
        if given is not None:
            raise CheckpointError(f"{DECLARATION_FILE}: {name} must be null, given {str(given)[:64]!r}")
    words = _read_splade(checkpoint, f"{path_of(checkpoint, kinds[1], modules[1])}/config.json", vocabulary)
    limit, lower_case = read_settings(checkpoint)
    return SentenceSettings(
        max_tokens=limit, lower_case=lower_case, prompts=prompts, default_prompt=default_prompt, words=words
    )


def takes_messages(settings: Mapping[str, Any]) -> bool:
    """Return whether texts are put into messages, and these into a template."""
    taken = settings.get("modality_config")
    return isinstance(taken, dict) and "message" in taken


def _read_splade(checkpoint: Checkpoint, file: str, vocabulary: int) -> SpladePooling:
    """Return the pooling of a sparse encoder. Raises CheckpointError for an option that is not supported."""
    given = checkpoint.json(file)
    strategy, activation = given.pop("pooling_strategy", "max"), given.pop("activation_function", "relu")
    for name, value, known in (
        ("pooling_strategy", strategy, WORD_POOLINGS),
        ("activation_function", activation, LOGS),
    ):
        if value not in list(known):
            raise CheckpointError(f"{file}: {name} must be one of {', '.join(known)}, given {str(value)[:64]!r}")
    given.pop("chunk_size", None)  # how many tokens are pooled at once
    for name in ("embedding_dimension", "word_embedding_dimension"):
        if given.pop(name, None) not in (None, vocabulary):
            raise CheckpointError(f"{file}: {name} must be {vocabulary}, the size of the vocabulary, given another")
    if unknown := [name for name, value in given.items() if value is not None]:
        raise CheckpointError(f"{file}: {unknown[0]} is not supported, given {str(given[unknown[0]])[:64]}")
    return SpladePooling(WORD_POOLINGS[strategy], LOGS[activation])


def read_modules(checkpoint: Checkpoint) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the modules of a folder, and the class of each. Raises CheckpointError."""
    modules = read_json(checkpoint.folder / MODULES_FILE)
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise CheckpointError(f"{MODULES_FILE}: must list modules")
    return modules, [str(module.get("type", "")).rpartition(".")[2] for module in modules]


def check_first(module: Mapping[str, Any]) -> None:
    """Raise CheckpointError if the first module lies in a folder of its own."""
    if path := module.get("path"):
        raise CheckpointError(f"{MODULES_FILE}: the Transformer must lie in the folder itself, given {path!r}")


def check_declaration(checkpoint: Checkpoint) -> None:
    """Raise CheckpointError for what `config_sentence_transformers.json` asks of embeddings alone."""
    declared = checkpoint.json(DECLARATION_FILE)
    for name in ("default_prompt_name", "truncate_dim"):
        if (given := declared.get(name)) is not None:
            raise CheckpointError(f"{DECLARATION_FILE}: {name} must be null for this task, given {str(given)[:64]!r}")


def path_of(checkpoint: Checkpoint, kind: str, module: Mapping[str, Any]) -> str:
    """Return the folder of a module. Raises CheckpointError for one that is not there, or lies elsewhere."""
    path = str(module.get("path", ""))
    if not path or "/" in path or path.startswith(".") or not checkpoint.has(f"{path}/config.json"):
        raise CheckpointError(f"{MODULES_FILE}: {kind} must have a folder with a config.json beside it, given {path!r}")
    return path


def read_declaration(checkpoint: Checkpoint) -> tuple[dict[str, str], str | None, int | None]:
    """Return the prompts by name, the name of the one that is put before every text, and the numbers of a vector."""
    declared = checkpoint.json(DECLARATION_FILE)
    prompts, name, width = (declared.get(key) for key in ("prompts", "default_prompt_name", "truncate_dim"))
    texts = {key: text for key, text in prompts.items() if text is not None} if isinstance(prompts, dict) else {}
    if not isinstance(prompts, dict | None) or not all(isinstance(text, str) for text in texts.values()):
        raise CheckpointError(f"{DECLARATION_FILE}: prompts must be texts by name, given {str(prompts)[:64]!r}")
    if name is not None and name not in texts:
        raise CheckpointError(
            f"{DECLARATION_FILE}: default_prompt_name must be the name of one of the prompts, given {str(name)[:64]!r}"
        )
    if width is not None and (type(width) is not int or width < 1):
        raise CheckpointError(f"{DECLARATION_FILE}: truncate_dim must be a number above 0, given {str(width)[:64]!r}")
    return texts, name, width


def read_settings(checkpoint: Checkpoint) -> tuple[int | None, bool]:
    """Return the most tokens of a text, and whether texts are in lower case. Raises CheckpointError."""
    file, settings = settings_of(checkpoint)
    limit, lower_case = settings.pop("max_seq_length", None), settings.pop("do_lower_case", False)
    for name, value in settings.items():
        if value and name not in IRRELEVANT_SETTINGS:
            raise CheckpointError(f"{file}: {name} is not supported, given {str(value)[:64]}")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise CheckpointError(f"{file}: max_seq_length must be a number above 0, given {limit!r}")
    return limit, bool(lower_case)


def settings_of(checkpoint: Checkpoint) -> tuple[str, dict[str, Any]]:
    """Return the file of the Transformer's settings, and what it holds."""
    file = next(filter(checkpoint.has, SETTINGS_FILES), SETTINGS_FILES[0])
    return file, checkpoint.json(file)


def _check_vector(file: str, settings: Mapping[str, Any]) -> None:
    """Raise CheckpointError if a module takes or makes anything but the embedding."""
    for name, value in settings.items():
        if value not in (None, ITS_VECTOR.get(name, value)):
            raise CheckpointError(f"{file}: {name} must be sentence_embedding, given {str(value)[:64]!r}")


def _read_dense(checkpoint: Checkpoint, path: str) -> Dense:
    """Return a layer. Raises CheckpointError for an activation that is not supported, or a key that is not known."""
    file = f"{path}/config.json"
    settings = checkpoint.json(file)
    _check_vector(file, settings)
    given = {key: value for key, value in settings.items() if key not in ITS_VECTOR}
    sizes = [given.pop(key, None) for key in ("in_features", "out_features")]
    if not all(type(size) is int and size > 0 for size in sizes):
        raise CheckpointError(f"{file}: in_features and out_features must be numbers above 0, given {sizes}")
    bias, residual = bool(given.pop("bias", True)), bool(given.pop("use_residual", False))
    named = str(given.pop("activation_function", "torch.nn.Tanh"))
    activation = ACTIVATIONS.get(named.rpartition(".")[2]) if named.startswith("torch.nn.") else None
    if activation is None:
        raise CheckpointError(
            f"{file}: activation_function must be one of {', '.join(ACTIVATIONS)} of torch.nn, given {named[:64]!r}"
        )
    if unknown := [key for key, value in given.items() if value]:
        raise CheckpointError(f"{file}: {unknown[0]} is not supported, given {str(given[unknown[0]])[:64]}")
    return Dense(path, sizes[0], sizes[1], activation, bias, residual)


def _read_pooling(file: str, config: dict[str, Any], *, prompted: bool) -> "Pooling":
    """Return the pooling. Raises CheckpointError for several, or if the prompt that is put before texts has no part."""
    if prompted and config.get("include_prompt") is False:
        raise CheckpointError(f"{file}: include_prompt must be true where there is a default prompt, given false")
    legacy = [mode for key, mode in LEGACY_POOLINGS.items() if config.get(key)]
    modes = config.get("pooling_mode") or legacy or "mean"
    modes = modes if isinstance(modes, list) else [modes]
    if len(modes) != 1 or str(modes[0]) not in POOLINGS:
        raise CheckpointError(
            f"{file}: pooling_mode must be one of {', '.join(POOLINGS)}, given {', '.join(map(str, modes))}"
        )
    return POOLINGS[str(modes[0])]
