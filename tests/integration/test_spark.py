"""Spark finds what one machine does, however its rows are spread."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import functions as F  # noqa: N812  # the usual name

import simhbase
from simhbase import spark as jobs
from simhbase.deduplication.dates import DateOrder, DateUnit
from simhbase.deduplication.representative import preference
from simhbase.drawers.join import concatenated, distinct, pairs_within
from simhbase.errors import BadInput, SimhbaseError, UsageError
from simhbase.profile.profile import Profile, make_profile
from simhbase.spark import drawers
from simhbase.spark.dedup import most_preferred_first, values_of, with_forms
from simhbase.spark.hfile_input import with_given_fingerprints
from tests import reference
from tests.bench.dedup import planted
from tests.command_line import read_lines, texts, write_lines

pytestmark = pytest.mark.spark

PREPARED = [0x0123456789ABCDEF, 1234567890123456, 2**64 - 1, 7]

COLUMNS = "n long, id string, text string, date string"
FULL = pytest.mark.full


def read(spark, file: Path, partitions: int = 3):
    return spark.read.schema(COLUMNS).json(str(file)).repartition(partitions)


def of_one_machine(file: Path, profile, **options: Any) -> tuple[simhbase.DedupReport, dict[str, tuple]]:
    out = file.with_suffix(".duplicates")
    report = simhbase.dedup(file, profile, duplicates=out, **options)
    found = {
        line["id"]: (
            line["duplicate_of"],
            line["distance"],
            line.get("similarity"),
            line.get("containment"),
            line["group"],
        )
        for line in read_lines(out)
    }
    return report, found


def of_spark(df, profile=None, **options: Any):
    found = jobs.dedup(df, profile, order_column="n", **options)
    try:
        duplicates = {
            row.id: (
                row.duplicate_of,
                row.distance,
                None if row.similarity is None else round(row.similarity, 4),
                None if row.containment is None else int(row.containment * 10_000) / 10_000,
                row.group,
            )
            for row in found.duplicates.collect()
        }
        rejects = sorted((row.id or "", row.reason) for row in found.rejects.collect())
        return found.report(), duplicates, sorted(row.n for row in found.unique.collect()), rejects
    finally:
        found.unpersist()


def require_the_same(spark, file: Path, profile=None, partitions: int = 3, **options: Any) -> None:
    expected, duplicates = of_one_machine(file, profile, **options)
    report, found, kept, _ = of_spark(read(spark, file, partitions), profile, **options)
    assert found == duplicates
    for name in ("documents", "unique", "duplicates", "group_count", "rejected", "truncated"):
        assert getattr(report, name) == getattr(expected, name), name
    assert len(kept) == expected.unique


def numbered(file: Path, records) -> Path:
    return write_lines(file, ({"n": number, **record} for number, record in enumerate(records)))


# --- what one machine finds ---


def test_a_kept_row_has_its_columns_and_says_how_many_it_stands_for(spark):
    one, other = texts(2)
    rows = [(n, n, one if n % 3 else other, "") for n in range(7)] + [(7, 7, "Yes", ""), (1, 1, one, "")]
    df = spark.createDataFrame(rows, "n long, id int, text string, date string")
    found = jobs.dedup(df, keep="-n", count_column="representative", partitions=3)
    assert sorted((row.id, row.representative) for row in found.unique.collect()) == [(0, 3), (1, 4)]
    assert found.unique.dtypes == [*df.dtypes, ("representative", "bigint")]
    assert found.documents.rdd.getNumPartitions() == 3
    found.unpersist()
    with pytest.raises(UsageError, match=r"^count_column: there is a column 'DATE' already"):
        jobs.dedup(df, count_column="DATE")


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> Path:
    """Laws, and news of the same days from two archives."""
    parts = [
        islice(reference.documents("laws"), 600),
        islice(reference.documents("xwlb_chinadata"), 55_353, 55_953),
        islice(reference.documents("xwlb_duckburn"), 600),
    ]
    records = [
        {"id": f"{corpus}/{name}", "text": text} for corpus, part in enumerate(parts) for name, text in part
    ]
    return numbered(tmp_path_factory.mktemp("real") / "real.jsonl", records)


@pytest.mark.full
def test_real_texts_have_the_groups_of_one_machine(spark, real):
    require_the_same(spark, real, partitions=4)


@pytest.mark.full
@pytest.mark.parametrize("chains", [False, True])
def test_all_laws_and_news_have_the_groups_of_one_machine(spark, tmp_path, chains):
    records = (
        {"id": f"{corpus}/{name}", "text": text}
        for corpus in ("laws", "xwlb_chinadata", "xwlb_duckburn")
        for name, text in reference.documents(corpus)
    )
    require_the_same(spark, numbered(tmp_path / "all.jsonl", records), partitions=16, chains=chains)


def changing(text: str, times: int) -> Iterator[str]:
    """A text, and what becomes of it word by word: each is near the one before, and the last far from all."""
    words = text.split()
    for number in range(times):
        yield " ".join(words)
        words[number * 7 % len(words)] = f"changed{number}"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> Path:
    """Chains, copies, other orders of the same words, in no order, with all that is rejected."""
    chance = random.Random(5)
    contents = [each for text in texts(12, words=150) for each in changing(text, 12)]
    contents += chance.choices(contents, k=60)
    contents += [" ".join(chance.sample(text.split(), 150)) for text in contents[:40]]
    chance.shuffle(contents)
    records: list[dict[str, object]] = [
        {
            "id": f"文档 {number}\U0001f600",
            "text": text,
            "date": f"{number * 7 % 31:02}{'?' * (number % 5 == 0)}",
        }
        for number, text in enumerate(contents)
    ]
    records[9:9] = [
        {"id": records[3]["id"], "text": contents[100]},  # comes again
        {"id": records[50]["id"], "text": "short"},  # is rejected, so that this id has not come before
        {"id": None, "text": contents[101]},
        {"id": "", "text": contents[101]},
        {"id": "null"},
        {"id": "empty", "text": ""},
        {"id": "i" * 1025, "text": contents[102]},
        records[8],  # a record again, as it is
    ]
    return numbered(tmp_path_factory.mktemp("mixed") / "mixed.jsonl", records)


@pytest.mark.parametrize(
    ("profile", "options", "partitions"),
    [
        pytest.param({}, {}, 1, marks=FULL),
        pytest.param({"k": 8}, {"chains": True, "keep": "longest"}, 9, marks=FULL),
        pytest.param(
            {"scheme": "minhash", "threshold": "0.52-0.7"}, {"keep": "date"}, 3, marks=pytest.mark.full
        ),
        pytest.param(
            {"bits": 128, "k": 6, "layout": "8x2"},
            {"min_similarity": 0, "keep": "-n"},
            2,
            marks=pytest.mark.full,
        ),
        ({"verify": True, "threshold": 0.5, "k": 3}, {"min_similarity": 0}, 2),
        ({}, {"min_containment": 0.98, "keep": "longest"}, 3),
    ],
)
def test_the_groups_are_those_of_one_machine(spark, mixed, profile, options, partitions):
    require_the_same(spark, mixed, profile, partitions, **options)


@pytest.mark.full
def test_a_crowd_in_one_drawer_has_the_groups_of_one_machine(spark, tmp_path):
    """More near texts than are compared each with each, of two pages with the same beginning."""
    chance, (page, other) = random.Random(3), texts(2, words=150)
    pages = [page.split(), [*page.split()[:75], *other.split()[75:]]]
    contents = []
    for number in range(drawers.CROWDED * 3 // 2):
        words = [*pages[number % 5 == 0]]
        for place in chance.sample(range(150), number % 40):
            words[place] = f"changed{chance.randrange(50)}"
        contents.append(" ".join(words))
    records = [{"id": f"{number}", "text": text} for number, text in enumerate(contents)]
    require_the_same(spark, numbered(tmp_path / "crowd.jsonl", records), min_similarity=0.7)


def test_texts_of_a_crowd_that_are_not_all_compared_are_those_of_one_machine(spark, tmp_path):
    chance = random.Random(3)
    records = []
    for number in range(300):
        words = [f"word{place}" for place in range(60)]
        for place in chance.sample(range(60), 5):
            words[place] = f"x{chance.randrange(10**6)}"
        records.append({"id": f"{number}", "text": " ".join(words)})
    file = numbered(tmp_path / "crowd.jsonl", records)
    assert of_one_machine(file, None, min_similarity=0.7)[0].truncated > 100
    require_the_same(spark, file, min_similarity=0.7)


def test_rows_that_are_kept_are_not_shuffled_but_for_some_that_are_equal(spark, monkeypatch):
    text, other = texts(2, words=60)
    rows = [("a", text, 1), ("b", text + " .", 2), ("c", other, 3), ("c", other, 4), ("d", "?", 5)]
    frame = spark.createDataFrame(rows, "id string, text string, n int").repartition(3)
    few = frame.where("n != 4")
    # At the end there are more than tasks hold.
    for df, most, is_shuffled in ((frame, 5, True), (few, 4, False), (few, 3, True)):
        monkeypatch.setattr(sys.modules[jobs.dedup.__module__], "MOST_HASHED", most)
        found = jobs.dedup(df)
        (first, second) = sorted((row.id, row.n) for row in found.unique.collect())
        assert first == ("a", 1)
        assert second in [("c", 3), ("c", 4)][: 2 if df is frame else 1]
        assert ("Join" in found.unique._jdf.queryExecution().optimizedPlan().toString()) == is_shuffled
        found.unpersist()


@pytest.mark.full
@pytest.mark.parametrize("partitions", [1, 200])
def test_input_without_order_is_ordered_by_ids_however_it_is_spread(spark, partitions):
    text, other = texts(2, words=60)
    rows = [(3, text), (20, text + " ,"), (1, text + " ."), (7, other)]
    frame = spark.createDataFrame(rows, "id int, text string")
    found = jobs.dedup(frame.repartition(partitions))
    duplicates = {row.id: row.duplicate_of for row in found.duplicates.collect()}
    assert duplicates == {"20": "1", "3": "1"}
    assert sorted(row.id for row in found.unique.collect()) == [1, 7]
    assert found.unique.dtypes == frame.dtypes
    found.unpersist()


@pytest.mark.full
def test_a_page_copied_a_hundred_thousand_times_is_one_document(spark):
    page, other = texts(2, words=30)
    copies = spark.range(100_000).selectExpr("lpad(id, 6, '0') AS id", f"'{page}' AS text")
    near = spark.createDataFrame([("x", page + " ."), ("y", other), ("000007", "again")], copies.schema)
    found = jobs.dedup(copies.union(near))
    report = found.report()
    assert (report.documents, report.unique, report.group_count, report.rejected) == (100_003, 2, 1, 1)
    assert found.duplicates.select("duplicate_of", "group").distinct().collect() == [("000000", "000000")]
    assert [row.id for row in found.rejects.collect()] == ["000007"]
    found.unpersist()


# --- pairs ---


def of_numbers(spark, fingerprints):
    rows = [(int(each).to_bytes(8),) for each in fingerprints]
    return spark.createDataFrame(rows, "fingerprint binary").repartition(3)


def numbers(rows) -> set[tuple[int, int, int]]:
    found = [(int.from_bytes(row.left), int.from_bytes(row.right), row.distance) for row in rows]
    assert len(set(found)) == len(found)
    return set(found)


def test_all_pairs_are_found_once_also_in_drawers_that_are_compared_in_pieces(spark, monkeypatch):
    monkeypatch.setattr(drawers, "MOST_MEMBERS", 16)
    fingerprints, *_ = planted(3000)
    crowd = fingerprints[0] ^ np.arange(200, dtype=np.uint64)  # one drawer of most tables
    wanted = np.unique([*fingerprints, *crowd])
    expected = pairs_within(wanted, 3)
    found = numbers(jobs.pairs(of_numbers(spark, [*wanted, *wanted[:50]]), {"verify": False}).collect())
    assert len(found) > 5000
    assert found == {
        (int(wanted[left]), int(wanted[right]), int(distance))
        for left, right, distance in zip(expected.left, expected.right, expected.distance, strict=True)
    }


def test_each_label_is_sent_to_a_partition_of_its_own(spark):
    labels = drawers._labels(7).tolist()
    frame = spark.createDataFrame([(label,) for label in labels], "label int")
    assert [row[0] for row in frame.select(F.pmod(F.hash("label"), F.lit(7))).collect()] == list(range(7))


def test_pairs_by_a_profile_with_sketches_need_them(spark):
    with pytest.raises(UsageError, match="no column 'sketch'"):
        jobs.pairs(of_numbers(spark, [1, 2]))


def test_pairs_of_sketches_are_those_of_the_scheme(spark):
    contents = [each for text in texts(5, words=80) for each in changing(text, 10)]
    frame = spark.createDataFrame(list(enumerate(contents)), "id long, text string")
    profile = Profile(scheme="minhash", threshold=0.6)
    found = jobs.pairs(jobs.fingerprint(frame, profile), profile).collect()
    batch = profile.fingerprinter().fingerprint_many(contents).fingerprints
    batch = batch[distinct(batch.values).first]
    expected = concatenated(profile.index_scheme.pairs(batch, profile.index_scheme.bounds(None, None)))
    names = [int(value).to_bytes(8) for value in batch.values]
    assert {(frozenset((bytes(row.left), bytes(row.right))), row.distance) for row in found} == {
        (frozenset((names[left], names[right])), distance)
        for left, right, distance in zip(
            expected.left.tolist(), expected.right.tolist(), expected.distance.tolist(), strict=True
        )
    }
    assert len(found) == len(expected.left) > 20
    assert all(row.left < row.right and row.similarity >= 0.6 for row in found)


# --- fingerprints ---


@pytest.mark.parametrize(
    "parameters",
    [pytest.param({}, marks=FULL), pytest.param({"bits": 128}, marks=FULL), {"scheme": "minhash"}],
)
def test_fingerprints_are_those_of_the_profile_and_rejects_say_why(spark, parameters):
    (text,) = texts(1)
    rows = [("文档", text), ("b", "one"), (None, text), ("", text), ("e", None)]
    frame = spark.createDataFrame(rows, "id string, body string")
    broken = frame.limit(1).selectExpr("'f' AS id", "cast(unhex('61ff') AS string) AS body")
    answers = {
        row.id: row for row in jobs.fingerprint(frame.union(broken), parameters, text_column="body").collect()
    }
    made = make_profile(parameters).fingerprinter().fingerprint_many([text]).fingerprints
    first = answers["文档"]
    assert bytes(first.fingerprint) == made.values.astype(">u8").tobytes()
    assert first.reason is None
    assert ("sketch" in first) == bool(made.sketches.size)
    if made.sketches.size:
        assert bytes(first.sketch) == made.sketches.tobytes()
    reasons = {name: row.reason for name, row in answers.items() if row.reason}
    assert "distinct" in reasons.pop("b")
    assert reasons == {
        None: "the id is null",
        "": "the id is empty",
        "e": "the text is null",
        "f": "the text is not UTF-8 at byte 2",
    }
    assert {row.fingerprint for row in answers.values() if row.reason} == {None}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"id_column": "no"}, "no column 'no' among 'n', 'id', 'text', 'tags'"),
        ({"id_column": "tags"}, "ids are texts or integers"),
        ({"text_column": "n"}, "not a text"),
        ({"order_column": "tags"}, "has no order"),
        ({"keep": "tags"}, "only texts and numbers can be compared"),
        ({"keep": "newest"}, "no column 'date'"),
        ({"profile": {"k": 9, "layout": "5x2"}}, "k = 9"),
        ({"partitions": 0}, "must be at least 1"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_read(spark, options, said):
    frame = spark.createDataFrame([], "n long, id string, text string, tags array<string>")
    with pytest.raises(UsageError, match=re.escape(said)):
        jobs.dedup(frame, **options)


@pytest.mark.parametrize(
    ("older", "newer", "options"),
    [
        ("2024年9月30日", "Tue, 01 Oct 2024 00:00:00 GMT", {"keep": "newest"}),
        pytest.param("soon", "2024-09-30", {"keep": "newest"}, marks=FULL),
        (str(2**60), str(2**60 + 1), {"keep": "date"}),
        pytest.param(2**60, 2**60 + 1, {"keep": "date"}, marks=FULL),
        pytest.param(1700000000, 1700000001, {"keep": "newest"}, marks=FULL),
        pytest.param("2024-09-30", "1800000000", {"keep": "newest", "date_unit": "s"}, marks=FULL),
        pytest.param("30/09/24", "01/10/24", {"keep": "newest", "date_order": "dmy"}, marks=FULL),
    ],
)
def test_dates_and_integers_are_compared_as_on_one_machine(spark, older, newer, options):
    assert most_preferred(spark, [older, newer], **options) == newer


def most_preferred(
    spark,
    values: list[object],
    keep: str,
    date_order: DateOrder | None = None,
    date_unit: DateUnit | None = None,
) -> object:
    frame = spark.createDataFrame([(value,) for value in values], ["date"])
    chosen = preference(keep, "date", date_order, date_unit)
    read = with_forms(frame.select("date", *values_of(frame, F.lit(""), chosen)), date_order)
    return read.orderBy(*most_preferred_first(read, chosen)).first().date


def test_dates_that_do_not_fit_the_order_are_counted_and_said(spark, caplog):
    dates = ["31/12/24", "02/03/23", "30/12/24"]
    assert most_preferred(spark, dates, "newest", date_order="mdy") == "02/03/23"
    assert "'30/12/24' in 'date' is no date in the order mdy (and 1 more are none)" in caplog.text


def test_dates_that_are_uncertain_are_refused_as_on_one_machine(spark):
    with pytest.raises(UsageError, match=r"^date_unit: "):
        most_preferred(spark, ["20240930", "1700000000"], "newest")


def test_a_column_to_keep_by_that_is_empty_is_refused_and_no_documents_are_an_answer(spark):
    (text,) = texts(1)
    frame = spark.createDataFrame([("a", text, "")], "id string, text string, date string")
    with pytest.raises(BadInput, match="no document has a value in column 'date'"):
        jobs.dedup(frame, keep="newest")
    assert jobs.dedup(frame.limit(0), keep="newest").report().documents == 0


def test_more_matches_than_the_driver_can_join_are_refused(spark, monkeypatch):
    monkeypatch.setattr(drawers, "MOST_EDGES", 2)
    contents = [each for text in texts(3) for each in (text, text + " more")]
    frame = spark.createDataFrame(list(enumerate(contents)), "id long, text string")
    with pytest.raises(SimhbaseError, match="more than 2 fingerprints have a match"):
        jobs.dedup(frame, {"k": 8})


@pytest.mark.parametrize(
    ("kind", "base", "given"),
    [
        ("binary", None, [value.to_bytes(8) for value in PREPARED]),
        ("bigint", None, [value - 2**64 if value >= 2**63 else value for value in PREPARED]),
        ("decimal(20, 0)", None, list(map(Decimal, PREPARED))),
        ("string", None, [f"{value:016x}" for value in PREPARED]),
        ("string", 10, list(map(str, PREPARED))),
    ],
)
def test_given_fingerprints_are_read_in_every_form(spark, kind, base, given):
    frame = spark.createDataFrame(list(enumerate(given)), f"id long, f {kind}")
    found = with_given_fingerprints(frame, Profile(verify=False), "id", "f", None, base)
    rows = sorted(found.collect(), key=lambda row: int(row["id"]))
    assert [(int.from_bytes(row["fingerprint"]), row["reason"]) for row in rows] == [
        (value, None) for value in PREPARED
    ]


def test_given_digits_that_may_be_decimal_are_refused(spark):
    frame = spark.createDataFrame([(1, "1234567890123456"), (2, "x")], "id long, f string")
    with pytest.raises(UsageError, match=r"^fingerprint_base: 'f' has only decimal digits"):
        with_given_fingerprints(frame.limit(1), Profile(verify=False), "id", "f", None, None)
    rows = with_given_fingerprints(frame, Profile(verify=False), "id", "f", None, 10).collect()
    assert rows[1]["reason"] == "'x' is no fingerprint of 64 bits: an integer in decimal digits is needed"
