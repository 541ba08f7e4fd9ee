"""Servers that are killed or hang under load, and loaders that are killed: what was acknowledged is there."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import happybase
import numpy as np
import pytest

from simhbase.admin.check import Checker
from simhbase.errors import StoreUnreachable
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import load_log, open_index
from simhbase.index.rows import document_key, listing_key
from simhbase.index.stored_profile import write_profile
from simhbase.profile.profile import Profile
from simhbase.stores import open_store
from simhbase.stores.base import now
from simhbase.stores.hbase import HBaseBackend
from simhbase.stores.hbase.tools import VARIABLE
from tests.cluster import Cluster, hooked
from tests.command_line import environment, fingerprints, result, run_alone
from tests.kept import repaired, rows_for, rows_of, vacuumed
from tests.killed import LEASE
from tests.load import Load, Stalls, assert_found, changing, neighbour

pytestmark = [pytest.mark.full, pytest.mark.hbase_cluster]

Report = Callable[[str, Stalls], None]

PROFILE = Profile(verify=False)
STEPS = 2  # that everybody takes before and after a fault
LOOKUPS_AT_ONCE = 100
RESTART = 150  # seconds
SETTLING = 3.0  # seconds until a gateway that goes on has done what it was asked before
REGION_SERVERS = ("regionserver-1", "regionserver-2", "regionserver-3")
GATEWAYS = ("thrift-1", "thrift-2")


@pytest.fixture
def cluster(hbase_cluster: Cluster) -> Iterator[Cluster]:
    """With everything running again after the test."""
    yield hbase_cluster
    hbase_cluster.run("up")


@pytest.fixture
def url(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    # What a gateway still has to do for processes that were killed when a test failed would be done to
    # the same documents of the next.
    return empty_index(cluster, f"faults{request.session.testsfailed}")


def empty_index(cluster: Cluster, prefix: str) -> str:
    url = cluster.empty_store(prefix)
    with closing(open_store(url, "write")) as store:
        write_profile(store, PROFILE)
    return url


# Servers


def serving(cluster: Cluster, table: str) -> list[str]:
    """The region servers that serve a table, the one with the most regions first."""
    names = {cluster.description["ports"][name]: name for name in REGION_SERVERS}
    with closing(happybase.Connection(*cluster.gateway, timeout=60_000)) as connection:
        regions = connection.table(table).regions()
    return [name for name, _ in Counter(names[region["port"]] for region in regions).most_common()]


def kill(cluster: Cluster, names: Sequence[str]) -> None:
    for name in names:
        cluster.run("kill", name)


@pytest.fixture
def report(record_property: Callable[[str, object], None]) -> Report:
    """Says how long a fault was felt, in pytest's summary and in the XML of --junit-xml."""

    def note(fault: str, stalls: Stalls) -> None:
        record_property(
            fault,
            f"steps of writers took up to {stalls.longest_write:.1f} s (usually {stalls.usual_write:.2f}), "
            f"lookups {stalls.longest_lookup:.1f} s ({stalls.usual_lookup:.2f})",
        )

    return note


def assert_all_is_there(url: str, load: Load) -> None:
    """What was acknowledged, nothing else, and found by what is near it; and after a vacuum the tables hold
    what that needs, and nothing else."""
    stored, deleted = load.acknowledged(), load.deleted()
    with open_index(url) as index:
        assert index.fingerprints(list(stored)) == list(stored.values())
        assert index.fingerprints(deleted) == [None] * len(deleted)
        planted = load.planted()
        chance = random.Random(len(planted))
        for start in range(0, len(planted), LOOKUPS_AT_ONCE):
            assert_found(index, planted[start : start + LOOKUPS_AT_ONCE], chance)
        ghosts = set()
        for fingerprints_ in np.array_split(np.array(load.left_behind(), dtype=np.uint64), 20):
            for lookup in index.find_fingerprints(fingerprints_):
                ghosts |= {(match.id, match.fingerprint) for match in lookup.matches} - stored.items()
        assert not ghosts
        assert Checker(index.store, PROFILE.index_scheme).check().clean
        vacuumed(index.store, PROFILE.index_scheme)
        assert rows_of(index.store) == rows_for(PROFILE, stored)


@dataclass(frozen=True)
class Fault:
    """Processes that are killed at once; `victims` chooses them, given the index table and the number
    of the fault.

    is_outlived: whether those that are left make up for them; else they are brought back at once, and
    calls may take as long as that does.
    """

    name: str
    victims: Callable[[Cluster, str, int], Sequence[str]]
    is_outlived: bool = True


