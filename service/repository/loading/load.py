"""Loading artifacts: each is tried, checked and opened. If the newest version cannot be served, an older one is."""

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from contract.artifact import (
    MANIFEST,
    Artifact,
    ArtifactError,
    NoRoomError,
    find_versions,
    read_artifact,
    read_manifest,
)
from service.child_processes import COPIES_PREFIX
from service.repository.loading.trial_load import Trial, shared_copies
from service.repository.models.served_model import ServedModel
from service.repository.models.tasks import TASKS, class_of
from service.runtime.runtime_errors import PrecisionError, ProviderError, SessionError
from service.runtime.session import choose_device
from service.settings import Settings

LOAD_ERRORS = (ArtifactError, ProviderError, SessionError)
"""The errors of an artifact, of the device, and of a graph."""
PROGRESS_SECONDS = 5.0
"""How long a start loads artifacts before it logs how far it is."""
log = structlog.get_logger()


def load(settings: Settings, trial: Trial | None = None) -> dict[str, ServedModel]:
    """Check and load the newest version of every artifact that can be served; return the models by name.

    Each is tried before: by `trial`, or, what that one does not try, by a trial of its own. Raises an ExceptionGroup of
    every ArtifactError, ProviderError and SessionError of artifacts without a version that can be served.
    """
    loaded: dict[str, ServedModel] = {}
    faults: list[Exception] = []
    logged = time.monotonic()
    try:
        device = choose_device(settings.device)
        found = find_versions(settings.artifacts)
        for versions in found:
            if time.monotonic() - logged >= PROGRESS_SECONDS:
                log.info("loading models", loaded=len(loaded), of=len(found))
                logged = time.monotonic()
            try:
                if versions[-1].parent.name in loaded:  # as the partner of one before
                    continue
                served = _load_newest(versions, device, settings, trial, found)
                loaded |= {own.manifest.name: own for own in served.together}
            except ProviderError as error:
                if settings.device != "auto" or device == "cpu":
                    raise
                log.warning("the GPU cannot run all models, so all run on the CPU", reason=str(error))
                return load(settings.model_copy(update={"device": "cpu"}))
            except (ArtifactError, SessionError) as error:
                faults.append(error)
    except LOAD_ERRORS as error:
        faults.append(error)
    if faults:
        raise ExceptionGroup("not all that is asked for can be served", faults)
    return loaded


def _load_newest(
    versions: Sequence[Path],
    device: str,
    settings: Settings,
    trial: Trial | None,
    found: Sequence[Sequence[Path]],
) -> ServedModel:
    """Load the newest version that can be served, with its partner, and log why newer ones cannot.

    Raises ProviderError, and the error of the newest version if none can be served.
    """
    refused: dict[Path, Exception] = {}
    for folder in reversed(versions):
        try:
            served = _load_tried(folder, device, settings, trial)
            with_partner(served, found, lambda partner: _load_tried(partner, device, settings, trial))
        except (ArtifactError, PrecisionError, SessionError) as error:
            refused[folder] = error
            continue
        for newer, reason in refused.items():
            log_refused(newer, reason, served=served.manifest.version)
        served.refused = {newer: public_reason(reason) for newer, reason in refused.items()}
        return served
    raise refused[versions[-1]]


def _load_tried(folder: Path, device: str, settings: Settings, trial: Trial | None) -> ServedModel:
    if trial is None or trial.tries(folder):
        return load_one(folder, device, settings, trial)
    with contextlib.closing(Trial([folder], settings, "spawn")) as own:
        return load_one(folder, device, settings, own)


def with_partner(served: ServedModel, found: Sequence[Sequence[Path]], load: Callable[[Path], ServedModel]) -> None:
    """Load the partner of a model, if it has one, and join both. `found` are the folders of all versions.

    Raises ArtifactError if there is none of the same pair, or another that compares otherwise, and what `load` does.
    """
    contrast = served.manifest.contrast
    if contrast is None:
        return
    manifest = served.artifact.path(MANIFEST)
    versions = next((one for one in found if one[-1].parent.name == contrast.partner), ())
    if not versions:
        raise ArtifactError(manifest, f"its partner {contrast.partner} must be there too, and is not")
    for folder in reversed(versions):
        with contextlib.suppress(ArtifactError):
            other = read_manifest(folder).contrast
            mirrored = contrast.model_copy(update={"partner": served.manifest.name})
            if other and other.pair == contrast.pair and other == mirrored:
                break
    else:
        reason = f"its partner {contrast.partner} must be the one that was exported with it, and is another"
        raise ArtifactError(manifest, reason)
    partner = load(folder)
    served.partner, partner.partner = partner, served


def load_one(folder: Path, device: str, settings: Settings, trial: Trial | None = None) -> ServedModel:
    """Check and load one version of an artifact. Raises ArtifactError, ProviderError or SessionError."""
    if trial:
        return _open(trial.outcome(folder, exact=device == "cpu"), device, settings)
    with tempfile.TemporaryDirectory(prefix=f"{COPIES_PREFIX}{os.getpid()}-") as copy:
        return _open(read_artifact(folder, Path(copy), shared_copies()), device, settings)


def _open(artifact: Artifact, device: str, settings: Settings) -> ServedModel:
    served = class_of(artifact.manifest)
    if served is None:
        reason = f"task {artifact.manifest.task} is not served, only {', '.join(TASKS)}"
        raise ArtifactError(artifact.path(MANIFEST), reason)
    return served(artifact, device, settings)


def log_refused(folder: Path, error: Exception, *, served: str | None) -> None:
    """Log why a version cannot be used, and which one is served instead, if any."""
    name, version = folder.parent.name, folder.name
    log.error("artifact cannot be used", model=name, version=version, served=served, reason=str(error))


def public_reason(error: Exception) -> str:
    """Return the reason that the client of a reload is told: without paths, and without messages of libraries."""
    if isinstance(error, ArtifactError):
        name = "TMPDIR" if isinstance(error, NoRoomError) else error.file.name
        return f"{name}: {error.reason.partition(';')[0].partition(':')[0]}"
    return "its graphs cannot be loaded or run; the log has the reason"
