"""The registry of models: it warms them up, replaces them while requests run, and retires them."""

import asyncio
import contextlib
from collections.abc import Container, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import structlog

from contract.artifact import ArtifactError, find_versions
from contract.names import listed
from service.batching.admission import Backlog, Budget
from service.errors import Conflict, DeviceFull, Unacceptable
from service.repository.loading.load import LOAD_ERRORS, load_one, log_refused, public_reason, with_partner
from service.repository.loading.trial_load import Trial, drop_shared_copies
from service.repository.loops import Loops
from service.repository.models.served_model import ServedModel, written_at
from service.runtime.device import Device
from service.runtime.memory import Growth, trim_heap
from service.runtime.providers import PROVIDERS
from service.runtime.runtime_errors import SessionError
from service.runtime.session import choose_device
from service.settings import Settings
from service.telemetry.metrics import Metrics, Queue, forget
from service.telemetry.tracing import SILENT, Tracer

GIVE_BACK_SECONDS = 1.0
MOST_TRIALS = 2
"""Versions that are tried at a time. Each may take several times its memory, and minutes if it does not end."""
RELOAD = ""  # no model's name
INDEX_STATES = {
    "ready": ("READY", ""),
    "warming up": ("LOADING", "is warming up"),
    "failed": ("UNAVAILABLE", "its runs fail"),
}
"""The state of a served version in the index of the Open Inference Protocol, and the reason."""
log = structlog.get_logger()


