"""`digits-dino`: self-distillation without labels (Caron et al. 2021), on the scans and strokes of `digits`."""

import copy
import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.catalogue import build
from model.vit import DIGITS_MEAN, DIGITS_STD, VIT_SIZES, ViT
from train.data.handwritten_digits import INK, SIDE, augment, pixels, scans, strokes
from train.fit import Run, fit

CONFIG = VIT_SIZES["digits"]

# Caron et al. 2021, section 3.1 and appendix C, with a smaller head for fewer images
HIDDEN, BOTTLENECK, PROTOTYPES = 256, 64, 256
STUDENT_TEMPERATURE = 0.1
TEACHER_TEMPERATURE = 0.04
FROZEN = 0.01  # share of the steps in which the last layer stays as it is
CENTRE_MOMENTUM = 0.9
MOMENTUM = 0.996  # of the teacher at the beginning

POSITIONS = 0.5  # deviation at the beginning, as of the patches: a digit is known by where its strokes are
SCANNED, DRAWN = 13, 3  # images of a batch
GLOBAL, LOCAL = 2, 2  # views of an image
GLOBAL_SIDE, LOCAL_SIDE = (0.85, 1.0), (0.6, 0.85)  # sides of what a view shows, as shares of the field's
SMALL = 16  # side of a local view, in pixels

NEIGHBOURS, NEIGHBOUR_TEMPERATURE = 20, 0.07  # section 4.1, after Wu et al. 2018
MASS = 0.6  # of the attention that counts as foreground, section 4.2.2


class Head(nn.Module):
    """Three layers, a bottleneck of length one, and prototypes of length one (appendix C).

    It normalises over the batch, as the paper's code can too: a network that has learned nothing says almost
    the same of every digit, and what little differs would drown.
    """

    def __init__(self, width: int, hidden: int, bottleneck: int, prototypes: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden),
            nn.BatchNorm1d(hidden),
            nn.GELU(),
            nn.Linear(hidden, hidden),
            nn.BatchNorm1d(hidden),
            nn.GELU(),
            nn.Linear(hidden, bottleneck),
        )
        self.prototypes = nn.Parameter(torch.empty(prototypes, bottleneck))
        nn.init.normal_(self.prototypes)

    def forward(self, x: Tensor, *, frozen: bool = False) -> Tensor:
        """Take embeddings (batch, width) -> cosines to every prototype (batch, prototypes), learned unless `frozen`."""
        prototypes = self.prototypes.detach() if frozen else self.prototypes
        return F.normalize(self.mlp(x), dim=1) @ F.normalize(prototypes, dim=1).T


class Dino(nn.Module):
    """A student, the teacher that is its moving mean, the centre of what the teacher said, and the steps taken."""

    centre: Tensor
    taken: Tensor

    def __init__(self, backbone: ViT, head: Head) -> None:
        super().__init__()
        self.student = nn.ModuleDict({"backbone": backbone, "head": head})
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.register_buffer("centre", torch.zeros(head.prototypes.shape[0]))
        self.register_buffer("taken", torch.tensor(0))

    def loss(self, views: list[Tensor], steps: int) -> Tensor:
        """Compare what the student says of all views with what the teacher says of the global ones (algorithm 1).

        views are (batch, 1, side, side), the global ones first. Moves the centre.
        """
        progress = self.taken.item() / steps
        with torch.no_grad():
            said = say(self.teacher, torch.cat(views[:GLOBAL]))
            targets = sharpened(said, self.centre, TEACHER_TEMPERATURE).chunk(GLOBAL)
            self.centre.copy_(moved(self.centre, said.mean(0), CENTRE_MOMENTUM))
        frozen = progress < FROZEN
        answers = [
            *say(self.student, torch.cat(views[:GLOBAL]), frozen=frozen).chunk(GLOBAL),
            *say(self.student, torch.cat(views[GLOBAL:]), frozen=frozen).chunk(len(views) - GLOBAL),
        ]
        return distillation(targets, answers)

    @torch.no_grad()
    def follow(self, steps: int) -> None:
        """Move the teacher towards the student: θt ← λ θt + (1 - λ) θs (section 3.1)."""
        rate = momentum(self.taken.item() / steps)
        for mean, parameter in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
            mean.copy_(moved(mean, parameter, rate))
        self.taken += 1


