"""A family of checkpoints: what one `model_type` has in common."""

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

import onnx
import torch
from pydantic import ValidationError
from torch import nn

from contract.artifact import sha256
from contract.manifest import Task
from export.checkpoints.building.size_limit import SizeLimit
from export.checkpoints.building.tensor_names import UNUSED, Names, fill_parameters, rename_tensors
from export.checkpoints.reading.architectures import named_in, task_of
from export.checkpoints.reading.checkpoint import CONFIG, Checkpoint, without_keys
from export.checkpoints.reading.config import GENERATION_KEYS, IRRELEVANT_KEYS, Config
from export.checkpoints.reading.sentence_transformers import MODULES_FILE, declared_task
from export.errors import CheckpointError
from export.plan import Source

C = TypeVar("C", bound=Config)

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class ExportOptions:
    """What the user asks for when a checkpoint is exported."""

    name: str
    task: Task | None = None
    image: tuple[int, int] | None = None
    """Height and width in pixels; by default the checkpoint's own."""
    ignored: tuple[str, ...] = ()
    """Keys of the configurations that the user declares irrelevant."""


@dataclass(frozen=True)
class Family(ABC, Generic[C]):
    """One `model_type`: its configuration, its definition in `model/`, and the names of its tensors."""

    model_type: str
    config: type[C]
    names: Names
    """Names of the body's tensors, without `prefix`."""
    heads: Mapping[Task, Names]
    """Names of each task's head. Tensors of the other tasks' heads are unused."""
    prefix: str = ""
    unused: tuple[str, ...] = ()
    """Names of tensors that none of our tasks uses."""
    command_options: ClassVar[str] = ""
    """Options of the command that only some families take, for --list."""

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Return the tasks that the family can be exported for."""
        return tuple(self.heads)

    def source(self, checkpoint: Checkpoint, options: ExportOptions) -> Source:
        """Return the source of an artifact. Raises CheckpointError for anything that is wrong with the checkpoint."""
        if options.image and "--image-size" not in self.command_options:
            raise CheckpointError(f"--image-size: {self.model_type} takes no images")
        checkpoint = dataclasses.replace(checkpoint, config=without_keys(checkpoint.config, options.ignored))
        task = self.task(checkpoint, options.task)
        config = self.read(checkpoint)
        try:
            with SizeLimit(checkpoint.numbers):
                return self.build(checkpoint, options, config, task)
        except CheckpointError:
            raise
        except ValueError as error:  # a definition's sizes contradict each other
            raise CheckpointError(str(error).splitlines()[0]) from error

    @abstractmethod
    def build(self, checkpoint: Checkpoint, options: ExportOptions, config: C, task: Task) -> Source:
        """Compose the definition, fill it with the checkpoint's tensors, and return the source."""

    def read(self, checkpoint: Checkpoint) -> C:
        """Return the validated configuration. Raises CheckpointError that names the key that is not supported."""
        return read_config(self.config, self.model_type, checkpoint.config)

    def task(self, checkpoint: Checkpoint, requested: Task | None) -> Task:
        """Return the task to export for: the requested one or, by default, the one that the checkpoint is for.

        `check_architectures` comes before it, and before the weights are read.
        """
        if requested is not None:
            if requested not in self.tasks:
                raise CheckpointError(f"--task: {self.model_type} serves {', '.join(self.tasks)}, given {requested}")
            return requested
        declared, listed = declared_task(checkpoint), ", ".join(self.tasks)
        if declared and declared not in self.tasks:
            raise CheckpointError(
                f"{MODULES_FILE}: is of a model for {declared}, for which {self.model_type} is not read; "
                f"add --task, one of {listed}, to export it for another"
            )
        if len(self.tasks) == 1:
            return self.tasks[0]
        if declared:
            return declared
        for architecture in named_in(checkpoint.config):
            if task := task_of(architecture, self.tasks):
                return task
        raise CheckpointError(f"{CONFIG}: architectures do not say what for; add --task, one of {listed}")

    def fill(
        self, module: M, checkpoint: Checkpoint, config: C, task: Task, more: Names = MappingProxyType({})
    ) -> tuple[M, list[str]]:
        """Fill a module with the checkpoint's tensors, each used once; return it and the names of unused tensors.

        `more` are the names of tensors that are no family's, such as those behind pooling.
        """
        body = self.body(config)
        head = {**self.head_names(config, task), **more}
        unused = (*(name for other in self.heads for name in self.head_names(config, other)), *self.unused)
        renamed = rename_tensors(module, checkpoint, {**dict.fromkeys(unused, UNUSED), **body, **head}, self.prefix)
        prefix = self.prefix if any(name.startswith(self.prefix) for name in checkpoint.tensors) else ""
        names = {f"{prefix}{name}": to for name, to in body.items()} | head
        fill_parameters(module, self.adapt(config, module, renamed.tensors), names)
        return module.eval(), renamed.unused

    def body(self, config: C) -> Names:
        """Return the names of the body's tensors, which may depend on the configuration."""
        return self.names

    def head_names(self, config: C, task: Task) -> Names:
        """Return the names of a head's tensors, which may depend on the configuration."""
        return self.heads[task]

    def adapt(self, config: C, module: nn.Module, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the tensors by our names, with the changes that the module needs; by default none."""
        return tensors


def read_config(kind: type[C], model_type: str, config: Mapping[str, Any], within: str = "") -> C:
    """Return a validated configuration, of a whole checkpoint or of a part `within` it, such as `encoder.`.

    Raises CheckpointError that names the key that is not supported.
    """
    dropped, fields = IRRELEVANT_KEYS | kind.irrelevant_keys, kind.model_fields
    given = {
        key: value
        for key, value in config.items()
        if key in fields or (key not in dropped and key not in GENERATION_KEYS and value is not None)
    }
    try:
        return kind.model_validate_json(json.dumps(given))  # in JSON a list may be a tuple
    except ValidationError as error:
        problems = error.errors(include_url=False)
        unknown = [str(problem["loc"][0]) for problem in problems if problem["type"] == "extra_forbidden"]
        if unknown and len(unknown) == len(problems):
            named = ", ".join(f"{within}{key}" for key in unknown)
            raise CheckpointError(
                f"{CONFIG}: {named}: not known of {model_type}, so the effect is not reproduced; "
                f"if there is none, add: {' '.join(f'--ignore {key}' for key in unknown)}"
            ) from error
        first = next(problem for problem in problems if problem["type"] != "extra_forbidden")
        key = within + ".".join(str(step) for step in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise CheckpointError(f"{CONFIG}: {key}: {message}, given {str(first['input'])[:64]!r}") from error


def made_by(family: str, sizes: object, checkpoint: Checkpoint, unused: list[str]) -> dict[str, Any]:
    """Return the `made_by` of a manifest: definition, sizes, weights, versions."""
    hashes = [sha256(file) for file in checkpoint.weights]
    return {
        "definition": family,
        **flatten_sizes(dataclasses.asdict(sizes)),  # type: ignore[call-overload] # a dataclass
        **checkpoint.origin,
        "weights_sha256": " ".join(hashes),
        "set_aside": " ".join(unused),
        **library_versions(),
    }


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that graphs are made with."""
    return {"torch": torch.__version__.split("+")[0], "onnx": onnx.__version__}


def flatten_sizes(sizes: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Flatten sizes for a manifest: nested keys become dotted, tuples become lists, and nulls are left out."""
    found: dict[str, Any] = {}
    for key, value in sizes.items():
        if isinstance(value, dict):
            found |= flatten_sizes(value, f"{path}{key}.")
        elif value is not None:
            found[path + key] = list(value) if isinstance(value, tuple) else value
    return found
