"""Prometheus metrics: histograms for durations, and labels only from closed sets of values."""

import os
from pathlib import Path
from typing import Any, Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from service.telemetry.logs import OUTPUT
from service.telemetry.metric_files import SHARED_FOLDER_VARIABLE, reading

disable_created_metrics()  # type: ignore[no-untyped-call] # when each series began, which nobody here asks for
DURATION_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Upper bounds of the buckets of durations, in seconds."""


class Metrics:
    """All metrics of one application, in a registry of its own. With several workers, it covers all of them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter, gauge, histogram = self._counter, self._gauge, self._histogram
        self.requests = counter("requests", "Requests answered, or connections refused.", "route", "method", "status")
        self.request_seconds = histogram("request_seconds", "From the whole head read to the last byte sent.", "route")
        self.model_requests = counter(
            "model_requests", "Requests to a model that is served, by any protocol.", "model", "status"
        )
        self.model_request_seconds = histogram(
            "model_request_seconds", "As request_seconds, of requests to a model that is served.", "model"
        )
        self.decode_seconds = histogram(
            "decode_seconds", "Waiting for a decoder or a thread, and image to pixels or text to tokens on it.", "model"
        )
        self.present_seconds = histogram(
            "present_seconds", "Waiting for a thread, and maps to JSON, npz or png on it.", "model"
        )
        self.queue_seconds = histogram("queue_seconds", "Waiting for a batch.", "lane")
        self.run_seconds = histogram("run_seconds", "One batch on the device.", "lane")
        self.batch_size = histogram(
            "batch_size", "Items of a batch.", "lane", buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256)
        )
        self.in_flight = gauge("requests_in_flight", "Requests being answered.")
        self.ready = gauge("ready", "1 once every session has run (of several workers, of one).", of="max")
        self.draining = gauge("draining", "1 from the signal to stop until the end.", of="max")
        self.generated = counter("generated_tokens", "Tokens generated.", "model")
        self.first_token_seconds = histogram(
            "first_token_seconds", "Of a generation, from the queue to its first token.", "model"
        )
        self.queue_cost = gauge("queue_cost", "Tokens of predictions, or bytes of maps, that are held.", "queue")
        self.queue_limit = gauge(
            "queue_cost_limit", "What a queue may hold: its setting, or less if that would take too long.", "queue"
        )
        self.refusals = counter("refusals", "Requests refused.", "reason")
        self.gave_way = counter("connections_gave_way", "Connections closed for new ones, at the limit.")
        self.answers_gave_way = counter(
            "answers_gave_way", "Answers that their clients read too slowly, given up for others at the limit."
        )
        self.cancelled = counter(
            "cancelled",
            "Inputs, or targets of an explanation, given up: the client left or the deadline passed.",
            "stage",
        )
        self.faults = counter("faults", "Batches or items that failed though they should not.", "lane", "kind")
        self.reloads = counter("reloads", "Models a reload looked at; versions and files of keys refused.", "outcome")
        self.decoders_replaced = counter(
            "decoders_replaced", "Processes that images were decoded in, and why they were replaced.", "cause"
        )
        self.model_info = gauge(
            "model_info", "1 for what is served.", "model", "version", "provider", "precision", of="max"
        )
        self.log_lines_dropped = counter(
            "log_lines_dropped", "Lines of the log that nobody read, beyond those that wait."
        )
        self._drops_counted = 0
        self.device_memory = gauge("device_memory_bytes", "Bytes held on a device other than the CPU.", "device")

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"regard_{name}", what, labels, registry=self.registry)

    def _gauge(self, name: str, what: str, *labels: str, of: Literal["sum", "min", "max"] = "sum") -> Gauge:
        mode: Any = f"live{of}"  # counts only workers that still run
        return Gauge(f"regard_{name}", what, labels, registry=self.registry, multiprocess_mode=mode)

    def _histogram(
        self, name: str, what: str, *labels: str, buckets: tuple[float, ...] = DURATION_BUCKETS
    ) -> Histogram:
        return Histogram(f"regard_{name}", what, labels, registry=self.registry, buckets=buckets)

    def count_dropped_lines(self) -> None:
        """Bring the count of dropped lines of the log up to date."""
        dropped = OUTPUT.dropped
        self.log_lines_dropped.inc(dropped - self._drops_counted)
        self._drops_counted = dropped

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        registry = self.registry
        if shared := os.environ.get(SHARED_FOLDER_VARIABLE):
            MultiProcessCollector(registry := CollectorRegistry())  # type: ignore[no-untyped-call]
            with reading(Path(shared)):
                return generate_latest(registry)
        return generate_latest(registry)

    def forget(self, gauge: Gauge, *labels: str) -> None:
        """Remove a gauge with these labels; with several workers, where it cannot be removed, set it to 0."""
        gauge.labels(*labels).set(0)
        if SHARED_FOLDER_VARIABLE not in os.environ:
            gauge.remove(*labels)
