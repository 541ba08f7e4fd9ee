"""Indexes that keep sketches: scheme minhash, and simhash with verification."""

import random
import tracemalloc

import numpy as np
import pytest

import simhbase
from simhbase import Document, Profile, minhash
from simhbase.bulk.dedup import Compared, groups
from simhbase.bulk.loader import load_unique
from simhbase.check import STRAY_LISTING, STRAY_ROW, STRAY_SKETCH, UNSKETCHED, WRONG_ROW, Checker
from simhbase.errors import ProfileMismatch, UsageError
from simhbase.fingerprinter import Fingerprinter
from simhbase.index import Index
from simhbase.model import AddReport
from simhbase.parallel import map_in_order
from simhbase.prints import Prints
from simhbase.reader import Reader
from simhbase.records import document_key, listing_key, sketch_key
from simhbase.rowkeys import decode
from tests import reference

MINHASH, VERIFIED = Profile(scheme="minhash"), Profile(verify=True, k=3)
BY_LENGTH = Profile(scheme="minhash", threshold="auto")
WORDS = [a + b for a in "abcdefghij" for b in "klmnopqrst"]
IN_TWO_ORDERS = [" ".join(WORDS), " ".join(reversed(WORDS))]  # SimHash does not see it, shingles do
PROFILES = pytest.mark.parametrize(
    "profile", [MINHASH, VERIFIED, BY_LENGTH], ids=["minhash", "verified", "by length"]
)


def texts(count: int, seed: int = 0, length: int = 400) -> list[str]:
    """Texts that have nothing to do with each other."""
    chance = random.Random(seed)
    return ["".join(chr(chance.randrange(0x4E00, 0x9FA5)) for _ in range(length)) for _ in range(count)]


def edited(text: str, places: int, seed: int = 0) -> str:
    """The same text with so many characters replaced, each of which changes three shingles."""
    chance = random.Random(seed)
    letters = list(text)
    for place in chance.sample(range(0, len(text), 4), places):
        letters[place] = "x"
    return "".join(letters)


def shingles(text: str) -> set[str]:
    return {text[start : start + 3] for start in range(len(text) - 2)}


def jaccard(a: str, b: str) -> float:
    return len(shingles(a) & shingles(b)) / len(shingles(a) | shingles(b))


@pytest.fixture(params=["memory", "rocksdb", pytest.param("hbase", marks=pytest.mark.hbase)])
def url(request, tmp_path) -> str:
    if request.param == "hbase":
        return request.getfixturevalue("hbase").empty_store("sketched")
    return "memory:" if request.param == "memory" else f"rocksdb:{tmp_path}/store"


def found(lookup: simhbase.Lookup) -> list[str]:
    return [match.id for match in lookup.matches]


def test_texts_above_the_threshold_are_found_the_most_similar_first(url):
    base, other = texts(2)
    stored = {"same": base, "near": edited(base, 4), "nearer": edited(base, 2), "far": edited(base, 60)}
    with simhbase.open(url, create=MINHASH) as index:
        index.add([Document(name, text) for name, text in (stored | {"other": other}).items()])
        lookup = index.find(base)
        assert found(lookup) == ["same", "nearer", "near"]
        for match in lookup.matches:
            exact = jaccard(base, stored[match.id])
            assert match.similarity == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 128) + 1e-9)
        assert found(index.find(base, min_similarity=1.0)) == ["same"]
        assert found(index.find(other)) == ["other"]
        assert index.find_many([base, other]) == [index.find(base), index.find(other)]


def test_a_verified_match_tells_its_similarity_and_can_be_asked_for_one(url):
    documents = dict(reference.documents("xwlb_chinadata", 25))
    with simhbase.open(url, create=VERIFIED) as index:
        index.add([Document(name, text) for name, text in documents.items()])
        some = dict(list(documents.items())[:300])
        lookups = dict(zip(some, index.find_many(list(some.values())), strict=True))
        others = [
            (match, jaccard("".join(text.split()), "".join(documents[match.id].split())))
            for name, text in some.items()
            for match in lookups[name].matches
            if match.fingerprint != lookups[name].fingerprint
        ]
        assert all(abs(match.similarity - exact) < 0.15 for match, exact in others)
        for name, text in some.items():
            wanted = [match for match in lookups[name].matches if match.similarity >= 0.9]
            assert list(index.find(text, min_similarity=0.9).matches) == wanted