def busiest(count: int) -> Callable[[Cluster, str, int], Sequence[str]]:
    """The region servers that serve the most regions of the index."""
    return lambda cluster, index, _: serving(cluster, index)[:count]


REGION_SERVER = Fault("region server", busiest(1))
GATEWAY = Fault("gateway", lambda _cluster, _index, number: [GATEWAYS[number % len(GATEWAYS)]])
MASTER = Fault("master", lambda *_: ["master"])
META = Fault("region server of hbase:meta", lambda cluster, *_: serving(cluster, "hbase:meta"))
TWO_REGION_SERVERS = Fault("two region servers", busiest(2))
REGION_SERVER_AND_MASTER = Fault(
    "region server and master",
    lambda cluster, index, _: [*serving(cluster, index)[:1], "master"],
    is_outlived=False,  # a master alone moves the regions of a dead server
)


def go_through(fault: Fault, times: int, cluster: Cluster, url: str, folder: Path, report: Report) -> None:
    """The same processes write and look up through a series of faults, each mended before the next."""
    index = f"{url.rpartition('/')[2].partition('?')[0]}_index"
    patient = url if fault.is_outlived else f"{url}&timeout={RESTART}"
    with Load(patient, folder, changing) as load:
        load.go_on(STEPS)
        for number in range(times):
            victims = fault.victims(cluster, index, number)
            killed = time.monotonic()
            kill(cluster, victims)
            if not fault.is_outlived:
                cluster.run("up")
            load.go_on(STEPS)
            report(fault.name, load.stalls(killed))
            cluster.run("up")
            load.go_on(STEPS)
        load.stop()
        assert_all_is_there(url, load)


@pytest.mark.parametrize("fault", [REGION_SERVER, GATEWAY, MASTER], ids=lambda fault: fault.name)
def test_a_kill_under_load_loses_nothing(cluster, url, tmp_path, report, fault):
    go_through(fault, 1, cluster, url, tmp_path, report)


