"""What workers do, each in its process or thread: they go on through every error of simhbase, and note it."""

import random
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import numpy as np

from simhbase.admin import vacuum
from simhbase.admin.check import Checker
from simhbase.admin.migrate import migrate
from simhbase.admin.vacuum import Vacuum
from simhbase.errors import PermanentError, RetryableError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.model.values import Claim
from simhbase.stores import atomic
from simhbase.stores.base import Access, now
from simhbase.stores.hbase import clocks
from simhbase.stores.postgresql import store as postgresql
from simhbase.stores.redis import store as redis
from tests.command_line import COMMAND, environment, fingerprints, read_lines
from tests.history import AT_ONCE, PAUSE, QUERIES, Journal, Sharing

CLAIM_TIMEOUT = 60.0  # seconds
GRACE = 180.0  # seconds: of vacuums and repairs, which longer runs then see; nothing takes as long here
LOADED = 60  # documents of a load
LOAD_SECONDS = 120.0  # that a load may take, then it is killed
CROWD_AT_ONCE = 5_000  # documents with equal fingerprints that are written together
CROWD_VALUES = (0x5555_5555_5555_5555, 0xAAAA_AAAA_AAAA_AAAA)  # near nothing else
REPEATS = 3  # times that a failed call is made, as its message says
TURN = 4.0  # seconds for which a process keeps a store that one process at a time can write
RELEASED = 0.5  # seconds for which it then leaves it to others
# Exit codes of a load: of passing errors, and of those of a store that is damaged or not there.
PASSING, FAILED = {11: "StoreUnreachable", 13: "StoreBusy"}, {1: "StoreFailed", 10: "TablesMissing"}


