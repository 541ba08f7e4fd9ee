"""Damaged rows of meta and documents are errors that name the row and say what to do; a check finds them, and
its repair removes what all else works without."""

import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import product

import pytest

import simhbase
from simhbase.admin.check import DAMAGED_META, LOST_META, UNREADABLE, Checker
from simhbase.errors import ProfileMismatch, StoreBusy, StoreFailed, UsageError
from simhbase.index import Index
from simhbase.index.load_log import LoadLog, all_loads
from simhbase.index.mute import MuteList
from simhbase.index.rows import document_key
from simhbase.index.scopes import noted_scopes
from simhbase.index.stored_profile import read_profile
from simhbase.loads.checkpoints import DecisionNote, PartNote
from simhbase.stores import open_store
from simhbase.stores.base import RecordTable
from simhbase.stores.meta import Meta
from simhbase.text import userfile
from simhbase.text.idf import IdfTable
from tests.command_line import run
from tests.contract.conftest import with_profiles
from tests.contract.test_explain import OTHER  # a fixture
from tests.contract.test_explain import index as index

Damage = Callable[[bytes], bytes]
DAMAGES: dict[str, Damage] = {
    "flipped": lambda value: bytes([value[0] ^ 1]) + value[1:],
    "cut": lambda value: value[: len(value) // 2],
    "empty": lambda value: b"",
}
on_each_store = pytest.mark.parametrize("index", with_profiles("verified"), indirect=True)
each_damage = pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)


def damaged(index: Index, damage: Damage, key: bytes, table: RecordTable = "meta") -> None:
    records = index.store.records(table)
    (cell,) = records.get([key])
    assert cell is not None
    records.put([(key, damage(cell.value))], cell.version if table == "documents" else None)


def check(index: Index, *, repair: bool = False) -> dict[str, int]:
    return Checker(index.store, index.profile.index_scheme, repair).check().problems


@on_each_store
@each_damage
def test_a_damaged_mute_list_is_an_error_until_a_repair_removes_it(index, damage):
    """Lookups and changes of the list fail with the row's name; a repair removes the list."""
    index.mute(["b"])
    damaged(index, damage, b"muted")
    muted = MuteList(index.store, index.clock)  # of another process, which has read nothing yet
    for operation in (muted.hidden, muted.entries, lambda: index.mute(["a"])):
        with pytest.raises(StoreFailed, match=r"'muted' of the table meta .* is damaged.* check --repair"):
            operation()
    assert check(index) == {DAMAGED_META: 1}
    assert check(index, repair=True) == {DAMAGED_META: 1}
    assert check(index) == {}
    assert muted.entries() == []


@on_each_store
@each_damage
def test_a_damaged_log_of_a_load_is_removed_by_a_repair(index, damage):
    """A load cannot resume with part of its log, so a repair removes all of it."""
    log = LoadLog.begin(index.store, "nightly", "task")
    log.advance([{"chunks": 1}, {"chunks": 2}])
    log.__exit__(ValueError, ValueError("stopped"), None)
    damaged(index, damage, b"load/nightly")
    with pytest.raises(StoreFailed, match="'load/nightly' of the table meta"):
        all_loads(index.store)
    assert check(index, repair=True) == {DAMAGED_META: 1}
    assert check(index) == {}
    assert all_loads(index.store) == []
    assert [key for rows in index.store.records("meta").iterate(b"load", b"loae") for key, _ in rows] == []


# A checksum says only that a row is as it was written, and any server may have written it.
OTHER_JSON = (b"", b"\xff", b"[" * 3000, b"null", b"5", b'"x"', b"[[]]", b"[{}]", b'{"a": 1}', b"9" * 5000)
OTHER_VALUES = (None, True, -5, 10**30, 1.5, "x", [], [None], {"a": [1]})


def put_content(index: Index, key: bytes, content: bytes) -> None:
    Meta(index.store).put([(key, content)])


def replaced(content: bytes) -> Iterator[bytes]:
    """JSON objects of which one value is another one."""
    fields = json.loads(content)
    for name, other in product(fields, OTHER_VALUES):
        yield json.dumps({**fields, name: other}).encode()


