"""How a decoder ranks texts: by what it says next of a query and a document, which a form makes one text of."""

from dataclasses import dataclass

from tokenizers import Tokenizer

from contract.chat import PairForm
from export.checkpoints.reading.architectures import named_in
from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.pair_template import PUBLISHED, read_pair_form
from export.checkpoints.reading.sentence_transformers import (
    LOGIT_SCORE,
    MODULES_FILE,
    check_first,
    path_of,
    read_declaration,
    read_modules,
    read_settings,
    settings_of,
    takes_messages,
)
from export.checkpoints.reading.tokenizers.tokenizer import TOKENIZER_FILE
from export.errors import CheckpointError

YES, NO = "yes", "no"
OF_CHATS = ("<|im_start|>", "<|im_end|>")
"""The special tokens of the published form."""


@dataclass(frozen=True)
class Ranking:
    """The tokens that say yes and no, and the form of a pair. A score is the difference of their logits."""

    form: PairForm
    true: int
    false: int | None
    """None where the score is the logit of yes alone."""
    max_tokens: int | None = None


def ranks_by_words(checkpoint: Checkpoint) -> bool:
    """Return whether a folder's modules say so, or a causal language model has no layer that classifies."""
    if checkpoint.has(MODULES_FILE) and LOGIT_SCORE in read_modules(checkpoint)[1]:
        return True
    continues = any(name.endswith(("ForCausalLM", "LMHeadModel")) for name in named_in(checkpoint.config))
    return continues and "score.weight" not in checkpoint.tensors


def read_ranking(checkpoint: Checkpoint, tokenizer: Tokenizer, vocabulary: int) -> Ranking:
    """Return what the modules of sentence-transformers declare; without them, what Qwen3-Reranker's card says.

    Raises CheckpointError for what is not supported, and for a tokenizer that lacks the tokens.
    """
    if checkpoint.has(MODULES_FILE):
        return _declared(checkpoint, vocabulary)
    for token in OF_CHATS:
        if tokenizer.token_to_id(token) is None:
            raise CheckpointError(f"{TOKENIZER_FILE}: must hold {token}, to rank as Qwen3-Reranker does")
    true, false = (_single(tokenizer, word) for word in (YES, NO))
    return Ranking(PUBLISHED, true, false)


def _single(tokenizer: Tokenizer, word: str) -> int:
    tokens: list[int] = tokenizer.encode(word, add_special_tokens=False).ids
    if len(tokens) != 1:
        raise CheckpointError(f"{TOKENIZER_FILE}: must have {word!r} as one token, to rank by it, given {len(tokens)}")
    return tokens[0]


def declared_form(checkpoint: Checkpoint) -> PairForm | None:
    """Return the form of pairs where modules put these into messages, behind the default prompt; else None."""
    if not checkpoint.has(MODULES_FILE) or not takes_messages(settings_of(checkpoint)[1]):
        return None
    prompts, name, _ = read_declaration(checkpoint)
    return read_pair_form(checkpoint, None if name is None else prompts[name])


def _declared(checkpoint: Checkpoint, vocabulary: int) -> Ranking:
    modules, kinds = read_modules(checkpoint)
    settings_file, settings = settings_of(checkpoint)
    task = settings.get("transformer_task")
    if kinds != ["Transformer", LOGIT_SCORE] or task != "text-generation":
        raise CheckpointError(
            f"{MODULES_FILE}: must be a Transformer for text-generation and {LOGIT_SCORE}, given "
            f"{', '.join(kinds)[:200]} for {str(task)[:64]}"
        )
    check_first(modules[0])
    max_tokens, lower_case = read_settings(checkpoint)
    form = declared_form(checkpoint)
    if lower_case or form is None:
        raise CheckpointError(f"{settings_file}: must put texts into messages (modality_config), as they are")
    file = f"{path_of(checkpoint, LOGIT_SCORE, modules[1])}/config.json"
    given = checkpoint.json(file)
    true, false = (given.pop(f"{word}_token_id", None) for word in ("true", "false"))
    if given.pop("module_input_name", "causal_logits") != "causal_logits" or given:
        raise CheckpointError(f"{file}: must name true_token_id and false_token_id alone, of causal_logits")
    for token in (true, 0 if false is None else false):
        if type(token) is not int or not 0 <= token < vocabulary:
            raise CheckpointError(f"{file}: tokens must be numbers below {vocabulary}, given {str(token)[:64]!r}")
    return Ranking(form, true, false, max_tokens)
