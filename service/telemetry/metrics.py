"""Prometheus metrics: histograms for durations, and labels only from closed sets of values."""

import functools
import os
import platform
from dataclasses import dataclass
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

from service import VERSION
from service.telemetry.logs import OUTPUT
from service.telemetry.metric_files import SHARED_FOLDER_VARIABLE, reading
from service.telemetry.process_metrics import Processes

disable_created_metrics()  # type: ignore[no-untyped-call] # when each series began, which nobody here asks for
DURATION_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Upper bounds of the buckets of durations of whole requests, in seconds."""
STAGE_BUCKETS = (0.001, 0.01, 0.1, 0.5, 2.5, 10)
"""The same of the stages of a request, which there are many series of: each model has several."""

BUILD = {"version": VERSION, "python": platform.python_version()}
"""What runs, as labels."""


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
        self.request_bytes = counter("request_bytes", "Bytes of the bodies of requests.", "route")
        self.answer_bytes = counter("answer_bytes", "Bytes of the bodies of answers.", "route")
        stage = functools.partial(histogram, buckets=STAGE_BUCKETS)
        self.decode_seconds = stage(
            "decode_seconds", "Waiting for a decoder or a thread, and image to pixels or text to tokens on it.", "model"
        )
        self.present_seconds = stage(
            "present_seconds", "Waiting for a thread, and maps to JSON, npz or png on it.", "model"
        )
        self.queue_seconds = stage("queue_seconds", "Waiting for a batch.", "model", "queue")
        self.run_seconds = stage("run_seconds", "One batch on the device.", "model", "role")
        self.batch_items = counter("batch_items", "Items of the batches that run_seconds counts.", "model", "role")
        self.in_flight = gauge("requests_in_flight", "Requests being answered.")
        self.ready = gauge("ready", "1 once every session has run (of several workers, of one).", of="max")
        self.draining = gauge("draining", "1 from the signal to stop until the end.", of="max")
        self.generated = counter("generated_tokens", "Tokens generated.", "model")
        self.first_token_seconds = stage(
            "first_token_seconds", "Of a generation, from the queue to its first token.", "model"
        )
        self.queue_tokens = self._queue("queue_tokens", "Tokens of predictions that wait or run.", "model")
        self.queue_map_bytes = self._queue("queue_map_bytes", "Bytes of attention maps that wait or are made.", "model")
        self.queue_pixels = self._queue("queue_pixels", "Pixels of images that wait or are decoded.")
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
        self.faults = counter("faults", "Batches or items that failed though they should not.", "model", "role", "kind")
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
        gauge("build_info", "1 for what runs.", *BUILD, of="max").labels(**BUILD).set(1)
        self.registry.register(Processes())
        self.device_memory = gauge("device_memory_bytes", "Bytes held on a device other than the CPU.", "device")

    def _queue(self, name: str, what: str, *labels: str) -> "Queue":
        """Return the gauges of what queues hold, and may hold."""
        limit = "What it may be: its setting, or less if that would take too long."
        return Queue(self._gauge(name, what, *labels), self._gauge(f"{name}_limit", limit, *labels))

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
            registry.register(Processes(Path(shared)))
            with reading(Path(shared)):
                return generate_latest(registry)
        return generate_latest(registry)


@dataclass(frozen=True)
class Queue:
    """The gauges of what queues of one unit hold, and may hold."""

    held: Gauge
    limit: Gauge

    def show(self, held: int, limit: int, *labels: str) -> None:
        """Set both gauges, of the queue with these labels."""
        for gauge, value in ((self.held, held), (self.limit, limit)):
            (gauge.labels(*labels) if labels else gauge).set(value)

    def forget(self, *labels: str) -> None:
        """Remove the queue with these labels."""
        forget(self.held, *labels)
        forget(self.limit, *labels)


def forget(gauge: Gauge, *labels: str) -> None:
    """Remove a gauge with these labels; with several workers, where it cannot be removed, set it to 0."""
    gauge.labels(*labels).set(0)
    if SHARED_FOLDER_VARIABLE not in os.environ:
        gauge.remove(*labels)