@on_each_store
def test_a_mute_list_with_its_checksum_may_be_of_another_kind(index):
    """Such rows raised AttributeError, KeyError, OverflowError and others, and checks found nothing."""
    index.mute(["b"])
    (entry,) = json.loads(Meta(index.store).get(b"muted"))
    wrong = [b"[%b]" % each for each in replaced(json.dumps(entry).encode())]
    damaged = 0
    for content in (*OTHER_JSON, b'[{"since": 5, "note": "names nothing"}]', *wrong):
        put_content(index, b"muted", content)
        with suppress(StoreFailed):
            assert len(MuteList(index.store, index.clock).entries()) == 1  # an id may be any text
            continue
        damaged += 1
        assert check(index, repair=True) == {DAMAGED_META: 1}, content
        assert MuteList(index.store, index.clock).entries() == []
    assert damaged > len(OTHER_JSON) + len(wrong) / 2


@on_each_store
def test_the_log_of_a_load_with_its_checksum_may_be_of_another_kind(index):
    log = LoadLog.begin(index.store, "nightly", "task")
    log.advance([{"chunks": 1}], counts={"added": 1}, files={"unique": (3, 9)})
    log.note_pending({"version": 1})
    log.__exit__(ValueError, ValueError("stopped"), None)
    state = Meta(index.store).get(b"load/nightly")
    for content in (*OTHER_JSON, *replaced(state)):
        put_content(index, b"load/nightly", content)
        with suppress(StoreFailed, UsageError, StoreBusy):  # of another task; running
            assert [load.begun for load in all_loads(index.store)]
            LoadLog.begin(index.store, "nightly", "task").__exit__(ValueError, ValueError("stopped"), None)
    put_content(index, b"load/nightly", OTHER_JSON[0])
    assert check(index, repair=True) == {DAMAGED_META: 1}
    assert all_loads(index.store) == []


@on_each_store
def test_notes_of_a_load_of_another_kind_say_how_to_begin_again(index):
    log = LoadLog.begin(index.store, "nightly", "task")
    log.advance([{"chunks": 1}])
    log.note_pending({"version": 1})
    (part,) = (key for key, _ in Meta(index.store).under(b"load-part/"))
    for content in OTHER_JSON:
        put_content(index, part, content)
        put_content(index, b"load-pending/nightly", content)
        for read in (lambda: list(log.parts(PartNote)), lambda: log.pending(DecisionNote)):
            with pytest.raises(StoreFailed, match=r"is damaged .* simhbase loads forget nightly"):
                print(read())
    log.__exit__(ValueError, ValueError("stopped"), None)


@on_each_store
def test_a_profile_with_its_checksum_may_be_of_another_kind(index):
    stored = Meta(index.store).get(b"profile")
    for content in (*OTHER_JSON, *replaced(stored)):
        put_content(index, b"profile", content)
        with suppress(StoreFailed, ProfileMismatch):
            read_profile(index.store).check_pipeline(index.profile.fingerprinter())
    put_content(index, b"profile", stored)
    assert read_profile(index.store).row == stored


@on_each_store
def test_other_rows_of_meta_with_their_checksums_may_be_of_another_kind(index):
    put_content(index, b"ttl", b"soon")
    put_content(index, b"scope/\xff", b"")
    with pytest.raises(StoreFailed, match=r"'scope/\\xff' of the table meta .* is damaged"):
        noted_scopes(index.store)
    if not index.store.keeps_hints:
        index.store._ttl = None  # as of another process
        with pytest.raises(StoreFailed, match=r"'ttl' .*damaged"):
            index.store.ttl()


@on_each_store
@each_damage
def test_a_damaged_profile_is_no_missing_one(index, damage):
    """The error tells to restore the store, and a check does not remove the row."""
    damaged(index, damage, b"profile")
    with pytest.raises(StoreFailed, match=r"'profile' of the table meta .* is damaged.*Restore the store"):
        read_profile(index.store)
    assert check(index, repair=True) == {LOST_META: 1}
    assert check(index) == {LOST_META: 1}


