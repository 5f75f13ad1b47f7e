"""Tokenizers as `tokenizer.json` texts, which is all that the service reads."""

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers


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
