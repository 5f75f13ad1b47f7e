"""The errors of the export, as one tree, each with the exit status that `python -m export` ends with.

ExportError                 1   a check failed: the artifact cannot be made as it should be
├── MethodError             1   a method of attention, or `inside`, failed, without which the artifact can be made
└── CheckpointError         2   the request or the checkpoint is wrong; nothing is written
    ├── ProcessorError      2   `preprocessor_config.json` holds what no image rule can express
    └── TokenizerError      2   a tokenizer cannot be converted
"""

from typing import ClassVar

from contract.manifest import Omissible


class ExportError(Exception):
    """An artifact cannot be made. The message is one line: subject, limit, given."""

    exit_status: ClassVar[int] = 1


class MethodError(ExportError):
    """A method of attention, or `inside`, cannot be computed, or not exactly. The export goes on without it."""

    def __init__(self, method: Omissible, message: str) -> None:
        super().__init__(message)
        self.method = method


class CheckpointError(ExportError):
    """The request or the checkpoint is wrong. The message is one line that says what was found and what to do."""

    exit_status: ClassVar[int] = 2


class ProcessorError(CheckpointError):
    """A key or value of `preprocessor_config.json` that no image rule can express."""

    def __init__(self, key: str, rule: str, given: object) -> None:
        super().__init__(f"preprocessor_config.json: {key} must be {rule}, given {given!r}")


class TokenizerError(CheckpointError):
    """A tokenizer that cannot be converted. The message names the file, what is wrong with it and what to do."""
