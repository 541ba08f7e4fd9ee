"""Sources of a dedup, and the documents that stand for most of one."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import process_time
from types import SimpleNamespace

import numpy as np
import pytest

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.record import Record, Reject, SourceReject
from simhbase.corpus.rejects import UNUSABLE_FROM, Rejects
from simhbase.corpus.watcher import NULL_WATCHER
from simhbase.deduplication import report as dedup_report
from simhbase.deduplication.report import SourcesRead
from simhbase.drawers.groups import Groups
from simhbase.errors import UsageError
from simhbase.jobs import source_report
from simhbase.jobs.source_report import SourceCounts, SourceNames, SourceReport
from simhbase.process.spool import Spool


@pytest.fixture
def sources(tmp_path: Path) -> Iterator[SourcesRead]:
    with closing(Spool(tmp_path)) as names:
        found = SourcesRead(Inputs(), names)
        yield found


def append(sources: SourcesRead, *sizes: int) -> None:
    """Documents of sources a, b and so on."""
    for name, size in zip("abcdef", sizes, strict=False):
        sources.append(SimpleNamespace(items=[Record(name, 1, "x")] * size))


def groups_of(representative: np.ndarray) -> Groups:
    nothing = np.zeros(len(representative), dtype=np.uint8)
    return Groups(representative, nothing, nothing.astype(bool))


@pytest.mark.parametrize("piece", [3, 10, 1 << 16])
def test_a_document_that_stands_for_more_than_half_of_a_source_is_found_in_pieces(
    sources, monkeypatch, piece
):
    monkeypatch.setattr(dedup_report, "PIECE", piece)
    # 30 of a, of which 16 are like document 0; 40 of b, of which 20 are; 30 of c, all like document 1.
    representative = np.arange(100)
    representative[10:26] = 0
    representative[50:70] = 0
    representative[70:] = 1
    append(sources, 30, 40, 30)
    found = sources.gathered(groups_of(representative), np.ones(100, dtype=bool))
    assert found == [("a", 30, 16, 0, 10), ("c", 30, 30, 1, 70)]


def test_documents_that_match_stored_ones_count_as_those_of_their_source(sources):
    free = np.ones(60, dtype=bool)
    free[:10] = False  # of a, as of others
    representative = np.arange(50)
    representative[21:] = 20
    append(sources, 30, 30)
    found = sources.gathered(groups_of(representative), free)
    assert found == [("b", 30, 29, 20, 21)]
    unique = free.copy()
    unique[free] = representative == np.arange(50)
    reports = sources.reports(unique)
    assert [(each.source, each.documents, each.duplicates) for each in reports] == [
        ("a", 30, 10),
        ("b", 30, 29),
    ]


def test_memory_does_not_grow_with_documents(sources):
    documents = 1 << 21
    representative = np.arange(documents)
    representative[1::2] -= 1
    grouped, free = groups_of(representative), np.ones(documents, dtype=bool)
    for _ in range(documents >> 12):
        sources.append(SimpleNamespace(items=[Record("a", 1, "x")] * 4096))
    unique = grouped.unique
    tracemalloc.start()
    assert sources.gathered(grouped, free) == []
    assert sources.reports(unique)[0].duplicates == documents // 2
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 * documents


def test_rejects_and_unreadable_files_count_for_their_source(sources):
    record, reject = Record("a", 1, "x"), Reject("a", 2, None, "bad")
    sources.append(SimpleNamespace(items=[record, reject]))
    sources.append(SimpleNamespace(items=[reject, SourceReject("a", None, None, "bad"), record]))
    sources.append(SimpleNamespace(items=[SourceReject("\udcff", None, None, "bad")]))
    assert sources.reports(np.ones(2, dtype=bool)) == (
        SourceReport("a", 4, 0, 0.0, 2, 1),
        SourceReport("\udcff", 0, 0, 0.0, 0, 1),
    )


@pytest.mark.parametrize(
    ("by_source", "names"),
    [
        (None, ["folder", "b.jsonl"]),
        ("folder", ["folder", "folder/in", "."]),
        ("file", ["folder/a.jsonl", "folder/in/c.jsonl", "folder/in/d.jsonl", "b.jsonl"]),
    ],
)
def test_sources_are_those_given_or_folders_or_files(tmp_path, monkeypatch, by_source, names):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    files = ["folder/a.jsonl", "folder/in/c.jsonl", "folder/in/d.jsonl", "b.jsonl"]
    inputs = Inputs(["folder", "b.jsonl"], by_source=by_source)
    items = [Record(file, 1, file) for file in files]
    found = SourceCounts(SourceNames(inputs))
    found.add(found.of(items, [True, False, False, False]))
    assert [(each.source, each.duplicates) for each in found.reports()] == [
        (name, int(number == 0)) for number, name in enumerate(names)
    ]
    with pytest.raises(UsageError, match=r"^by_source: 'line' is neither folder nor file"):
        Inputs("a", by_source="line")


def test_of_many_sources_the_weightiest_are_kept_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(source_report, "SOURCES", 3)
    inputs = Inputs(by_source="file")
    counts = SourceCounts(SourceNames(inputs))
    items = [Record(f"s{number:02}", 1, str(number)) for number in range(40)]
    removed = [number in (5, 21, 38) for number in range(40)]
    with closing(Spool(tmp_path)) as names:
        sources = SourcesRead(inputs, names)
        for item, is_removed in zip(items, removed, strict=True):
            counts.add(counts.of([item], [is_removed]))
            sources.append(SimpleNamespace(items=[item]))
        assert len(counts._counts) <= 7
        assert counts.reports() == sources.reports(~np.array(removed))
    assert [each.source for each in counts.reports()] == ["s05", "s21", "s38"]


def test_files_between_those_of_other_folders_take_linear_time(sources):
    """Each file of a folder with a file before each of its folders was compared with all others."""
    count = 4000
    items = [Record(name, 1, name) for number in range(count) for name in (f"f/{number}", f"f/{number}/x")]
    sources = SourcesRead(Inputs(by_source="folder"), sources._names)
    sources.append(SimpleNamespace(items=items))
    representative = np.arange(2 * count)
    representative[::2] += 1
    begin = process_time()
    assert sources.gathered(groups_of(representative), np.ones(2 * count, dtype=bool)) == []
    assert process_time() - begin < 1


def test_unusable_sources_are_not_gone_through_for_each_batch():
    rejects, unusable = Rejects(None, None, NULL_WATCHER), {}
    for number in range(50):
        bad = [Reject(f"bad{number}", line, None, "no JSON") for line in range(UNUSABLE_FROM)]
        rejects.note(SimpleNamespace(rejects=bad, parsed=1, used={f"good{number}": 1}))
        unusable[f"bad{number}"] = 0, UNUSABLE_FROM
        assert rejects.counts.tallies == unusable
    before = rejects.counts
    rejects.note(SimpleNamespace(rejects=[], parsed=100, used={"bad3": 100, "good": 1}))
    del unusable["bad3"]
    assert rejects.counts.tallies == unusable | {"good": (1, 0)}
    assert rejects.counts.tallies is before.tallies  # which may be a million
    again = Rejects(None, None, NULL_WATCHER, rejects.counts)
    again.note(SimpleNamespace(rejects=[], parsed=1, used={"other": 1}))
    assert again.counts.tallies == unusable | {"other": (1, 0)}
