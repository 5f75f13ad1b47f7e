"""Pairs of sentences that share one noun and no other word: the noun is what makes them alike."""

import numpy as np
import torch
from tokenizers import Tokenizer

from benchmarks.quality.methods import Subject
from export.plan import Source

NOUNS = """
dog piano river bridge garden train doctor horse kitchen guitar
mountain island castle church hospital airport desert forest camera bicycle
lawyer soldier painter farmer prison library museum theater restaurant hotel
cheese bread chicken butter sugar coffee wine potato apple orange
snow rain storm moon planet telescope engine battery computer keyboard
shirt jacket mirror candle blanket pillow ladder hammer needle rope
""".split()
FRAMES = (
    ("my brother painted the {} yesterday", "nobody could find any {} there"),
    ("she wrote about a {} again", "this old {} belongs to them"),
    ("we talked about the {} all night", "every {} looks different today"),
    ("they wanted another {} last year", "his favourite {} was gone"),
    ("I dreamed of that {} often", "what a strange {} you have"),
    ("the {} surprised our neighbours", "there is no {} like it"),
)
"""The first sentence is explained."""


def pairs() -> list[tuple[str, str, str]]:
    """Return each noun, and two sentences that share it alone."""
    frames = [FRAMES[index % len(FRAMES)] for index in range(len(NOUNS))]
    return [(noun, one.format(noun), two.format(noun)) for noun, (one, two) in zip(NOUNS, frames, strict=True)]


def of_pairs(source: Source) -> tuple[Subject, np.ndarray]:
    """Return the first sentences, explained for the cosine with the second, and where the noun is: (batch, token)."""
    tokenizer = Tokenizer.from_str(source.tokenizer)
    tokenizer.no_truncation()
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id("[PAD]"))
    drawn = pairs()
    first, second = (tokenizer.encode_batch([pair[side] for pair in drawn]) for side in (1, 2))
    inputs, others = (_inputs(own) for own in (first, second))
    with torch.no_grad():
        other = source.traced.observe(*others).answer
    special = torch.tensor([one.special_tokens_mask for one in first]).bool()
    evidence = np.zeros(special.shape, bool)
    for row, ((noun, text, _), one) in enumerate(zip(drawn, first, strict=True)):
        start = text.index(noun)
        for place, (left, right) in enumerate(one.offsets):
            evidence[row, place] = left < right and start <= left and right <= start + len(noun)
    blank = torch.where(special, inputs[0], tokenizer.token_to_id("[MASK]"))
    return Subject(inputs=inputs, baseline=(blank, *inputs[1:]), other=other, visible=inputs[1]), evidence


def _inputs(encoded: list) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    ids, visible = (torch.tensor([getattr(one, name) for one in encoded]) for name in ("ids", "attention_mask"))
    return ids, visible.bool(), torch.zeros_like(ids)
