"""The device runs one function at a time, whatever happens to its thread or its callers."""

import asyncio
import contextlib
import ctypes
import threading

import pytest

from service.runtime.device import Device

pytestmark = pytest.mark.anyio


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_an_exception_thrown_into_the_devices_thread_loses_no_caller():
    """Wherever it is thrown: the watch looks once a second."""

    device = Device()

    async def watch():
        while True:
            await asyncio.sleep(0.05)
            device.revive()

    watching = asyncio.create_task(watch())
    for _ in range(50):
        thread = ctypes.c_ulong(device._thread.ident)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(SystemExit))
        async with device.turn() as run:
            with contextlib.suppress(RuntimeError):
                assert await asyncio.wait_for(run(lambda: 7), 5) == 7
    watching.cancel()
    device.close()


async def test_the_device_stays_locked_until_a_function_whose_caller_left_has_returned():
    running = threading.Event()
    go_on = threading.Event()

    def slow():
        running.set()
        go_on.wait(5)

    device = Device()

    async def leave():
        async with device.turn() as run:
            await run(slow)

    leaving = asyncio.create_task(leave())
    await asyncio.to_thread(running.wait, 5)
    leaving.cancel()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(device.turn().__aenter__(), 0.1)
    assert device.busy_seconds() > 0.1
    go_on.set()
    async with device.turn() as run:
        assert await run(lambda: 7) == 7
    device.close()
