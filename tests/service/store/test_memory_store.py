import pytest

from tests.samples.stores import InMemory, of_size

pytestmark = pytest.mark.anyio


async def test_any_access_drops_what_is_past_its_age():
    place = InMemory()

    store = place.store(seconds=10)
    await store.put("a", None, of_size(200))
    await place.wait(10)
    assert await store.get("z", None) is None
    assert not store._entries
    await store.put("b", None, of_size(200))
    await store.close()
    assert await store.get("b", None) is None
