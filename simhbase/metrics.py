"""Measurements of an index, for monitoring systems.

    class Printed(simhbase.Metrics):
        def observe(self, name, value, **labels):
            print(name, labels, value)

    index = simhbase.open(url, metrics=Printed())

MEASURES lists all names with help and labels, so an adapter is a loop over it (docs/online.md has adapters
for Prometheus and OpenTelemetry). `Index.counters()` has the counts of the store itself, such as retries.
Without metrics, nothing is measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Literal


class Metrics:
    """Base class that does nothing; override the methods you need.

    They are called from any thread, during the operation: they should be fast, and what they raise aborts the
    operation.
    """

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        """Add `by` to a counter. name: one of MEASURES."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Record a value of a distribution. name: one of MEASURES."""

    def span(self, operation: str, records: int) -> AbstractContextManager[object]:
        """A context manager around an operation on a number of records, for tracing; exited with the error if
        it fails. operation: as in the label of the measure `seconds`. Operations may be nested."""
        return nullcontext()


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure, recorded by `count` or `observe`, with its help and label names."""

    kind: Literal["count", "observe"]
    help: str
    labels: tuple[str, ...] = ()


MEASURES: Mapping[str, Measure] = {
    "seconds": Measure(
        "observe",
        "Duration of an operation: fingerprint, find, add, delete, claim, or shared_read (a read of "
        "SharedLookups with all its work).",
        ("operation",),
    ),
    "errors": Measure("count", "Failed operations, by class of the error.", ("operation", "error")),
    "lookups": Measure("count", "Lookups, without texts that have no fingerprint."),
    "truncated_lookups": Measure("count", "Truncated lookups."),
    "drawer_rows": Measure("count", "Drawer rows read by lookups."),
    "largest_drawer": Measure("observe", "Rows of the largest drawer read by a lookup."),
    "candidates": Measure("observe", "Fingerprints near a lookup's, whose documents were read."),
    "documents": Measure(
        "count",
        "Documents to be stored: added, updated (new fingerprint), unchanged or rejected.",
        ("outcome",),
    ),
    "deleted": Measure("count", "Deleted documents."),
    "claims": Measure("count", "Claims: accepted, duplicate, rejected, conflict or undecided.", ("outcome",)),
    "claim_waits": Measure("count", "Times that a claim waited for claims of near texts."),
    "leases_broken": Measure("count", "Abandoned claims of others that were ended."),
    "shared_lookups": Measure("observe", "Lookups served by a read of SharedLookups."),
    "queue_seconds": Measure("observe", "Time that a lookup waited for a read of SharedLookups."),
    "overloaded": Measure("count", "Calls of SharedLookups refused because too many were waiting."),
    "timed_out": Measure("count", "Calls of SharedLookups that timed out."),
}


def timed(metrics: Metrics | None, operation: str, records: int) -> AbstractContextManager[None]:
    """Measure an operation on a number of records, and count its error."""
    return nullcontext() if metrics is None else _measured(metrics, operation, records)


@contextmanager
def _measured(metrics: Metrics, operation: str, records: int) -> Iterator[None]:
    start = perf_counter()
    try:
        with metrics.span(operation, records):
            yield
    except Exception as error:
        metrics.count("errors", operation=operation, error=type(error).__name__)
        raise
    finally:
        metrics.observe("seconds", perf_counter() - start, operation=operation)


def count_documents(metrics: Metrics | None, **numbers: int) -> None:
    """Count documents by outcome."""
    if metrics is not None:
        for outcome, number in numbers.items():
            if number:
                metrics.count("documents", number, outcome=outcome)
