"""The facade on real stores: what users of the Python interface rely on."""

import re
from collections.abc import Iterator
from importlib.metadata import version

import numpy as np
import pytest

import simhbase
from simhbase import Document, Profile
from simhbase.drawers.layout import layout
from simhbase.errors import ProfileMismatch, ReadOnly, TablesMissing, UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index
from simhbase.index.reader import Reader
from simhbase.model.values import Query
from tests import reference

NEWS = "国务院总理主持召开常务会议，研究部署进一步促进就业和稳定物价的政策措施，听取有关部门工作汇报。"
OTHER = "北京市气象台发布大风蓝色预警信号，预计阵风可达七级，请市民注意出行安全，减少户外活动。"


@pytest.fixture(params=["memory", "rocksdb"])
def index(request, tmp_path) -> Iterator[Index]:
    url = "memory:" if request.param == "memory" else f"rocksdb:{tmp_path}/store"
    with simhbase.open(url, create=Profile(verify=False)) as opened:
        yield opened


def ids(lookup: simhbase.Lookup) -> list[str]:
    return [match.id for match in lookup.matches]


def test_a_stored_text_is_found_under_its_id(index):
    report = index.add([Document("news/1", NEWS), Document("news/2", OTHER)])
    assert (report.added, report.updated, report.unchanged, report.rejected) == (2, 0, 0, ())
    lookup = index.find(NEWS)
    assert lookup.fingerprint == index.fingerprinter.fingerprint(NEWS)
    assert lookup.matches == (simhbase.Match(0, "news/1", lookup.fingerprint),)
    assert not lookup.truncated


def test_what_differs_in_punctuation_case_and_width_is_the_same_text(index):
    index.add([Document("a", "The Quick, brown fox. Jumps over!  ＡＢＣ１２３")])
    assert ids(index.find("the quick brown fox -- jumps over abc123")) == ["a"]


def test_a_text_without_features_is_rejected_on_both_sides(index):
    report = index.add([Document("empty", ""), Document("word", "word"), Document("good", NEWS)])
    assert [rejected.id for rejected in report.rejected] == ["empty", "word"]
    assert report.stored == 1
    lookups = index.find_many(["", NEWS, "word"])
    assert [lookup.fingerprint is None for lookup in lookups] == [True, False, True]
    assert lookups[0].reason == "the text is empty"
    assert ids(lookups[1]) == ["good"]


def test_unusable_ids_are_rejected_and_lose_nothing_else(index):
    long = "语" * 400
    documents = [Document("", NEWS), Document(long, NEWS), Document("\ud800", NEWS), Document("ok", NEWS)]
    report = index.add(documents)
    reasons = {rejected.id: rejected.reason for rejected in report.rejected}
    assert "empty" in reasons[""]
    assert "1200 bytes" in reasons[long]
    assert "surrogate" in reasons["\ud800"]
    assert ids(index.find(NEWS)) == ["ok"]


def test_an_id_of_exactly_one_kib_is_stored(index):
    document = "x" * 1024
    assert index.add([Document(document, NEWS)]).added == 1
    assert ids(index.find(NEWS)) == [document]


def test_the_same_id_twice_in_one_call_is_rejected_the_second_time(index):
    report = index.add([Document("a", NEWS), Document("a", OTHER)])
    assert report.rejected == (simhbase.Rejected("a", "the same id came earlier in the same call"),)
    assert ids(index.find(NEWS)) == ["a"]
    assert ids(index.find(OTHER)) == []


def test_adding_again_replaces_and_is_unchanged_where_nothing_changed(index):
    index.add([Document("a", NEWS)])
    assert index.add([Document("a", NEWS)]).unchanged == 1
    assert index.add([Document("a", OTHER)]).updated == 1
    assert ids(index.find(NEWS)) == []
    assert ids(index.find(OTHER)) == ["a"]


def test_deleting_and_adding_again_works_at_once(index):
    for _ in range(50):
        assert index.add([Document("a", NEWS)]).added == 1
        assert ids(index.find(NEWS)) == ["a"]
        assert index.delete(["a", "never stored", "a"]) == 1
        assert ids(index.find(NEWS)) == []


def test_copies_of_one_text_are_all_found_and_deleted_one_by_one(index):
    index.add([Document(name, NEWS) for name in "cab"])
    assert ids(index.find(NEWS)) == ["a", "b", "c"]
    index.delete(["b"])
    assert ids(index.find(NEWS)) == ["a", "c"]


