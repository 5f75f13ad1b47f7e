"""`captions`: an image that holds several handwritten digits to their words, with soft or with hard attention."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.architectures.captioner import CAPTIONS_MEAN, CAPTIONS_STD
from model.architectures.recurrent import Recurrent
from model.catalogue import build
from model.vocabularies import PAD, encode_words
from train.data.handwritten_digits import augment, scans
from train.data.scenes import Scene, on_box, scene
from train.fit import Run, fit

STEPS = {"captions-soft": 3000, "captions-hard": 2500}
BATCH = 48  # scenes
POOLED_SCENES = 512  # scenes drawn together, from as many augmented fields
SPREAD_WEIGHT = 1.0  # of the penalty on cells that several words look at (after Xu et al. 2015, equation 14)
REWARD_WEIGHT, ENTROPY_WEIGHT = 0.2, 0.005  # λ_r and λ_e of hard attention's gradient (section 4.1)
HELD_SCENES = 2000  # on which the figures are measured


class Drawn(nn.Module):
    """Draw the cell to look at from the shares, with probability `chance`; otherwise return the shares.

    Notes the logarithm of each drawn cell's share, and the entropy of the shares (Xu et al. 2015, section 4.1). The
    paper returns the shares half of the time, to lower the variance. Here `chance` rises from 0 to 1, so that words are
    first learned with the whole image in view.
    """

    baseline: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.chance = 0.0
        self.register_buffer("baseline", torch.zeros(()))  # of the rewards; a run that resumes needs it
        self.logs: list[Tensor] = []
        self.entropies: list[Tensor] = []

    def forward(self, shares: Tensor) -> Tensor:
        """Take shares (batch, 1, 1, cell) -> 1 at a drawn cell of each, or the shares."""
        logs = shares.clamp(min=1e-9).log()
        drawn = torch.multinomial(shares[:, 0, 0], 1)[:, None, None]  # (batch, 1, 1, 1)
        hard = torch.rand(len(shares), 1, 1, 1) < self.chance
        # a drawn cell that was not used gets no reward
        self.logs.append(torch.where(hard, logs.gather(3, drawn), 0)[:, 0, 0, 0])
        self.entropies.append(-(shares * logs).sum(-1)[:, 0, 0])
        chosen = torch.zeros_like(shares).scatter(3, drawn, 1.0)
        return torch.where(hard, chosen, shares)


def scenes(fields: Tensor, labels: Tensor, generator: torch.Generator, count: int) -> list[Scene]:
    """Return scenes of fields as they are."""
    return [scene(fields, labels, generator) for _ in range(count)]


def tensors(some: list[Scene]) -> tuple[Tensor, Tensor]:
    """Return the network's inputs for scenes: pixels (batch, 1, SIDE, SIDE), and words (batch, longest)."""
    words = [torch.tensor(encode_words(one.digits)) for one in some]
    target = nn.utils.rnn.pad_sequence(words, batch_first=True, padding_value=PAD)
    return (torch.stack([one.picture for one in some]) - CAPTIONS_MEAN) / CAPTIONS_STD, target


def train(name: str, run: Run) -> tuple[nn.Module, str]:
    """Train a captioner; return it and the sentence its card quotes."""
    run.begin()
    module = build(name)
    assert isinstance(module, Recurrent)  # noqa: S101 # for the type checker
    fields, labels, held, held_labels = scans()
    generator = torch.Generator().manual_seed(run.seed)
    pool: list[Scene] = []
    attention, select = module.decoder.attention, module.decoder.attention.select
    drawn = Drawn()
    if name == "captions-hard":
        attention.select = drawn

    def loss() -> Tensor:
        if len(pool) < BATCH:
            some = torch.randint(len(fields), (POOLED_SCENES,))
            pool.extend(scenes(augment(fields[some]), labels[some], generator, POOLED_SCENES))
        pixels, target = tensors([pool.pop() for _ in range(BATCH)])
        drawn.logs.clear()
        drawn.entropies.clear()
        logits, maps = module(pixels, None, target[:, :-1])
        wanted, said = target[:, 1:], target[:, 1:] != PAD
        logs = -F.cross_entropy(logits.transpose(1, 2), wanted, reduction="none") * said  # (batch, word)
        likelihood = logs.sum() / said.sum()
        if name == "captions-soft":
            weights = maps["decoder.attention"][:, 0] * said[:, :, None]  # (batch, word, cell)
            # a word's weights sum to one; a cell whose weights over all words exceed one is penalised
            return -likelihood + SPREAD_WEIGHT * (weights.sum(1) - 1).clamp(min=0).square().sum(1).mean()
        places, entropies = torch.stack(drawn.logs, dim=1), torch.stack(drawn.entropies, dim=1)  # (batch, word)
        reward = logs.detach()
        drawn.baseline.mul_(0.9).add_(0.1 * (reward.sum() / said.sum()))
        advantage = (reward - drawn.baseline) * said
        return -likelihood - (REWARD_WEIGHT * advantage * places + ENTROPY_WEIGHT * entropies * said).sum() / said.sum()

    def before(step: int) -> None:
        drawn.chance = min(1.0, max(0, step - 1) / (0.6 * run.steps))

    fit(module, loss, run, rate=2e-3, label=name, generator=generator, before=before)
    attention.select = select
    generator.manual_seed(1_000_003)
    right, on, words = measure(module, scenes(held, held_labels, generator, HELD_SCENES))
    return module, (
        f"{right / HELD_SCENES:.2%} of {HELD_SCENES} held-out captions exactly right; "
        f"{on / words:.2%} of {words} words most attend to a cell on their digit"
    )


@torch.no_grad()
def measure(module: nn.Module, some: list[Scene]) -> tuple[int, int, int]:
    """Count captions that are entirely right, words whose most attended cell lies on their digit, and all words.

    Greedy decoding finds a caption exactly when, fed it, every prediction is the next word of it.
    """
    pixels, target = tensors(some)
    logits, maps = module(pixels, None, target[:, :-1])
    wanted = target[:, 1:]
    right = int(((logits.argmax(-1) == wanted) | (wanted == PAD)).all(1).sum())
    places = maps["decoder.attention"][:, 0].argmax(-1)  # (batch, word)
    found = [
        on_box(int(place), box)
        for one, row in zip(some, places, strict=True)
        for place, box in zip(row[: len(one.boxes)], one.boxes, strict=True)
    ]
    return right, sum(found), len(found)
