"""The decode loop in this process, over the real graphs: what joins and leaves must not disturb the others."""

import asyncio
import contextlib
import threading
import time
from unittest.mock import Mock

import numpy as np
import pytest
import structlog
import torch

from model.catalogue import bundled
from model.vocabularies import START, encode
from service.arrays import log_softmax
from service.batching.admission import Backlog
from service.batching.fair_queue import Caller
from service.concurrency import while_wanted
from service.errors import Broken, DeviceFull
from service.generation.decode_loop import DecodeLoop, Job
from service.generation.kv_cache import KVCache
from service.options.generation import GenerateOptions
from service.repository.loading.load import load
from service.repository.models.generator import Generator
from service.runtime.device import Device
from service.settings import Settings
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import SILENT

pytestmark = pytest.mark.anyio

TEXTS = ["the twenty-third of March 2021", "3/23/21", "on Wednesday, the 4th of July 1984", "5.6.07", "MAY 1 2000", "x"]


@pytest.fixture(scope="module")
def dates(light):
    return load(Settings(artifacts=light))["dates"]


@contextlib.asynccontextmanager
async def decode_loop(dates, rows=64, **settings):
    """Have the decode loop at work until the block ends, which must be within a minute. Yields its device."""
    device = Device(2)
    dates.settings = Settings(artifacts=dates.settings.artifacts, batch_rows=rows, **settings)
    Generator.start(dates, device, Backlog(), Metrics(), SILENT)
    loops = [asyncio.create_task(work()) for work in dates.loops()]
    try:
        async with asyncio.timeout(60):
            yield device
    finally:
        for loop in loops:
            loop.cancel()
        device.close()


async def one(dates, text, **options):
    return await dates.generate(dates.inputs.text_input(text), GenerateOptions(**options))


def note_steps(monkeypatch, note):
    """Call a function with the cache, the tokens, the positions and the most wanted before each step."""
    step = KVCache.step

    def noting(cache, tokens, positions, most, **options):
        note(cache, tokens, positions, most)
        return step(cache, tokens, positions, most, **options)

    monkeypatch.setattr(KVCache, "step", noting)


def requests():
    """Greedy, beams and samples of several lengths and limits."""
    return [
        (text, options)
        for text in TEXTS
        for options in ({}, {"num_beams": 3}, {"max_new_tokens": 5}, {"temperature": 2.0, "seed": 1})
    ]


@pytest.fixture(scope="module")
async def alone(dates):
    """What each of the requests finds when nothing runs beside it."""
    async with decode_loop(dates):
        return [await one(dates, text, **options) for text, options in requests()]


@pytest.mark.parametrize("rows", [64, 4])
async def test_sequences_that_run_together_find_what_each_finds_alone(dates, alone, rows):
    async with decode_loop(dates, rows):
        together = await asyncio.gather(*(one(dates, text, **options) for text, options in requests()))
    for mine, theirs in zip(alone, together, strict=True):
        assert mine.tokens == theirs.tokens
        assert mine.logs == pytest.approx(theirs.logs, abs=1e-4)


async def test_sequences_that_join_while_others_run_find_what_each_finds_alone(dates, alone):
    tasks = []
    async with decode_loop(dates):
        for text, options in requests():
            tasks.append(asyncio.create_task(one(dates, text, **options)))
            await asyncio.sleep(0.002)
        joined = await asyncio.gather(*tasks)
    for mine, theirs in zip(alone, joined, strict=True):
        assert mine.tokens == theirs.tokens


def row_bytes(dates, capacity):
    cache = KVCache(dates.sessions["decode"], dates.generation)
    return cache.row_bytes(capacity, max(len(dates.inputs.tokenizer.encode(text)) for text in TEXTS))


