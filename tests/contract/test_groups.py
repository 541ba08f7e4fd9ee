"""The groups of every store's documents are those of lookups, one document after the other."""

from collections.abc import Iterator
from datetime import timedelta

import numpy as np
import pytest
from click.testing import CliRunner

import simhbase
from simhbase import Document, Index, SimhbaseError, UsageError
from simhbase.admin import Administrator, spooled
from simhbase.cli.groups import groups
from simhbase.drawers import pairs as drawers_pairs
from simhbase.index.rows import document_key, listing_key
from simhbase.model.groups import Group, Member, Pair
from simhbase.process.spool import Spool
from tests.command_line import result, run
from tests.contract.conftest import Backend, Kind, kind_called
from tests.near import versions

PROFILES = ("default", "classic", "complete")
ORIGINALS = 30


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spooled, "PART_ROWS", 10)
    monkeypatch.setattr(spooled, "_AT_ONCE", 7)
    monkeypatch.setattr(drawers_pairs, "_AT_ONCE", 5)


def opened(backend: Backend, profile: str) -> Index:
    return simhbase.open(backend.url(0), create=profile, drawer_limit=None, ids_limit=10**6)


def fill(index: Index, seed: int = 0) -> None:
    """Near texts and copies, in batches that have several of them; one is replaced, one deleted."""
    some = list(versions(ORIGINALS, seed, words=60))
    some += some[:8] * 3
    order = np.random.default_rng(seed).permutation(len(some)).tolist()
    documents = [Document(f"文/{number}", some[number], {"n": str(number % 3)}) for number in order]
    for start in range(0, len(documents), 50):
        index.add(documents[start : start + 50])
    index.add([Document("文/1", some[5]), Document("文/2", some[2] + " and more", {"n": "0"})])
    index.delete(["文/0"])


def stored_versions(index: Index) -> dict[str, int]:
    ids = list(index)
    cells = index.store.records("documents").get(list(map(document_key, ids)))
    return {document: cell.version for document, cell in zip(ids, cells, strict=True) if cell}


def by_lookups(index: Index, **query: object) -> list[Group]:
    """The groups by looking up each document in order."""
    written = stored_versions(index)
    ids = sorted(written, key=lambda each: (written[each], each.encode()))
    lookups = dict(zip(ids, index.find_ids(ids, simhbase.Query(**query)), strict=True))
    taken, found = set[str](), list[tuple[Group, int]]()
    for place, document in enumerate(ids):
        near = {match.id: match for match in lookups[document].matches}
        if document in taken or document not in near:
            continue
        assert not lookups[document].truncated
        own = [match for name, match in near.items() if name not in taken and name != document]
        own.sort(key=lambda match: (match.distance, ids.index(match.id)))
        taken |= {document, *(match.id for match in own)}
        if own:
            members = tuple(Member(match.id, match.distance, match.similarity) for match in own)
            found.append((Group(document, len(own) + 1, members), place))
    found.sort(key=lambda each: (-each[0].size, each[1]))
    return [group for group, _ in found]


@pytest.mark.parametrize("profile", PROFILES)
def test_they_are_those_of_lookups(backend: Backend, profile: str, monkeypatch: pytest.MonkeyPatch):
    with opened(backend, profile) as index:
        fill(index)
        expected = by_lookups(index)
        with monkeypatch.context() as patch:
            for name in ("read", "iterate"):  # which are not called
                patch.setattr(type(index.store.drawers), name, None)
            found = Administrator(index).groups()
        with found:
            assert list(found) == expected
            assert list(found) == expected  # again
        assert len(expected) > ORIGINALS / 2
        assert max(group.size for group in expected) > 3
        counts = found.documents, len(found), found.duplicates, found.muted, found.lost_sketches
        assert counts == (len(index), len(expected), sum(each.size - 1 for each in expected), 0, 0)

        large = [group for group in expected if group.size >= 4]
        with Administrator(index).groups(4) as found:
            assert list(found) == large
        with Administrator(index).groups(since=timedelta(hours=1), tags={"n": "1"}) as found:
            assert list(found) == by_lookups(index, tags={"n": "1"}) != expected


