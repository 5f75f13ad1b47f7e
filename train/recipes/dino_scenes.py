"""`scenes-dino`: `digits-dino` goes on learning, of digits that stand anywhere, on grounds of many textures.

`python -m train.recipes.dino_scenes` measures how the maps of the bundled network lie on the ink.
"""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.architectures.vit import DIGITS_BOX, DIGITS_MEAN, DIGITS_STD, VIT_SIZES, ViT
from model.catalogue import build, bundled
from train.data.grounds import anywhere, ink_of, on_grounds, placed
from train.data.handwritten_digits import augment, scans, strokes
from train.fit import Run, fit
from train.recipes.dino import (
    BOTTLENECK,
    HIDDEN,
    PROTOTYPES,
    SCANS_PER_BATCH,
    STROKES_PER_BATCH,
    Dino,
    Head,
    baselines,
    best_head,
    cross_entropy,
    maps_of,
    nearest,
    on_ink,
    rows_of,
)

STEPS = {"scenes-dino": 3000}
BEGINNING = "digits-dino"  # whose weights training begins with: a random network tells nothing of such pictures
CONFIG = VIT_SIZES["scenes-dino"]
STUDENT_VIEWS = 2
HARD_SHARE = 0.9  # of the student's views, at last: those on a ground, and those away from the middle
RISING_SHARE = 0.4  # of the steps, in which the share of hard views rises from 0
NUDGE = 0.08  # deviation of the middle of the teacher's digit, as a share of half a side
HELD_SCENES, HELD_SEED = 3, 1_000_003  # how many scenes are made of each held-out scan, and from which seed
AT_ONCE = 60  # pictures, when many are measured
KNOWN_SCENES = 500  # of training scans, on which the head is chosen