async def test_sequences_begin_again_where_caches_have_no_room_to_grow_and_find_what_each_finds_alone(
    dates, alone, monkeypatch
):
    """The rows count with those slots that they have now, and the job of most rows is not counted."""
    monkeypatch.setattr("service.generation.kv_cache.SLOTS", 2)
    restarts, held, restart = [], [], Job.restart
    most = 6 * row_bytes(dates, 8)

    def noting(cache, tokens, positions, _):
        (loop,) = dates.lanes[-1:]
        widths = [job.width for job in loop._running]
        capacity = cache.next_capacity(max(positions) + 1, cache.most)
        row = cache.row_bytes(capacity, max(job.size for job in loop._running))
        held.append((len(widths), (sum(widths) - max(widths)) * row))

    monkeypatch.setattr(Job, "restart", lambda job, **how: (restarts.append(how), restart(job, **how)))
    note_steps(monkeypatch, noting)
    async with decode_loop(dates, batch_cache_bytes=most):
        together = await asyncio.gather(*(one(dates, text, **options) for text, options in requests()))
    assert [mine.tokens for mine in together] == [theirs.tokens for theirs in alone]
    assert restarts
    assert {how["alone"] for how in restarts} == {False}
    assert max(size for _, size in held) <= most
    assert max(count for count, _ in held) >= 3


async def test_a_sequence_that_may_become_long_keeps_no_other_away(dates, monkeypatch):
    together = []
    note_steps(monkeypatch, lambda cache, tokens, *_: together.append(len(tokens)))
    monkeypatch.setattr("service.generation.kv_cache.SLOTS", 2)
    assert dates.generation.max_new_tokens > 8
    async with decode_loop(dates, batch_cache_bytes=row_bytes(dates, 4)):
        await asyncio.gather(*(one(dates, text) for text in TEXTS[:2]))
    assert max(together) == 2


async def test_a_stream_joins_only_where_it_has_room_to_its_end_since_it_cannot_begin_again(dates, monkeypatch):
    together = []

    async def stream(text):
        return await dates.generate(dates.inputs.text_input(text), GenerateOptions(), lambda grown: None)

    note_steps(monkeypatch, lambda cache, tokens, *_: together.append(len(tokens)))
    monkeypatch.setattr("service.generation.kv_cache.SLOTS", 2)
    for slots, at_once in ((4, 1), (dates.generation.max_new_tokens, 2)):
        together.clear()
        async with decode_loop(dates, batch_cache_bytes=row_bytes(dates, slots)):
            await asyncio.gather(*(stream(text) for text in TEXTS[:2]))
        assert max(together) == at_once


async def test_a_client_leaves_rows_to_others(dates, monkeypatch):
    """Of eight rows one client has seven, whatever it asks for, so that another one need not wait for any to end."""
    together, ended, begun, here = [], [], asyncio.Event(), asyncio.get_running_loop()

    def noting(cache, tokens, *_):
        together.append(len(tokens))
        here.call_soon_threadsafe(begun.set)

    async def ask(client, number):
        text = dates.inputs.text_input(TEXTS[number % len(TEXTS)])
        await dates.generate(text, GenerateOptions(), caller=Caller(client, number))
        ended.append(client)

    note_steps(monkeypatch, noting)
    async with decode_loop(dates, rows=8):
        flood = [asyncio.create_task(ask("flood", number)) for number in range(20)]
        await begun.wait()
        await ask("other", 0)
        assert ended.index("other") <= 14, "of those that were begun before it, and of a few that end with it"
        await asyncio.gather(*flood)
    assert max(together) == 8
    assert together[0] == 7


async def test_few_sources_join_at_a_time_while_rows_run(dates, alone, monkeypatch):
    sizes, join, joined, here = [], DecodeLoop._join, asyncio.Event(), asyncio.get_running_loop()

    def noting(loop, jobs):
        sizes.append((len(loop._running), len(jobs), max(job.size for job in jobs) * len(jobs)))
        here.call_soon_threadsafe(joined.set)
        return join(loop, jobs)

    def slow(loop, step=DecodeLoop._step):
        time.sleep(0.02)  # so that the first still runs when the others come
        return step(loop)

    monkeypatch.setattr(DecodeLoop, "_join", noting)
    monkeypatch.setattr(DecodeLoop, "_step", slow)
    monkeypatch.setattr("service.generation.decode_loop.JOINING_TOKENS", 40)
    async with decode_loop(dates):
        first = asyncio.create_task(one(dates, TEXTS[0]))
        await joined.wait()
        rest = await asyncio.gather(*(one(dates, text) for text in TEXTS[1:]))
    assert [mine.tokens for mine in (await first, *rest)] == [theirs.tokens for theirs in alone[::4]]
    assert all(count == 1 or size <= 40 for running, count, size in sizes if running)
    assert len(sizes) > 2


