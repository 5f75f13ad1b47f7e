"""The manifest of a loaded artifact against its graphs. Nobody hashes the manifest, so it may have been edited."""

from collections.abc import Iterator, Mapping, Sequence

from contract.artifact import MANIFEST, Artifact, ArtifactError
from contract.detection import Detection
from contract.generation import LIKELIEST, TOKENS, Generation
from contract.input_rules import EDGES, NODES, SAMPLES, GraphRule, ImageRule, SoundRule
from contract.manifest import (
    BASELINE,
    BOX_NUMBERS,
    BOXES,
    GRADIENT_METHODS,
    INSIDE,
    LOGITS,
    SALIENCY,
    GradientMethod,
    Graph,
    Kind,
    Manifest,
    Port,
    Role,
)
from service.explanations.methods import METHODS
from service.explanations.score import CLASSIFICATION_TASKS, baselines_of, explains
from service.runtime.session import Session


def check_graphs(artifact: Artifact, roles: Sequence[Role]) -> None:
    """Raise ArtifactError for an artifact without the graphs and outputs that a task needs."""
    manifest = artifact.manifest
    missing = [role for role in roles if role not in manifest.graphs]
    if missing or not manifest.attention:
        needed = f"graphs for {', '.join(missing)}" if missing else "kinds of attention"
        raise _refused(artifact, f"this task needs {needed}, given none")
    returned = {port.name for port in manifest.graphs["attention"].outputs}
    for kind in manifest.attention:
        if not {kind.name, f"{kind.name}.diagnostics"} <= returned:
            raise _refused(artifact, f"the attention graph must return maps of {kind.name}")


def check_manifest(artifact: Artifact, sessions: Mapping[Role, Session]) -> None:
    """Raise ArtifactError for the first point in which the manifest contradicts the graphs."""
    for role, session in sessions.items():
        for port in (*session.graph.inputs, *session.graph.outputs):
            if not session.has_port(port):
                raise _refused(artifact, f"has a port {port.name} of {role} that is not the graph's")
    for reason in _faults(artifact.manifest):
        raise _refused(artifact, reason)


def _refused(artifact: Artifact, reason: str) -> ArtifactError:
    return ArtifactError(artifact.path(MANIFEST), reason)


def _faults(manifest: Manifest) -> Iterator[str]:
    attention = manifest.graphs["attention"]
    width = attention.outputs[0].axes[-1]
    if manifest.task in CLASSIFICATION_TASKS and manifest.labels and len(manifest.labels) != width:
        yield f"must have a label for each of {width} classes, given {len(manifest.labels)}"
    if manifest.detection:
        yield from _faults_of_detection(manifest, manifest.detection, attention)
    if manifest.image:
        yield from _faults_of_image(manifest.image, attention.inputs)
    if manifest.sound:
        yield from _faults_of_sound(manifest.sound, attention.inputs)
    if manifest.graph:
        yield from _faults_of_graph(manifest.graph, attention.inputs)
    for kind in manifest.attention:
        port = next(one for one in attention.outputs if one.name == kind.name)
        yield from _faults_of_kind(kind, port, manifest.image)
        discards = f"{kind.name}.discard" in {one.name for one in attention.inputs}
        if ("rollout" in kind.methods and not kind.windows) != discards:
            yield f"must have rollout of {kind.name} exactly if the graph computes it"
        elif (discards and kind.has_sinks) != (f"{kind.name}.sinks" in {one.name for one in attention.inputs}):
            yield f"must leave sinks out of rollout of {kind.name} exactly if it has some"
        if kind.compares_states != (f"{kind.name}.after" in {one.name for one in attention.inputs}):
            yield f"must compare states of {kind.name} exactly if the graph returns them"
        if kind.windows:
            yield from _faults_of_windows(kind, manifest)
    for method in GRADIENT_METHODS:
        yield from _faults_of_method(manifest, method)
    yield from _faults_of_inside(manifest)
    yield from _faults_of_saliency(manifest)
    if manifest.best and not any(manifest.best.method in kind.methods for kind in manifest.attention):
        yield f"must have a best method that some kind has, given {manifest.best.method}"
    yield from _faults_of_tokens(_tokens_of_sources(manifest), width)
    if manifest.generation:
        named = manifest.generation.named_tokens()
        worst = {name: min(tokens) if min(tokens) < 0 else max(tokens) for name, tokens in named.items() if tokens}
        yield from _faults_of_tokens(worst, manifest.graphs["decode"].outputs[0].axes[-1])
        yield from _faults_of_caches(manifest.generation, manifest.graphs)


