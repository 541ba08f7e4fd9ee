"""Documents in the forms that Python programs have them, and results as columns."""

import json
import random
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simhbase
from simhbase import BadInput, Document, UsageError
from simhbase.index import Index
from simhbase.model.frames import CHUNK_ROWS, Fields, chunks, document_rows
from simhbase.process.progress import show_progress

BUDGET = "The committee approved the budget on Tuesday after a long debate over school funding in the city."
NEAR = "The committee approved the budget on Tuesday after long debate over school funding in the city!"
BRIDGE = "Bridge works will close the river road for two months, the council said on Friday morning."
COLUMNS: dict[str, list[Any]] = {"id": [1, 2, 3, 4, 5], "text": [BUDGET, BRIDGE, NEAR, None, ""]}


def rows() -> Iterator[tuple[Any, Any]]:
    return zip(COLUMNS["id"], COLUMNS["text"], strict=True)


FORMS: dict[str, Callable[[], Any]] = {
    "documents": lambda: [Document(str(name), text) for name, text in rows()],
    "pairs": lambda: list(rows()),
    "dicts": lambda: [{"id": name, "text": text, "more": 1} for name, text in rows()],
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas of objects": lambda: pd.DataFrame(COLUMNS, dtype=object).fillna(np.nan),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "table": lambda: pa.table(COLUMNS),
    "chunked table": lambda: pa.concat_tables([pa.table(COLUMNS)[:2], pa.table(COLUMNS)[2:]]),
    "batch": lambda: pa.record_batch(COLUMNS),
    "dictionary": lambda: pa.table({**COLUMNS, "text": pa.array(COLUMNS["text"]).dictionary_encode()}),
}
ONCE: dict[str, Callable[[], Any]] = {
    "generator": rows,
    "reader": lambda: pa.table(COLUMNS).to_reader(2),
    "batches": lambda: iter(pa.table(COLUMNS).to_batches(2)),
    "frames": lambda: (pd.DataFrame(COLUMNS)[start : start + 2] for start in (0, 2, 4)),
}


@pytest.fixture
def index() -> Iterator[Index]:
    with simhbase.open("memory:", create="default") as opened:
        yield opened


@pytest.mark.parametrize("form", [*FORMS, *ONCE])
def test_documents_are_added_and_claimed_in_any_form(index: Index, form: str) -> None:
    given = FORMS | ONCE
    report = index.add(given[form]())
    assert sorted(index) == ["1", "2", "3"]
    missing, empty = report.rejected
    assert (missing.id, empty) == ("4", simhbase.Rejected("5", "the text is empty"))
    assert missing.reason.startswith("the text is missing")
    with simhbase.open("memory:", create="default") as other:
        claims = other.claim_many(given[form]())
    assert [claim.outcome for claim in claims] == ["accepted", "accepted", "duplicate", *["rejected"] * 2]
    assert [claim.id for claim in claims] == list("12345")
    assert claims.ids == (list("12345") if form == "documents" else [1, 2, 3, 4, 5])


@pytest.mark.parametrize("form", FORMS)
def test_texts_are_looked_up_in_any_form_with_their_ids(index: Index, form: str) -> None:
    index.add([("a", BUDGET)])
    found = index.find_many(FORMS[form]())
    assert [[match.id for match in lookup] for lookup in found] == [["a"], [], ["a"], [], []]
    assert found[3].reason
    assert found.ids == (list("12345") if form == "documents" else [1, 2, 3, 4, 5])


def test_a_column_is_a_list_of_texts(index: Index) -> None:
    index.add([("a", BUDGET)])
    columns = (pd.Series, np.array, pl.Series, pa.array, lambda texts: pa.chunked_array([texts]), list)
    for column in columns:
        assert [len(lookup) for lookup in index.find_many(column([BUDGET, BRIDGE]))] == [1, 0]
    for column in (pd.Series, pl.Series, pa.array, list):
        assert index.find_many(column([BUDGET, None]))[1].reason


