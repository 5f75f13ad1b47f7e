"""The service in a thread of this process: a real port and real connections, at a fifth of what a process costs."""

import contextlib
import socket
import threading
import time

import httpx

from service.app import create_app
from service.process.server import OtherServer, uvicorn_config
from service.repository.loading import load
from service.settings import Settings
from service.store import open_store

READY_SECONDS = 120


@contextlib.contextmanager
def in_process(artifacts, *, models=None, **settings):
    """Serve until the block ends; gives a client, as `served` does where signals, logs and memory do not matter.

    `models` are those of `load`, for tests that look at them too.
    """
    # images are decoded as by the confined processes (test_decoder_threads), which would have to be started
    settings = Settings(artifacts=artifacts, drain_seconds=0, **{"decode": "threads", **settings})
    app = create_app(settings, load(settings) if models is None else models, open_store(settings))
    server = OtherServer(uvicorn_config(app, settings, "on"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            with httpx.Client(base_url=url, timeout=30) as client:
                wait_until_ready(client, thread)
                client.app = app
                yield client
        finally:
            server.should_exit = True
            thread.join()


def wait_until_ready(client, thread):
    """Wait until every session has run once."""
    last = time.monotonic() + READY_SECONDS
    while client.get("/health/ready").status_code != 200:
        assert thread.is_alive(), "the service has ended"
        assert time.monotonic() < last, f"the service is not ready after {READY_SECONDS} seconds"
        time.sleep(0.02)
