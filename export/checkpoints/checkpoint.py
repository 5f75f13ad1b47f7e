"""Checkpoints in the Hugging Face layout: a folder, or a name on the hub, whose files are read and never run."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.pth", "tf_model.h5")
FILES = (
    CONFIG, WEIGHTS, INDEX, "model-*-of-*.safetensors", "generation_config.json", "preprocessor_config.json",
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "vocab.txt", "merges.txt", "target_vocab.json", "source.spm", "target.spm", "modules.json", "*/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
)  # fmt: skip
"""All that is read of a repository, and so all that is downloaded."""

CONVERT = (
    'python -c "import torch, safetensors.torch as s; '
    "t = torch.load('{0}', map_location='cpu', weights_only=True); "
    "s.save_file({{k: v.clone().contiguous() for k, v in t.items()}}, '{1}')\""
)
RESAVE = "AutoModel.from_pretrained(checkpoint).save_pretrained(folder), with the class that its config names"
MOST_JSON = 64 << 20  # bytes; a tokenizer with a quarter of a million words has about 20 MB


class CheckpointError(ValueError):
    """A checkpoint cannot be exported; the message is one line that says what was found and what to do."""


@dataclass(frozen=True)
class Checkpoint:
    """An opened checkpoint: its parsed `config.json`, and where each tensor lies."""

    folder: Path
    config: dict[str, Any]
    tensors: Mapping[str, Path]
    """Name of a tensor -> the safetensors file that holds it."""
    origin: dict[str, str] = field(default_factory=dict)
    """The name and revision on the hub, where it came from there."""

    @property
    def weights(self) -> list[Path]:
        """Return the files that hold the weights."""
        return sorted(set(self.tensors.values()))

    def has(self, file: str) -> bool:
        """Say whether the folder holds a file."""
        return (self.folder / file).is_file()

    def json(self, file: str) -> dict[str, Any]:
        """Return a JSON object of the folder, empty where there is none of this name."""
        found = read_json(self.folder / file) if self.has(file) else {}
        if not isinstance(found, dict):
            raise CheckpointError(f"{file}: must be a JSON object")
        return found

    def load(self) -> Iterator[tuple[str, Tensor]]:
        """Yield every tensor by name, one at a time."""
        for file in self.weights:
            with _open(file) as weights:
                for name in weights.keys():  # noqa: SIM118 # it is no dict
                    yield name, weights.get_tensor(name)


def open_checkpoint(name: str, revision: str | None) -> Checkpoint:
    """Open a folder, or a repository of the hub by its name.

    Raises CheckpointError where there is neither, and for a folder without configuration or safetensors weights.
    """
    folder = Path(name)
    origin: dict[str, str] = {}
    if not folder.is_dir():
        folder, origin = _download(name, revision)
    elif revision is not None:
        raise CheckpointError("--revision: is for names on the hub, given a folder")
    if not (folder / CONFIG).is_file():
        raise CheckpointError(f"{CONFIG}: must be in the checkpoint's folder, and is not")
    config = read_json(folder / CONFIG)
    if not isinstance(config, dict):
        raise CheckpointError(f"{CONFIG}: must be a JSON object")
    return Checkpoint(folder, config, _find(folder), origin)


def read_json(file: Path) -> Any:  # noqa: ANN401 # whatever JSON holds
    """Parse a JSON file. Raises CheckpointError where it is none."""
    try:
        if file.stat().st_size > MOST_JSON:
            raise CheckpointError(f"{file.name}: at most {MOST_JSON} bytes, given {file.stat().st_size}")
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{file.name}: cannot be read as JSON: {error}") from error


def _download(name: str, revision: str | None) -> tuple[Path, dict[str, str]]:
    if Path(name).is_file():
        raise CheckpointError("NAME: must be the checkpoint's folder, given a file in it")
    if name.startswith((".", "/", "~")) or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        raise CheckpointError("NAME: is no bundled model and no folder, and cannot be a name on the hub")
    try:
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=list(FILES)))
    except GatedRepoError as error:
        raise CheckpointError("NAME: the hub asks who you are; accept its terms there, then: hf auth login") from error
    except RevisionNotFoundError as error:
        raise CheckpointError(f"NAME: the hub has no revision {revision}") from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise CheckpointError(
            "NAME: is no bundled model and no folder, and the hub has none of this name (or none for you)"
        ) from error
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise CheckpointError(
            "NAME: is no bundled model and no folder, the hub cannot be reached, and its cache does not hold it"
        ) from error
    return folder, {"hub": name, "revision": folder.name}


def _find(folder: Path) -> dict[str, Path]:
    """Return which file holds each tensor."""
    if (folder / INDEX).is_file() and not (folder / WEIGHTS).is_file():
        index = read_json(folder / INDEX)
        listed = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(listed, dict) or not all(isinstance(file, str) for file in listed.values()):
            raise CheckpointError(f"{INDEX}: must map tensors to files, under weight_map")
        if outside := [file for file in listed.values() if Path(file).name != file]:
            raise CheckpointError(f"{INDEX}: files must lie beside it, given {outside[0]!r}")
        found = {name: folder / file for file in sorted(set(listed.values())) for name in _names(folder / file)}
        if found.keys() != listed.keys() or any(found[name].name != file for name, file in listed.items()):
            files = {name: file.name for name, file in found.items()}
            odd = sorted(name for name in files.keys() | listed.keys() if files.get(name) != listed.get(name))
            raise CheckpointError(f"{INDEX}: lists other tensors than the files hold, such as {odd[0]}")
        return found
    if not (folder / WEIGHTS).is_file():
        if pickles := [name for name in PICKLES if (folder / name).exists()]:
            one = folder / pickles[0]
            convert = CONVERT.format(one, folder / WEIGHTS) if one.suffix in (".bin", ".pt", ".pth") else RESAVE
            raise CheckpointError(
                f"{one.name}: is not read, since reading a pickle can run code; from a source that you trust, "
                f"make {WEIGHTS} of it: {convert}"
            )
        raise CheckpointError(
            f"{WEIGHTS}: must be in the checkpoint's folder, and is not; of other weights, such as "
            f"pytorch_model.bin on a hub, with the transformers library: {RESAVE}"
        )
    return dict.fromkeys(_names(folder / WEIGHTS), folder / WEIGHTS)


def _names(file: Path) -> list[str]:
    with _open(file) as weights:
        return list(weights.keys())


def _open(file: Path) -> Any:  # noqa: ANN401 # safetensors has no types
    try:
        return safe_open(file, "pt")
    except (OSError, SafetensorError) as error:
        if _begins(file, b"version https://"):
            raise CheckpointError(
                f"{file.name}: is a pointer of git-lfs; fetch the file itself: git lfs pull"
            ) from error
        raise CheckpointError(f"{file.name}: cannot be read as safetensors, is it whole? {error}") from error


def _begins(file: Path, words: bytes) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as stream:
        return stream.read(len(words)) == words


# Names


@dataclass(frozen=True)
class To:
    """Where a tensor goes: one parameter, or several that it is cut into along its first axis."""

    names: tuple[str, ...]
    transposed: bool = False
    """Of a matrix: stored as (in, out)."""
    copy: bool = False
    """It may be there, and then only repeats what the model has at that place."""
    spare: bool = False
    """It is used where no other tensor goes there."""


NOWHERE = To(())
"""For tensors that the task at hand does not use."""


def cut(*names: str, transposed: bool = False) -> To:
    """Cut a tensor that joins several along its output axis."""
    return To(names, transposed)


def spare(name: str) -> To:
    """Use a tensor only where no other is for the same parameter."""
    return To((name,), spare=True)


def copy_of(name: str) -> To:
    """Let a tensor be there if it equals a parameter or a buffer."""
    return To((name,), copy=True)


Names = Mapping[str, str | To]
"""Checkpoint's name -> ours; `{}` stands for a block's number, and both may leave out a final `.weight` or `.bias`."""

OLD = {"gamma": "weight", "beta": "bias"}
"""What norms called their parameters in checkpoints that were converted from TensorFlow."""


@dataclass(frozen=True)
class Fitted:
    """What became of a checkpoint's tensors: those for the model by our names, and the names of those set aside."""

    tensors: dict[str, Tensor]
    aside: list[str]


