"""Greedy selection against a store, compared with doing it one document at a time."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simhbase
from simhbase import Profile
from simhbase.admin.check import Checker
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index
from simhbase.index.claims import selection
from simhbase.index.rows import Entry, State, document_id
from simhbase.loads.unique import Loaded
from simhbase.model.values import AddReport, Match
from tests.selection import load_unique

Document = tuple[str, int]
K = 3

# Fingerprints that differ in some of eight bits, so that most have near ones, and not all.
NEAR_BITS = (0, 1, 13, 14, 27, 40, 62, 63)
fingerprints = st.builds(
    lambda base, flipped: base ^ sum(1 << bit for bit in flipped),
    st.sampled_from([0x0123456789ABCDEF, 0xFFFFFFFFFFFFFFFF]),
    st.sets(st.sampled_from(NEAR_BITS)),
)
ids = st.sampled_from([f"{letter}{number}" for letter in "abc" for number in range(8)])
stores = st.dictionaries(ids, fingerprints, max_size=12)
loads = st.lists(st.tuples(ids, fingerprints), max_size=20, unique_by=lambda document: document[0])
batch_sizes = st.integers(1, 21)


def prints(values: Sequence[int]) -> FingerprintBatch:
    return FingerprintBatch.bare(np.array(values, dtype=np.uint64))


def near(distance: int, document: str) -> Match:
    """What a document is a duplicate of; matches are equal by these two."""
    return Match(distance, document, 0)


def one_by_one(stored: dict[str, int], documents: Sequence[Document], size: int = 1000) -> list[Match | None]:
    """The definition, for writes of so many documents; leaves in `stored` what is stored in the end."""
    found: list[Match | None] = []
    for start in range(0, len(documents), size):
        batch = documents[start : start + size]
        of_batch = [decided(stored, *document) for document in batch]
        keepers = {each.id for each in of_batch if each is not None}
        for (name, fingerprint), keeper in zip(batch, of_batch, strict=True):
            if keeper is not None and name not in keepers and stored.get(name) not in (None, fingerprint):
                del stored[name]
        found += of_batch
    return found


def decided(stored: dict[str, int], name: str, fingerprint: int) -> Match | None:
    """What keeps a document out, None where it is stored."""
    found_near = [
        near(distance, other)
        for other, value in stored.items()
        if other != name and (distance := (fingerprint ^ value).bit_count()) <= K
    ]
    if not found_near:
        stored[name] = fingerprint
    return min(found_near, default=None)


@contextmanager
def index_with(stored: dict[str, int]) -> Iterator[Index]:
    with simhbase.open("memory:", create=Profile(verify=False, k=K)) as index:
        index.add_fingerprints(list(stored), np.array(list(stored.values()), dtype=np.uint64))
        yield index


def load(
    index: Index, documents: Sequence[Document], size: int, store: Callable[..., Loaded]
) -> list[Match | None]:
    """Loads in batches of a size."""
    rest = iter(documents)
    found = []
    while batch := list(islice(rest, size)):
        names, values = zip(*batch, strict=True)
        found += store(index, names, prints(values)).duplicate_of
    return found


def content(index: Index) -> dict[str, int]:
    """What is stored, and nothing half done."""
    assert not Checker(index.store, index.profile.index_scheme).check().problems
    entries = {
        document_id(key): Entry.decode(key, cell.value)
        for batch in index.store.records("documents").iterate()
        for key, cell in batch
    }
    assert all(entry.state == State.STORED for entry in entries.values())
    return {name: entry.fingerprint for name, entry in entries.items()}


@given(stores, loads, batch_sizes)
def test_a_unique_load_decides_as_one_document_at_a_time(stored, documents, size):
    expected_store = dict(stored)
    expected = one_by_one(expected_store, documents, size)
    with index_with(stored) as index:
        assert load(index, documents, size, load_unique) == expected
        assert content(index) == expected_store


@given(stores, loads, batch_sizes, st.integers(1, 3))
def test_a_unique_load_reads_cut_drawers_to_their_end(stored, documents, size, together):
    # What keeps a document out may be another than the nearest one, and what keeps one out is not removed.
    documents = [(f"new {name}", fingerprint) for name, fingerprint in documents]
    expected_store = dict(stored)
    expected = one_by_one(expected_store, documents, size)
    with pytest.MonkeyPatch.context() as patch, index_with(stored) as index:
        patch.setattr(selection, "DRAWER_LIMIT", 1)
        patch.setattr(selection, "READ_TOGETHER", together)
        found = load(index, documents, size, load_unique)
        assert [near is None for near in found] == [near is None for near in expected]
        assert content(index) == expected_store


@given(loads, st.data(), batch_sizes)
def test_a_unique_load_repeated_after_any_stop_keeps_the_same(documents, data, size):
    expected_store: dict[str, int] = {}
    expected = one_by_one(expected_store, documents)
    there = data.draw(st.sets(st.sampled_from(sorted(expected_store)))) if expected_store else set()
    with index_with({name: expected_store[name] for name in there}) as index:
        found = load(index, documents, size, load_unique)
        assert [near is None for near in found] == [near is None for near in expected]
        assert content(index) == expected_store


def test_a_stored_document_whose_new_text_is_a_duplicate_is_removed():
    with index_with({"a": 0, "b": 0xFFFFFFFFFFFFFFFF, "c": 0xFFFFFFFF}) as index:
        loaded = load_unique(index, ["a", "c"], prints([0xFFFFFFFFFFFFFFFE, 0xFFFFFFFF]))
        assert (loaded.duplicate_of, loaded.removed) == ([near(1, "b"), None], 1)
        assert content(index) == {"b": 0xFFFFFFFFFFFFFFFF, "c": 0xFFFFFFFF}
        assert not Checker(index.store, index.profile.index_scheme).check().problems


def test_a_stored_document_that_is_a_duplicate_of_another_and_comes_unchanged_stays():
    with index_with({"a": 0, "b": 1}) as index:
        loaded = load_unique(index, ["b"], prints([1]))
        assert (loaded.duplicate_of, loaded.removed) == ([near(1, "a")], 0)
        assert content(index) == {"a": 0, "b": 1}


def test_no_text_is_lost_where_all_documents_move_up_one_place():
    """As ids made of lines do where the first line is gone."""
    values = [number * 0x1111111111111111 for number in range(1, 10)]
    stored = {f"line {number}": value for number, value in enumerate(values)}
    with index_with(stored) as index:
        loaded = load_unique(index, list(stored)[:-1], prints(values[1:]))
        assert (loaded.duplicate_of.count(None), loaded.removed) == (0, 1)
        assert set(content(index).values()) == set(values[1:])


def test_what_was_dropped_for_a_text_that_is_gone_is_kept_by_the_next_load():
    documents = [("new", 1), ("old", 0xFFFFFFFFFFFFFFFF)]
    with index_with({"old": 0}) as index:
        assert load(index, documents, 2, load_unique) == [near(1, "old"), None]
        assert load(index, documents, 2, load_unique) == [None, None]


def test_two_threads_never_both_keep_near_documents(monkeypatch):
    both_have_read = threading.Barrier(2)
    near = selection.Reader.near

    def near_and_wait(*arguments):
        found = near(*arguments)
        with suppress(threading.BrokenBarrierError):
            both_have_read.wait(timeout=0.5)
        return found

    monkeypatch.setattr(selection.Reader, "near", near_and_wait)
    with index_with({}) as index, ThreadPoolExecutor(2) as threads:
        loads = [threads.submit(load, index, [(name, 7)], 1, load_unique) for name in "ab"]
        found = [each.result()[0] for each in loads]
        assert len(content(index)) == 1
    assert found.count(None) == 1


def test_a_unique_load_takes_any_k_that_the_layout_guarantees():
    with simhbase.open("memory:", create=Profile(verify=False, k=35, layout="40x1")) as index:
        documents = [("a", 0), ("b", (1 << 35) - 1), ("c", (1 << 64) - 1)]
        assert load(index, documents, 3, load_unique) == [None, near(35, "a"), None]


@pytest.mark.parametrize(("together", "reads"), [(64, [8]), (3, [3, 3, 2])])
def test_cut_drawers_of_a_batch_are_read_to_their_end_together(monkeypatch, together, reads):
    limits = []
    near = selection.Reader.near

    def near_and_note(reader, fingerprints, bounds):
        limits.append((reader.drawer_limit, len(fingerprints)))
        return near(reader, fingerprints, bounds)

    monkeypatch.setattr(selection.Reader, "near", near_and_note)
    monkeypatch.setattr(selection, "DRAWER_LIMIT", 1)
    monkeypatch.setattr(selection, "READ_TOGETHER", together)
    in_one_drawer = [0b1111 << 4 * place for place in range(9)]
    stored = {f"s{place}": value for place, value in enumerate(in_one_drawer)}
    documents = [(f"near {name}", value ^ 1 << 40) for name, value in stored.items()]
    documents += [(f"far {name}", value ^ 0b1111 << 36) for name, value in stored.items() if value >> 4]
    documents += [(f"copy of {name}", value) for name, value in documents]
    expected = one_by_one(dict(stored), documents)
    assert expected.count(None) == 8
    with index_with(stored) as index:
        found = load(index, documents, len(documents), load_unique)
    assert [near is None for near in found] == [near is None for near in expected]
    everything = (1, len(documents))
    expected_reads = [everything, *((None, number) for number in reads)]
    assert limits == expected_reads, "all that were cut, without their copies, so many at once"


def test_no_document_is_read_to_the_end_twice(monkeypatch):
    """A document that is near an open one waits for it, and is read later: alone."""
    read = []
    near = selection.Reader.near

    def near_and_note(reader, fingerprints, bounds):
        if reader.drawer_limit is None:
            read.append(fingerprints.values.tolist())
        return near(reader, fingerprints, bounds)

    monkeypatch.setattr(selection.Reader, "near", near_and_note)
    monkeypatch.setattr(selection, "DRAWER_LIMIT", 1)
    in_front = [number * (1 << 51 | 1 << 25 | 1 << 12 | 1) for number in range(4)]
    hidden = [value | 0b11111 << 46 for value in in_front]  # second in every drawer but those of its own
    stored = {f"s{number}": value for number, value in enumerate(in_front + hidden)}
    near_each_other = [hidden[0] ^ 1 << bit for bit in (40, 41, 42)]
    alone = [value ^ 1 << 40 for value in hidden[1:]]
    documents = [(f"d{number}", value) for number, value in enumerate(near_each_other + alone)]
    expected = one_by_one(dict(stored), documents)
    with index_with(stored) as index:
        assert load(index, documents, len(documents), load_unique) == expected
    first, second, third = near_each_other
    assert read == [[first, *alone], [second], [third]]


def test_a_load_tells_what_was_new_updated_or_unchanged():
    documents = {
        "same": 0,
        "nearer": 0xFFFFFFFFFFFFFFFE,
        "other": 0x5555555555555555,
        "new": 0xF0F0F0F0F0F0F0F0,
    }
    with index_with({"same": 0, "nearer": 0xFFFFFFFFFFFFFFFF, "other": 0xFFFFFFFFFFFFFFFF}) as index:
        values = np.array(list(documents.values()), dtype=np.uint64)
        loaded = load_unique(index, list(documents), FingerprintBatch.bare(values))
    assert [near is None for near in loaded.duplicate_of] == [True, False, True, True]
    assert loaded.report == AddReport(added=1, updated=1, unchanged=1)


def test_a_page_that_is_stored_a_thousand_times_costs_a_short_listing():
    """The copies' ids are read up to the first that is not in the batch itself."""
    stored = {f"copy/{number:04}": 7 for number in range(1000)}
    documents = [(f"copy/{number:04}", 7) for number in range(100)] + [("new", 6)]
    with index_with(stored) as index:
        found = load(index, documents, 101, load_unique)
    assert found[0] == near(0, "copy/0001")
    assert found[1:100] == [near(0, "copy/0000")] * 99
    assert found[100] == near(1, "copy/0000")


def test_a_copy_behind_many_that_the_same_batch_replaces_is_found():
    far = [number * 0x1111111111111111 for number in range(1, 10)]
    stored = {f"a{number}": 7 for number in range(9)} | {"z": 7}
    documents = [(f"a{number}", value) for number, value in enumerate(far)] + [("new", 7)]
    assert one_by_one(dict(stored), documents) == [None] * 9 + [near(0, "z")]
    with index_with(stored) as index:
        assert load(index, documents, 10, load_unique) == [None] * 9 + [near(0, "z")]


def test_the_nearest_is_told_though_others_are_listed_before_it():
    """Its fingerprint lists the documents first that the same batch replaces, and a farther one is known."""
    stored = {"a0": 7, "a1": 7, "y": 6, "z": 7}
    documents = [("a0", 2**64 - 1), ("a1", 0x5555555555555555), ("new", 7)]
    expected = one_by_one(dict(stored), documents)
    assert expected == [None, None, near(0, "z")]
    with index_with(stored) as index:
        assert load(index, documents, 3, load_unique) == expected