def test_a_field_of_ids_that_is_named_must_be_there(index: Index) -> None:
    rows = [{"id": 1, "text": BUDGET}, {"id": 2, "text": NEAR}]
    frame = pd.DataFrame(rows)
    for form in (frame, pl.DataFrame(frame), pa.table(frame)):
        for use in (simhbase.dedup, simhbase.pairs, index.find_many):
            with pytest.raises(UsageError, match=r"^id_field: no column 'url' in the frame"):
                use(form, id_field="url")
        with pytest.raises(UsageError, match=r"^id_field: no column 'url' in the frame"):
            list(simhbase.match(form, form, id_field="url"))
    with pytest.raises(BadInput, match="there is no field 'url'"):
        simhbase.dedup(rows, id_field="url")
    assert [each.reason for each in index.find_many(rows, id_field="url")] == ["there is no field 'url'"] * 2
    assert index.add(rows, id_field="url").rejected[1].reason == "row 1: there is no field 'url'"
    assert simhbase.dedup(texts=[{"text": BUDGET}, {"text": NEAR}]).unique == 1


def test_a_frame_is_no_list_of_ids(index: Index) -> None:
    index.add([("id", BUDGET)])
    for use in (index.delete, index.find_ids, index.fingerprints, index.mute):
        with pytest.raises(UsageError, match="was given for ids"):
            use(pd.DataFrame({"id": ["a"]}))
    with pytest.raises(UsageError, match="5 is among the ids"):
        index.explain(BUDGET, 5)  # type: ignore[arg-type]
    assert "id" in index


def test_other_names_of_fields_are_given(index: Index) -> None:
    frame = pd.DataFrame({"url": ["a"], "body": [BUDGET]})
    assert index.add(frame, id_field="url", text_field="body").added == 1
    assert index.add([{"url": "b", "body": BRIDGE}], id_field="url", text_field="body").added == 1
    assert index.claim_many(frame, id_field="url", text_field="body")[0].accepted
    found = index.find_many(frame, id_field="url", text_field="body")
    assert (found.ids, len(found[0])) == (["a"], 1)
    with pytest.raises(UsageError, match=r"^text_field: no column 'text' in the frame, which has 'url'"):
        index.add(frame)
    with pytest.raises(UsageError, match=r"^id_field: no column 'id'"):
        index.add(frame, text_field="body")
    with pytest.raises(UsageError, match=r"^text_field: no column 'text'"):
        index.find_many(pa.table({"body": [BUDGET]}))
    with pytest.raises(UsageError, match="2 columns 'text'"):
        index.find_many(pd.DataFrame([[BUDGET, BUDGET]], columns=["text", "text"]))


def test_dicts_without_the_field_are_rejected_with_its_name(index: Index) -> None:
    report = index.add([{"id": "a", "body": BUDGET}])
    assert [each.reason for each in report.rejected] == ["there is no field 'text'"]
    assert index.find_many([{"body": BUDGET}])[0].reason == "there is no field 'text'"


def test_tags_come_from_a_field_of_dicts(index: Index) -> None:
    tags = {"tenant": "a", "source": "wire"}
    some = [{"id": "a", "text": BUDGET, "tags": tags}, {"id": "b", "text": BRIDGE, "tags": None}]
    for frame in (some, pd.DataFrame(some), pl.DataFrame(some), pa.Table.from_pylist(some)):
        assert index.add(frame).stored == 2
        assert (index["a"].tags, index["b"].tags) == (tags, {})
    report = index.add([{"id": "c", "text": NEAR, "tags": ["wire"]}])
    assert "the tags are ['wire']: they must be a dict of strings" in report.rejected[0].reason
    assert "c" not in index


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ((None, BUDGET), "row 1: the id is missing"),
        ((float("nan"), BUDGET), "row 1: the id is missing"),
        ((1.5, BUDGET), "row 1: the id is 1.5: ids are texts, whole numbers or UUIDs"),
        ((True, BUDGET), "row 1: the id is True: ids are texts, whole numbers or UUIDs"),
        (("a", 5), "the text is 5, not a text"),
        (("a", b"bytes"), "the text is b'bytes', not a text"),
        (("a", float("nan")), "the text is missing (nan)"),
        (("a", pd.NA), "the text is missing (<NA>)"),
        (("", BUDGET), "the id is empty"),
    ],
)
def test_a_row_that_cannot_be_used_is_rejected_and_loses_no_other(
    index: Index, row: tuple[Any, Any], reason: str
) -> None:
    report = index.add([(np.int64(1), BUDGET), row, (np.str_("z"), np.str_(BRIDGE))])
    assert sorted(index) == ["1", "z"]
    assert [rejected.reason for rejected in report.rejected] == [reason]
    assert index.claim_many([row])[0].outcome == "rejected"


