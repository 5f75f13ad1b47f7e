"""Open a checkpoint in the Hugging Face layout: a folder, or a name on the hub. Files are read and never run."""

import contextlib
import dataclasses
import functools
import json
import math
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

from export.errors import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_config.json"
WRAPPERS = re.compile(r"((module|_orig_mod)\.)*")
"""What DistributedDataParallel and torch.compile put before the name of every tensor of the model that they wrap."""
PICKLE_FILES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.pth", "tf_model.h5")
DOWNLOADED_FILES = (
    CONFIG, WEIGHTS, INDEX, "model-*-of-*.safetensors", "generation_config.json", "preprocessor_config.json",
    "processor_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "vocab.txt", "merges.txt", "target_vocab.json", "source.spm", "target.spm",
    "sentencepiece.bpe.model", "spiece.model", "spm.model", "modules.json", "*/config.json",
    "*_Dense/model.safetensors", "sentence_*_config.json", "config_sentence_transformers.json",
    "chat_template.jinja", "README.md",
)  # fmt: skip
"""The files of a repository that are read, and therefore downloaded."""

CONVERT_COMMAND = (
    'python -c "import sys, torch, safetensors.torch as s; '
    "t = torch.load(sys.argv[1], map_location='cpu', weights_only=True); "
    's.save_file({{k: v.clone().contiguous() for k, v in t.items()}}, sys.argv[2])" {0} {1}'
)
RESAVE_COMMAND = "AutoModel.from_pretrained(checkpoint).save_pretrained(folder), with the class that its config names"
MAX_JSON_BYTES = 64 << 20  # bytes; a tokenizer with a quarter of a million words has about 20 MB
MOST_VALUES = 4_000_000  # of a JSON file; that tokenizer, with its half a million merges in pairs, has 2,000,000
MOST_TENSORS = 100_000  # of a file; mixtures of 256 experts have 50,000 in all


@dataclass(frozen=True)
class Checkpoint:
    """An opened checkpoint: its parsed `config.json`, and the file of each tensor."""

    folder: Path
    config: dict[str, Any]
    tensors: Mapping[str, Path]
    """Tensor name -> the safetensors file that holds it."""
    origin: dict[str, str] = field(default_factory=dict)
    """The name and revision on the hub; empty for a folder."""
    wrapper: str = ""
    """What stands before the name of every tensor in the files, and is taken off."""

    @property
    def weights(self) -> list[Path]:
        """Return the files that hold the weights."""
        return sorted(set(self.tensors.values()))

    def has(self, file: str) -> bool:
        """True if the folder holds a file of this name."""
        return (self.folder / file).is_file()

    def json(self, file: str) -> dict[str, Any]:
        """Return the JSON object in a file of the folder; empty if there is no such file."""
        found = read_json(self.folder / file) if self.has(file) else {}
        if not isinstance(found, dict):
            raise CheckpointError(f"{file}: must be a JSON object")
        return found

    @functools.cached_property
    def numbers(self) -> int:
        """How many numbers the weights hold, as the files' headers say."""
        held = 0
        for file in self.weights:
            with _open(file) as weights:
                held += sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
        return held

    def load(self) -> Iterator[tuple[str, "Tensor"]]:
        """Yield every tensor by name, one at a time."""
        for file in self.weights:
            within = "" if file.parent == self.folder else f"{file.parent.name}/"
            with _open(file) as weights:
                for name in weights.keys():  # noqa: SIM118 # it is no dict
                    if (known := within + name.removeprefix(self.wrapper)) in self.tensors:
                        yield known, weights.get_tensor(name)

    def only(self, belongs: Callable[[str], bool]) -> "Checkpoint":
        """Return the checkpoint with those of its tensors alone that belong, by their names."""
        return dataclasses.replace(self, tensors={name: at for name, at in self.tensors.items() if belongs(name)})

    def with_folders(self, paths: Iterable[str]) -> "Checkpoint":
        """Return the checkpoint with the tensors of folders in it: `2_Dense/linear.weight`. Raises CheckpointError."""
        tensors = dict(self.tensors)
        for path in paths:
            found = _locate_tensors(self.folder / path, f"{path}/")
            tensors |= {f"{path}/{name}": file for name, file in found.items()}
        return dataclasses.replace(self, tensors=tensors)


def open_checkpoint(
    name: str, revision: str | None, check: Callable[[Mapping[str, Any]], object] = lambda config: None
) -> Checkpoint:
    """Open a folder, or a repository of the hub by its name.

    `check` is called with the configuration before anything else is read, and may raise CheckpointError. Raises it if
    there is neither, and for a folder without a configuration or safetensors weights.
    """
    folder = Path(name)
    origin: dict[str, str] = {}
    if not folder.is_dir():
        folder, origin = _download(name, revision, [CONFIG])
        if (folder / CONFIG).is_file():
            check(_read_config(folder))  # before gigabytes are downloaded
        folder, origin = _download(name, origin["revision"], DOWNLOADED_FILES)
    elif revision is not None:
        raise CheckpointError("--revision: is for names on the hub, given a folder")
    if not (folder / CONFIG).is_file() and (folder / ADAPTER).is_file():
        raise CheckpointError(
            f"{ADAPTER}: is that of an adapter, which changes the weights of another model; merge it by the peft "
            "library: AutoPeftModel.from_pretrained(FOLDER).merge_and_unload().save_pretrained(ANOTHER)"
        )
    if not (folder / CONFIG).is_file():
        raise CheckpointError(f"{CONFIG}: must be in the checkpoint's folder, and is not")
    config = _read_config(folder)
    check(config)
    found = _locate_tensors(folder)
    match = WRAPPERS.match(next(iter(found), ""))
    wrapper = match[0] if match and all(name.startswith(match[0]) for name in found) else ""
    return Checkpoint(folder, config, {name.removeprefix(wrapper): at for name, at in found.items()}, origin, wrapper)