def test_hot_drawers_are_judged_in_lots(monkeypatch):
    sketches = np.random.default_rng(0).integers(0, 256, (400, MINHASH.form.bytes), dtype=np.uint8)
    sketches[:, :6] = 7  # a band that all have in common
    sketches[1::2, 6:60] = sketches[::2, 6:60]  # and others by twos
    prints = Prints(minhash.fingerprints(sketches), sketches)
    with simhbase.open("memory:", create=MINHASH) as index:
        index.add_prints([str(number) for number in range(400)], prints)
        whole = index.find_prints(prints, min_similarity=0.4)
        monkeypatch.setattr("simhbase.reader.LOT_ROWS", 1000)
        tracemalloc.start()
        try:
            assert index.find_prints(prints, min_similarity=0.4) == whole
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert [len(lookup.matches) for lookup in whole] == [2] * 400
    assert peak < 400 * 400 * 20, "the pairs that share a drawer would take more"


@PROFILES
def test_documents_are_moved_and_deleted_with_their_rows_and_sketches(url, profile):
    a, b = texts(2)
    with simhbase.open(url, create=profile) as index:
        assert index.add([Document("x", a), Document("y", a)]).added == 2
        assert index.add([Document("x", b)]).moved == 1
        assert (found(index.find(a)), found(index.find(b))) == (["y"], ["x"])
        assert index.add([Document("y", a)]).unchanged == 1
        assert not Checker(index.store, profile.filing).check().problems
        assert index.delete(["x", "y"]) == 2
        assert rows_of(index) == (0, 0, 0)


def test_a_text_that_is_replaced_by_its_words_in_another_order_is_found_by_the_new_one(url):
    old, new = IN_TWO_ORDERS
    with simhbase.open(url, create=VERIFIED) as index:
        index.add([Document("x", old)])
        assert index.add([Document("x", new)]).unchanged == 1, "the fingerprint is the same"
        assert found(index.find(new, min_similarity=0.95)) == ["x"]


def rows_of(index: Index) -> tuple[int, int, int]:
    tables = (index.store.records("documents"), index.store.records("fingerprints"), index.store.drawers)
    documents, fingerprints, index_rows = (sum(map(len, table.iterate())) for table in tables)
    return documents, fingerprints, index_rows


@PROFILES
def test_stored_documents_are_looked_up_by_fingerprint_through_their_sketch(url, profile):
    (text,) = texts(1)
    with simhbase.open(url, create=profile) as index:
        index.add([Document("a", text)])
        (fingerprint,) = index.fingerprints(["a"])
        known, unknown = index.find_fingerprints([fingerprint, fingerprint ^ 1])
        assert known == index.find(text)
        assert "no document has this fingerprint" in unknown.reason
        assert unknown.matches == ()


@PROFILES
def test_fingerprints_without_sketches_are_not_stored(profile):
    with simhbase.open("memory:", create=profile) as index:
        with pytest.raises(UsageError, match="give the texts"):
            index.add_fingerprints(["a"], [1])
        assert rows_of(index) == (0, 0, 0)


def test_a_similarity_cannot_be_asked_of_an_index_without_sketches_nor_bits_of_minhash():
    with simhbase.open("memory:", create=Profile()) as index, pytest.raises(UsageError, match="--verify"):
        index.find("some text or other", min_similarity=0.5)
    with simhbase.open("memory:", create=MINHASH) as index:
        with pytest.raises(UsageError, match="min_similarity instead"):
            index.find("some text or other", k=3)
        with pytest.raises(UsageError, match="use 0 to 1"):
            index.find("some text or other", min_similarity=1.5)
        with pytest.raises(UsageError, match=r"'0\.5': use 0 to 1"):
            index.find("some text or other", min_similarity="0.5")


def test_a_pipeline_that_makes_other_sketches_is_refused(monkeypatch, tmp_path):
    simhbase.open(f"rocksdb:{tmp_path}/store", create=MINHASH).close()
    monkeypatch.setattr("simhbase.minhash._permutations", lambda slots, seed: np.ones((2, slots), np.uint32))
    with (
        simhbase.open(f"rocksdb:{tmp_path}/store") as index,
        pytest.raises(ProfileMismatch, match="fixed text 1"),
    ):
        _ = index.fingerprinter


@pytest.mark.parametrize(
    "profile",
    [MINHASH, VERIFIED, Profile(scheme="minhash", sketch_bits=4), BY_LENGTH],
    ids=["8", "2", "4", "by length"],
)
def test_no_texts_are_no_error(profile):
    with simhbase.open("memory:", create=profile) as index:
        assert (index.add([]), index.find_many([]), index.find_fingerprints([])) == (AddReport(), [], [])
        assert [lookup.reason for lookup in index.find_many([""])] == ["the text is empty"]


