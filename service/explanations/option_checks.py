"""Options of attention that a method, or a model, does not have: refused with the reason."""

from collections.abc import Sequence

from contract.manifest import FUSIONS, Kind, Manifest, Method
from service.errors import Unacceptable
from service.explanations.methods import METHODS, MethodRules
from service.explanations.score import OF_PLACES, explains
from service.explanations.selection import Fusion
from service.options.attention import AttentionOptions
from service.options.readers import Indices


def heads_of(options: AttentionOptions, method: Method, rules: MethodRules) -> Indices | Fusion:
    """Return the heads asked for, or how they are fused."""
    heads = options.heads
    if options.fusion is not None:
        if rules.heads != "fused":
            raise Unacceptable("fusion: is for rollout; heads fuses those of raw")
        if heads is not None:
            raise Unacceptable("fusion: says what heads does, give one of them")
        heads = options.fusion
    if rules.heads == "fused" and not _is_fusion(heads or "mean"):
        raise Unacceptable(f"heads: {method} fuses them, by mean, max or min")
    if rules.heads in ("none", "sum"):
        if heads is not None:
            raise Unacceptable(f"heads: {method} {rules.why_not_heads}, leave it out")
        return "sum"
    if rules.heads == "mean" and heads not in (None, "mean"):
        raise Unacceptable(f"heads: {method} is the mean over heads, leave it out")
    resolved: Indices | Fusion = heads or "mean"
    return resolved


def check_layers_and_rows(options: AttentionOptions, method: Method, manifest: Manifest, kinds: Sequence[Kind]) -> None:
    """Refuse layers and rows that the method does not have."""
    rules = METHODS[method]
    following = {
        "discard": options.discard,
        "start_layer": options.start_layer is not None,
        "sinks": options.sinks == "out",
    }
    if not rules.follows and any(following.values()):
        raise Unacceptable(f"{next(name for name, given in following.items() if given)}: is for rollout")
    if following["sinks"] and not any(kind.has_sinks for kind in kinds):
        raise Unacceptable(
            "sinks: is for images whose tokens all see all patches; this model has none, or looks in windows"
        )
    if options.discard and any(kind.windows for kind in kinds):
        raise Unacceptable("discard: is of maps of all tokens, and those of this model look around in windows")
    if options.start_layer is not None and options.layers is not None:
        raise Unacceptable("start_layer: says what layers does, give one of them")
    if options.layers is not None and rules.why_not_layers:
        raise Unacceptable(f"layers: {rules.why_not_layers}")
    if options.queries is not None and rules.by_picture:
        raise Unacceptable(f"queries: {method} has one row, of the whole picture, leave it out")
    if not rules.by_gradient:
        return
    if options.layers is not None and len(manifest.attention) > 1:
        raise Unacceptable(f"layers: {method} of several kinds of attention {rules.why_not_layers_of_several}")
    if options.queries is not None:
        if explains(manifest) in OF_PLACES:
            raise Unacceptable("queries: are the targets' own; choose them by target")
        if not rules.identity:
            raise Unacceptable(f"queries: {method} has one row, the answer's, leave it out")


def check_rest(options: AttentionOptions, rules: MethodRules, manifest: Manifest, kinds: Sequence[Kind]) -> None:
    """Refuse other options that the method, or the model, has no use for."""
    crossed = any(kind.kind == "cross" for kind in kinds)
    streams = bool(options.steps) and not rules.path
    if (options.hard or streams) and not crossed:
        raise Unacceptable(f"{'hard' if options.hard else 'steps'}: is read off cross, which is not asked for")
    if streams and (not rules.weights or options.merge):
        raise Unacceptable("steps: needs method raw, and tokens rather than words")
    if options.align == "input" and (rules.by_gradient or not any(kind.query == "target" for kind in kinds)):
        raise Unacceptable("align: is for raw, rollout and norm of generated tokens")
    if rules.by_states:
        if options.queries == "mean":
            raise Unacceptable(f"queries: {options.method} is of single tokens or patches; ask for all or for indices")
        for name, given in (("merge", options.merge), ("evaluate", options.evaluate)):
            if given:
                raise Unacceptable(f"{name}: is for what explains an answer; {options.method} compares states")
    if rules.numbers > 1:
        for name, given in (("queries", options.queries), ("pool", options.pool)):
            if given:
                raise Unacceptable(f"{name}: {options.method} has {rules.numbers} numbers of each patch, leave it out")
    if options.merge and manifest.inputs[0].modality in ("image", "graph") and not manifest.generation:
        raise Unacceptable(f"merge: is for texts, this model takes {manifest.inputs[0].modality}s")


def _is_fusion(heads: object) -> bool:
    return isinstance(heads, str) and heads in FUSIONS
