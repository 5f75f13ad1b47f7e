import pytest

from service.answering.earlier import find_earlier, id_of_input
from service.store.stored_request import StoredRequest

pytestmark = pytest.mark.anyio
BATCH = StoredRequest("dates", "1", ("a", "b", "c"), targets=((1,), (2, 3), ()))
ALONE = StoredRequest("minilm", "1", ("alone",))


class Kept:
    async def get(self, id, owner):  # noqa: A002 # the word of the API
        kept = {"batch": BATCH, "alone": ALONE, "run": BATCH, "run.0": ALONE}
        return kept.get(id) if owner == "me" else None


async def test_an_input_of_several_has_the_id_of_its_request_and_its_number():
    assert await find_earlier(Kept(), "batch", "me") == BATCH
    for number in range(3):
        found = await find_earlier(Kept(), id_of_input("batch", number, 3), "me")
        assert (found.inputs, found.targets) == (BATCH.inputs[number : number + 1], BATCH.targets[number : number + 1])
        assert (found.model, found.version) == ("dates", "1")
    assert id_of_input("alone", 0, 1) == "alone"
    assert (await find_earlier(Kept(), "alone.0", "me")) == ALONE


@pytest.mark.parametrize(
    "wrong", ["batch.3", "batch.00", "batch.-1", "batch.", "batch.0.0", "other.0", ".0", "alone.1"]
)
async def test_another_id_is_that_of_nothing(wrong):
    assert await find_earlier(Kept(), wrong, "me") is None
    assert await find_earlier(Kept(), "batch.0", "you") is None


async def test_a_whole_id_of_that_form_comes_first():
    assert await find_earlier(Kept(), "run.0", "me") == ALONE
    assert (await find_earlier(Kept(), "run.1", "me")).inputs == ("b",)
