"""Copying what can be read of a store with damaged rows, of every kind: what is lost is listed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import simhbase
from simhbase.admin.salvage import (
    MISSING,
    OLDER,
    UNCERTAIN,
    UNREADABLE,
    UNSKETCHED,
    UNTAGGED,
    Loss,
    Losses,
    Salvage,
    SalvageReport,
    salvage,
)
from simhbase.errors import ProfileMismatch, StoreFailed
from simhbase.index import Index
from simhbase.index.rows import document_key, listing_key
from simhbase.index.stored_profile import read_profile, write_profile
from simhbase.model.values import Document
from simhbase.profile.profile import Profile
from simhbase.stores import create_store
from simhbase.stores.base import RecordTable
from tests.command_line import texts
from tests.contract.conftest import HBASE, LASTING, POSTGRESQL, REDIS, kind_called
from tests.contract.test_explain import PROFILES
from tests.simulated import Server, SimulatedStore

IDS = [f"d{number}" for number in range(20)]
TEXTS = texts(20)


@pytest.fixture(params=PROFILES)
def profile(request: pytest.FixtureRequest) -> Profile:
    return PROFILES[request.param]


@pytest.fixture(params=[*LASTING, POSTGRESQL, REDIS, HBASE])
def index(request: pytest.FixtureRequest, profile: Profile, tmp_path: Path) -> Iterator[Index]:
    """A store to damage, with tags and a mute list."""
    store = create_store(kind_called(request.param, request).url(tmp_path, 0))
    write_profile(store, profile)
    with Index(store, read_profile(store)) as index:
        index.add([Document(name, text, {"n": name}) for name, text in zip(IDS, TEXTS, strict=True)])
        index.mute(["d3"], note="a template")
        yield index


@pytest.fixture
def run(index: Index, tmp_path: Path) -> Callable[..., tuple[SalvageReport, list[Loss]]]:
    """Closes the store and copies what can be read of it."""

    def run(**options: object) -> tuple[SalvageReport, list[Loss]]:
        index.close()
        lost: list[Loss] = []
        report = salvage(index.store.url, f"rocksdb:{tmp_path}/new", lost=lost.append, **options)
        return report, lost

    return run


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[], dict[str, dict[str, str]]]:
    """The tags of the documents that were copied; each is found by its text."""

    def copied() -> dict[str, dict[str, str]]:
        with simhbase.open(f"rocksdb:{tmp_path}/new") as index:
            there = {each.id: dict(each.tags) for each in index.stored()}
            for name, text in zip(IDS, TEXTS, strict=True):
                found = [match.id for match in index.find(text).matches]
                assert (name in found) == (name in there and name != "d3"), name
            assert [(entry.id, entry.note) for entry in index.muted()] == [("d3", "a template")]
            assert simhbase.check(index.store.url).clean
            return there

    return copied


def damage(index: Index, table: RecordTable, key: bytes) -> None:
    """Flips a bit of a row's value."""
    records = index.store.records(table)
    (cell,) = records.get([key])
    assert cell is not None
    value = bytes([cell.value[0] ^ 1]) + cell.value[1:] if cell.value else b"x"
    records.put([(key, value)], None if table == "meta" else cell.version)


def remove(index: Index, table: RecordTable, key: bytes) -> None:
    (cell,) = index.store.records(table).get([key])
    assert cell is not None
    index.store.records(table).delete([key], [cell.version])


def fingerprint_of(index: Index, name: str) -> simhbase.model.values.Fingerprint:
    (found,) = index.fingerprints([name])
    assert found is not None
    return found


def is_in_listing(index: Index) -> bool:
    """True if the listing of a document has all but its tags."""
    scheme = index.profile.index_scheme
    return not index.store.keeps_hints and (not scheme.sketching or scheme.listed_sketching is not None)