def near_corpus() -> list[Document]:
    """Chains and stars of similar texts, and texts alone, in any order."""
    documents = [
        Document(f"{family}/{member}", edited(base, 3 * member, seed=member))
        for family, base in enumerate(texts(12))
        for member in range(family % 5 + 1)
    ]
    random.Random(1).shuffle(documents)
    return documents


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_unique_load_keeps_what_one_text_after_the_other_would(size):
    documents = near_corpus()
    with simhbase.open("memory:", create=MINHASH) as index:
        kept = []
        for document in documents:
            if not index.find(document.text).matches:
                index.add([document])
                kept.append(document.id)
    with simhbase.open("memory:", create=MINHASH) as index:
        prints = index.fingerprinter.fingerprint_many([each.text for each in documents]).prints
        loaded = []
        for start in range(0, len(documents), size):
            part = slice(start, start + size)
            ids = [each.id for each in documents[part]]
            duplicates = load_unique(index, ids, prints[part]).duplicate_of
            loaded += [name for name, near in zip(ids, duplicates, strict=True) if near is None]
            for near in filter(None, duplicates):
                assert near.similarity >= 0.8
        assert loaded == kept
        assert 12 <= len(kept) < len(documents)
        assert not Checker(index.store, MINHASH.filing).check().problems


@pytest.mark.parametrize("size", [1, 2])
def test_a_unique_load_keeps_texts_of_one_fingerprint_that_are_not_similar(size):
    with simhbase.open("memory:", create=VERIFIED) as index:
        prints = index.fingerprinter.fingerprint_many(IN_TWO_ORDERS).prints
        assert prints.values[0] == prints.values[1]
        duplicates = []
        for start in range(0, 2, size):
            part = slice(start, start + size)
            duplicates += load_unique(index, ["a", "b"][part], prints[part], 0.9).duplicate_of
        assert duplicates == [None, None]
        (again,) = load_unique(index, ["c"], prints[1:], 0.9).duplicate_of
        assert (again.distance, again.similarity) == (0, 1)


def test_groups_are_the_components_of_the_similar_pairs():
    documents = near_corpus()
    prints = MINHASH.fingerprinter().fingerprint_many([each.text for each in documents]).prints
    filing, bounds = MINHASH.filing, MINHASH.filing.bounds(None, None)
    n = len(documents)
    left, right = np.triu_indices(n, 1)
    segments = filing.bands.segments(prints.sketches, 8)
    similar = (
        filing.form.similarity(filing.form.unequal(prints.sketches[left], prints.sketches[right])) >= 0.8
    )
    near = similar & (segments[left] == segments[right]).any(axis=1)
    pairs = [
        pair for batch in filing.pairs(prints, bounds) for pair in zip(batch.left, batch.right, strict=True)
    ]
    assert sorted(pairs) == list(zip(left[near], right[near], strict=True))
    representative = list(range(n))
    for _ in range(n):
        for a, b in pairs:
            representative[a] = representative[b] = min(representative[a], representative[b])
    result = groups(Compared(prints, filing, bounds))
    assert result.representative.tolist() == representative
    assert (result.similarity[result.unique] == 1).all()


@PROFILES
def test_a_lost_sketch_is_told_its_document_is_no_match_and_loading_again_mends_it(url, profile):
    a, b = texts(2)
    with simhbase.open(url, create=profile) as index:
        documents = [Document("a", a), Document("b", b)]
        index.add(documents)
        (fingerprint,) = index.fingerprints(["a"])
        index.store.records("fingerprints").delete([sketch_key(fingerprint)])
        assert index.find(a, min_similarity=0.5).matches == ()
        assert found(index.find(b)) == ["b"]
        for writer in (None, index.writer):
            assert Checker(index.store, profile.filing, writer).check().problems == {UNSKETCHED: 1}
        assert index.add(documents).stored == 2
        assert found(index.find(a)) == ["a"]
        assert not Checker(index.store, profile.filing).check().problems


@PROFILES
def test_damage_is_told_and_mended(url, profile):
    a, b = texts(2)
    with simhbase.open(url, create=profile) as index:
        index.add([Document("a", a), Document("b", b)])
        before = rows_of(index)
        store, filing = index.store, profile.filing
        stranger = index.fingerprinter.fingerprint_many(texts(1, seed=9)).prints
        wrong = filing.keys(index.fingerprinter.fingerprint_many([a]).prints)[:, :2].copy()
        wrong[..., 0] ^= 1
        store.drawers.add(wrong)
        store.drawers.add(filing.keys(stranger))
        expected = {WRONG_ROW: 2, STRAY_ROW: filing.tables}
        assert Checker(store, filing).check().problems == expected
        store.records("fingerprints").put(
            [(sketch_key(int(stranger.values[0])), stranger.sketches[0].tobytes())]
        )
        assert Checker(store, filing).check().problems == expected | {STRAY_SKETCH: 1}
        Checker(store, filing, index.writer).check()
        assert not Checker(store, filing).check().problems
        assert rows_of(index) == before
        assert found(index.find(a)) == ["a"]


