"""TODO: what export/errors.py is."""


class CheckpointError(ValueError):
    """A checkpoint cannot be exported; the message is one line that says what was found and what to do."""


class ExportError(Exception):
    """An artifact cannot be made; the message says what was found."""


class ProcessorError(ValueError):
    """A key or value that no rule can stand for: key, rule, given."""

    def __init__(self, key: str, rule: str, given: object) -> None:
        super().__init__(f"preprocessor_config.json: {key} must be {rule}, given {given!r}")