def test_a_sound_store_is_copied_as_a_whole(index, run, copied):
    report, lost = run()
    assert (report.documents, report.added, report.whole, lost) == (20, 20, True, [])
    assert copied() == {name: {"n": name} for name in IDS}
    report, lost = run()
    assert (report.added, report.unchanged, lost) == (0, 20, [])


@pytest.mark.parametrize("how", [damage, remove])
def test_documents_whose_rows_are_lost_are_listed(index, run, copied, how):
    """By id and fingerprint; where the listing has all but the tags, they are copied without."""
    fingerprint, rebuilt, is_hint = (
        fingerprint_of(index, "d5"),
        is_in_listing(index),
        index.store.keeps_hints,
    )
    how(index, "documents", document_key("d5"))
    report, lost = run()
    row = UNREADABLE if how is damage else UNCERTAIN if is_hint else MISSING
    rowless = [each for each in lost if each.id]
    assert rowless == [Loss(UNTAGGED if rebuilt else row, "d5", fingerprint)]
    assert (report.documents, report.lost, report.doubtful) == (19, 1 - rebuilt, int(rebuilt))
    assert copied() == {name: {"n": name} for name in IDS if name != "d5"} | ({"d5": {}} if rebuilt else {})


def test_a_damaged_row_that_is_listed_nowhere_is_listed_by_its_key(index, run, copied):
    fingerprint = fingerprint_of(index, "d5")
    damage(index, "documents", document_key("d5"))
    remove(index, "fingerprints", listing_key(fingerprint, "d5"))
    _, lost = run()
    assert [each for each in lost if each.id] == [Loss(UNREADABLE, "d5", None)]
    assert "d5" not in copied()


def test_documents_whose_sketches_are_lost_are_listed(index, run, copied):
    if index.profile.index_scheme.listed_sketching is None:
        pytest.skip("sketches are in the rows of documents, which are lost with them")
    fingerprint = fingerprint_of(index, "d5")
    damage(index, "fingerprints", listing_key(fingerprint, "d5"))
    report, lost = run()
    assert lost == [Loss(UNSKETCHED, "d5", fingerprint)]
    assert (report.added, report.lost) == (19, 1)
    assert "d5" not in copied()


def test_a_row_that_is_older_than_its_listing_is_told(index, run, tmp_path):
    """As when the file with the newest row of documents is lost."""
    key, old = document_key("d5"), fingerprint_of(index, "d5")
    (before,) = index.store.records("documents").get([key])
    index.add([Document("d5", TEXTS[0] + TEXTS[1], {"n": "new"})])
    new, rebuilt, is_hint = fingerprint_of(index, "d5"), is_in_listing(index), index.store.keeps_hints
    assert new != old
    if is_hint:
        pytest.skip("a listing alone says nothing there")
    remove(index, "documents", key)
    index.store.records("documents").put([(key, before.value)], before.version)
    report, lost = run()
    assert [each for each in lost if each.id] == [Loss(UNTAGGED if rebuilt else OLDER, "d5", new)]
    assert report.doubtful == 1
    with simhbase.open(f"rocksdb:{tmp_path}/new", access="read") as copy:
        assert copy.fingerprints(["d5"]) == [new if rebuilt else old]


def test_a_key_that_is_damaged_is_named(index, run, copied):
    key = document_key("d5")
    (cell,) = index.store.records("documents").get([key])
    wrong = bytes([key[0] ^ 1]) + key[1:]
    index.store.records("documents").put([(wrong, cell.value)], cell.version)
    report, lost = run()
    assert lost == [Loss(f"the key {wrong.hex()} is damaged", table="documents")]
    assert report.damages == 1
    assert copied() == {name: {"n": name} for name in IDS}


