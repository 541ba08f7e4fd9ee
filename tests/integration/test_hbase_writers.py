"""Many writers on a real HBase: ids that they share, clocks that differ, and what goes on beside them."""

import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.synchronize import Event
from pathlib import Path

import happybase
import numpy as np
import pytest

from simhbase.admin.check import STRAY_LISTING, STRAY_ROW, Checker
from simhbase.admin.vacuum import DAY, Vacuum
from simhbase.errors import ProfileMismatch, TableDisabled, TablesMissing
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.index.rows import document_key
from simhbase.index.stored_profile import write_profile
from simhbase.index.writer import CHANCE, DocumentBatch, Writer
from simhbase.profile.profile import Profile, make_profile
from simhbase.stores import drop_store, open_store
from simhbase.stores.base import now
from simhbase.stores.hbase import HBaseBackend, clocks
from simhbase.stores.hbase.schema import Options
from tests.cluster import Cluster
from tests.command_line import COMMAND, environment
from tests.content import content
from tests.history import (
    Ahead,
    History,
    Journal,
    Sharing,
    assert_settled,
    assert_shown,
    look_up,
    sharing,
    with_clock,
    write,
)
from tests.kept import repaired, rows_for, rows_of, vacuumed
from tests.load import Load, Processes, changing
from tests.selection import load_unique
from tests.stopping import Crash, Stopping

pytestmark = pytest.mark.hbase

PROFILE = Profile(verify=False)
SCHEME = PROFILE.index_scheme
F = 0x0123456789ABCDEF
HOUR = 3_600_000  # milliseconds
DOCUMENTS = 24  # that writers share
STEP = 50  # lines

Report = Callable[[str, object], None]


@pytest.fixture
def url(servers: Cluster) -> str:
    url = servers.empty_store("writers")
    with closing(open_store(url, "write")) as store:
        write_profile(store, PROFILE)
    return url


@pytest.fixture
def index(url: str) -> Iterator[Index]:
    with open_index(url) as index:
        yield index


def create(url: str, profile: Profile = PROFILE, regions: int = 1, ttl: int | None = None) -> str:
    """Makes tables anew."""
    with suppress(TablesMissing):
        drop_store(url)
    HBaseBackend(url).make(Options(regions=regions, ttl=ttl))
    with closing(open_store(url, "write")) as store:
        write_profile(store, profile)
    return url


def add(index: Index, documents: dict[str, int]) -> object:
    return index.add_fingerprints(list(documents), np.fromiter(documents.values(), np.uint64))


def found(index: Index, fingerprint: int) -> list[tuple[str, int]]:
    (lookup,) = index.find_fingerprints([fingerprint])
    return [(match.id, match.fingerprint) for match in lookup.matches]


# Ids that writers share


class Writers(Processes):
    """Writers that share ids, and two processes that look up meanwhile. aheads: of each writer's clock, in
    milliseconds; earlier: journals of what was written to the same documents before."""

    def __init__(
        self, what: Sharing, folder: Path, aheads: Sequence[int], earlier: Sequence[Journal] = ()
    ) -> None:
        self.what = what
        numbers = range(len(earlier), len(earlier) + len(aheads))
        own = [Journal(folder / f"writer-{number}") for number in numbers]
        self.writers, self.journals = len(own), [*earlier, *own]
        self.lookups = [Journal(folder / f"lookups-{number}") for number in range(2)]
        super().__init__(
            [
                *(partial(write, what, *each) for each in zip(own, numbers, aheads, strict=True)),
                *(partial(look_up, what, journal) for journal in self.lookups),
            ]
        )

    def history(self) -> History:
        return History.of(self.journals)

    def go_on(self, lines: int) -> None:
        """Returns when each process has noted so many lines from now on: two an operation, one a lookup."""
        begun = {each: each.size for each in (*self.journals[-self.writers :], *self.lookups)}
        for step in range(STEP, lines + STEP, STEP):  # on a slow machine all take long, and all get on

            def are_on(goal: int = min(step, lines)) -> bool:
                return all(each.size >= size + goal for each, size in begun.items())

            self.wait_until(are_on)

    def assert_right(self, index: Index) -> dict[str, int]:
        """When they have stopped: nothing is lost, nothing too much, and no lookup was wrong."""
        history = self.history()
        shown = sum(assert_shown(self.what, history, journal) for journal in self.lookups)
        stored = assert_settled(self.what, history, index)
        assert history.acknowledged > len(self.what.documents)
        assert shown > 0
        assert stored  # else it would not say much
        return stored


