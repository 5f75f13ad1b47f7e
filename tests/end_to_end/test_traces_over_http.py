"""Traces: every stage of a request is sent to a collector, and no answer waits for it."""

import http.server
import socket
import threading
from contextlib import contextmanager
from itertools import pairwise

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.conftest import served
from tests.samples.http_requests import PNG, SEVEN

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@contextmanager
def collector():
    """An OTLP collector; gives its address and the spans that it received."""
    spans = []

    class Collect(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            assert self.path == "/v1/traces"
            sent = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
            spans.extend(span for one in sent.resource_spans for scope in one.scope_spans for span in scope.spans)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collect)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", spans
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def attributes(span):
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


def traceparent(trace=TRACE, sampled=True):
    return {"traceparent": f"00-{trace}-{CALLER}-{'01' if sampled else '00'}"}


@pytest.fixture(scope="module")
def traced(light):
    """What a service of ratio 1 sent and logged of four requests, by trace."""
    with collector() as (address, spans):
        with served(light, otlp_endpoint=address, trace_ratio=1) as client:
            ask = "/v1/models/digits/classify?attention=rollout"
            assert client.get("/v2/health/ready").status_code == 200
            statuses = [
                client.post(ask, content=SEVEN, headers=PNG | traceparent()).status_code,
                client.post(ask, content=SEVEN, headers=PNG | traceparent("1" * 32, sampled=False)).status_code,
                client.post(ask, content=b"secret", headers=PNG | traceparent("2" * 32)).status_code,
                client.post(
                    "/v1/models/dates/generate", json={"inputs": "May 1 2020"}, headers={"traceparent": "00-nonsense"}
                ).status_code,
            ]
        assert client.process.returncode == 0
    assert statuses == [200, 200, 415, 200]
    requests = [line for line in client.log if line["event"] == "request"]
    return spans, requests


def test_a_request_is_traced_within_its_callers_trace_stage_by_stage(traced):
    spans, _ = traced
    mine = {span.name: span for span in spans if span.trace_id.hex() == TRACE}
    request = mine.pop("POST /v1/models/{model}/classify")
    assert request.parent_span_id.hex() == CALLER
    assert attributes(request)["http.response.status_code"] == 200
    assert attributes(request)["regard.model"] == "digits"
    assert set(mine) == {"decode", "queue", "run", "batch", "present"}
    assert {span.parent_span_id for span in mine.values()} == {request.span_id}
    assert attributes(mine["decode"]) == attributes(mine["present"]) == {"regard.model": "digits"}
    assert attributes(mine["run"])["regard.batch_size"] == 1
    assert attributes(mine["run"])["regard.lane"].startswith("digits")
    assert mine["run"].links[0].span_id == mine["batch"].span_id
    assert mine["batch"].links[0].span_id == request.span_id
    order = [mine[name] for name in ("decode", "queue", "run", "present")]
    for before, after in pairwise(order):
        assert before.start_time_unix_nano < after.start_time_unix_nano
        assert before.end_time_unix_nano <= after.end_time_unix_nano
    assert mine["queue"].end_time_unix_nano == mine["run"].start_time_unix_nano


def test_the_log_has_the_traces_id(traced):
    _, requests = traced
    posted = [line["trace_id"] for line in requests]
    assert posted[:3] == [TRACE, "1" * 32, "2" * 32]
    assert len(posted[3]) == 32
    assert posted[3] not in posted[:3]


def test_a_trace_that_its_caller_does_not_want_is_not_sent(traced):
    spans, _ = traced
    assert "1" * 32 not in {span.trace_id.hex() for span in spans}


def test_a_refused_request_ends_with_its_status_and_nothing_of_what_was_sent(traced):
    spans, _ = traced
    refused = [span for span in spans if span.trace_id.hex() == "2" * 32]
    assert {span.name for span in refused} == {"POST /v1/models/{model}/classify", "decode"}
    assert 415 in {attributes(span).get("http.response.status_code") for span in refused}
    for span in spans:
        assert not span.events
        assert b"secret" not in span.SerializeToString()


def test_a_generation_is_traced_and_a_traceparent_that_is_none_begins_a_new_trace(traced):
    spans, requests = traced
    mine = {span.name: span for span in spans if span.trace_id.hex() == requests[3]["trace_id"]}
    assert not mine["POST /v1/models/{model}/generate"].parent_span_id
    assert attributes(mine["generate"])["regard.lane"].startswith("dates")


def test_probes_and_scrapes_are_not_traced(traced):
    spans, requests = traced
    assert not [span for span in spans if "health" in span.name]
    assert not [line for line in requests if "health" in line["route"]], "nor logged, but for debugging"


def test_a_collector_that_never_answers_changes_no_answer_and_holds_up_no_stop(light):
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        hole.listen(1)
        address = f"http://127.0.0.1:{hole.getsockname()[1]}"
        with served(light, otlp_endpoint=address, trace_ratio=1) as client:
            for _ in range(150):  # a batch to send, and more
                assert client.post("/v1/models/digits/classify", content=SEVEN, headers=PNG).status_code == 200
    assert client.process.returncode == 0
