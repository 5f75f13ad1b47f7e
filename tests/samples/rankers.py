"""A small decoder that ranks by what it says next: yes or no. What the card of Qwen3-Reranker makes of it."""

import json
import warnings

import torch
import transformers
from sentence_transformers import CrossEncoder
from sentence_transformers.base.modules import Transformer
from sentence_transformers.cross_encoder.modules import LogitScore
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.samples.checkpoints import LLAMA_PARTS, WORDS, llama, sharpened

POSITIONS = 320
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How Qwen's tokenizer splits texts: a sign takes the end of its line in."""
PREFIX = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
TEMPLATE = (
    PREFIX
    + """<Instruct>: {{ messages | selectattr("role", "eq", "system") | map(attribute="content") | first }}
<Query>: {{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }}
<Document>: {{ messages | selectattr("role", "eq", "document") | map(attribute="content") | first }}"""
    + SUFFIX.removesuffix("\n")
    + "{{ '\\n' }}"  # a last line's end is no part of a template
)
PAIRS = [
    ("good cat?", "the old cat sat on the mat."),
    ("what's 12", " a bird ran\n\nto the blue house "),
    (" high\n", "?! not, bad\n"),
    ("äöü?!", ""),
]


def tokenizer() -> Tokenizer:
    made = Tokenizer(models.BPE())
    bytes_alone = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLIT), "isolated"), bytes_alone])
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=520,
        show_progress=False,
        special_tokens=["<s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    lines = [f"{word}? {word}?\n {word}.\n" for word in [*WORDS.split(), *("yes", "no") * 3, *PREFIX.split()]]
    made.train_from_iterator(lines, trainer)
    made.add_special_tokens([AddedToken(one, normalized=False) for one in ("<|im_start|>", "<|im_end|>")])
    return made


def save(folder, kind=transformers.Qwen3ForCausalLM, **more) -> None:
    """Write the checkpoint as what it was saved as: a causal language model, unless another kind is given."""
    tokens = tokenizer()
    sizes = {"vocab_size": tokens.get_vocab_size(), "max_position_embeddings": POSITIONS, "pad_token_id": 1}
    made = llama(
        kind, transformers.Qwen3Config, theta=300.0, parts=LLAMA_PARTS, head_dim=6,
        tie_word_embeddings=True, **sizes, **more,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sharpened(made.make(), 3).save_pretrained(folder)
    tokens.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<pad>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def save_by_the_library(folder, target, task="text-generation", **more) -> CrossEncoder:
    """Save the checkpoint as a cross-encoder of sentence-transformers; return that."""
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    body = Transformer(str(folder), transformer_task=task)
    words = [body.tokenizer.convert_tokens_to_ids(word) for word in ("yes", "no")]
    (folder / "chat_template.jinja").unlink()
    behind = [LogitScore(*words)] if task == "text-generation" else []
    model = CrossEncoder(modules=[body, *behind], device="cpu", **more)
    model.save(str(target))
    return model


@torch.no_grad()
def by_the_card(folder, pairs):
    """Return the probabilities of yes (pair) as the card of Qwen3-Reranker-0.6B computes them, in float64."""
    tokens = transformers.AutoTokenizer.from_pretrained(folder, padding_side="left")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    before, behind = (tokens.encode(text, add_special_tokens=False) for text in (PREFIX, SUFFIX))
    texts = [f"<Instruct>: {INSTRUCTION}\n<Query>: {query}\n<Document>: {document}" for query, document in pairs]
    rows = [[*before, *tokens.encode(text, add_special_tokens=False), *behind] for text in texts]
    given = tokens.pad({"input_ids": rows}, padding=True, return_tensors="pt")
    logits = model(**given).logits[:, -1]
    said = [logits[:, tokens.convert_tokens_to_ids(word)] for word in ("no", "yes")]
    return torch.stack(said, 1).log_softmax(1)[:, 1].exp().numpy()