def test_documents_of_one_fingerprint_are_listed_up_to_the_limit_and_the_answer_says_so(tmp_path):
    with simhbase.open("memory:", create=Profile(verify=False), ids_limit=3) as index:
        index.add([Document(name, NEWS) for name in "abc"])
        assert not index.find(NEWS).truncated
        index.add([Document("d", NEWS)])
        lookup = index.find(NEWS)
        assert (ids(lookup), lookup.truncated) == (["a", "b", "c"], True)


def test_a_full_drawer_says_truncated():
    with simhbase.open("memory:", create=Profile(verify=False), drawer_limit=2) as index:
        near = np.array([0, 1, 2], dtype=np.uint64)
        index.add_fingerprints(["a", "b"], near[:2])
        assert not index.find_fingerprints(near[:1])[0].truncated
        index.add_fingerprints(["c"], near[2:])
        lookup = index.find_fingerprints(near[:1])[0]
        assert lookup.truncated
        assert len(lookup.matches) == 2
        assert index.find_fingerprints(np.array([2**63], dtype=np.uint64), Query(k=0))[0].truncated, (
            "it shares a drawer"
        )
        assert not index.find_fingerprints(np.array([2**64 - 1], dtype=np.uint64))[0].truncated


@pytest.mark.parametrize("name", ["5x2", "4x1", "4x4", "6x3", "7x2", "8x4", "2x1p1", "3x1p1"])
@pytest.mark.parametrize("fingerprint", [0, 2**64 - 1, 0x00FF00FF00FF00FF, 0x0123456789ABCDEF])
def test_every_neighbour_within_the_guarantee_is_found_once_nearest_first(name, fingerprint):
    rng = np.random.default_rng(7)
    guarantee = layout(name).guarantee
    flips = [[], *([bit] for bit in range(64))]
    flips += [
        rng.choice(64, size, replace=False).tolist() for size in range(2, guarantee + 1) for _ in range(60)
    ]
    stored = sorted({fingerprint ^ sum(1 << bit for bit in bits) for bits in flips})
    with simhbase.open("memory:", create=Profile(verify=False, layout=name, k=guarantee)) as index:
        index.add_fingerprints([f"{value:016x}" for value in stored], np.array(stored, dtype=np.uint64))
        (lookup,) = index.find_fingerprints(np.array([fingerprint], dtype=np.uint64))
        expected = sorted(((value ^ fingerprint).bit_count(), f"{value:016x}") for value in stored)
        assert [(match.distance, match.id) for match in lookup.matches] == expected
        (nearest,) = index.find_fingerprints(np.array([fingerprint], dtype=np.uint64), Query(k=1))
        assert [match.id for match in nearest.matches] == [
            name for distance, name in expected if distance <= 1
        ]


def test_k_above_the_guarantee_is_refused(index):
    with pytest.raises(UsageError) as refused:
        index.find(NEWS, k=4)
    assert "k: must be 0 to 3 with layout 5x2, not 4" in str(refused.value)
    assert "6x2 for k = 4" in str(refused.value)
    with pytest.raises(UsageError, match=re.escape(str(refused.value))):
        Profile(verify=False, k=4)
    for k in ("3", 2.5):
        with pytest.raises(UsageError, match="k: must be a whole number"):
            index.find(NEWS, k=k)


def test_a_batch_of_lookups_reads_the_drawers_once(index, monkeypatch):
    calls = []
    read = index.store.drawers.read
    monkeypatch.setattr(index.store.drawers, "read", lambda *args: calls.append(args) or read(*args))
    index.find_many([NEWS, OTHER, NEWS])
    assert len(calls) == 1


def test_a_single_string_is_not_taken_for_many(index):
    index.add([Document(name, NEWS) for name in ("a", "b", "ab")])
    for call in (index.delete, index.find_many, index.fingerprints):
        with pytest.raises(UsageError, match="put it into a list"):
            call("ab")
    assert ids(index.find(NEWS)) == ["a", "ab", "b"]


@pytest.mark.parametrize(
    ("documents", "told"),
    [
        ([Document("good", NEWS), 5], "5 is among the documents: each must be Document(id, text)"),
        ([("a", NEWS), ("a", "x" * 10_000, "y")], "..."),
        (Document("a", NEWS), "put it into a list"),
        (NEWS, "put it into a list"),
        (None, "None was given for documents"),
        (5, "a list of them is needed"),
    ],
)
def test_what_is_no_document_is_refused_before_anything_is_stored(index, documents, told):
    with pytest.raises(UsageError) as refused:
        index.add(documents)
    assert told in str(refused.value)
    assert len(str(refused.value)) < 200
    assert ids(index.find(NEWS)) == []


