"""What an index tells its metrics, and where its messages go."""

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import simhbase
from simhbase import Document, Metrics, Profile, SharedLookups, UsageError
from simhbase.metrics import MEASURES
from tests.near import versions

TEXTS = list(versions(3))


class Recorded(Metrics):
    """Everything that was told."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.observed: dict[str, list[float]] = {}
        self.spans: list[tuple[str, int]] = []
        self.left: list[str] = []
        self.kinds: set[tuple[str, str, tuple[str, ...]]] = set()

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        self.kinds.add((name, "count", tuple(labels)))
        self.counts[" ".join([name, *labels.values()])] += by

    def observe(self, name: str, value: float, **labels: str) -> None:
        self.kinds.add((name, "observe", tuple(labels)))
        self.observed.setdefault(" ".join([name, *labels.values()]), []).append(value)

    @contextmanager
    def span(self, operation: str, records: int) -> Iterator[None]:
        self.spans.append((operation, records))
        try:
            yield
        except Exception as error:
            self.left.append(type(error).__name__)
            raise


@pytest.fixture
def metrics() -> Recorded:
    return Recorded()


@pytest.fixture
def index(metrics: Recorded) -> Iterator[simhbase.Index]:
    with simhbase.open("memory:", create=Profile(verify=False), metrics=metrics) as index:
        yield index


def test_documents_are_counted_by_what_became_of_them(index, metrics):
    index.add([Document(str(number), text) for number, text in enumerate(TEXTS[:3])])
    index.add([Document("0", TEXTS[4]), Document("1", TEXTS[1]), Document("2", ""), Document("", TEXTS[0])])
    assert index.delete(["0", "nobody"]) == 1
    assert metrics.counts == {
        "documents added": 3,
        "documents updated": 1,
        "documents unchanged": 1,
        "documents rejected": 2,
        "deleted": 1,
    }
    operations = [("fingerprint", 3), ("add", 3), ("fingerprint", 4), ("add", 3), ("delete", 2)]
    assert metrics.spans == operations
    assert {name: len(times) for name, times in metrics.observed.items()} == {
        "seconds fingerprint": 2,
        "seconds add": 2,
        "seconds delete": 1,
    }


def test_lookups_are_counted_with_what_they_read(metrics):
    with simhbase.open("memory:", create=Profile(verify=False), ids_limit=1, metrics=metrics) as index:
        index.add([Document("a", TEXTS[0]), Document("b", TEXTS[0]), Document("c", TEXTS[4])])
        (one,) = index.find_many([TEXTS[0]])
        assert one.truncated
        assert metrics.counts["drawer_rows"] == len(index.profile.index_scheme.layout.tables)
        index.find_many([TEXTS[0], TEXTS[4], TEXTS[8], ""])
        index.find_ids(["c"])
    assert metrics.counts["lookups"] == 5
    assert metrics.counts["truncated_lookups"] == 2
    assert metrics.observed["candidates"] == [1, 1, 1, 0, 1]
    assert metrics.observed["largest_drawer"] == [1, 1, 1, 0, 1]
    assert [span for span in metrics.spans if span[0] == "find"] == [("find", 1), ("find", 3), ("find", 1)]


def test_the_largest_drawer_of_each_lookup_is_told_as_far_as_it_was_read(metrics):
    with simhbase.open("memory:", create=Profile(verify=False), drawer_limit=2, metrics=metrics) as index:
        near, far = 0x0123456789ABCDEF, 0xFEDCBA9876543210
        index.add_fingerprints(["a", "b", "c", "d"], [near, near ^ 1, near ^ 2, far])
        index.find_fingerprints([near])
        index.find_fingerprints([far, near, near, near ^ 0x5555555555555555])
    assert metrics.observed["largest_drawer"] == [2, 1, 2, 2, 0]


def test_claims_are_counted_by_their_outcome(index, metrics):
    claims = index.claim_many(
        [Document("a", TEXTS[0]), Document("b", TEXTS[0]), Document("c", ""), Document("d", TEXTS[4])]
    )
    assert [claim.outcome for claim in claims] == ["accepted", "duplicate", "rejected", "accepted"]
    with pytest.raises(simhbase.Conflict):
        index.claim("a", TEXTS[4])
    assert metrics.counts == {
        "claims accepted": 2,
        "claims duplicate": 1,
        "claims rejected": 1,
        "claims conflict": 1,
    }
    assert [span for span in metrics.spans if span[0] == "claim"] == [("claim", 3), ("claim", 1)]


def test_errors_are_counted_and_leave_the_span(index, metrics):
    with pytest.raises(UsageError):
        index.find(TEXTS[0], k=9)
    assert metrics.counts["errors find UsageError"] == 1
    assert metrics.left == ["UsageError"]
    assert len(metrics.observed["seconds find"]) == 1


def test_shared_reads_tell_how_many_they_served_and_how_long_these_waited(index, metrics):
    index.add([Document("a", TEXTS[0])])
    with SharedLookups(index, queue=1) as shared:
        look_up, opened, arrived = index.find_texts, threading.Event(), threading.Event()

        def wait(*arguments):
            arrived.set()
            opened.wait(30)
            return look_up(*arguments)

        index.find_texts = wait  # type: ignore[method-assign]  # of this one
        callers = [threading.Thread(target=shared.find, args=(text,)) for text in TEXTS[:2]]
        callers[0].start()
        arrived.wait(30)
        with pytest.raises(simhbase.TimedOut):
            shared.find(TEXTS[1], timeout=0.01)
        callers[1].start()
        while not shared._queue.records:
            time.sleep(0.001)
        with pytest.raises(simhbase.Overloaded):
            shared.find_many(TEXTS[:2])
        opened.set()
        for caller in callers:
            caller.join()
        shared.find_many(TEXTS[:3])
    assert metrics.observed["shared_lookups"] == [1, 1, 3]
    assert len(metrics.observed["queue_seconds"]) == 3
    assert metrics.counts["overloaded"] == metrics.counts["timed_out"] == 1
    assert metrics.spans[-3:] == [("shared_read", 3), ("fingerprint", 3), ("find", 3)]


def test_metrics_that_fail_leave_nobody_waiting():
    class Broken(Metrics):
        def observe(self, name: str, value: float, **labels: str) -> None:
            raise RuntimeError("no disk for figures")

    with (
        simhbase.open("memory:", create=Profile(verify=False), metrics=Broken()) as index,
        SharedLookups(index) as shared,
    ):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="no disk for figures"):
                shared.find(TEXTS[0], timeout=30)


def test_what_is_told_is_what_the_table_of_measures_says(index, metrics):
    test_errors_are_counted_and_leave_the_span(index, metrics)
    index.claim("c", TEXTS[8])
    index.add([Document("a", TEXTS[0]), Document("b", "")])
    index.delete(["a"])
    test_shared_reads_tell_how_many_they_served_and_how_long_these_waited(index, metrics)
    for name, kind, labels in metrics.kinds:
        assert (MEASURES[name].kind, MEASURES[name].labels) == (kind, labels), name


def test_metrics_as_they_are_do_nothing():
    with simhbase.open("memory:", create=Profile(verify=False), metrics=Metrics()) as index:
        index.add([Document("a", TEXTS[0])])
        assert [match.id for match in index.find(TEXTS[0]).matches] == ["a"]


WARNING = "from simhbase.stores.hbase import pool; pool.log.warning('a gateway rests')"


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        (WARNING, ""),
        (f"import logging; logging.basicConfig(format='%(name)s: %(message)s'); {WARNING}", "simhbase."),
        (
            f"from simhbase.cli import cli; cli(['loads', '-h'], standalone_mode=False); {WARNING}",
            "a gateway",
        ),
    ],
    ids=["library", "application", "command line"],
)
def test_messages_go_where_the_application_says(program, shown):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.startswith(shown)
    assert len(done.stderr.splitlines()) == bool(shown)
