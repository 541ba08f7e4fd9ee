"""Numbers for Prometheus: what was asked, how long it took, and what the store has to say.

Where several processes serve one port they keep their numbers in files of one folder, so that any of them
tells of all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from simhbase.model import Lookup

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FOLDER = "PROMETHEUS_MULTIPROC_DIR"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
MATCHES = (0, 1, 2, 5, 10, 100, 1000)


class Metrics:
    """The numbers of one service."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._lock = threading.Lock()
        self._last: dict[str, int] = {}
        self._requests = Counter(
            "simhbase_requests",
            "Answers, by method, route and status.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "simhbase_request_seconds",
            "From the first byte of a request to the last of its answer.",
            ("route",),
            buckets=SECONDS,
            registry=self._registry,
        )
        self._matches = Histogram(
            "simhbase_lookup_matches", "Matches of a lookup.", buckets=MATCHES, registry=self._registry
        )
        self._truncated = Counter(
            "simhbase_truncated_lookups",
            "Lookups that a limit has cut.",
            registry=self._registry,
        )
        self._claims = Counter(
            "simhbase_claims", "Claims, by outcome.", ("outcome",), registry=self._registry
        )
        self._store = Counter(
            "simhbase_store",
            "What has happened to the store since it was opened: operations, retries and the like.",
            ("event",),
            registry=self._registry,
        )
        self._pending = Gauge(
            "simhbase_calls_pending",
            "Calls of the store that run, or wait for a thread.",
            multiprocess_mode="livesum",
            registry=self._registry,
        )
        self._waiting = Gauge(
            "simhbase_lookups_waiting",
            "Lookups that wait for the next read.",
            multiprocess_mode="livesum",
            registry=self._registry,
        )

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts an answer."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def looked_up(self, lookups: Iterable[Lookup]) -> None:
        """Counts lookups."""
        for lookup in lookups:
            self._matches.observe(len(lookup.matches))
            if lookup.truncated:
                self._truncated.inc()

    def claimed(self, outcomes: Iterable[str]) -> None:
        """Counts claims."""
        for outcome in outcomes:
            self._claims.labels(outcome).inc()

    def page(self, operations: Callable[[], Mapping[str, int]], pending: int, waiting: int) -> bytes:
        """All numbers, as Prometheus reads them. operations: what the store has counted since it was
        opened; pending: calls under way; waiting: lookups that wait for a read."""
        with self._lock:
            for name, number in operations().items():
                self._store.labels(name).inc(number - self._last.get(name, 0))
                self._last[name] = number
            self._pending.set(pending)
            self._waiting.set(waiting)
        return generate_latest(self._of_all_processes())

    def _of_all_processes(self) -> CollectorRegistry:
        if FOLDER not in os.environ:
            return self._registry
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the package has no types there
        return registry
