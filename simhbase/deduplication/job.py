"""The arguments of dedup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simhbase.corpus.given import GivenRows
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.names import require_lines
from simhbase.corpus.outputs.unique import require_written
from simhbase.deduplication.dates import DateOrder, DateUnit
from simhbase.errors import UsageError
from simhbase.model.frames import require_new_column
from simhbase.profile.profile import Profile


@dataclass(frozen=True, kw_only=True)
class Dedup:
    """The arguments of `dedup`. Raises UsageError for invalid combinations, OutputFailed for files that
    cannot be written."""

    inputs: Inputs
    profile: Profile | Mapping[str, object] | None = None
    min_similarity: float | None = None
    min_containment: float | None = None
    thresholds: Sequence[float] = ()
    keep: str = "first"
    date_field: str = "date"
    date_order: DateOrder | None = None
    date_unit: DateUnit | None = None
    chains: bool = False
    against: str | None = None
    scope: str | None = None
    unique: str | Path | None = None
    duplicates: str | Path | None = None
    evidence: str | Path | None = None
    keep_rejected: bool = False
    count_field: str | None = None

    def __post_init__(self) -> None:
        are_rows = self.inputs.rows is not None
        if are_rows and self.unique:
            raise UsageError("is for files: the report on rows has them as `frame`", parameter="unique")
        if self.keep_rejected and not self.unique and not are_rows:
            raise UsageError("needs a file of unique documents (unique)", parameter="keep_rejected")
        if self.scope is not None and self.against is None:
            raise UsageError("is one of the store `against`: give both", parameter="scope")
        if self.count_field is not None:
            self._require_countable(self.count_field)
        if self.unique is not None:
            require_written(self.unique)
        for option in self.files.keys() - {"unique"}:
            require_lines(str(self.files[option]), option)
        self.inputs.require_outputs(self.duplicates, self.evidence, documents=[self.unique])

    @property
    def has_texts(self) -> bool:
        """True if documents have texts, False if they have fingerprints."""
        return self.inputs.options.fingerprint_field is None

    @property
    def files(self) -> dict[str, Path]:
        """The output files asked for, by option."""
        given = {"unique": self.unique, "duplicates": self.duplicates, "evidence": self.evidence}
        return {option: Path(path) for option, path in given.items() if path}

    def require_thresholds(self, least: float) -> None:
        """Raise UsageError for further thresholds that nothing is grouped by. least: minimum similarity."""
        if self.inputs.rows is None:
            raise UsageError("are for rows: files have one list of duplicates", parameter="thresholds")
        if not least:
            raise UsageError("need similarities of texts, which are not compared", parameter="thresholds")
        for each in self.thresholds:
            if isinstance(each, bool) or not isinstance(each, int | float) or not least <= each <= 1:
                raise UsageError(
                    f"must be from {least:g} (min_similarity) to 1, not {each!r}", parameter="thresholds"
                )

    def require_texts_to_contain(self) -> None:
        """Raise UsageError if the texts that have to contain others are unknown."""
        if self.against is not None or not self.has_texts:
            without = "a store has none" if self.against is not None else "fingerprints are given"
            raise UsageError(
                f"needs the texts of documents that are kept, and {without}", parameter="min_containment"
            )

    def _require_countable(self, field: str) -> None:
        """Raise UsageError if counts cannot be written into this field."""
        if not isinstance(field, str):
            raise UsageError(f"must be the name of a field, not {field!r}", parameter="count_field")
        if not field:
            raise UsageError("the name is empty", parameter="count_field")
        if self.inputs.rows is not None:
            rows = self.inputs.rows
            given = rows.given if isinstance(rows, GivenRows) else rows
            require_new_column(given, field, "count_field")
        elif not self.unique:
            raise UsageError("needs a file of unique documents (unique)", parameter="count_field")
