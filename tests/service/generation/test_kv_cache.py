"""The memory of a decode step: whatever joins, leaves and is continued, each row must hold its own."""

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest

from contract.generation import Cache, Generation
from export.plan import ports_in_precision
from model.architectures.gpt_variants import LlamaConfig
from service.arrays import log_softmax
from service.generation.kv_cache import KVCache
from service.repository.loading.load import load
from service.settings import Settings
from tests.samples.export_models import continuer
from tests.samples.fake_gpu import fake_gpu

WANTED = 5


@pytest.fixture(scope="module")
def loaded(light):
    return load(Settings(artifacts=light))["dates"]


@pytest.fixture(params=["cpu", "gpu"])
def dates(request, loaded):
    """The model, whose caches lie in the host's memory or in that of a GPU."""
    if request.param == "cpu":
        yield loaded
    else:
        with fake_gpu(loaded.sessions["decode"]):
            yield loaded


class Alone:
    """What a row should hold: its source encoded alone, and a cache that is rebuilt from its tokens at every step."""

    def __init__(self, dates, source):
        self.decode, self.generation = dates.sessions["decode"], dates.generation
        self.tokens = [dates.generation.start]
        given = {"source": np.array([source]), "source_visible": np.ones((1, len(source)), bool)}
        self.known = {**dates.sessions["encode"].run(given), "source_visible": given["source_visible"]}
        self.length = len(source)

    def logs(self):
        """Feed all tokens anew, through caches that are copied at every step; return the log-probabilities."""
        shape = {port.name: port for port in self.decode.graph.inputs}
        caches = {
            cache.past: np.zeros([{"batch": 1, "capacity": 32}.get(axis, axis) for axis in shape[cache.past].axes],
                                 np.float32)
            for cache in self.generation.caches
        }  # fmt: skip
        for position, token in enumerate(self.tokens):
            known = {name: array for name, array in self.known.items() if name in shape}
            step = {"token": np.array([token]), "position": np.array([position]), "count": np.array([1])}
            out = self.decode.run({**known, **caches, **step})
            caches = {cache.past: out[cache.present].copy() for cache in self.generation.caches}
        return log_softmax(out["logits"])[0]


def joined(dates, rows, sources, held):
    """Let sources join, encoded in one padded batch, beside those that are held."""
    longest = max(map(len, sources))
    source = np.zeros((len(sources), longest), np.int64)
    for row, one in enumerate(sources):
        source[row, : len(one)] = one
    visible = source > 0
    known = dates.sessions["encode"].run({"source": source, "source_visible": visible}) | {"source_visible": visible}
    every = [one.length for one in held.values()] + [longest]
    lengths = {"capacity": max([len(one.tokens) for one in held.values()] + [1]), "source": max(every)}
    fresh = {name: known[name] for name in rows.names if name in known}
    return rows.join(range(len(sources)), fresh, lengths, most=64)


def cache_of(dates, sources):
    """Return a cache that these sources have joined."""
    rows = KVCache(dates.sessions["decode"], dates.generation)
    joined(dates, rows, sources, {})
    return rows