async def test_steps_are_taken_for_as_long_as_the_loop_waited_for_others(dates, monkeypatch):
    """Another model's run takes 50 ms: the loop would wait that long for each of its steps."""
    counts, steps, step = [], DecodeLoop._steps, DecodeLoop._step

    def noting(loop, *given):
        counts.append(0)
        return steps(loop, *given)

    def counting(loop):
        counts[-1] += 1
        time.sleep(0.01)
        return step(loop)

    monkeypatch.setattr(DecodeLoop, "_steps", noting)
    monkeypatch.setattr(DecodeLoop, "_step", counting)
    turns = []

    async def others(device):
        while True:
            async with device.turn(device.cores) as run:
                turns.append(len(counts))
                await run(time.sleep, 0.05)

    async with decode_loop(dates) as device:
        busy = asyncio.create_task(others(device))
        hypothesis = await one(dates, TEXTS[0])
        streamed = []
        await dates.generate(dates.inputs.text_input(TEXTS[0]), GenerateOptions(), streamed.append)
        busy.cancel()
    assert max(counts) > 1, "several steps in one run"
    assert len(streamed) == len(hypothesis.tokens)
    between = np.diff(turns)
    assert between.max() > 1, "a stream reports after each step, and takes several in a turn"


def definition(text, tokens):
    """Log-probabilities (tokens, vocabulary) of the model's definition in float64, given the tokens before each."""
    model, source = bundled("dates").double(), torch.tensor([encode(text)])
    with torch.no_grad():
        logits, _ = model(source, source >= 0, torch.tensor([[START, *tokens[:-1]]]))
    return torch.log_softmax(logits[0], -1).numpy()


async def test_alternatives_are_the_likeliest_of_the_definition_whatever_runs_beside(dates, alone, monkeypatch):
    """Each request of the batch asks for another number of them, most for none."""
    counts = [0, 3, 20, 1, 0, 5, 2, 4] * 3
    wanted = []
    note_steps(monkeypatch, lambda cache, tokens, positions, most: wanted.append(most))
    async with decode_loop(dates):
        jobs = zip(requests(), counts, strict=True)
        found = await asyncio.gather(
            *(one(dates, text, alternatives=count, **options) for (text, options), count in jobs)
        )
        wanted.clear()
        await one(dates, TEXTS[0])
    assert set(wanted) == {1}, "no more tokens than needed, where none asks for alternatives"
    for (text, _), count, mine, theirs in zip(requests(), counts, found, alone, strict=True):
        assert mine.tokens == theirs.tokens
        assert len(mine.alternatives) == (len(mine.tokens) if count else 0)
        if not count:
            continue
        logs = definition(text, mine.tokens)
        given = np.array(mine.alternatives)  # (tokens, count, 2)
        best = -np.sort(-logs, axis=-1)[:, :count]
        assert given[..., 1] == pytest.approx(best, abs=1e-3)
        assert np.take_along_axis(logs, given[..., 0].astype(int), -1) == pytest.approx(best, abs=1e-3)
        assert all(len(set(row)) == count for row in given[..., 0].tolist())


async def test_alternatives_hold_no_token_that_is_always_suppressed(dates, monkeypatch):
    step = KVCache.step

    def without_most(cache, tokens, positions, wanted, **options):
        likeliest, candidates, logits = step(cache, tokens, positions, wanted, **options)
        likeliest[:, 2:] = -np.inf  # as the graph marks them, behind all others
        return likeliest, candidates, logits

    monkeypatch.setattr(KVCache, "step", without_most)
    async with decode_loop(dates):
        best = await one(dates, TEXTS[0], alternatives=5)
    assert {len(own) for own in best.alternatives} == {2}


