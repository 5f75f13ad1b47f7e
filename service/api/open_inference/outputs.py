"""The outputs of a model: what each task answers, and attention, which is computed only when it is named."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from service.answering.call import Answered
from service.api import responses
from service.api.open_inference.infer_request import InferRequest, WantedOutput
from service.api.open_inference.tensors import Tensor
from service.api.tasks.table import task_of
from service.api.tasks.tensors import Output, Row
from service.arrays import padded
from service.errors import TooLarge, Unacceptable
from service.explanations.answer import AttentionAnswer, Values
from service.explanations.query import AttentionQuery
from service.options.predictions import DetectOptions
from service.repository.models.detector import Detector
from service.repository.models.served_model import ServedModel
from service.repository.models.tagger import Tagger

ATTENTION = "attention"
"""The output that holds the document of attention; the tensors of its kinds are `attention.<kind>`."""
FLOAT_BYTES, NUMBER_BYTES = 4, 16
"""Of one number of a tensor, in binary, and at most in JSON."""
OF_SEVERAL: dict[type[ServedModel], str] = {
    Detector: "a detector has one for each of many objects",
    Tagger: "a tagger has one for each of many tokens",
}
"""Models that answer with more than one class an input."""
OF_DOCUMENTS = frozenset(
    "colormap diagnostics digits dtype encoding evaluate format ground hard opacity scale sides width".split()
)
"""Options of attention that a document shows, or a picture, and tensors do not."""


def attention_outputs_of(served: ServedModel) -> list[Output]:
    """Return the outputs of attention: (inputs, maps, heads, queries, keys) for each kind that the manifest has."""
    kinds = [Output(f"{ATTENTION}.{one.name}", "FP32", (-1,) * 5) for one in served.manifest.attention]
    return [Output(ATTENTION, "BYTES", (-1, 1)), *kinds]


def attention_query(served: ServedModel, asked: InferRequest) -> AttentionQuery | None:
    """Return the attention that the named outputs need. Raises Unacceptable for outputs that the model does not have.

    Where tensors of one kind are named, and nothing else of attention, only that kind is computed.
    """
    attention = [one.name for one in attention_outputs_of(served)]
    known = [one.name for one in task_of(served).outputs(served)] + attention
    named = [one.name for one in asked.wanted]
    if not set(named) <= set(known):
        raise Unacceptable(f"outputs: must be among {', '.join(known)}, given another")
    if any(one.classes and one.name != "probabilities" for one in asked.wanted):
        raise Unacceptable("classification: is for the output probabilities")
    several = next((words for kind, words in OF_SEVERAL.items() if isinstance(served, kind)), None)
    if several and any(one.classes for one in asked.wanted):
        raise Unacceptable(f"classification: is for one class an input, {several}")
    of_attention = [name for name in named if name.partition(".")[0] == ATTENTION]
    if not of_attention:
        if asked.parsed.attention(required=False):
            raise Unacceptable(f"attention: name one of the outputs {', '.join(attention)}")
        if isinstance(served, Detector):  # its outputs are of all objects
            _check_effect(DetectOptions.model_fields.keys() & asked.parsed.given.keys() - {"priority"})
        return None
    tensors = [name.partition(".")[2] for name in of_attention if name != ATTENTION]
    if len(tensors) == len(of_attention) == 1:
        asked = asked.with_option("kind", tensors[0])
    options = asked.parsed.attention(required=True)
    assert options is not None  # noqa: S101 # it is required
    _check_effect(options.model_fields_set & (OF_DOCUMENTS if ATTENTION not in of_attention else {"format"}))
    in_binary = all(one.binary for one in asked.wanted if one.name in of_attention)
    query = served.query(options).in_form("npz" if in_binary and ATTENTION not in of_attention else "json")
    answered = {one.kind.name for one in query.kinds}
    if not set(tensors) <= answered:
        raise Unacceptable(f"outputs: this attention is of kind {', '.join(sorted(answered))}, given another")
    return query


def _check_effect(unseen: Iterable[str]) -> None:
    for name in sorted(unseen):
        raise Unacceptable(f"{name}: has no effect on tensors, leave it out")


def tensors_of(
    served: ServedModel, answered: Answered[Row], wanted: Sequence[WantedOutput], limit: int
) -> list[Tensor]:
    """Return the outputs that are wanted. Raises TooLarge where those of attention have more bytes than the limit."""
    rows, attention = answered.shown, [one for _, one in answered.results if one]
    made = []
    left = limit
    for output in wanted:
        if output.name == ATTENTION:
            documents = [responses.dump(one.json()) for one in attention]
            left = _left(left - sum(map(len, documents)), limit)
            made.append(Tensor(ATTENTION, (len(rows), 1), documents))
        elif output.name.startswith(f"{ATTENTION}."):
            maps = [_maps_of(answer, output.name.partition(".")[2]) for answer in attention]
            shape = _shape(maps)
            left = _left(left - int(np.prod(shape)) * (FLOAT_BYTES if output.binary else NUMBER_BYTES), limit)
            made.append(Tensor(output.name, shape, _filled(maps, shape)))
        elif output.classes:
            made.append(_likeliest(served, output, [row["probabilities"] for row in rows]))
        else:
            made.append(_stacked(output.name, [row[output.name] for row in rows]))
    return made


def _left(left: int, limit: int) -> int:
    """Return the bytes that are left of a limit. Raises TooLarge if there are none."""
    if left < 0:
        raise TooLarge(
            f"outputs: at most {limit} bytes of attention, given {limit - left}, where the maps of each input "
            "are as large as the largest; ask for fewer layers, heads, queries, inputs, or inputs of one length"
        )
    return left


def _stacked(name: str, values: Sequence[npt.NDArray[np.float32] | bytes]) -> Tensor:
    texts = [one for one in values if isinstance(one, bytes)]
    if texts:
        return Tensor(name, (len(texts), 1), texts)
    array = padded([one for one in values if not isinstance(one, bytes)])
    return Tensor(name, array.shape, array)


def _likeliest(served: ServedModel, output: WantedOutput, rows: Sequence[npt.NDArray[np.float32] | bytes]) -> Tensor:
    """Return `value:index:label` of the likeliest classes, best first (classification extension)."""
    shown = []
    count = 0
    for row in rows:
        best = np.argsort(-np.asarray(row), kind="stable")[: output.classes]
        count = len(best)
        shown += [
            b"%f:%d:%s" % (row[index], index, served.manifest.label_of(index).encode()) for index in best.tolist()
        ]
    return Tensor(output.name, (len(rows), count), shown)


def _maps_of(answer: AttentionAnswer, kind: str) -> list[Values]:
    return [one.values for one in answer.merged().pooled().maps if one.kind.name == kind]


def _shape(maps: Sequence[Sequence[Values]]) -> tuple[int, ...]:
    """Return the shape of a tensor that holds the maps of each input, as large as the largest."""
    sizes = [max((one.shape[axis] for own in maps for one in own), default=0) for axis in range(3)]
    return (len(maps), max(map(len, maps)), *sizes)


def _filled(maps: Sequence[Sequence[Values]], shape: tuple[int, ...]) -> Values:
    """Return maps as one tensor. Zeros fill those of shorter inputs, since a tensor is rectangular."""
    stack = np.zeros(shape, np.float32)
    for place, own in enumerate(maps):
        for index, one in enumerate(own):
            heads, rows, keys = one.shape
            stack[place, index, :heads, :rows, :keys] = one
    return stack


def wanted_of(served: ServedModel, asked: InferRequest) -> Sequence[WantedOutput]:
    """Return the outputs of an answer: those that are named, or all of the prediction."""
    return asked.wanted or [WantedOutput(one.name, asked.binary) for one in task_of(served).outputs(served)]


def document_of(tensor: Tensor, *, binary: bool) -> tuple[dict[str, object], bytes]:
    """Return what the answer's JSON says of an output, and its binary data, if it is answered so."""
    entry: Mapping[str, object] = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
    if not binary:
        return {**entry, "data": tensor.data()}, b""
    data = tensor.binary()
    return {**entry, "parameters": {"binary_data_size": len(data)}}, data
