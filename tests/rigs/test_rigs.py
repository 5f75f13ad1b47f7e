"""A short slice of every rig: that the rig works, and what must hold on any machine. `make soak` runs them whole."""

import shutil

import hypothesis.strategies as st
import pytest

from tests.rigs import (
    attacks,
    drain,
    early_refusals,
    fair,
    fuzz,
    kill,
    leak,
    load,
    memory,
    mixes,
    overload,
    page_firefox,
    page_jobs,
    reload,
    scale,
    sockets,
)
from tests.rigs.client import Reply
from tests.rigs.fuzz import Fuzzed, Prober, Unexpected, hunt
from tests.rigs.proxy import find
from tests.rigs.replica import Replica, two_cores

needs_firefox = pytest.mark.skipif(not page_firefox.FIREFOX, reason="firefox-esr is not installed")
needs_haproxy = pytest.mark.skipif(not find("haproxy"), reason="haproxy is not installed")
LEAKED = 1 << 18


@pytest.fixture
def changeable(artifacts, tmp_path):
    """A copy of the artifacts that a test may add versions to."""
    return shutil.copytree(artifacts, tmp_path / "artifacts")


@pytest.fixture(scope="module")
def finding(artifacts, scenes, tmp_path_factory):
    """A folder with a detector beside the bundled models."""
    folder = tmp_path_factory.mktemp("finding")
    for artifact in (*artifacts.iterdir(), *scenes.iterdir()):
        (folder / artifact.name).symlink_to(artifact)
    return folder


@pytest.fixture(scope="module")
def replica(finding):
    """A service that several tests ask."""
    with Replica(finding, log_level="warning") as replica:
        yield replica
        replica.stop()


@pytest.mark.slow
def test_requests_of_every_kind_sent_at_a_rate_are_answered_rightly(artifacts, finding):
    assert mixes.served(mixes.MIXED, artifacts) == mixes.MIXED
    mix = mixes.served(mixes.MIXED, finding)
    assert mixes.DETECTION.keys() <= mix.keys()
    found = load.run(finding, requests=120, rate=40, mix=mix)
    assert not found.faults
    assert found.sent > 80


def test_every_kind_of_request_is_what_it_is_called(replica):
    with load.Apart(two_cores()[1]) as apart:
        for kind in mixes.MAKERS.keys() - {"texts", "short text"}:  # their model has weights of 90 MB
            samples = apart.start(load.Plan(replica.port, {kind: 1}, [load.Phase(30, 0.3)])).result()
            assert samples
            assert not [sample.fault for sample in samples if sample.fault]


def test_hostile_input_of_every_kind_is_refused_in_words_that_give_nothing_away(finding):
    found = fuzz.run(finding, 400, seed=1, conformance=False, attacks=[])
    assert not found.faults, f"seed {found.seed}: {found.faults}"
    assert found.total >= 250


@pytest.mark.slow
def test_what_openapi_promises_holds(finding):
    found = fuzz.run(finding, 0, seed=1, attacks=[])
    assert not found.faults, f"seed {found.seed}: {found.faults}"
    assert found.sent["schemathesis"] > 20


@pytest.mark.parametrize("attack", sockets.ATTACKS, ids=lambda one: one.name)
def test_what_no_client_would_send_is_refused_or_left(replica, attack):
    prober = Prober(replica.port, Fuzzed(), every=1)
    prober.attack(attack)
    prober.close()


def test_an_answer_that_tells_too_much_is_found(replica):
    prober = Prober(replica.port, Fuzzed(), every=1)
    for body in (b"at 0x7f0011223344", b"<Thing object at", b"Traceback (most", mixes.MARK.encode()):
        with pytest.raises(Unexpected, match="tells"):
            prober._check("", Reply(400, {}, body))
    with pytest.raises(Unexpected, match="status 500"):
        prober._check("", Reply(500, {}, b""))
    prober.close()


def test_an_input_that_is_answered_wrongly_is_made_small():
    def answer(sent):
        if len(sent) > 2:
            raise Unexpected(repr(sent))

    with pytest.raises(Unexpected) as found:
        hunt(answer, st.binary(), 2000, seed=0)
    assert found.value.args == (repr(bytes(3)),)


def test_early_refusals_reach_clients_that_send_everything_before_they_read(artifacts):
    clients = ("urllib", "requests", "httpx", "curl without Expect", "curl HTTP/1.0")
    found = early_refusals.run(artifacts, 3, ("direct",), (10,), clients)
    assert not found.faults
    assert set(found.lost["direct, 10 MB"]) == set(clients) - set(found.absent)


@needs_haproxy
@pytest.mark.slow
def test_a_planned_stop_behind_a_proxy_loses_nothing(artifacts):
    found = drain.run(artifacts, rounds=1, clients=40, pause=0.2)
    assert not found.faults
    assert found.sent > 200


@needs_haproxy
@pytest.mark.slow
def test_a_crash_behind_a_proxy_costs_what_was_in_flight(artifacts):
    found = kill.run(artifacts, rounds=1, clients=40, pause=0.2)
    assert not found.faults
    assert found.failed <= found.in_flight


