"""What dedup says of rows that a Python program holds: which are kept, and why the others are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.given import GivenRows
from simhbase.corpus.outputs.files import Duplicate
from simhbase.corpus.record import Record, Reject, WithoutFingerprint
from simhbase.deduplication.evidence import Rule
from simhbase.deduplication.files import columns_of
from simhbase.deduplication.matching import SpooledTexts
from simhbase.deduplication.report import DedupReport
from simhbase.drawers.groups import Groups
from simhbase.errors import UsageError
from simhbase.jobs.pipeline import Batch
from simhbase.model.frames import Results, Texts, is_frame, with_column
from simhbase.model.notebook import html_table


@dataclass(frozen=True, slots=True)
class Removed:
    """A row that was removed. row: its number, from 0; id: as it was given, `row 0` for a row without one;
    reason: the rule by which it matches `duplicate_of`, the id that is kept (None for rows that could not be
    used); group: the id of its group's first document; distance, similarity: to `duplicate_of`, None if
    unknown. The similarity is that of the texts if these are compared (Jaccard in `reason`), else estimated
    from sketches. containment: the share of the row's characters that `duplicate_of` has, None if unknown.
    """

    row: int
    id: Any
    reason: str
    duplicate_of: Any = None
    group: Any = None
    distance: int | None = None
    similarity: float | None = None
    containment: float | None = None


class RemovedList(Results[Removed]):
    """Removed rows, as a list and as columns: those of Removed."""

    def columns(self) -> dict[str, list[Any]]:
        return {each.name: [getattr(row, each.name) for row in self] for each in fields(Removed)}


@dataclass(frozen=True)
class GroupedRows:
    """Groups of rows by one minimum similarity. kept, labels: as of DedupedRows; unique, duplicates,
    group_count: as of DedupReport."""

    unique: int
    duplicates: int
    group_count: int
    kept: NDArray[np.bool_] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)


@dataclass(frozen=True)
class DedupedRows(DedupReport):
    """The report of dedup on rows.

    given: the rows; kept: which of the n are kept, bool (n,); labels: the number of the first row of each
    row's group, its own if it is alone, -1 for a row that could not be used or matches a stored document:
    int64 (n,); removed: why the others are not kept; at: by each of `thresholds`, kept and labels;
    count_field: of `frame`, with the sizes of groups, None for none.
    """

    given: Texts = field(repr=False)
    kept: NDArray[np.bool_] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    removed: RemovedList = field(repr=False)
    at: Mapping[float, GroupedRows] = field(default_factory=dict, repr=False)
    count_field: str | None = field(default=None, repr=False)

    @property
    def frame(self) -> Any:
        """The kept rows in the form they were given: a pandas or polars DataFrame, an Arrow table,
        a data set or a list; with `count_field` they have one more column or field. Raises UsageError for
        what has no rows to select, such as a generator."""
        chosen = np.flatnonzero(self.kept)
        rows = self._rows(chosen)
        if self.count_field is None:
            return rows
        sizes = np.bincount(self.labels[self.labels >= 0], minlength=len(self.labels))
        return with_column(rows, self.count_field, sizes[self.labels[chosen]].tolist())

    def _rows(self, chosen: NDArray[np.int64]) -> Any:
        given: Any = self.given
        if hasattr(given, "iloc"):
            return given.iloc[chosen]
        if is_frame(given) and hasattr(given, "schema") and hasattr(given, "__len__"):  # polars, Arrow
            return given.filter(self.kept.tolist())
        if isinstance(given, Sequence) and len(given) == len(self.kept):
            return [given[row] for row in chosen.tolist()]
        if hasattr(given, "select"):  # a data set
            return given.select(chosen)
        raise UsageError(
            f"rows cannot be selected from a {type(given).__name__}: take those where `kept` is true"
        )

    def _repr_html_(self) -> str:
        counts = {
            name: [getattr(self, name)]
            for name in ("documents", "unique", "duplicates", "group_count", "rejected")
        }
        return html_table(counts) + html_table(self.removed.columns())


class RowsSeen:
    """Notes what became of each row while they are read."""

    def __init__(self, rows: GivenRows, count_field: str | None = None) -> None:
        self.rows = rows
        self._count_field = count_field
        self._usable: list[bool] = []
        self._kept_anyway: list[int] = []
        self._rejected: list[Removed] = []
        self._matched: list[Duplicate] = []

    def append(self, batch: Batch) -> None:
        for item in batch.items:
            row = len(self._usable)
            self._usable.append(isinstance(item, Record))
            if isinstance(item, WithoutFingerprint):
                self._kept_anyway.append(row)
            elif isinstance(item, Reject):
                self._rejected.append(Removed(row, self._id(row, item.id), item.reason))

    @property
    def first_problem(self) -> str:
        """Why the first rejected row was."""
        return self._rejected[0].reason

    def _id(self, row: int, name: str | None) -> Any:
        return name if name is None else self.rows.id_of(row, name)

    def note_stored(self, found: Sequence[Duplicate]) -> None:
        self._matched += found

    def report(
        self,
        report: DedupReport,
        free: NDArray[np.bool_],
        grouped: Groups,
        at: Mapping[float, Groups],
        ids: Callable[[Sequence[int]], list[str]],
        texts: SpooledTexts | None,
        rule: Rule,
        stored_rule: Rule,
    ) -> DedupedRows:
        """The report of rows. free: bool (n,), which of the documents match no stored one; grouped: those;
        at: by further thresholds; ids: of positions among them; texts: theirs, None if they are not
        compared."""
        usable = np.flatnonzero(self._usable)
        rest = usable[free]
        removed = [*self._rejected, *self._duplicates(rest, grouped, ids, texts, rule)]
        for row, each in zip(usable[~free].tolist(), self._matched, strict=True):
            said = stored_rule.of(each.distance, each.similarity, same_text=False)
            stored = each.duplicate_of, each.group
            removed.append(
                Removed(row, self._id(row, each.id), said, *stored, each.distance, each.similarity)
            )
        kept, labels = self._labelled(rest, grouped)
        counted = {each.name: getattr(report, each.name) for each in fields(DedupReport)}
        removed.sort(key=lambda each: each.row)
        by_threshold = dict[float, GroupedRows]()
        for least, groups in at.items():
            unique = int(np.count_nonzero(groups.unique))
            duplicates = report.unique + report.duplicates - unique
            by_threshold[least] = GroupedRows(unique, duplicates, groups.count, *self._labelled(rest, groups))
        given = self.rows.given
        return DedupedRows(
            **counted,
            given=given,
            kept=kept,
            labels=labels,
            removed=RemovedList(removed),
            at=by_threshold,
            count_field=self._count_field,
        )

    def _labelled(
        self, rest: NDArray[np.int64], grouped: Groups
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Which rows are kept, and their labels. rest: int64, the rows that are grouped."""
        kept, labels = np.zeros(len(self._usable), dtype=np.bool_), np.full(len(self._usable), -1)
        kept[rest[grouped.unique]] = True
        kept[self._kept_anyway] = True
        labels[rest] = rest[grouped.first]
        labels[self._kept_anyway] = self._kept_anyway
        return kept, labels

    def _duplicates(
        self,
        rows: NDArray[np.int64],
        grouped: Groups,
        ids: Callable[[Sequence[int]], list[str]],
        texts: SpooledTexts | None,
        rule: Rule,
    ) -> Iterator[Removed]:
        """Rows that another one stands for. rows: int64 (n,), the number of each document."""
        removed = np.flatnonzero(~grouped.unique)
        same = np.zeros(len(removed), dtype=np.bool_)
        if texts is not None:
            digests = texts.digests
            same = (digests[removed] == digests[grouped.representative[removed]]).all(axis=1)
        names, others, distances, similarities, contained, groups = columns_of(grouped, removed, ids, texts)
        columns = [
            list(map(self._id, rows[numbers].tolist(), some))
            for numbers, some in (
                (removed, names),
                (grouped.representative[removed], others),
                (grouped.first[removed], groups),
            )
        ]
        for row, name, other, group, distance, similarity, share, same_text in zip(
            rows[removed].tolist(), *columns, distances, similarities, contained, same.tolist(), strict=True
        ):
            said = rule.of(distance, similarity, same_text=same_text)
            yield Removed(row, name, said, other, group, distance, similarity, share)