def _faults_of_detection(manifest: Manifest, detection: Detection, attention: Graph) -> Iterator[str]:
    """The answers of a detector are a logit for each label, and behind them that of no object, and boxes."""
    classes = len(manifest.labels) + (manifest.scores == "softmax")
    wanted = {LOGITS: (detection.objects, classes), BOXES: (detection.objects, BOX_NUMBERS)}
    given = {port.name: port.axes[1:] for port in manifest.answers}
    if given != wanted:
        yield f"must have {' and '.join(f'{name} of {_times(sizes)}' for name, sizes in wanted.items())}, given others"
    if not any(kind.first_object is not None for kind in manifest.attention):
        yield "must have a kind of attention whose rows are objects, given none"


def _faults_of_method(manifest: Manifest, method: GradientMethod) -> Iterator[str]:
    """A gradient method has a graph exactly if a kind lists it, which takes what a score has and returns each kind."""
    kinds = {str(kind.name) for kind in manifest.attention if method in kind.methods}
    if bool(kinds) != (method in manifest.graphs):
        yield f"must have a graph of {method} exactly if some kind has the method"
        return
    if not kinds:
        return
    graph = manifest.graphs[method]
    answer = {manifest.graphs["attention"].outputs[0].name}
    beside = {"relevance": answer, "libra": answer | {"biases", "score"}, "integrated": {"score"}}[method]
    if {port.name for port in graph.outputs} != kinds | beside:
        yield f"must have {method} of the kinds that its graph returns, given others"
    taken = {port.name for port in graph.inputs}
    score = {"other"} if explains(manifest) == "embedding" else {"explained", "against"}
    if not score <= taken:
        yield f"must have a task whose scores the graph of {method} explains, given {manifest.task}"
    if METHODS[method].path and not any(name.startswith(BASELINE) for name in taken):
        yield f"must have one of the baselines {', '.join(baselines_of(manifest))} in the graph of {method}"


def _faults_of_inside(manifest: Manifest) -> Iterator[str]:
    """The inside graph, if there is one, takes a query, a key and layers, and returns what is inside every kind."""
    if "inside" not in manifest.graphs:
        return
    graph, kinds = manifest.graphs["inside"], [kind.name for kind in manifest.attention]
    controls = {"query", "key", *(f"{kind}.layers" for kind in kinds)}
    returned = {f"{kind}.{what}" for kind in kinds for what in INSIDE}
    if not controls <= {port.name for port in graph.inputs} or returned != {port.name for port in graph.outputs}:
        yield "must have an inside graph of every kind of attention, given another"


def _faults_of_saliency(manifest: Manifest) -> Iterator[str]:
    """The saliency graph is there exactly if one kind has the method, of whose keys it returns a number each."""
    kinds = [str(kind.name) for kind in manifest.attention if SALIENCY in kind.methods]
    graph = manifest.graphs.get(SALIENCY)
    if kinds != ([port.name for port in graph.outputs] if graph else []) or len(kinds) > 1:
        yield f"must have {SALIENCY} of the one kind that its graph returns, given others"


def _tokens_of_sources(manifest: Manifest) -> dict[str, int]:
    """Return the mask and padding tokens of sources, where answers are of the same vocabulary."""
    generation = manifest.generation
    if explains(manifest) not in ("token", "word") or (generation and generation.tokenizer):
        return {}
    return manifest.inputs[0].stand_ins


def _faults_of_image(rule: ImageRule, inputs: tuple[Port, ...]) -> Iterator[str]:
    shape = (rule.height, rule.width, rule.channels)
    taken = next((one.axes[1:] for one in inputs if one.name == "pixels"), ())
    if shape != taken:
        yield f"must have images of {_times(taken)}, as the graph takes, given {_times(shape)}"


