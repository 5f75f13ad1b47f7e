import asyncio
import gc
import shutil
import tempfile
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from contract.artifact import ArtifactError, NoRoomError
from service.batching.fair_queue import NOBODY
from service.errors import Conflict
from service.explanations.query import resolve
from service.explanations.selection import Target
from service.inputs.model_input import Picture
from service.options.attention import AttentionOptions
from service.options.base import parse
from service.repository import registry
from service.repository.explaining.gradients import explain_scores
from service.repository.loading import load as loading
from service.repository.loading.load import load
from service.repository.loading.trial_load import Trial
from service.repository.models.batches import PART_STATE_BYTES
from service.repository.models.footprint import GRADIENT_DIVISOR, STATE_BYTES
from service.repository.registry import Registry
from service.runtime import memory
from service.runtime.device import Device
from service.runtime.memory import Growth
from service.runtime.providers import PROVIDERS
from service.runtime.session import Session
from service.settings import Settings
from service.telemetry.metrics import Metrics
from tests.samples.changed_artifacts import newer

pytestmark = pytest.mark.anyio


@pytest.fixture
async def opened(monkeypatch):
    """What makes a registry of a folder and its device, which are closed before what is patched is as it was."""
    made = []

    def make(artifacts, **settings):
        settings, device = Settings(artifacts=artifacts, **settings), Device()
        made.append((Registry(load(settings), settings, device, Metrics()), device))
        return made[-1]

    yield make
    for models, device in made:
        await models.close()
        device.close()


async def test_a_second_reload_is_refused_while_one_runs(light, opened):
    models, _ = opened(light)
    first = asyncio.create_task(models.reload())
    await asyncio.sleep(0)
    with pytest.raises(Conflict, match="reload: one at a time"):
        await models.reload()
    await first


async def test_nothing_is_unloaded_while_the_models_warm_up(light, monkeypatch, opened):
    """Unloading a model that was still to be warmed up once ended the process."""
    models, _ = opened(light)
    go_on = asyncio.Event()
    monkeypatch.setattr(models["dates"], "warm_up", lambda device: go_on.wait())
    warm = asyncio.create_task(models.warm_up())
    await asyncio.sleep(0)
    for change in (models.unload("digits"), models.load("digits"), models.reload()):
        with pytest.raises(Conflict, match="at a time, another is running or the service is warming up"):
            await change
    go_on.set()
    await warm
    assert models["digits"].ready
    await models.unload("digits")
    assert list(models) == ["dates"]


async def test_the_index_lists_what_is_served_though_its_folder_is_gone(light_copy, opened):
    models, _ = opened(light_copy)
    await models.warm_up()
    newer(light_copy, "digits", 2)
    shutil.rmtree(light_copy / "digits/1")
    shutil.rmtree(light_copy / "dates")
    assert [(one["name"], one["version"], one["state"], one["reason"]) for one in await models.index()] == [
        ("dates", "1", "READY", ""),
        ("digits", "1", "READY", ""),
        ("digits", "2", "UNAVAILABLE", "not loaded"),
    ]


async def test_a_reload_survives_a_manifest_that_is_just_being_replaced(light_copy, opened):
    models, _ = opened(light_copy)
    (light_copy / "digits/1/manifest.json").unlink()
    assert [one["outcome"] for one in await models.reload()] == ["unchanged", "unchanged"]


@pytest.mark.filterwarnings("ignore:Specified provider")
async def test_after_a_start_on_the_cpu_for_want_of_a_gpu_models_are_loaded_for_the_cpu(
    light_copy, monkeypatch, opened
):
    """`auto` finds the driver of a GPU that onnxruntime cannot use."""
    for module in (loading, registry):
        monkeypatch.setattr(module, "choose_device", lambda wanted: "cuda" if wanted == "auto" else wanted)
    models, _ = opened(light_copy, device="auto")
    newer(light_copy, "digits", 2)
    assert [one["outcome"] for one in await models.reload()] == ["unchanged", "replaced"]
    assert models["digits"].provider == "CPUExecutionProvider"


async def test_a_version_without_room_for_its_copy_is_refused_with_the_bytes_and_the_old_one_stays(
    light_copy, monkeypatch, opened
):
    models, _ = opened(light_copy)
    newer(light_copy, "digits", 2)
    monkeypatch.setattr(registry, "Trial", lambda *given: SimpleNamespace(outcome=full, close=lambda: None))
    _, refused = await models.reload()
    assert refused["outcome"] == "refused"
    assert refused["reason"].startswith("TMPDIR: must have room for 10 bytes, ")
    assert models["digits"].manifest.version == "1"