@dataclass(frozen=True)
class Task:
    """What a worker is given: where to note what it does, the seed of its choices, how far its clock is
    ahead, how many documents are in the crowd, the seconds between lookups at most, how to run a command of
    simhbase, and with what in its environment."""

    what: Sharing
    journal: Journal
    seed: int
    ahead: int = 0
    crowd: int = 0
    pause: float = PAUSE
    command: Sequence[str] = tuple(COMMAND)
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def added(self) -> Sequence[int]:
        """The fingerprints that adds and loads give."""
        return self.what.fingerprints[: len(self.what.fingerprints) // 2]

    @property
    def claimed(self) -> Sequence[int]:
        """Those that claims and unique loads only give."""
        return self.what.fingerprints[len(self.what.fingerprints) // 2 :]

    @property
    def errors(self) -> Journal:
        """Lines of: begin, end, class, message, true if it passes."""
        return Journal(self.journal.path.with_suffix(".errors"))

    def part(self, number: int, name: str) -> "Task":
        """The task of a thread."""
        stem = self.journal.path.stem.partition("-")[0]
        path = self.journal.path.with_name(f"{stem}.{number}-{name}.journal")
        return replace(self, journal=Journal(path), seed=self.seed * 100 + number)

    @contextmanager
    def noting(self, *kinds: type[Exception]) -> Iterator[list[Exception]]:
        """Notes such an error, also in the list, and goes on behind the block."""
        begin, noted = time.monotonic(), list[Exception]()
        try:
            yield noted
        except kinds as error:
            noted.append(error)
            passes = isinstance(error, RetryableError)
            self.errors.note(begin, time.monotonic(), type(error).__name__, str(error), passes)

    def opened(self, access: Access = "write") -> Index:
        for module in (clocks, atomic, postgresql, redis):
            module.now = lambda: now() + self.ahead  # type: ignore[attr-defined]
        return open_index(self.what.url, access=access)


Step = Callable[[Index], object]
Work = Callable[[Task], None]


def repeat(task: Task, step: Step, access: Access = "write") -> None:
    """Does it again and again. An error that passes was no acknowledgement; after another one the index is
    opened again."""
    while True:
        with task.noting(RetryableError, PermanentError), task.opened(access) as index:
            lasting = False
            while not lasting:
                with task.noting(RetryableError, PermanentError) as noted:
                    step(index)
                lasting = any(isinstance(error, PermanentError) for error in noted)
        time.sleep(PAUSE)


def change(task: Task) -> None:
    repeat(task, changing(task))


def changing(task: Task) -> Step:
    """Adds, deletes and claims."""
    chance = random.Random(task.seed)

    def step(index: Index) -> None:
        time.sleep(chance.uniform(0, PAUSE))
        ids = chance.sample(task.what.documents, chance.randint(1, AT_ONCE))
        kind = chance.random()
        if kind < 0.2:
            written: dict[str, int | None] = {each: chance.choice(task.added) for each in ids}
            again(task, lambda: task.journal.perform(index, written))
        elif kind < 0.55:
            again(task, lambda: task.journal.perform(index, dict.fromkeys(ids)))
        else:
            values = {each: chance.choice(task.claimed) for each in ids}
            again(task, lambda: claim(index, task.journal, values))

    return step


def again(task: Task, call: Callable[[], None]) -> None:
    """Makes a call once more after an error that passes."""
    for _ in range(REPEATS):
        with task.noting(RetryableError):
            call()
            return


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
        time.sleep(chance.uniform(0, 100 * task.pause))


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
    words = ("load", path, "--fingerprint-field", "f", "--store", task.what.url, "--json")
    begin = time.monotonic()
    task.journal.note("begin", begin, texts)
    try:
        done = subprocess.run(
            [*task.command, *map(str, (*words, "--lock-wait", "20s", *options, *outputs))],
            cwd=folder,
            env=environment(**task.variables),
            capture_output=True,
            check=False,
            timeout=LOAD_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return
    if done.returncode == 0:
        duplicates = [each["id"] for each in read_lines(told)] if outputs else []
        task.journal.note("end", time.monotonic(), duplicates, [], [])
    else:
        said, names = done.stderr.decode(), PASSING | FAILED
        assert done.returncode in names, said
        passes = done.returncode in PASSING
        task.errors.note(begin, time.monotonic(), names[done.returncode], said, passes)


def move_crowd(task: Task) -> None:
    repeat(task, crowd_moving(task))


def crowd_moving(task: Task) -> Step:
    """Gives many documents one fingerprint, then all of them another one, and so on."""
    parts = max(1, task.crowd // CROWD_AT_ONCE)
    numbers = count()

    def step(index: Index) -> None:
        number = next(numbers)
        value = CROWD_VALUES[number // parts % 2]
        ids = [f"crowd/{task.what.documents[0]}/{each}" for each in range(number % parts, task.crowd, parts)]
        begin = time.monotonic()
        with task.noting(RetryableError):
            task.journal.perform(index, dict.fromkeys(ids, value))
        time.sleep(2 * (time.monotonic() - begin))  # leaves the servers to the others

    return step


def clean(task: Task) -> None:
    repeat(task, cleaning(task))


def cleaning(task: Task) -> Step:
    """Vacuums and repairs."""
    vacuum.LEAST_GRACE = 0

    def step(index: Index) -> None:
        scheme = index.profile.index_scheme
        task.journal.note("begin", time.monotonic(), {})
        Vacuum(index.store, scheme, GRACE, index.clock).run()
        Checker(index.store, scheme, True, GRACE, index.clock).check()
        task.journal.note("end", time.monotonic())
        time.sleep(1)

    return step


def compacting(task: Task) -> Step:
    """Compacts all tables, again and again."""
    chance = random.Random(task.seed)

    def step(index: Index) -> None:
        task.journal.note("begin", time.monotonic(), {})
        index.store.compact(whole=True)
        task.journal.note("end", time.monotonic())
        time.sleep(chance.choice([0.1, 3]))  # until when the log grows

    return step


WRITING: Sequence[Callable[[Task], Step]] = (
    changing,
    changing,
    changing,
    crowd_moving,
    cleaning,
    compacting,
)


def write_together(task: Task) -> None:
    """All that writes in threads of one process, which leaves the store to others now and then."""
    parts = [task.part(number, work.__name__) for number, work in enumerate(WRITING)]
    steps = [work(part) for work, part in zip(WRITING, parts, strict=True)]
    while True:
        with task.noting(RetryableError, PermanentError), task.opened() as index:
            end = time.monotonic() + TURN
            with ThreadPoolExecutor(len(parts)) as threads:
                for thread in [
                    threads.submit(take_turn, part, step, index, end)
                    for part, step in zip(parts, steps, strict=True)
                ]:
                    thread.result()
        time.sleep(RELEASED)


def take_turn(task: Task, step: Step, index: Index, end: float) -> None:
    while time.monotonic() < end:
        with task.noting(RetryableError, PermanentError):
            step(index)


def copy(task: Task) -> None:
    """Migrates to an embedded store, again and again."""
    to = copy_in(task.journal.path.parent)
    while True:
        task.journal.note("begin", time.monotonic(), {})
        with task.noting(RetryableError, PermanentError):
            migrate(task.what.url, to)
            task.journal.note("end", time.monotonic())
        time.sleep(1)


def copy_in(folder: Path) -> str:
    return f"rocksdb:{folder / 'copy.db'}"


def look_up(task: Task) -> None:
    repeat(task, looking_up(task), "read")


def look_up_newly(task: Task) -> None:
    """Opens the index for each lookup."""
    step = looking_up(task)
    while True:
        with task.noting(RetryableError, PermanentError), task.opened("read") as index:
            step(index)


def looking_up(task: Task) -> Step:
    chance = random.Random(task.seed)

    def step(index: Index) -> None:
        time.sleep(chance.uniform(0, task.pause))
        queries = chance.sample(task.what.fingerprints, QUERIES)
        begin = time.monotonic()
        lookups = index.find_fingerprints(queries)
        end = time.monotonic()
        for query, lookup in zip(queries, lookups, strict=True):
            found = [(match.id, match.fingerprint) for match in lookup.matches]
            task.journal.note(query, found, begin, end)

    return step


WORK: Sequence[Work] = (change, change, change, load, clean, look_up, copy, move_crowd)
LOOKUPS, CROWDS = ("look_up", "look_up_newly"), ("move_crowd", "crowd_moving")
