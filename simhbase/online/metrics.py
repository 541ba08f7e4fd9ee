"""Numbers for Prometheus: what was asked of the service, and what its index and store did.

Where several processes serve one port they keep their numbers in files of one folder, so that any of them
tells of all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from simhbase.metrics import MEASURES, Measure, Metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FOLDER = "PROMETHEUS_MULTIPROC_DIR"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
NUMBERS = (0, 1, 2, 5, 10, 20, 50, 100, 1_000, 10_000, 100_000)

# By name: how those of several processes become one, and what they are.
GAUGES: Mapping[str, tuple[Literal["livesum", "livemax"], str]] = {
    "calls_pending": ("livesum", "Calls of the store that run, or wait for a thread."),
    "lookups_waiting": ("livesum", "Lookups that wait for the next read."),
    "connections_allowed": ("livesum", "Connections to HBase's gateways that there may be."),
    "connections_in_use": ("livesum", "Connections to HBase's gateways that calls use, or open."),
    "connections_waiting": ("livesum", "Calls that wait for a connection to HBase's gateways."),
    "cache_bytes": ("livesum", "Bytes that the caches of embedded stores may take."),
    "cache_used_bytes": ("livesum", "Bytes that they take."),
    "oldest_claim_seconds": ("livemax", "Seconds that the oldest claim under way has taken so far."),
}


class ServiceMetrics(Metrics):
    """The numbers of one process; see simhbase.metrics.MEASURES for those of its index."""

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
            "What has happened to the store since it was opened: operations, retries and the like.",
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
        """All numbers, as Prometheus reads them. counters: what the store has counted since it was opened;
        gauges: what is under way, by the names of GAUGES."""
        with self._lock:
            for name, number in counters.items():
                self._store.labels(name).inc(number - self._last.get(name, 0))
                self._last[name] = number
        for name, value in gauges.items():
            self._gauges[name].set(value)
        return generate_latest(self._of_all_processes())

    def _of_all_processes(self) -> CollectorRegistry:
        if FOLDER not in os.environ:
            return self._registry
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the package has no types there
        return registry
