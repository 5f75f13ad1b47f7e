"""The one training loop."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from tqdm import tqdm


def fit(module: nn.Module, loss: Callable[[], Tensor], *, steps: int, rate: float, label: str) -> None:
    """Minimise what `loss` returns for a fresh batch a call.

    AdamW, a linear warm-up over the first twentieth, then a cosine to zero; gradients are cut at norm 1.
    """
    optimizer = torch.optim.AdamW(module.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.05)
    warm = max(1, steps // 20)
    schedule = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1 / warm, total_iters=warm),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(1, steps - warm)),
        ],
        milestones=[warm],
    )
    module.train()
    progress = tqdm(range(steps), desc=label, unit="step", mininterval=1.0)
    for step in progress:
        value = loss()
        optimizer.zero_grad(set_to_none=True)
        value.backward()  # type: ignore[no-untyped-call] # torch has not typed it
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            progress.set_postfix(loss=f"{value.item():.4f}")
    module.eval()