@on_each_store
@each_damage
def test_commands_name_a_damaged_mute_list_and_what_to_do(index, damage, tmp_path):
    if index.store.url == "memory:":
        pytest.skip("no other process can open it")
    index.mute(["b"])
    damaged(index, damage, b"muted")
    index.close()
    store = ("--store", index.store.url)
    for command in (["find", "--text", OTHER], ["mute", "list"], ["mute", "add", "a"], ["find", "--id", "b"]):
        done = run(*command, *store, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, b""), command
        assert b"'muted' of the table meta" in done.stderr
        assert b"check --repair" in done.stderr
    assert run("check", *store, cwd=tmp_path).returncode == 1
    assert run("check", "--repair", "--yes", *store, cwd=tmp_path).returncode == 0
    assert run("find", "--text", OTHER, *store, cwd=tmp_path).returncode == 0


@on_each_store
@each_damage
def test_commands_name_a_damaged_row_of_the_layout_and_what_to_do(index, damage, tmp_path):
    """Only PostgreSQL derives drawers from it; the documents can be copied without."""
    if index.store.records("meta").get([b"layout"]) == [None]:
        pytest.skip("this store has no such row")
    damaged(index, damage, b"layout")
    index.close()
    store = ("--store", index.store.url)
    for command in (["find", "--text", OTHER], ["delete", "a"]):
        done = run(*command, *store, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, b""), command
        assert b"'layout' of the table meta" in done.stderr
        assert b"migrate --salvage" in done.stderr
    assert run("check", *store, cwd=tmp_path).returncode == 1
    done = run("migrate", *store, "--to", "rocksdb:new", "--salvage", "lost.jsonl", cwd=tmp_path)
    assert done.returncode == 3, done
    assert b"the row 'layout' is damaged" in (tmp_path / "lost.jsonl").read_bytes()
    with simhbase.open(f"rocksdb:{tmp_path}/new", access="read") as copy:
        assert len(copy) == 3


def test_a_lost_piece_of_a_file_of_the_profile_is_named(tmp_path):
    """It was a bare error of zlib."""
    lines = [json.dumps({"id": str(number), "text": f"word{number} of many words"}) for number in range(20)]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines))
    assert run("idf", "texts.jsonl", "--output", "own.idf", cwd=tmp_path).returncode == 0
    store = ("--store", "rocksdb:s.db")
    made = run("tables", "create", *store, "--set", "idf=own.idf", "--set", "weights=tfidf", cwd=tmp_path)
    assert made.returncode == 0, made
    with closing(open_store(f"rocksdb:{tmp_path}/s.db", "write")) as opened:
        Meta(opened).delete_under(b"idf/")
    done = run("find", "--text", "a text of words", *store, cwd=tmp_path)
    assert done.returncode == 1
    assert b"has lost rows of its profile's IDF table" in done.stderr


def test_a_file_of_the_profile_of_a_stranger_is_unpacked_only_as_far_as_one_may_be(tmp_path, monkeypatch):
    """250 kB of a store took 8 GB."""
    url, idf = f"rocksdb:{tmp_path}/s.db", IdfTable("own", b"many 1.0\nwords 2.0\n")
    simhbase.open(url, create=simhbase.Profile(verify=False, weights="tfidf", idf=idf)).close()
    with closing(open_store(url, "write")) as opened:
        ((key, _),) = Meta(opened).under(b"idf/")
        Meta(opened).put([(key, zlib.compress(bytes(3 << 20)))])
    monkeypatch.setattr(userfile, "MOST_BYTES", 1 << 20)
    with pytest.raises(StoreFailed, match="incomplete, or more than 1 MiB"):
        simhbase.open(url, access="read")


@on_each_store
@each_damage
def test_a_damaged_documents_row_is_an_error_until_a_repair_removes_it(index, damage):
    """No lookup takes it for a deleted document."""
    damaged(index, damage, document_key("b"), "documents")
    for operation in (
        lambda: index.fingerprints(["b"]),
        lambda: index.find(OTHER),
        lambda: list(index),
        lambda: index.delete(["b"]),
    ):
        with pytest.raises(StoreFailed, match="the document 'b' in the table documents is damaged"):
            operation()
    assert check(index)[UNREADABLE] == 1
    assert check(index, repair=True)[UNREADABLE] == 1
    assert UNREADABLE not in check(index, repair=True)
    assert index.fingerprints(["b"]) == [None]
