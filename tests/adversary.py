"""Everybody at once on the same documents, while servers, connections, clocks and workers fail.

Workers add, delete and claim shared ids, load files, migrate, vacuum, repair and look up, through relays that
repeat calls late. Meanwhile gateways and region servers are killed or stopped for some seconds, regions split
and move, connections are cut, and workers are killed and replaced. Each operation is noted before it begins
and when it is acknowledged. Afterwards (tests/history.py) every document must be as one of its last
operations left it, and every lookup must have shown what was there meanwhile.

Half of the fingerprints are given to documents by claims and unique loads alone: of these no two
stored documents may be near each other, whatever was added, moved and deleted beside them.
"""

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import happybase
import numpy as np

from simhbase.errors import RetryableError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index, vacuum
from simhbase.index.check import Checker
from simhbase.index.migrate import migrate
from simhbase.index.vacuum import Vacuum
from simhbase.model import Claim
from simhbase.stores.hbase import clocks
from tests.cluster import Cluster
from tests.command_line import fingerprints, read_lines, run_alone
from tests.history import (
    AT_ONCE,
    PAUSE,
    QUERIES,
    History,
    Journal,
    Sharing,
    assert_settled,
    assert_shown,
    sharing,
)
from tests.relay import LOCALHOST, Relay

DOCUMENTS = 120
GROUPS = 60  # of three fingerprints that are near each other
CLAIM_TIMEOUT = 60.0  # seconds
GRACE = 180.0  # seconds: of vacuums and repairs, which longer runs then see; nothing takes as long here
LATEST_COPY = 10.0  # seconds, far below the grace time
AHEADS = (0, -300_000, 300_000)  # milliseconds by which clocks of workers are ahead; opening takes it off
PATIENCE = 300.0  # seconds for all to end
LOADED = 60  # documents of a load