@pytest.mark.parametrize(
    ("fault", "times"),
    [
        (REGION_SERVER, 4),
        (GATEWAY, 8),
        (MASTER, 4),
        (META, 3),
        (TWO_REGION_SERVERS, 3),
        (REGION_SERVER_AND_MASTER, 3),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_series_of_kills_under_load_loses_nothing(cluster, url, tmp_path, report, fault, times):
    go_through(fault, times, cluster, url, tmp_path, report)


@contextmanager
def hanging(cluster: Cluster, name: str) -> Iterator[None]:
    pid = cluster.description["pids"][name]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@dataclass(frozen=True)
class Hang:
    """Gateways that hang for so many seconds, one after the other, while writers wait for no operation
    longer than `patience` seconds."""

    gateways: Sequence[str]
    seconds: float
    patience: float

    def go_through(self, cluster: Cluster, folder: Path, report: Report) -> None:
        """The same processes write and look up all the time."""
        url = empty_index(cluster, "hanging")
        with Load(f"{url}&timeout={self.patience}", folder, changing) as load:
            load.go_on(STEPS)
            for name in self.gateways:
                begin = time.monotonic()
                with self._hanging(cluster, name, begin):
                    load.go_on(STEPS)
                load.go_on(STEPS)
                self._report(name, load, begin, report)
            load.stop()
            time.sleep(SETTLING)
            assert_all_is_there(url, load)

    def be_outlasted(self, cluster: Cluster, folder: Path, report: Report) -> None:
        """The processes end before the gateway goes on, which has calls of theirs."""
        for number, name in enumerate(self.gateways):
            url = empty_index(cluster, f"outlasted{number}")
            own = folder / str(number)
            own.mkdir()
            with Load(f"{url}&timeout={self.patience}", own, changing) as load:
                load.go_on(STEPS)
                begin = time.monotonic()
                with self._hanging(cluster, name, begin):
                    load.go_on(STEPS)
                    load.stop()
                self._report(name, load, begin, report)
                time.sleep(SETTLING)
                assert_all_is_there(url, load)

    @contextmanager
    def _hanging(self, cluster: Cluster, name: str, begin: float) -> Iterator[None]:
        with hanging(cluster, name):
            yield
            time.sleep(max(begin + self.seconds - time.monotonic(), 0))

    def _report(self, name: str, load: Load, begin: float, report: Report) -> None:
        report(f"{name} hangs for {self.seconds:g} s, time-out {self.patience:g} s", load.stalls(begin))


SHORT_HANG = Hang(GATEWAYS[:1], seconds=10, patience=8)
LONG_HANGS = Hang([*GATEWAYS, "thrift2", *GATEWAYS], seconds=40, patience=16)


@pytest.mark.parametrize("hang", [SHORT_HANG, LONG_HANGS], ids=["short", "long"])
def test_writers_lose_nothing_and_find_no_ghost_when_gateways_hang_and_go_on(cluster, tmp_path, report, hang):
    hang.go_through(cluster, tmp_path, report)


@pytest.mark.parametrize("hang", [SHORT_HANG, LONG_HANGS], ids=["short", "long"])
def test_what_a_gateway_does_when_writers_have_ended_reverts_nothing(cluster, tmp_path, report, hang):
    hang.be_outlasted(cluster, tmp_path, report)


def test_a_write_leaves_a_gateway_that_hangs_for_another(cluster, url):
    with closing(open_store(f"{url}&timeout=16&connections=2", "write")) as store:
        documents = store.records("documents")
        version = now()
        documents.put([(b"key", b"")], version)
        for gateway in GATEWAYS:  # the connection is to the first, or the second by then
            version += 1
            with hanging(cluster, gateway):
                documents.put([(b"key", gateway.encode())], version)
        time.sleep(SETTLING)
        (cell,) = documents.get([b"key"])
        assert cell.value == GATEWAYS[-1].encode()
        documents.delete([b"key"])


# A region server that hangs is taken for dead, and others serve its regions from its write-ahead logs. What
# it acknowledges when it goes on is in nobody's tables. HDFS refuses what it appends to a log that was read
# for that; the local file system takes it.


@dataclass(frozen=True)
class Log:
    """A write-ahead log that a process has open, and how long it was when others had read it."""

    file: BinaryIO
    size: int

    @staticmethod
    def all_of(pid: int) -> "list[Log]":
        """Those of a process."""
        logs = []
        for link in Path(f"/proc/{pid}/fd").iterdir():
            if re.search("/(old)?WALs/", str(link.readlink())):
                file = link.open("rb")
                logs.append(Log(file, os.fstat(file.fileno()).st_size))
        return logs

    def appended(self) -> bytes:
        """What was written too late."""
        with self.file:
            self.file.seek(self.size)
            return self.file.read()


def is_running(pid: int) -> bool:
    try:  # of a process that has ended and that nobody has waited for, it is empty
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except FileNotFoundError:
        return False


def outlast_region_server(
    cluster: Cluster, folder: Path, report: Report, prefix: str, *, goes_on: bool
) -> tuple[str, Load, bytes]:
    """A region server hangs for 40 s under load, and is killed or goes on; returns what it wrote into logs
    that had been read already."""
    url = empty_index(cluster, prefix)
    with Load(url, folder, changing, looks_up=not goes_on) as load:
        load.go_on(STEPS)
        (victim, *_) = serving(cluster, f"{prefix}_index")
        pid = cluster.description["pids"][victim]
        begin = time.monotonic()
        with hanging(cluster, victim):
            time.sleep(40)  # gateways wait for it (60 s, hbase.rpc.timeout), and so do the writers
            logs = Log.all_of(pid)
            assert logs
            if not goes_on:
                kill(cluster, [victim])
        deadline = time.monotonic() + RESTART
        while is_running(pid):  # it ends itself when it learns that it is dead
            assert time.monotonic() < deadline
            time.sleep(0.5)
        load.go_on(STEPS)
        report(
            f"region server hangs for 40 s, and {'goes on' if goes_on else 'is killed'}", load.stalls(begin)
        )
        cluster.run("up")
        load.go_on(STEPS)
        load.stop()
    return url, load, b"".join(log.appended() for log in logs)


@pytest.mark.parametrize("number", range(3))
def test_a_region_server_that_hangs_and_is_fenced_off_loses_nothing(cluster, tmp_path, report, number):
    url, load, appended = outlast_region_server(cluster, tmp_path, report, f"fenced{number}", goes_on=False)
    assert not appended
    assert_all_is_there(url, load)


@pytest.mark.parametrize("number", range(3))
def test_a_region_server_that_hangs_and_goes_on_loses_only_what_it_wrote_into_logs_that_were_closed(
    cluster, tmp_path, report, record_property, number
):
    """On HDFS it cannot write there, so that it acknowledges nothing of that."""
    url, load, appended = outlast_region_server(cluster, tmp_path, report, f"unfenced{number}", goes_on=True)
    stored = load.acknowledged()
    expected: dict[str, int | None] = dict.fromkeys(load.deleted()) | stored
    with open_index(url) as index:
        there = dict(zip(expected, index.fingerprints(list(expected)), strict=True))
        wrong = {document for document, fingerprint in expected.items() if there[document] != fingerprint}
        assert all(document_key(document) in appended for document in wrong)
        scheme = PROFILE.index_scheme
        damaged = set()
        for document, fingerprint in stored.items():
            if document not in wrong:
                keys = scheme.keys(FingerprintBatch.bare(np.array([fingerprint], np.uint64)))
                missing = [
                    key.tobytes()
                    for key, moment in zip(keys[0], index.store.drawers.times(keys)[0], strict=True)
                    if moment < 0
                ]
                if index.store.records("fingerprints").get([listing_key(fingerprint, document)]) == [None]:
                    missing.append(listing_key(fingerprint, document))
                assert all(key in appended for key in missing)
                damaged |= {document} if missing else set()
        assert sum(Checker(index.store, scheme).check().problems.values()) >= bool(damaged)
    record_property(
        f"region server that goes on, {number}",
        f"{len(appended):,} bytes in closed logs; of {len(expected):,} documents {len(wrong)} are other than "
        f"acknowledged and {len(damaged)} lack rows, all because of these bytes",
    )


def test_commands_say_that_the_cluster_is_down_and_an_open_index_works_when_it_is_up_again(
    cluster, url, tmp_path
):
    stored = {"a": 0x0123456789ABCDEF}
    lines = fingerprints(tmp_path / "more.jsonl", {"b": 1})
    impatient = f"{url}&timeout=3"
    with open_index(impatient) as index:
        until_it_answers(
            lambda: index.add_fingerprints(list(stored), np.array([*stored.values()], np.uint64))
        )
        for down, command in (
            (["master", *REGION_SERVERS], ["find", "--id", "a"]),  # the gateways wait for them
            (["zookeeper", *GATEWAYS, "thrift2"], ["load", lines, "--fingerprint-field", "f"]),
        ):
            kill(cluster, down)
            done = run_alone(*command, "--store", impatient, cwd=tmp_path)
            assert done.returncode == 11, done.stderr
            assert b"did not succeed within 3 s" in done.stderr
            with pytest.raises(StoreUnreachable):
                index.fingerprints(["a"])
            with pytest.raises(StoreUnreachable):
                index.delete(["a"])
        cluster.run("up")
        until_it_answers(lambda: assert_found(index, list(stored.items()), random.Random(0)))
        until_it_answers(lambda: index.delete(["a"]))
        assert index.fingerprints(["a"]) == [None]


def until_it_answers(call: Callable[[], object]) -> None:
    """Repeats what may be repeated."""
    deadline = time.monotonic() + 120
    while True:
        try:
            call()
        except StoreUnreachable:
            assert time.monotonic() < deadline
        else:
            return


# Loaders


@dataclass(frozen=True)
class Job:
    """A command that is killed, and the commands before it."""

    command: Sequence[str]
    before: Sequence[Sequence[str]] = ()


FIELD = ("--fingerprint-field", "f")
JOBS = {
    "load": Job(("load", "related.jsonl", *FIELD)),
    "load --unique-only": Job(("load", "related.jsonl", *FIELD, "--unique-only")),
    "load of changed documents": Job(
        ("load", "changed.jsonl", *FIELD), before=[("load", "related.jsonl", *FIELD)]
    ),
    "delete": Job(("delete", "--yes", "--ids-file", "ids"), before=[("load", "related.jsonl", *FIELD)]),
}


def write_files(folder: Path, documents: int) -> None:
    """Documents of which every second is near one before it; the same with other fingerprints, some of
    them those that others had; and the ids of most."""
    chance = random.Random(documents)
    related: dict[str, int] = {}
    for number in range(documents):
        model = chance.choice(list(related.values())) if number % 2 else chance.getrandbits(64)
        related[f"d{number}"] = neighbour(model, chance)
    exchanged = dict(zip(related, [*list(related.values())[1:], chance.getrandbits(64)], strict=True))
    changed = {
        document: chance.choice([fingerprint, exchanged[document], chance.getrandbits(64)])
        for document, fingerprint in related.items()
    }
    fingerprints(folder / "related.jsonl", related)
    fingerprints(folder / "changed.jsonl", changed)
    (folder / "ids").write_text("".join(f"{document}\n" for document in list(related)[documents // 10 :]))


def send_requests(
    command: Sequence[str], url: str, folder: Path, *, last: int = 0, share: float = 0.0
) -> subprocess.CompletedProcess[str]:
    """Runs a command, up to this share of its last request if that has a number; see tests.killed."""
    return subprocess.run(
        [sys.executable, "-m", "tests.killed", str(last), str(share), *command, "--store", url],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def kill_loaders(
    cluster: Cluster,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    job: Job,
    *,
    documents: int,
    rounds: int,
    kills: int,
) -> None:
    """Kills the command in the middle of any of its requests, runs it again, and compares what is stored
    with what an undisturbed run has left."""
    monkeypatch.setattr(load_log, "LEASE", LEASE)  # of the runs that were killed
    write_files(folder, documents)
    url = prepared(cluster, "undisturbed", job, folder)
    undisturbed = send_requests(job.command, url, folder)
    assert undisturbed.returncode == 0, undisturbed.stderr
    requests = int(undisturbed.stderr.split()[-1])
    expected = cleaned_rows(url)
    for seed in range(rounds):
        chance = random.Random(seed)
        url = prepared(cluster, "killed", job, folder)
        ends = set()
        for _ in range(kills):
            last, share = chance.randint(1, requests), chance.choice([0.0, chance.random(), 1.0])
            ends.add(send_requests(job.command, url, folder, last=last, share=share).returncode)
        # One that goes on with what others have left sends fewer requests, and may live.
        assert -signal.SIGKILL in ends <= {-signal.SIGKILL, 0}
        result(*job.command, "--store", url, cwd=folder)
        assert result("check", "--store", url, cwd=folder)["clean"]
        assert cleaned_rows(url) == expected, f"round {seed}"


def prepared(cluster: Cluster, prefix: str, job: Job, folder: Path) -> str:
    url = empty_index(cluster, prefix)
    for command in job.before:
        result(*command, "--store", url, cwd=folder)
    return url


def cleaned_rows(url: str) -> dict[str, object]:
    """What is left when everything has been removed that stored documents do not need."""
    with open_index(url) as index:
        vacuumed(index.store, PROFILE.index_scheme)
        assert repaired(index.store, PROFILE.index_scheme).clean
        return rows_of(index.store)


# A load is in that of changed documents, too.
@pytest.mark.parametrize("name", JOBS)
def test_a_killed_command_that_is_repeated_leaves_what_an_undisturbed_one_does(
    cluster, tmp_path, monkeypatch, name
):
    kill_loaders(cluster, tmp_path, monkeypatch, JOBS[name], documents=600, rounds=1, kills=2)


@pytest.mark.parametrize("name", JOBS)
def test_a_command_survives_a_series_of_kills(cluster, tmp_path, monkeypatch, name):
    kill_loaders(cluster, tmp_path, monkeypatch, JOBS[name], documents=6_000, rounds=6, kills=2)


def test_hfiles_are_loaded_where_the_regions_are_that_moved_as_their_server_died(
    cluster, url, tmp_path, monkeypatch
):
    """Between the cutting of the files and their loading."""
    kills = cluster.command("kill", serving(cluster, HBaseBackend(url).tables()[0].name)[0])
    hook = f"""
        if name == "load" and table == "index" and once("killed"):
            subprocess.run({kills!r}, check=True, stdout=subprocess.DEVNULL)
        """
    monkeypatch.setenv(VARIABLE, hooked(cluster, tmp_path, hook))
    chance = random.Random(5)
    values = {f"news/{number}": chance.getrandbits(64) for number in range(20_000)}
    fingerprints(tmp_path / "c.jsonl", values)
    options = ("--via", "hfiles", "--work-folder", str(tmp_path), "--fingerprint-field", "f")
    done = result("load", *options, "c.jsonl", cwd=tmp_path, SIMHBASE_STORE=url)
    assert done["added"] == len(values)
    with open_index(url) as index:
        vacuumed(index.store, PROFILE.index_scheme)
        assert rows_of(index.store) == rows_for(PROFILE, values)
