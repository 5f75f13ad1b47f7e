"""Verify the saliency graph, which has no weights."""

from collections.abc import Sequence

from export.checks.comparison import Ledger, OpenSession, compare_alone_with_batch, require_difference, run
from export.checks.trials import Round
from export.plan import Plan

LEAST = 0.01
"""The largest difference is a share of the largest value, or of this."""


def verify_saliency(plan: Plan, open_session: OpenSession, rounds: Sequence[Round], ledger: Ledger) -> None:
    """Compare what stands out in the pictures of the last round with the definition, in single floats."""
    session = open_session(plan.role)
    ledger, (output,), found = ledger.in_precision("fp32"), plan.outputs, []
    for trial in rounds[-1]:
        pictures = plan.example(trial.sizes, trial.seed)
        found.append(run(plan, session, [one.numpy() for one in pictures]))
        (exact,) = plan.module(*pictures)
        ledger.compare(f"{plan.role}: {output.name}", found[-1][0], exact.numpy(), trial.where, least=LEAST)
    one, other = found[-2:]
    require_difference(plan, one, other, rounds[-1][-1].sizes)
    compare_alone_with_batch(plan, session, rounds[-1][-1], ledger, lambda _: {}, found[-1])