def test_a_column_of_mixed_types_beside_the_text_is_not_read(index: Index) -> None:
    frame = pd.DataFrame({"id": ["a"], "text": [BUDGET], "mixed": [object()]})
    assert index.add(frame).added == 1


@pytest.mark.parametrize("given", [5, None, b"text", {"a": BUDGET}, "text", Document("a", BUDGET), [BUDGET]])
def test_what_is_no_document_is_a_usage_error(index: Index, given: Any) -> None:
    with pytest.raises(UsageError):
        index.add(given)
    with pytest.raises(UsageError):
        index.claim_many(given)


def test_without_pyarrow_the_message_names_it(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame(COLUMNS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        UsageError, match=r"a DataFrame is read by pyarrow.*pip install 'simhbase\[parquet\]'"
    ):
        index.add(frame)
    assert index.add(pd.DataFrame(COLUMNS)).added == 3
    with pytest.raises(UsageError, match="columns are made by pyarrow"):
        index.find_many([BUDGET]).to_arrow()


def test_a_generator_of_any_length_takes_bounded_memory(index: Index) -> None:
    text = "x" * 10_000

    def endless() -> Iterator[tuple[str, str]]:
        for number in range(20_000):
            yield str(number), f"{number}{text}"

    tracemalloc.start()
    try:
        sizes = [len(chunk) for chunk in chunks(document_rows(endless()))]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(sizes) == 20_000
    assert peak < 20 << 20  # of 200 MB


def test_each_chunk_is_stored_before_the_next_is_read(index: Index) -> None:
    def documents() -> Iterator[Document]:
        for number in range(CHUNK_ROWS + 1):
            if number == CHUNK_ROWS:
                assert len(index) == CHUNK_ROWS
            yield Document(str(number), f"{BUDGET} {number}")

    assert index.add(documents()).added == CHUNK_ROWS + 1


@settings(max_examples=50)
@given(st.lists(st.tuples(st.text(max_size=5), st.none() | st.text(max_size=20))), st.integers(1, 7))
def test_all_forms_are_the_same_rows(some: list[tuple[str, str | None]], most: int) -> None:
    columns = {"id": [name for name, _ in some], "text": [text for _, text in some]}
    schema = pa.schema([("id", pa.string()), ("text", pa.string())])
    expected = [(name, text or "", text is None) for name, text in some]
    frames: list[Any] = [
        some,
        [{"id": name, "text": text} for name, text in some],
        pd.DataFrame(columns, dtype=object),
        pa.table(columns, schema),
    ]
    for frame in frames:
        found = [row for chunk in chunks(document_rows(frame, Fields()), most) for row in chunk]
        assert [(row.id, row.text, row.problem is not None) for row in found] == expected


def test_answers_are_columns(index: Index) -> None:
    index.add([("a", BUDGET), ("b", BRIDGE)])
    found = index.find_many([("q", BUDGET), ("r", None)])
    columns = found.to_arrow().to_pydict()
    (match,) = found[0].matches
    assert columns["id"] == ["q", "r"]
    assert columns["fingerprint"] == [str(found[0].fingerprint), None]
    assert (columns["match"], columns["distance"], columns["similarity"]) == (
        ["a", None],
        [0, None],
        [1.0, None],
    )
    assert columns["matches"] == [[{"id": "a", "distance": 0, "similarity": match.similarity}], []]
    assert columns["reason"] == [None, "the text is missing (None)"]
    assert list(found.to_pandas()["match"].fillna("")) == ["a", ""]
    claims = index.claim_many([("c", NEAR), ("d", "?")]).to_arrow()
    assert claims.select(["id", "outcome", "match"]).to_pydict() == {
        "id": ["c", "d"],
        "outcome": ["duplicate", "rejected"],
        "match": ["a", None],
    }
    assert index.find_many([]).to_arrow().schema == found.to_arrow().schema


def test_notebooks_show_tables_of_bounded_size(index: Index) -> None:
    report = index.add([("<b>", BUDGET), *((f"empty/{number}", "") for number in range(50))])
    assert index.find(BUDGET)._repr_html_().count("&lt;b&gt;") == 1
    many = index.find_many([BUDGET] * 50)._repr_html_()
    assert (many.count("<tr>"), "50 rows" in many) == (11, True)
    assert "the text is empty" in report._repr_html_()
    assert report._repr_html_().count("<tr>") < 20
    assert repr(index) == "<Index memory:>"


def test_progress_counts_documents_and_knows_the_length(index: Index) -> None:
    told: list[Any] = []

    @contextmanager
    def progress(unit: str, total: Callable[[], int | None]) -> Iterator[Callable[[int, int], None]]:
        told.append((unit, total()))
        yield lambda counted, done: told.append((counted, done))

    index.add(FORMS["pandas"](), progress=progress)
    index.find_many(iter([BUDGET]), progress=progress)
    assert told == [("documents", 5), (5, 5), ("texts", None), (1, 1)]
    index.claim_many(FORMS["table"](), progress=show_progress)
    simhbase.dedup(FORMS["pandas"](), progress=progress)
    assert told[4:6] == [("documents", 5), (4, 5)]  # those that could be read, and how far they reach
    assert told[6][0] == "comparisons"


@pytest.mark.parametrize("form", FORMS)
def test_dedup_gives_rows_as_they_were_given_and_why_others_went(form: str) -> None:
    given = FORMS[form]()
    found = simhbase.dedup(given)
    assert found.kept.tolist() == [True, True, False, False, False]
    assert (found.documents, found.unique, found.duplicates, found.rejected) == (5, 2, 1, 2)
    assert type(found.frame) is type(given)
    assert len(found.frame) == 2
    why = found.removed.to_arrow().to_pydict()
    one, *ids = list("1345") if form == "documents" else [1, 3, 4, 5]
    assert (why["row"], why["id"]) == ([2, 3, 4], ids)
    assert (why["duplicate_of"], why["group"]) == ([one, None, None], [one, None, None])
    assert found.labels.tolist() == [0, 1, 0, -1, -1]
    assert found.group_count == 1
    assert why["reason"][0] == "Jaccard >= 0.65"
    assert 0.8 < why["similarity"][0] < 1
    assert 0.8 < why["containment"][0] <= 1
    assert why["containment"][1:] == [None, None]
    assert "Jaccard" in found._repr_html_()


def test_a_name_made_up_for_a_row_is_compared_with_no_id() -> None:
    """Row 2 has no id, and was removed as the second of the id 2."""
    other = "The ferry to the island sails at eight, ten and noon; in a storm it stays in the harbour."
    found = simhbase.dedup([("2", BUDGET), ("row 2", BRIDGE), (None, other), (None, other)])
    assert found.kept.tolist() == [True, True, True, False]
    (removed,) = found.removed
    assert (removed.id, removed.duplicate_of) == ("row 3", "row 2")


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_ids_that_became_floats_are_the_integers_that_they_were(missing: float | None) -> None:
    """A missing id makes floats of all the others in pandas."""
    frame = pd.DataFrame({"id": [1, missing, 3], "text": [BUDGET, BRIDGE, NEAR]})
    found = simhbase.dedup(frame)
    assert found.kept.tolist() == [True, True, False]
    assert found.removed.to_pandas().merge(frame, on="id")["text"].tolist() == [NEAR]
    with simhbase.open("memory:", create="default") as index:
        assert index.add(frame).added == 2
        assert sorted(index) == ["1", "3"]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (Decimal("7.00"), "7"),
        (Decimal("1E+40"), f"1{'0' * 40}"),
        (-0.0, "0"),
        (np.float32(3), "3"),
        (np.uint64(2**64 - 1), str(2**64 - 1)),
        (2.0**53 - 1, str(2**53 - 1)),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ],
)
def test_whole_numbers_of_any_type_and_uuids_are_ids(index: Index, given: Any, name: str) -> None:
    assert index.add([(given, BUDGET)]).added == 1
    assert list(index) == [name]