def test_what_is_no_string_is_no_text_and_no_id(index):
    for call in (index.delete, index.find_many, index.fingerprints):
        with pytest.raises(UsageError, match=r"^5 is among the (ids, which must be|texts: each must)"):
            call(["a", 5])
        with pytest.raises(UsageError, match=r"^None was given for (ids|texts)"):
            call(None)
    assert index.find(None).reason == "the text is missing (None)"


def test_fingerprints_may_be_given_as_integers(index):
    assert index.add_fingerprints(["a", "b"], [1, np.uint64(2**64 - 1)]).added == 2
    assert [ids(found) for found in index.find_fingerprints([0, 2**64 - 1])] == [["a"], ["b"]]
    assert ids(index.find_fingerprints(np.array([3]))[0]) == ["a"]


@pytest.mark.parametrize(
    "values", [[-(2**63) - 1], [2**64], [1.0], ["1"], 5, "1", None, [[1]], np.zeros((1, 2))]
)
def test_what_is_no_fingerprint_is_refused(index, values):
    for call in (index.find_fingerprints, lambda values: index.add_fingerprints(["a"], values)):
        with pytest.raises(UsageError, match="integers of 64 bits"):
            call(values)


def test_as_many_fingerprints_as_ids_are_needed(index):
    with pytest.raises(UsageError, match="2 ids with 1 fingerprints"):
        index.add_fingerprints(["a", "b"], [1])


def test_what_is_no_profile_or_no_url_is_refused_with_what_to_write(tmp_path):
    for create in (True, 7):
        with pytest.raises(UsageError, match="create='default'"):
            simhbase.open(f"rocksdb:{tmp_path}/store", create=create)
    with pytest.raises(UsageError, match=f"'rocksdb:{tmp_path}/store'"):
        simhbase.open(tmp_path / "store", create=Profile(verify=False))
    with pytest.raises(UsageError, match=r"A service is asked by simhbase\.Client\(URL\)"):
        simhbase.open("http://localhost:8000")
    with pytest.raises(UsageError, match=r"did you mean 'rocksdb:news\.db'"):
        simhbase.open("news.db")
    assert not (tmp_path / "store").exists()


def test_the_version_is_that_of_the_package():
    assert simhbase.__version__ == version("simhbase")


@pytest.mark.parametrize(
    "limits", [{"drawer_limit": 0}, {"drawer_limit": "all"}, {"ids_limit": 0}, {"ids_limit": 10**20}]
)
def test_limits_that_would_hide_every_match_or_are_no_numbers_of_stores_are_refused(limits):
    with pytest.raises(UsageError, match="a whole number from 1 to 999,999,999"):
        simhbase.open("memory:", create=Profile(verify=False), **limits)


def test_unknown_access_and_creating_for_reading_are_refused(tmp_path):
    with pytest.raises(UsageError, match="use one of write, read, append"):
        simhbase.open(f"rocksdb:{tmp_path}/store", access="both")
    with pytest.raises(UsageError, match="leave one of them out"):
        simhbase.open(f"rocksdb:{tmp_path}/store", access="read", create=Profile(verify=False))
    assert not (tmp_path / "store").exists()


def test_no_queries_have_no_answers(index):
    assert index.find_many([]) == []
    assert index.find_fingerprints(np.array([], dtype=np.uint64)) == []
    assert index.add([]).stored == 0
    assert index.delete([]) == 0


def test_an_index_that_does_not_exist_is_not_an_empty_answer(tmp_path):
    with pytest.raises(TablesMissing):
        simhbase.open(f"rocksdb:{tmp_path}/none")
    with pytest.raises(TablesMissing):
        simhbase.open(f"rocksdb:{tmp_path}/none", access="read")
    assert not (tmp_path / "none").exists()


def test_fingerprints_that_tables_cannot_hold_are_refused_before_anything_is_made(tmp_path):
    with pytest.raises(UsageError, match="64 bits, not 128"):
        simhbase.open(f"rocksdb:{tmp_path}/store", create=Profile(verify=False, bits=128))
    assert not (tmp_path / "store").exists()


def test_another_profile_is_refused(tmp_path):
    url = f"rocksdb:{tmp_path}/store"
    simhbase.open(url, create=Profile(verify=False)).close()
    simhbase.open(url, create=Profile(verify=False)).close()
    with pytest.raises(ProfileMismatch, match="weights is saturated, not tfidf"):
        simhbase.open(url, create=Profile(verify=False, weights="tfidf"))
    with simhbase.open(url) as index:
        assert index.profile == Profile(verify=False)


