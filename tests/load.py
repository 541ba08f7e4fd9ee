"""Processes that write and look up while something happens to the servers, and how long they waited.

What a writer does in its steps is given by functions of its number and the step's, so that everybody
knows what it has written from the number of steps that it has acknowledged.
"""

import multiprocessing
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simhbase.index import Index, open_index
from simhbase.model.values import Lookup

WRITERS = 4
BATCH = 20  # new documents of a step
QUERIES = 2  # about each of two steps of each writer
PATIENCE = 180.0  # seconds in which every process must get on
PAUSE = 0.3  # seconds between two steps at most
LATER = 5.0  # seconds

MOVED, DELETED = slice(0, 4), slice(4, 8)  # which of the new documents, in a later step
MOVED_AFTER, DELETED_AFTER = 2, 4  # steps


@dataclass(frozen=True)
class Step:
    """Documents by id that are stored or moved, ids that are deleted, and of the documents those that
    no later step changes."""

    stored: dict[str, int]
    deleted: list[str] = field(default_factory=list)
    lasting: dict[str, int] = field(default_factory=dict)


Plan = Callable[[int, int], Step]


def changing(writer: int, number: int) -> Step:
    """New documents, some older ones with other fingerprints, and the end of some still older ones."""
    new = _batch(writer, number)
    moved = _part(_batch(writer, number - MOVED_AFTER, version=1), MOVED)
    deleted = _part(_batch(writer, number - DELETED_AFTER), DELETED)
    changed_later = _part(new, MOVED) | _part(new, DELETED)
    lasting = {document: new[document] for document in new.keys() - changed_later.keys()}
    return Step(new | moved, list(deleted), lasting | moved)


def _batch(writer: int, number: int, version: int = 0) -> dict[str, int]:
    if number < 0:
        return {}
    chance = np.random.default_rng([writer, number, version])
    fingerprints = chance.integers(0, 2**64, BATCH, dtype=np.uint64).tolist()
    return {f"{writer}/{number}/{i}": fingerprint for i, fingerprint in enumerate(fingerprints)}


def _part(batch: dict[str, int], part: slice) -> dict[str, int]:
    return dict(islice(batch.items(), part.start, part.stop))


@dataclass(frozen=True)
class Spell:
    """A step or a lookup, from when to when."""

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin


@dataclass(frozen=True)
class Log:
    """The spells that a process has had so far, a line each; others read it meanwhile."""

    path: Path

    def note(self, begin: float) -> None:
        with self.path.open("a") as file:
            file.write(f"{begin} {time.monotonic()}\n")

    def spells(self) -> list[Spell]:
        if not self.path.exists():
            return []
        *lines, _ = self.path.read_text().split("\n")
        return [Spell(*map(float, line.split())) for line in lines]


def write(url: str, plan: Plan, writer: int, log: Log, stop: Event) -> None:
    """Takes one step after the other, and notes each when all of it is acknowledged."""
    chance = random.Random(writer)
    with open_index(url) as index:
        for number in range(1_000_000):
            if stop.wait(chance.uniform(0, PAUSE)):
                break
            step = plan(writer, number)
            begin = time.monotonic()
            index.add_fingerprints(list(step.stored), _array(step.stored.values()))
            if step.deleted:
                index.delete(step.deleted)
            log.note(begin)


def look_up(url: str, plan: Plan, writers: Sequence[Log], log: Log, stop: Event) -> None:
    """Looks up neighbours of what has been acknowledged, just now and earlier; ends with an error where
    one is not found."""
    chance = random.Random(len(writers))
    with open_index(url, access="read") as index:
        while not stop.wait(chance.uniform(0, PAUSE)):
            chosen = [
                item
                for writer, count in enumerate(len(log.spells()) for log in writers)
                if count
                for number in (count - 1, chance.randrange(count))
                for item in chance.sample(list(plan(writer, number).lasting.items()), QUERIES)
            ]
            if chosen:
                begin = time.monotonic()
                assert_found(index, chosen, chance)
                log.note(begin)


def assert_found(index: Index, documents: Sequence[tuple[str, int]], chance: random.Random) -> None:
    """Every document is found by a near fingerprint."""
    queries = _array(neighbour(fingerprint, chance) for _, fingerprint in documents)
    missing = _missing(index, documents, queries)
    if missing:  # is it lost, or was it hidden for a moment?
        time.sleep(LATER)
        still = _missing(index, documents, queries)
        raise AssertionError(f"acknowledged, but not found: {missing}, {LATER:g} s later: {still}")


def _missing(
    index: Index, documents: Sequence[tuple[str, int]], queries: NDArray[np.uint64]
) -> dict[str, Lookup]:
    return {
        document: lookup
        for (document, fingerprint), lookup in zip(documents, index.find_fingerprints(queries), strict=True)
        if not _has(lookup, document, fingerprint)
    }


