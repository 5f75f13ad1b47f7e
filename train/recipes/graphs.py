"""`graphs-graphormer` and `graphs-gtn`: the class of a graph, which distances tell the one, and paths the other.

`python -m train.recipes.graphs` trains both with three seeds, a Graphormer that is told of no paths, and one that finds
cycles, and prints what each reaches; the cards quote it (Ying et al. 2021; Yun et al. 2019).
"""

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.architectures.graph_transformer_network import GraphTransformerNetwork
from model.architectures.graphormer import GRAPHORMER_SIZES, Graphormer, graphormer
from model.catalogue import build
from model.methods import explanations
from model.methods.attribution import libra
from model.vocabularies import LINKING_PATHS
from train.data.graphs import FIRST_COLOUR, Graph, coloured_graph, cyclic_graph, linked_graph, padded
from train.fit import Run, fit

Draw = Callable[[random.Random], Graph]

STEPS = {"graphs-graphormer": 1500, "graphs-gtn": 4000}
GRAPHS: Mapping[str, Draw] = {"graphs-graphormer": coloured_graph, "graphs-gtn": linked_graph}
"""What draws the graphs of each model."""
RATES = {"graphs-graphormer": 2e-3, "graphs-gtn": 2e-2}
BATCH = 64  # graphs
HELD_GRAPHS, HELD_SEED = 1000, 1_000_003  # on which the figures are measured
SEEDS = (0, 1, 2)
CYCLES = dataclasses.replace(GRAPHORMER_SIZES["graphs-graphormer"], layers=3, classes=2)
"""Sizes of a Graphormer that says whether a graph has a cycle."""


class NoPaths(nn.Module):
    """Takes the place of the biases by distance and edges: 0 for all."""

    def forward(self, edges: Tensor) -> Tensor:
        """Take edges (batch, type, node, node) -> (batch, 1, 1, 1)."""
        return edges.new_zeros((len(edges), 1, 1, 1), dtype=torch.float32)


def without_paths(name: str) -> Graphormer:
    """Return a Graphormer of the sizes of a bundled one that is told of no paths, with freshly initialised weights."""
    module = graphormer(GRAPHORMER_SIZES[name])
    module.paths = NoPaths()  # type: ignore[assignment] # which is called alike
    return module


def train(name: str, run: Run) -> tuple[nn.Module, str]:
    """Train a model of graphs; return it and the sentence its card quotes."""
    rng = run.begin()
    module = build(name)
    learn(module, GRAPHS[name], RATES[name], run, rng, name)
    return module, measure(module, held_out(GRAPHS[name]))


def learn(module: nn.Module, draw: Draw, rate: float, run: Run, rng: random.Random, label: str) -> None:
    """Train a classifier of graphs, which returns logits and maps."""

    def loss() -> Tensor:
        *inputs, labels = padded([draw(rng) for _ in range(BATCH)])
        return F.cross_entropy(module(*inputs)[0], labels)

    fit(module, loss, run, rate=rate, label=label, rng=rng)


def held_out(draw: Draw, count: int = HELD_GRAPHS) -> list[Graph]:
    """Return graphs on which figures are measured, always the same."""
    rng = random.Random(HELD_SEED)  # noqa: S311 # data, not secrets
    return [draw(rng) for _ in range(count)]


def accuracy(module: nn.Module, some: Sequence[Graph]) -> float:
    """Return the share of graphs of which a model names the class."""
    *inputs, labels = padded(some)
    with torch.no_grad():
        return float((module(*inputs)[0].argmax(-1) == labels).float().mean())


def heat(module: Graphormer, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    """Return what each method gives each node, (graph, node): the virtual node's row, of the likeliest class."""
    nodes, edges, visible = inputs
    logits, maps = module(nodes, edges, visible)
    score = logits.max(-1).values.sum()
    gradients = torch.autograd.grad(score, list(maps.values()))
    weights = list(maps.values())
    included, first = torch.ones(len(weights), dtype=torch.bool), torch.zeros(1, dtype=torch.long)
    evidence = [explanations.relevance_of(*pair) for pair in zip(weights, gradients, strict=True)]
    chosen = logits.argmax(-1, keepdim=True)

    def explain() -> Tensor:
        found: Tensor = module(nodes, edges, visible)[0].gather(1, chosen)[:, 0]
        return found

    contributions = libra(module, [module.encoder], explain).tokens[0][0]
    found = {
        "rollout": explanations.rollout([one.mean(1) for one in weights], included, first)[:, 0],
        "relevance": explanations.relevance(evidence, included, first)[:, 0],
        "libra": contributions,
    }
    return {method: own[:, 1:].masked_fill(~visible, float("-inf")).detach() for method, own in found.items()}


def pointing(module: Graphormer, some: Sequence[Graph]) -> dict[str, tuple[float, float]]:
    """Return the share of graphs in which a method gives most to the node that tells the class: of all, of coloured.

    The marked node decides the class too, and nodes that are neither say nothing.
    """
    *inputs, _ = padded(some)
    true = torch.tensor([one.truth[0] for one in some])
    others = inputs[0] < FIRST_COLOUR

    def share(found: Tensor) -> float:
        return float((found.argmax(-1) == true).float().mean())

    found = heat(module, inputs).items()
    return {method: (share(own), share(own.masked_fill(others, float("-inf")))) for method, own in found}


def named_paths(module: GraphTransformerNetwork) -> int:
    """Return how many of `LINKING_PATHS` some channel composes: the relations that its selections take most of."""
    first, second = (one.shares()[:, 1:].argmax(-1) for one in (module.first, module.layers[0].selection))  # type: ignore[union-attr, operator] # of a layer
    return len(set(zip(first.tolist(), second.tolist(), strict=True)) & set(LINKING_PATHS))


def measure(module: nn.Module, some: Sequence[Graph]) -> str:
    """Return the figures of a model on graphs, as the sentence that its card quotes."""
    said = f"accuracy {accuracy(module, some):.1%} on {len(some)} graphs"
    if isinstance(module, GraphTransformerNetwork):
        return f"{said}; its selections name {named_paths(module)} of {len(LINKING_PATHS)} paths"
    if not isinstance(module, Graphormer) or isinstance(module.paths, NoPaths) or len(some[0].truth) != 1:
        return said
    points = ", ".join(f"{method} {of_all:.1%}, {of:.1%}" for method, (of_all, of) in pointing(module, some).items())
    return f"{said}; the hottest node of all, and of the coloured ones, is the one that tells the class: {points}"


def main() -> None:
    """Train each model with three seeds, and what stands beside it in its card, and print what they reach."""
    trials: list[tuple[str, Callable[[], nn.Module], Draw, str]] = [
        *((name, lambda name=name: build(name), GRAPHS[name], name) for name in GRAPHS),
        ("without paths", lambda: without_paths("graphs-graphormer"), coloured_graph, "graphs-graphormer"),
        ("cycles", lambda: graphormer(CYCLES), cyclic_graph, "graphs-graphormer"),
    ]
    for label, make, draw, name in trials:
        for seed in SEEDS:
            run = Run(STEPS[name], seed)
            rng = run.begin()
            module = make()
            learn(module, draw, RATES[name], run, rng, label)
            print(f"{label}, seed {seed}: {measure(module, held_out(draw))}")  # noqa: T201 # a command's answer


if __name__ == "__main__":
    main()
