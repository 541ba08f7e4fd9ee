"""Counts of refused claims: what every store promises."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import simhbase
from simhbase import Document, Index, Met, Profile
from simhbase.admin import tables
from simhbase.admin.check import Checker
from simhbase.admin.migrate import Migration
from simhbase.admin.vacuum import DAY, Vacuum
from simhbase.errors import SchemaDiffers, StoreFailed
from simhbase.index import counts, rows
from simhbase.index.counts import note_pairs
from simhbase.stores import create_store, open_store
from simhbase.stores.base import MET
from simhbase.stores.checked import checked
from tests.contract.conftest import Backend

BRIDGE = "The council has decided to build a new bridge across the river."
SHOUTED = "THE COUNCIL has decided, to build a new bridge across the river!"
OTHER = "Quite another text, with many words that the first one does not have at all."
MINUTE = 60_000


def opened(backend: Backend, number: int = 0) -> Index:
    return simhbase.open(backend.url(number), create=Profile(verify=False), counts=True)


@pytest.fixture
def index(backend: Backend) -> Iterator[Index]:
    with opened(backend) as made:
        yield made


def later(index: Index, milliseconds: int) -> None:
    """Claims are made this much later from now on."""
    before = index.clock
    index.clock = lambda: before() + milliseconds
    index.__dict__.pop("claimer", None)


def met(index: Index, document: str = "a") -> Met:
    found = index[document].met
    assert found is not None
    return found


def refused(index: Index, *ids: str) -> None:
    claims = index.claim_many([Document(each, SHOUTED) for each in ids])
    assert {claim.outcome for claim in claims} == {"duplicate"}


def test_a_document_says_how_many_ids_were_refused_because_of_it_and_when(index):
    index.claim_many([Document("a", BRIDGE), Document("o", OTHER)])
    assert (met(index), met(index, "o")) == (Met(0), Met(0))
    start = datetime.now(UTC)
    refused(index, "b", "c")
    first = met(index)
    assert (first.count, first.first, first.truncated) == (2, first.last, False)
    assert abs((first.first - start).total_seconds()) < 60
    later(index, MINUTE)
    refused(index, "d")
    second = met(index)
    assert (second.count, second.first) == (3, first.first)
    assert second.last >= first.last
    assert met(index, "o") == Met(0)
    assert [each.met for each in sorted(index.stored(), key=lambda each: each.id)] == [second, Met(0)]
    assert {each.id: each.met for each in index.stored_page().documents} == {"a": second, "o": Met(0)}


def test_a_repeated_claim_leaves_the_count_and_moves_the_last_time(index):
    index.claim("a", BRIDGE)
    refused(index, "b")
    before = met(index)
    later(index, MINUTE)
    refused(index, "b")
    again = met(index)
    assert (again.count, again.first) == (1, before.first)
    assert (again.last - before.last).total_seconds() >= MINUTE / 1000


def test_accepted_rejected_and_conflicting_claims_are_not_counted(index):
    index.claim_many([Document("a", BRIDGE), Document("a", BRIDGE), Document("", BRIDGE), Document("e", "")])
    index.claim_many([Document("a", OTHER)])
    index.claim_many([Document("b", SHOUTED)], mode="annotate")
    assert (met(index), met(index, "b")) == (Met(0), Met(0))


def test_a_claim_that_crashed_before_it_was_counted_is_counted_when_it_is_repeated(index, monkeypatch):
    index.claim("a", BRIDGE)

    def crash(*_: Any) -> None:
        raise StoreFailed("the process ends here")

    with monkeypatch.context() as patched:
        patched.setattr("simhbase.index.claims.claim.note_refused", crash)
        with pytest.raises(StoreFailed, match="ends here"):
            index.claim_many([Document("b", SHOUTED), Document("c", OTHER)])
    claims = index.claim_many([Document("b", SHOUTED), Document("c", OTHER)])
    assert [claim.outcome for claim in claims] == ["duplicate", "accepted"]
    assert met(index).count == 1


def test_documents_that_a_load_refuses_are_counted(backend, tmp_path):
    with opened(backend) as index:
        index.claim("a", BRIDGE)
        url = index.store.url
        if url == "memory:":
            return
    file = tmp_path / "a.csv"
    file.write_text(f'id,text\nb,"{SHOUTED}"\nc,"{OTHER}"\nd,"{BRIDGE}"\n')
    for _ in range(2):
        simhbase.load(file, url, unique_only=True)
    with simhbase.open(url, access="read") as index:
        assert (met(index).count, met(index, "c")) == (2, Met(0))


def test_a_count_ends_at_its_limit_and_says_so(index, monkeypatch):
    monkeypatch.setattr(counts, "MOST", 30)
    monkeypatch.setattr(counts, "_FEW", 10)
    index.claim_many([Document("a", BRIDGE), Document("o", OTHER)])
    note_pairs(index.store, index.clock(), [("a", f"b{n}") for n in range(40)])
    note_pairs(index.store, index.clock(), [("o", f"b{n}") for n in range(29)])
    assert (met(index).count, met(index).truncated) == (30, True)
    assert (met(index, "o").count, met(index, "o").truncated) == (29, False)


def test_a_page_ends_where_many_refused_claims_were_read(index, monkeypatch):
    """A page of 1,000 documents may have 10 million, which took minutes."""
    monkeypatch.setattr("simhbase.index.counts.MOST_TOLD", 4)
    index.add([Document("a", BRIDGE), Document("o", OTHER)])
    note_pairs(index.store, index.clock(), ((each, f"{each}{n}") for each in ("a", "o") for n in range(4)))
    first = index.stored_page()
    (told,) = first.documents
    second = index.stored_page(after=first.after)
    assert sorted(each.id for each in (told, *second.documents)) == ["a", "o"]
    assert (told.met.count, second.after) == (4, None)


def test_vacuum_removes_the_rows_of_documents_that_are_gone(index):
    index.claim_many([Document("a", BRIDGE), Document("o", OTHER)])
    refused(index, "b", "c")
    note_pairs(index.store, index.clock(), [("o", "p"), ("never there", "q")])
    index.delete(["a"])
    late = index.clock() + 2 * DAY * 1000
    report = Vacuum(index.store, index.profile.index_scheme, clock=lambda: late).run()
    assert report.refused_claims == 3
    assert met(index, "o").count == 1
    # HBase hides what is not later than a row that was removed, which was up to 1 s ahead.
    later(index, MINUTE)
    index.claim("a", BRIDGE)
    assert met(index) == Met(0)


def test_vacuum_leaves_rows_that_are_younger_than_its_grace_time(hinting):
    with opened(hinting) as index:
        note_pairs(index.store, index.clock(), [("gone", "b")])
        assert Vacuum(index.store, index.profile.index_scheme, clock=index.clock).run().refused_claims == 0


def test_rows_expire_as_documents_do(atomic):
    url = atomic.url(0)
    store = create_store(url, counts=True)
    simhbase.index.stored_profile.write_profile(store, Profile(verify=False), ttl=3600, counts=True)
    with Index(store, simhbase.index.stored_profile.read_profile(store)) as index:
        index.claim("a", BRIDGE)
        note_pairs(store, index.clock() - 2 * 3600 * 1000, [("a", "long ago")])
        refused(index, "b")
        assert met(index).count == 1
        assert Vacuum(store, index.profile.index_scheme).run().refused_claims == 1


def test_check_finds_and_removes_damaged_rows(index):
    index.claim("a", BRIDGE)
    refused(index, "b", "c")
    table = index.store.records(MET)
    ((key, cell), *_) = table.scan([rows.met_prefix("a")], 10)[0]
    table.put([(key, b"\0" + cell.value), (key[:13], cell.value)], cell.version)
    assert met(index).count == 3  # a damaged row counts, at the time of its last refusal
    for repair, clean in ((False, False), (True, False), (False, True)):
        report = Checker(index.store, index.profile.index_scheme, repair, clock=index.clock).check()
        assert report.clean is clean
        if not clean:
            assert report.problems == {"unreadable rows": 2}
            assert all(each.startswith("met ") for each in report.examples["unreadable rows"])
    assert met(index).count == 1


@pytest.mark.parametrize("time", [-(1 << 63), -1, 1 << 50, (1 << 63) - 1])
def test_a_row_with_its_checksum_may_tell_a_time_out_of_range(index, time):
    """Listing a document that such a row counts for raised OverflowError, and a check found nothing."""
    index.claim("a", BRIDGE)
    key = rows.met_key("a", "b")
    value = checked(key, time.to_bytes(8, signed=True))
    index.store.records(MET).put([(key, value)], index.clock())
    (document,) = index.stored()
    assert document.met is not None
    assert document.met.count == 1
    checker = Checker(index.store, index.profile.index_scheme, repair=True)
    assert sum(checker.check().problems.values()) == 1
    assert index["a"].met == Met(0, None, None)


def test_counts_are_part_of_statistics_and_descriptions(lasting):
    with opened(lasting) as index:
        index.claim("a", BRIDGE)
        refused(index, "b", "c")
        assert simhbase.Administrator(index).stats().table_estimates[MET].rows == 2
    assert tables.describe(index.store.url).counts is True


def test_a_copy_has_the_counts_and_is_not_counted_twice(backend):
    with opened(backend) as source, opened(backend, 1) as target:
        source.claim("a", BRIDGE)
        refused(source, "b", "c")
        early = met(source)
        for _ in range(2):
            assert Migration(source, target, counts=True).run().refused_claims == 2
            assert met(target) == early
        later(target, MINUTE)
        refused(target, "b")
        note_pairs(source.store, source.clock() - MINUTE, [("a", "d")])
        Migration(source, target, counts=True).run()
        both = met(target)
        assert (both.count, both.last > early.last, both.first < early.first) == (3, True, True)


def test_a_new_copy_counts_as_its_source_does_and_an_old_one_says_if_not(lasting):
    with opened(lasting) as index:
        index.claim("a", BRIDGE)
        refused(index, "b")
        url = index.store.url
    if not url.startswith("hbase"):
        new = lasting.url(1)
        assert simhbase.migrate(url, new).refused_claims == 1
        with simhbase.open(new) as copy:
            assert met(copy).count == 1
    old = lasting.url(2)
    simhbase.open(old, create=Profile(verify=False)).close()
    report = simhbase.migrate(url, old)
    assert (report.refused_claims, len(report.warnings)) == (0, 1)
    assert "does not count refused claims" in report.warnings[0]


def test_a_store_counts_from_its_beginning_or_never(lasting):
    url = lasting.url(0)
    with simhbase.open(url, create=Profile(verify=False)) as index:
        index.claim("a", BRIDGE)
        refused(index, "b")
        assert MET not in index.store.tables
        assert (index.counts, index["a"].met) == (False, None)
    for create in (
        lambda: simhbase.open(url, create=Profile(verify=False), counts=True),
        lambda: tables.create(url, counts=True),
    ):
        with pytest.raises(SchemaDiffers, match="does not count refused claims, and should"):
            create()
    with closing(open_store(url, "read")) as store:
        assert MET not in store.tables
    names = tables.listed(url)[0]
    assert not any(name.endswith("met") for name in names)


def test_tables_that_count_are_made_checked_and_dropped(lasting):
    url = lasting.url(0)
    made = tables.create(url, Profile(verify=False), counts=True)
    assert made.counts
    assert tables.create(url).counts  # nobody need say it again
    tables.check(url)
    with simhbase.open(url) as index:
        assert index.counts
        index.claim("a", BRIDGE)
        refused(index, "b")
        assert index.store.keeps_hints == (len(index.store.tables) == 5)
    assert tables.listed(url)[0]
    tables.drop(url)
    tables.create(url, Profile(verify=False))
    with simhbase.open(url) as index:
        assert (index.counts, MET in index.store.tables) == (False, False)


def test_a_reader_of_an_embedded_store_sees_the_counts_of_its_writer(tmp_path: Path):
    url = f"rocksdb:{tmp_path / 's'}"
    with simhbase.open(url, create=Profile(verify=False), counts=True) as index:
        index.claim("a", BRIDGE)
        with simhbase.open(url, access="read") as reader:
            assert met(reader) == Met(0)
            refused(index, "b")
            assert met(reader).count == 1
    tables.snapshot(url, tmp_path / "copy")
    with simhbase.open(f"rocksdb:{tmp_path / 'copy'}", access="read") as copy:
        assert met(copy).count == 1


def test_a_group_says_how_often_its_representative_was_met(index):
    index.add([Document("a", BRIDGE), Document("copy", BRIDGE)])
    refused(index, "b", "c")
    with simhbase.Administrator(index).groups() as found:
        (group,) = found
        assert (group.group, group.met) == ("a", met(index))
        assert group.met.count + met(index, "copy").count == 2


def test_what_a_large_scope_counts_is_forgotten_and_kept_as_elsewhere(backend, monkeypatch):
    """More documents of a scope have keys that begin alike than are read with others."""
    monkeypatch.setattr(counts, "_FEW", 2)
    whole = simhbase.open(backend.url(0), create=Profile(verify=False), counts=True, scoped=True)
    with whole, whole.within("other") as other:
        index = whole.within("large")
        ids = [f"d{number}" for number in range(600)]
        index.add_fingerprints(ids, [number << 20 for number in range(600)])
        table = whole.store.records(MET)
        note_pairs(whole.store, 1, [(f"large\x1f{name}", f"large\x1f{name}x") for name in ids])
        other.claim("d0", BRIDGE)
        index.delete(ids[::2])
        late = whole.store.now() + 10 * DAY * 1000
        removed = counts.forget(whole.store, late, 0)
        left = [each.count for each in index.met(ids) if each]
        assert (removed, left) == (300, [0, 1] * 300)
        assert sum(map(len, table.iterate())) == 300
