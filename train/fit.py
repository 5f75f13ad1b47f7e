"""The one training loop."""

import pickle
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

SECONDS_BETWEEN_SAVES = 60.0


@dataclass(frozen=True)
class Run:
    """One run of a recipe: how many steps, from which seed, and the file it is saved to and resumes from, if any."""

    steps: int
    seed: int = 0
    saved: Path | None = None

    def begin(self) -> random.Random:
        """Seed PyTorch, and return a generator for everything that PyTorch does not draw."""
        torch.manual_seed(self.seed)
        return random.Random(self.seed)  # noqa: S311 # training data, not secrets


def fit(
    module: nn.Module,
    loss: Callable[[], Tensor],
    run: Run,
    *,
    rate: float,
    label: str,
    rng: random.Random | None = None,
    generator: torch.Generator | None = None,
    before: Callable[[int], None] | None = None,
    after: Callable[[int], None] | None = None,
) -> None:
    """Minimise `loss`, which draws a fresh batch at every call, over the parameters that take gradients.

    AdamW, a linear warm-up over the first twentieth of the steps, then a cosine to zero; gradients are clipped at norm
    1. `before` and `after` are called with the number of each step, before its loss and once it is taken. A run with a
    file is saved there every minute, and resumes from there with the states of all generators, PyTorch's, `rng` and
    `generator`; batches that a recipe had drawn ahead are drawn anew. Raises ValueError if the file is of another run
    or cannot be read, and for gradients that are not finite.
    """
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=rate, betas=(0.9, 0.98), weight_decay=0.05)
    warm = max(1, run.steps // 20)
    schedule = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1 / warm, total_iters=warm),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(1, run.steps - warm)),
        ],
        milestones=[warm],
    )
    module.train()
    parts = {"module": module, "optimizer": optimizer, "schedule": schedule}
    done = _resumed(run, parts, rng, generator) if run.saved and run.saved.exists() else 0
    since = time.monotonic()
    progress = tqdm(range(done, run.steps), desc=label, unit="step", mininterval=1.0, initial=done, total=run.steps)
    for step in progress:
        if before:
            before(step)
        value = loss()
        optimizer.zero_grad(set_to_none=True)
        value.backward()  # type: ignore[no-untyped-call] # torch has not typed it
        if not nn.utils.clip_grad_norm_(parameters, 1.0).isfinite():
            raise ValueError(f"step {step}: the loss or its gradient is not finite")
        optimizer.step()
        schedule.step()
        if after:
            after(step)
        if step % 50 == 0:
            progress.set_postfix(loss=f"{value.item():.4f}")
        if run.saved and time.monotonic() - since > SECONDS_BETWEEN_SAVES:
            _save(run, run.saved, step + 1, parts, rng, generator)
            since = time.monotonic()
    module.eval()


def _save(
    run: Run,
    file: Path,
    done: int,
    parts: dict[str, Any],
    rng: random.Random | None,
    generator: torch.Generator | None,
) -> None:
    state = {
        "run": {"steps": run.steps, "seed": run.seed},
        "done": done,
        "torch": torch.get_rng_state(),
        "rng": rng.getstate() if rng else None,
        "generator": generator.get_state() if generator else None,
        **{name: part.state_dict() for name, part in parts.items()},
    }
    partial = file.with_suffix(".partial")
    torch.save(state, partial)
    partial.rename(file)


def _resumed(run: Run, parts: dict[str, Any], rng: random.Random | None, generator: torch.Generator | None) -> int:
    """Restore a run from its file; return how many steps it had taken."""
    assert run.saved  # noqa: S101 # the caller looked
    try:
        state = torch.load(run.saved, weights_only=True)
        if state["run"] != {"steps": run.steps, "seed": run.seed}:
            raise ValueError(f"{run.saved}: is of a run of {state['run']}; go on with that, or remove the file")
        for name, part in parts.items():
            part.load_state_dict(state[name])
    except (RuntimeError, KeyError, EOFError, pickle.UnpicklingError) as error:
        raise ValueError(f"{run.saved}: cannot be resumed from; remove the file") from error
    torch.set_rng_state(state["torch"])
    if rng:
        rng.setstate(state["rng"])
    if generator:
        generator.set_state(state["generator"])
    return int(state["done"])