@PROFILES
def test_a_repair_counts_what_a_check_does(url, profile):
    (text,) = texts(1)
    with simhbase.open(url, create=profile) as index:
        index.add([Document("a", text)])
        index.store.records("documents").delete([document_key("a")])
        problems = Checker(index.store, profile.filing).check().problems
        assert problems == {STRAY_LISTING: 1}
        assert Checker(index.store, profile.filing, index.writer).check().problems == problems
        assert rows_of(index) == (0, 0, 0)


def test_a_sketch_that_a_removal_took_from_a_document_just_listed_is_put_back(url):
    (text,) = texts(1)
    with simhbase.open(url, create=MINHASH) as index:
        index.add([Document("a", text)])
        (fingerprint,) = index.fingerprints(["a"])
        table = index.store.records("fingerprints")
        before = table.get([sketch_key(fingerprint)])
        delete, listed = type(table).delete, listing_key(fingerprint, "b")

        class Raced:
            """The table, in which another process lists a document while the sketch is removed."""

            def __getattr__(self, name: str) -> object:
                return getattr(table, name)

            def delete(self, keys: list[bytes]) -> None:
                if sketch_key(fingerprint) in keys:
                    table.put([(listed, bytes(8))])
                delete(table, keys)

        with pytest.MonkeyPatch.context() as patch:
            records = index.store.records
            patch.setattr(
                index.store, "records", lambda name: Raced() if name == "fingerprints" else records(name)
            )
            index.delete(["a"])
        assert table.get([sketch_key(fingerprint)]) == before
        assert table.get([listed]) != [None]


def test_a_document_that_moves_while_it_is_looked_up_is_found():
    (text,) = texts(1)
    near = edited(text, 1)
    with simhbase.open("memory:", create=MINHASH) as index:
        index.add([Document("x", text)])
        old, new = (index.fingerprinter.fingerprint_many([each]).prints for each in (text, near))
        moves = [lambda: index.writer.add(["x"], new)]

        class Moving:
            """The store, in which the document moves after the drawers have been read."""

            def __getattr__(self, name: str) -> object:
                return getattr(index.store, name)

            def records(self, name: str) -> object:
                if moves:
                    moves.pop()()
                return index.store.records(name)

        (lookup,) = Reader(Moving(), MINHASH.filing).find(old)
        assert [(match.id, match.fingerprint) for match in lookup.matches] == [("x", int(new.values[0]))]


_fingerprinter: Fingerprinter


def prepare() -> None:
    global _fingerprinter
    _fingerprinter = MINHASH.fingerprinter()


def make_prints(some: list[str]) -> Prints:
    return _fingerprinter.fingerprint_many(some).prints


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("size", [1, 8, 100])
def test_prints_depend_on_no_number_of_processes_and_no_batch_size(processes, size):
    contents = texts(16)
    batches = [contents[start : start + size] for start in range(0, len(contents), size)]
    made = Prints.joined(map_in_order(make_prints, batches, processes, prepare))
    expected = MINHASH.fingerprinter().fingerprint_many(contents).prints
    assert np.array_equal(made.values, expected.values)
    assert np.array_equal(made.sketches, expected.sketches)


def test_rows_of_a_text_carry_its_fingerprint_and_the_number_of_each_band():
    filing = MINHASH.filing
    prints = MINHASH.fingerprinter().fingerprint_many(texts(3)).prints
    keys = filing.keys(prints)
    assert keys.shape == (3, 20, 13)
    segments, flags, values = decode(keys.reshape(-1, 13))
    assert flags.reshape(3, 20).tolist() == [list(range(1, 21))] * 3
    assert values.reshape(3, 20).tolist() == [[value] * 20 for value in prints.values.tolist()]
    assert np.array_equal(segments.reshape(3, 20), filing.bands.segments(prints.sketches, 8))
    assert np.array_equal(filing.prefixes(prints), keys[..., :5])


def test_prints_are_chosen_and_joined_row_by_row():
    prints = Prints(np.arange(4, dtype=np.uint64), np.arange(8, dtype=np.uint8).reshape(4, 2))
    assert prints[[3, 1]].sketch_bytes() == [b"\x06\x07", b"\x02\x03"]
    joined = Prints.joined([prints[:1], prints[2:]])
    assert (joined.values.tolist(), len(joined)) == ([0, 2, 3], 3)
    assert Prints.bare(prints.values).sketch_bytes() == [b""] * 4