@pytest.mark.parametrize("how", [damage, lambda index, table, key: index.store.records(table).delete([key])])
def test_without_its_profile_a_store_needs_a_given_one(index, profile, run, copied, tmp_path, how):
    how(index, "meta", b"profile")
    with pytest.raises(StoreFailed, match=r"profile.*--profile FILE"):
        run()
    other = Profile(verify=profile != PROFILES["verified"])
    with pytest.raises(ProfileMismatch, match="have sketches of"):
        run(profile=other.parameters())
    assert not (tmp_path / "new").exists()
    report, lost = run(profile=profile.parameters())
    assert report.added == 20
    assert [each.table for each in lost] == ["meta"] * report.damages
    assert "The given profile was taken" in lost[0].problem
    assert copied() == {name: {"n": name} for name in IDS}


def test_a_damaged_mute_list_is_named(index, run, tmp_path):
    damage(index, "meta", b"muted")
    _, lost = run()
    assert lost == [Loss("the row 'muted' is damaged", table="meta")]
    with simhbase.open(f"rocksdb:{tmp_path}/new", access="read") as copy:
        assert (len(copy), list(copy.muted())) == (20, [])


def test_what_was_deleted_is_not_lost(index, run, copied):
    index.delete(["d5"])
    report, lost = run()
    assert (report.documents, report.whole, lost) == (19, True, [])
    assert "d5" not in copied()


def test_a_listing_in_a_store_with_hints_may_be_what_a_crash_left(tmp_path):
    """So a document is not made of it, and a deleted one is not lost."""
    profile = PROFILES["5x2"]
    store, new = SimulatedStore(Server().ask), create_store(f"rocksdb:{tmp_path}/new")
    for each in (store, new):
        write_profile(each, profile)
    with Index(store, read_profile(store)) as index, Index(new, read_profile(new)) as target:
        index.add_fingerprints(IDS, range(len(IDS)))
        index.delete(["d4"])
        damage(index, "documents", document_key("d5"))
        remove(index, "documents", document_key("d6"))
        lost: list[Loss] = []
        Salvage(index, target, Losses(lost.append)).run()
        assert {loss.id: loss.problem for loss in lost} == {"d5": UNREADABLE, "d6": UNCERTAIN}
        assert {each.id for each in target.stored()} == {*IDS} - {"d4", "d5", "d6"}


@pytest.mark.parametrize("kind", LASTING)
def test_scopes_are_copied_with_their_mute_lists(tmp_path: Path, request: pytest.FixtureRequest, kind: str):
    url = kind_called(kind, request).url(tmp_path, 0)
    with simhbase.open(url, create="default", scoped=True) as whole:
        for scope in ("a", "ab"):
            whole.within(scope).add([Document("d0", TEXTS[0]), Document("d1", TEXTS[1])])
            whole.within(scope).mute(["d1"], note=scope)
        damage(whole, "meta", b"scope/ab")
        damage(whole, "meta", b"muted/ab\x1f")
    lost: list[Loss] = []
    salvage(url, f"rocksdb:{tmp_path}/new", lost=lost.append)
    assert [each.problem for each in lost] == [
        r"the row 'muted/ab\x1f' is damaged",
        "the row 'scope/ab' is damaged",
    ]
    with simhbase.open(f"rocksdb:{tmp_path}/new") as copy:
        assert simhbase.Administrator(copy).scopes() == ["a", "ab"]
        a, ab = copy.within("a"), copy.within("ab")
        assert [each.note for each in a.muted()] == ["a"]
        assert ab.muted() == []
        assert [len(index.find(TEXTS[1]).matches) for index in (a, ab)] == [0, 1]


def test_without_its_profile_a_store_with_scopes_cannot_be_unmasked(tmp_path: Path):
    url = f"rocksdb:{tmp_path}/old"
    with simhbase.open(url, create="default", scoped=True) as whole:
        whole.within("a").add([Document("d0", TEXTS[0])])
        damage(whole, "meta", b"profile")
    with pytest.raises(StoreFailed, match="had scopes, and the random bytes that mask"):
        salvage(url, f"rocksdb:{tmp_path}/new", {"k": 3}, lost=lambda loss: None)
