import threading


def test_spans_that_cannot_be_sent_are_queued_up_to_a_bound_and_the_oldest_dropped(monkeypatch):
    from service.telemetry import otel_tracer

    monkeypatch.setattr(otel_tracer, "MOST_QUEUED_SPANS", 600)
    sent = threading.Event()
    monkeypatch.setattr(otel_tracer.OTLPSpanExporter, "export", lambda *_: sent.wait(30))
    some = otel_tracer.OtelTracer("http://127.0.0.1:9", 1)
    for _ in range(5000):
        with some.span("decode", {}):
            pass
    (processor,) = some._provider._active_span_processor._span_processors
    assert len(processor._batch_processor._queue) <= 600
    sent.set()
    some.close()
