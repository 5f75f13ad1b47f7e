"""What every store promises: it returns what was stored, within its bounds of count, bytes and age."""

from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.inputs.model_input import Pair
from service.store.stored_request import StoredRequest
from tests.samples.stores import InFile, InMemory, closing, of_size, there

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "kept",
    [
        StoredRequest("digits", "1", (b"\x89PNG\r\n\x00\xff", b"")),
        StoredRequest("dates", "2", ("ein Text\nmit ü", "\x00", "\ud800", ""), targets=((1, 2), (), (3,), (4,))),
        StoredRequest("nli", "1", (Pair("a premise", "a hypothesis"), Pair("", "")), truncate=True),
    ],
    ids=["images", "texts", "pairs"],
)
async def test_a_request_comes_back_as_it_was_stored(place, kept):
    async with closing(place.store()) as store:
        assert await store.get("A-1._", None) is None
        await store.put("A-1._", None, kept)
        assert await store.get("A-1._", None) == kept


async def test_the_oldest_requests_are_dropped_beyond_the_count(place):
    async with closing(place.store(count=3)) as store:
        for id_ in "dcba":
            await store.put(id_, None, of_size(200))
        assert await there(store, "abcd") == "abc"
        await store.put("e", None, of_size(200))
        assert await there(store, "abcde") == "abe"


async def test_reading_a_request_does_not_make_it_younger(place):
    async with closing(place.store(count=2)) as store:
        await store.put("a", None, of_size(200))
        await store.put("b", None, of_size(200))
        assert await store.get("a", None)
        await store.put("c", None, of_size(200))
        assert await there(store, "abc") == "bc"


async def test_the_oldest_requests_are_dropped_until_the_bytes_suffice_and_no_more(place):
    async with closing(place.store(size=1000)) as store:
        for id_ in "abcd":
            await store.put(id_, None, of_size(250))
        assert await there(store, "abcd") == "abcd"
        await store.put("e", None, of_size(251))
        assert await there(store, "abcde") == "cde"
        await store.put("f", None, of_size(1000))
        assert await there(store, "abcdef") == "f"


async def test_a_request_larger_than_all_bytes_is_not_stored_and_drops_no_other(place):
    async with closing(place.store(size=1000)) as store:
        await store.put("a", None, of_size(200))
        await store.put("b", None, of_size(1001))
        assert await there(store, "ab") == "a"


async def test_an_id_stored_again_stands_for_the_last_request_even_if_that_is_too_large(place):
    async with closing(place.store(size=1000)) as store:
        await store.put("a", None, of_size(200))
        await store.put("a", None, of_size(1001))
        assert await store.get("a", None) is None
        for id_ in "bcdef":
            await store.put(id_, None, of_size(200))
        assert await there(store, "bcdef") == "bcdef"


async def test_an_id_stored_again_counts_once_and_is_the_youngest(place):
    async with closing(place.store(count=2, size=1000)) as store:
        await store.put("a", None, of_size(300))
        await store.put("b", None, of_size(300))
        await store.put("a", None, of_size(700, b"y"))
        assert await store.get("a", None) == of_size(700, b"y")
        assert await there(store, "ab") == "ab"
        await store.put("c", None, of_size(300))
        assert await there(store, "abc") == "ac"


async def test_a_request_past_its_age_is_dropped_and_holds_no_bytes(place):
    async with closing(place.store(count=2, size=1000, seconds=2)) as store:
        await store.put("a", None, of_size(600))
        await place.wait(1.2)
        await store.put("b", None, of_size(300))
        assert await there(store, "ab") == "ab"
        await place.wait(1.2)
        assert await there(store, "ab") == "b"
        await store.put("c", None, of_size(700))
        assert await there(store, "abc") == "bc"


async def test_the_age_of_an_id_stored_again_counts_from_the_last_time(place):
    async with closing(place.store(seconds=2)) as store:
        await store.put("a", None, of_size(200))
        await place.wait(1.2)
        await store.put("a", None, of_size(200))
        await place.wait(1.2)
        assert await store.get("a", None)


@pytest.mark.parametrize("bounds", [{"count": 0}, {"size": 0}])
async def test_a_store_with_a_bound_of_zero_stores_nothing(place, bounds):
    async with closing(place.store(**bounds)) as store:
        await store.put("a", None, of_size(200))
        assert await store.get("a", None) is None


@pytest.mark.parametrize("id_", ["", "a b", "a" * 65, "ü", "a\n", "\ud800", "../times"])
async def test_an_invalid_id_is_refused_and_never_found(place, id_):
    async with closing(place.store()) as store:
        assert await store.get(id_, None) is None
        with pytest.raises(ValueError, match=r"^id: must match \S+, given another$"):
            await store.put(id_, None, of_size(200))


OPERATIONS = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(150, 1100), st.sampled_from([0, 0, 1, 4])), max_size=30
)


@pytest.mark.parametrize("kind", [InMemory, InFile])
@given(OPERATIONS, st.integers(0, 4))
async def test_a_store_holds_what_its_bounds_say_after_any_puts(kind, operations, count):
    """Against a model that knows the rules and nothing else."""
    place, model = kind(), OrderedDict()

    store = place.store(count=count, size=1000, seconds=10)
    for id_, size, seconds in operations:
        await place.wait(seconds)
        await store.put(id_, None, of_size(size))
        model.pop(id_, None)
        if size <= 1000:
            model[id_] = (place.now, size)
        young = [name for name, (since, _) in model.items() if since > place.now - 10]
        young = young[len(young) - count :] if count < len(young) else young
        while sum(model[name][1] for name in young) > 1000:
            young.pop(0)
        for name in set(model) - set(young):
            del model[name]
        assert await there(store, "abcdefgh") == "".join(sorted(model))
        held = store._size if kind is InMemory else store._file.execute("SELECT size FROM totals").fetchone()[0]
        assert held == sum(size for _, size in model.values())


@pytest.mark.parametrize("place", ["file", "redis"], indirect=True)
async def test_replicas_and_workers_see_what_the_others_store_and_share_the_bounds(place):
    async with closing(place.store(count=3), place.store(count=3)) as (one, other):
        for id_ in "ab":
            await one.put(id_, None, of_size(200))
        for id_ in "cd":
            await other.put(id_, None, of_size(300))
        assert await there(one, "abcd") == await there(other, "abcd") == "bcd"
        await other.put("b", None, of_size(250))
        assert await one.get("b", None) == of_size(250)


async def test_an_entry_belongs_to_its_owner_and_another_one_neither_reads_nor_replaces_it(place):
    async with closing(place.store()) as store:
        for size, owner in ((200, None), (300, "alice"), (400, "bob")):
            await store.put("a", owner, of_size(size))
        assert await store.get("a", None) == of_size(200)
        assert await store.get("a", "alice") == of_size(300)
        assert await store.get("a", "bob") == of_size(400)
        for id_, owner in (("a", "eve"), ("alice:a", None), ("b", "alice"), ("a", "alice:")):
            assert await store.get(id_, owner) is None


async def test_the_bounds_are_those_of_all_owners_together(place):
    async with closing(place.store(count=2, size=1000)) as store:
        for id_, owner in (("a", None), ("b", "alice"), ("c", "bob")):
            await store.put(id_, owner, of_size(400))
        assert [await store.get(*one) for one in (("a", None), ("b", "alice"), ("c", "bob"))] == [
            None, of_size(400), of_size(400),
        ]  # fmt: skip