class Registry(Mapping[str, ServedModel]):
    """The served models by name. Each has its own loops; a replaced model keeps them until its last answer.

    The registry must be created and used in an event loop.
    """

    def __init__(
        self,
        loaded: Mapping[str, ServedModel],
        settings: Settings,
        device: Device,
        metrics: Metrics,
        tracer: Tracer = SILENT,
    ) -> None:
        self._settings, self._device, self._metrics = settings, device, metrics
        backlog = Backlog(settings.request_seconds)
        self._served: dict[str, ServedModel] = {}
        self._loops = Loops(lambda served: served.start(device, backlog, metrics, tracer))
        self._changing: dict[str, asyncio.Event] = {}
        """The models that are just loaded or unloaded, and RELOAD while the whole folder is read again; what is set
        when that has ended."""
        self._warming_up = self._closed = False
        self._loading: set[Path] = set()
        self._trial_threads = ThreadPoolExecutor(MOST_TRIALS, thread_name_prefix="trial")
        self._trials: list[Trial] = []
        """The trials that run on threads. Stopping one ends its thread."""
        self._refused: dict[Path, str] = {}
        """Why versions that are in the folder of artifacts are not served."""
        self._growth = Growth()
        self._runs_on = next((served.device for served in loaded.values()), None) or choose_device(settings.device)
        """The device that models are loaded for. `auto` may have fallen back from a GPU to the CPU at the start."""
        for served in loaded.values():
            self._loops.start(served)
            self._serve(served)
            self._refused |= served.refused
            metrics.reloads.labels("refused").inc(len(served.refused))

    def __getitem__(self, name: str) -> ServedModel:
        return self._served[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._served)

    def __len__(self) -> int:
        return len(self._served)

    async def warm_up(self) -> None:
        """Warm up every model, so that it is ready; nothing is loaded or unloaded meanwhile. Raises SessionError."""
        self._warming_up = True
        try:
            for served in self.values():
                await served.warm_up(self._device)
                _log_ready(served)
        finally:
            self._warming_up = False

    async def check(self) -> None:
        """Warm up again every model that failed several times in a row, until it runs. Meanwhile it is not ready."""
        for name, served in list(self.items()):  # a copy, since a reload may change the registry meanwhile
            if (
                served.state == "ready" and not served.failing
            ):  # a run that succeeds ends `failing`, but makes no model ready
                continue
            if self.get(name) is not served:
                continue
            try:
                with served.uses.used():  # if it is unloaded meanwhile, its sessions stay open until it is warmed up
                    await served.warm_up(self._device)
            except SessionError as error:
                served.state = "failed"
                log.error("model fails", model=served.manifest.name, reason=str(error))

    async def give_back_memory(self) -> None:
        """If the process has grown by much, give back what earlier runs and answers took and nothing uses any more.

        If the device is in use for longer than GIVE_BACK_SECONDS, or has no memory left for it, nothing is given back.
        """
        if not self._growth.is_large or self._device.wanted:
            return
        with contextlib.suppress(TimeoutError, SessionError, DeviceFull):
            async with asyncio.timeout(GIVE_BACK_SECONDS), self._device.turn() as run:
                sessions = (session for served in self.values() for session in served.sessions.values())
                if session := next((one for one in sessions if one.provider == PROVIDERS["cpu"]), None):
                    await run(session.shrink_arena)
                await run(trim_heap)
            self._growth.reset()
            return
        self._growth.pause()

    def show_queues(self) -> None:
        """Set the gauges of what the queues hold."""
        for served in self.values():
            for queue, budget in _queues(self._metrics, served):
                queue.show(budget.held, budget.room, served.manifest.name)

    async def reload(self) -> list[dict[str, str]]:
        """Read the folder of artifacts again; return the outcome for each model.

        A version other than the served one is loaded in a child process first, then loaded and warmed up beside the old
        one, and replaces it. A version that cannot be served changes nothing. A model that another request loads or
        unloads is looked at after that. Raises Conflict while another reload runs, and Unacceptable if the folder is
        empty.
        """
        with self._change(RELOAD):
            found, outcomes = await self._newest(), dict[str, dict[str, str]]()
            for name in sorted([*found, *sorted(self.keys() - found)], key=lambda name: name in self._changing):
                while name in self._changing:
                    await self._changing[name].wait()
                with self._change(name):
                    folder = (await self._newest()).get(name)  # there may be a newer one meanwhile
                    if name in outcomes or (folder is None and name not in self):  # with its partner
                        continue
                    own = await self._reload_one(folder) if folder else self._forget(*names_of(self[name]))
                outcomes |= {outcome["model"]: outcome for outcome in own}
                for outcome in own:
                    self._metrics.reloads.labels(outcome["outcome"]).inc()
                    log.info("reload", **outcome)
            return list(outcomes.values())

    async def load(self, name: str) -> dict[str, str]:
        """Load the newest version of one artifact, and of its partner, as `reload` does all; return the outcome.

        Raises Conflict while this model is loaded or unloaded already, and Unacceptable if there is no such artifact.
        """
        with self._change(name):
            newest = await self._newest()
            if name not in newest:
                raise Unacceptable("model: must be one of the folder of artifacts, given another")
            outcomes = await self._reload_one(newest[name])
            for outcome in outcomes:
                self._metrics.reloads.labels(outcome["outcome"]).inc()
                log.info("load", **outcome)
            return outcomes[0]

    async def unload(self, name: str) -> None:
        """Stop serving a model, and its partner; both answer their last requests.

        Raises Conflict as `load` does, and Unacceptable.
        """
        with self._change(name):
            if name not in self._served:
                raise Unacceptable(f"model: must be one of {listed(self._served) or 'none'}, given another")
            for outcome in self._forget(*names_of(self[name])):
                log.info("unload", model=outcome["model"], version=outcome["version"])

    async def index(self) -> list[dict[str, str]]:
        """Return every version of every model, with its `state` and, unless it is READY, the `reason`.

        A version that is served and gone from the folder of artifacts is listed too.
        """
        found: list[list[Path]] = []
        with contextlib.suppress(ArtifactError):
            found = await asyncio.to_thread(find_versions, self._settings.artifacts)
        folders = {folder for versions in found for folder in versions}
        folders |= {served.artifact.folder for served in self.values()}
        ordered = sorted(folders, key=lambda folder: (folder.parent.name, folder.name))
        return [_state(one, self.get(one.parent.name), self._refused, self._loading) for one in ordered]

    @contextlib.contextmanager
    def _change(self, name: str) -> Iterator[None]:
        """Hold the right to load or unload a model, or RELOAD. Raises Conflict while somebody else has it."""
        if self._warming_up or name in self._changing:
            subject = "model: one change" if name else "reload: one"
            raise Conflict(f"{subject} at a time, another is running or the service is warming up")
        self._changing[name] = asyncio.Event()
        try:
            yield
        finally:
            self._changing.pop(name).set()
            if not self._changing:  # a trial that runs may use a copy that no model has yet
                drop_shared_copies(served.manifest for served in self.values())

    async def _newest(self) -> dict[str, Path]:
        """Return the folder of the newest version of each artifact. Raises Unacceptable without any."""
        try:
            found = await asyncio.to_thread(find_versions, self._settings.artifacts)
        except ArtifactError as error:
            log.error("artifacts cannot be listed", reason=str(error))
            raise Unacceptable("artifacts: there must be at least one; the log has the reason") from error
        there = {folder for versions in found for folder in versions}
        self._refused = {folder: reason for folder, reason in self._refused.items() if folder in there}
        return {versions[-1].parent.name: versions[-1] for versions in found}

    async def close(self) -> None:
        """End all loops, and the trials of reloads."""
        self._closed = True
        for trial in self._trials.copy():
            trial.stop()
        self._trial_threads.shutdown(wait=False, cancel_futures=True)
        await self._loops.close()

    async def _reload_one(self, folder: Path) -> list[dict[str, str]]:
        """Load a version, and its partner, and serve both; return the outcome of each, its own first."""
        name, version = folder.parent.name, folder.name
        old = self.get(name)
        outcome = {"model": name, "version": version}
        if old and old.manifest.version == version:
            with contextlib.suppress(OSError):  # the manifest is just being replaced or removed
                if written_at(old.artifact) != old.created:
                    log.warning("overwritten version is not read; write a new version", **outcome)
            return [{**outcome, "outcome": "unchanged"}]
        self._loading.add(folder)
        self._refused.pop(folder, None)
        started: list[ServedModel] = []
        try:
            loop = asyncio.get_running_loop()
            served = await loop.run_in_executor(self._trial_threads, self._load, folder)
            try:
                for own in served.together:
                    self._loops.start(own)
                    started.append(own)
                    await own.warm_up(self._device)
            except BaseException:
                for own in started:
                    await self._loops.end(own)
                raise
        except LOAD_ERRORS as error:
            log_refused(folder, error, served=old.manifest.version if old else None)
            self._refused[folder] = public_reason(error)
            return [{**outcome, "outcome": "refused", "reason": self._refused[folder]}]
        finally:
            self._loading.discard(folder)
        # nothing is awaited from here on: whoever asks finds both new, or both old
        return [self._replace(own) for own in served.together]

    def _replace(self, served: ServedModel) -> dict[str, str]:
        """Serve a model in place of the one of its name, and let that and what it leaves alone end."""
        name, old = served.manifest.name, self.get(served.manifest.name)
        self._serve(served)
        _log_ready(served)
        if old:
            self._loops.retire(old)
            left = old.partner if old.partner and self.get(old.partner.manifest.name) is old.partner else None
            if left and (served.partner is None or left.manifest.name != served.partner.manifest.name):
                self._forget(left.manifest.name)
        return {"model": name, "version": served.manifest.version, "outcome": "replaced" if old else "loaded"}

    def _load(self, folder: Path) -> ServedModel:
        """Load a version, with its partner. Raises as `load_one` and `with_partner` do."""

        def tried(folder: Path) -> ServedModel:
            try:
                trial = Trial([folder], self._settings, "spawn")
            except OSError as error:
                raise ArtifactError(folder, f"cannot be tried: {error.strerror}") from error
            self._trials.append(trial)
            if self._closed:
                trial.stop()
            try:
                return load_one(folder, self._runs_on, self._settings, trial)
            finally:
                self._trials.remove(trial)
                trial.close()

        served = tried(folder)
        with_partner(served, find_versions(self._settings.artifacts), tried)
        return served

    def _serve(self, served: ServedModel) -> None:
        """Serve a model under its name."""
        manifest, metrics = served.manifest, self._metrics
        if old := self._served.get(manifest.name):
            forget(metrics.model_info, *_info(old))
        self._served[manifest.name] = served
        metrics.model_info.labels(*_info(served)).set(1)
        for queue, budget in _queues(self._metrics, served):
            queue.show(budget.held, budget.limit, manifest.name)

    def _forget(self, *names: str) -> list[dict[str, str]]:
        """Stop serving models under their names; they answer their last requests. Return the outcomes."""
        outcomes, metrics = [], self._metrics
        for served in [self._served.pop(name) for name in names if name in self._served]:
            forget(metrics.model_info, *_info(served))
            for queue, _ in _queues(self._metrics, served):
                queue.forget(served.manifest.name)
            self._loops.retire(served)
            manifest = served.manifest
            outcomes.append({"model": manifest.name, "version": manifest.version, "outcome": "removed"})
        return outcomes