def test_each_row_keeps_its_own_cache_when_rows_join_leave_continue_and_grow(dates):
    rng = np.random.default_rng(0)
    rows, held = KVCache(dates.sessions["decode"], dates.generation), {}
    sizes = set()
    for turn in range(40):
        if turn % 5 == 0 or not held:
            sources = [rng.integers(4, 70, rng.integers(1, 40)).tolist() for _ in range(rng.integers(1, 4))]
            for row, source in zip(joined(dates, rows, sources, held), sources, strict=True):
                held[row] = Alone(dates, source)
        if turn % 7 == 6:  # a third of them leave
            leaving = [row for row in held if rng.random() < 0.4 or len(held[row].tokens) > 22]
            moved = rows.leave(leaving)
            held = {moved.get(row, row): one for row, one in held.items() if row not in leaving}
            if not held:
                continue
        if turn % 9 == 8 and len(held) > 1:  # one row continues another, of the same source
            into, out_of = rng.choice(list(held), 2, replace=False).tolist()
            source = held[out_of]
            twin = Alone.__new__(Alone)
            twin.__dict__ = {**source.__dict__, "tokens": list(source.tokens)}
            for name in ("source_visible", *dates.generation.memory):
                rows._buffers[name].copy({into: out_of})
            tokens = {into: [-1] * len(source.tokens), out_of: source.tokens}
            assert rows.continue_from(tokens, [out_of, out_of], 0) == [out_of, into]
            held[into] = twin
        assert sorted(held) == list(range(rows.count))
        order = sorted(held)
        tokens, positions = zip(*((held[row].tokens[-1], len(held[row].tokens) - 1) for row in order), strict=True)
        everything = turn % 4 == 3
        likeliest, candidates, logits = rows.step(tokens, positions, WANTED, everything=everything)
        assert likeliest.shape == candidates.shape == (rows.count, WANTED)
        sizes.add(rows.buffer(dates.generation.caches[0].past).shape)
        for row in order:
            logs = held[row].logs()
            best = np.argsort(-logs, kind="stable")[: likeliest.shape[1]]
            np.testing.assert_allclose(likeliest[row], logs[best], atol=1e-4)
            np.testing.assert_allclose(logs[candidates[row]], logs[best], atol=1e-4)
            assert (logits is not None) == everything
            if logits is not None:
                np.testing.assert_allclose(log_softmax(logits)[row], logs, atol=1e-4)
            held[row].tokens.append(int(rng.integers(3, 40)))
    assert len(sizes) > 4


def test_rows_that_continue_others_and_leave_between_two_steps_keep_their_own(dates):
    """All that a beam search does before the next step, of one source: rows continue others, twice, and one leaves."""
    rows = cache_of(dates, [[5, 6, 7]] * 3)
    held = [Alone(dates, [5, 6, 7]) for _ in range(3)]
    for token in (20, 21, 22):
        for row, one in enumerate(held):
            one.tokens.append(token + 10 * row)
        rows.step([one.tokens[-2] for one in held], [len(one.tokens) - 2 for one in held], 1, everything=False)
    tokens = {row: one.tokens[1:3] for row, one in enumerate(held)}  # the first is common, the last is not held yet
    assert rows.continue_from(tokens, [2, 1, 2], 1) == [2, 1, 0]
    tokens[0] = tokens[2]
    assert rows.continue_from(tokens, [1, 0, 1], 1) == [1, 0, 2]
    assert rows.leave([1]) == {2: 1}
    for row, one in enumerate((held[2], held[1])):
        logits = rows.step([one.tokens[-1]] * 2, [3, 3], 1, everything=True)[2]
        np.testing.assert_allclose(log_softmax(logits)[row], one.logs(), atol=1e-4)


def test_only_the_rows_that_no_hypothesis_continues_are_overwritten(loaded, monkeypatch):
    rows, copied = cache_of(loaded, [[5, 6, 7]] * 4), []
    for buffer in rows._buffers.values():
        monkeypatch.setattr(buffer, "copy", lambda *given: copied.append(given))
    held = {0: [7, 7, 7], 1: [7, 8, 7], 2: [7, 8, 8], 3: [7, 7, 8]}
    assert rows.continue_from(held, [1, 0, 3, 2], 5) == [1, 0, 3, 2]
    assert copied == []
    assert rows.continue_from(held, [1, 1, 0, 1], 5) == [1, 2, 0, 3]
    assert copied == [({2: 1, 3: 1}, slice(6, 8))] * len(loaded.generation.caches)


