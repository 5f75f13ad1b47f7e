"""`digits-dino`: self-distillation without labels (Caron et al. 2021), on the scans and strokes of `digits`.

`python -m train.recipes.dino` measures how the maps of the bundled network lie on the ink.
"""

import copy
import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.architectures.vit import DIGITS_MEAN, DIGITS_STD, VIT_SIZES, ViT
from model.catalogue import build, bundled
from model.methods.explanations import rollout
from train.data.handwritten_digits import INK_SHARE, SIDE, augment, pixels, scans, strokes
from train.fit import Run, fit

CONFIG = VIT_SIZES["digits"]

# Caron et al. 2021, section 3.1 and appendix C, with a smaller head for fewer images
HIDDEN, BOTTLENECK, PROTOTYPES = 256, 64, 256
STUDENT_TEMPERATURE = 0.1
TEACHER_TEMPERATURE = 0.04
FROZEN_SHARE = 0.01  # of the steps, in which the last layer is not trained
CENTRE_MOMENTUM = 0.9
TEACHER_MOMENTUM = 0.996  # at the beginning

POSITIONS_DEVIATION = 0.5  # at the beginning, as large as that of patches: a digit is known by where its strokes are
SCANS_PER_BATCH, STROKES_PER_BATCH = 13, 3
GLOBAL_VIEWS, LOCAL_VIEWS = 2, 2  # of each image
GLOBAL_SHARES, LOCAL_SHARES = (0.85, 1.0), (0.6, 0.85)  # smallest and largest side of a view, as shares of the field's
LOCAL_SIDE = 16  # side of a local view, in pixels

NEIGHBOURS, NEIGHBOUR_TEMPERATURE = 20, 0.07  # section 3.2, after Wu et al. 2018
FOREGROUND_MASS = 0.9  # of the attention that counts as foreground; section 4.2.2 takes 0.6


class Head(nn.Module):
    """Three layers, a bottleneck of length one, and prototypes of length one (appendix C).

    It has batch norms, which the paper's code offers too: an untrained network gives almost the same output for every
    digit, and the batch norm amplifies the small differences.
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
    """A student, the teacher that is its moving mean, the centre of the teacher's outputs, and the steps taken."""

    centre: Tensor
    taken: Tensor

    def __init__(self, backbone: ViT, head: Head) -> None:
        super().__init__()
        self.student = nn.ModuleDict({"backbone": backbone, "head": head})
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.register_buffer("centre", torch.zeros(head.prototypes.shape[0]))
        self.register_buffer("taken", torch.tensor(0))

    def loss(self, views: list[Tensor], steps: int) -> Tensor:
        """Compare the student's outputs for all views with the teacher's for the global ones (algorithm 1).

        views are (batch, 1, side, side), the global ones first. Moves the centre.
        """
        targets = self.targets(views[:GLOBAL_VIEWS])
        seen = (views[:GLOBAL_VIEWS], views[GLOBAL_VIEWS:])  # each of one size
        return distillation(targets, [answer for some in seen for answer in self.answers(some, steps)])

    @torch.no_grad()
    def targets(self, views: list[Tensor]) -> tuple[Tensor, ...]:
        """Return the teacher's probabilities (batch, prototypes) for views of one size, and move the centre."""
        said = say(self.teacher, torch.cat(views))
        targets = sharpened(said, self.centre, TEACHER_TEMPERATURE)
        self.centre.copy_(moved(self.centre, said.mean(0), CENTRE_MOMENTUM))
        return targets.chunk(len(views))

    def answers(self, views: list[Tensor], steps: int) -> tuple[Tensor, ...]:
        """Return the student's outputs (batch, prototypes) for views of one size."""
        frozen = self.taken.item() / steps < FROZEN_SHARE
        return say(self.student, torch.cat(views), frozen=frozen).chunk(len(views))

    @torch.no_grad()
    def follow(self, steps: int) -> None:
        """Move the teacher towards the student: θt ← λ θt + (1 - λ) θs (section 3.1)."""
        rate = momentum(self.taken.item() / steps)
        for mean, parameter in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
            mean.copy_(moved(mean, parameter, rate))
        self.taken += 1


