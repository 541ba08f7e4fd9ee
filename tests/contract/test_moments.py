"""Documents by when they were last written, in stores of every kind."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from secrets import token_hex

import pytest

from simhbase.admin import Administrator
from simhbase.admin.check import Checker
from simhbase.errors import UsageError
from simhbase.index import Index, open_index
from simhbase.index.stored_profile import read_profile, write_profile
from simhbase.index.writer import Writer
from simhbase.model.moment import milliseconds, milliseconds_to_come
from simhbase.model.values import Query
from simhbase.profile.profile import Profile
from simhbase.stores.base import Store, now
from tests.contract.conftest import Backend
from tests.kept import vacuumed

DAY = 24 * 3_600_000  # milliseconds
NEAR = 0x0123456789ABCDEF


@pytest.fixture
def index(backend: Backend) -> Iterator[Index]:
    store = backend.fresh()
    write_profile(store, Profile(verify=False))
    with Index(store, read_profile(store)) as index:
        yield index


@pytest.fixture
def name() -> str:
    """What ids of a test begin with: HBase hides what has an older version than what was deleted once."""
    return token_hex(4)


def write(index: Index, documents: dict[str, int], days_ago: float = 0) -> None:
    """Adds documents by a clock that is so far behind."""
    clocked = Writer(index.store, index.profile.index_scheme, lambda: now() - round(days_ago * DAY))
    index.__dict__["writer"] = clocked
    index.add_fingerprints(list(documents), list(documents.values()))
    del index.__dict__["writer"]


def found(index: Index, since: object = None) -> list[str]:
    (lookup,) = index.find_fingerprints([NEAR], Query(since=since))
    return [match.id for match in lookup.matches]


def test_what_is_older_is_deleted_and_nothing_else(index, name):
    a, b, c = (f"{name}{letter}" for letter in "abc")
    write(index, {a: NEAR, b: NEAR ^ 1}, days_ago=100)
    write(index, {c: NEAR ^ 2}, days_ago=10)
    assert Administrator(index).delete_older_than(timedelta(days=200)) == 0
    assert Administrator(index).delete_older_than(timedelta(days=90)) == 2
    assert Administrator(index).delete_older_than(timedelta(days=90)) == 0
    assert index.fingerprints([a, b, c]) == [None, None, NEAR ^ 2]
    assert found(index) == [c]
    checked = Checker(index.store, index.profile.index_scheme).check()
    assert checked.clean
    assert not checked.garbage or index.store.keeps_hints
    write(index, {a: NEAR})
    assert found(index) == [a, c]


def test_a_moment_is_a_date_too(index, name):
    write(index, {f"{name}a": NEAR}, days_ago=3)
    at = datetime.now(UTC)
    assert found(index, at - timedelta(days=2)) == []
    assert found(index, (at - timedelta(days=4)).astimezone(None).replace(tzinfo=None)) == [f"{name}a"]
    assert Administrator(index).delete_older_than(at - timedelta(days=4)) == 0
    assert Administrator(index).delete_older_than(at - timedelta(days=2)) == 1


def test_an_unchanged_document_is_not_written_anew(index, name):
    write(index, {f"{name}a": NEAR}, days_ago=3)
    write(index, {f"{name}a": NEAR})
    assert found(index, timedelta(days=2)) == []
    write(index, {f"{name}a": NEAR ^ 1})
    assert found(index, timedelta(days=2)) == [f"{name}a"]


def test_documents_that_were_written_since_are_found(index, name):
    a, b, c = (f"{name}{letter}" for letter in "abc")
    write(index, {a: NEAR}, days_ago=3)
    write(index, {b: NEAR ^ 1}, days_ago=1)
    write(index, {c: NEAR ^ 0xFF})
    assert found(index, timedelta(days=2)) == [b]
    assert found(index, timedelta(days=4)) == [a, b]
    (lookup,) = index.find_ids([a], Query(since=timedelta(days=2)))
    assert [match.id for match in lookup.matches] == [b]


def test_what_is_written_while_others_are_deleted_stays(index, name, monkeypatch):
    a, b = f"{name}a", f"{name}b"
    write(index, {a: NEAR, b: NEAR}, days_ago=5)
    delete_seen = index.writer.delete_seen

    def late(seen: dict[str, int], at: None) -> int:
        write(index, {a: NEAR ^ 1})
        return delete_seen(seen, at)

    monkeypatch.setitem(index.__dict__, "writer", type("Late", (), {"delete_seen": staticmethod(late)})())
    assert Administrator(index).delete_older_than(timedelta(days=1)) == 1
    assert index.fingerprints([a, b]) == [NEAR ^ 1, None]


def test_a_vacuum_removes_what_the_deleted_have_left_behind(hinting: Backend, name: str) -> None:
    store = hinting.fresh()
    write_profile(store, Profile(verify=False))
    index = Index(store, read_profile(store))
    write(index, {f"{name}a": NEAR}, days_ago=100)
    Administrator(index).delete_older_than(timedelta(days=90))
    assert vacuumed(store, index.profile.index_scheme).deleted_documents == 1
    assert all_rows(store) == 0


def all_rows(store: Store) -> int:
    tables = [store.records("documents"), store.records("fingerprints"), store.records("obsolete")]
    return sum(len(batch) for table in tables for batch in table.iterate()) + sum(
        len(rows.keys) for rows in store.drawers.iterate()
    )


def test_texts_are_moments(index, name):
    a, b = f"{name}a", f"{name}b"
    write(index, {a: NEAR}, days_ago=20)
    write(index, {b: NEAR}, days_ago=2)
    day = (datetime.now(UTC) - timedelta(days=7)).isoformat()
    for since in ("7d", "1w", "168h", day, day[:10], timedelta(days=7)):
        assert found(index, since) == [b]
    for since in ("30d", "2020-01-31", "2020-01-31T18:00:00Z", "2020-01-31T18:00"):
        assert sorted(found(index, since)) == [a, b]
    for since in ("yesterday", "7", "-7d", "", 7, "2026-01-31T18:00:00Z\0"):
        with pytest.raises(UsageError, match="is not a time"):
            found(index, since)


@pytest.mark.parametrize("moment", [timedelta(days=-1), datetime.now() + timedelta(days=1), "2999-01-31"])
def test_a_moment_that_is_to_come_is_refused(moment):
    with open_index("memory:", create=Profile(verify=False)) as index:
        write(index, {"a": NEAR})
        with pytest.raises(UsageError, match="is in the future"):
            Administrator(index).delete_older_than(moment)
        with pytest.raises(UsageError, match="is in the future"):
            found(index, moment)


@pytest.mark.parametrize(
    ("convert", "moment", "said"),
    [
        (milliseconds, datetime(2999, 1, 1, 8, tzinfo=UTC), "2999-01-01T08:00:00Z is in the future"),
        (milliseconds, datetime(2999, 1, 1, 8, 0, 0, 500000), "2999-01-01T08:00:00.500000 is in the future"),
        (milliseconds, "2999-01-01", "2999-01-01 is in the future"),
        (milliseconds, timedelta(days=-3), "-3 days, 0:00:00 is in the future"),
        (milliseconds_to_come, timedelta.max, "999999999 days, 23:59:59.999999 is out of range"),
        (milliseconds, date(2020, 1, 1), "2020-01-01 is not a time: give a datetime"),
        (
            milliseconds_to_come,
            datetime.max.replace(tzinfo=UTC),
            "9999-12-31T23:59:59.999999Z is out of range",
        ),
        (milliseconds_to_come, datetime(2020, 1, 1, tzinfo=UTC), "2020-01-01T00:00:00Z is in the past"),
    ],
)
def test_a_wrong_moment_is_shown_as_one_can_be_given(convert, moment, said):
    with pytest.raises(UsageError) as refused:
        convert(moment, now())
    assert str(refused.value).startswith(said)


def test_what_is_now_is_not_to_come():
    half_a_millisecond = timedelta(microseconds=600)
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    clock = round(now.timestamp() * 1000)
    assert milliseconds(now + half_a_millisecond, clock) == clock
    assert milliseconds((now + half_a_millisecond).astimezone().replace(tzinfo=None), clock) == clock
    assert milliseconds(now - half_a_millisecond, clock) == clock - 1


@pytest.mark.parametrize("moment", [90])
def test_what_is_no_moment_is_refused(moment):
    with open_index("memory:", create=Profile(verify=False)) as index, pytest.raises(UsageError):
        Administrator(index).delete_older_than(moment)


def test_a_clock_for_tests_is_refused_where_others_write(atomic: Backend) -> None:
    store = atomic.fresh()
    write_profile(store, Profile(verify=False))
    if not store.multi_writer:
        return
    with pytest.raises(UsageError, match=r"^clock: other processes may write to .*: leave it out"):
        open_index(store.url, clock=lambda: 0)
