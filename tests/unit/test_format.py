"""The examples of schema/format.md are what the code writes."""

import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from simhbase.drawers.bands import bands
from simhbase.drawers.layout import layout
from simhbase.drawers.rowkeys import KEY_BYTES, encode
from simhbase.drawers.scheme import MinHashScheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.fingerprint.sketches import fingerprints
from simhbase.index import rows
from simhbase.index.load_log import LoadLog
from simhbase.index.mute import MuteList
from simhbase.index.rows import BatchRow, Entry, Obsolete, PendingCell, State
from simhbase.index.scopes import Scope
from simhbase.index.stored_profile import write_profile
from simhbase.loads.checkpoints import BatchDecision
from simhbase.model.moment import at
from simhbase.model.stored import Muted
from simhbase.model.values import Fingerprint
from simhbase.profile.profile import Profile
from simhbase.stores import create_store
from simhbase.stores.checked import checked
from simhbase.stores.meta import Meta
from simhbase.stores.redis.drawers import NAME_BYTES, packed_rows
from simhbase.text.boilerplate import Boilerplate
from tests import examples

GOLDEN = Path(__file__).parents[1] / "golden"
PAGE = examples.page("schema/format.md")
BLOCKS = list(examples.blocks(PAGE))
INDEX = [(*title.split()[1:], body) for title, body in BLOCKS if title.startswith("index")]
VERSION = 0x0192_0000_0001
SKETCH = b"\xa1\xb2\xc3"
TAGS = (("tenant", "a"),)
A1, OTHER = 0x0123456789ABCDEF, 0x8000000000000001


def lines_of(title: str) -> list[str]:
    return "".join(body for found, body in BLOCKS if found == title).replace(" ", "").splitlines()


def row(key: bytes, value: bytes) -> str:
    return f"{key.hex()}->{value.hex()}"


def test_every_layout_has_its_example():
    assert {name for name, _, _ in INDEX} == {"5x2", "4x1", "4x4", "6x3", "2x1p1"}


@pytest.mark.parametrize(("name", "fingerprint", "body"), INDEX)
def test_the_rows_of_the_index(name, fingerprint, body):
    keys = encode(np.array([int(fingerprint, 16)], np.uint64), layout(name))[0]
    assert body.replace(" ", "").splitlines() == [key.tobytes().hex() for key in keys]


def test_the_rows_of_bands():
    ((_, name, bits, digits, body),) = [
        (*title.split(), body) for title, body in BLOCKS if title.startswith("minhash")
    ]
    sketch = np.frombuffer(bytes.fromhex(digits), np.uint8)[np.newaxis]
    sketching = SketchParameters(len(digits) * 4 // int(bits), int(bits))
    keys = MinHashScheme(bands(name), sketching, 0.8).keys(FingerprintBatch(fingerprints(sketch), sketch))[0]
    assert body.replace(" ", "").splitlines() == [key.tobytes().hex() for key in keys]
    words = [int.from_bytes(sketch[0, start : start + 8].tobytes()) for start in (0, 8)]
    assert int(body.split()[2], 16) == chained(words)
    assert [int(line.split()[0], 16) for line in body.splitlines()] == [
        chained([word]) >> 32 for word in words
    ]


def chained(words: list[int]) -> int:
    """The hash as the page defines it."""
    state = 0x9E3779B97F4A7C15
    for word in words:
        state ^= word
        for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53), (33, 1)):
            state = (state ^ state >> shift) * factor % 2**64
    return state


def test_the_worked_segments():
    fingerprint = f"{A1:064b}"
    blocks = dict(zip("abcde", (fingerprint[i : i + 13] for i in range(0, 64, 13)), strict=True))
    assert re.findall(r"([a-e]) = ([01]+)", PAGE) == list(blocks.items())
    worked = re.findall(r"flag (\d+): +([a-e]) ([a-e]) +([01 ]+) = ([0-9a-f]{8})", PAGE)
    assert len(worked) == 3
    keys = encode(np.array([A1], np.uint64), layout("5x2"))[0]
    for flag, first, second, bits, segment in worked:
        assert bits.replace(" ", "") == (blocks[first] + blocks[second]).ljust(32, "0")
        assert keys[int(flag) - 1, :4].tobytes().hex() == segment == f"{int(bits.replace(' ', ''), 2):08x}"


def test_the_rows_of_documents():
    key = rows.document_key("a1")
    stored = [row(key, Entry(A1, state).encode(key)) for state in (State.STORED, State.DELETED)]
    assert lines_of("documents") == [*stored, row(key, Entry(A1, State.STORED, SKETCH).encode(key))]


def test_the_rows_of_documents_with_tags():
    key = rows.document_key("a1")
    entries = [
        Entry(A1, tags=TAGS),
        Entry(A1, tags=(("source", "wire"), *TAGS)),
        Entry(A1, State.STORED, SKETCH, tags=TAGS),
    ]
    assert lines_of("documents tagged") == [row(key, entry.encode(key)) for entry in entries]


def test_the_cells_of_claims():
    first, third = PendingCell(0, A1, 10_000), PendingCell(2, A1, 10_000, SKETCH)
    cells = [first, third, replace(third, tags=TAGS)]
    key = rows.document_key("a1")
    assert [bytes.fromhex(example) for example in lines_of("pending")] == [cell.encode(key) for cell in cells]
    assert [PendingCell.decode(key, cell.encode(key)) for cell in cells] == cells