def fit(module: nn.Module, checkpoint: Checkpoint, names: Names, prefix: str) -> Fitted:
    """Name a checkpoint's tensors as the module does; the first rule that names a tensor holds.

    `prefix` stands before the names where the checkpoint holds a head too. Raises CheckpointError listing what is left
    over, and what is there twice but differs.
    """
    wanted = {name: parameter.shape for name, parameter in module.named_parameters(remove_duplicate=False)}
    rules = _compiled(names)
    fitted: dict[str, Tensor] = {}
    repeated: dict[str, tuple[str, Tensor]] = {}
    spares: list[tuple[str, str, Tensor]] = []
    left: list[str] = []
    unused: list[str] = []
    for name, tensor in checkpoint.load():
        found = _match(rules, name.removeprefix(prefix))
        if found is None:
            left.append(name)
            continue
        to, ours = found
        if to is NOWHERE:
            unused.append(name)
            continue
        if not tensor.is_floating_point():
            raise CheckpointError(f"weights: {name} must hold floating point numbers, given {tensor.dtype}")
        if to.transposed and tensor.ndim == 2:
            tensor = tensor.T
        if to.copy:
            repeated[name] = (ours[0], tensor)
            continue
        if to.spare:
            spares.append((name, ours[0], tensor))
            continue
        if len(ours) > 1 and (not tensor.ndim or len(tensor) % len(ours)):
            raise CheckpointError(f"weights: {name} must be {len(ours)} tensors joined, given {list(tensor.shape)}")
        for target, piece in zip(ours, tensor.chunk(len(ours)), strict=True):
            if target in fitted:
                raise CheckpointError(f"weights: {name} and another tensor are both {target}")
            shape = wanted.get(target)
            if shape is not None and _squeezed(piece.shape) == _squeezed(shape):
                piece = piece.reshape(shape)
            fitted[target] = piece.contiguous()
    for name, target, tensor in spares:
        if target in fitted:
            unused.append(name)
        else:
            fitted[target] = tensor
    for name, (original, tensor) in repeated.items():
        held = next((fitted[alias] for alias in _aliases(module, original) if alias in fitted), None)
        held = dict(module.named_buffers(remove_duplicate=False)).get(original) if held is None else held
        near = max(1e-5, 2 * torch.finfo(tensor.dtype).eps)  # it may have been stored in half precision
        if held is None or held.shape != tensor.shape or not torch.allclose(held.float(), tensor.float(), atol=near):
            left.append(f"{name} (not the same as {original})")
    if left:
        raise CheckpointError("weights: left over " + _some(left))
    return Fitted(fitted, unused)


