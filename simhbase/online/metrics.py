"""Prometheus metrics of the service, its index and its store.

Several processes on one port keep their metrics in files of one folder, so each can report the sum.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from simhbase.metrics import MEASURES, Measure, Metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FOLDER = "PROMETHEUS_MULTIPROC_DIR"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
NUMBERS = (0, 1, 2, 5, 10, 20, 50, 100, 1_000, 10_000, 100_000)

# By name: how values of several processes are combined, and a description.
GAUGES: Mapping[str, tuple[Literal["livesum", "livemax"], str]] = {
    "calls_pending": ("livesum", "Calls of the store running or waiting for a thread."),
    "lookups_waiting": ("livesum", "Lookups waiting for the next read."),
    "connections_allowed": ("livesum", "Maximum number of connections to the store's servers."),
    "connections_in_use": ("livesum", "Connections to the store's servers in use or being opened."),
    "connections_waiting": ("livesum", "Calls waiting for a connection to an HBase gateway."),
    "cache_bytes": ("livesum", "Capacity of the caches of embedded stores, in bytes."),
    "cache_used_bytes": ("livesum", "Size of the caches of embedded stores, in bytes."),
    "oldest_claim_seconds": ("livemax", "Age of the oldest running claim, in seconds."),
}


class ServiceMetrics(Metrics):
    """Metrics of one process; those of its index are in simhbase.metrics.MEASURES."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._lock = threading.Lock()
        self._last: dict[str, int] = {}
        self._counts = {
            name: Counter(f"simhbase_{name}", each.help, each.labels, registry=self._registry)
            for name, each in MEASURES.items()
            if each.kind == "count"
        }
        self._observed = {
            name: self._histogram(name, each) for name, each in MEASURES.items() if each.kind == "observe"
        }
        requests = Measure("count", "Answers, by method, route and status.", ("method", "route", "status"))
        self._requests = Counter("simhbase_requests", requests.help, requests.labels, registry=self._registry)
        self._seconds = self._histogram(
            "request_seconds", Measure("observe", "Seconds until a request was answered.", ("route",))
        )
        self._store = Counter(
            "simhbase_store",
            "Counts of the store since it was opened: operations, retries etc.",
            ("event",),
            registry=self._registry,
        )
        self._gauges = {
            name: Gauge(f"simhbase_{name}", text, multiprocess_mode=mode, registry=self._registry)
            for name, (mode, text) in GAUGES.items()
        }

    def _histogram(self, name: str, measure: Measure) -> Histogram:
        buckets = SECONDS if "seconds" in name else NUMBERS
        return Histogram(
            f"simhbase_{name}", measure.help, measure.labels, buckets=buckets, registry=self._registry
        )

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        counter = self._counts[name]
        (counter.labels(**labels) if labels else counter).inc(by)

    def observe(self, name: str, value: float, **labels: str) -> None:
        histogram = self._observed[name]
        (histogram.labels(**labels) if labels else histogram).observe(value)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def page(self, counters: Mapping[str, int], gauges: Mapping[str, float]) -> bytes:
        """All metrics in Prometheus format. counters: of the store since it was opened; gauges: current
        values, by the names in GAUGES."""
        with self._lock:
            for name, number in counters.items():
                self._store.labels(name).inc(number - self._last.get(name, 0))
                self._last[name] = number
        for name, value in gauges.items():
            self._gauges[name].set(value)
        if FOLDER not in os.environ:
            return generate_latest(self._registry)
        all_processes = CollectorRegistry()
        MultiProcessCollector(all_processes)  # type: ignore[no-untyped-call]  # the package has no types there
        return generate_latest(all_processes)


def remove_gauges(process: int | None, folder: str) -> None:
    """Take the gauges of a process that died out of those of all processes. Its counts stay."""
    mark_process_dead(process, folder)  # type: ignore[no-untyped-call]  # the package has no types there
