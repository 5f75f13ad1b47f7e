"""Stores of answered requests: for a while, attention can be requested by the id of an earlier request."""

from pathlib import Path

from service.settings import Settings
from service.store.memory_store import MemoryStore
from service.store.redis_store import RedisStore
from service.store.shared_file_store import SharedFileStore
from service.store.stored_request import Store


def open_store(settings: Settings, shared: Path | None = None) -> Store:
    """Return a store on the settings' Redis server, in a file in the folder that workers share, or in memory.

    Raises as RedisStore and SharedFileStore do.
    """
    bounds = settings.keep_count, settings.keep_bytes, settings.keep_seconds
    if (url := settings.redis_url) is not None:
        return RedisStore(url.get_secret_value(), *bounds)
    if shared and settings.keep_count:
        return SharedFileStore(shared / "requests.sqlite", *bounds)
    return MemoryStore(*bounds)
