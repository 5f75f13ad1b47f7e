"""Verify an artifact: compare its graphs with the definition in float64, at sizes other than the traced ones."""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import TypeAlias, cast

import numpy as np
import onnxruntime as ort
import torch
from torch import Tensor

from contract.generation import GENERATING
from contract.manifest import ANSWERED, GRADIENT_METHODS, SALIENCY, STATE_METHODS, GradientMethod, Role
from export.checks.comparison import (
    Array,
    Ledger,
    OpenSession,
    compare_alone_with_batch,
    compare_outputs,
    compare_returned,
    require_difference,
    run,
)
from export.checks.exact import in_float64, in_single_floats, rounded
from export.checks.inside_reference import draw_cells, inside, without_hidden
from export.checks.reference import (
    CASES,
    Controls,
    attention_outputs,
    keeping_no_maps,
    states_after_layers,
    weights_by_kind,
    with_controls_off,
    with_fixed_axes,
)
from export.checks.score_reference import answers_at, draw_targets, explain, identity_keys, without_identity
from export.checks.trials import SEEDS, Extent, Round, Trial, rounds_of
from export.checks.verify_generation import compare_cached_with_uncached, compare_last_step, verify_traced_graph
from export.checks.verify_saliency import verify_saliency
from export.errors import ExportError, MethodError
from export.plan import Plan, Precision, Sizes, Source
from export.traced.base import Observed, Traced
from model.methods.states import likeness

Step: TypeAlias = Callable[[str], contextlib.AbstractContextManager[Callable[[str], object]]]
"""What a role is verified within. It is given the role's name, and yields what is told which shape is compared."""

ERROR_MARGIN: Mapping[Precision, int] = {"fp32": 4, "int4": 16}
"""A graph may differ by this multiple of the error that its definition has in single floats: the kernel of 4 bits adds
products one after the other, not in parts."""

MAX_FACTOR = 100
"""A model whose error in single floats would need limits larger than this multiple is not exported."""

FACTOR = "limits multiplied by"


@contextlib.contextmanager
def unseen(name: str) -> Iterator[Callable[[str], object]]:
    """Verify a role without telling anybody."""
    yield str


def verify(
    source: Source,
    open_session: OpenSession,
    precision: Precision = "fp32",
    step: Step = unseen,
    extent: Extent = "full",
) -> dict[str, float]:
    """Return the worst differences found, or raise ExportError. The sessions run the files that will be packed.

    What is verified of each role happens within a `step`, on as many inputs as `extent` says.
    Limits that single floats cannot hold become those of the definition's own error in them: `FACTOR` is returned then.
    """
    try:
        return _verify(source, open_session, Ledger(precision), step, extent)
    except ExportError as error:
        failed = error.with_traceback(None)  # whose frames hold a session
    factor = 1.0
    if margin := ERROR_MARGIN.get(precision):
        with step("its own error"):
            factor = _single_float_error(source, precision) * margin
    if factor > MAX_FACTOR and not isinstance(failed, MethodError):
        raise ExportError(f"{failed}; the model is too sharp for single floats, whatever computes it") from failed
    if not 1 < factor <= MAX_FACTOR:
        raise failed
    return {**_verify(source, open_session, Ledger(precision, factor), step, extent), FACTOR: factor}


def _single_float_error(source: Source, precision: Precision = "fp32") -> float:
    """Return the error of a definition in single floats, of weights and answers, as a multiple of the limits.

    Of the longest text it is that of answers.
    """
    ledger = Ledger(factor=math.inf)
    longest = [(source.verified_longest, SEEDS[0])] if source.verified_longest else []
    for sizes, seed in (*itertools.product(source.verified_at, SEEDS), *longest):
        given = source.plan("predict").example(sizes, seed)
        keeping = keeping_no_maps(source.traced) if sizes is source.verified_longest else contextlib.nullcontext()
        with torch.no_grad(), keeping, rounded(source.traced, precision):
            found = source.traced.observe(*given)
            with in_float64(source.traced, precision) as exact:
                wanted = exact.observe(*given)
        for ours, theirs in zip(found.answers, wanted.answers, strict=True):
            ledger.compare("answers", ours.numpy(), theirs.numpy(), "")
        for ours, theirs in zip(chain(*found.weights), chain(*wanted.weights), strict=True):
            ledger.compare("weights", ours.numpy(), theirs.numpy(), "", maps=True)
    return ledger.share


