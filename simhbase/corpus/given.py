"""Documents and texts that a Python program holds, as the records of one source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from simhbase.corpus.paths import LeftOut
from simhbase.corpus.record import AS_GIVEN, Chunk, InputOptions, Raw, Reject, chunked, too_long
from simhbase.corpus.sources import in_certain_base
from simhbase.model.frames import Fields, GivenRow, Texts, text_rows
from simhbase.process.progress import length

ROWS = "rows"


class GivenRows:
    """Rows of a frame or an iterable, read like Sources; each becomes one record or reject.

    Rows without an id are named by their number, from 0: row 0. Progress is counted in rows.
    """

    def __init__(self, given: Texts, options: InputOptions) -> None:
        self.given = given
        self._options = options
        is_prepared = options.fingerprint_field is not None
        fields = Fields(options.id_field, options.content_field, options.value_field, is_prepared)
        self._rows = text_rows(given, fields)
        self._id_types: list[Any] = []  # of the rows read so far
        self.left_out: list[LeftOut] = []
        self.notes: list[str] = []
        self.consumed = 0

    @classmethod
    def of(cls, given: Texts | GivenRows, options: InputOptions) -> GivenRows:
        """The rows, with options if they have none yet."""
        return given if isinstance(given, GivenRows) else cls(given, options)

    def id_of(self, row: int, name: str) -> Any:
        """The name of a row as it was given: an integer for an integer. Names with a prefix are texts."""
        return name if self._options.id_prefix else self._id_types[row](name)

    def total(self) -> int | None:
        return length(self.given)

    def chunks(self) -> Iterator[Chunk]:
        return chunked(in_certain_base(map(self._raw, self._rows), self._options))

    def _raw(self, row: GivenRow) -> Raw | Reject:
        number = self.consumed
        self.consumed += 1
        self._id_types.append(str if row.given_id is None else type(row.given_id))
        row_id = f"row {number}" if row.id is None else row.id
        if row.problem is not None:
            return Reject(ROWS, number, row_id, row.problem)
        text = row.text.encode(errors="surrogatepass")
        if len(text) > self._options.max_record_bytes:
            return Reject(ROWS, number, row_id, too_long(len(text), self._options))
        value = None if row.value is None else str(row.value).encode(errors="surrogatepass")
        given_id = None if self._options.id_from == "text" else row_id
        holds: Literal["integer", "text"] = "integer" if row.is_integer else "text"
        is_named = row.id is not None or given_id is None
        return Raw(ROWS, number, given_id, text, value, holds, AS_GIVEN, is_named=is_named)
