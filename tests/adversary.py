"""Everybody at once on the same documents, while servers, connections, clocks and workers fail.

Workers add, delete and claim shared ids, load files through gateways and as HFiles, migrate, vacuum, repair
and look up, through relays that repeat calls late; one moves a crowd of documents with equal fingerprints.
Meanwhile, up to three of these at once, gateways and region servers are killed, hang for some seconds and
go on, or hang until their regions are elsewhere; regions split and move, connections are cut, snapshots are
taken and made stores of, and workers are killed and replaced. Each operation is noted before it begins and
when it is acknowledged. Afterwards (tests/history.py) every document must be as one of its last operations
left it, in snapshots as while they were taken, and every lookup must have shown what was there meanwhile.

On PostgreSQL and Redis the same workers, but for HFiles, meet a server that is killed and started, or does
not answer for some seconds, and answers to commits that are lost.

Half of the fingerprints are given to documents by claims and unique loads alone: of these no two
stored documents may be near each other, whatever was added, moved and deleted beside them.
"""

import json
import os
import random
import shlex
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import combinations, count
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Event, Lock

import happybase
import numpy as np
from thriftpy2.thrift import TException

from simhbase.admin import vacuum
from simhbase.admin.check import Checker
from simhbase.admin.migrate import migrate
from simhbase.admin.snapshots import restore, snapshot
from simhbase.admin.vacuum import Vacuum
from simhbase.errors import RetryableError, StoreUnreachable
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.model import Claim
from simhbase.stores import atomic, drop_store
from simhbase.stores.base import Access, keeps_hints, now
from simhbase.stores.hbase import clocks
from simhbase.stores.hbase.tools import VARIABLE
from simhbase.stores.postgresql import store as postgresql
from simhbase.stores.redis import store as redis
from tests.cluster import Cluster
from tests.command_line import fingerprints, read_lines, run_alone
from tests.history import (
    AT_ONCE,
    PAUSE,
    QUERIES,
    History,
    Journal,
    K,
    Sharing,
    assert_settled,
    assert_shown,
    sharing,
)
from tests.relay import LOCALHOST, Relay
from tests.services import Server

DOCUMENTS = 120
GROUPS = 60  # of three fingerprints that are near each other
CLAIM_TIMEOUT = 60.0  # seconds
GRACE = 180.0  # seconds: of vacuums and repairs, which longer runs then see; nothing takes as long here
LATEST_COPY = 10.0  # seconds, far below the grace time
AHEADS = (0, -300_000, 300_000)  # milliseconds by which clocks of workers are ahead; opening takes it off
PATIENCE = 300.0  # seconds for all to end
LOADED = 60  # documents of a load
CROWD_AT_ONCE = 5_000  # documents with equal fingerprints that are written together
CROWD_VALUES = (0x5555_5555_5555_5555, 0xAAAA_AAAA_AAAA_AAAA)  # near nothing else
FAULTS_AT_ONCE = 3
SNAPSHOTS = 4
UPS = 3  # tries to bring servers back
DONE = "all commands were carried out"
SESSION = 10.0  # seconds after which ZooKeeper takes a server for dead