def test_a_step_writes_its_caches_in_place(loaded):
    """The runtime would otherwise copy all of them: the memory that was given must hold the new token afterwards."""
    rows = cache_of(loaded, [[5, 6, 7]])
    before = {cache.past: rows.buffer(cache.past) for cache in loaded.generation.caches}
    assert not any(array.any() for array in before.values())
    rows.step([loaded.generation.start], [0], 1, everything=False)
    for array in before.values():
        assert array[:, :, 0].any()
        assert not array[:, :, 1:].any()


def test_a_row_that_joins_sees_nothing_of_one_that_left(dates):
    """Not even where it was not a number."""
    rows = cache_of(dates, [[5, 6, 7]] * 2)
    for cache in dates.generation.caches:
        rows._buffers[cache.past].write(1, [0], np.full_like(rows.buffer(cache.past)[:1], np.nan))
    rows.leave([1])
    joined(dates, rows, [[9, 9]], {0: Alone(dates, [5, 6, 7])})
    likeliest, _, _ = rows.step([dates.generation.start] * 2, [0, 0], 1, everything=False)
    assert np.isfinite(likeliest).all()


def test_a_step_may_want_more_or_fewer_tokens_than_the_one_before(dates):
    """A beam search leaves as a greedy one joins."""
    rows = cache_of(dates, [[3, 4, 5]])
    few, many = (rows.step([1], [0], wanted, everything=False) for wanted in (1, 8))
    assert (few[0].shape, many[0].shape) == ((1, 1), (1, 8))
    assert rows.step([1], [0], 1, everything=False)[1] == many[1][:, :1]


def test_a_step_on_a_gpu_copies_a_few_bytes_a_row(loaded):
    """Tokens and positions go there and the likeliest tokens come back; the caches stay, whoever leaves."""
    wanted = 2
    with fake_gpu(loaded.sessions["decode"]) as gpu:
        rows = cache_of(loaded, [[5, 6, 7], [8, 9], [10]])
        caches = sum(rows.buffer(name).nbytes for name in rows.names)
        for position in range(3):
            gpu.crossed()
            rows.step([1] * 3, [position] * 3, wanted, everything=False)
            assert gpu.crossed() == (3 * (8 + 8), 3 * wanted * (4 + 8))
        rows.continue_from({0: [1] * 3, 1: [2] * 3, 2: [3] * 3}, [1, 1, 2], 0)
        rows.leave([0])
        assert gpu.crossed() == (0, 0), "leaving may happen while others use the device"
        rows.step([1] * 2, [3] * 2, wanted, everything=False)
        moved, back = gpu.crossed()
        assert back == 2 * wanted * (4 + 8)
        assert moved < 40 * len(rows.names) + 100 < caches / 100, "only the numbers of rows cross the bus"


def test_a_cache_that_leaves_a_gpu_is_freed(loaded):
    with fake_gpu(loaded.sessions["decode"]) as gpu:
        rows = cache_of(loaded, [[5, 6, 7]] * 2)
        rows.step([1] * 2, [0] * 2, 1, everything=False)
        rows.leave([0, 1])
        assert not gpu.held()


def test_caches_grow_by_half_and_no_further_than_is_accounted_for(loaded):
    """By a constant, all that is held would be copied ever more often; beyond the bound, nobody has counted it."""
    rows = cache_of(loaded, [[5, 6, 7]])
    grown, make_room = [], rows._make_room

    def noting(count, lengths):
        make_room(count, lengths)
        grown.append(rows._capacity)

    rows._make_room, rows.most = noting, 100
    for position in range(100):
        if position >= rows._capacity:
            rows._grow(position + 1)
    assert grown == [32, 48, 80, 112]
    rows._grow(200)
    assert rows._capacity == 208, "a row that needs more has it"


