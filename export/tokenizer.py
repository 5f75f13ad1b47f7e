"""Tokenizers as `tokenizer.json` texts, which is all that the service reads."""

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from export.checkpoint import Checkpoint, CheckpointError

FILE = "tokenizer.json"


def characters(specials: tuple[str, ...], alphabet: str) -> str:
    """Return a tokenizer that lower-cases a text and takes its characters one by one.

    Indices are the specials in their order and then the alphabet; `[UNK]` stands for every other character. The
    specials cannot be written: a text that holds "[END]" holds five characters.
    """
    vocabulary = {token: index for index, token in enumerate((*specials, *alphabet))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106 # no password
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return tokenizer.to_str(pretty=True)


def of_checkpoint(checkpoint: Checkpoint, vocabulary: int, *, lower_case: bool = False) -> Tokenizer:
    """Return a checkpoint's tokenizer, which neither cuts nor pads. Raises CheckpointError if it does not fit."""
    if not checkpoint.has(FILE):
        raise CheckpointError(
            f"{FILE}: must be in the checkpoint's folder, and is not; with the transformers library: "
            f"AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
        )
    tokenizer = fitting(FILE, (checkpoint.folder / FILE).read_text(encoding="utf-8", errors="replace"), vocabulary)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if lower_case:
        before = [tokenizer.normalizer] if tokenizer.normalizer else []
        tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *before])
    return tokenizer


def fitting(file: str, text: str, vocabulary: int) -> Tokenizer:
    """Parse a tokenizer. Raises CheckpointError where it is none, or has tokens that the model has not."""
    try:
        tokenizer = Tokenizer.from_str(text)
    except BaseException as error:  # what panics in the library is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        raise CheckpointError(f"{file}: is no tokenizer: {error}") from error
    most = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
    if most >= vocabulary:
        raise CheckpointError(f"{file}: token {most} does not fit the model's vocabulary of {vocabulary}")
    return tokenizer


def longest(checkpoint: Checkpoint, *limits: int | None) -> int:
    """Return the most tokens of a text: the least of what the model, its tokenizer and others allow."""
    said = checkpoint.json("tokenizer_config.json").get("model_max_length")
    return min(int(limit) for limit in (*limits, said) if isinstance(limit, (int, float)) and limit > 0)


def special(checkpoint: Checkpoint, tokenizer: Tokenizer, name: str) -> int:
    """Return the index of a special token, such as `mask_token`. Raises CheckpointError where there is none."""
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        token = checkpoint.json(file).get(name)
        text = token.get("content") if isinstance(token, dict) else token
        index = tokenizer.token_to_id(text) if isinstance(text, str) else None
        if index is not None:
            return int(index)
    raise CheckpointError(f"tokenizer_config.json: must name a {name} that {FILE} holds")
