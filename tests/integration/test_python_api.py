"""Everything that the commands do with a store and a corpus, in Python by public names alone."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

import simhbase
from simhbase.admin import Administrator
from tests.command_line import documents, read_lines, texts

NEAR = " once"
SPREAD = 0x9E3779B97F4A7C15


@pytest.fixture
def corpus(tmp_path):
    """Forty texts, and copies of ten with a few words more."""
    contents = texts(40, words=150)
    return documents(tmp_path / "corpus.jsonl", [*contents, *(text + NEAR for text in contents[:10])])


def test_a_store_from_its_creation_to_its_end(tmp_path, corpus):
    url = f"rocksdb:{tmp_path / 's.db'}"
    made = simhbase.tables.create(url, {"k": 3})
    assert (made.store, made.profile.k, made.created, made.warnings) == (url, 3, (url,), ())
    assert simhbase.tables.create(url).profile == made.profile
    with pytest.raises(simhbase.ProfileMismatch):
        simhbase.tables.create(url, {"layout": "4x1"})

    loaded = simhbase.load(corpus, url)
    assert (loaded.documents, loaded.added) == (50, 50)
    with simhbase.open(url, access="read") as index:
        stats, exact = Administrator(index).stats(), Administrator(index).stats(exact=True)
    assert (exact.documents, exact.exact) == (stats.documents, not stats.exact) == (50, True)
    assert exact.index_rows == exact.fingerprints * 10
    assert stats.bytes == sum(size.bytes for size in stats.table_estimates.values()) > 0

    checked = simhbase.tables.check(url)
    assert (checked.attributes_compared, checked.fixed_texts, checked.warnings) == (None, 24, ())
    described = simhbase.tables.describe(url)
    assert (described.profile, described.tables) == (made.profile, {})
    assert "simhbase" in described.software
    report = simhbase.check(url)
    assert (report.documents, report.clean, report.passes) == (50, True, 1)
    halves = [simhbase.check(url, part=(number, 2)).documents for number in (1, 2)]
    assert sum(halves) == 50
    assert simhbase.check(url, repair=True).clean
    vacuumed = simhbase.vacuum(url)
    assert (vacuumed.removes_at_once, vacuumed.looked_at) == (True, 0)
    with pytest.raises(simhbase.UsageError, match="four hours"):
        simhbase.vacuum(url, older_than=60)

    assert simhbase.tables.listed(url) == ((url,), 50)
    assert simhbase.tables.drop(url).dropped == (url,)
    with pytest.raises(simhbase.TablesMissing):
        simhbase.open(url)
    with pytest.raises(simhbase.TablesMissing):
        simhbase.tables.drop(url)


def test_estimates_count_a_document_once_however_often_it_moved(tmp_path):
    url = f"rocksdb:{tmp_path / 's.db'}"
    ids = [f"d{number}" for number in range(500)]
    with simhbase.open(url, create=simhbase.Profile(verify=False)) as index:
        for time in range(4):
            index.add_fingerprints(ids, [(number + 500 * time) * SPREAD % 2**64 for number in range(500)])
        index.delete(ids[:100])
        stats = Administrator(index).stats()
        assert (stats.documents, stats.fingerprints) == (400, 400)
        assert {"documents", "fingerprints"} < set(stats.estimates)
        assert Administrator(index).stats(exact=True).documents == 400


def test_near_duplicates_are_found_and_measured(tmp_path, corpus):
    found = simhbase.dedup(corpus, {"k": 6, "layout": "8x2"})
    assert (found.documents, found.unique) == (50, 40)
    answers = list(simhbase.match(corpus, corpus, {"k": 6, "layout": "8x2"}))
    assert len(answers) == 50

    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"d{number}\td{40 + number}\n" for number in range(10)))
    of_files = simhbase.evaluate(pairs, corpus, profile={"k": 6, "layout": "8x2"})
    assert (of_files.pairs, of_files.recall.value, of_files.counts.parsed) == (10, 1.0, 50)
    url = f"rocksdb:{tmp_path / 's.db'}"
    simhbase.load(corpus, url, {"k": 6, "layout": "8x2"})
    of_store = simhbase.evaluate(pairs, store=url)
    assert of_store.recall == of_files.recall
    assert simhbase.evaluate(pairs, store=url, profile={"k": 0}).recall.value < 1.0
    with pytest.raises(simhbase.UsageError, match="leave out layout"):
        simhbase.evaluate(pairs, store=url, profile={"layout": "8x2"})


def test_a_corpus_is_calibrated(tmp_path):
    contents = texts(120, words=150)
    near = (text + NEAR for text in contents[:30])
    found = simhbase.calibrate(documents(tmp_path / "c.jsonl", [*contents, *near]), documents=10**6)
    assert found.goal.documents == 10**6
    assert (found.sample.read, found.counts.parsed) == (150, 150)
    assert found.recommended in found.figures
    with pytest.raises(simhbase.BadInput, match="too few to calibrate"):
        simhbase.calibrate(documents(tmp_path / "few.jsonl", contents[:3]))
    with pytest.raises(simhbase.UsageError, match="recall: must be above 0"):
        simhbase.calibrate(tmp_path, recall=2.0)


def test_progress_is_told_to_whoever_asks(tmp_path, corpus):
    url = f"rocksdb:{tmp_path / 's.db'}"
    simhbase.load(corpus, url)
    told = []

    @contextmanager
    def progress(unit, total):
        told.append((unit, total() > 0))
        yield lambda counted, done: told.append((counted, done))

    report = simhbase.check(url, progress=progress)
    rows = report.documents + report.listings + report.index_rows
    assert told[0] == ("rows", True)
    assert told[-1][1] == rows == sum(counted for counted, _ in told[1:])


def test_a_job_runs_in_any_thread(tmp_path):
    """Signals are the main thread's alone."""
    documents(tmp_path / "a.jsonl", texts(3))
    with ThreadPoolExecutor(1) as threads:
        report = threads.submit(simhbase.load, tmp_path / "a.jsonl", f"rocksdb:{tmp_path / 's.db'}").result()
    assert report.loaded == 3


