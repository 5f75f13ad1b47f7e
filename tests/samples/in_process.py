"""The service in a thread of this process: real ports and real connections, at a fifth of what a process costs."""

import asyncio
import contextlib
import socket
import threading
import time

import httpx
import structlog
from fastapi.testclient import TestClient

from service.app import create_admin, create_app
from service.process.server import OtherServer, uvicorn_config
from service.repository.loading.load import load
from service.settings import Settings
from service.store import open_store

READY_SECONDS = 120


@contextlib.contextmanager
def in_process(artifacts, **settings):
    """Serve until the block ends; gives a client, as `served` does where signals, exit and memory do not matter.

    `client.events` are the lines of the log so far, and `client.admin` is a client of the admin port if there is one.
    """
    # images are decoded as by the confined processes (test_decoder_threads), which would have to be started
    settings = Settings(artifacts=artifacts, drain_seconds=0, **{"decode": "threads", **settings})
    app = create_app(settings, load(settings), open_store(settings))
    applications = {"main": (app, "on")}
    if settings.admin_port is not None:
        applications["admin"] = create_admin(app, settings), "off"
    with contextlib.ExitStack() as stack:
        servers, clients = [], {}
        for name, (application, lifespan) in applications.items():
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            servers.append((OtherServer(uvicorn_config(application, settings, lifespan)), listening))
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            clients[name] = stack.enter_context(httpx.Client(base_url=url, timeout=60))
        client = clients["main"]
        client.admin, client.events = clients.get("admin"), stack.enter_context(structlog.testing.capture_logs())
        thread = threading.Thread(target=lambda: asyncio.run(serve(servers)))
        thread.start()
        try:
            wait_until_ready(client, thread)
            yield client
        finally:
            for server, _ in servers:
                server.should_exit = True
            thread.join()


@contextlib.contextmanager
def inside(artifacts, **settings):
    """Give a client of the application without a port, once it is ready, and its models to look into."""
    settings = Settings(artifacts=artifacts, **settings)
    models = load(settings)
    with TestClient(create_app(settings, models, open_store(settings))) as client:
        while client.get("/health/ready").status_code != 200:
            time.sleep(0.01)
        yield client, models


async def serve(servers):
    """Serve on each socket until told to stop, the first one first: the others share its state."""
    first, *others = (asyncio.create_task(server.serve(sockets=[listening])) for server, listening in servers)
    await asyncio.gather(first, *others)


def wait_until_ready(client, thread):
    """Wait until every session has run once."""
    last = time.monotonic() + READY_SECONDS
    while client.get("/health/ready").status_code != 200:
        assert thread.is_alive(), "the service has ended"
        assert time.monotonic() < last, f"the service is not ready after {READY_SECONDS} seconds"
        time.sleep(0.02)
