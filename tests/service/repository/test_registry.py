import asyncio
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from contract.artifact import NoRoomError
from service.errors import Conflict
from service.repository import registry
from service.repository.registry import Registry, load
from service.runtime.device import Device
from service.settings import Settings
from service.telemetry.metrics import Metrics
from tests.samples.changed_artifacts import newer

pytestmark = pytest.mark.anyio


async def test_a_second_reload_is_refused_while_one_runs(artifacts):
    settings = Settings(artifacts=artifacts)

    device = Device()
    models = Registry(load(settings), settings, device, Metrics())
    first = asyncio.create_task(models.reload())
    await asyncio.sleep(0)
    with pytest.raises(Conflict, match="reload: one at a time"):
        await models.reload()
    await first
    await models.close()
    device.close()


async def test_a_version_without_room_for_its_copy_is_refused_with_the_bytes_and_the_old_one_stays(copied, monkeypatch):
    settings, device = Settings(artifacts=copied), Device()
    models = Registry(load(settings), settings, device, Metrics())
    newer(copied, "digits", 2)
    monkeypatch.setattr(registry, "Trial", lambda *given: SimpleNamespace(outcome=full, close=lambda: None))
    _, refused = await models.reload()
    assert refused["outcome"] == "refused"
    assert refused["reason"].startswith("TMPDIR: must have room for 10 bytes, ")
    assert models["digits"].manifest.version == "1"
    await models.close()
    device.close()


def full(folder, *, exact):
    raise NoRoomError(Path(tempfile.gettempdir()), 10)
