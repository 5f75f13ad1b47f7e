"""Attribution of a score to the states that enter the blocks: balanced gradient x input, and integrated gradients.

A score is one number of an answer: a logit, a difference of two, or a cosine. An attribution gives each token a signed
share of it. (`model/methods/explanations.py` defines what is made of attention maps.)
"""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

Watch: TypeAlias = Callable[[int, int, Tensor], Tensor]
"""Stack, layer and the state that enters the layer's block -> the state that shall enter it."""


@contextlib.contextmanager
def entering(stacks: Sequence[nn.Module], watch: Watch) -> Iterator[None]:
    """Pass the state that enters each block of each stack through `watch`, as long as the context lasts."""
    with contextlib.ExitStack() as hooks:
        for stack, part in enumerate(stacks):
            for layer, block in enumerate(part.blocks):  # type: ignore[arg-type] # a ModuleList
                hooks.enter_context(block.register_forward_pre_hook(functools.partial(_enter, watch, stack, layer)))
        yield


def _enter(watch: Watch, stack: int, layer: int, _: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
    return watch(stack, layer, given[0]), *given[1:]


# Balanced gradients


def _constant(function: Callable[..., Any], given: Sequence[Any], options: Mapping[str, Any]) -> Tensor:
    """Return the result of a function as a constant."""
    found: Tensor = function(*given, **options).detach()
    return found


def _through_value(function: Callable[..., Any], given: Sequence[Any], options: Mapping[str, Any]) -> Tensor:
    """f(x) = x g(x) with g a constant: the gradient is f(x)/x, and at 0 it is the derivative."""
    x: Tensor = given[0]
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(function(leaf, *given[1:], **options).sum(), leaf)
    found: Tensor = function(x.detach(), *given[1:], **options)
    share = torch.where(x == 0, slope, found / torch.where(x == 0, 1, x)).detach()
    return found + (x - x.detach()) * share


def _product(function: Callable[..., Any], given: Sequence[Any], options: Mapping[str, Any]) -> Tensor:
    """Give half of the gradient to each factor, if both depend on what is explained."""
    if not all(isinstance(factor, Tensor) and factor.requires_grad for factor in given[:2]):
        found: Tensor = function(*given, **options)
        return found
    one, other = given
    return (one * other.detach() + one.detach() * other) / 2


def _quotient(function: Callable[..., Any], given: Sequence[Any], options: Mapping[str, Any]) -> Tensor:
    """Take the divisor as a constant."""
    x, divisor = given
    found: Tensor = function(x, divisor.detach() if isinstance(divisor, Tensor) else divisor, **options)
    return found


def _normalized(
    x: Tensor, shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalize a layer with its deviation as a constant; the mean is none."""
    centred = x - x.mean(-1, keepdim=True)
    found = centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt().detach()
    found = found if weight is None else found * weight
    return found if bias is None else found + bias


def _batch_normalized(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize channels by measured statistics, by a factor and a constant for each."""
    if training:
        raise NotImplementedError("balanced gradients: a batch is normalized by measured statistics")
    shape = [-1, *[1] * (x.dim() - 2)]
    factor = (variance + eps).rsqrt() if weight is None else weight * (variance + eps).rsqrt()
    found = (x - mean.view(shape)) * factor.view(shape)
    return found if bias is None else found + bias.view(shape)


_RULES: Mapping[Callable[..., Any], Callable[..., Tensor]] = {
    **dict.fromkeys((torch.softmax, Tensor.softmax, F.softmax), _constant),
    **dict.fromkeys((torch.sigmoid, Tensor.sigmoid, F.sigmoid), _constant),
    **dict.fromkeys((torch.sqrt, Tensor.sqrt, torch.rsqrt, Tensor.rsqrt, torch.norm, Tensor.norm), _constant),
    **dict.fromkeys((F.gelu, F.silu, torch.tanh, Tensor.tanh, F.tanh, torch.log1p, Tensor.log1p), _through_value),
    **dict.fromkeys((torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__), _product),
    **dict.fromkeys((torch.div, Tensor.div, Tensor.__truediv__), _quotient),
    F.layer_norm: lambda _, given, options: _normalized(*given, **options),
    F.batch_norm: lambda _, given, options: _batch_normalized(*given, **options),
}


_JOINED = (
    F.scaled_dot_product_attention,
    F.multi_head_attention_forward,
    F.rms_norm,
    F.normalize,
    F.cosine_similarity,
)
"""Functions of torch that join steps which have rules, so that no rule would see them."""


class Balanced(TorchFunctionMode):
    """A context in which the backward pass is balanced; what the forward pass computes is the same.

    Mehri, Soleymani Baghshah & Pilehvar, CVPR 2025 (LibraGrad): attention's weights, the deviation of a norm and the
    slope g of an activation x g(x) are constants, so that each layer is locally linear. Of two factors that both depend
    on what is explained, each gets half of the gradient; a sigmoid, a divisor and the length of a vector are constants.
    Raises NotImplementedError for a function that joins such steps in one.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        """Call a function by its rule, if it has one."""
        if func in _JOINED:
            raise NotImplementedError(f"balanced gradients: the steps of {func.__name__} must be written one by one")
        rule = _RULES.get(func)
        return rule(func, args, kwargs or {}) if rule else func(*args, **(kwargs or {}))


@contextlib.contextmanager
def apart(model: nn.Module) -> Iterator[None]:
    """Let parameters that modules share be one for each module, as long as the context lasts; they hold the same."""
    seen: set[nn.Parameter] = set()
    with contextlib.ExitStack() as shared:
        for part in model.modules():
            for name, parameter in part.named_parameters(recurse=False):
                if parameter in seen:
                    shared.callback(setattr, part, name, parameter)
                    setattr(part, name, nn.Parameter(parameter.detach(), parameter.requires_grad))
                seen.add(parameter)
        yield


class Libra(NamedTuple):
    """What balanced gradient x input gives each token, and the biases. Rows of a batch are explained at once."""

    score: Tensor
    """What is explained, (batch)."""
    tokens: list[list[Tensor]]
    """For each stack and layer, (batch, token)."""
    biases: list[Tensor]
    """For each layer of the (first) stack, the share of all biases behind it, summed over the batch.

    Of one stack, the tokens of each layer and the biases behind it add up to the score.
    """


def libra(model: nn.Module, stacks: Sequence[nn.Module], explain: Callable[[], Tensor]) -> Libra:
    """Return Σ_channels x ⊙ ∂score/∂x for the states x that enter each block, by the balanced backward pass.

    `explain` runs the model once and returns the score (batch) of each row. With several stacks, such as encoder and
    decoder, the tokens of all of them and the biases behind both first states make the score: only layer 0 has a
    meaning then. The biases are the parameters called `bias`, the means that batches are normalized by, and the
    `positions` that a stack adds between its blocks, each times its own gradient: of one that
    modules share, in each of them.
    """
    with apart(model):
        return _libra(model, stacks, explain)


def _libra(model: nn.Module, stacks: Sequence[nn.Module], explain: Callable[[], Tensor]) -> Libra:
    states: list[list[Tensor]] = [[] for _ in stacks]

    def watch(stack: int, layer: int, x: Tensor) -> Tensor:
        x = x if layer else x.detach().requires_grad_()
        states[stack].append(x)
        return x

    paths = {part: name for name, part in model.named_modules()}
    between = {f"{paths[part]}.positions" for part in stacks}
    biases = {
        name: one
        for name, one in itertools.chain(model.named_parameters(), model.named_buffers())
        if name in between
        or (name.rpartition(".")[2] in ("bias", "running_mean") and ".select." not in name)  # weights are constants
    }
    with contextlib.ExitStack() as frozen, torch.enable_grad():
        for parameter in (*model.parameters(), *biases.values()):
            frozen.callback(parameter.requires_grad_, parameter.requires_grad)
            parameter.requires_grad_(any(parameter is bias for bias in biases.values()))
        with entering(stacks, watch), Balanced():
            score = explain()
        wanted = [*(x for own in states for x in own), *biases.values()]
        found = torch.autograd.grad(score.sum(), wanted, allow_unused=True)
    count = len(wanted) - len(biases)
    gradients = iter(found[:count])
    tokens = [[(x * next(gradients)).sum(-1).detach() for x in own] for own in states]
    shares: dict[str, Tensor] = {}
    for (name, bias), gradient in zip(biases.items(), found[count:], strict=True):
        if gradient is None:
            continue
        added = (bias * gradient).detach()
        if name in between:  # behind each block but the last
            stack = name.removesuffix(".positions")
            shares |= {f"{stack}.blocks.{layer}.positions": one.sum() for layer, one in enumerate(added)}
        else:
            shares[name] = added.sum()
    total = sum(shares.values(), score.new_zeros(()))
    behind = [total]
    for layer in range(len(states[0]) - 1):
        of_block = [one for name, one in shares.items() if name.startswith(f"{paths[stacks[0]]}.blocks.{layer}.")]
        behind.append(behind[-1] - sum(of_block))
    return Libra(score.detach(), tokens, behind)


class Integrated(NamedTuple):
    """Integrated gradients of each token, and how exactly they add up."""

    score: Tensor
    """What is explained, (batch)."""
    baseline: Tensor
    """The same of the baseline, (batch)."""
    tokens: list[Tensor]
    """For each stack, (batch, token). The more steps, the closer is their sum to score - baseline."""


def integrated(
    stacks: Sequence[nn.Module],
    explain: Callable[[], Tensor],
    explain_baseline: Callable[[], Tensor] | None,
    steps: int,
) -> Integrated:
    """Return Σ_channels (x - b) ⊙ mean over midpoints a of ∂score/∂(b + a (x - b)) (Sundararajan et al. 2017, eq. 3).

    x are the states that enter the first block of each stack, b those of the baseline, on which `explain_baseline` runs
    the model; without it they are zeros. `explain` runs the model and returns the score (batch) of each row.
    """
    given = first_states(stacks, explain)
    blank = first_states(stacks, explain_baseline) if explain_baseline else [torch.zeros_like(x) for x in given]
    points = [at_point(stacks, explain, given, blank, (step + 0.5) / steps).tokens for step in range(steps)]
    tokens = [torch.stack(of_stack).mean(0) for of_stack in zip(*points, strict=True)]
    score, baseline = (at_point(stacks, explain, given, blank, point).score for point in (1.0, 0.0))
    return Integrated(score, baseline, tokens)


class Point(NamedTuple):
    """One point of the path from a baseline to the input."""

    score: Tensor
    """What is explained, (batch)."""
    tokens: list[Tensor]
    """For each stack, (batch, token): gradient times difference."""


def at_point(
    stacks: Sequence[nn.Module],
    explain: Callable[[], Tensor],
    given: Sequence[Tensor],
    blank: Sequence[Tensor],
    point: float | Tensor,
) -> Point:
    """Return Σ_channels (x - b) ⊙ ∂score/∂(b + point (x - b)), x the first states of each stack, b a baseline's.

    `point` is a number, or (batch, 1, 1).
    """
    with torch.enable_grad():
        between = [(b + point * (x - b)).detach().requires_grad_() for x, b in zip(given, blank, strict=True)]
        with entering(stacks, lambda stack, layer, x: x if layer else between[stack]):
            score = explain()
        gradients = torch.autograd.grad(score.sum(), between)
    tokens = [((x - b) * own).sum(-1) for x, b, own in zip(given, blank, gradients, strict=True)]
    return Point(score.detach(), tokens)


class _AllSeen(Exception):  # no error: it ends a run of which all that was wanted is known
    """The first states of all stacks are known."""


def first_states(stacks: Sequence[nn.Module], run: Callable[[], Tensor]) -> list[Tensor]:
    """Run a model until all are known; return the states that enter each stack's first block, (batch, token, width)."""
    found: dict[int, Tensor] = {}

    def watch(stack: int, layer: int, x: Tensor) -> Tensor:
        if not layer:
            found[stack] = x.detach()
        if len(found) == len(stacks):
            raise _AllSeen
        return x

    with contextlib.suppress(_AllSeen), entering(stacks, watch), torch.no_grad():
        run()
    return [found[stack] for stack in range(len(stacks))]