def say(network: nn.ModuleDict, view: Tensor, *, frozen: bool = False) -> Tensor:
    """Return a network's outputs (batch, prototypes) for views (batch, 1, side, side) of one size."""
    return network["head"](embed(network["backbone"], view), frozen=frozen)


def embed(vit: nn.Module, view: Tensor) -> Tensor:
    """Embed views (batch, 1, side, side) -> (batch, width); positions are interpolated for smaller views."""
    assert isinstance(vit, ViT)  # noqa: S101 # for the type checker
    if view.shape[-2:] == vit.patches.image:
        return vit(view)[0]
    x = vit.patches.projection(view)  # (batch, width, rows, columns)
    positions = vit.positions.get_parameter("weight")
    first, others = positions[:1], positions[1:]
    grid = others.T.reshape(1, -1, *CONFIG.grid)
    x = x + F.interpolate(grid, x.shape[-2:], mode="bicubic")
    token = (vit.get_parameter("class_token") + first).expand(len(x), -1, -1)
    states, _ = vit.encoder(torch.cat((token, x.flatten(2).transpose(1, 2)), dim=1))
    return vit.head(states)


def sharpened(said: Tensor, centre: Tensor, temperature: float) -> Tensor:
    """softmax((g - c) / τ): centred and sharpened (equation 1, section 3.1), (batch, prototypes)."""
    return ((said - centre) / temperature).softmax(-1)


def distillation(targets: tuple[Tensor, ...], answers: list[Tensor]) -> Tensor:
    """Mean over pairs of different views of H(P_t(x), P_s(x')) = -Σ P_t(x) log P_s(x') (equations 2 and 3).

    targets are the teacher's probabilities for the global views, answers the student's outputs for all views, global
    ones first; (batch, prototypes) each.
    """
    pairs = [
        cross_entropy(target, answer)
        for one, target in enumerate(targets)
        for other, answer in enumerate(answers)
        if one != other
    ]
    return torch.stack(pairs).mean()


def cross_entropy(target: Tensor, answer: Tensor) -> Tensor:
    """H(P_t, P_s) = -Σ P_t log P_s of probabilities and a student's outputs (batch, prototypes), the batch's mean."""
    return -(target * (answer / STUDENT_TEMPERATURE).log_softmax(-1)).sum(-1).mean()


def moved(mean: Tensor, value: Tensor, momentum: float) -> Tensor:
    """m ← λ m + (1 - λ) v, for the centre (equation 4) and the teacher (section 3.1)."""
    return momentum * mean + (1 - momentum) * value


def momentum(progress: float) -> float:
    """λ: from TEACHER_MOMENTUM to 1 along a cosine (section 3.1)."""
    return 1 - (1 - TEACHER_MOMENTUM) * (1 + math.cos(math.pi * progress)) / 2


def view(field: Tensor, share: tuple[float, float], side: int) -> Tensor:
    """Augment each field, cut a square out at a random place, and scale it to `side` pixels.

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


def begun(name: str) -> ViT:
    """Return a network with the random weights that training begins with."""
    backbone = build(name)
    assert isinstance(backbone, ViT)  # noqa: S101 # for the type checker
    nn.init.normal_(backbone.positions.get_parameter("weight"), std=POSITIONS_DEVIATION)
    return backbone


def train(name: str, run: Run) -> tuple[nn.Module, str]:
    """Train a model; return the teacher's backbone and the sentence its card quotes."""
    run.begin()
    backbone = begun(name)
    untrained = copy.deepcopy(backbone)
    dino = Dino(backbone, Head(CONFIG.width, HIDDEN, BOTTLENECK, PROTOTYPES))
    scanned, labels, held, held_labels = scans()
    drawn, _ = strokes(3000, seed=0)

    def loss() -> Tensor:
        some, others = torch.randint(len(scanned), (SCANS_PER_BATCH,)), torch.randint(len(drawn), (STROKES_PER_BATCH,))
        fields = torch.cat((scanned[some], drawn[others]))
        views = [view(fields, GLOBAL_SHARES, SIDE) for _ in range(GLOBAL_VIEWS)]
        views += [view(fields, LOCAL_SHARES, LOCAL_SIDE) for _ in range(LOCAL_VIEWS)]
        return dino.loss(views, run.steps)

    fit(dino, loss, run, rate=1e-3, label=name, after=lambda _: dino.follow(run.steps))
    teacher = dino.teacher["backbone"]
    ours, theirs = (measured(network, scanned, labels, held, held_labels) for network in (teacher, untrained))
    return teacher, f"{ours}; as it began, {theirs} ({len(held)} held-out scans)"