def begun(name: str) -> ViT:
    """Return a network with the weights that training begins with.

    The places of the middle are those of the smaller network; each place around them is like the nearest of those.
    """
    network = build(name)
    assert isinstance(network, ViT)  # noqa: S101 # for the type checker
    tensors = bundled(BEGINNING).state_dict()
    first, places = tensors["positions.weight"][:1], tensors["positions.weight"][1:]
    (rows, columns), (height, width) = VIT_SIZES["digits"].grid, CONFIG.grid
    down = (torch.arange(height) - (height - rows + 1) // 2).clamp(0, rows - 1)
    across = (torch.arange(width) - (width - columns + 1) // 2).clamp(0, columns - 1)
    grid = places.reshape(rows, columns, -1)[down][:, across]
    network.load_state_dict({**tensors, "positions.weight": torch.cat((first, grid.flatten(0, 1)))})
    return network


def inputs_of(pictures: Tensor) -> Tensor:
    """Normalise pictures (batch, 1, SIDE, SIDE) in [0, 1] as the network takes them."""
    return (pictures - DIGITS_MEAN) / DIGITS_STD


def plain(field: Tensor, nudge: float = 0.0) -> Tensor:
    """Return pictures of the digits alone, in the middle or `nudge` from it, bright on black (batch, 1, SIDE, SIDE)."""
    middle = torch.randn(len(field), 2) * nudge
    return placed(field, torch.full((len(field),), float(DIGITS_BOX)), middle).clamp(0, 1)


def student_view(field: Tensor, share: float) -> Tensor:
    """Return pictures of the digits, augmented anew: a share of them on a ground, as large a share off the middle."""
    size, middle = anywhere(len(field))
    off, grounded = torch.rand(2, len(field)) < share
    size = torch.where(off, size, DIGITS_BOX)
    cover = placed(augment(field), size, middle * off[:, None])
    return torch.where(grounded[:, None, None, None], on_grounds(cover), cover.clamp(0, 1))


def scenes(field: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Return a picture (batch, 1, SIDE, SIDE) of each digit, anywhere and on a ground, and its patches with ink.

    The patches are (batch, patch) of bool. The same seed gives the same pictures.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        cover = placed(field, *anywhere(len(field)))
        return on_grounds(cover), F.max_pool2d(ink_of(cover)[:, None].float(), CONFIG.patch).flatten(1) > 0


def train(name: str, run: Run) -> tuple[nn.Module, str]:
    """Train a model; return the teacher's backbone and the sentence its card quotes.

    The teacher sees the digit alone, the student every view on a ground of its own (after Ryali et al. 2021, who vary
    grounds): what both say alike can only be of the digit.
    """
    run.begin()
    backbone = begun(name)
    dino = Dino(copy.deepcopy(backbone), Head(CONFIG.width, HIDDEN, BOTTLENECK, PROTOTYPES))
    scanned, drawn = scans()[0], strokes(3000, seed=0)[0]

    def loss() -> Tensor:
        some, others = torch.randint(len(scanned), (SCANS_PER_BATCH,)), torch.randint(len(drawn), (STROKES_PER_BATCH,))
        fields = torch.cat((scanned[some], drawn[others]))
        share = HARD_SHARE * min(1.0, dino.taken.item() / (RISING_SHARE * run.steps))
        (target,) = dino.targets([inputs_of(plain(augment(fields), NUDGE))])
        views = [inputs_of(student_view(fields, share)) for _ in range(STUDENT_VIEWS)]
        return torch.stack([cross_entropy(target, answer) for answer in dino.answers(views, run.steps)]).mean()

    fit(dino, loss, run, rate=1e-3, label=name, after=lambda _: dino.follow(run.steps))
    teacher = dino.teacher["backbone"]
    return teacher, f"{measured(teacher)}; as it began, {measured(backbone)}"


def embeddings(network: nn.Module, pictures: Tensor) -> Tensor:
    """Return embeddings (batch, width) of pictures in [0, 1], a part of them at a time."""
    return torch.cat([network(inputs_of(some))[0] for some in torch.split(pictures, AT_ONCE)])


def maps_of_pictures(network: nn.Module, pictures: Tensor) -> dict[str, Tensor]:
    """Return maps (batch, patch) by name, as `maps_of` does, of pictures in [0, 1], a part of them at a time."""
    parts = [maps_of(network, inputs_of(some)) for some in torch.split(pictures, AT_ONCE)]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


@torch.no_grad()
def measured(network: nn.Module) -> str:
    """Format k-NN accuracy of a network's embeddings of held-out scans, and how its best head's map lies on the ink."""
    known, labels, held, held_labels = scans()

    def right(references: Tensor, given: Tensor, truth: Tensor) -> str:
        found = nearest(embeddings(network, references), labels, embeddings(network, given))
        return f"{(found == truth).float().mean().item():.2%} of {len(truth)}"

    many = held.repeat(HELD_SCENES, 1, 1, 1)
    pictures, inked = scenes(many, HELD_SEED)
    head = chosen(network)
    share, area, hit, overlap = on_ink(maps_of_pictures(network, pictures)[head], inked)
    return (
        f"k-NN alone in the middle {right(plain(known), plain(held), held_labels)}, "
        f"anywhere on grounds {right(scenes(known, 0)[0], pictures, held_labels.repeat(HELD_SCENES))}; "
        f"{head} of the last layer: mass on ink {share:.3f}, "
        f"AUROC {area:.3f}, pointing {hit:.3f}, Jaccard {overlap:.3f}"
    )


def chosen(network: nn.Module) -> str:
    """Return the last layer's head whose maps lie best on the ink of training scans."""
    pictures, inked = scenes(scans()[0][:KNOWN_SCENES], 0)
    return best_head(maps_of_pictures(network, pictures), inked)


def contrasts(pictures: Tensor) -> dict[str, Tensor]:
    """Return two more maps (batch, patch) that know nothing of digits: a patch's contrasts, of pictures in [0, 1].

    With the whole picture, the distance of its mean from the picture's median; within itself, its pixels' deviation.
    """
    mean = F.avg_pool2d(pictures, CONFIG.patch)
    median = pictures.flatten(1).median(1).values[:, None, None, None]
    variance = F.avg_pool2d(pictures**2, CONFIG.patch) - mean**2
    return {
        "contrast with the picture": (mean - median).abs().flatten(1),
        "contrast within a patch": variance.clamp(min=0).sqrt().flatten(1),
    }


@torch.no_grad()
def table(trained: nn.Module) -> str:
    """Return the table of the card: a network's maps, those of its beginning, and the baselines."""
    pictures, inked = scenes(scans()[2].repeat(HELD_SCENES, 1, 1, 1), HELD_SEED)
    found: dict[str, Tensor] = {}
    for name, network in (("trained", trained), ("as it began", begun("scenes-dino"))):
        maps = maps_of_pictures(network, pictures)
        head = chosen(network)
        found |= {f"{row}, {name}": maps[row] for row in (head, "mean of the heads", "rollout")}
    return rows_of(found | contrasts(pictures) | baselines(pictures), inked)


if __name__ == "__main__":
    print(table(bundled("scenes-dino")))  # noqa: T201 # a command's answer
