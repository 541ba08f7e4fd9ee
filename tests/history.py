"""What many processes have done to the same documents, and what lookups may have shown of them.

Every process notes when its operations began and when they were acknowledged. The documents row is the one
truth, so a document behaves like a register: what is read of it is what an operation has written that had
begun, unless another one that was acknowledged before the read began after it had ended.
"""

import json
import random
import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np

from simhbase.index import Index, open_index
from simhbase.stores.base import now

FOREVER = float("inf")
K = 3
AT_ONCE = 5  # documents of an operation at most
PAUSE = 0.02  # seconds between two operations at most
DELETED_SHARE = 0.3
QUERIES = 4


@dataclass(frozen=True, slots=True)
class Operation:
    """A document got a fingerprint, or was deleted (None); from when to when that was under way. What was
    never acknowledged has no end."""

    fingerprint: int | None
    begin: float
    end: float = FOREVER


@dataclass(frozen=True)
class Shown:
    """What a lookup showed: the documents by id with their fingerprints, each as often as it was there."""

    query: int
    documents: list[tuple[str, int]]
    begin: float
    end: float


@dataclass(frozen=True)
class Journal:
    """Lines of JSON that a process writes and others read: when an operation begins and what it is to write,
    when it has ended and which documents it declined to write."""

    path: Path

    def note(self, *values: object) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(values) + "\n")

    def perform(self, index: Index, written: dict[str, int | None]) -> None:
        """Adds documents, or deletes those without a fingerprint, and notes when that began and ended."""
        values = list(written.values())
        self.note("begin", time.monotonic(), written)
        if None in values:
            index.delete(list(written))
        else:
            index.add_fingerprints(list(written), np.array(values, np.uint64))
        self.note("end", time.monotonic())

    @property
    def size(self) -> int:
        """How many lines there are."""
        return self.path.read_bytes().count(b"\n") if self.path.exists() else 0

    def lines(self) -> Iterator[list]:
        if self.path.exists():
            *lines, _ = self.path.read_text().split("\n")  # the last one may be half written
            yield from map(json.loads, lines)


@dataclass(frozen=True)
class Sharing:
    """What writers write: any of these documents gets any of these fingerprints, of which some are near
    each other, or is deleted. still: others that were written before."""

    url: str
    documents: tuple[str, ...]
    fingerprints: tuple[int, ...]
    still: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """All documents."""
        return self.documents + self.still

    @cached_property
    def near(self) -> dict[int, set[int]]:
        """By fingerprint, those near it."""
        return {
            one: {other for other in self.fingerprints if (one ^ other).bit_count() <= K}
            for one in self.fingerprints
        }


def sharing(url: str, documents: int, groups: int = 4) -> Sharing:
    """Ids that no other test has used, and three fingerprints of each group."""
    token = f"{time.time_ns():x}"
    chance = random.Random(groups)
    return Sharing(
        url,
        tuple(f"{token}/{number}" for number in range(documents)),
        tuple(
            group ^ bits
            for group in [chance.getrandbits(64) for _ in range(groups)]
            for bits in (0, 1, 0b110 << 40)
        ),
    )


def with_clock(index: Index, clock: Callable[[], int]) -> Index:
    """The same index, whose writer has another clock."""
    index.writer = replace(index.writer, clock=clock)
    return index


@dataclass(frozen=True)
class Ahead:
    """A clock that is so many milliseconds ahead."""

    milliseconds: int = 0

    def __call__(self) -> int:
        return now() + self.milliseconds


def write(what: Sharing, journal: Journal, seed: int, ahead: int, stop: Event) -> None:
    """Adds and deletes at random."""
    chance = random.Random(seed)
    with open_index(what.url) as opened:
        index = with_clock(opened, Ahead(ahead))
        while not stop.wait(chance.uniform(0, PAUSE)):
            ids = chance.sample(what.documents, chance.randint(1, AT_ONCE))
            deletes = chance.random() < DELETED_SHARE
            journal.perform(
                index, {document: None if deletes else chance.choice(what.fingerprints) for document in ids}
            )


def look_up(what: Sharing, journal: Journal, stop: Event) -> None:
    """Looks up some of the fingerprints again and again."""
    chance = random.Random(1)
    with open_index(what.url, access="read") as index:
        while not stop.wait(chance.uniform(0, PAUSE)):
            queries = chance.sample(what.fingerprints, QUERIES)
            begin = time.monotonic()
            lookups = index.find_fingerprints(queries)
            end = time.monotonic()
            for query, lookup in zip(queries, lookups, strict=True):
                found = [(match.id, match.fingerprint) for match in lookup.matches]
                assert all(
                    match.distance == (match.fingerprint ^ query).bit_count() for match in lookup.matches
                )
                journal.note(query, found, begin, end)