def fill(module: nn.Module, tensors: Mapping[str, Tensor], names: Names) -> None:
    """Fill every parameter, shared ones once.

    Raises CheckpointError listing what is missing or mis-shaped, under the checkpoint's names.
    """
    wanted = dict(module.named_parameters())
    everywhere = {name: id(parameter) for name, parameter in module.named_parameters(remove_duplicate=False)}
    filled = {everywhere[name] for name in tensors if name in everywhere}
    faults = [
        *(f"left over {theirs(name, names)}" for name in tensors if name not in everywhere),
        *(f"missing {theirs(name, names)}" for name, parameter in wanted.items() if id(parameter) not in filled),
        *(
            f"{theirs(name, names)} must be {list(parameter.shape)}, given {list(tensors[name].shape)}"
            for name, parameter in module.named_parameters(remove_duplicate=False)
            if name in tensors and tensors[name].shape != parameter.shape
        ),
    ]
    if faults:
        raise CheckpointError("weights: " + _some(faults))
    with torch.no_grad():
        for name, parameter in module.named_parameters(remove_duplicate=False):
            if name in tensors:
                parameter.copy_(tensors[name])


def theirs(ours: str, names: Names) -> str:
    """Return what the checkpoint calls a parameter."""
    for their, to in names.items():
        for place, name in enumerate([to] if isinstance(to, str) else to.names):
            found = re.fullmatch(re.escape(name).replace(r"\{\}", r"(\d+)") + r"(\.weight|\.bias|)", ours)
            if found:
                *numbers, suffix = found.groups()
                return their.format(*numbers) + suffix + (f" (part {place + 1})" if place else "")
    return ours


def _aliases(module: nn.Module, name: str) -> list[str]:
    """Return every name of a parameter."""
    named = dict(module.named_parameters(remove_duplicate=False))
    return [alias for alias, parameter in named.items() if parameter is named.get(name)]


def _some(listed: list[str]) -> str:
    most = 20
    return "; ".join(listed[:most]) + (f"; and {len(listed) - most} more" if len(listed) > most else "")


def _squeezed(shape: tuple[int, ...]) -> list[int]:
    return [size for size in shape if size != 1]


def _compiled(names: Names) -> list[tuple[re.Pattern[str], To]]:
    return [
        (
            re.compile(re.escape(name).replace(r"\{\}", r"(\d+)") + r"(\.weight|\.bias|)"),
            To((to,)) if isinstance(to, str) else to,
        )
        for name, to in names.items()
    ]


def _match(rules: list[tuple[re.Pattern[str], To]], name: str) -> tuple[To, tuple[str, ...]] | None:
    path, _, last = name.rpartition(".")
    name = f"{path}.{OLD[last]}" if last in OLD else name
    for pattern, to in rules:
        if found := pattern.fullmatch(name):
            *numbers, suffix = found.groups()
            return to, tuple(ours.format(*numbers) + suffix for ours in to.names)
    return None
