"""`dates-mlm` and `dates-clm`: a masked and a causal model of lines such as "3 May 2021 = 2021-05-03"."""

import math
import random
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.catalogue import build
from model.vocabularies import ALPHABET, END, MASK, PAD, START, VOCABULARY, encode
from train.data.written_dates.examples import example
from train.fit import Run, fit

BATCH = 32
POOLED_BATCHES = 16  # drawn together and sorted by length, so that there is little padding

MASKED_SHARE = 0.15  # of the characters, which are to be predicted (Devlin et al. 2019, section 3.1)
MASK_SHARE, ANY_SHARE = 0.8, 0.1  # of these, which become the mask, or any character; the others stay
FIRST_CHARACTER = len(VOCABULARY) - len(ALPHABET)  # its index; special tokens come before

ISO_LENGTH = len("2021-05-03")
HELD_LINES = 5000  # on which the figures are measured


def line(rng: random.Random, *, held: bool = False) -> list[int]:
    """Write a date and its ISO 8601 reading as tokens between START and END; of a held-out day if `held`."""
    text, iso = example(rng, held=held)
    return [START, *encode(f"{text} = {iso}"), END]


def batches(rng: random.Random) -> Iterator[Tensor]:
    """Yield endless batches of lines (BATCH, length), right-padded; no held-out day is among them."""
    while True:
        pool = sorted((line(rng) for _ in range(BATCH * POOLED_BATCHES)), key=len)
        order = list(range(POOLED_BATCHES))
        rng.shuffle(order)
        for index in order:
            yield padded(pool[index * BATCH : (index + 1) * BATCH])


def padded(lines: list[list[int]]) -> Tensor:
    """Stack lines (batch, longest), with PAD behind the shorter ones."""
    rows = [torch.tensor(one) for one in lines]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


def small(module: nn.Module) -> None:
    """Begin with weights of deviation 0.02 and no biases, as BERT and GPT-2 do."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


# The masked model.


def chosen(tokens: Tensor) -> Tensor:
    """Choose MASKED_SHARE of the characters of lines (batch, length) at random, at least one in each line."""
    drawn = torch.rand(tokens.shape).masked_fill(tokens < FIRST_CHARACTER, 2.0)
    return drawn <= drawn.amin(1, keepdim=True).clamp_min(MASKED_SHARE)


def hidden(tokens: Tensor, some: Tensor) -> Tensor:
    """Hide the chosen characters: of ten, eight become the mask, one becomes any character, one stays (section 3.1)."""
    fate = torch.rand(tokens.shape)
    anything = torch.randint(FIRST_CHARACTER, MASK, tokens.shape)
    changed = torch.where(fate < MASK_SHARE, MASK, torch.where(fate < MASK_SHARE + ANY_SHARE, anything, tokens))
    return torch.where(some, changed, tokens)


def filled(module: nn.Module, given: Tensor, tokens: Tensor, some: Tensor) -> tuple[Tensor, Tensor]:
    """Predict the chosen tokens from the given ones: logits (chosen, vocabulary), and the tokens (chosen)."""
    places = some.int().argsort(dim=1, descending=True, stable=True)[:, : some.sum(1).max()]
    logits = module(given, given != PAD, None, places)[0]
    return logits[some.gather(1, places)], tokens[some]


def masked_loss(module: nn.Module, tokens: Tensor) -> Tensor:
    """Return the cross-entropy of the chosen characters alone."""
    some = chosen(tokens)
    return F.cross_entropy(*filled(module, hidden(tokens, some), tokens, some))


@torch.no_grad()
def masked_figure(module: nn.Module, lines: list[list[int]]) -> str:
    """Format the share of masked characters found, all chosen ones masked, and that of the commonest character."""
    right, wanted, in_date = [], [], []
    for start in range(0, len(lines), BATCH):
        tokens = padded(lines[start : start + BATCH])
        some = chosen(tokens)
        logits, target = filled(module, tokens.masked_fill(some, MASK), tokens, some)
        last = (tokens != PAD).sum(1, keepdim=True) - 1  # where END stands
        date = torch.arange(tokens.shape[1]) >= last - ISO_LENGTH
        right.append(logits.argmax(1) == target)
        wanted.append(target)
        in_date.append(date.expand_as(some)[some])
    hits = torch.cat(right).double()
    dates = torch.cat(in_date)
    commonest = torch.cat(wanted).bincount().max().item() / len(hits)
    return (
        f"masked characters found {hits.mean():.2%} ({hits[dates].mean():.2%} of those in the ISO date), where the "
        f"commonest character would be {commonest:.2%}; {len(hits)} characters of {len(lines)} lines of held-out days"
    )


# The causal model.


def causal_loss(module: nn.Module, tokens: Tensor) -> Tensor:
    """Return the cross-entropy of every token of lines but the first, from those before it."""
    logits = module(tokens[:, :-1])[0]
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=PAD)


@torch.no_grad()
def causal_figure(module: nn.Module, lines: list[list[int]]) -> str:
    """Format how many ISO dates are continued right, greedily, and the perplexity per character, END included.

    Greedy decoding finds a date exactly when, fed the line, every prediction from the date on is the next token of it.
    """
    exact, lost, count = 0, 0.0, 0
    for start in range(0, len(lines), BATCH):
        tokens = padded(lines[start : start + BATCH])
        logits, following = module(tokens[:, :-1])[0], tokens[:, 1:]
        last = (following != PAD).sum(1, keepdim=True) - 1  # where END stands
        place = torch.arange(following.shape[1])
        asked = (place >= last - ISO_LENGTH) & (place <= last)
        exact += int(((logits.argmax(-1) == following) | ~asked).all(1).sum())
        lost += F.cross_entropy(logits.flatten(0, 1), following.flatten(), ignore_index=PAD, reduction="sum").item()
        count += int((following != PAD).sum())
    return (
        f"ISO dates continued exactly {exact / len(lines):.2%} ({exact} of {len(lines)} lines of held-out days), "
        f"perplexity a character {math.exp(lost / count):.3f}"
    )


STEPS = {"dates-mlm": 2500, "dates-clm": 4000}
LOSSES = {"dates-mlm": masked_loss, "dates-clm": causal_loss}
FIGURES = {"dates-mlm": masked_figure, "dates-clm": causal_figure}


def train(name: str, run: Run) -> tuple[nn.Module, str]:
    """Train a model; return it and the sentence its card quotes."""
    rng = run.begin()
    module = build(name).apply(small)
    drawn = batches(rng)
    fit(module, lambda: LOSSES[name](module, next(drawn)), run, rate=2e-3, label=name, rng=rng)
    return module, FIGURES[name](module, [line(rng, held=True) for _ in range(HELD_LINES)])
