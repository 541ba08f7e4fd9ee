"""Sources of a dedup, and the documents that stand for most of one."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from simhbase.corpus.record import Record
from simhbase.jobs import dedup_report
from simhbase.jobs.dedup_report import SourcesRead
from simhbase.jobs.groups import Groups


def sources_of(*sizes: int) -> SourcesRead:
    """Sources a, b and so on, with numbers of documents."""
    found = SourcesRead([])
    for name, size in zip("abcdef", sizes, strict=False):
        record = Record(name, 1, "x")
        found.append(SimpleNamespace(items=[record] * size))
    return found


def groups_of(representative: np.ndarray) -> Groups:
    return Groups(representative, np.zeros(len(representative), dtype=np.uint8))


@pytest.mark.parametrize("piece", [3, 10, 1 << 16])
def test_a_document_that_stands_for_more_than_half_of_a_source_is_found_in_pieces(monkeypatch, piece):
    monkeypatch.setattr(dedup_report, "PIECE", piece)
    # 30 of a, of which 16 are like document 0; 40 of b, of which 20 are; 30 of c, all like document 1.
    representative = np.arange(100)
    representative[10:26] = 0
    representative[50:70] = 0
    representative[70:] = 1
    found = sources_of(30, 40, 30).gathered(groups_of(representative), np.ones(100, dtype=bool))
    assert found == [("a", 30, 16, 0, 10), ("c", 30, 30, 1, 70)]


def test_documents_that_match_stored_ones_count_as_those_of_their_source():
    free = np.ones(60, dtype=bool)
    free[:10] = False  # of a, as of others
    representative = np.arange(50)
    representative[21:] = 20
    sources = sources_of(30, 30)
    found = sources.gathered(groups_of(representative), free)
    assert found == [("b", 30, 29, 20, 21)]
    unique = free.copy()
    unique[free] = representative == np.arange(50)
    reports = sources.reports(unique)
    assert [(each.source, each.documents, each.duplicates) for each in reports] == [
        ("a", 30, 10),
        ("b", 30, 29),
    ]


def test_memory_does_not_grow_with_documents():
    documents = 1 << 21
    representative = np.arange(documents)
    representative[1::2] -= 1
    grouped, free = groups_of(representative), np.ones(documents, dtype=bool)
    sources = SourcesRead([])
    for _ in range(documents >> 12):
        sources.append(SimpleNamespace(items=[Record("a", 1, "x")] * 4096))
    unique = grouped.unique
    tracemalloc.start()
    assert sources.gathered(grouped, free) == []
    assert sources.reports(unique)[0].duplicates == documents // 2
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 * documents
