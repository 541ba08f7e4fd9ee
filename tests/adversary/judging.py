"""Whether what workers noted and what is stored can both be true."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from simhbase.admin.check import Checker
from simhbase.admin.migrate import migrate
from simhbase.errors import StoreUnreachable
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.stores import drop_store
from tests.adversary.crew import Crew
from tests.adversary.faults import Damage, Faults
from tests.adversary.workers import CLAIM_TIMEOUT, CROWDS, LOOKUPS, Task, copy_in
from tests.history import FOREVER, History, Journal, K, Sharing, assert_settled, assert_shown

# Seconds after its beginning in which what was not acknowledged may take effect in a store that changes all
# tables in one step: longer than connections hang here and servers and standbys are away.
LATEST = 120.0
# Seconds after a damage in which a call that met it ends: its connection may hang until the store's timeout
# before it can say so. Loads are processes that start others, which takes long on a busy machine.
NOTICED, NOTICED_BY_LOADS = 30.0, 60.0
ABOUT = 120.0  # seconds: damages that are shown with an error
RECOVERED = 60.0  # seconds after a fault in which servers may not have recovered yet


@dataclass(frozen=True)
class Outcome:
    """What an adversary did, for the record: what kinds of workers have begun, operations on a document that
    were acknowledged and hold, lookups, outcomes of claims, faults, errors of workers, operations on what was
    damaged that failed as they must, pairs of stored documents that were compared, documents of the crowd
    that were written, and stores that were made of snapshots."""

    begun: Mapping[str, int]
    operations: int
    lookups: int
    claims: Mapping[str, int]
    faults: Mapping[str, int]
    errors: Mapping[str, int]
    refused: Mapping[str, int]
    stored: int
    pairs: int
    crowd: int
    snapshots: int


def judged(what: Sharing, crew: Crew, faults: Faults, others: Sequence[str] = ()) -> Outcome:
    """Raises AssertionError for whatever the stored documents and the noted operations cannot both be.
    others: names of work on another store."""
    by_work: dict[str, list[Journal]] = {}
    for journal in crew.journals:
        by_work.setdefault(journal.path.stem.partition("-")[2], []).append(journal)
    lookups = [journal for work in LOOKUPS for journal in by_work.get(work, ())]
    crowding = [journal for work in CROWDS for journal in by_work.get(work, ())]
    apart = (*LOOKUPS, *CROWDS, *others)
    writers = [journal for work, journals in by_work.items() if work not in apart for journal in journals]
    errors = assert_errors_named(crew, faults)
    with open_index(what.url) as index:
        # There others may end a claim at any time.
        latest = FOREVER if index.store.keeps_hints else LATEST
        history = History.of(writers, latest)
        still = tuple(document for document in history.documents if document not in set(what.documents))
        what = replace(what, still=still)
        end_claims(index, Task(what, Journal(crew.folder / "last-claims"), 0))
        stored = assert_settled(what, history, index)
        shown = sum(assert_shown(what, history, journal) for journal in lookups)
        pairs = assert_none_near(what, stored)
        outcomes = Counter[str]()
        for journal in writers:
            outcomes += assert_duplicates(what, history, journal)
        crowd = assert_crowd(History.of(crowding, latest), index)
        assert_clean(index)
        assert_copied(what, index, crew.folder)
    for each in faults.snapshots:
        with open_index(each.url) as index:
            assert_settled(what, history, index, each.begin, each.end)
            assert_clean(index)
        drop_store(each.url)
    return Outcome(
        begun={work: sum(each.size for each in journals) for work, journals in by_work.items()},
        operations=history.acknowledged,
        lookups=shown,
        claims=outcomes,
        faults=faults.happened,
        errors=errors,
        refused=faults.refused,
        stored=len(stored),
        pairs=pairs,
        crowd=crowd,
        snapshots=len(faults.snapshots),
    )


def assert_errors_named(crew: Crew, faults: Faults) -> Counter[str]:
    """Every error of a worker names what was damaged while the call ran, or passes; that the store cannot be
    reached comes only while something is in the way, or has just been. Counts errors by kind."""
    kinds = Counter[str]()
    in_the_way = [each for each in faults.past if each.kind != faults.kill_a_worker.__name__]
    for path in sorted(crew.folder.glob("*.errors")):
        for begin, end, kind, message, passes in Journal(path).lines():
            if passes:
                assert kind != StoreUnreachable.__name__ or any(
                    begin <= each.end + RECOVERED and end >= each.begin for each in in_the_way
                ), f"{path.name}: nothing was in the way: {message}"
                kinds[kind] += 1
                continue
            patience = NOTICED_BY_LOADS if "load" in path.name else NOTICED
            met = [each.named for each in faults.damages if _may_meet(each, begin, end, patience)]
            assert any(re.search(named, message) for named in met), (
                f"{path.name}, {begin:.1f} to {end:.1f}: {kind} without such damage ({met}; about then: "
                f"{[each for each in faults.damages if abs(each.begin - begin) < ABOUT]}): {message}"
            )
            kinds[f"{kind}, damaged"] += 1
    return kinds


def _may_meet(damage: Damage, begin: float, end: float, patience: float) -> bool:
    """True if a call that failed then ran beside the damage, and ended with it or soon after."""
    return begin <= damage.end and damage.begin <= end <= damage.end + patience


def end_claims(index: Index, task: Task) -> None:
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


def assert_clean(index: Index) -> None:
    report = Checker(index.store, index.profile.index_scheme).check()
    assert report.clean, report


def assert_copied(what: Sharing, index: Index, folder: Path) -> None:
    """A migration leaves in the copy what is stored, and nothing else. Where power cuts and failovers take
    back what was not acknowledged, the copy of the workers may have that, with later versions."""
    copied = copy_in(folder) if index.store.keeps_hints else f"rocksdb:{folder / 'last-copy.db'}"
    migrate(what.url, copied)
    with open_index(copied, access="read") as other:
        ids = list(what.all)
        assert other.fingerprints(ids) == index.fingerprints(ids)
