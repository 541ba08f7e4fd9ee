"""Whatever is done to an index, in whatever order, it answers as a plain dict does: id -> what is stored.

Documents are some of a few contents, most of which are near each other. What is near is told beforehand, by
comparing all with all. After a vacuum and a check the tables hold the rows of the dict, and no others.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import simhbase
from simhbase import Document, Profile
from simhbase.admin.check import Checker
from simhbase.admin.vacuum import DAY, LEAST_GRACE, Vacuum
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index.index import Index
from simhbase.index.stored_profile import read_profile, write_profile
from simhbase.index.writer import DocumentBatch
from simhbase.stores import open_store
from simhbase.stores.arrays import to_bytes
from simhbase.stores.base import Changes, Store, now
from simhbase.stores.strings import pairs
from tests.simulated import Server, SimulatedStore

IDS = ["a", "b", "ü", "ab", "a\x00", "long" * 50]
VALUE = 0x0123456789ABCDEF
VALUES = [VALUE, VALUE ^ 1, VALUE ^ 3, VALUE ^ 1 << 63, VALUE ^ 7 << 30, ~VALUE & (1 << 64) - 1, 0]
SENTENCE = "the quick brown fox jumps over the lazy dog while nobody looks at what it does there"
TEXTS = [
    SENTENCE,
    SENTENCE.replace("lazy", "sleepy"),
    SENTENCE.replace("nobody", "somebody"),
    f"{SENTENCE} any more",
    SENTENCE.upper(),
    "all happy families are alike; each unhappy family is unhappy in its own way",
    "call me ishmael. some years ago, never mind how long precisely, having little money",
]


@dataclass(frozen=True)
class Contents:
    """What documents may be: texts, or fingerprints made elsewhere, of one profile.

    distances: of which is near which, (distance) by (query, stored).
    """

    profile: Profile
    values: Sequence[str | int]
    fingerprints: FingerprintBatch
    distances: dict[tuple[int, int], int]


def contents(profile: Profile, values: Sequence[str | int]) -> Contents:
    scheme = profile.index_scheme
    if isinstance(values[0], str):
        fingerprints = profile.fingerprinter().fingerprint_many(values).fingerprints
    else:
        fingerprints = FingerprintBatch.bare(np.array(values, dtype=np.uint64))
    query, stored = (each.ravel() for each in np.indices((len(values), len(values))))
    bounds = scheme.bounds(None, None)
    bits = scheme.bits_apart(fingerprints.values[query], fingerprints.values[stored])
    mismatches = np.zeros(len(query), dtype=np.int64)
    near = bits <= bounds.bits
    if scheme.sketching is not None:
        compared = fingerprints.sketches, query, fingerprints.sketches, stored
        mismatches, few = bounds.verified(scheme.sketching, *compared)
        near &= few
    # What shares no drawer is not found.
    drawers = scheme.prefixes(fingerprints)
    near &= (drawers[query] == drawers[stored]).all(axis=2).any(axis=1)
    distances = scheme.distances(bits, mismatches)
    return Contents(
        profile,
        values,
        fingerprints,
        {
            (int(a), int(b)): int(distance)
            for a, b, distance, chosen in zip(query, stored, distances, near, strict=True)
            if chosen
        },
    )


class Crash(Exception):
    """The process ends here."""


@dataclass
class Fragile:
    """A store whose process crashes before one of its calls: that many more are carried out."""

    store: Store
    calls: int | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)

    @property
    def drawers(self) -> "_FragileTable":
        return _FragileTable(self.store.drawers, self)

    def records(self, table: str) -> "_FragileTable":
        return _FragileTable(self.store.records(table), self)

    @property
    def commit(self) -> Callable[[Changes], None]:
        """That of a store that keeps hints is its calls."""
        return partial(type(self.store).commit, self) if self.store.keeps_hints else self.store.commit

    def count(self) -> None:
        if self.calls is not None:
            if not self.calls:
                raise Crash
            self.calls -= 1


@dataclass(frozen=True)
class _FragileTable:
    table: object
    fragile: Fragile

    def __getattr__(self, name: str) -> object:
        self.fragile.count()
        return getattr(self.table, name)


@dataclass(frozen=True)
class Kind:
    """fresh: a new store with a profile; again: the same store, opened anew, None where it is gone then."""

    fresh: Callable[[Profile], Index]
    again: Callable[[Index], Index] | None
    crashes: bool = False
    examples: int = 10
    steps: int = 30


def index_over(store: Store) -> Index:
    fragile = Fragile(store)
    return Index(fragile, read_profile(fragile))


def memory(folder: Path) -> Kind:
    return Kind(lambda profile: simhbase.open("memory:", create=profile), None)


def rocksdb(folder: Path) -> Kind:
    numbers = count()

    def again(index: Index) -> Index:
        index.close()
        return simhbase.open(index.store.url)

    return Kind(
        lambda profile: simhbase.open(f"rocksdb:{folder / str(next(numbers))}", create=profile), again
    )


def simulated(folder: Path) -> Kind:
    created = {}

    def fresh(profile: Profile) -> Index:
        if profile not in created:
            server = Server()
            write_profile(SimulatedStore(server.ask), profile)
            created[profile] = server.state
        return index_over(SimulatedStore(Server(created[profile]).ask))

    return Kind(fresh, lambda index: index_over(index.store.store), crashes=True, examples=12)


def hbase(request: pytest.FixtureRequest) -> Kind:
    cluster = request.getfixturevalue("hbase")

    def fresh(profile: Profile) -> Index:
        url = cluster.empty_store("states")
        simhbase.open(url, create=profile).close()
        return index_over(open_store(url, "write"))

    def again(index: Index) -> Index:
        index.close()
        return index_over(open_store(index.store.url, "write"))

    return Kind(fresh, again, crashes=True, examples=4, steps=15)


def machine(kind: Kind, of: Contents) -> type[RuleBasedStateMachine]:
    """A machine over fresh stores of one kind."""
    chosen = st.integers(0, len(of.values) - 1)
    batches = st.dictionaries(st.sampled_from(IDS), chosen, min_size=1, max_size=len(IDS))
    some = st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=True)

    class Stored(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.index = kind.fresh(of.profile)
            self.oracle: dict[str, int] = {}

        @rule(batch=batches)
        def add(self, batch: dict[str, int]) -> None:
            report = self._add(batch)
            unchanged = sum(self._stored_alike(document, value) for document, value in batch.items())
            assert report.stored == len(batch)
            assert report.added == len(batch.keys() - self.oracle.keys())
            assert report.unchanged >= unchanged
            self.oracle |= batch

        def _stored_alike(self, document: str, value: int) -> bool:
            old = self.oracle.get(document)
            return old is not None and _same(of, old, value)

        def _add(self, batch: dict[str, int]) -> simhbase.AddReport:
            values = [of.values[value] for value in batch.values()]
            if of.profile.sketching is None and not isinstance(of.values[0], str):
                return self.index.add_fingerprints(list(batch), values)
            return self.index.add([Document(*each) for each in zip(batch, values, strict=True)])

        @rule(ids=some)
        def delete(self, ids: list[str]) -> None:
            assert self.index.delete(ids) == len(self.oracle.keys() & set(ids))
            for document in ids:
                self.oracle.pop(document, None)

        @rule(query=chosen)
        def find(self, query: int) -> None:
            value = of.values[query]
            lookup = (
                self.index.find(value) if isinstance(value, str) else self.index.find_fingerprints([value])[0]
            )
            assert _shown(lookup) == self._expected(query)
            assert not lookup.truncated

        @rule()
        def find_all(self) -> None:
            lookups = self.index.find_batch(of.fingerprints)
            assert list(map(_shown, lookups)) == [self._expected(query) for query in range(len(of.values))]

        @rule(ids=some)
        def find_ids(self, ids: list[str]) -> None:
            for document, lookup in zip(ids, self.index.find_ids(ids), strict=True):
                if document in self.oracle:
                    assert _shown(lookup) == self._expected(self.oracle[document])
                else:
                    assert lookup.fingerprint is None
                    assert lookup.reason

        def _expected(self, query: int) -> list[tuple[int, str, int]]:
            return sorted(
                (of.distances[query, value], document, int(of.fingerprints.values[value]))
                for document, value in self.oracle.items()
                if (query, value) in of.distances
            )

        @precondition(lambda self: kind.again is not None)
        @rule()
        def reopen(self) -> None:
            self.index = kind.again(self.index)

        @precondition(lambda self: kind.crashes)
        @rule(change=st.one_of(batches, some), calls=st.integers(0, 6))
        def crash(self, change: dict[str, int] | list[str], calls: int) -> None:
            """Of what was not acknowledged each document is as it was or as it was to be."""
            wanted = dict.fromkeys(change) if isinstance(change, list) else change
            with _crashing(self.index, calls):
                _ = self.index.delete(change) if isinstance(change, list) else self._add(change)
            self.index = kind.again(self.index)
            for document, found in zip(wanted, self.index.fingerprints(list(wanted)), strict=True):
                possible = [wanted[document], self.oracle.get(document)]
                values = [None if each is None else int(of.fingerprints.values[each]) for each in possible]
                assert found in values
                if found == values[0]:
                    self.oracle[document] = wanted[document]
                if self.oracle.get(document) is None:
                    self.oracle.pop(document, None)

        @rule()
        def clean(self) -> None:
            """What is needed stays, and nothing else does."""
            store, scheme = self.index.store, of.profile.index_scheme
            later = _tomorrow
            Vacuum(store, scheme, LEAST_GRACE, later).run()
            checked = Checker(store, scheme, repair=True, grace=LEAST_GRACE, clock=later).check()
            assert checked.clean, checked
            assert Checker(store, scheme, grace=LEAST_GRACE, clock=later).check().garbage == {}
            self._holds_what_is_needed()
            if "obsolete" in store.tables:
                # What was removed today is what a vacuum of tomorrow saw. Its versions must have passed, as
                # they have by then: they run ahead of the clock where one millisecond sees many operations.
                time.sleep(0.02)

        def _holds_what_is_needed(self) -> None:
            store = self.index.store
            batch = DocumentBatch(list(self.oracle), of.fingerprints[list(self.oracle.values())])
            assert _cells(store, "documents") == dict(pairs(*batch.document_rows(of.profile.index_scheme)))
            assert _cells(store, "fingerprints") == dict(batch.listings(of.profile.index_scheme))
            keys = of.profile.index_scheme.keys(of.fingerprints[list(self.oracle.values())])
            held = [key for found in store.drawers.iterate() for key in to_bytes(found.keys)]
            assert held == sorted(set(to_bytes(keys)))
            if "obsolete" in store.tables:
                assert _cells(store, "obsolete") == {}

        @invariant()
        def documents_are_as_stored(self) -> None:
            found = self.index.fingerprints(IDS)
            assert found == [
                None if document not in self.oracle else int(of.fingerprints.values[self.oracle[document]])
                for document in IDS
            ]

        def teardown(self) -> None:
            if hasattr(self, "index"):
                self.find_all()
                self.clean()
                self.index.close()

    return Stored


def _tomorrow() -> int:
    return now() + DAY * 1000


def _same(of: Contents, a: int, b: int) -> bool:
    return bool(
        of.fingerprints.values[a] == of.fingerprints.values[b]
        and (of.fingerprints.sketches[a] == of.fingerprints.sketches[b]).all()
    )


def _shown(lookup: simhbase.Lookup) -> list[tuple[int, str, int]]:
    return [(match.distance, match.id, match.fingerprint) for match in lookup.matches]


def _cells(store: Store, table: str) -> dict[bytes, bytes]:
    return {key: cell.value for batch in store.records(table).iterate() for key, cell in batch}


@contextmanager
def _crashing(index: Index, calls: int) -> Iterator[None]:
    index.store.calls = calls
    try:
        yield
    except Crash:
        pass
    finally:
        index.store.calls = None


PLAIN = contents(Profile(verify=False), VALUES)
CONTENTS = {
    "fingerprints": lambda: PLAIN,
    "verified": lambda: contents(Profile(threshold=None, reach=3), TEXTS),
    "minhash": lambda: contents(Profile(scheme="minhash"), TEXTS),
}
EMBEDDED = {"memory": memory, "rocksdb": rocksdb, "simulated": simulated}


def explore(kind: Kind, of: Contents) -> None:
    checks = settings(
        max_examples=kind.examples,
        stateful_step_count=kind.steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine(kind, of), settings=checks)


@pytest.fixture(autouse=True)
def no_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions are the clock's: what a vacuum of tomorrow removes today would hide what is put after it."""
    monkeypatch.setattr("simhbase.index.writer.CHANCE", 1)
    monkeypatch.setattr("simhbase.index.writer.SMALL_CHANCE", 1)


@pytest.mark.slow
@pytest.mark.parametrize("of", CONTENTS)
@pytest.mark.parametrize("kind", EMBEDDED)
def test_an_index_answers_as_a_dict_does(kind, of, tmp_path):
    explore(EMBEDDED[kind](tmp_path), CONTENTS[of]())


@pytest.mark.hbase
@pytest.mark.parametrize(
    "of", [pytest.param(of, marks=() if of == "verified" else pytest.mark.full) for of in CONTENTS]
)
def test_an_index_on_hbase_answers_as_a_dict_does(of, request):
    explore(hbase(request), CONTENTS[of]())