def test_an_index_opened_for_reading_sees_what_the_writer_adds_and_refuses_writes(tmp_path):
    url = f"rocksdb:{tmp_path}/store"
    with (
        simhbase.open(url, create=Profile(verify=False)) as writer,
        simhbase.open(url, access="read") as reader,
    ):
        assert ids(reader.find(NEWS)) == []
        writer.add([Document("a", NEWS)])
        assert ids(reader.find(NEWS)) == ["a"]
        assert reader.fingerprints(["a", "b"]) == [reader.find(NEWS).fingerprint, None]
        writer.delete(["a"])
        assert ids(reader.find(NEWS)) == []
        with pytest.raises(ReadOnly):
            reader.add([Document("b", NEWS)])


def test_documents_are_as_old_as_the_given_clock_says(tmp_path):
    url, day = f"rocksdb:{tmp_path}/store", 86_400_000
    simhbase.tables.create(url, ttl=3600)
    with simhbase.open(url, clock=lambda: day) as index:
        index.add([Document("a", NEWS)])
    with simhbase.open(url, access="read", clock=lambda: day + 3_000_000) as index:
        assert [ids(index.find(NEWS)), ids(index.find(NEWS, since="1h"))] == [["a"], ["a"]]
        assert ids(index.find(NEWS, since="10m")) == []
    with simhbase.open(url, access="read", clock=lambda: day + 3_700_000) as index:
        assert ids(index.find(NEWS)) == []  # expired
    with simhbase.open(url) as index:
        assert len(index) == 0


def test_a_users_idf_table_and_stop_words_travel_with_the_store(tmp_path):
    from simhbase.text.idf import IdfTable

    table = IdfTable("mine.txt", b"".join(b"word%d %d.5\n" % (number, number) for number in range(200_000)))
    profile = Profile(
        verify=False, weights="tfidf", top=8, idf=table, stop_words=frozenset(["国务院", "stop"])
    )
    url = f"rocksdb:{tmp_path}/store"
    with simhbase.open(url, create=profile) as index:
        expected = index.fingerprinter.fingerprint(NEWS)
    with simhbase.open(url) as index:
        assert index.profile.idf.content == table.content
        assert index.profile.stop_words == profile.stop_words
        assert index.fingerprinter.fingerprint(NEWS) == expected
        index.profile.require({"idf": table, "weights": "tfidf"})
        with pytest.raises(ProfileMismatch, match="idf is"):
            index.profile.require({"idf": IdfTable("mine.txt", b"a 1\n")})


def test_fingerprints_do_not_depend_on_the_batch(index):
    texts = [text for _, text in reference.documents("xwlb_chinadata", 400)]
    together = index.fingerprinter.fingerprint_many(texts)
    alone = [index.fingerprinter.fingerprint_many([text]) for text in texts]
    assert together.values.tolist() == [one.values[0] for one in alone]
    assert together.reasons == [one.reasons[0] for one in alone]


def test_the_reader_finds_the_same_whatever_the_batch():
    rng = np.random.default_rng(3)
    stored = rng.integers(0, 2**64, 2_000, dtype=np.uint64)
    queries = stored ^ (np.uint64(1) << rng.integers(0, 64, 2_000, dtype=np.uint64))
    with simhbase.open("memory:", create=Profile(verify=False)) as index:
        index.add_fingerprints([str(number) for number in range(2_000)], stored)
        reader = Reader(index.store, index.profile.index_scheme)
        together = reader.find(FingerprintBatch.bare(queries), Query(k=3))
        assert together == [
            reader.find(FingerprintBatch.bare(queries[i : i + 1]), Query(k=3))[0] for i in range(2_000)
        ]
        assert all(str(number) in ids(lookup) for number, lookup in enumerate(together))


def test_of_an_id_that_comes_twice_among_annotated_texts_the_first_is_stored():
    """Both were rejected, though one was stored."""
    with simhbase.open("memory:", create="default") as index:
        claims = index.claim_many(
            [("a", NEWS), ("", OTHER), ("b", ""), ("a", OTHER), ("c", NEWS), ("c", NEWS)], mode="annotate"
        )
        assert [claim.outcome for claim in claims] == [
            *("accepted", "rejected", "rejected", "rejected", "accepted", "rejected")
        ]
        assert claims[3].reason == claims[5].reason == "the same id came earlier in the same call"
        assert [match.id for match in claims[4].also_at] == ["a"]
        assert {each.id: each.fingerprint for each in index.stored()} == {
            "a": claims[0].fingerprint,
            "c": claims[4].fingerprint,
        }