async def test_cancelled_sequences_leave_and_the_others_go_on(dates, alone, monkeypatch):
    fed, all_take_part = [], threading.Event()

    def counting(cache, tokens, *_):
        fed.append(len(tokens))
        if len(tokens) == 36:  # every fourth request has three beams
            all_take_part.set()
        time.sleep(0.005)  # long enough that they are cancelled in the midst

    note_steps(monkeypatch, counting)
    async with decode_loop(dates):
        tasks = [asyncio.create_task(one(dates, text, **options)) for text, options in requests()]
        assert await asyncio.to_thread(all_take_part.wait, 30)
        for task in tasks[::2]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for index in range(1, len(results), 2):
        assert results[index].tokens == alone[index].tokens
    assert min(fed[fed.index(36) : fed.index(36) + 6]) <= 24  # soon only the rows that somebody waits for


async def test_every_step_is_reported_with_one_more_token(dates):
    grown = []
    async with decode_loop(dates):
        best = await dates.generate(
            dates.inputs.text_input(TEXTS[0]), GenerateOptions(), lambda it: grown.append(it.tokens)
        )
    assert grown == [best.tokens[:length] for length in range(1, len(best.tokens) + 1)]


async def test_a_step_that_fails_is_answered_and_the_next_request_runs(dates, monkeypatch):
    calls = []

    def failing(cache, tokens, *_):
        calls.append(tokens)
        if len(calls) == 3:
            raise ValueError("secret words")

    note_steps(monkeypatch, failing)
    async with decode_loop(dates):
        with pytest.raises(RuntimeError, match=r"^dates/decode: decoding failed$"):
            await one(dates, TEXTS[0])
        next_one = await one(dates, TEXTS[0])
    assert dates.inputs.tokenizer.decode(next_one.tokens[:-1]) == "2021-03-23"


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"temperature": 1.0}])
async def test_an_output_that_is_not_a_number_fails_only_its_own_sequence(dates, alone, monkeypatch, options):
    step = KVCache.step

    def poisoned(rows, tokens, positions, wanted, **options):
        likeliest, candidates, logits = step(rows, tokens, positions, wanted, **options)
        poor = rows.buffer("source_visible").sum(1) == 1  # the text of one character
        for array in (likeliest, logits):
            if array is not None:
                array[poor & (np.array(positions) == 2)] = np.nan
        return likeliest, candidates, logits

    monkeypatch.setattr(KVCache, "step", poisoned)
    async with decode_loop(dates):
        tasks = [one(dates, text, **options) for text in TEXTS]
        *good, poor = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(poor, Broken)
    if not options:
        assert [mine.tokens for mine in good] == [theirs.tokens for theirs in alone[::4][:-1]]
    assert len(good) == 5


@pytest.mark.parametrize("where", ["_join", "_steps"])
async def test_each_sequence_of_a_failed_batch_is_generated_again_alone(dates, alone, monkeypatch, where):
    method = getattr(DecodeLoop, where)

    def failing(decoding, given, *rest):
        jobs = given if where == "_join" else decoding._running
        if any(job.source["source"].tolist() == poison for job in jobs):
            raise ValueError("secret words")
        return method(decoding, given, *rest)

    poison = [token.index for token in dates.inputs.tokenizer.encode(TEXTS[1])]
    monkeypatch.setattr(DecodeLoop, where, failing)
    async with decode_loop(dates):
        tasks = [one(dates, text) for text in TEXTS]
        first, poor, *good = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(poor, RuntimeError)
    assert "secret" not in str(poor)
    assert [mine.tokens for mine in (first, *good)] == [alone[0].tokens, *(theirs.tokens for theirs in alone[8::4])]


async def test_a_sequence_cancelled_while_it_waits_does_not_hold_up_those_behind_it(dates):
    async with decode_loop(dates, rows=4):
        first = asyncio.create_task(one(dates, TEXTS[0]))
        await asyncio.sleep(0.005)
        wide = asyncio.create_task(one(dates, TEXTS[0], num_beams=4))
        behind = asyncio.create_task(one(dates, TEXTS[1]))
        await asyncio.sleep(0)
        wide.cancel()
        await behind
        await first


def test_log_softmax_of_large_logits_is_finite():
    assert log_softmax(np.array([[1000.0, 1000.0]], np.float32)) == pytest.approx(np.log([[0.5, 0.5]]))