def say(network: nn.ModuleDict, view: Tensor, *, frozen: bool = False) -> Tensor:
    """What a network says of views (batch, 1, side, side) of one size: (batch, prototypes)."""
    return network["head"](embed(network["backbone"], view), frozen=frozen)


def embed(vit: nn.Module, view: Tensor) -> Tensor:
    """Embed views (batch, 1, side, side) -> (batch, width); of smaller ones the positions are interpolated."""
    assert isinstance(vit, ViT)  # noqa: S101 # for the type checker
    if view.shape[-2:] == vit.patches.image:
        return vit(view)[0]
    x = vit.patches.projection(view)  # (batch, width, rows, columns)
    positions = vit.positions.get_parameter("weight")
    first, others = positions[:1], positions[1:]
    grid = others.T.reshape(1, -1, *CONFIG.grid)
    x = x + F.interpolate(grid, x.shape[-2:], mode="bicubic")
    token = (vit.class_token + first).expand(len(x), -1, -1)
    states, _ = vit.encoder(torch.cat((token, x.flatten(2).transpose(1, 2)), dim=1), None)
    return vit.head(states)


def sharpened(said: Tensor, centre: Tensor, temperature: float) -> Tensor:
    """softmax((g - c) / τ): centred and sharpened (equation 1, section 3.1), (batch, prototypes)."""
    return ((said - centre) / temperature).softmax(-1)


def distillation(targets: tuple[Tensor, ...], answers: list[Tensor]) -> Tensor:
    """Mean over pairs of different views of H(P_t(x), P_s(x')) = -Σ P_t(x) log P_s(x') (equations 2 and 3).

    targets are the teacher's probabilities of the global views, answers what the student says of all, global ones
    first; (batch, prototypes) each.
    """
    logs = [(answer / STUDENT_TEMPERATURE).log_softmax(-1) for answer in answers]
    pairs = [
        -(target * log).sum(-1).mean()
        for one, target in enumerate(targets)
        for other, log in enumerate(logs)
        if one != other
    ]
    return torch.stack(pairs).mean()


def moved(mean: Tensor, value: Tensor, momentum: float) -> Tensor:
    """m ← λ m + (1 - λ) v: of the centre (equation 4) and of the teacher (section 3.1)."""
    return momentum * mean + (1 - momentum) * value


def momentum(progress: float) -> float:
    """λ: from MOMENTUM to 1 along a cosine (section 3.1)."""
    return 1 - (1 - MOMENTUM) * (1 + math.cos(math.pi * progress)) / 2


def view(field: Tensor, share: tuple[float, float], side: int) -> Tensor:
    """Cut a square anywhere out of each field, after augmenting it, and scale it to `side` pixels.

    field (batch, 1, FIELD, FIELD) in [0, 1]; the square's side is drawn between the shares of the field's.
    """
    batch = len(field)
    half = torch.empty(batch).uniform_(*share)
    across, down = (torch.rand(2, batch) * 2 - 1) * (1 - half)
    zero = torch.zeros(batch)
    theta = torch.stack((torch.stack((half, zero, across), 1), torch.stack((zero, half, down), 1)), 1)
    grid = F.affine_grid(theta, [batch, 1, side, side], align_corners=False)
    cut = F.grid_sample(augment(field), grid, mode="bilinear", align_corners=False)
    return (cut - DIGITS_MEAN) / DIGITS_STD


STEPS = {"digits-dino": 2500}