class History:
    """All that was done, by document. latest: seconds after its beginning in which an operation that was not
    acknowledged may take effect; in HBase others may end a claim at any time."""

    def __init__(self, operations: dict[str, list[Operation]], latest: float = FOREVER) -> None:
        self._latest = latest
        self._of = {document: _Register.of(done) for document, done in operations.items()}
        self._by_fingerprint: dict[int | None, set[str]] = defaultdict(set)
        for document, done in operations.items():
            for each in done:
                self._by_fingerprint[each.fingerprint].add(document)

    @staticmethod
    def of(journals: Sequence[Journal], latest: float = FOREVER) -> "History":
        """What writers have noted."""
        operations: dict[str, list[Operation]] = defaultdict(list)
        for journal in journals:
            under_way: tuple[float, dict[str, int | None]] = (0.0, {})
            # Of what never ended each document may have been written.
            for kind, moment, *more in [*journal.lines(), ("begin", 0.0, {})]:
                begin, written = under_way
                if kind == "begin":
                    end, declined, under_way = FOREVER, [], (moment, more[0])
                else:
                    end, declined, under_way = moment, more[0] if more else [], (0.0, {})
                for document in written.keys() - set(declined):
                    operations[document].append(Operation(written[document], begin, end))
        return History(operations, latest)

    @property
    def documents(self) -> list[str]:
        """All that operations named."""
        return list(self._of)

    def with_fingerprints(self, fingerprints: Iterable[int]) -> set[str]:
        """The documents that ever were to get one of these."""
        return {document for each in fingerprints for document in self._by_fingerprint.get(each, ())}

    @property
    def acknowledged(self) -> int:
        """How many operations on a document were."""
        return sum(len(each.done) for each in self._of.values())

    def possible(self, document: str, begin: float = FOREVER, end: float = FOREVER) -> set[int | None]:
        """What may be read of a document from begin to end; None: nothing."""
        register = self._of.get(document)
        return {None} if register is None else register.possible(begin, end, self._latest)

    def last(self, document: str) -> list[Operation]:
        """What was done to it last."""
        register = self._of.get(document)
        return [] if register is None else [*register.done[-5:], *register.endless[-5:]]


@dataclass(frozen=True, slots=True)
class _Register:
    """The operations on one document. done: by their end; endless: those that were never acknowledged, by
    their begin; latest: the latest begin among the first so many that are done; earliest: the earliest among
    all from one on."""

    done: list[Operation]
    endless: list[Operation]
    ends: list[float]
    begins: list[float]
    latest: list[float]
    earliest: list[float]

    @staticmethod
    def of(operations: Iterable[Operation]) -> "_Register":
        ordered = sorted(operations, key=lambda each: (each.end, each.begin))
        done = [each for each in ordered if each.end < FOREVER]
        endless = ordered[len(done) :]
        begins = [each.begin for each in done]
        return _Register(
            done,
            endless,
            [each.end for each in done],
            [each.begin for each in endless],
            [-FOREVER, *accumulate(begins, max)],
            [*accumulate(reversed(begins), min)][::-1],
        )

    def possible(self, begin: float, end: float, delay: float) -> set[int | None]:
        """What had begun by the end, unless something that had ended by the beginning began after it."""
        latest = self.latest[bisect_left(self.ends, begin)]
        found: set[int | None] = {None} if latest == -FOREVER else set()
        for number in range(bisect_left(self.ends, latest), len(self.done)):
            if self.earliest[number] > end:
                break
            if self.done[number].begin <= end:
                found.add(self.done[number].fingerprint)
        first = bisect_left(self.begins, latest - delay)
        found.update(each.fingerprint for each in self.endless[first : bisect_right(self.begins, end)])
        return found


def assert_shown(what: Sharing, history: History, lookups: Journal) -> int:
    """Everything that lookups showed was so while they ran, nothing was missed or shown twice; returns how
    many there were."""
    near, all_ = what.near, set(what.all)
    near_ever = {query: history.with_fingerprints(near[query]) & all_ for query in near}
    lines = list(lookups.lines())
    for query, documents, begin, end in lines:
        shown = Shown(query, [(document, value) for document, value in documents], begin, end)
        by_id = dict(shown.documents)
        assert len(by_id) == len(shown.documents), f"twice in {shown}"
        assert by_id.keys() <= all_, shown
        for document, value in by_id.items():
            possible = history.possible(document, begin, end)
            assert value in near[query]
            assert value in possible, f"{document}: {possible}, and {shown}"
        for document in near_ever[query] - by_id.keys():
            possible = history.possible(document, begin, end)
            assert not possible <= near[query], f"{document}: {possible}, and {shown}"
    return len(lines)


def assert_settled(
    what: Sharing, history: History, index: Index, begin: float = FOREVER, end: float = FOREVER
) -> dict[str, int]:
    """Every document is as the last operations on it have left it, or as it was from begin to end, and
    lookups show all documents as they are, and nothing else; returns what is stored."""
    now_ = dict(zip(what.all, index.fingerprints(what.all), strict=True))
    wrong = {
        document: (value, history.possible(document, begin, end), history.last(document))
        for document, value in now_.items()
        if value not in history.possible(document, begin, end)
    }
    assert not wrong, f"acknowledged, and lost: {wrong}"
    stored = {document: value for document, value in now_.items() if value is not None}
    near = what.near
    for query, lookup in zip(what.fingerprints, index.find_fingerprints(what.fingerprints), strict=True):
        expected = sorted(item for item in stored.items() if item[1] in near[query])
        assert sorted((match.id, match.fingerprint) for match in lookup.matches) == expected
        assert not lookup.truncated
    return stored
