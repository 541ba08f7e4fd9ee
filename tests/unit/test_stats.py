"""How many documents `stats` says there are, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import simhbase
from simhbase.admin import Administrator
from simhbase.admin.stats import _estimated, documents_in, sampled_documents
from simhbase.cli.output import _for_people
from simhbase.drawers.scheme import Scheme
from simhbase.model.values import Size
from simhbase.profile.profile import Profile
from simhbase.stores.hbase.scans import Page, Scans
from tests.command_line import texts

DOCUMENTS = 100_845
SCHEME: Scheme = Profile(verify=False).index_scheme


class Table(Scans[NDArray[np.uint64]]):
    """Samples of sorted positions in place of a table's."""

    def pages(self, operation: object, pages: Sequence[Page], *, cache: bool = True) -> list[Any]:
        rows: NDArray[np.uint64] = self.rows  # type: ignore[assignment]
        found = []
        for page in pages:
            start = int(np.searchsorted(rows, int.from_bytes(page.start)))
            stop = int(np.searchsorted(rows, int.from_bytes(page.stop))) if page.stop else len(rows)
            found.append(rows[start : min(stop, start + page.rows)])
        return found


def sampled(rows: NDArray[np.uint64]) -> Size:
    kind = SimpleNamespace(count=len, last=lambda rows: int(rows[-1]).to_bytes(8), size=len)
    client = SimpleNamespace(reading=lambda table: nullcontext())
    return Table(client, None, kind, np.sort(rows))._guessed_size()  # type: ignore[arg-type]


def crowded(chance: np.random.Generator) -> NDArray[np.uint64]:
    """Fingerprints of texts that share many bits."""
    middles = chance.integers(0, 1 << 64, 300, dtype=np.uint64)
    chosen = middles[(chance.pareto(0.8, DOCUMENTS) * 3).astype(int) % 300]
    near: NDArray[np.uint64] = chosen ^ (
        chance.integers(0, 1 << 64, DOCUMENTS, dtype=np.uint64) >> np.uint64(8)
    )
    return near


def test_the_range_of_an_estimate_from_samples_holds_the_number() -> None:
    inside = 0
    for seed in range(40):
        chance = np.random.default_rng(seed)
        hashes = sampled(chance.integers(0, 1 << 64, DOCUMENTS, dtype=np.uint64))
        assert hashes.error == pytest.approx(0.009, rel=0.3)
        inside += abs(hashes.rows - DOCUMENTS) <= 2 * hashes.error * hashes.rows
    assert inside >= 34  # of 40; 38 are expected


def test_documents_are_told_by_the_table_that_is_nearest() -> None:
    chance = np.random.default_rng(5)
    hashes, fingerprints = sampled(chance.integers(0, 1 << 64, DOCUMENTS, dtype=np.uint64)), crowded(chance)
    tables = {"documents": hashes, "fingerprints": sampled(fingerprints), "index": Size(1_300_000, 1, 0.05)}
    assert tables["fingerprints"].error is not None
    assert hashes.error is not None
    assert tables["fingerprints"].error > 3 * hashes.error
    (documents, _, _), ranges = _estimated(tables, SCHEME)
    assert documents == hashes.rows
    least, most = ranges["documents"]
    assert least <= DOCUMENTS <= most
    assert most - least < 0.05 * DOCUMENTS


@pytest.mark.parametrize(("error", "ranges"), [(None, {}), (0.0, {"documents": (70_000, 70_000)})])
def test_tables_that_are_as_sure_tell_no_more_documents_than_either_has_rows(
    error: float | None, ranges: dict[str, tuple[int, int]]
) -> None:
    tables = {
        "documents": Size(80_000, 1, error),
        "fingerprints": Size(70_000, 1, error),
        "index": Size(600_000, 1, error),
    }
    (documents, fingerprints, _), found = _estimated(tables, SCHEME)
    assert (documents, fingerprints) == (70_000, 60_000)
    assert found.get("documents") == ranges.get("documents")


@pytest.mark.parametrize(
    ("value", "ranges", "shown"),
    [
        (100_845, {"n": (98_900, 103_000)}, "about 101,000 (98,900 to 103,000)"),
        (100_845, {}, "about 101,000"),
        (100_845, {"n": (100_845, 100_845)}, "about 100,845"),
        (58, {}, "about 58"),
        (0, {}, "about 0"),
    ],
)
def test_an_estimate_has_no_digits_that_mean_nothing(
    value: int, ranges: dict[str, tuple[int, int]], shown: str
) -> None:
    assert _for_people({"n": value, "estimates": ("n",), "ranges": ranges}) == {"n": shown}


@pytest.mark.parametrize("scope", [None, "s1452"])  # whose keys lie at the beginning of each range
def test_documents_that_are_added_and_deleted_hide_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str | None
) -> None:
    """RocksDB counts what is left of each as one document less: of any store about 0 were told, and a service
    grouped it."""
    monkeypatch.setattr("simhbase.admin.stats.SAMPLED", 50)
    url, some = f"rocksdb:{tmp_path}/store", texts(400)
    simhbase.open(url, create="default", scoped=scope is not None).close()
    for number in range(2):
        with simhbase.open(url, access="write", scope=scope) as index:
            index.add([simhbase.Document(f"stays/{each}", text) for each, text in enumerate(some)])
            gone = [f"gone/{number}/{each}" for each in range(400)]
            index.add(map(simhbase.Document, gone, some))
            index.delete(gone)
    with simhbase.open(url, access="read") as index:
        assert documents_in(index) == pytest.approx(400, rel=0.4)
        assert Administrator(index).stats().documents == pytest.approx(400, rel=0.4)


def test_documents_of_one_scope_are_estimated_by_whole_ranges_of_keys(monkeypatch):
    """All keys of a range begin with the same four bytes."""
    monkeypatch.setattr("simhbase.admin.stats.SAMPLED", 100)
    rows = [(b"\0\0\x0f\xc8d%d" % number, None) for number in range(100)]
    table = SimpleNamespace(iterate=lambda: [rows, rows])
    assert sampled_documents(SimpleNamespace(records=lambda _: table)) == 100 * 256