def _verify(
    source: Source, open_session: OpenSession, ledger: Ledger, step: Step = unseen, extent: Extent = "full"
) -> dict[str, float]:
    """Compare every graph, and return the worst differences. Raises ExportError if one is over its limit."""
    rounds = rounds_of(source, extent)
    with in_float64(source.traced, ledger.precision) as exact:
        derived = _DerivedGraphs(source, exact, rounds, ledger)
        _verify_derived_graphs(derived, open_session, step)
    for role in (*GENERATING, SALIENCY):
        for plan in source.plans:
            if plan.role == role:
                check = verify_saliency if role == SALIENCY else functools.partial(verify_traced_graph, source)
                with step(role) as ledger.doing:
                    check(plan, open_session, rounds, ledger)
    if source.generation:
        with step("cached") as ledger.doing:
            compare_cached_with_uncached(source, open_session, rounds[-1][-1], ledger)
            if derived.longest is not None:
                compare_last_step(source, open_session, derived.longest, ledger)
    return ledger.worst


def _verify_derived_graphs(graphs: "_DerivedGraphs", open_session: OpenSession, step: Step) -> None:
    """Compare the graphs that answer in one pass with one definition in float64.

    One graph is compared after the other, so that one session at a time holds a copy of the weights.
    """
    with step("predict") as graphs.ledger.doing:
        graphs.verify_predictions(open_session)
    with step("attention") as graphs.ledger.doing:
        graphs.verify_maps(open_session("attention"))
    for role in graphs.plans:
        if role in GRADIENT_METHODS:
            with step(role) as graphs.ledger.doing:
                graphs.verify_explanations(role, open_session(role))
    if "inside" in graphs.plans:
        with step("inside") as graphs.ledger.doing:
            graphs.verify_inside(open_session("inside"))