@pytest.mark.parametrize(("precision", "size"), [("fp32", 4), ("fp16", 2)])
def test_a_row_takes_two_numbers_a_layer_key_head_width_and_token(precision, size):
    """Keys that heads share are held once, and a layer with a window holds all tokens as the others do."""
    layers, heads, width = 3, 2, 8
    config = LlamaConfig(
        80, length=64, width=32, layers=layers, heads=4, hidden=8, key_heads=heads, head=width, near=(1,), window=5
    )
    plan = continuer(config).plan("decode")
    graph = SimpleNamespace(
        inputs=ports_in_precision(plan.inputs, precision), outputs=ports_in_precision(plan.outputs, precision)
    )
    caches = tuple(Cache(past=past.name, present=present.name) for past, present in pairs_of(plan))
    decode = SimpleNamespace(graph=graph, provider="CPUExecutionProvider")
    rows = KVCache(decode, Generation(start=None, end=2, max_new_tokens=64, caches=caches, memory=()))
    for tokens in (16, 48):
        assert rows.row_bytes(tokens, source=tokens) == 2 * layers * heads * width * tokens * size
    rows.join([0, 0, 0], {}, {"capacity": 33}, most=64)
    held = sum(rows.buffer(name).nbytes for name in rows.names)
    assert held == 3 * 2 * layers * heads * width * 48 * size, "33 tokens are rounded up to 48"


def pairs_of(plan):
    """Return the ports of caches before and after a step."""
    past = [port for port in plan.inputs if port.name.startswith("past.")]
    return zip(past, [port for port in plan.outputs if port.name.startswith("present.")], strict=True)


def test_buffers_of_a_batch_that_ended_serve_the_next_one_unless_they_are_large(loaded, monkeypatch):
    rows = cache_of(loaded, [[5, 6, 7]] * 2)
    kept = {name: rows.buffer(name).ctypes.data for name in rows.names}
    size = sum(rows.buffer(name).nbytes for name in rows.names)
    monkeypatch.setattr(rows, "_kept_bytes", size)
    rows.leave([0, 1])
    joined(loaded, rows, [[9, 9]], {})
    assert {name: rows.buffer(name).ctypes.data for name in rows.names} == kept
    monkeypatch.setattr(rows, "_kept_bytes", size - 1)
    rows.leave([0])
    assert not rows._buffers


def test_a_batch_of_long_rows_has_no_room_for_all_the_short_ones_before_it(loaded):
    """Else a bound on the rows and lengths of a batch would not bound its memory."""
    rows = cache_of(loaded, [[5, 6, 7]] * 32)
    rows.leave(range(2, 32))
    assert {rows._buffers[name].shape[0] for name in rows.names} == {32}
    rows.step([1, 1], [0, 0], 1, everything=False)
    rows._grow(40)
    caches = [rows._buffers[cache.past].shape for cache in loaded.generation.caches]
    assert {shape[0] for shape in caches} == {4}
    rows.leave([0, 1])
    joined(loaded, rows, [list(range(4, 60))], {})
    assert {rows._buffers[name].shape[0] for name in rows.names if "source" in name} == {1}


def test_caches_have_one_capacity_again_after_there_was_no_memory_for_one(loaded, monkeypatch):
    rows = cache_of(loaded, [[5, 6, 7]])
    grown, last = KVCache._grown, loaded.generation.caches[-1].past

    def without_memory(rows, port, shape, old):
        if port.name == last:
            raise MemoryError
        return grown(rows, port, shape, old)

    monkeypatch.setattr(KVCache, "_grown", without_memory)
    with contextlib.suppress(MemoryError):
        for position in range(64):
            rows.step([loaded.generation.start], [position], WANTED, everything=False)
    assert len({rows.buffer(cache.past).shape[2] for cache in loaded.generation.caches}) == 2
    monkeypatch.undo()
    rows.leave([0])
    held = Alone(loaded, [8, 9])
    joined(loaded, rows, [[8, 9]], {})
    assert len({rows.buffer(cache.past).shape[2] for cache in loaded.generation.caches}) == 1
    likeliest, _, _ = rows.step([loaded.generation.start], [0], WANTED, everything=False)
    np.testing.assert_allclose(likeliest[0], -np.sort(-held.logs())[:WANTED], atol=1e-4)