async def test_memory_is_given_back_once_it_has_grown_while_nobody_waits(light, monkeypatch, opened):
    models, device = opened(light)
    done = []
    monkeypatch.setattr(Session, "shrink_arena", lambda session: done.append("shrunk"))
    monkeypatch.setattr(registry, "trim_heap", lambda: done.append("trimmed"))
    await models.give_back_memory()
    assert not done
    monkeypatch.setattr(Growth, "is_large", True)
    async with device.turn():
        waiting = asyncio.create_task(device.turn().__aenter__())
        await asyncio.sleep(0.01)
        await models.give_back_memory()
        assert not done
        waiting.cancel()
    await asyncio.sleep(0.01)
    await models.give_back_memory()
    assert done == ["shrunk", "trimmed"]


async def test_memory_that_could_not_be_given_back_is_tried_again(light, monkeypatch, opened):
    models, device = opened(light)
    held, done = memory.resident_bytes() + memory.GROWTH_BYTES * 2, []
    monkeypatch.setattr(memory, "resident_bytes", lambda: held)
    monkeypatch.setattr(memory, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(registry, "GIVE_BACK_SECONDS", 0.05)
    monkeypatch.setattr(registry, "trim_heap", lambda: done.append("trimmed"))
    async with device.turn():
        await models.give_back_memory()
    assert not done
    await models.give_back_memory()
    assert done == ["trimmed"]
    await models.give_back_memory()
    assert done == ["trimmed"], "what is left is in use"


def full(folder, *, exact):
    raise NoRoomError(Path(tempfile.gettempdir()), 10)


async def test_memory_is_given_back_by_a_session_on_the_cpu(light, monkeypatch, opened):
    """OpenVINO runs predictions, and attention is on the CPU."""
    models, _ = opened(light)
    shrunk = []
    monkeypatch.setattr(Session, "shrink_arena", lambda session: shrunk.append(session.name))
    for role, session in models["digits"].sessions.items():
        monkeypatch.setattr(session, "provider", PROVIDERS["openvino" if role == "predict" else "cpu"])
    monkeypatch.setattr(Growth, "is_large", True)
    await models.unload("dates")
    await models.give_back_memory()
    assert shrunk == ["digits/attention"]


@pytest.mark.parametrize("bound", [{}, {"batch_map_bytes": 1}])
async def test_a_batch_of_relevance_is_smaller_than_one_of_other_maps(complete, bound, opened):
    """It holds the activations of all layers, many times the bytes of the maps. Of the least bound it is one."""
    models, _ = opened(complete, **bound)
    served = models["digits"]
    item = served.inputs.image_input(Picture(np.zeros((28, 28, 1), np.uint8), (0, 0, 28, 28), 28, 28))
    query = resolve(parse(AttentionOptions, {"method": "relevance"}, strings=False), served.manifest)
    most = max(Settings(**bound).batch_map_bytes // GRADIENT_DIVISOR // served.footprint.maps(item.lengths), 1)
    sizes, run = [], served.sessions["relevance"].run

    def noted(feed):
        sizes.append(len(feed["explained"]))
        return run(feed)

    served.sessions["relevance"].run = noted
    async with asyncio.timeout(60):
        await explain_scores(served, item, query, [Target(0, (0,))] * 2 * most, NOBODY)
    assert max(sizes) == most


async def test_short_texts_count_by_their_states_in_the_queue_of_gradients(complete, opened):
    """They hold few maps, but the states of all layers: thousands of them would fit by their maps."""
    models, _ = opened(complete)
    served = models["dates"]
    one, long = {"source": 4, "target": 3, "target_input": 3}, {"source": 400, "target": 300, "target_input": 300}
    states = (3 * 4 + 3 * 3 + 3 * 3) * served.manifest.width * STATE_BYTES
    assert served.footprint.gradient(one) == states > served.footprint.maps(one)
    assert served.footprint.gradient(long) == served.footprint.maps(long)


async def test_a_batch_of_predictions_on_a_cpu_is_what_its_caches_serve_well(light, opened):
    models, _ = opened(light)
    served = models["digits"]
    numbers = PART_STATE_BYTES * served.sessions["predict"].cores // 4
    assert served.prediction_lane._at_once == numbers // served.manifest.width


async def test_a_model_without_memory_to_warm_up_is_not_ready_and_loses_no_reload(light_copy, monkeypatch, opened):
    models, _ = opened(light_copy)
    await models.warm_up()

    def without_memory(session, lengths=None):
        raise MemoryError

    monkeypatch.setattr(Session, "warm_up", without_memory)
    models["dates"].lanes[0].failures = 3
    await models.check()
    assert (models["dates"].ready, models["digits"].ready) == (False, True)
    newer(light_copy, "digits", 2)
    loops = len(models._loops)
    outcomes = {one["model"]: one["outcome"] for one in await models.reload()}
    assert outcomes == {"dates": "unchanged", "digits": "refused"}
    assert len(models._loops) == loops


async def test_a_model_that_failed_is_warmed_up_until_it_runs_though_a_run_succeeds_meanwhile(
    light_copy, monkeypatch, opened
):
    models, _ = opened(light_copy)
    await models.warm_up()
    served, warm_up = models["digits"], Session.warm_up

    def without_memory(session, lengths=None):
        raise MemoryError

    served.lanes[0].failures = 3
    monkeypatch.setattr(Session, "warm_up", without_memory)
    await models.check()
    served.lanes[0].failures = 0  # as a request that was admitted before ends well
    assert (served.ready, served.failing) == (False, False)
    await models.check()
    assert not served.ready
    index = {one["name"]: (one["state"], one["reason"]) for one in await models.index()}
    assert (served.state, index["digits"]) == ("failed", ("UNAVAILABLE", "its runs fail"))
    assert index["dates"] == ("READY", "")
    monkeypatch.setattr(Session, "warm_up", warm_up)
    await models.check()
    assert served.ready


async def test_a_failed_model_that_is_unloaded_while_it_is_warmed_up_keeps_its_sessions_until_then(light_copy, opened):
    models, _ = opened(light_copy)
    await models.warm_up()
    digits, dates = models["digits"], models["dates"]
    digits.state = dates.state = "failed"
    check = asyncio.create_task(models.check())
    await asyncio.sleep(0)
    assert not dates.uses.idle.is_set()
    await models.unload("dates")
    await models.unload("digits")
    await check
    assert (dates.state, digits.state) == ("ready", "failed"), "one was being warmed up, the other was gone by then"


async def test_the_index_lists_each_version_once_whatever_the_folder_is_called(light_copy, monkeypatch, opened):
    monkeypatch.chdir(light_copy.parent)
    models, _ = opened(Path(light_copy.name))
    assert [one["name"] for one in await models.index()] == ["dates", "digits"]


class Endless(Trial):
    """A trial of `digits` that goes on until it is stopped, as that of a graph without end; of others, a usual one."""

    def outcome(self, folder, *, exact):
        if folder.parent.name != "digits":
            return super().outcome(folder, exact=exact)
        self.begun.set()
        if not self.stopped.wait(20):
            raise TimeoutError
        raise ArtifactError(folder, "its trial was ended")

    def stop(self):
        self.stopped.set()


async def begin_endless(models, artifacts, monkeypatch, load):
    newer(artifacts, "digits", 2)
    Endless.begun, Endless.stopped = threading.Event(), threading.Event()
    monkeypatch.setattr(registry, "Trial", Endless)
    loading = asyncio.create_task(load)
    assert await asyncio.to_thread(Endless.begun.wait, 20)
    return loading


async def test_the_end_ends_the_trial_of_a_reload(light_copy, monkeypatch, opened):
    """Copying may take minutes, and the process waits for the thread."""
    models, _ = opened(light_copy)
    reload = await begin_endless(models, light_copy, monkeypatch, models.reload())
    await models.close()
    assert "refused" in [one["outcome"] for one in await reload]
    assert not models._trials


@pytest.mark.parametrize("first", ["load", "reload"])
async def test_other_models_are_loaded_while_one_is_tried_without_end(light_copy, monkeypatch, opened, first):
    models, _ = opened(light_copy)
    loading = await begin_endless(
        models, light_copy, monkeypatch, models.load("digits") if first == "load" else models.reload()
    )
    for change in (models.load("digits"), models.unload("digits")):
        with pytest.raises(Conflict, match="model: one change at a time"):
            await change
    newer(light_copy, "dates", 2)
    assert (await models.load("dates"))["outcome"] == "replaced"
    await models.unload("dates")
    Endless.stopped.set()
    outcome = await loading
    assert [one["outcome"] for one in ([outcome] if first == "load" else outcome)][-1] == "refused"
    assert models["digits"].manifest.version == "1"
    assert "dates" not in models


async def test_a_reload_looks_last_at_what_another_request_loads_and_misses_nothing(light_copy, monkeypatch, opened):
    models, _ = opened(light_copy)
    loading = await begin_endless(models, light_copy, monkeypatch, models.load("digits"))
    newer(light_copy, "dates", 2)
    reload = asyncio.create_task(models.reload())
    async with asyncio.timeout(20):
        while models["dates"].manifest.version != "2":  # noqa: ASYNC110 # nothing tells
            await asyncio.sleep(0.01)
    newer(light_copy, "digits", 3)
    Endless.stopped.set()
    assert (await loading)["version"] == "2"
    assert [(one["model"], one["version"], one["outcome"]) for one in await reload] == [
        ("dates", "2", "replaced"),
        ("digits", "3", "refused"),
    ]


async def test_a_model_that_is_unloaded_is_freed_without_a_search_for_cycles(light_copy, opened):
    """One through all that the process holds stopped the event loop for a tenth of a second."""
    models, _ = opened(light_copy)
    await models.warm_up()
    left = [weakref.ref(held) for name in models for held in (models[name], *models[name].sessions.values())]
    gc.collect()
    gc.disable()
    try:
        for name in list(models):
            await models.unload(name)
        async with asyncio.timeout(20):
            while models._loops._retiring:
                await asyncio.gather(*models._loops._retiring)
        assert [held() for held in left] == [None] * len(left)
    finally:
        gc.enable()