@pytest.mark.parametrize("profile", PROFILES)
def test_pairs_are_those_of_lookups(backend: Backend, profile: str):
    with opened(backend, profile) as index:
        fill(index)
        written = stored_versions(index)
        ids = sorted(written, key=lambda each: (written[each], each.encode()))
        expected = {
            Pair(document, match.id, match.distance, match.similarity)
            for place, (document, lookup) in enumerate(zip(ids, index.find_ids(ids), strict=True))
            for match in lookup
            if match.id in ids[place + 1 :]
        }
        with Administrator(index).pairs() as found:
            pairs = list(found)
            assert len(pairs) == len(expected) > 2 * ORIGINALS
            assert set(pairs) == expected
            assert set(found) == expected  # again
            assert (found.documents, found.muted, found.lost_sketches) == (len(index), 0, 0)
        with Administrator(index).pairs(since=timedelta(hours=1), tags={"n": "1"}) as found:
            tagged = {each.id for each in index.stored(tags={"n": "1"})}
            assert set(found) == {pair for pair in expected if tagged.issuperset((pair.id_a, pair.id_b))}


def test_muted_documents_are_in_no_group(backend: Backend):
    with opened(backend, "default") as index:
        fill(index)
        before = by_lookups(index)
        index.mute([before[0].group, before[1].members[0].id], [index[before[2].group].fingerprint])
        with Administrator(index).groups() as found:
            assert list(found) == by_lookups(index) != before
            assert found.muted >= 3
            assert found.documents + found.muted == len(index)


def test_chains_are_connected_components(backend: Backend):
    with opened(backend, "classic") as index:
        fill(index, seed=1)
        ids = list(index)
        root = {document: document for document in ids}
        for document, lookup in zip(ids, index.find_ids(ids), strict=True):
            one, others = root[document], {root[match.id] for match in lookup}
            root = {each: one if its in others else its for each, its in root.items()}
        written = stored_versions(index)
        chains = dict[str, set[str]]()
        for document, its in root.items():
            chains.setdefault(its, set()).add(document)
        expected = {
            min(chain, key=lambda each: (written[each], each.encode())): chain
            for chain in chains.values()
            if len(chain) > 1
        }
        with Administrator(index).groups(chains=True) as found:
            assert {each.group: {each.group, *(of.id for of in each.members)} for each in found} == expected


def test_parts_of_a_larger_store_are_read_at_once(hinting: Backend, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spooled, "PART_ROWS", 500)
    chance = np.random.default_rng(9)
    values = chance.integers(0, 1 << 64, 3000, dtype=np.uint64)
    near = values[:1500] ^ np.uint64(1) << chance.integers(0, 64, 1500, dtype=np.uint64)
    values, names = np.concatenate([values, near, values[:500]]), [f"d/{number}" for number in range(5000)]
    found = []
    for url in (hinting.url(0), "memory:"):
        with simhbase.open(url, create="classic") as index:
            index.add_fingerprints(names, values)
            with Administrator(index).groups() as groups:
                assert groups.documents == 5000
                found.append(list(groups))
    assert found[0] == found[1]
    assert len(found[0]) == 1500


def test_an_empty_store_has_none(backend: Backend):
    with opened(backend, "complete") as index, Administrator(index).groups() as found:
        assert list(found) == []
        assert not found
        assert found.documents == 0


@pytest.fixture(params=["memory", pytest.param("hbase", marks=pytest.mark.hbase)])
def sketched(request: pytest.FixtureRequest, tmp_path) -> Iterator[Index]:
    kind: Kind = kind_called(request.param, request)
    with opened(Backend(tmp_path, kind), "complete") as index:
        fill(index)
        yield index


def test_a_lost_sketch_is_taken_from_another_document_or_said(sketched: Index):
    with Administrator(sketched).groups() as found:
        before = list(found)
    copied = next(group for group in before if group.members[0].distance == 0)
    single = next(group for group in before if group.members[0].distance > 0)
    lost = [copied.group, single.group]
    keys = [listing_key(sketched[each].fingerprint, each) for each in lost]
    sketched.store.records("fingerprints").delete(keys)
    with Administrator(sketched).groups() as found:
        after = list(found)
    assert found.lost_sketches == 1
    assert copied in after
    assert single.group not in {each.group for each in after}