def _queues(metrics: Metrics, served: ServedModel) -> tuple[tuple[Queue, Budget], ...]:
    """Return the gauges of a model's queues, each with what bounds it."""
    return (metrics.queue_tokens, served.prediction_budget), (metrics.queue_map_bytes, served.attention_budget)


def _state(
    folder: Path, served: ServedModel | None, refused: Mapping[Path, str], loading: Container[Path]
) -> dict[str, str]:
    """Return what an index says of a version, beside which another may be served under its name."""
    state, reason = "UNAVAILABLE", refused.get(folder, "not loaded")
    if served and served.manifest.version == folder.name:
        state, reason = INDEX_STATES[served.state]
    elif folder in loading:
        state, reason = "LOADING", "is being loaded"
    return {"name": folder.parent.name, "version": folder.name, "state": state, "reason": reason}


def names_of(served: ServedModel) -> list[str]:
    """Return the name of a model, and of its partner."""
    return [own.manifest.name for own in served.together]


def _log_ready(served: ServedModel) -> None:
    manifest = served.manifest
    log.info("model ready", model=manifest.name, version=manifest.version, provider=served.provider)


def _info(served: ServedModel) -> tuple[str, str, str, str]:
    manifest = served.manifest
    return manifest.name, manifest.version, served.provider, manifest.precision
