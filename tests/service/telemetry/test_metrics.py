"""What `/metrics` says, and how long it is."""

from prometheus_client.parser import text_string_to_metric_families

from service.app import _count_from_zero
from service.telemetry.metrics import Metrics

MODELS = [f"model-{number}" for number in range(8)]
ROLES = ("predict", "attention", "relevance", "libra", "integrated", "inside")


def samples(text):
    """Return the last sample of each name."""
    return {sample.name: sample for family in text_string_to_metric_families(text) for sample in family.samples}


def test_eight_models_that_were_all_asked_take_fewer_than_1300_lines():
    metrics = Metrics()
    _count_from_zero(metrics)
    for model in MODELS:
        metrics.model_info.labels(model, "1", "CPUExecutionProvider", "float32")
        for gauges in (metrics.queue_tokens, metrics.queue_map_bytes):
            gauges.show(1, 2, model)
        for histogram in (metrics.model_request_seconds, metrics.decode_seconds, metrics.present_seconds):
            histogram.labels(model)
        metrics.model_requests.labels(model, "200")
        for queue in ("predictions", "attention"):
            metrics.queue_seconds.labels(model, queue)
        for role in ROLES:
            metrics.run_seconds.labels(model, role)
            metrics.batch_items.labels(model, role)
    for route in ("/v1/models/{model}/classify", "/v1/models/{model}/embed", "/v1/attention/{id}", "/metrics"):
        metrics.request_seconds.labels(route)
        metrics.request_bytes.labels(route)
        metrics.answer_bytes.labels(route)
    assert len(metrics.text().decode().splitlines()) < 1300


def test_a_process_is_told_by_its_conventional_names():
    found = samples(Metrics().text().decode())
    assert found["process_resident_memory_bytes"].value > 1 << 20
    assert found["process_open_fds"].value < found["process_max_fds"].value
    assert set(found["regard_build_info"].labels) == {"version", "python"}
