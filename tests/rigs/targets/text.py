"""`texts.encode`: any text has tokens with places in it, or is refused."""

from pathlib import Path

from tests.rigs.targets import ARTIFACTS, check, instrumented, run

with instrumented("service.inputs.tokenization"):
    from contract.artifact import find_artifacts, read_artifact
    from service.errors import Refusal
    from service.inputs.model_input import Pair
    from service.inputs.tokenization import TextTokenizer

MODELS = [
    TextTokenizer(artifact, artifact.manifest.text.tokenizer, artifact.manifest.text.max_tokens)
    for artifact in map(read_artifact, find_artifacts(Path(ARTIFACTS)))
    if artifact.manifest.text
]


def target(data: bytes) -> None:
    """Tokenize by every tokenizer that there is, whole and cut, alone and as a pair."""
    text = data.decode(errors="ignore")
    half = len(text) // 2
    for texts in MODELS:
        for given, truncate in ((text, False), (text, True), (Pair(text[:half], text[half:]), True)):
            try:
                tokens = texts.encode(given, truncate=truncate)
            except Refusal as refusal:
                check(refusal)
                continue
            longest = len(given) if isinstance(given, str) else max(half, len(text) - half)
            assert all(token.span is None or 0 <= token.span[0] <= token.span[1] <= longest for token in tokens)


if __name__ == "__main__":
    run(target)
