"""The bytes of the tables of records, as schema/format.md writes them down."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.errors import StoreFailed
from simhbase.index import rows
from simhbase.index.rows import Entry, Obsolete, PendingCell, State
from simhbase.stores.checked import CHECKSUM_BYTES, checked
from simhbase.stores.meta import quoted
from simhbase.stores.strings import Strings

F = 0x0123456789ABCDEF
KEY = rows.document_key("a1")
VERSION = 0x0192_0000_0001

UINT64 = st.integers(0, 2**64 - 1)
TIMES = st.integers(0, 2**63 - 1)
IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=100)


def test_a_document_key_is_a_hash_and_the_id():
    assert rows.document_key("a1").hex() == "3494977a" + "6131"
    assert rows.document_key("新闻/1")[4:].decode() == "新闻/1"


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (Entry(F), "0123456789abcdef 01"),
        (Entry(F, State.DELETED), "0123456789abcdef 02"),
        (Entry(2**64 - 1, State.STORED), "ffffffffffffffff 01"),
        (Entry(0, State.DELETED), "0000000000000000 02"),
        (Entry(F, State.STORED, b"\xa1\xb2\xc3"), "0123456789abcdef 01 a1b2c3"),
    ],
)
def test_an_entry_is_fingerprint_state_and_sketch(entry, expected):
    assert entry.encode(KEY)[:-CHECKSUM_BYTES].hex() == expected.replace(" ", "")
    assert Entry.decode(KEY, entry.encode(KEY)) == entry


TAGS = (("source", "wire"), ("tenant", "a"))


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (Entry(F, tags=TAGS[1:]), "0123456789abcdef 11 0009 06 74656e616e74 01 61"),
        (Entry(F, State.STORED, b"\xa1", tags=(("é", "x"),)), "0123456789abcdef 11 0005 02 c3a9 01 78 a1"),
    ],
)
def test_tags_are_before_the_sketch_and_the_state_says_that_they_are_there(entry, expected):
    assert entry.encode(KEY)[:-CHECKSUM_BYTES].hex() == expected.replace(" ", "")
    assert Entry.decode(KEY, entry.encode(KEY)) == entry


@pytest.mark.parametrize(
    "tail",
    ["11 0000", "11 0002 01 61", "11 0001 00", "11 0004 01 61 02 62", "11 0004 01 ff 01 62", "21", "31"],
)
def test_what_are_no_tags_is_no_entry(tail):
    with pytest.raises(StoreFailed, match="check --repair"):
        Entry.decode(KEY, checked(KEY, bytes.fromhex(f"0123456789abcdef {tail}")))


def test_what_is_no_entry_is_refused_with_what_to_do():
    good = Entry(F).encode(KEY)[:-CHECKSUM_BYTES]
    for value in (b"", good[:-1], good[:8] + b"\x00", good[:8] + b"\x03", good[:8] + b"\x03abc"):
        with pytest.raises(StoreFailed, match="check --repair"):
            Entry.decode(KEY, checked(KEY, value))


SKETCH = b"\xa1\xb2\xc3"
ROWS = {
    "document": (KEY, Entry(F, sketch=SKETCH, tags=TAGS).encode(KEY), Entry.decode),
    "tombstone": (KEY, Entry(F, State.DELETED).encode(KEY), Entry.decode),
    "claim": (KEY, PendingCell(2, F, 10_000, SKETCH, TAGS).encode(KEY), PendingCell.decode),
    "listing": (rows.listing_key(F, "a1"), checked(rows.listing_key(F, "a1"), SKETCH), rows.listed_sketch),
}


@pytest.mark.parametrize("kind", ROWS)
def test_a_row_with_any_bit_flipped_or_cut_or_under_another_key_is_damaged(kind):
    """Damage anywhere in a value, its sketch and tags included, is an error that names the row."""
    key, value, decode = ROWS[kind]
    decode(key, value)
    damaged = [value[:size] for size in range(len(value))]
    damaged += [value + b"\0", *(flipped(value, bit) for bit in range(8 * len(value)))]
    for each in damaged:
        with pytest.raises(StoreFailed, match=f"'a1' in the table .* is damaged.*{key.hex()}"):
            decode(key, each)
    with pytest.raises(StoreFailed, match="is damaged"):
        decode(key[:-1] + b"2", value)


@pytest.mark.parametrize(
    ("name", "as_told"),
    [
        (b"claims/\x8a\x01\\", r"'claims/\x8a\x01\'"),
        ("新闻 1".encode(), "'新闻 1'"),
        (b"a\nb\xff", r"'a\nb\xff'"),
    ],
)
def test_names_in_messages_show_bytes_that_are_no_text_once(name, as_told):
    """Backslashes were doubled."""
    assert quoted(name) == as_told
    for key, decode in (
        (b"\0" * 4 + name, Entry.decode),
        (b"\0" * 4 + name, PendingCell.decode),
        (b"\0" * 8 + name, rows.listed_sketch),
    ):
        with pytest.raises(StoreFailed) as said:
            decode(key, b"damaged")
        assert f"of the document {as_told} in the table" in str(said.value)


def flipped(value: bytes, bit: int) -> bytes:
    return (int.from_bytes(value) ^ 1 << bit).to_bytes(len(value))


def test_a_listing_is_fingerprint_and_id():
    key = rows.listing_key(0xFFFFFFFFFFFFFFFF, "a1")
    assert key.hex() == "ffffffffffffffff" + "6131"
    assert key.startswith(rows.listing_prefix(0xFFFFFFFFFFFFFFFF))
    assert rows.parse_listing(key) == (2**64 - 1, "a1")


def test_what_lists_no_usable_id_is_no_listing():
    for key in (b"", b"\xff" * 7, b"\xff" * 8, b"\xff" * 9, b"\xff" * 8 + b"x" * 1025):
        assert rows.parse_listing(key) is None


def test_an_obsolete_row_is_salt_time_fingerprint_and_id():
    key = Obsolete(VERSION, F, "a1").key()
    assert key.hex() == "34" + "0000019200000001" + "0123456789abcdef" + "6131"
    assert rows.parse_obsolete(key) == Obsolete(VERSION, F, "a1")


def test_what_is_no_obsolete_row_is_told():
    key = Obsolete(VERSION, F, "a1").key()
    for other in (b"", key[:16], key[:17], b"\x35" + key[1:], key + b"\xff", key + b"x" * 1024):
        assert rows.parse_obsolete(other) is None


@given(IDS, UINT64, TIMES)
def test_keys_come_back_as_ids(document, fingerprint, time):
    assert rows.document_id(rows.document_key(document)) == document
    assert rows.parse_document(
        rows.document_key(document), Entry(fingerprint).encode(rows.document_key(document))
    ) == (
        document,
        Entry(fingerprint),
    )
    assert rows.parse_listing(rows.listing_key(fingerprint, document)) == (fingerprint, document)
    assert rows.listing_id(rows.listing_key(fingerprint, document)) == document
    obsolete = Obsolete(time, fingerprint, document)
    assert rows.parse_obsolete(obsolete.key()) == obsolete


@given(IDS, UINT64, TIMES, TIMES)
def test_a_range_of_obsolete_rows_holds_those_of_its_salt_before_a_time(document, fingerprint, time, before):
    key = Obsolete(time, fingerprint, document).key()
    within = [salt for salt in range(rows.SALTS) if between(key, rows.obsolete_range(salt, before))]
    assert within == ([key[0]] if time < before else [])


def between(key: bytes, bounds: tuple[bytes, bytes]) -> bool:
    start, stop = bounds
    return start <= key < stop


def test_the_range_before_a_time_that_no_clock_shows_is_empty():
    start, stop = rows.obsolete_range(7, -5)
    assert not between(Obsolete(0, 0, "a").key(), (start, stop))
    assert stop.startswith(start)


UINT32 = st.integers(0, 2**32 - 1)
SKETCHES = st.binary(max_size=300)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
TAGGED = st.dictionaries(TEXTS, TEXTS, max_size=16).map(lambda tags: tuple(sorted(tags.items())))


@given(UINT64, st.sampled_from(State), SKETCHES, TAGGED)
def test_entries_come_back_as_they_were(fingerprint, state, sketch, tags):
    entry = Entry(fingerprint, state, sketch, tags)
    assert Entry.decode(KEY, entry.encode(KEY)) == entry


@pytest.mark.parametrize("sketch_bytes", [0, 3])
@pytest.mark.parametrize("tags", [None, [(), (("source", "wire"),), (("a", "b"), ("tenant", "甲"))]])
def test_rows_of_many_documents_are_those_of_each(sketch_bytes, tags):
    ids = ["a1", "新闻/1", "x" * 700]
    fingerprints = [0, 0x0123456789ABCDEF, 2**64 - 1]
    sketches = np.arange(3 * sketch_bytes, dtype=np.uint8).reshape(3, sketch_bytes)
    values, encoded = np.array(fingerprints, np.uint64), Strings.of([each.encode() for each in ids])
    keys, listed = rows.listing_rows(values, encoded, sketches)
    assert keys.to_list() == list(map(rows.listing_key, fingerprints, ids))
    assert listed.to_list() == [
        checked(key, sketch.tobytes()) if sketch_bytes else b""
        for key, sketch in zip(keys.to_list(), sketches, strict=True)
    ]
    assert rows.document_values(
        Strings.of(list(map(rows.document_key, ids))), values, sketches, tags
    ).to_list() == [
        Entry(fingerprint, State.STORED, sketch.tobytes(), tags=tagged).encode(rows.document_key(id_))
        for id_, fingerprint, sketch, tagged in zip(
            ids, fingerprints, sketches, tags or [()] * 3, strict=True
        )
    ]


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
    found = rows.id_problem(document)
    assert (found is None) == (problem is None)
    assert problem is None or problem in found


def test_documents_of_a_scope_are_in_as_many_ranges_as_there_are_salts():
    ranges = list(rows.document_ranges("a\x1f"))
    keys = [rows.document_key(f"a\x1f{number}") for number in range(2000)]
    held = [sum(first <= key < end for first, end in ranges) for key in keys]
    assert held == [1] * len(keys)
    assert len(ranges) == len({key[0] for key in keys}) == rows.SALTS
    for other in ("a", "a\x1e", "ab\x1f1", "\x1f1", "b\x1fa\x1f1"):
        assert not any(first <= rows.document_key(other) < end for first, end in ranges)


def test_an_id_that_is_too_long_with_its_scope_says_so():
    assert (
        rows.id_problem("s\x1f" + "x" * 1023)
        == "the id and its scope have 1025 bytes in UTF-8, at most 1024 are allowed"
    )
