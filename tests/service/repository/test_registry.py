import asyncio

import pytest

from service.errors import Conflict
from service.repository.registry import Registry, load
from service.runtime.device import Device
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