@pytest.mark.parametrize("make", [lambda: 10**5000, lambda: -Decimal(10**5000), lambda: Decimal("1e999999")])
def test_a_number_of_too_many_digits_is_no_id(index: Index, make: Callable[[], Any]) -> None:
    """Python does not write it, or takes hours."""
    report = index.add([(make(), BUDGET), ("a", BUDGET)])
    assert [each.reason for each in report.rejected] == [
        "row 0: the id is a number of more than 4,300 digits"
    ]
    assert list(index) == ["a"]


@pytest.mark.parametrize("given", [2.0**53, np.float32(2**24), 1e300, float("inf"), Decimal("sNaN"), b"a"])
def test_numbers_that_may_have_lost_digits_are_no_ids(index: Index, given: Any) -> None:
    assert "the id is" in index.add([(given, BUDGET)]).rejected[0].reason


DATES = pd.to_datetime(["2026-01-01"])


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"id": DATES, "text": [BUDGET]}, "^id_field: column 'id' has values of type Timestamp"),
        ({"id": [True], "text": [BUDGET]}, "^id_field: column 'id' has values of type bool"),
        ({"id": [1], "text": DATES}, "^text_field: column 'text' has values of type Timestamp"),
        ({"id": [1], "text": [7]}, "^text_field: column 'text' has values of type int"),
    ],
)
@pytest.mark.parametrize("made", [pd.DataFrame, lambda columns: pa.Table.from_pandas(pd.DataFrame(columns))])
def test_a_column_of_another_type_is_refused_as_a_whole(
    index: Index, made: Callable[..., Any], columns: dict[str, Any], reason: str
) -> None:
    for use in (index.add, index.find_many, index.claim_many, simhbase.dedup):
        if "'id'" in reason and use == index.find_many:
            continue
        with pytest.raises(UsageError, match=reason.replace("Timestamp", "(Timestamp|datetime)")):
            use(made(columns))