@needs_haproxy
@pytest.mark.slow
def test_the_simulation_refuses_when_two_replicas_do(artifacts):
    # far below and far above the most, so that other work on the machine, which slows the replicas, changes neither
    found = scale.run(artifacts, seconds=12, seed=0, kinds=["paced"], shares=[0.2, 4], tries=1)
    assert not found.faults
    low, over = found.loads
    assert low.refused == (0, 0)
    assert all(over.refused)
    assert over.answered[0] == pytest.approx(over.answered[1], rel=0.6)


@pytest.mark.slow
@pytest.mark.parametrize("by_signal", [False, True])
def test_versions_are_swapped_under_load_and_a_spoilt_one_changes_nothing(changeable, by_signal):
    found = reload.run(changeable, swaps=5, clients=6, by_signal=by_signal)
    assert not [fault for fault in found.faults if not fault.startswith("memory")], "of few swaps memory says nothing"
    assert found.versions > 1


@pytest.mark.slow
def test_attacks_harm_nobody_else(artifacts):
    found = attacks.run(artifacts, seconds=2)
    assert not found.faults
    assert len(found.effects) > 80


@pytest.mark.slow
def test_a_second_request_in_a_body_is_not_answered_and_its_effect_is_noted(artifacts):
    (effect,) = attacks.run(artifacts, seconds=1, only="smuggling").effects
    assert effect.honest.keys() == {"200"}


@pytest.mark.slow
def test_an_overload_is_refused_and_every_answer_is_right(artifacts):
    found = overload.run(artifacts, seconds=2, times=(5,), kinds=("heavy",))
    assert not found.faults
    assert found.loads[0].refused > 0


@pytest.mark.slow
def test_a_greedy_client_shuts_nobody_out(artifacts):
    found = fair.run(artifacts, only="paths", rounds=1, requests=100)
    assert not found.faults
    (shared,) = found.shared
    assert shared.refused == 0
    assert sum(shared.greedy.values()) > 0


@pytest.mark.slow
def test_requests_leave_nothing_behind_and_a_leak_that_is_made_is_found(artifacts):
    clean, leaking = leak.run(artifacts, 400), leak.run(artifacts, 400, leaked=LEAKED)
    assert not [fault for fault in clean.faults if not fault.startswith(("memory", "threads"))], "too few for these"
    assert clean.bytes_a_request < LEAKED / 2
    assert leaking.bytes_a_request > LEAKED / 2
    assert [fault for fault in leaking.faults if fault.startswith("memory")]


@pytest.mark.slow
def test_the_heaviest_legal_requests_stay_below_the_limits_that_are_shipped(artifacts):
    found = memory.run(artifacts, 10, clients=len(memory.MAKERS))
    assert not found.faults
    assert found.base < found.most < found.limit


@pytest.mark.slow
def test_a_service_that_takes_more_memory_than_it_may_is_found(artifacts):
    kinds = {name: memory.MAKERS[name] for name in ("relevance, npz", "overlay")}
    assert memory.run(artifacts, 10, kinds, limit=320 << 20, clients=4).faults  # it starts in less


def test_the_limit_is_read_from_the_files_of_both_deployments():
    assert memory.shipped_limit() >= memory.bytes_of("1Gi")
    assert [memory.bytes_of(text) for text in ("2g", "2Gi", "512Mi", "64k")] == [2 << 30, 2 << 30, 512 << 20, 64 << 10]


def test_without_firefox_its_command_says_in_one_line_how_to_get_it(monkeypatch, capsys):
    monkeypatch.setattr(page_firefox, "FIREFOX", None)
    monkeypatch.setattr("sys.argv", ["page_firefox"])
    assert page_firefox.main() == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"{page_firefox.MISSING}\n"
    assert page_firefox.MISSING in (page_firefox.ROOT / "Makefile").read_text()


@needs_firefox
@pytest.mark.slow
def test_a_job_is_done_in_firefox_and_one_that_fails_is_said_to(replica, monkeypatch, capsys, tmp_path):
    def wrong(seen):
        seen.at(model="dates").evaluate("console.error('a fault of the page')")

    done = next(job for job in page_jobs.JOBS if "Escape" in job.name)
    jobs = [done, page_jobs.Job("it says a fault", "dates", wrong), page_jobs.Job("no model", "absent", wrong)]
    monkeypatch.setattr(page_firefox, "JOBS", jobs)
    monkeypatch.setattr(page_firefox, "PICTURES", tmp_path)
    results = page_firefox.run(str(replica.http.base_url).rstrip("/"))
    assert results[done.name] == page_firefox.OK
    assert "a fault of the page" in results["it says a fault"]
    assert results["no model"] == page_firefox.LEFT_OUT
    assert "FAILED" in capsys.readouterr().out
    assert [picture.name for picture in tmp_path.iterdir()] == ["it-says-a-fault.png"]
