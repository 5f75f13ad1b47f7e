"""`digits`: a ViT that reads one handwritten digit, trained on scikit-learn's scans and on drawn strokes."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.architectures.vit_variants import VARIANTS
from model.catalogue import build
from train.data.handwritten_digits import augment, pixels, scans, strokes
from train.fit import Run, fit

STEPS = {"digits": 4000, **dict.fromkeys(VARIANTS, 1000)}
BATCH = {"digits": (96, 48), **dict.fromkeys(VARIANTS, (40, 20))}  # scans and strokes
RATE = {"digits": 1e-3, **dict.fromkeys(VARIANTS, 2e-3)}


def train(name: str, run: Run) -> tuple[nn.Module, str]:
    """Train a model; return it and the sentence its card quotes."""
    run.begin()
    module = build(name)
    scanned, scanned_labels, held, held_labels = scans()
    drawn, drawn_labels = strokes(6000, seed=0)
    scans_of_a_batch, strokes_of_a_batch = BATCH[name]

    def loss() -> Tensor:
        some = torch.randint(len(scanned), (scans_of_a_batch,))
        others = torch.randint(len(drawn), (strokes_of_a_batch,))
        field = augment(torch.cat((scanned[some], drawn[others])))
        logits, _ = module(pixels(field))
        return F.cross_entropy(logits, torch.cat((scanned_labels[some], drawn_labels[others])), label_smoothing=0.05)

    fit(module, loss, run, rate=RATE[name], label=name)
    right = read_right(module, held, held_labels)
    return module, f"accuracy {right / len(held):.2%} ({right} of {len(held)} held-out scans)"


@torch.no_grad()
def read_right(module: nn.Module, held: Tensor, labels: Tensor) -> int:
    """Count the held-out fields that are classified right."""
    return int((module(pixels(held))[0].argmax(1) == labels).sum())