async def test_a_caller_that_leaves_as_the_work_ends_stops_no_other_work():
    future, stopped = asyncio.get_running_loop().create_future(), []
    with while_wanted([future], lambda: stopped.append(True)):
        future.cancel()  # its callbacks run in the next round of the loop
    await asyncio.sleep(0.01)
    assert stopped == []
    future = asyncio.get_running_loop().create_future()
    with while_wanted([future], lambda: stopped.append(True)):
        future.cancel()
        await asyncio.sleep(0.01)
    assert stopped == [True]


@pytest.mark.parametrize("count", [2, 3])
async def test_sequences_that_are_all_cancelled_are_counted_once_and_begin_no_more(dates, monkeypatch, count):
    begun = threading.Event()

    def slow(cache, tokens, *_):
        if len(tokens) == count:
            begun.set()
        time.sleep(0.05)

    note_steps(monkeypatch, slow)
    async with decode_loop(dates):
        tasks = [asyncio.create_task(one(dates, TEXTS[0])) for _ in range(count)]
        assert await asyncio.to_thread(begun.wait, 30)
        with structlog.testing.capture_logs() as logs:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0.3)
        counted = {
            stage: dates.decode_loop._metrics.cancelled.labels(stage)._value.get() for stage in ("running", "queued")
        }
    assert counted == {"running": count, "queued": 0}
    assert logs == []


async def test_requests_that_are_cancelled_while_another_model_runs_leave_the_queue_at_once(dates):
    """Nothing counts their sources any more, and more requests are admitted in their place."""
    async with decode_loop(dates) as device, device.turn():
        tasks = [asyncio.create_task(one(dates, text)) for text in TEXTS]
        await asyncio.sleep(0.05)
        loop = next(lane for lane in dates.lanes if isinstance(lane, DecodeLoop))
        assert len(loop._waiting) == len(TEXTS)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert not loop._waiting
        assert loop._metrics.cancelled.labels("queued")._value.get() == len(TEXTS)


async def test_caches_without_memory_are_no_fault_of_the_request(dates, alone, monkeypatch):
    async with decode_loop(dates):
        for error in (MemoryError(), RuntimeError("Failed to allocate memory for requested buffer of size 1")):
            with monkeypatch.context() as patch:
                patch.setattr(KVCache, "_grown", Mock(side_effect=error))
                with pytest.raises(DeviceFull, match="no memory is left for the caches"):
                    await one(dates, TEXTS[0])
        assert await one(dates, TEXTS[0]) == alone[0]


async def test_caches_grow_no_further_than_those_need_that_still_run(dates, monkeypatch):
    monkeypatch.setattr("service.generation.kv_cache.SLOTS", 2)
    capacities, make_room = [], KVCache._make_room

    def noted(cache, rows, lengths):
        make_room(cache, rows, lengths)
        capacities.append(cache._capacity)

    monkeypatch.setattr(KVCache, "_make_room", noted)
    async with decode_loop(dates):
        item, options = dates.inputs.text_input(TEXTS[1]), GenerateOptions(max_new_tokens=16)
        leaving = asyncio.create_task(dates.generate(item, options, grew=lambda _: leaving.cancel()))
        stays = asyncio.create_task(one(dates, TEXTS[0], max_new_tokens=11))
        await asyncio.wait([leaving, stays])
        assert leaving.cancelled()
        assert len(stays.result().tokens) == 11
    assert max(capacities) == 12


async def test_a_target_is_cut_where_its_limit_ended_it_though_it_be_by_a_forced_end(dates, monkeypatch):
    async with decode_loop(dates):
        assert not (await one(dates, TEXTS[0])).cut
        assert (await one(dates, TEXTS[0], max_new_tokens=5)).cut
        end = dates.generation.end
        monkeypatch.setattr(dates, "generation", dates.generation.model_copy(update={"forced_last": end}))
        assert not (await one(dates, TEXTS[0])).cut
        for limit in (1, 5):
            forced = await one(dates, TEXTS[0], max_new_tokens=limit)
            assert (forced.cut, len(forced.tokens), forced.tokens[-1]) == (True, limit, end)