def test_rows_of_which_none_can_be_read_are_an_error() -> None:
    with pytest.raises(simhbase.BadInput, match=r"^no row could be read: the text is b'The committee"):
        simhbase.dedup(pd.DataFrame({"id": [1], "text": [BUDGET.encode()]}))


def test_texts_are_not_taken_for_paths() -> None:
    for use in (simhbase.dedup, lambda texts: simhbase.match(texts, texts)):
        for text in ([BUDGET, NEAR], BUDGET, iter([BUDGET]), ["x\n" * 5000]):
            with pytest.raises(UsageError, match=r"names no file.*texts=\[\.\.\.\]"):
                use(text)
    for texts in ([BUDGET, NEAR], pd.Series([BUDGET, NEAR]), iter([BUDGET, NEAR])):
        assert simhbase.dedup(texts=texts).kept.tolist() == [True, False]
    (answer,) = simhbase.match(texts=[BUDGET], against=[("a", NEAR)])
    assert [match.id for match in answer.lookup] == ["a"]
    with pytest.raises(UsageError, match=r"^texts: give files or documents, or else texts"):
        simhbase.dedup()


def test_a_corpus_matched_with_itself_leaves_out_each_own_row(tmp_path: Path) -> None:
    frame = pd.DataFrame({"name": [1, 2, 3], "body": [BUDGET, BRIDGE, NEAR]})
    answers = simhbase.match(frame, frame, id_field="name", text_field="body")
    assert [[match.id for match in answer.lookup] for answer in answers] == [[3], [], [1]]
    file = tmp_path / "in.jsonl"
    file.write_text(frame.to_json(orient="records", lines=True))
    answers = simhbase.match(file, [file], id_field="name", text_field="body")
    assert [[match.id for match in answer.lookup] for answer in answers] == [["3"], [], ["1"]]


def test_a_file_matched_with_itself_by_another_name_leaves_out_each_own_row(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in (BUDGET, BRIDGE, NEAR)))
    (tmp_path / "link.jsonl").symlink_to(file)
    options = simhbase.InputOptions(id_from="line")
    against = simhbase.Inputs([str(file)], options)
    for name in (tmp_path / "link.jsonl", f"{tmp_path}/../{tmp_path.name}/in.jsonl", f"file://{file}"):
        answers = simhbase.match(simhbase.Inputs([str(name)], options), against)
        assert [len(answer.lookup.matches) for answer in answers] == [1, 0, 1]
    both = simhbase.Inputs([str(file), str(tmp_path / "link.jsonl")], options)
    answers = list(simhbase.match(both, both))
    assert len({answer.id for answer in answers}) == len(answers) == 6


def test_an_iterator_is_not_matched_with_itself() -> None:
    """Where both read it, one document of many was answered."""
    documents = [("a", BUDGET), ("b", BRIDGE), ("c", NEAR)]
    for once in (iter(documents), (each for each in documents), map(tuple, documents)):
        inputs = simhbase.Inputs(rows=once)
        for queries, against in ((once, once), (inputs, simhbase.Inputs(rows=once)), (inputs, once)):
            with pytest.raises(UsageError, match=r"^against: an iterator can only be read once: give a list"):
                simhbase.match(queries, against)
        with pytest.raises(UsageError, match="can only be read once"):
            simhbase.match(texts=once, against=once)
    assert len(list(simhbase.match(iter(documents), documents))) == len(documents)