def assert_kept_when_all_is_cleaned(index: Index, stored: dict[str, int]) -> None:
    """A vacuum and a repair leave what the stored documents need, and nothing else."""
    assert Checker(index.store, SCHEME).check().clean
    vacuumed(index.store, SCHEME)
    assert repaired(index.store, SCHEME).clean
    assert rows_of(index.store) == rows_for(PROFILE, stored)


def share_ids(
    url: str, folder: Path, index: Index, note: Report, *, aheads: Sequence[int], lines: int
) -> None:
    with Writers(sharing(url, DOCUMENTS), folder, aheads) as processes:
        processes.go_on(lines)
        processes.stop()
        stored = processes.assert_right(index)
    note("operations on shared ids", processes.history().acknowledged)
    assert_kept_when_all_is_cleaned(index, stored)
    processes.assert_right(index)


def test_each_of_the_ids_that_writers_share_is_found_as_the_last_of_them_left_it(
    url, tmp_path, index, record_property
):
    """Also where their clocks are an hour apart."""
    share_ids(url, tmp_path, index, record_property, aheads=[0, 0, -HOUR // 2, HOUR // 2], lines=150)


@pytest.mark.full
@pytest.mark.parametrize("round_", range(3))
def test_each_of_the_ids_that_eight_writers_share_is_found_as_the_last_of_them_left_it(
    url, tmp_path, index, record_property, round_
):
    share_ids(url, tmp_path, index, record_property, aheads=[0] * 8, lines=1_500)


def test_what_is_deleted_and_added_again_at_once_is_found_a_thousand_times(index):
    chance = random.Random(5)
    ids = [f"again/{number}" for number in range(60)]
    for _ in range(20):
        documents = {document: chance.getrandbits(64) for document in ids}
        add(index, documents)
        assert index.delete(ids) == len(ids)
        assert index.fingerprints(ids) == [None] * len(ids)
        add(index, documents)
        lookups = index.find_fingerprints(list(documents.values()))
        assert [[match.id for match in lookup.matches] for lookup in lookups] == [[name] for name in ids]


# Clocks


@pytest.mark.parametrize("ahead", [HOUR, 0])
def test_what_a_clock_that_is_ahead_has_written_is_moved_deleted_and_added_again_at_once(url, index, ahead):
    with open_index(url) as other:
        with_clock(other, Ahead(ahead))
        for number in range(5):
            name = f"{ahead}/{number}"
            add(other, {name: F})
            add(index, {name: F ^ 1})
            assert (name, F ^ 1) in found(index, F)
            assert index.delete([name]) == 1
            assert name not in dict(found(other, F))
            add(index, {name: F})
            assert (name, F) in found(other, F)
            assert (other.delete([name]), index.delete([name])) == (1, 0)
            assert name not in dict(found(index, F))
            add(index, {name: F ^ 2})
            assert (name, F ^ 2) in found(index, F)
        (cell,) = index.store.records("documents").get([document_key(f"{ahead}/0")])
        assert abs(cell.version - now() - ahead) < HOUR / 4


@pytest.mark.parametrize(("difference", "word"), [(-300_000, "behind"), (300_000, "ahead")])
def test_versions_go_by_the_servers_clock(url, monkeypatch, caplog, difference, word):
    monkeypatch.setattr(clocks, "now", lambda: now() + difference)
    with open_index(url) as index:
        assert f"this machine's clock is 300 s {word} of HBase's: set the clocks with NTP" in caplog.text
        before = now()
        add(index, {"a": F})
        (cell,) = index.store.records("documents").get([document_key("a")])
        assert before - 1000 < cell.version < now() + CHANCE + 1000


# Checks and repairs beside writers


def change_at_random(what: Sharing, journal: Journal, index: Index) -> None:
    """Writes and deletes the documents again and again, which leaves much behind."""
    chance = random.Random(11)
    for number in range(20):
        journal.perform(index, {document: chance.choice(what.fingerprints) for document in what.all})
        if number % 4 == 0:
            journal.perform(index, dict.fromkeys(chance.sample(what.documents, 8)))


def keep_checking(what: Sharing, repair: bool, before: int | None, journal: Journal, stop: Event) -> None:
    """Checks again and again; `before`, in milliseconds, is when what is old was written, at the latest."""
    with open_index(what.url) as index:
        checker = Checker(index.store, SCHEME, repair=repair)
        if before is not None:
            checker = replace(checker, clock=lambda: before + DAY * 1000)
        while not stop.is_set():
            report = checker.check()
            assert report.clean, report
            journal.note(report.documents, sum(report.garbage.values()))


@pytest.mark.full
@pytest.mark.parametrize("repair", [False, True], ids=["check", "check --repair"])
def test_a_check_beside_writers_finds_no_problem_and_reverts_nothing(url, tmp_path, index, repair):
    what = sharing(url, DOCUMENTS)
    earlier = Journal(tmp_path / "earlier")  # leaves hints that lead nowhere
    change_at_random(what, earlier, index)
    journals = [Journal(tmp_path / f"checks-{number}") for number in range(2)]
    checks = [
        partial(keep_checking, what, repair, before, journal)
        for before, journal in zip((None, now()), journals, strict=True)
    ]
    with Writers(what, tmp_path, [0] * 3, [earlier]) as processes, Processes(checks) as checking:
        processes.go_on(100)
        checking.wait_until(lambda: all(journal.size > 1 for journal in journals))
        checking.stop()
        processes.stop()
        stored = processes.assert_right(index)
    assert_kept_when_all_is_cleaned(index, stored)


# Vacuums beside writers


def keep_vacuuming(what: Sharing, clock: Callable[[], int], journal: Journal, stop: Event) -> None:
    with open_index(what.url) as index:
        while not stop.is_set():
            report = Vacuum(index.store, SCHEME, clock=clock).run()
            journal.note(
                report.looked_at,
                report.listings,
                report.index_rows,
                report.deleted_documents,
                report.too_young,
            )


@dataclass(frozen=True)
class DayAfter:
    """A clock that is a day ahead of a moment."""

    moment: int

    def __call__(self) -> int:
        return self.moment + DAY * 1000


@pytest.mark.full
def test_vacuums_remove_what_is_obsolete_beside_writers_of_the_same_documents(url, tmp_path, index):
    """And of others, whose hints lead to the same fingerprints."""
    what = sharing(url, DOCUMENTS, groups=200)
    what = replace(what, still=tuple(f"still {document}" for document in what.documents))
    earlier = Journal(tmp_path / "earlier")
    change_at_random(what, earlier, index)
    earlier.perform(index, dict.fromkeys(what.still[::2]))
    time.sleep(CHANCE / 1000)  # versions may be so much later than the clock
    journals = [Journal(tmp_path / f"vacuum-{number}") for number in range(2)]
    vacuums = [partial(keep_vacuuming, what, DayAfter(now()), journal) for journal in journals]
    with Writers(what, tmp_path, [0] * 3, [earlier]) as processes, Processes(vacuums) as vacuuming:
        processes.go_on(100)
        vacuuming.wait_until(lambda: all(journal.size > 1 for journal in journals))
        vacuuming.stop()
        processes.stop()
        stored = processes.assert_right(index)
    removed = np.array([line for journal in journals for line in journal.lines()])[:, 1:4].sum(axis=0)
    assert (removed > 0).all(), f"listings, index rows, tombstones: {removed}"
    assert_kept_when_all_is_cleaned(index, stored)


@pytest.mark.full
def test_vacuums_of_all_that_is_older_than_some_seconds_lose_nothing_beside_writers(url, tmp_path, index):
    """As if that were their grace time, which is longer than what is under way takes here."""
    what, seconds = sharing(url, 1_000, groups=400), 10
    journals = [Journal(tmp_path / f"vacuum-{number}") for number in range(2)]
    clock = Ahead((DAY - seconds) * 1000)
    vacuums = [partial(keep_vacuuming, what, clock, journal) for journal in journals]
    with Writers(what, tmp_path, [0] * 4) as processes, Processes(vacuums) as vacuuming:
        processes.go_on(3_000)
        vacuuming.stop()
        processes.stop()
        longest = processes.history().longest
        assert longest < seconds, f"an operation took {longest:.0f} s: this machine is too slow for this test"
        stored = processes.assert_right(index)
    removed = np.array([line for journal in journals for line in journal.lines()])[:, 1:4].sum(axis=0)
    assert (removed > 0).all(), f"listings, index rows, tombstones: {removed}"
    assert_kept_when_all_is_cleaned(index, stored)


def test_a_vacuum_leaves_exactly_what_the_stored_documents_need(index):
    chance = random.Random(7)
    fingerprints = [chance.getrandbits(64) for _ in range(400)]
    stored: dict[str, int] = {}
    for _ in range(4):
        changed = {f"v/{number}": chance.choice(fingerprints) for number in chance.sample(range(300), 60)}
        add(index, changed)
        stored |= changed
        gone = chance.sample(sorted(stored), 20)
        assert index.delete(gone) == 20
        stored = {document: value for document, value in stored.items() if document not in gone}
    assert rows_of(index.store) != rows_for(PROFILE, stored)
    report = vacuumed(index.store, SCHEME)
    assert rows_of(index.store) == rows_for(PROFILE, stored)
    assert report.listings > 0
    assert report.index_rows > 0
    assert report.deleted_documents > 0
    assert report.too_young == 0
    assert vacuumed(index.store, SCHEME).looked_at == 0


# Documents that move while they are looked up


def keep_moving(url: str, document: str, journal: Journal, stop: Event) -> None:
    with open_index(url) as index:
        for number in range(1_000_000):
            if stop.is_set():
                return
            add(index, {document: F ^ 1 if number % 2 else F})
            journal.note(number)


@pytest.mark.parametrize(
    "thrift2", [True, pytest.param(False, marks=pytest.mark.full)], ids=["one scan", "a scan a drawer"]
)
def test_a_document_that_moves_beside_another_of_its_fingerprint_is_always_found_once(
    url, tmp_path, record_property, thrift2
):
    found_by = url if thrift2 else url.partition("?")[0]
    with open_index(found_by) as index:
        add(index, {"x": F, "y": F})
        journal = Journal(tmp_path / "moves")
        lookups = 0
        with Processes([partial(keep_moving, url, "x", journal)]) as moving:
            moving.wait_until(lambda: journal.size > 0)
            while lookups < 200 or journal.size < 100:
                moving.require_life()
                for query in (F, F ^ 1, F ^ 6):
                    by_id = found(index, query)
                    assert sorted(document for document, _ in by_id) == ["x", "y"], by_id
                    assert dict(by_id)["y"] == F
                unique = load_unique(index, ["y"], FingerprintBatch.bare(np.array([F], dtype=np.uint64)))
                (near,) = unique.duplicate_of
                assert near is not None, "a document that moved was missed"
                assert near.id == "x"
                lookups += 4
            moving.stop()
    record_property("lookups of a moving document", f"{lookups}, {journal.size} moves")


# Crashes


@pytest.mark.full  # tests/property crashes it everywhere, on a simulated store
@pytest.mark.parametrize("torn", [False, True], ids=["between calls", "within a call"])
def test_a_writer_that_crashes_leaves_no_document_without_rows(index, torn):
    """At any of its calls; and all that it leaves is garbage, which a repair removes."""
    crashes = 0
    stored: dict[str, int] = {}
    for deletes in (False, True):
        for calls in range(10):
            names = [f"{deletes}{calls}/{number}" for number in range(5)]
            before = dict(zip(names, [F, F, F ^ 1, ~F & (1 << 64) - 1], strict=False))
            after = dict(zip([*names[:3], names[4]], [F ^ 3, F ^ 3, F ^ 1, F ^ 4], strict=True))
            add(index, before)
            stopping = Writer(Stopping(index.store, calls, torn=torn), SCHEME)  # type: ignore[arg-type]
            try:
                if deletes:
                    stopping.delete(list(after))
                else:
                    stopping.add(
                        DocumentBatch(
                            list(after), FingerprintBatch.bare(np.fromiter(after.values(), np.uint64))
                        )
                    )
            except Crash:
                crashes += 1
            values = zip(names, index.fingerprints(names), strict=True)
            left = {document: value for document, value in values if value is not None}
            stored |= left
            for document, value in left.items():
                assert value in (before.get(document), after.get(document))
                assert (document, value) in found(index, value)
            assert {each for query in (F, F ^ 7) for each in found(index, query)} <= set(stored.items())
            assert Checker(index.store, SCHEME).check().clean
    assert crashes >= 7
    report = repaired(index.store, SCHEME)
    assert report.clean
    assert report.garbage[STRAY_LISTING] > 0
    assert report.garbage.keys() <= {STRAY_LISTING, STRAY_ROW}
    vacuumed(index.store, SCHEME)
    assert rows_of(index.store) == rows_for(PROFILE, stored)


# Tables with a time to live


def test_a_document_that_is_loaded_again_lives_on_and_another_vanishes(servers):
    minute = 60_000
    url = create(servers.url("passing"), ttl=3600)
    with open_index(url) as index:

        def add_earlier(minutes: int, *documents: str) -> None:
            report = add(with_clock(index, Ahead(-minutes * minute)), dict.fromkeys(documents, F))
            assert report.stored == len(documents)

        def version() -> int:
            (cell,) = index.store.records("documents").get([document_key("kept")])
            return cell.version

        add_earlier(61, "left")
        add_earlier(50, "kept")
        first = version()
        add_earlier(45, "kept")
        assert version() == first
        add_earlier(30, "kept")
        assert version() >= first + 19 * minute
        assert found(index, F) == [("kept", F)]
        assert index.fingerprints(["kept", "left"]) == [F, None]
        report = Checker(index.store, SCHEME).check()
        assert report.clean, report
        assert (report.documents, report.listings) == (1, 1)
        add_earlier(0, "left")
        assert found(index, F) == [("kept", F), ("left", F)]


# Tables that are dropped, or made anew


OTHER = make_profile({"layout": "6x3"})


@pytest.fixture
def replaced(servers: Cluster) -> str:
    """The URL of an index that a test may drop."""
    return create(servers.url("replaced"))


def test_an_open_index_whose_tables_are_dropped_or_made_anew_stops(replaced, monkeypatch):
    with open_index(replaced) as index, open_index(replaced) as idle:
        add(index, {"a": F})
        drop_store(replaced)
        for operation in (lambda: add(index, {"b": F}), lambda: found(index, F), lambda: index.delete(["a"])):
            with pytest.raises(TablesMissing):
                operation()
        create(replaced, OTHER)
        monkeypatch.setattr("simhbase.index.index.LOOKED_AT", 0)  # seconds until it looks again
        for _ in range(2):
            for opened in (index, idle):
                for operation in (
                    lambda opened=opened: add(opened, {"b": F}),
                    lambda opened=opened: found(opened, F),
                    lambda opened=opened: opened.delete(["a"]),
                ):
                    with pytest.raises(ProfileMismatch, match="dropped and recreated"):
                        operation()
    with open_index(replaced) as index:
        assert not any(content(index.store)[table] for table in ("documents", "index", "fingerprints"))


def wait_for_documents(index: Index, loading: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not index.store.records("documents").scan([b""], 1)[0]:
        assert time.monotonic() < deadline
        assert loading.poll() is None
        time.sleep(0.1)


@pytest.mark.parametrize(
    "anew", [True, pytest.param(False, marks=pytest.mark.full)], ids=["made anew", "dropped"]
)
def test_a_load_whose_tables_go_does_not_say_that_documents_are_kept(replaced, tmp_path, anew):
    chance = random.Random(3)
    lines = [f'{{"id": "l{number}", "f": "{chance.getrandbits(64):016x}"}}\n' for number in range(24_000)]
    command = [*COMMAND, "load", "-", "--fingerprint-field", "f", "--store", replaced]
    loading = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with loading, open_index(replaced, access="read") as index:
        loading.stdin.write("".join(lines[:16_000]))
        loading.stdin.flush()
        wait_for_documents(index, loading)
        if anew:
            loading.send_signal(signal.SIGSTOP)  # what it writes into tables without a profile is damage
            create(replaced, OTHER)
            loading.send_signal(signal.SIGCONT)
        else:
            drop_store(replaced)
        out, said = loading.communicate("".join(lines[16_000:]), timeout=120)
    # It may still write when the first table goes, and meets them disabled, missing or made anew.
    ends = {
        TableDisabled: "which are available again when the table is enabled, unless it is dropped",
        TablesMissing: "which may be lost with the tables",
    }
    if anew:
        ends[ProfileMismatch] = ends[TablesMissing]
    assert loading.returncode in {error.exit_code for error in ends}, said
    assert "kept" not in out + said
    assert any(end in said for error, end in ends.items() if error.exit_code == loading.returncode), said


def test_a_load_whose_table_is_disabled_says_when_documents_are_there_again(replaced, servers, tmp_path):
    chance = random.Random(4)
    lines = "".join(
        f'{{"id": "d{number}", "f": "{chance.getrandbits(64):016x}"}}\n' for number in range(24_000)
    )
    # A gateway asks for the regions again and again; what this has taken is said when the time is over.
    store = f"{replaced}&timeout=10"
    command = [*COMMAND, "load", "-", "--fingerprint-field", "f", "--store", store]
    loading = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with loading, open_index(replaced, access="read") as index:
        most, part = len(lines) * 2 // 3, len(lines) // 32
        for begin in range(0, most, part):  # what it has done waits for its next lines, where threads work
            loading.stdin.write(lines[begin : begin + part])
            loading.stdin.flush()
            time.sleep(0.05)
        wait_for_documents(index, loading)
        with closing(happybase.Connection(*servers.gateway, timeout=60_000)) as connection:
            connection.disable_table("replaced_documents")
        said = loading.communicate(lines[begin + part :], timeout=120)[1]
    assert loading.returncode == TableDisabled.exit_code
    assert "replaced_documents is disabled: in the hbase shell, enable 'replaced_documents'" in said
    assert "which are available again when the table is enabled, unless it is dropped" in said


# Regions that split and merge


RESHAPING = Path(__file__).parent / "reshape.rb"


@pytest.mark.full
@pytest.mark.hbase_cluster
def test_regions_that_split_and_merge_under_load_lose_no_row(servers, tmp_path, record_property):
    url = create(servers.url("reshaped"), regions=6)
    with Load(url, tmp_path, changing) as load:
        load.go_on(2)
        start = time.monotonic()
        said = servers.shell(RESHAPING.read_text())
        took = time.monotonic() - start
        load.go_on(2)
        load.stop()
        stalls = load.stalls(start)
        with open_index(url) as index:
            stored = load.acknowledged()
            for queries in np.array_split(np.fromiter(stored.values(), np.uint64), 20):
                for lookup in index.find_fingerprints(queries):
                    matches = {match.id: match.fingerprint for match in lookup.matches}
                    assert matches.items() <= stored.items()
                    assert lookup.fingerprint in matches.values()
            assert index.fingerprints(load.deleted()) == [None] * len(load.deleted())
            assert_kept_when_all_is_cleaned(index, stored)
    assert "split 6 times, merged 6 times" in said
    record_property(
        "regions that split and merge",
        f"within {took:.0f} s, writes took up to {stalls.longest_write} s (usually {stalls.usual_write}), "
        f"lookups {stalls.longest_lookup} s ({stalls.usual_lookup})",
    )