def _faults_of_sound(rule: SoundRule, inputs: tuple[Port, ...]) -> Iterator[str]:
    taken = next((one.axes[1:] for one in inputs if one.name == "samples"), ())
    if rule.varies:
        if taken != (SAMPLES,):
            yield "must have sounds of a fixed length, as the graph takes"
        return
    if taken != (rule.samples + 2 * rule.side,):
        yield f"must have sounds of {_times(taken)} samples, as the graph takes, given {rule.samples}"
    if (rule.apart is None and rule.samples % rule.frames) or rule.side >= rule.samples:
        yield f"must have frames of as many samples each, given {rule.frames} of {rule.samples}"


def _faults_of_graph(rule: GraphRule, inputs: tuple[Port, ...]) -> Iterator[str]:
    taken = next((one.axes[1:] for one in inputs if one.name == EDGES), ())
    if taken != (len(rule.edge_types), NODES, NODES):
        yield f"must have as many types of edges as the graph takes, given {len(rule.edge_types)}"


def _faults_of_kind(kind: Kind, port: Port, rule: ImageRule | None) -> Iterator[str]:
    if kind.prefix < 0:
        yield f"must have a prefix of 0 or more, given {kind.prefix}"
    if not kind.grid or rule is None:
        return
    if isinstance(port.axes[-1], int) and kind.length != port.axes[-1]:
        yield f"must have prefix and grid of {port.axes[-1]} tokens together, given {kind.length}"
    # the pixels behind the last whole patch are not looked at
    sides = zip(kind.grid or (0, 0), (rule.height, rule.width), strict=True)
    if not all(_is_quotient(count, pixels) for count, pixels in sides):
        yield f"must have a grid of patches of {rule.height} x {rule.width} pixels, given {_times(kind.grid)}"


def _faults_of_windows(kind: Kind, manifest: Manifest) -> Iterator[str]:
    """Each layer has windows, which cover the grid; what is carried goes to another kind of the model."""
    if len(kind.windows) != len(kind.maps):
        yield f"must have windows for each of {len(kind.maps)} layers, given {len(kind.windows)}"
    for window in kind.windows:
        if any(side % window.side for side in kind.grid or (1,)) or window.shift >= window.side:
            yield f"must have windows that cover a grid of {_times(kind.grid)}, given {window.side}"
    if kind.carried not in (None, *(one.name for one in manifest.attention)):
        yield "must have a kind for what is carried, given another"


def _is_quotient(count: int, pixels: int) -> bool:
    """Return whether a number of whole patches of some size fit into a number of pixels."""
    return 0 < count <= pixels and pixels // (pixels // count) == count


def _faults_of_tokens(tokens: Mapping[str, int], vocabulary: int | str) -> Iterator[str]:
    for name, token in tokens.items():
        if isinstance(vocabulary, int) and not 0 <= token < vocabulary:
            yield f"must have tokens from 0 to {vocabulary - 1}, given {token} for {name}"


def _faults_of_caches(generation: Generation, graphs: Mapping[Role, Graph]) -> Iterator[str]:
    """A step returns caches beside its tokens, and a source is encoded to memory, or to the caches that go on."""
    answer = {graphs["decode"].outputs[0].name, LIKELIEST, TOKENS}
    if {one.present for one in generation.caches} != {port.name for port in graphs["decode"].outputs} - answer:
        yield "must have the caches that the graph of decode returns, given others"
    if not {one.past for one in generation.caches} <= {port.name for port in graphs["decode"].inputs}:
        yield "must have the caches that the graph of decode takes, given others"
    hears = "hear" in graphs
    if hears and set(generation.memory) != {port.name for port in graphs["hear"].outputs}:
        yield "must have the memory that the graph of hear returns, given another"
    begins = hears or generation.start is None
    encoded = [one.past for one in generation.caches] if begins else generation.memory
    if set(encoded) != {port.name for port in graphs["encode"].outputs}:
        yield "must have the memory that the graph of encode returns, or no start token if it returns caches"


def _times(sizes: tuple[int | str, ...] | None) -> str:
    return " x ".join(map(str, sizes or ())) or "none"