def train(name: str, run: Run) -> tuple[nn.Module, str]:
    """Train a model; return the teacher's backbone and the sentence its card quotes."""
    run.begin()
    backbone = build(name)
    assert isinstance(backbone, ViT)  # noqa: S101 # for the type checker
    nn.init.normal_(backbone.positions.get_parameter("weight"), std=POSITIONS)
    untrained = copy.deepcopy(backbone)
    dino = Dino(backbone, Head(CONFIG.width, HIDDEN, BOTTLENECK, PROTOTYPES))
    scanned, labels, held, held_labels = scans()
    drawn, _ = strokes(3000, seed=0)

    def loss() -> Tensor:
        some, others = torch.randint(len(scanned), (SCANNED,)), torch.randint(len(drawn), (DRAWN,))
        fields = torch.cat((scanned[some], drawn[others]))
        views = [view(fields, GLOBAL_SIDE, SIDE) for _ in range(GLOBAL)]
        views += [view(fields, LOCAL_SIDE, SMALL) for _ in range(LOCAL)]
        return dino.loss(views, run.steps)

    fit(dino, loss, run, rate=1e-3, label=name, after=lambda _: dino.follow(run.steps))
    teacher = dino.teacher["backbone"]
    ours, theirs = (measured(network, scanned, labels, held, held_labels) for network in (teacher, untrained))
    return teacher, f"{ours}; as it began, {theirs} ({len(held)} held-out scans)"


@torch.no_grad()
def measured(network: nn.Module, known: Tensor, labels: Tensor, held: Tensor, held_labels: Tensor) -> str:
    """Say what a network's embeddings and maps are worth: k-NN accuracy, and how the maps lie on the ink."""
    (references, _), (embeddings, maps) = network(pixels(known)), network(pixels(held))
    right = (nearest(references, labels, embeddings) == held_labels).sum().item()
    weights = maps[f"encoder.blocks.{CONFIG.layers - 1}.attention"][:, :, 0, 1:]  # (batch, heads, patch)
    alike = jaccard(foreground(weights), ink(held))
    return (
        f"k-NN {right / len(held):.2%} ({right}), Jaccard of map and ink {alike.max(1).values.mean():.3f} "
        f"(mean over heads {alike.mean():.3f})"
    )


def nearest(references: Tensor, labels: Tensor, embeddings: Tensor) -> Tensor:
    """Let the nearest NEIGHBOURS vote, each with exp(cos / τ) (section 4.1; Wu et al. 2018, section 3.4).

    references (known, width), labels (known), embeddings (batch, width) -> (batch).
    """
    cosines = F.normalize(embeddings, dim=1) @ F.normalize(references, dim=1).T
    closest, index = cosines.topk(NEIGHBOURS, dim=1)
    votes = F.one_hot(labels)[index] * (closest / NEIGHBOUR_TEMPERATURE).exp()[:, :, None]
    return votes.sum(1).argmax(1)


def foreground(weights: Tensor) -> Tensor:
    """Keep the patches that hold MASS of each map, the heaviest first (section 4.2.2): (..., patch) -> boolean."""
    heaviest, order = (weights / weights.sum(-1, keepdim=True)).sort(descending=True, stable=True)
    before = heaviest.cumsum(-1) - heaviest  # a patch counts as long as those before it are too few
    return torch.zeros_like(weights, dtype=torch.bool).scatter(-1, order, before < MASS)


def ink(field: Tensor) -> Tensor:
    """Return which pixels (batch, SIDE, SIDE) are ink, of fields (batch, 1, FIELD, FIELD)."""
    seen = F.interpolate(field, (SIDE, SIDE), mode="area")[:, 0]
    return seen > INK * seen.amax((1, 2), keepdim=True)


def jaccard(patches: Tensor, mask: Tensor) -> Tensor:
    """Divide what two areas share by what either covers (section 4.2.2), (batch, heads).

    patches (batch, heads, patch) and mask (batch, SIDE, SIDE), pixels, are boolean.
    """
    grid = patches.reshape(*patches.shape[:2], *CONFIG.grid)
    area = grid.repeat_interleave(CONFIG.patch[0], -2).repeat_interleave(CONFIG.patch[1], -1)
    both, either = area & mask[:, None], area | mask[:, None]
    return both.sum((2, 3)) / either.sum((2, 3))