def neighbour(fingerprint: int, chance: random.Random) -> int:
    """A fingerprint within 3 bits."""
    for bit in chance.sample(range(64), chance.randint(0, 3)):
        fingerprint ^= 1 << bit
    return fingerprint


def _has(lookup: Lookup, document: str, fingerprint: int) -> bool:
    return any((match.id, match.fingerprint) == (document, fingerprint) for match in lookup.matches)


def _array(values: Iterator[int]) -> NDArray[np.uint64]:
    return np.fromiter(values, dtype=np.uint64)


@dataclass(frozen=True)
class Stalls:
    """How long steps and lookups took, in seconds: usually, and at most after a fault."""

    usual_write: float
    longest_write: float
    usual_lookup: float
    longest_lookup: float


class Processes(AbstractContextManager["Processes"]):
    """Functions that work in a process each, and end when the event is set that each is given last."""

    def __init__(self, works: Sequence[Callable[[Event], None]]) -> None:
        context = multiprocessing.get_context("spawn")
        self._stop = context.Event()
        self._processes: list[BaseProcess] = [
            context.Process(target=work, args=(self._stop,), daemon=True) for work in works
        ]

    def __enter__(self) -> Self:
        for process in self._processes:
            process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
            process.join()

    def require_life(self) -> None:
        """None has ended so far."""
        ended = [process.exitcode for process in self._processes if process.exitcode is not None]
        assert not ended, f"processes ended with {ended}, see what they wrote to stderr"

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Returns when something holds, while all go on."""
        deadline = time.monotonic() + PATIENCE
        while not holds():
            self.require_life()
            assert time.monotonic() < deadline, f"some did not get on within {PATIENCE:g} s"
            time.sleep(0.1)

    def stop(self) -> None:
        """Lets them finish what they have begun; all end without an error."""
        self._stop.set()
        for process in self._processes:
            process.join(PATIENCE)
        assert [process.exitcode for process in self._processes] == [0] * len(self._processes)


class Load(Processes):
    """Four writers, and one that looks up, unless nobody is to; all with one index each from the first step
    to the last."""

    def __init__(self, url: str, folder: Path, plan: Plan, *, looks_up: bool = True) -> None:
        self._plan = plan
        self._writes = [Log(folder / f"writer-{writer}") for writer in range(WRITERS)]
        self._lookups = Log(folder / "lookups")
        works = [partial(write, url, plan, writer, log) for writer, log in enumerate(self._writes)]
        self._logs = [*self._writes, self._lookups] if looks_up else self._writes
        looking_up = partial(look_up, url, plan, self._writes, self._lookups)
        super().__init__([*works, looking_up] if looks_up else works)

    def go_on(self, spells: int) -> None:
        """Returns when every process has begun and ended so many steps or lookups from now on."""
        now = time.monotonic()
        self.wait_until(lambda: all(self._since(log, now) >= spells for log in self._logs))

    def stalls(self, since: float) -> Stalls:
        """What a fault at that moment cost, of what has ended."""
        writes = [spell for log in self._writes for spell in log.spells()]
        return Stalls(*_usual_and_longest(writes, since), *_usual_and_longest(self._lookups.spells(), since))

    def acknowledged(self) -> dict[str, int]:
        """The documents that are stored after all acknowledged steps."""
        stored: dict[str, int] = {}
        for step in self._steps():
            stored |= step.stored
            for document in step.deleted:
                del stored[document]
        return stored

    def deleted(self) -> list[str]:
        """The documents that were deleted in acknowledged steps."""
        return [document for step in self._steps() for document in step.deleted]

    def left_behind(self) -> list[int]:
        """The fingerprints that documents had before they were moved or deleted."""
        stored = self.acknowledged()
        return [
            fingerprint
            for step in self._steps()
            for document, fingerprint in step.stored.items()
            if stored.get(document) != fingerprint
        ]

    def planted(self) -> list[tuple[str, int]]:
        """Some documents of every acknowledged step."""
        return [item for step in self._steps() for item in list(step.lasting.items())[::7]]

    def _steps(self) -> Iterator[Step]:
        for writer, log in enumerate(self._writes):
            for number in range(len(log.spells())):
                yield self._plan(writer, number)

    @staticmethod
    def _since(log: Log, moment: float) -> int:
        return sum(spell.begin > moment for spell in log.spells())


def _usual_and_longest(spells: Sequence[Spell], since: float) -> tuple[float, float]:
    usual = statistics.median(spell.seconds for spell in spells) if spells else 0.0
    longest = max((spell.seconds for spell in spells if spell.end >= since), default=0.0)
    return round(usual, 3), round(longest, 3)
