"""The form of pairs, of a decoder that ranks: the strings around a query and a document."""

from collections.abc import Mapping

from contract.chat import SYSTEM, Message, PairForm
from export.checkpoints.reading.chat_template import NoFormError, render, special_tokens, split, template_of
from export.checkpoints.reading.checkpoint import Checkpoint
from export.errors import CheckpointError

QUERY, DOCUMENT = "query", "document"
"""The roles by which sentence-transformers hands the two texts of a pair to a template."""
PUBLISHED = PairForm(
    begins="<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web '
    "search query, retrieve relevant passages that answer the query\n<Query>: ",
    between="\n<Document>: ",
    ends="<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
)
"""As the card of Qwen3-Reranker writes it, with its usual instruction (Zhang et al. 2025, "Qwen3 Embedding")."""
MARKED = ("The6query", "The9document")
PAIRS: Mapping[str, tuple[str, str]] = {
    "marked": MARKED,
    "usual": ("What is the capital of China?", "The capital of China is Beijing."),
    "of white space": (" \n two  lines\n", "\t a  document \n\n"),
    "of signs": ("<Query>: {{ 'one' }} & \"two\" \\ \u00e9\u4e2d", "<Document>: {% if 1 %} </think> & 'three'"),
    "empty": ("", ""),
    "long": ("query " * 60, "document. " * 200),
}


def read_pair_form(checkpoint: Checkpoint, instruction: str | None) -> PairForm:
    """Return the form of pairs that a checkpoint's template makes behind an instruction, if there is one.

    Raises CheckpointError if the template makes no such form.
    """
    try:
        template = template_of(checkpoint)
        if template is None:
            raise NoFormError("there is none")
        return _derive(template, special_tokens(checkpoint), instruction)
    except NoFormError as error:
        raise CheckpointError(f"chat_template: must write a query and a document in their order: {error}") from error


def _derive(template: str, tokens: Mapping[str, str], instruction: str | None) -> PairForm:
    told = [] if instruction is None else [Message(SYSTEM, instruction)]
    asked = {name: [*told, Message(QUERY, one), Message(DOCUMENT, two)] for name, (one, two) in PAIRS.items()}
    texts = render(template, tokens, asked, asked)
    form = PairForm(**dict(zip(("begins", "between", "ends"), split(texts["marked"], *MARKED), strict=True)))
    if wrong := next((name for name, pair in PAIRS.items() if form.text(*pair) != texts[name]), None):
        raise NoFormError(f"strings around them do not make its text of the pair {wrong}")
    return form