@dataclass(frozen=True)
class Task:
    """What a worker is given: where to note what it does, its number, how far its clock is ahead, the command
    of HBase's tools, and how many documents are in the crowd."""

    what: Sharing
    journal: Journal
    seed: int
    ahead: int = 0
    tools: str = ""
    crowd: int = 0

    @property
    def added(self) -> Sequence[int]:
        """The fingerprints that adds and loads give."""
        return self.what.fingerprints[: len(self.what.fingerprints) // 2]

    @property
    def claimed(self) -> Sequence[int]:
        """Those that claims alone give."""
        return self.what.fingerprints[len(self.what.fingerprints) // 2 :]

    @contextmanager
    def index(self) -> Iterator[Index]:
        for module in (clocks, atomic, postgresql, redis):
            module.now = lambda: now() + self.ahead  # type: ignore[attr-defined]
        with opened(self.what.url) as index:
            yield index


def opened(url: str, access: Access = "write") -> Index:
    """Open an index, and wait for servers that are down at that moment: opening gives up after 10 s."""
    while True:
        with suppress(StoreUnreachable):
            return open_index(url, access=access)


def change(task: Task) -> None:
    """Adds, deletes and claims."""
    chance = random.Random(task.seed)
    with task.index() as index:
        while True:
            time.sleep(chance.uniform(0, PAUSE))
            ids = chance.sample(task.what.documents, chance.randint(1, AT_ONCE))
            kind = chance.random()
            with suppress(RetryableError):  # the operation was not acknowledged
                if kind < 0.2:
                    task.journal.perform(index, {each: chance.choice(task.added) for each in ids})
                elif kind < 0.55:
                    task.journal.perform(index, dict.fromkeys(ids))
                else:
                    claim(index, task.journal, {each: chance.choice(task.claimed) for each in ids})


def claim(index: Index, journal: Journal, texts: Mapping[str, int]) -> None:
    """Claims documents, and notes which were not stored, and because of what."""
    values = FingerprintBatch.bare(np.array(list(texts.values()), dtype=np.uint64))
    journal.note("begin", time.monotonic(), texts)
    claims = index.claim_batch(list(texts), values, CLAIM_TIMEOUT).claims
    note_claims(journal, claims)


def note_claims(journal: Journal, claims: Sequence[Claim]) -> None:
    journal.note(
        "end",
        time.monotonic(),
        [each.id for each in claims if not each.accepted],
        [
            (each.id, each.fingerprint, each.match.id, each.match.fingerprint)
            for each in claims
            if each.match is not None
        ],
        [each.outcome for each in claims],
    )


def load(task: Task) -> None:
    """Loads files of shared documents, and files of new ones that nothing near may be stored of."""
    chance = random.Random(task.seed)
    for number in count():
        if number % 2:
            load_file(task, number, some_added(task, chance))
        else:
            ids = [f"{task.what.documents[0]}/{task.seed}/{number}/{each}" for each in range(LOADED)]
            load_file(task, number, {each: chance.choice(task.claimed) for each in ids}, "--unique-only")


def load_hfiles(task: Task) -> None:
    """Loads files of shared documents past the gateways."""
    chance = random.Random(task.seed)
    for number in count():
        load_file(task, number, some_added(task, chance), "--via", "hfiles")


def some_added(task: Task, chance: random.Random) -> dict[str, int]:
    some = chance.sample(task.what.documents, len(task.what.documents) // 2)
    return {each: chance.choice(task.added) for each in some}


def load_file(task: Task, number: int, texts: Mapping[str, int], *options: str) -> None:
    folder = task.journal.path.with_suffix(".files")
    folder.mkdir(exist_ok=True)
    path = fingerprints(folder / f"{number}.jsonl", dict(texts))
    told = folder / f"{number}.duplicates"
    outputs = ("--duplicates", told) if "--unique-only" in options else ()
    task.journal.note("begin", time.monotonic(), texts)
    try:
        done = run_alone(
            *("load", path, "--fingerprint-field", "f", "--store", task.what.url, "--json"),
            *(*options, *outputs),
            cwd=folder,
            **{VARIABLE: task.tools},
        )
    except subprocess.TimeoutExpired:
        return
    if done.returncode == 0:
        duplicates = [each["id"] for each in read_lines(told)] if outputs else []
        task.journal.note("end", time.monotonic(), duplicates, [], [])
    else:
        assert done.returncode in (1, 11, 13), done.stderr.decode()


def move_crowd(task: Task) -> None:
    """Gives many documents one fingerprint, then all of them another one, and so on."""
    parts = max(1, task.crowd // CROWD_AT_ONCE)
    with task.index() as index:
        for number in count():
            value = CROWD_VALUES[number // parts % 2]
            ids = [
                f"crowd/{task.what.documents[0]}/{each}" for each in range(number % parts, task.crowd, parts)
            ]
            begin = time.monotonic()
            with suppress(RetryableError):
                task.journal.perform(index, dict.fromkeys(ids, value))
            time.sleep(2 * (time.monotonic() - begin))  # leaves the servers to the others


def clean(task: Task) -> None:
    """Vacuums and repairs."""
    vacuum.LEAST_GRACE = 0
    with task.index() as index:
        scheme = index.profile.index_scheme
        while True:
            with suppress(RetryableError):
                Vacuum(index.store, scheme, GRACE, index.clock).run()
                Checker(index.store, scheme, True, GRACE, index.clock).check()
                task.journal.note("begin", time.monotonic(), {})
                task.journal.note("end", time.monotonic())
            time.sleep(1)


def copy(task: Task) -> None:
    """Migrates to an embedded store, again and again."""
    to = copy_in(task.journal.path.parent)
    while True:
        with suppress(RetryableError):
            migrate(task.what.url, to)
            task.journal.note("begin", time.monotonic(), {})
            task.journal.note("end", time.monotonic())
        time.sleep(1)


def copy_in(folder: Path) -> str:
    return f"rocksdb:{folder / 'copy.db'}"


def look_up(task: Task) -> None:
    chance = random.Random(task.seed)
    with opened(task.what.url, "read") as index:
        while True:
            time.sleep(chance.uniform(0, PAUSE))
            queries = chance.sample(task.what.fingerprints, QUERIES)
            begin = time.monotonic()
            try:
                lookups = index.find_fingerprints(queries)
            except RetryableError:
                continue
            end = time.monotonic()
            for query, lookup in zip(queries, lookups, strict=True):
                found = [(match.id, match.fingerprint) for match in lookup.matches]
                task.journal.note(query, found, begin, end)


WORK = (change, change, change, load, clean, look_up, copy, move_crowd)


@dataclass
class Crew:
    """Workers in processes of their own."""

    what: Sharing
    folder: Path
    chance: random.Random
    tools: str
    crowd: int
    journals: list[Journal] = field(default_factory=list)
    running: dict[BaseProcess, tuple[Callable[[Task], None], Task]] = field(default_factory=dict)

    def start(self, work: Callable[[Task], None]) -> Task:
        number = len(self.journals)
        self.journals.append(Journal(self.folder / f"{number}-{work.__name__}"))
        ahead = AHEADS[number % len(AHEADS)]
        task = Task(self.what, self.journals[-1], number, ahead, self.tools, self.crowd)
        process = get_context("spawn").Process(target=run, args=(work, task), daemon=True)
        process.start()
        self.running[process] = (work, task)
        return task

    def replace_one(self) -> None:
        """Kills a worker, and starts another in its place."""
        process = self.chance.choice(list(self.running))
        work, _ = self.running.pop(process)
        kill(process)
        self.start(work)

    def require_life(self) -> None:
        for process, (_, task) in list(self.running.items()):
            assert process.exitcode in (None, -signal.SIGKILL), f"{task.journal.path.name} ended, see stderr"

    def wait_until_all_work(self) -> None:
        end = time.monotonic() + PATIENCE
        while not all(any(task.journal.lines()) for _, task in self.running.values()):
            self.require_life()
            assert time.monotonic() < end, "some do not begin"
            time.sleep(0.2)

    def end(self) -> None:
        for process in self.running:
            kill(process)


def run(work: Callable[[Task], None], task: Task) -> None:
    os.setpgrp()  # what it starts is killed with it
    work(task)


def kill(process: BaseProcess) -> None:
    assert process.pid is not None
    with suppress(ProcessLookupError):  # it has not begun
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()


@dataclass(frozen=True)
class Snapshot:
    """The URL of a store made of a snapshot, and from when to when that was taken."""

    url: str
    begin: float
    end: float


@dataclass
class Faults:
    """What may happen. Each is undone before it returns, or by `undo`."""

    relays: Sequence[Relay]
    crew: Crew
    chance: random.Random
    happened: Counter[str] = field(default_factory=Counter)
    snapshots: list[Snapshot] = field(default_factory=list)
    over: Event = field(default_factory=Event)
    _under_way: list[Callable[[], None]] = field(default_factory=list)
    _choosing: Lock = field(default_factory=Lock)

    def happen(self, calm: float) -> None:
        """One after the other, until it is over, about so many seconds apart; several threads may do that."""
        while not self.over.wait(self.chance.uniform(0, 2 * calm)):
            with self._choosing:
                kind = self.chance.choice(self._kinds())
                self._under_way.append(kind)
            kind()
            self._under_way.remove(kind)
            self.happened[kind.__name__.replace("_", " ")] += 1

    def _kinds(self) -> list[Callable[[], None]]:
        """What may happen now. No more than one thread does the same."""
        kinds = [self.kill_a_worker, self.cut_connections, *self._others()]
        return [kind for kind in kinds if kind not in self._under_way]

    def _others(self) -> list[Callable[[], None]]:
        raise NotImplementedError

    def undo(self) -> None:
        raise NotImplementedError

    def kill_a_worker(self) -> None:
        self.crew.replace_one()

    def cut_connections(self) -> None:
        for relay in self.relays:
            relay.cut()


@dataclass
class ServerFaults(Faults):
    """Of a PostgreSQL or Redis."""

    server: Server = field(kw_only=True)

    def _others(self) -> list[Callable[[], None]]:
        with_server = [self.kill_the_server, self.hang]
        if any(kind in self._under_way for kind in with_server):
            with_server = []
        return [self.lose_an_answer, *with_server]

    def kill_the_server(self) -> None:
        self.server.stop("immediate")
        time.sleep(self.chance.uniform(0, 2))
        self.server.start()

    def hang(self) -> None:
        for relay in self.relays:
            relay.hang()
        time.sleep(self.chance.uniform(0, 2))
        for relay in self.relays:
            relay.go_on()

    def lose_an_answer(self) -> None:
        """Of a commit: what was done is not known."""
        for relay in self.relays:
            relay.lose_answer_to("COMMIT\0" if self.server.service == "postgresql" else "change\r\n")
        time.sleep(self.chance.uniform(0, 1))

    def undo(self) -> None:
        for relay in self.relays:
            relay.go_on()
        self.server.start()


@dataclass
class ClusterFaults(Faults):
    """Of an HBase."""

    cluster: Cluster = field(kw_only=True)
    _shell: Lock = field(default_factory=Lock)

    def undo(self) -> None:
        self.cluster.run("up")

    def _others(self) -> list[Callable[[], None]]:
        """One server at most is away."""
        kinds = [self.repeat_a_call_late]
        with_servers = [self.hang]
        if len(self._processes("regionserver")) > 1:
            kinds += [self.move_regions, self.split_a_region]
            with_servers += [self.kill_a_server, self.hang_until_given_up]
        if len(self.snapshots) < SNAPSHOTS:
            kinds.append(self.take_a_snapshot)
        if not any(kind in self._under_way for kind in with_servers):
            kinds += with_servers
        return kinds

    def repeat_a_call_late(self) -> None:
        relay = self.chance.choice(self.relays)
        method = self.chance.choice(["mutateRowsTs", "checkAndPut", "mutateRows"])
        relay.keep(method)
        time.sleep(self.chance.uniform(1, LATEST_COPY))
        with suppress(AssertionError, OSError):  # nothing was asked for meanwhile
            relay.send_kept_again()

    def hang(self) -> None:
        """For less than the time after which ZooKeeper takes a server for dead."""
        with self._stopped(self._processes("thrift") + self._processes("regionserver")):
            time.sleep(self.chance.uniform(1, SESSION / 2))

    def hang_until_given_up(self) -> None:
        """A region server hangs until its regions are elsewhere. It ends without going on: on a local disk
        nothing would keep it from carrying out what it was asked before, also for the master."""
        with self._stopped(self._processes("regionserver")) as pid:
            time.sleep(self.chance.uniform(1.5, 3) * SESSION)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._bring_up()

    def kill_a_server(self) -> None:
        self._kill(self.chance.choice(self._processes("thrift-") + self._processes("regionserver")))
        time.sleep(self.chance.uniform(0, 5))
        self._bring_up()

    def _bring_up(self) -> None:
        """What has started may end again, as others are away."""
        for _ in range(UPS):
            with suppress(AssertionError):
                self.cluster.run("up")
                return
        self.cluster.run("up")

    def _kill(self, name: str) -> None:
        with suppress(AssertionError):  # it does not run
            self.cluster.run("kill", name)

    @contextmanager
    def _stopped(self, names: Sequence[str]) -> Iterator[int]:
        """A process of the cluster does nothing for the block."""
        pid = self.cluster.description["pids"][self.chance.choice(names)]
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(pid, signal.SIGSTOP)
        try:
            yield pid
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def move_regions(self) -> None:
        self._change_a_region("move '{}'")

    def split_a_region(self) -> None:
        self._change_a_region("split '{}'")

    def _change_a_region(self, command: str) -> None:
        prefix = self.crew.what.url.rpartition("/")[2].partition("?")[0]
        with suppress(OSError, TException):  # the gateway may be gone
            with closing(happybase.Connection(*self.cluster.gateway, timeout=60_000)) as connection:
                names = [
                    region["name"].decode(errors="replace").rstrip(".").rpartition(".")[2]
                    for table in ("index", "documents", "meta")
                    for region in connection.table(f"{prefix}_{table}").regions()
                ]
            self._run_in_shell(command.format(self.chance.choice(names)))

    def take_a_snapshot(self) -> None:
        """And makes a store of it, which is judged at the end."""
        direct = self.cluster.url(self.crew.what.url.rpartition("/")[2].partition("?")[0])
        name = f"snapshot-{time.time_ns()}"
        url = self.cluster.url(name)
        begin = time.monotonic()
        if self._run_in_shell(snapshot(direct, name).script):
            end = time.monotonic()
            if self._run_in_shell(restore(url, name).script):
                self.snapshots.append(Snapshot(url, begin, end))

    def _run_in_shell(self, script: str | None) -> bool:
        """Whether that could be done: regions may be under way. An error would end the shell."""
        assert script is not None
        commands = script.strip().removesuffix("exit")
        with self._shell:
            said = self.cluster.shell(
                f"begin\n{commands}\nputs '{DONE}'\nrescue Object => e\nputs e\nend\nexit\n"
            )
        return DONE in said

    def _processes(self, kind: str) -> list[str]:
        return [name for name in self.cluster.description["pids"] if name.startswith(kind)]


@dataclass(frozen=True)
class Outcome:
    """What an adversary did, for the record: what kinds of workers have begun, operations on a document that
    were acknowledged and hold, lookups, outcomes of claims, faults, pairs of stored documents that were
    compared, and stores that were made of snapshots."""

    begun: Mapping[str, int]
    operations: int
    lookups: int
    claims: Mapping[str, int]
    faults: Mapping[str, int]
    stored: int
    pairs: int
    crowd: int
    snapshots: int


def oppose(
    cluster: Cluster, prefix: str, folder: Path, seconds: float, seed: int, *, crowd: int, calm: float = 0
) -> Outcome:
    """Lets everybody work for so long, and asserts that nothing was lost, invented, or accepted twice. crowd:
    documents with equal fingerprints; calm: seconds between two faults."""
    chance = random.Random(seed)
    relays = [
        Relay((host, int(port)))
        for host, port in (each.split(":") for each in cluster.description["gateways"])
    ]
    direct = cluster.url(prefix)
    addresses = ",".join(f"{LOCALHOST}:{relay.port}" for relay in relays)
    what = sharing(f"hbase://{addresses}/{direct.rpartition('/')[2]}", DOCUMENTS, GROUPS)
    crew = Crew(what, folder, chance, shlex.join(cluster.command("run")), crowd)
    faults = ClusterFaults(relays, crew, chance, cluster=cluster)
    work_while(faults, [*WORK, load_hfiles], seconds, calm)
    time.sleep(3)  # until gateways have done what they were asked before
    for relay in relays:
        relay.refuse()
    return judged(replace(what, url=direct), crew, faults)


def oppose_server(
    server: Server, name: str, folder: Path, seconds: float, seed: int, *, crowd: int, calm: float = 1
) -> Outcome:
    """As `oppose`, on a PostgreSQL or Redis."""
    chance = random.Random(seed)
    with Relay((LOCALHOST, server.port)) as relay:
        what = sharing(server.through(relay, name, timeout=20), DOCUMENTS, GROUPS)
        crew = Crew(what, folder, chance, "", crowd)
        faults = ServerFaults([relay], crew, chance, server=server)
        work_while(faults, WORK, seconds, calm)
    return judged(replace(what, url=server.store(name)), crew, faults)


def work_while(faults: Faults, work: Sequence[Callable[[Task], None]], seconds: float, calm: float) -> None:
    """Lets workers work for so long, while faults happen."""
    crew = faults.crew
    try:
        for each in work:
            crew.start(each)
        crew.wait_until_all_work()
        end = time.monotonic() + seconds
        with ThreadPoolExecutor(FAULTS_AT_ONCE) as pool:
            drivers = [pool.submit(faults.happen, calm) for _ in range(FAULTS_AT_ONCE)]
            try:
                while time.monotonic() < end and not any(each.done() for each in drivers):
                    crew.require_life()
                    time.sleep(1)
            finally:
                faults.over.set()
        for each in drivers:
            each.result()
    finally:
        crew.end()
        faults.undo()


def judged(what: Sharing, crew: Crew, faults: Faults) -> Outcome:
    """Raises AssertionError for whatever the stored documents and the noted operations cannot both be."""
    by_work: dict[str, list[Journal]] = {}
    for journal in crew.journals:
        by_work.setdefault(journal.path.name.partition("-")[2], []).append(journal)
    lookups, crowding = by_work["look_up"], by_work["move_crowd"]
    writers = [each for each in crew.journals if each not in lookups and each not in crowding]
    history = History.of(writers)
    loaded = tuple(document for document in history.documents if document not in set(what.documents))
    what = replace(what, still=loaded)
    copied = copy_in(crew.folder)
    with open_index(what.url) as index:
        end_claims(index, Task(what, Journal(crew.folder / "last-claims"), 0), history)
        stored = assert_settled(what, history, index)
        shown = sum(assert_shown(what, history, journal) for journal in lookups)
        pairs = assert_none_near(what, stored)
        outcomes = Counter[str]()
        for journal in writers:
            outcomes += assert_duplicates(what, history, journal)
        crowd = assert_crowd(History.of(crowding), index)
        assert Checker(index.store, index.profile.index_scheme).check().clean
        # Atomic stores keep nothing of what was deleted.
        migrate(what.url, copied, delete_missing=not keeps_hints(index.store))
        with open_index(copied, access="read") as other:
            ids = list(what.all)
            assert other.fingerprints(ids) == index.fingerprints(ids)
    for each in faults.snapshots:
        with open_index(each.url) as index:
            assert_settled(what, history, index, each.begin, each.end)
            assert Checker(index.store, index.profile.index_scheme).check().clean
        drop_store(each.url)
    return Outcome(
        begun={work: sum(each.size for each in journals) for work, journals in by_work.items()},
        operations=history.acknowledged,
        lookups=shown,
        claims=outcomes,
        faults=faults.happened,
        stored=len(stored),
        pairs=pairs,
        crowd=crowd,
        snapshots=len(faults.snapshots),
    )


def end_claims(index: Index, task: Task, history: History) -> None:
    """Ends the claims of workers that were killed: whoever claims something near takes them over."""
    probes = {f"{task.what.documents[0]}/probe/{number}": value for number, value in enumerate(task.claimed)}
    ids, values = list(probes), FingerprintBatch.bare(np.array(list(probes.values()), dtype=np.uint64))
    claims = index.claim_batch(ids, values, CLAIM_TIMEOUT).claims
    assert {each.outcome for each in claims} <= {"accepted", "duplicate"}
    index.delete(ids)


def assert_none_near(what: Sharing, stored: Mapping[str, int]) -> int:
    """Of the documents that claims have stored no two are near each other; returns how many pairs there
    are."""
    claimed = set(what.fingerprints[len(what.fingerprints) // 2 :])
    pairs = list(combinations([item for item in stored.items() if item[1] in claimed], 2))
    near = [pair for pair in pairs if (pair[0][1] ^ pair[1][1]).bit_count() <= K]
    assert not near, f"near each other, and all accepted: {near}"
    return len(pairs)


def assert_crowd(history: History, index: Index) -> int:
    """Each document of the crowd is as the last operations have left it; returns how many were written."""
    ids = history.documents
    wrong = [
        (document, value, history.last(document))
        for document, value in zip(ids, index.fingerprints(ids), strict=True)
        if value not in history.possible(document)
    ]
    assert not wrong, f"acknowledged, and lost: {len(wrong)}, the first {wrong[0]}"
    return history.acknowledged


def assert_duplicates(what: Sharing, history: History, journal: Journal) -> Counter[str]:
    """What a claim was a duplicate of was stored, and near it, at some moment of it; counts outcomes."""
    outcomes, begin = Counter[str](), 0.0
    for kind, moment, *more in journal.lines():
        if kind == "begin":
            begin = moment
        elif len(more) == 3:
            _, matches, told = more
            outcomes.update(told)
            for document, value, other, near in matches:
                assert near in what.near[value], f"{document}: {near:x} is not near {value:x}"
                assert near in history.possible(other, begin, moment), (
                    f"{document} is a duplicate of {other}, which was not stored: {history.last(other)}"
                )
    return outcomes


def shown(outcome: Outcome) -> str:
    """For a summary."""
    return json.dumps({name: getattr(outcome, name) for name in Outcome.__dataclass_fields__})
