"""Verify the graphs of generation: `encode`, `decode`, its most probable tokens, and steps against one pass."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from contract.generation import COUNT, LIKELIEST, TOKENS
from contract.input_rules import FILLED
from contract.manifest import ANSWERED
from export.checks.comparison import (
    Array,
    Ledger,
    OpenSession,
    compare_alone_with_batch,
    compare_outputs,
    require_difference,
    run,
)
from export.checks.exact import in_float64
from export.checks.reference import Controls, keeping_no_maps
from export.checks.trials import SEEDS, Round, Trial
from export.plan import Plan, Sizes, Source, format_sizes

TOP_K = 3
"""The number of most probable tokens that a step is asked for."""


def verify_traced_graph(
    source: Source, plan: Plan, open_session: OpenSession, rounds: Sequence[Round], ledger: Ledger
) -> None:
    """Compare an encode or decode graph with the module that it was traced from, in float64.

    It is compared at the longest too, but for a step whose caches are encoded: `compare_last_step` does that.
    """
    count: Controls = {COUNT: torch.tensor([TOP_K])} if plan.role == "decode" else {}
    compared_at_longest = plan.role == "encode" or (plan.role == "decode" and not _begun(source))
    traced = plan.without_ports((), {LIKELIEST, TOKENS})  # these are compared with the logits instead

    def defined(exact: nn.Module, sizes: Sizes, seed: int, last: Controls) -> tuple[list[Tensor], list[Tensor]]:
        tensors = plan.example(sizes, seed, {**count, **last})
        taken = tensors[: len(tensors) - len(count)]
        with torch.no_grad(), nullcontext() if plan.role == "align" else keeping_no_maps(exact):
            wanted = exact(*(tensor.double() if tensor.is_floating_point() else tensor for tensor in taken))
        return tensors, list(wanted)

    def compare(sizes: Sizes, tensors: list[Tensor], wanted: list[Tensor]) -> list[Array]:
        answers = compare_outputs(traced, session, tensors, wanted, sizes, ledger)
        if count:
            got = run(plan, session, [tensor.numpy() for tensor in tensors])
            _compare_top_k(source, plan, got, format_sizes(sizes), ledger)
        return answers

    with in_float64(plan.module, ledger.precision) as exact:
        longest = source.verified_longest if compared_at_longest else None
        last = {"position": torch.tensor([longest["capacity"] - 1])} if longest and plan.role == "decode" else {}
        at_longest = defined(exact, longest, SEEDS[0], last) if longest else None
        session = open_session(plan.role)  # which holds the weights once more
        if longest and at_longest:
            compare(longest, *at_longest)
        for trials in ledger.each(rounds):
            found = [compare(trial.sizes, *defined(exact, trial.sizes, trial.seed, {})) for trial in trials]
            for one, other in pairwise(found):
                require_difference(traced, one, other, trials[-1].sizes)
    compare_alone_with_batch(plan, session, rounds[-1][-1], ledger, lambda _: count)


def _compare_top_k(source: Source, plan: Plan, got: list[Array], where: str, ledger: Ledger) -> None:
    """Compare the most probable tokens of a step with its own logits, in float64."""
    out = {port.name: array for port, array in zip(plan.outputs, got, strict=True)}
    logits = out["logits"].astype(np.float64)
    logs = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    if source.generation:
        logs[:, [token for token in source.generation.suppressed if 0 <= token < logs.shape[1]]] = -np.inf
    best = -np.sort(-logs, axis=-1)[:, : out[LIKELIEST].shape[1]]
    named = np.take_along_axis(logs, out[TOKENS].astype(np.int64), axis=1)
    for what, found in ((LIKELIEST, out[LIKELIEST]), (TOKENS, named)):
        hidden = np.isinf(best) & np.isinf(found)
        ledger.compare(f"decode: {what}", np.where(hidden, 0, found), np.where(hidden, 0, best), where)


def _begun(source: Source) -> bool:
    """Return whether an encode graph returns the caches of what a target begins with."""
    caches = _caches(source)
    return any(port.name in caches for plan in source.plans if plan.role == "encode" for port in plan.outputs)


def compare_cached_with_uncached(source: Source, open_session: OpenSession, trial: Trial, ledger: Ledger) -> None:
    """Feed a target token by token through encode and decode, and compare with one pass of the definition.

    If encoding returns caches, the first half of the target is encoded, and its last token is fed again.
    """
    given = _given(source, trial.sizes, trial.seed)
    with in_float64(source.traced, ledger.precision) as exact, torch.no_grad():
        everywhere = [tensor for name, tensor in given.items() if name != ANSWERED]
        wanted = exact.observe(*everywhere).answer.numpy()
    first = given["target"].shape[1] // 2 if _begun(source) else 0
    _compare_steps(source, open_session, given, trial.sizes, first, list(wanted.swapaxes(0, 1)), ledger)


def compare_last_step(source: Source, open_session: OpenSession, wanted: Array, ledger: Ledger) -> None:
    """Encode the longest target, feed its last token again, and compare its logits (batch, vocabulary) with `wanted`.

    Where encoding returns no caches, nothing is done.
    """
    sizes = source.verified_longest
    if sizes and _begun(source):
        given = _given(source, sizes, SEEDS[0])
        first = given["target"].shape[1]
        _compare_steps(source, open_session, given, sizes, first, [wanted] * first, ledger)


def _given(source: Source, sizes: Sizes, seed: int) -> dict[str, torch.Tensor]:
    """Return what the graph of predictions is given, by name."""
    predict = source.plan("predict")
    return dict(zip((port.name for port in predict.inputs), predict.example(sizes, seed), strict=True))


def _compare_steps(
    source: Source,
    open_session: OpenSession,
    given: Mapping[str, torch.Tensor],
    sizes: Sizes,
    first: int,
    wanted: Sequence[Array],
    ledger: Ledger,
) -> None:
    """Encode the `first` tokens of a target, feed it from the last of them on, and compare each token's logits."""
    decode, target, caches = source.plan("decode"), given["target"].numpy(), _caches(source)
    state = {name: tensor.numpy() for name, tensor in given.items()} | ({"source": target[:, :first]} if first else {})
    every = source.sound.samples // source.sound.hop if source.sound else 0
    state |= {FILLED: np.full(sizes["batch"], every)}
    for plan in (plan for plan in source.plans if plan.role in ("hear", "encode")):
        found = run(plan, open_session(plan.role), [state[port.name] for port in plan.inputs])
        state |= zip((port.name for port in plan.outputs), found, strict=True)
        del found  # of a long target they are large
    shape = {
        port.name: [sizes[axis] if isinstance(axis, str) else axis for axis in port.axes] for port in decode.inputs
    }
    for past in caches:
        room = np.zeros(shape[past], np.float32)
        room[:, :, :first] = state.get(past, room[:, :, :0])
        state[past] = room
    session = open_session("decode")
    for index in range(max(first - 1, 0), target.shape[1]):
        ledger.doing(f"token {index + 1} of {target.shape[1]}")
        state |= {"token": target[:, index], "position": np.full(sizes["batch"], index), COUNT: np.array([1])}
        got = run(decode, session, [state[port.name] for port in decode.inputs])
        present = {port.name: array for port, array in zip(decode.outputs, got, strict=True)}
        state |= {past: present[name] for past, name in caches.items()}
        where = f"step {index} of {format_sizes(sizes)}"
        ledger.compare("cached = uncached", present["logits"], wanted[index], where)


def _caches(source: Source) -> dict[str, str]:
    """Return what a step takes -> what it returns of it."""
    return {cache.past: cache.present for cache in source.generation.caches} if source.generation else {}
