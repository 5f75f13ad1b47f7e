import asyncio

import pytest

from service.errors import Conflict
from service.repository import registry
from service.repository.registry import Registry, load
from service.runtime.device import Device
from service.runtime.memory import Growth
from service.runtime.session import Session
from service.settings import Settings
from service.telemetry.metrics import Metrics

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


async def test_memory_is_given_back_once_it_has_grown_while_nobody_waits(artifacts, monkeypatch):
    settings, device = Settings(artifacts=artifacts), Device()
    models = Registry(load(settings), settings, device, Metrics())
    done = []
    monkeypatch.setattr(Session, "shrink_arena", lambda session: done.append("shrunk"))
    monkeypatch.setattr(registry, "trim_heap", lambda: done.append("trimmed"))
    await models.give_back_memory()
    assert not done
    monkeypatch.setattr(Growth, "is_large", True)
    device.wanted = 1
    await models.give_back_memory()
    assert not done
    device.wanted = 0
    await models.give_back_memory()
    assert done == ["shrunk", "trimmed"]
    await models.close()
    device.close()
