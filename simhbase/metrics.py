"""What an index measures while it works, for whom it wants to know.

    class Printed(simhbase.Metrics):
        def observe(self, name, value, **labels):
            print(name, labels, value)

    index = simhbase.open(url, metrics=Printed())

MEASURES has every name with what it counts, so that an adapter of a monitoring system is a loop over it
(docs/online.md has those of Prometheus and OpenTelemetry). What the store itself counts, retries and the
like, is in `Index.counters()`, for who asks now and then. An index without metrics measures nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Literal

Kind = Literal["count", "observe"]


class Metrics:
    """Is told what happens. These methods do nothing: a subclass has those that it needs.

    They are called by any thread, in the middle of the work: they should be quick, and what they raise ends
    the operation.
    """

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        """Something has happened so many times more. name: one of MEASURES."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """A number that varies, of which the distribution matters. name: one of MEASURES."""

    def span(self, operation: str, records: int) -> AbstractContextManager[object]:
        """Entered around an operation on so many records, for tracing; left with the error where it fails.
        operation: a label of the measure `seconds`. Operations may be within each other."""
        return nullcontext()


@dataclass(frozen=True, slots=True)
class Measure:
    """A number that metrics are told: by `count` or `observe`, what it says, and the names of its labels."""

    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


MEASURES: Mapping[str, Measure] = {
    "seconds": Measure(
        "observe",
        "Seconds that an operation took: fingerprint, find, add, delete, claim, or shared_read, which is all "
        "that SharedLookups does for those who share a read.",
        ("operation",),
    ),
    "errors": Measure(
        "count", "Operations that failed, by the name of the error's class.", ("operation", "error")
    ),
    "lookups": Measure("count", "Lookups that were answered; texts without a fingerprint are none."),
    "truncated_lookups": Measure("count", "Lookups that a limit has cut."),
    "drawer_rows": Measure("count", "Rows of drawers that lookups have read."),
    "largest_drawer": Measure("observe", "Rows of the largest drawer that a lookup has read."),
    "candidates": Measure("observe", "Fingerprints near that of a lookup, whose documents were looked at."),
    "documents": Measure(
        "count",
        "Documents that were to be stored: added, updated (new fingerprint), unchanged or rejected.",
        ("outcome",),
    ),
    "deleted": Measure("count", "Documents that were deleted."),
    "claims": Measure("count", "Claims: accepted, duplicate, rejected, conflict or undecided.", ("outcome",)),
    "claim_waits": Measure("count", "Waits of claims for others that are near them."),
    "leases_broken": Measure("count", "Claims of others that were ended, as nobody went on with them."),
    "shared_lookups": Measure("observe", "Lookups that one read of SharedLookups has served."),
    "queue_seconds": Measure("observe", "Seconds that a lookup has waited for a read of SharedLookups."),
    "overloaded": Measure("count", "Calls of SharedLookups that were refused, as too many waited."),
    "timed_out": Measure("count", "Calls of SharedLookups whose time was up."),
}


@contextmanager
def timed(metrics: Metrics | None, operation: str, records: int) -> Iterator[None]:
    """Measure an operation on so many records, and count the error that it ends with."""
    if metrics is None:
        yield
        return
    start = perf_counter()
    try:
        with metrics.span(operation, records):
            yield
    except Exception as error:
        metrics.count("errors", operation=operation, error=type(error).__name__)
        raise
    finally:
        metrics.observe("seconds", perf_counter() - start, operation=operation)


def count_by_outcome(metrics: Metrics | None, name: str, **numbers: int) -> None:
    """Counts under the label `outcome` what there is of each."""
    if metrics is not None:
        for outcome, number in numbers.items():
            if number:
                metrics.count(name, number, outcome=outcome)