def test_the_rows_of_batches_of_claims():
    decisions = tuple(map(rows.Decision, (0, 1, 2, 0, 1)))
    decided = BatchRow(7, decisions)
    rows_ = [decided, replace(decided, frozen=True, beat=2), BatchRow(0, frozen=True)]
    key = rows.batch_key(bytes(range(16)))
    assert lines_of("batches") == [row(key, checked(key, each.encode())) for each in rows_]
    assert [BatchRow.decode(each.encode()) for each in rows_] == rows_


def test_the_rows_of_fingerprints():
    key = rows.listing_key(A1, "a1")
    assert lines_of("fingerprints") == [row(key, b""), row(key, checked(key, SKETCH))]


def test_the_rows_of_obsolete():
    assert lines_of("obsolete") == [row(Obsolete(VERSION, A1, "a1").key(), b"")]


def test_the_rows_of_met():
    key = rows.met_key("a1", "b2")
    assert lines_of("met") == [row(key, rows.met_value(key, VERSION))]
    assert key.startswith(rows.document_key("a1")[:4])
    for each in orjson.loads((GOLDEN / "met.json").read_bytes()):
        key, value = bytes.fromhex(each["key"]), bytes.fromhex(each["value"])
        assert rows.met_key(each["document"], each["refused"]) == key
        assert rows.met_value(key, each["first"]) == value
        assert rows.parse_met(key, value) == each["first"]
        assert rows.parse_met(key, value[:-1] + bytes([value[-1] ^ 1])) is None


@pytest.mark.parametrize(
    ("table", "key", "values"),
    [
        ("documents", rows.document_key("a1"), [Entry(A1).encode(rows.document_key("a1"))]),
        ("fingerprints", rows.listing_key(A1, "a1"), [b"", checked(rows.listing_key(A1, "a1"), SKETCH)]),
    ],
)
def test_rocksdb_puts_the_version_in_front(tmp_path, table, key, values):
    with closing(create_store(f"rocksdb:{tmp_path}/store")) as store:
        found = []
        for value in values:
            store.records(table).put([(key, value)], VERSION)
            found.append(row(key, store.database.families[table].get(key)))
    assert lines_of(f"{table} rocksdb") == found


def test_the_profile_names_the_format_and_a_token_of_its_own():
    profiles = []
    for _ in range(2):
        with closing(create_store("memory:")) as store:
            write_profile(store, Profile(verify=False))
            profiles.append(orjson.loads(Meta(store).get(b"profile")))
    assert f"This is format {profiles[0]['format']}," in PAGE
    tokens = [bytes.fromhex(profile["token"]) for profile in profiles]
    assert list(map(len, tokens)) == [8, 8]
    assert tokens[0] != tokens[1]


def test_what_is_noted_of_a_load():
    with closing(create_store("memory:")) as store:
        load = LoadLog.begin(store, "nightly", "task")
        load.advance([{"chunks": 8, "digest": "00", "rejects": [3], "sources": {}, "kept_out": {}}])
        load.note_pending({"digest": "00", **BatchDecision().encode()})
        found = {key: orjson.loads(value) for key, value in Meta(store).under(b"load")}
        load.remove()
    assert found.keys() == {b"load/nightly", b"load-part/nightly\0" + bytes(8), b"load-pending/nightly"}
    state = found[b"load/nightly"]
    for name in [
        *state,
        *found[b"load-part/nightly\0" + bytes(8)],
        *found[b"load-pending/nightly"],
    ]:
        assert f"`{name}`" in PAGE


def test_the_mute_list():
    since = 1_767_225_600_000
    entries = [
        Muted("a1", None, at(since), note="a form that everybody sends"),
        Muted(None, Fingerprint(A1), at(since), at(since + 86_400_000)),
    ]
    with closing(create_store("memory:")) as store:
        muted = MuteList(store, clock=lambda: since)
        muted.mute(entries)
        value = Meta(store).get(b"muted")
        assert muted.entries() == entries
    (example,) = (body for title, body in BLOCKS if title == "muted")
    assert value.decode() == example.replace("\n", "")


def test_the_rows_of_a_scope():
    scope = Scope("t", bytes(range(16)), None)
    id_, fingerprint = scope.id_of("a1"), scope.value(A1)
    document = rows.document_key(id_)
    assert lines_of("scopes") == [
        row(document, Entry(fingerprint).encode(document)),
        row(rows.listing_key(fingerprint, id_), b""),
    ]


def test_a_boilerplate_file():
    (example,) = (body for title, body in BLOCKS if title == "boilerplate")
    own = Boilerplate("the example", example.encode())
    assert [entry.kind for entry in own.entries] == ["phrase", "line"]
    assert own.strip(["央视网消息（新闻联播）：今天\nRead more!"]) == [" 今天\n "]


def test_the_sets_of_redis():
    values = np.array([A1, OTHER], np.uint64)
    keys = encode(values, layout("4x1")).reshape(-1, KEY_BYTES)
    packed = np.frombuffer(packed_rows(keys), np.uint8).reshape(len(keys), -1)
    shown = [
        f"news:{row[:NAME_BYTES].tobytes().decode()}{row[NAME_BYTES:].tobytes().rstrip(bytes(1)).decode()}"
        for row in packed
    ]
    assert lines_of("redis-index 4x1") == shown