class _DerivedGraphs:
    """The graphs that are derived from one base graph, and the definition in float64 that they are compared with.

    They are verified in the order of the methods, since each compares its answers with those of the one before.
    """

    def __init__(self, source: Source, exact: Traced, rounds: Sequence[Round], ledger: Ledger) -> None:
        self.source = source
        self.exact = exact
        self.plans: dict[Role, Plan] = {plan.role: plan for plan in source.plans if plan.role not in GENERATING}
        self.rounds = rounds
        self.padded = rounds[-1][-1]
        """The trial whose rows are run alone, too."""
        self.ledger = ledger
        self.longest: Array | None = None
        """What the definition answers at the last token of the longest text."""
        self.predicted: dict[Trial, list[Array]] = {}
        """What the graph of predictions returned."""
        self.answers: dict[Trial, Tensor] = {}
        """What can be explained of the definition's answers."""
        self.answered: dict[Trial, Tensor | None] = {}
        """The tokens at which these are; None where a model is not asked for some."""
        self.explained: Sequence[Array] = ()
        """What a graph that explains a score has returned of the last trial."""

    def verify_predictions(self, open_session: OpenSession) -> None:
        """Run the graph of predictions; `verify_maps` compares what it returned."""
        plan, longest = self.plans["predict"], self.source.verified_longest
        if longest:  # before there is a session, which holds the weights once more
            tensors = plan.example(longest, SEEDS[0])
            with torch.no_grad(), keeping_no_maps(self.exact):
                wanted = self.exact.observe(*tensors).answers
        session = open_session("predict")
        if longest:
            compare_outputs(plan, session, tensors, wanted, longest, self.ledger)
            if self.source.generation:
                self.longest = wanted[0][:, -1].numpy()
        for trial in chain(*self.ledger.each(self.rounds)):
            inputs = [tensor.numpy() for tensor in plan.example(trial.sizes, trial.seed)]
            self.predicted[trial] = run(plan, session, inputs)
        together = self.predicted[self.padded]
        compare_alone_with_batch(plan, session, self.padded, self.ledger, lambda _: {}, together)

    def verify_maps(self, session: ort.InferenceSession) -> None:
        """Compare predictions, and the attention graph in every case, on random inputs that it must tell apart."""
        plan = self.plans["attention"]
        together = self._compare_each(plan, self._compare_maps, session, self.exact.fixed)

        def controls(sizes: Sizes) -> Controls:
            return CASES[0].controls(self.exact.kinds, with_fixed_axes(self.source, sizes), self.padded.seed)

        compare_alone_with_batch(plan, session, self.padded, self.ledger, controls, together)

    def verify_explanations(self, role: Role, session: ort.InferenceSession) -> None:
        """Compare a graph that explains a score, on random inputs that it must tell apart."""
        plan = self.plans[role]
        explaining = plan.without_ports((), {self.source.base.outputs[0].name})
        self._compare_each(explaining, functools.partial(self._compare_explanation, role), session)
        ledger = self.ledger.in_precision(self.source.precision_of(role, self.ledger.precision))
        compare_alone_with_batch(
            plan, session, self.padded, ledger, lambda _: self._targets(plan, self.padded), self.explained
        )

    def verify_inside(self, session: ort.InferenceSession) -> None:
        """Compare what is inside every layer, on random inputs that the graph must tell apart."""
        plan = self.plans["inside"]
        together = self._compare_each(plan, self._compare_inside, session)

        def controls(sizes: Sizes) -> Controls:
            return draw_cells(self.exact.kinds, with_fixed_axes(self.source, sizes), self.padded.seed)

        compare_alone_with_batch(plan, session, self.padded, self.ledger, controls, together)

    def _compare_each(
        self,
        plan: Plan,
        compare: Callable[[ort.InferenceSession, Trial], list[Array]],
        session: ort.InferenceSession,
        fixed: Mapping[str, int] = MappingProxyType({}),
    ) -> list[Array]:
        """Compare a graph in every trial, and return what `compare` does of the last one.

        Raises ExportError if what it returns of the trials of a round, which a plan describes, is the same.
        """
        for trials in self.ledger.each(self.rounds):
            found: list[Array] = []
            for trial in trials:
                one, found = found, compare(session, trial)
                if one:
                    require_difference(plan, one, found, trial.sizes, fixed)
                    del one  # maps are large
        return found

    def _compare_inside(self, session: ort.InferenceSession, trial: Trial) -> list[Array]:
        """Compare the inside graph at one query and one key of each input; return what it returns."""
        plan, given = self.plans["inside"], self.plans["predict"].example(trial.sizes, trial.seed)
        controls = draw_cells(self.exact.kinds, with_fixed_axes(self.source, trial.sizes), trial.seed)
        # inputs are drawn in their order, so that these are the same as those of the prediction
        found = run(plan, session, [tensor.numpy() for tensor in plan.example(trial.sizes, trial.seed, controls)])
        names = [port.name.rpartition(".") for port in plan.outputs]

        def compare(ledger: Ledger, got: Sequence[Array], wanted: Sequence[Array]) -> None:
            for (kind, _, what), ours, exact in zip(names, got, wanted, strict=True):
                ledger.compare(
                    f"inside: {kind}",
                    without_hidden(ours),
                    without_hidden(exact),
                    trial.where,
                    maps=what == "weights",
                )

        def defined(traced: Traced) -> list[Array]:
            return [one.numpy() for one in inside(traced, given, controls)]

        self._compare_within_own_error("inside", compare, found, defined, self.ledger)
        return found

    def _compare_within_own_error(
        self,
        role: Role,
        compare: Callable[[Ledger, Sequence[Array], Sequence[Array]], None],
        found: Sequence[Array],
        defined: Callable[[Traced], Sequence[Array]],
        ledger: Ledger,
    ) -> None:
        """Compare what a graph returned with what is defined, within the limits or the definition's own error.

        Its own error is how far it is off in single floats. A multiple of the limits is recorded. Raises ExportError
        for a larger difference.
        """
        wanted = defined(self.exact)
        try:
            compare(ledger, found, wanted)
        except MethodError:
            if ledger.precision != "fp32":
                raise
            own = Ledger(factor=math.inf)
            compare(own, defined(in_single_floats(self.exact)), wanted)
            if not own.share * ERROR_MARGIN["fp32"] <= MAX_FACTOR:
                raise
            wider = replace(ledger, factor=max(ledger.factor, own.share * ERROR_MARGIN["fp32"]))
            compare(wider, found, wanted)
            what = f"{role}: {FACTOR}"
            ledger.worst[what] = max(ledger.worst.get(what, 0.0), wider.factor)

    def _compare_maps(self, session: ort.InferenceSession, trial: Trial) -> list[Array]:
        """Compare the attention graph in the trial's cases, and with all controls off; return the first outputs."""
        plan, sizes, where = self.plans["attention"], trial.sizes, trial.where
        given, predicted = self.plans["predict"].example(sizes, trial.seed), self.predicted[trial]
        with torch.no_grad():
            observed = self.exact.watched(*given)
        self.answers[trial] = observed.answer
        names = [port.name for port in self.plans["predict"].inputs]
        self.answered[trial] = dict(zip(names, given, strict=True)).get(ANSWERED)
        compare_returned(self.plans["predict"], predicted, observed.answers, sizes, self.ledger)
        first: list[Array] = []
        cases = CASES if trial.in_every_case else CASES[:1]
        for case in (one for one in cases if one.applies(self.exact.kinds)):
            controls = case.controls(self.exact.kinds, with_fixed_axes(self.source, sizes), trial.seed)
            # the smallest entries are found in the graph's precision: that case starts from the graph's own maps
            base = observed._replace(weights=weights_by_kind(self._maps_of(first))) if case.share else observed
            with torch.no_grad():
                maps = attention_outputs(self.exact, base, controls, self.source.image)
                wanted = [*observed.answers, *maps, *states_after_layers(self.exact, observed, controls)]
            tensors = plan.example(sizes, trial.seed, controls)
            got = compare_outputs(plan, session, tensors, wanted, sizes, self.ledger, case.name)
            for answer, same in zip(predicted, got, strict=False):
                self.ledger.compare("predict = attention's prediction", answer, same, where)
            first = first or got
        self._compare_likeness(first, observed, where)
        idle = run(plan, session, with_controls_off(plan, given))
        for answer, same in zip(predicted, idle, strict=False):
            self.ledger.compare("predict = attention's, asked nothing", answer, same, where)
        for kind, weights in zip(self.exact.kinds, self._maps_of(first), strict=True):
            if kind.normalized:
                sums = weights.sum(-1)
                self.ledger.compare("row sums", sums, np.ones(sums.shape), where, maps=True)
        return first

    def _compare_likeness(self, found: Sequence[Array], observed: Observed, where: str) -> None:
        """Compare how like the tokens of the first row, which is not padded, are to one another after each layer.

        Of parts it is the states, as shares of the largest number: components of about one variance may turn.
        """
        for kind in (one for one in self.exact.kinds if one.compares_states):
            wanted = [observed.states[name][0] for name in self.exact.returned_states]
            parts = torch.ones(len(wanted[0]), dtype=torch.bool)
            for ours, exact in zip(torch.from_numpy(found[-1][0]).double(), wanted, strict=True):
                got, defined = (likeness(one, parts).numpy() for one in (ours, exact))
                most = exact.abs().max()
                pairs = {"similar": (got, defined), "parts": ((ours / most).numpy(), (exact / most).numpy())}
                for method in (method for method in STATE_METHODS if method in kind.methods):
                    self.ledger.compare(f"{method}: {kind.name}", *pairs[method], where)

    def _maps_of(self, found: Sequence[Array]) -> Sequence[Array]:
        """Return the maps of each kind among what the attention graph returned."""
        answers = self.plans["attention"].answers
        return found[answers : answers + 2 * len(self.exact.kinds) : 2]

    def _compare_explanation(self, role: Role, session: ort.InferenceSession, trial: Trial) -> list[Array]:
        """Compare a graph that explains a score; return what it returns beside the answer.

        The relevance that is compared and returned is without the identity that it starts from.
        """
        plan, kinds, where = self.plans[role], self.exact.kinds, trial.where
        controls, answered = self._targets(plan, trial), self.answered[trial]
        # inputs are drawn in their order, so that these are the same as those of the prediction
        tensors = dict(
            zip((port.name for port in plan.inputs), plan.example(trial.sizes, trial.seed, controls), strict=True)
        )
        found = run(plan, session, [tensor.numpy() for tensor in tensors.values()])
        self.explained = tuple(found)
        ports, ledger = list(plan.outputs), self.ledger
        ledger = ledger.in_precision(self.source.precision_of(role, ledger.precision))
        if ports[0].name == self.source.base.outputs[0].name:
            exact, predicted = self.answers[trial].numpy(), self.predicted[trial][0]
            wanted, answer = (answers_at(one, controls, answered) for one in (exact, predicted))
            ledger.compare(f"{role}: {ports.pop(0).name}", found[0], wanted, where)
            same = found.pop(0)
            if ledger.precision == self.ledger.precision:
                ledger.compare(f"predict = {role}'s prediction", answer, same, where)
        given = {name: tensor for name, tensor in tensors.items() if name not in controls}
        method = cast(GradientMethod, role)
        # next to the ones that relevance starts from, a small difference would not show
        keys = identity_keys(kinds, controls) if role == "relevance" else [None] * len(ports)
        found = list(map(without_identity, found, keys))

        def compare(ledger: Ledger, got: Sequence[Array], wanted: Sequence[Array]) -> None:
            for port, ours, exact in zip(ports, got, wanted, strict=True):
                ledger.compare(f"{role}: {port.name}", ours, exact, where, least=0.01)

        def defined(traced: Traced) -> list[Array]:
            arrays = (tensor.numpy() for tensor in explain(method, traced, given, controls))
            return list(map(without_identity, arrays, keys))

        self._compare_within_own_error(role, compare, found, defined, ledger)
        return found

    def _targets(self, plan: Plan, trial: Trial) -> Controls:
        """Return what a graph is asked to explain in a trial."""
        axes = with_fixed_axes(self.source, trial.sizes)
        given = self.answers[trial], axes, SEEDS[0], self.exact.classes, self.answered[trial]
        return draw_targets(plan, self.exact.kinds, *given)