def test_ids_of_queries_and_matches_keep_their_type() -> None:
    code = UUID(int=7)
    corpus = [{"id": code, "text": BUDGET}, {"id": "1", "text": BRIDGE}, {"id": 2, "text": NEAR}]
    corpus += [{"id": None, "text": BRIDGE + " Again."}]
    answers = list(simhbase.match([(3, BUDGET), ("4", BRIDGE)], corpus))
    assert [answer.id for answer in answers] == [3, "4"]
    assert [{match.id for match in answer.lookup} for answer in answers] == [{code, 2}, {"1", "row 3"}]
    frame = pd.DataFrame({"id": [10, 20], "text": [BUDGET, NEAR]})
    ((asked, found), *_) = simhbase.match([("a", BUDGET)], frame)
    assert asked == "a"
    assert frame.merge(pd.DataFrame({"id": [match.id for match in found]})).id.tolist() == [10, 20]


@pytest.mark.parametrize("options", [{}, {"chains": True}, {"keep": "longest"}], ids=str)
def test_thresholds_are_swept_from_one_reading(options: dict[str, Any]) -> None:
    chance = random.Random(4)
    words = [f"word{number}" for number in range(400)]
    firsts = [chance.sample(words, 40) for _ in range(20)]
    texts = [
        " ".join(chance.choice(words) if chance.random() < share else word for word in first)
        for first in firsts
        for share in (0.0, 0.02, 0.05, 0.1, 0.15)
    ]
    given = [*texts, "?", texts[0]]
    thresholds = (0.7, 0.85, 1)
    read = iter(list(given))
    swept = simhbase.dedup(texts=read, min_similarity=0.5, thresholds=thresholds, **options)
    alone = [simhbase.dedup(texts=given, min_similarity=least, **options) for least in thresholds]
    for found, own in zip((swept.at[least] for least in thresholds), alone, strict=True):
        assert found.labels.tolist() == own.labels.tolist()
        assert found.kept.tolist() == own.kept.tolist()
        counts = (own.unique, own.duplicates, own.group_count)
        assert (found.unique, found.duplicates, found.group_count) == counts
    assert len({each.unique for each in (swept, *swept.at.values())}) == 4
    assert not alone[0].at


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"thresholds": [0.4]}, "thresholds: must be from 0.5 .min_similarity. to 1, not 0.4"),
        ({"thresholds": [1.5]}, "not 1.5"),
        ({"thresholds": ["0.7"]}, "not '0.7'"),
        ({"thresholds": [0.7], "min_similarity": 0}, "thresholds: need similarities of texts"),
    ],
)
def test_thresholds_that_nothing_is_grouped_by_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        simhbase.dedup(texts=[BUDGET], **{"min_similarity": 0.5, **options})


@pytest.mark.parametrize("form", [form for form in FORMS if form not in ("documents", "pairs")])
def test_a_kept_row_says_how_many_it_stands_for(form: str) -> None:
    given = FORMS[form]()
    found = simhbase.dedup(given, count_field="copies")
    assert type(found.frame) is type(given)
    rows = found.frame if form == "dicts" else pa.table(found.frame).to_pylist()
    assert [(row["id"], row["copies"]) for row in rows] == [(1, 2), (2, 1)]
    newest = simhbase.dedup(given, keep="-id", count_field="copies").frame
    assert len(newest) == 2
    with pytest.raises(UsageError, match=r"^count_field: .* '(id|text)' already"):
        simhbase.dedup(given, count_field="text")


@pytest.mark.parametrize("given", [rows, FORMS["pairs"], FORMS["documents"]])
def test_rows_without_a_place_for_counts_are_refused(given: Callable[[], Any]) -> None:
    with pytest.raises(UsageError, match="count_field: needs a frame, a data set or a list of dicts"):
        simhbase.dedup(given(), count_field="copies")
    with pytest.raises(UsageError, match="count_field: the name is empty"):
        simhbase.dedup(FORMS["dicts"](), count_field="")
    with pytest.raises(UsageError, match="count_field: must be the name of a field, not 5"):
        simhbase.dedup(FORMS["dicts"](), count_field=cast(Any, 5))


