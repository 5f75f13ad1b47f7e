"""A batch of inputs runs: padded to one length, and on a CPU in parts that its caches serve well."""

from collections.abc import Mapping, Sequence

from contract.input_rules import NODES
from contract.manifest import GRADIENT_METHODS, Manifest, Role
from service.arrays import Array, padded
from service.inputs.model_input import ModelInput
from service.repository.models.footprint import ATTENTION_RUN, GRADIENT_RUN, Footprint
from service.runtime.device import run_beside
from service.runtime.session import Session
from service.settings import Settings

PART_STATE_BYTES = 768 << 10
"""Items of a batch run together on a CPU as long as their states (tokens x width) take at most this many bytes for each
thread; at least one does. In larger parts, what a layer writes for the next has left the processor's caches; in smaller
ones, the weights are read too often. Measured on Zen 4, which has 1 MiB of cache a core: benchmarks/RESULTS.md."""
BESIDE = 2
"""How many inputs run in parallel where each has a run of its own, since its 8-bit scales are of the whole input: while
one run computes on a single thread, the other uses the second core. Measured on two cores: benchmarks/RESULTS.md."""
FLOAT_BYTES = 4
PART_WORD_BYTES = 512 << 20
"""Items of a batch run together as long as the logits of the words of a vocabulary, of every token, take at most this
memory; at least one does."""


class Batches:
    """Runs the graphs of a model on batches."""

    def __init__(self, manifest: Manifest, sessions: Mapping[Role, Session], device: str, settings: Settings) -> None:
        self._manifest, self._sessions = manifest, sessions
        self._device, self._settings = device, settings
        self._words = Footprint(manifest).words

    def run(
        self, role: Role, items: Sequence[ModelInput], controls: Mapping[str, Array] | None = None
    ) -> dict[str, list[Array]]:
        """Run a graph on inputs padded to one length, and on those of the controls that it takes.

        Returns an array for each input by output, none for an output without rows. A batch may run in parts
        (`_items_at_once`), to each of which go inputs without an axis for the batch.
        """
        controls, graph = controls or {}, self._manifest.graphs[role]
        feed = {
            port.name: controls[port.name]
            if port.name in controls
            else padded([item.arrays[port.name] for item in items])
            for port in graph.inputs
        }
        divided = {port.name for port in graph.inputs if port.axes[:1] == ("batch",)}
        at_once = self._items_at_once(role, items)

        def run_part(part: slice) -> dict[str, Array]:
            given = {name: array[part] if name in divided else array for name, array in feed.items()}
            return self._sessions[role].run(given)

        parts = [slice(first, first + at_once) for first in range(0, len(items), at_once)]
        found: dict[str, list[Array]] = {port.name: [] for port in graph.outputs}
        for out in run_beside(run_part, parts, self._parts_beside(role)):
            for name, rows in out.items():
                found[name].extend(rows)
        return found

    def _runs_alone(self, role: Role) -> bool:
        """Return whether scales of 8 bits are of a whole input: another would change them. Gradients are of floats."""
        return self._manifest.scales == "input" and role not in GRADIENT_METHODS

    def _parts_beside(self, role: Role) -> int:
        """Return how many parts of a batch run beside one another, on all threads of a session on a CPU together."""
        several = self._device == "cpu" and self._runs_alone(role) and self._sessions[role].cores > 1
        return BESIDE if several else 1

    def _items_at_once(self, role: Role, items: Sequence[ModelInput]) -> int:
        """Return how many items of a batch run together: all, or as many as `tokens_at_once` says."""
        if self._runs_alone(role):
            return 1
        if (self._device != "cpu" or self._manifest.width is None) and not self._words:
            return len(items)
        tokens = max(
            sum(item.lengths.get(axis, 0) for axis in ("image", "source", "target", "frame", NODES)) for item in items
        )
        return max(1, self.tokens_at_once(role) // tokens)

    def tokens_at_once(self, role: Role) -> int:
        """Return how many tokens of a batch run together: on a CPU as many as its caches serve well.

        Of sparse encoders, they are no more than there is memory for the logits of.
        """
        most = self._settings.batch_tokens
        if self._device == "cpu" and self._manifest.width is not None:
            most = PART_STATE_BYTES * self._sessions[role].cores // (FLOAT_BYTES * self._manifest.width)
        if self._words:
            each = GRADIENT_RUN.words if role in GRADIENT_METHODS else ATTENTION_RUN.words
            most = min(most, int(PART_WORD_BYTES / (each * self._words)))
        return max(1, most)