@dataclass(frozen=True)
class Task:
    """What a worker is given: where to note what it does, its number, and how far its clock is ahead."""

    what: Sharing
    journal: Journal
    seed: int
    ahead: int = 0

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
        right = clocks.now
        clocks.now = lambda: right() + self.ahead  # type: ignore[assignment]
        with open_index(self.what.url) as index:
            yield index


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
    folder = task.journal.path.with_suffix(".files")
    folder.mkdir()
    for number in range(1_000_000):
        if number % 2:
            some = chance.sample(task.what.documents, len(task.what.documents) // 2)
            load_file(task, folder, number, {each: chance.choice(task.added) for each in some})
        else:
            ids = [f"{task.what.documents[0]}/{task.seed}/{number}/{each}" for each in range(LOADED)]
            load_file(
                task, folder, number, {each: chance.choice(task.claimed) for each in ids}, "--unique-only"
            )


def load_file(task: Task, folder: Path, number: int, texts: Mapping[str, int], *options: str) -> None:
    path = fingerprints(folder / f"{number}.jsonl", dict(texts))
    told = folder / f"{number}.duplicates"
    outputs = ("--duplicates", told) if options else ()
    task.journal.note("begin", time.monotonic(), texts)
    done = run_alone(
        *("load", path, "--fingerprint-field", "f", "--store", task.what.url, "--json", *options, *outputs),
        cwd=folder,
    )
    if done.returncode == 0:
        duplicates = [each["id"] for each in read_lines(told)] if outputs else []
        task.journal.note("end", time.monotonic(), duplicates, [], [])
    else:
        assert done.returncode in (1, 11), done.stderr.decode()


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
    to = copy_of(task)
    while True:
        with suppress(RetryableError):
            migrate(task.what.url, to)
            task.journal.note("begin", time.monotonic(), {})
            task.journal.note("end", time.monotonic())
        time.sleep(1)


def copy_of(task: Task) -> str:
    return f"rocksdb:{task.journal.path.parent / 'copy.db'}"


def look_up(task: Task) -> None:
    chance = random.Random(task.seed)
    with open_index(task.what.url, access="read") as index:
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


@dataclass
class Crew:
    """Workers in processes of their own."""

    what: Sharing
    folder: Path
    chance: random.Random
    journals: list[Journal] = field(default_factory=list)
    running: dict[BaseProcess, tuple[Callable[[Task], None], Task]] = field(default_factory=dict)

    def start(self, work: Callable[[Task], None]) -> Task:
        number = len(self.journals)
        self.journals.append(Journal(self.folder / f"{number}-{work.__name__}"))
        task = Task(self.what, self.journals[-1], number, AHEADS[number % len(AHEADS)])
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
        for process, (_, task) in self.running.items():
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


@dataclass
class Faults:
    """What may happen. Each is undone before it returns, or by `cluster.run("up")`."""

    cluster: Cluster
    relays: Sequence[Relay]
    crew: Crew
    chance: random.Random
    happened: Counter[str] = field(default_factory=Counter)

    def happen(self) -> None:
        """One of them."""
        kinds = [self.kill_a_worker, self.cut_connections, self.repeat_a_call_late, self.hang]
        if len(self._processes("regionserver")) > 1:
            kinds += [self.kill_a_server, self.move_regions, self.split_a_region]
        kind = self.chance.choice(kinds)
        kind()
        self.happened[kind.__name__.replace("_", " ")] += 1

    def kill_a_worker(self) -> None:
        self.crew.replace_one()

    def cut_connections(self) -> None:
        for relay in self.relays:
            relay.cut()

    def repeat_a_call_late(self) -> None:
        relay = self.chance.choice(self.relays)
        method = self.chance.choice(["mutateRowsTs", "checkAndPut", "mutateRows"])
        relay.keep(method)
        time.sleep(self.chance.uniform(1, LATEST_COPY))
        with suppress(AssertionError, OSError):  # nothing was asked for meanwhile
            relay.send_kept_again()

    def hang(self) -> None:
        """For less than the time after which ZooKeeper takes a server for dead."""
        name = self.chance.choice(self._processes("thrift") + self._processes("regionserver"))
        pid = self.cluster.description["pids"][name]
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(self.chance.uniform(1, 5))
        finally:
            os.kill(pid, signal.SIGCONT)

    def kill_a_server(self) -> None:
        self.cluster.run(
            "kill", self.chance.choice(self._processes("thrift-") + self._processes("regionserver"))
        )
        time.sleep(self.chance.uniform(0, 5))
        self.cluster.run("up")

    def move_regions(self) -> None:
        self._shell("move '{}'")

    def split_a_region(self) -> None:
        self._shell("split '{}'")

    def _shell(self, command: str) -> None:
        prefix = self.crew.what.url.rpartition("/")[2].partition("?")[0]
        with happybase.Connection(*self.cluster.gateway, timeout=60_000) as connection:
            names = [
                region["name"].decode(errors="replace").rstrip(".").rpartition(".")[2]
                for table in ("index", "documents", "meta")
                for region in connection.table(f"{prefix}_{table}").regions()
            ]
        with suppress(AssertionError):  # of a region that is under way
            self.cluster.shell(f"{command.format(self.chance.choice(names))}\nexit\n")

    def _processes(self, kind: str) -> list[str]:
        return [name for name in self.cluster.description["pids"] if name.startswith(kind)]


@dataclass(frozen=True)
class Outcome:
    """What an adversary did, for the record."""

    operations: int
    lookups: int
    claims: Mapping[str, int]
    faults: Mapping[str, int]
    stored: int


def oppose(
    cluster: Cluster, prefix: str, folder: Path, seconds: float, seed: int, *, calm: float = 0
) -> Outcome:
    """Lets everybody work for so long, and asserts that nothing was lost, invented, or accepted twice. calm:
    seconds between two faults."""
    chance = random.Random(seed)
    relays = [
        Relay((host, int(port)))
        for host, port in (each.split(":") for each in cluster.description["gateways"])
    ]
    direct = cluster.url(prefix)
    addresses = ",".join(f"{LOCALHOST}:{relay.port}" for relay in relays)
    what = sharing(f"hbase://{addresses}/{direct.rpartition('/')[2]}", DOCUMENTS, GROUPS)
    crew = Crew(what, folder, chance)
    try:
        for work in (change, change, change, load, clean, look_up):
            crew.start(work)
        copier = crew.start(copy)
        crew.wait_until_all_work()
        faults = Faults(cluster, relays, crew, chance)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            faults.happen()
            crew.require_life()
            time.sleep(chance.uniform(0, 2 * calm))
    finally:
        crew.end()
        cluster.run("up")
    time.sleep(3)  # until gateways have done what they were asked before
    for relay in relays:
        relay.refuse()
    return judged(replace(what, url=direct), crew, copier, faults)


def judged(what: Sharing, crew: Crew, copier: Task, faults: Faults) -> Outcome:
    """Raises AssertionError for whatever the stored documents and the noted operations cannot both be."""
    writers = [each for each in crew.journals if not each.path.name.endswith("look_up")]
    lookups = [each for each in crew.journals if each.path.name.endswith("look_up")]
    history = History.of(writers)
    loaded = tuple(document for document in history.documents if document not in set(what.documents))
    what = replace(what, still=loaded)
    with open_index(what.url) as index:
        end_claims(index, Task(what, Journal(crew.folder / "last-claims"), 0), history)
        stored = assert_settled(what, history, index)
        shown = sum(assert_shown(what, history, journal) for journal in lookups)
        assert_none_near(what, stored)
        outcomes = Counter[str]()
        for journal in writers:
            outcomes += assert_duplicates(what, history, journal)
        assert Checker(index.store, index.profile.index_scheme).check().is_clean
        migrate(what.url, copy_of(copier))
        with open_index(copy_of(copier), access="read") as copied:
            ids = list(what.all)
            assert copied.fingerprints(ids) == index.fingerprints(ids)
    return Outcome(history.acknowledged, shown, outcomes, faults.happened, len(stored))


def end_claims(index: Index, task: Task, history: History) -> None:
    """Ends the claims of workers that were killed: whoever claims something near takes them over."""
    probes = {f"{task.what.documents[0]}/probe/{number}": value for number, value in enumerate(task.claimed)}
    ids, values = list(probes), FingerprintBatch.bare(np.array(list(probes.values()), dtype=np.uint64))
    claims = index.claim_batch(ids, values, CLAIM_TIMEOUT).claims
    assert {each.outcome for each in claims} <= {"accepted", "duplicate"}
    index.delete(ids)


def assert_none_near(what: Sharing, stored: Mapping[str, int]) -> None:
    """Of the fingerprints that claims give, each stored one is the only one near."""
    claimed = set(what.fingerprints[len(what.fingerprints) // 2 :])
    by_value: dict[int, list[str]] = {}
    for document, value in stored.items():
        if value in claimed:
            by_value.setdefault(value, []).append(document)
    for value in by_value:
        near = [document for other in what.near[value] for document in by_value.get(other, [])]
        assert len(near) == 1, f"near each other, and all accepted: {near}"


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
