"""The bytes of the documents and fingerprints tables, as schema/format.md writes them down."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase import records
from simhbase.errors import StoreFailed
from simhbase.records import Entry, State

F = 0x0123456789ABCDEF

UINT64 = st.integers(0, 2**64 - 1)
IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=100)


def test_a_document_key_is_a_hash_and_the_id():
    assert records.document_key("a1").hex() == "3494977a" + "6131"
    assert records.document_key("新闻/1")[4:].decode() == "新闻/1"


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (
            Entry(0x0123456789ABCDEF, State.STORED, 0x0192_0000_0001),
            "0123456789abcdef 02 0000019200000001",
        ),
        (
            Entry(2**64 - 1, State.WRITING, 1, (0, 0x8000000000000001)),
            "ffffffffffffffff 01 0000000000000001 0000000000000000 8000000000000001",
        ),
        (Entry(0, State.DELETING, 2), "0000000000000000 03 0000000000000002"),
    ],
)
def test_an_entry_is_fingerprint_state_time_and_the_old_fingerprints(entry, expected):
    assert entry.encode().hex() == expected.replace(" ", "")
    assert Entry.decode(entry.encode()) == entry


def test_a_listing_is_fingerprint_mark_and_id():
    key = records.listing_key(0xFFFFFFFFFFFFFFFF, "a1")
    assert key.hex() == "ffffffffffffffff" + "01" + "6131"
    assert records.parse_listing(key) == (2**64 - 1, "a1")
    assert records.encode_time(0x0192_0000_0001).hex() == "0000019200000001"


def test_other_rows_of_a_fingerprint_are_no_listings():
    assert records.parse_listing(b"\xff" * 8 + b"\x00") is None
    assert records.parse_listing(b"\xff" * 8 + b"\x02") is None


@given(IDS, UINT64)
def test_keys_come_back_as_ids(document, fingerprint):
    assert records.document_id(records.document_key(document)) == document
    assert records.parse_listing(records.listing_key(fingerprint, document)) == (fingerprint, document)
    assert records.listing_id(records.listing_key(fingerprint, document)) == document


@given(UINT64, st.sampled_from(State), st.integers(0, 2**63 - 1), st.lists(UINT64, max_size=4))
def test_entries_come_back_as_they_were(fingerprint, state, time, old):
    entry = Entry(fingerprint, state, time, tuple(old))
    assert Entry.decode(entry.encode()) == entry


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("", "empty"),
        ("x" * 1025, "1025 bytes"),
        ("语" * 342, "1026 bytes"),
        ("\udc00", "surrogate"),
        ("x" * 1024, None),
        ("\x00", None),
    ],
)
def test_ids_are_text_of_one_byte_to_one_kib(document, problem):
    found = records.id_problem(document)
    assert (found is None) == (problem is None)
    assert problem is None or problem in found


def test_a_sketch_that_is_being_written_travels_with_the_entry():
    entry = Entry(F, State.WRITING, 5, (1, 2), b"sketch")
    assert Entry.decode(entry.encode()) == entry
    value = Entry(F, State.WRITING, 5, (), b"sketch").encode()
    for cut in range(18, len(value)):
        with pytest.raises(StoreFailed):
            Entry.decode(value[:cut])


def test_rows_of_sketches_are_told_from_listings():
    assert records.sketched(records.sketch_key(F)) == F
    assert not records.is_listing(records.sketch_key(F))
    for other in (records.listing_key(F, "\x02"), records.sketch_key(F) + b"x", b""):
        assert records.sketched(other) is None
