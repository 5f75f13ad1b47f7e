"""The maps of attention in windows, as the attention graph returns them: over all tokens, and through stages."""

import functools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from contract.input_rules import ImageRule
from contract.manifest import Kind
from export.graphs.editing.base_graph import row_vectors, selected_layers
from export.graphs.editing.builder import FLOAT, Builder
from export.graphs.maps import windows
from export.graphs.maps.attention_maps import MapsBuilder
from export.graphs.maps.norms import norms_of_layer
from export.plan import patch_centres


class WindowedMapsBuilder(MapsBuilder):
    """Builds maps and diagnostics of one kind from its weights (batch, windows, heads, slot, slot) and values."""

    heads_axis = 2

    def __init__(
        self,
        b: Builder,
        kind: Kind,
        selected: str,
        output_projections: Sequence[npt.NDArray[np.generic]],
        image: ImageRule | None,
        before: Sequence["WindowedMapsBuilder"],
    ) -> None:
        super().__init__(b, kind, selected, output_projections, image)
        self.before = before
        """The maps of the stages before it, the first one first."""
        self.places = dict(zip(self.weights, windows.places_of(kind), strict=True))

    def picked(self, weights: str, rows: str) -> str:
        """Return the rows of weights over all tokens, or the mean of all rows for the row -1."""
        return self._rows_or_mean(weights, self.places[weights], rows)

    def _rows_or_mean(self, weights: str, places: windows.Places, rows: str) -> str:
        b = self.b

        def mean() -> list[str]:
            every = windows.mean_of_rows(b, weights, places)
            return [b.op("Gather", every, b.op("Add", rows, b.constant(1)), axis=2)]

        return b.branch(self.asks_for_mean(), mean, lambda: [windows.unfolded_rows(b, weights, places, rows)])[0]

    def followed(self) -> str:
        """Return `windows.windowed_rollout` of the selected rows, to the tokens of the first stage."""
        b = self.b
        own = windows.places_of(self.kind)
        length = b.constant(self.kind.length)
        joint = b.op("Unsqueeze", row_vectors(b, self.kind, self.rows, length), b.constant([0]))  # (1, row, token)
        layers = selected_layers(b, self.kind)
        for index in reversed(range(len(own))):
            included = b.op("Gather", layers, b.constant(index))
            joint = b.op("Where", included, self._step(joint, self.fused_heads()[index], own[index]), joint)
        for stage in reversed(self.before):
            joint = windows.spread(b, joint, stage.kind.grid or (0, 0))
            fused = stage.fused_heads()
            for layer, places in reversed(list(zip(fused, windows.places_of(stage.kind), strict=True))):
                joint = self._step(joint, layer, places)
        return b.op("Unsqueeze", joint, b.constant([1, 2]))

    def _step(self, joint: str, fused: str, places: windows.Places) -> str:
        """Return joint times rownorm(A + I) of one layer."""
        b = self.b
        total = b.op("Add", windows.row_sums(b, fused, places), b.constant(1, np.float32))
        share = b.op("Div", joint, total)
        return b.op("Add", share, windows.carry(b, share, fused, places))

    def norm(self) -> str:
        """Return `windows.windowed_norms` of the selected layers and rows; a layer without rows is not computed."""
        b = self.b
        layers: list[str] = []
        shape = b.op("Concat", b.op("Shape", self.weights[0], end=1), b.constant([1, 0, self.kind.length]), axis=0)
        every = zip(self.weights, self.values, self.output_projections, self.rows_by_layer(), strict=True)
        for weights, value, projection, rows in every:
            layers += b.branch(
                b.op("Greater", b.length(rows, 0), b.constant(0)),
                functools.partial(self._norms_of_windows, weights, value, projection, rows),
                lambda: [b.zeros(shape)],
            )
        return self.split_layers(b.op("Concat", *layers, axis=2))

    def _norms_of_windows(self, weights: str, value: str, projection: npt.NDArray[np.generic], rows: str) -> list[str]:
        """Return the norms of rows (batch, 1, row, token), computed in each window."""
        b, places = self.b, self.places[weights]
        count, slots = places.tokens.shape
        inside = [b.op("Reshape", x, b.constant([-1, self.kind.heads, slots, last]))
                  for x, last in ((weights, slots), (value, projection.shape[0] // self.kind.heads))]  # fmt: skip
        (found,) = norms_of_layer(b, self.kind.heads, inside[1], projection, inside[0])  # (batch x windows, slot, slot)
        found = b.op("Reshape", found, b.constant([-1, count, 1, slots, slots]))
        return [self._rows_or_mean(found, places, rows)]

    def figures_of_layers(self) -> Iterator[str]:
        """Yield the figures of each layer, (batch, heads, query, figure)."""
        b = self.b
        special = b.op("Cast", self.special, to=FLOAT)
        for weights, places in self.places.items():
            log = b.op("Log", b.op("Max", weights, b.constant(1e-30, np.float32)))
            marked = b.op("Unsqueeze", b.op("Gather", special, b.constant(places.tokens), axis=1), b.constant([2, 4]))
            found = [
                b.op("Neg", b.reduce("ReduceSum", b.op("Mul", weights, log), 4, keep=False)),
                b.op("Squeeze", b.op("MatMul", weights, marked), b.constant([4])),
                *([self._distance_in_windows(weights, places, self.image)] if self.image else []),
            ]
            figures = [b.op("Unsqueeze", windows.by_token(b, one, places), b.constant([3])) for one in found]
            yield b.op("Concat", *figures, axis=3)

    def _distance_in_windows(self, weights: str, places: windows.Places, image: ImageRule) -> str:
        """Return the mean attention distance of each query, (batch, windows, heads, slot)."""
        centres = patch_centres(self.kind.grid or (0, 0), image)[places.tokens]  # (windows, slot, 2)
        apart = np.linalg.norm(centres[:, :, None] - centres[:, None], axis=-1)[:, None]
        product = self.b.op("Mul", weights, self.b.constant(apart, np.float32))
        return self.b.reduce("ReduceSum", product, 4, keep=False)