def test_the_command_prints_groups_and_what_may_be_missing(tmp_path):
    with simhbase.open(f"rocksdb:{tmp_path}/s.db", create="classic") as index:
        index.add_fingerprints(["b", "a", "c", "d"], [0, 1, 255 << 50, 511 << 50], [{"n": "1"}] * 3 + [{}])
        index.add_fingerprints(["e", "f"], [0, 1 << 40])
        index.mute(["f"])
    done = run("groups", "--store", "rocksdb:s.db", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.decode().splitlines() == [
        *("3 documents  a", "  1 bits  b", "  1 bits  e"),
        *("2 documents  c", "  1 bits  d"),
    ]
    told = done.stderr.decode().splitlines()
    assert told[0].startswith(
        "5 documents: 2 groups, with 3 beside the first of each. What was written since 2"
    )
    assert told[0].endswith(" may be missing")
    assert told[1:] == ["left out because they are muted: 1"]
    options = ("--tag", "n=1", "--since", "1h", "--chains", "--json")
    assert result("groups", *options, "--store", "rocksdb:s.db", cwd=tmp_path) == {
        "group": "a",
        "size": 2,
        "members": [{"id": "b", "distance": 1, "similarity": None}],
        "met": None,
    }


def test_a_crowd_of_texts_that_are_not_near_is_said_to_be_truncated(tmp_path, monkeypatch):
    words = [f"word{number}" for number in range(5000)]
    chance = np.random.default_rng(3)
    with simhbase.open(f"rocksdb:{tmp_path}/s.db", create="complete") as index:
        for number in range(400):
            own = chance.choice(words, 40).tolist()
            index.add([Document(f"{number:03}", " ".join(words[:45] + own))])
        with Administrator(index).groups() as found:
            assert (found.truncated, len(found)) == (0, 0)
        monkeypatch.setattr("simhbase.drawers.groups.LOOKS", 20)
        with Administrator(index).groups() as found:
            assert 0 < found.truncated < 400
            said = found.truncated
    done = CliRunner().invoke(groups, ["--store", f"rocksdb:{tmp_path}/s.db"])
    assert done.exit_code == 0
    assert f"truncated: {said}, which share drawers" in done.stderr
    assert "compared with 20 of these" in done.stderr


def test_progress_counts_the_rows_that_are_read():
    told = dict[str, int]()

    class Told:
        def __init__(self, unit: str) -> None:
            self.unit = unit

        def __enter__(self):
            return lambda counted, done: told.__setitem__(self.unit, done)

        def __exit__(self, *error: object) -> None: ...

    with simhbase.open("memory:", create="complete") as index:
        fill(index)
        with Administrator(index).groups(progress=lambda unit, total: Told(unit)):
            pass
        assert told["documents"] == told["fingerprints"] == len(index)


@pytest.mark.parametrize("wrong", [1, "2", 2.0, True])
def test_a_wrong_size_is_refused(wrong):
    with simhbase.open("memory:", create="default") as index, pytest.raises(UsageError, match="min_size"):
        Administrator(index).groups(wrong)


def test_what_was_closed_says_so():
    with simhbase.open("memory:", create="default") as index:
        index.add([("a", "one two three four"), ("b", "One two three four.")])
        found, pairs = Administrator(index).groups(), Administrator(index).pairs()
        assert (repr(found), repr(pairs)) == ("<1 group of 2 documents>", "<pairs of 2 documents>")
        for closed in (found, pairs):
            closed.close()
            with pytest.raises(SimhbaseError, match="this result was closed"):
                list(closed)


def test_ids_are_in_order_however_they_begin(tmp_path):
    chance = np.random.default_rng(3)
    parts = [b"a", b"b", "文".encode(), b"00000000", b"\xff" * 3]
    ids = sorted(
        {
            b"".join(parts[n] for n in chance.integers(0, len(parts), size))
            for size in range(40)
            for _ in range(9)
        }
    )
    versions = chance.integers(0, 3, len(ids))
    order = chance.permutation(len(ids))
    spool = Spool(tmp_path)
    spool.append(ids[number] for number in order)
    found = spooled.oldest_first(spool, versions)
    spool.close()
    expected = sorted(range(len(ids)), key=lambda number: (versions[number], ids[order[number]]))
    assert found.tolist() == expected