def _read_config(folder: Path) -> dict[str, Any]:
    config = read_json(folder / CONFIG)
    if not isinstance(config, dict):
        raise CheckpointError(f"{CONFIG}: must be a JSON object")
    return config


def read_json(file: Path) -> Any:  # noqa: ANN401 # whatever JSON holds
    """Parse a JSON file. Raises CheckpointError if that fails."""
    try:
        if file.stat().st_size > MAX_JSON_BYTES:
            raise CheckpointError(f"{file.name}: at most {MAX_JSON_BYTES} bytes, given {file.stat().st_size}")
        document = file.read_bytes()
        if (values := sum(document.count(sign) for sign in (b",", b"[", b"{"))) > MOST_VALUES:
            raise CheckpointError(f"{file.name}: at most {MOST_VALUES} values, given {values}")
        return json.loads(document.decode())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{file.name}: cannot be read as JSON: {error}") from error


def without_keys(config: Mapping[str, Any], ignored: Collection[str]) -> dict[str, Any]:
    """Return a configuration without the keys that the user declares irrelevant."""
    return {key: value for key, value in config.items() if key not in ignored}


def _download(name: str, revision: str | None, files: Collection[str]) -> tuple[Path, dict[str, str]]:
    if Path(name).is_file():
        raise CheckpointError("NAME: must be the checkpoint's folder, given a file in it")
    if name.startswith((".", "/", "~")) or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        raise CheckpointError("NAME: is no bundled model and no folder, and cannot be a name on the hub")
    try:
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=list(files)))
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
            "NAME: is no bundled model and no folder, the hub cannot be reached, and its cache does not hold it; give "
            "the folder of a checkpoint that was downloaded elsewhere"
        ) from error
    return folder, {"hub": name, "revision": folder.name}


def _locate_tensors(folder: Path, within: str = "") -> dict[str, Path]:
    """Return the file of each tensor of the checkpoint's folder, or of one `within` it. Raises CheckpointError."""
    if (folder / INDEX).is_file() and not (folder / WEIGHTS).is_file():
        index = read_json(folder / INDEX)
        listed = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(listed, dict) or not all(isinstance(file, str) for file in listed.values()):
            raise CheckpointError(f"{INDEX}: must map tensors to files, under weight_map")
        if outside := [file for file in listed.values() if Path(file).name != file]:
            raise CheckpointError(f"{INDEX}: files must lie beside it, given {outside[0]!r}")
        found = {name: folder / file for file in sorted(set(listed.values())) for name in _tensor_names(folder / file)}
        if found.keys() != listed.keys() or any(found[name].name != file for name, file in listed.items()):
            files = {name: file.name for name, file in found.items()}
            odd = sorted(name for name in files.keys() | listed.keys() if files.get(name) != listed.get(name))
            raise CheckpointError(f"{INDEX}: lists other tensors than the files hold, such as {odd[0]}")
        return found
    if not (folder / WEIGHTS).is_file():
        if pickles := [name for name in PICKLE_FILES if (folder / name).exists()]:
            one = folder / pickles[0]
            convert = (
                CONVERT_COMMAND.format(shlex.quote(str(one)), shlex.quote(str(folder / WEIGHTS)))
                if one.suffix in (".bin", ".pt", ".pth")
                else RESAVE_COMMAND
            )
            raise CheckpointError(
                f"{within}{one.name}: is not read, since reading a pickle can run code; from a source that you trust, "
                f"make {WEIGHTS} of it: {convert}"
            )
        raise CheckpointError(
            f"{within}{WEIGHTS}: must be in the checkpoint's folder, and is not; of other weights, such as "
            f"pytorch_model.bin on a hub, with the transformers library: {RESAVE_COMMAND}"
        )
    return dict.fromkeys(_tensor_names(folder / WEIGHTS), folder / WEIGHTS)


def _tensor_names(file: Path) -> list[str]:
    with _open(file) as weights:
        names = list(weights.keys())
    if len(names) > MOST_TENSORS:
        raise CheckpointError(f"{file.name}: at most {MOST_TENSORS} tensors, given {len(names)}")
    return names


def _open(file: Path) -> Any:  # noqa: ANN401 # safetensors has no types
    try:
        return safe_open(file, "pt")
    except (OSError, SafetensorError) as error:
        if _starts_with(file, b"version https://"):
            raise CheckpointError(
                f"{file.name}: is a pointer of git-lfs; fetch the file itself: git lfs pull"
            ) from error
        raise CheckpointError(f"{file.name}: cannot be read as safetensors, is it whole? {error}") from error


def _starts_with(file: Path, words: bytes) -> bool:
    with contextlib.suppress(OSError), file.open("rb") as stream:
        return stream.read(len(words)) == words
    return False