@torch.no_grad()
def measured(network: nn.Module, known: Tensor, labels: Tensor, held: Tensor, held_labels: Tensor) -> str:
    """Format k-NN accuracy of a network's embeddings, and how its best head's map lies on the ink."""
    references, embeddings = network(pixels(known))[0], network(pixels(held))[0]
    right = (nearest(references, labels, embeddings) == held_labels).sum().item()
    head = best_head(maps_of(network, pixels(known)), inked_patches(known))
    share, area, hit, overlap = on_ink(maps_of(network, pixels(held))[head], inked_patches(held))
    return (
        f"k-NN {right / len(held):.2%} ({right}); {head} of the last layer: mass on ink {share:.3f}, "
        f"AUROC {area:.3f}, pointing {hit:.3f}, Jaccard {overlap:.3f}"
    )


def nearest(references: Tensor, labels: Tensor, embeddings: Tensor) -> Tensor:
    """Let the nearest NEIGHBOURS vote, each with exp(cos / τ) (section 3.2; Wu et al. 2018, section 3.4).

    references (known, width), labels (known), embeddings (batch, width) -> (batch).
    """
    cosines = F.normalize(embeddings, dim=1) @ F.normalize(references, dim=1).T
    closest, index = cosines.topk(NEIGHBOURS, dim=1)
    votes = F.one_hot(labels)[index] * (closest / NEIGHBOUR_TEMPERATURE).exp()[:, :, None]
    return votes.sum(1).argmax(1)


def maps_of(network: nn.Module, inputs: Tensor) -> dict[str, Tensor]:
    """Return maps (batch, patch) of the class token, by name: each head of the last layer, their mean, and rollout.

    The network is one of CONFIG's layers and heads, the inputs (batch, 1, height, width) are those that it takes.
    """
    _, maps = network(inputs)
    layers = [maps[f"encoder.blocks.{layer}.attention"] for layer in range(CONFIG.layers)]
    heads = layers[-1][:, :, 0, CONFIG.prefix :]
    everywhere = torch.ones(CONFIG.layers, dtype=torch.bool)
    followed = rollout([layer.mean(1) for layer in layers], everywhere, torch.tensor([0]))
    named = {f"head {index + 1}": heads[:, index] for index in range(CONFIG.heads)}
    return {**named, "mean of the heads": heads.mean(1), "rollout": followed[:, 0, CONFIG.prefix :]}


def baselines(seen: Tensor) -> dict[str, Tensor]:
    """Return what maps (batch, patch) must beat: brightness, a Gaussian in the middle that sees nothing, a flat map.

    seen (batch, 1, height, width) are pictures in [0, 1]. The Gaussian's deviation is a quarter of a side.
    """
    pooled = F.avg_pool2d(seen, CONFIG.patch)
    bright, (rows, columns) = pooled.flatten(1), pooled.shape[-2:]
    places = torch.cartesian_prod(torch.linspace(-1, 1, rows), torch.linspace(-1, 1, columns))
    middle = torch.exp(-2 * (places**2).sum(1)).expand_as(bright)
    return {"brightness": bright, "centred Gaussian": middle, "flat map": torch.ones_like(bright)}