def test_copies_have_paths_or_names(tmp_path):
    url = f"rocksdb:{tmp_path / 's.db'}"
    simhbase.tables.create(url, {"k": 2})
    assert simhbase.tables.snapshot(url, tmp_path / "kept").name == str(tmp_path / "kept")
    simhbase.tables.restore(f"rocksdb:{tmp_path / 'again'}", tmp_path / "kept")
    assert simhbase.tables.describe(f"rocksdb:{tmp_path / 'again'}").profile.k == 2


@pytest.mark.parametrize("name", [None, "", 5, "hbase://h/x", "hbase:x", "memory:", "s3://b/x"])
def test_what_names_no_copy_is_a_usage_error(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    simhbase.tables.create("rocksdb:s.db")
    with pytest.raises(simhbase.UsageError, match=r"is not a valid name|is not a folder"):
        simhbase.tables.snapshot("rocksdb:s.db", name)
    with pytest.raises(simhbase.UsageError, match=r"is not a valid name|is not a folder"):
        simhbase.tables.restore("rocksdb:t.db", name)
    assert [path.name for path in tmp_path.iterdir()] == ["s.db"]


def test_a_preset_is_a_parameter_that_stands_for_several(tmp_path):
    short = simhbase.compare("今天天气很好啊", "今天天气很好呀", {"preset": "short"})
    assert short.match
    assert not simhbase.compare(
        "今天天气很好啊", "今天天气很好呀", {"preset": "short", "threshold": 0.9}
    ).match
    with simhbase.open("memory:", create={"preset": "short", "threshold": "0.58-0.7"}) as index:
        assert (index.profile.features, index.profile.threshold) == ("chars:1-3", "0.58-0.7")
    for given, reason in (({"preset": "long"}, "no preset 'long'"), ({"pre": 1}, "no parameter 'pre'")):
        with pytest.raises(simhbase.errors.UsageError, match=reason):
            simhbase.open("memory:", create=given)
        with pytest.raises(simhbase.errors.UsageError, match=reason):
            simhbase.dedup(tmp_path, given)


def test_what_is_of_a_wrong_type_is_a_usage_error(tmp_path):
    path = tmp_path / "s.db"
    url = f"rocksdb:{path}"
    simhbase.tables.create(url)
    tables = simhbase.tables
    for call in (tables.create, tables.check, tables.describe, tables.drop, tables.listed, tables.ddl):
        with pytest.raises(simhbase.UsageError, match="is not the URL of a store"):
            call(path)
    for copy in (tables.snapshot, tables.restore):
        with pytest.raises(simhbase.UsageError, match="is not the URL of a store"):
            copy(path, "kept")
    with pytest.raises(simhbase.UsageError, match="no preset '6x3'"):
        simhbase.migrate(url, f"{url}2", "6x3")
    for given in ("1d", True, None, float("inf"), float("nan")):
        with pytest.raises(
            simhbase.UsageError, match=f"older_than: must be a number of seconds, not {given!r}"
        ):
            simhbase.vacuum(url, older_than=given)
    simhbase.vacuum(url, older_than=10**400)  # nothing is so old


def test_match_writes_over_no_input(tmp_path):
    for name in ("queries", "corpus"):
        documents(tmp_path / f"{name}.jsonl", texts(2))
    queries = simhbase.Inputs([str(tmp_path / "queries.jsonl")], rejects=tmp_path / "corpus.jsonl")
    with pytest.raises(simhbase.UsageError, match="is an input"):
        list(simhbase.match(queries, tmp_path / "corpus.jsonl"))


def test_texts_are_not_loaded_and_paths_may_be_strings(tmp_path):
    with pytest.raises(simhbase.UsageError, match=r"inputs must be paths of files, not list: .*Index\.add"):
        simhbase.load([simhbase.Document("a", "some text")], f"rocksdb:{tmp_path / 's.db'}")
    documents(tmp_path / "a.jsonl", texts(2) * 2)
    report = simhbase.dedup(str(tmp_path / "a.jsonl"), unique=str(tmp_path / "u.jsonl"))
    assert (report.unique, len(read_lines(tmp_path / "u.jsonl"))) == (2, 2)


def test_inputs_take_paths(tmp_path):
    documents(tmp_path / "a.jsonl", texts(2) * 2)
    assert simhbase.dedup(simhbase.Inputs([tmp_path / "a.jsonl"])).unique == 2