@pytest.mark.parametrize(
    ("call", "option"),
    [
        (simhbase.dedup, "min_similarity"),
        (simhbase.pairs, "min_similarity"),
        (simhbase.dedup, "min_containment"),
    ],
)
@pytest.mark.parametrize("value", ["0.7", 1.5, float("nan")])
def test_what_is_no_share_is_refused(call: Callable[..., object], option: str, value: object) -> None:
    with pytest.raises(UsageError, match=rf"^{option}: must be .* not {value!r}"):
        call(texts=[BUDGET], **{option: value})


def test_dedup_of_a_generator_says_which_rows_are_kept() -> None:
    found = simhbase.dedup(rows())
    assert found.kept.tolist() == [True, True, False, False, False]
    with pytest.raises(UsageError, match="take those where `kept` is true"):
        _ = found.frame


def test_dedup_needs_no_ids_and_keeps_what_is_preferred() -> None:
    frame = pd.DataFrame(
        {"text": [BUDGET, NEAR, NEAR], "date": pd.to_datetime(["2026-01-01", "2026-03-01", None])}
    )
    assert list(simhbase.dedup(frame).frame.index) == [0]
    assert list(simhbase.dedup(frame, keep="newest").frame.index) == [1]
    assert [each.reason for each in simhbase.dedup(frame[1:]).removed] == ["same text"]
    shortest = simhbase.dedup(frame, keep="longest").frame
    assert list(shortest["text"]) == [BUDGET]
    renamed = frame.rename(columns={"text": "body"})
    assert list(simhbase.dedup(renamed, id_field="body", text_field="body").frame.index) == [0]


def test_dedup_of_rows_against_a_store_names_the_stored_document(tmp_path: Path) -> None:
    url = f"rocksdb:{tmp_path / 's.db'}"
    with simhbase.open(url, create="default") as index:
        index.add([("stored", BUDGET)])
    found = simhbase.dedup([("a", BUDGET), ("b", BRIDGE), ("c", BRIDGE), ("d", "?")], against=url)
    assert found.kept.tolist() == [False, True, False, False]
    assert [(each.id, each.duplicate_of) for each in found.removed] == [
        ("a", "stored"),
        ("c", "b"),
        ("d", None),
    ]
    assert found.removed[0].reason.endswith("of a stored document")


def test_dedup_keeps_rows_without_a_fingerprint_if_asked() -> None:
    found = simhbase.dedup([("a", BUDGET), ("b", "?"), ("c", None)], keep_rejected=True)
    assert found.kept.tolist() == [True, True, False]


def test_other_jobs_take_rows_and_those_that_read_again_say_so(tmp_path: Path) -> None:
    answers = list(simhbase.match(pd.DataFrame(COLUMNS), [("a", BUDGET)]))
    assert [answer.id for answer in answers if answer.lookup] == [1, 3]
    inputs = simhbase.Inputs(
        rows=[{"url": "u", "body": BUDGET}],
        options=simhbase.InputOptions(id_field="url", text_field="body", id_prefix="x/"),
    )
    assert simhbase.dedup(inputs).unique == 1
    with pytest.raises(UsageError, match="inputs must be paths of files, not DataFrame"):
        simhbase.load(pd.DataFrame(COLUMNS), f"rocksdb:{tmp_path / 's.db'}")
    with pytest.raises(UsageError, match="as `frame`"):
        simhbase.dedup(pd.DataFrame(COLUMNS), unique=tmp_path / "u.jsonl")  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="either paths or rows"):
        simhbase.Inputs(["a.jsonl"], rows=[])


def test_a_path_by_itself_is_one_input():
    assert simhbase.Inputs("ab.jsonl").paths == simhbase.Inputs(Path("ab.jsonl")).paths == ["ab.jsonl"]


SCRIPT = """
import pandas, simhbase
print("started")
frame = pandas.read_json("rows.jsonl", lines=True)
inputs = simhbase.Inputs(rows=frame, options=simhbase.InputOptions(html=True), processes=2)
print(len(simhbase.dedup(inputs).frame))
"""


@pytest.mark.slow
def test_a_script_without_a_guard_may_use_worker_processes(tmp_path: Path) -> None:
    drawn = random.Random(1)
    words = [f"w{number}" for number in range(2000)]
    texts = [" ".join(drawn.choices(words, k=20)) for _ in range(2000)]
    pd.DataFrame({"text": [*texts, texts[0]]}).to_json(tmp_path / "rows.jsonl", orient="records", lines=True)
    (tmp_path / "script.py").write_text(SCRIPT, "utf-8")
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout.split() == ["started", "2000"], done.stderr