def best_head(maps: dict[str, Tensor], inked: Tensor) -> str:
    """Return the head whose maps have the largest AUROC against the ink: to be chosen on training images."""
    heads = [f"head {index + 1}" for index in range(CONFIG.heads)]
    return max(heads, key=lambda head: on_ink(maps[head], inked)[1])


def on_ink(maps: Tensor, inked: Tensor) -> tuple[float, float, float, float]:
    """Measure maps (batch, patch) by the patches that hold ink, (batch, patch) of bool; means over images.

    Returns the share of the mass on ink; AUROC, the share of pairs of a patch with ink and one without in which the
    first is heavier, half of equal ones; pointing, whether the heaviest patch holds ink (Zhang et al. 2018), shared
    among equal ones; and the Jaccard index with the heaviest patches that hold FOREGROUND_MASS (section 4.2.2).
    """
    weights = maps / maps.sum(-1, keepdim=True)
    pairs = inked[:, :, None] & ~inked[:, None, :]
    above = (weights[:, :, None] > weights[:, None, :]) + 0.5 * (weights[:, :, None] == weights[:, None, :])
    area = (above * pairs).sum((1, 2)) / pairs.sum((1, 2))
    heaviest = weights == weights.amax(-1, keepdim=True)
    hit = (heaviest & inked).sum(-1) / heaviest.sum(-1)
    front = foreground(weights)
    overlap = (front & inked).sum(-1) / (front | inked).sum(-1)
    share = (weights * inked).sum(-1)
    return (share.mean().item(), area.mean().item(), hit.mean().item(), overlap.mean().item())


def foreground(weights: Tensor) -> Tensor:
    """True for the heaviest patches that together hold FOREGROUND_MASS of each map (section 4.2.2), (..., patch)."""
    heaviest, order = (weights / weights.sum(-1, keepdim=True)).sort(descending=True, stable=True)
    before = heaviest.cumsum(-1) - heaviest  # a patch counts if the heavier ones hold less than the mass
    return torch.zeros_like(weights, dtype=torch.bool).scatter(-1, order, before < FOREGROUND_MASS)


def ink(field: Tensor) -> Tensor:
    """True for pixels (batch, SIDE, SIDE) that are ink in fields (batch, 1, FIELD, FIELD)."""
    seen = F.interpolate(field, (SIDE, SIDE), mode="area")[:, 0]
    return seen > INK_SHARE * seen.amax((1, 2), keepdim=True)


def inked_patches(field: Tensor) -> Tensor:
    """True for patches (batch, patch) that hold a pixel of ink, of fields (batch, 1, FIELD, FIELD)."""
    return F.max_pool2d(ink(field)[:, None].float(), CONFIG.patch).flatten(1) > 0


@torch.no_grad()
def table() -> str:
    """Return the table of the card: the bundled network's maps, those of its beginning, and the baselines."""
    Run(0).begin()
    first = begun("digits-dino")  # before anything else draws: then it is what training begins with
    known, _, held, _ = scans()
    found: dict[str, Tensor] = {}
    for name, network in (("trained", bundled("digits-dino")), ("as it began", first)):
        head = best_head(maps_of(network, pixels(known)), inked_patches(known))
        maps = maps_of(network, pixels(held))
        found |= {f"{row}, {name}": maps[row] for row in (head, "mean of the heads", "rollout")}
    return rows_of(found | baselines(F.interpolate(held, (SIDE, SIDE), mode="area")), inked_patches(held))


def rows_of(found: dict[str, Tensor], inked: Tensor) -> str:
    """Return a card's table of maps by name, measured by the patches that hold ink; both (batch, patch)."""
    lines = ["| Map | Mass on ink | AUROC | Pointing | Jaccard at 90 % |", "|---|---|---|---|---|"]
    for row, values in found.items():
        lines.append(f"| {row} | " + " | ".join(f"{value:.3f}" for value in on_ink(values, inked)) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())  # noqa: T201 # a command's answer
