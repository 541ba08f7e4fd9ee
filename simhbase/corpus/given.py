"""Documents that a Python program holds, as the records of one source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from simhbase.corpus.paths import LeftOut
from simhbase.corpus.record import AS_GIVEN, Chunk, InputOptions, Raw, Reject, too_long
from simhbase.corpus.sources import chunked, in_certain_base
from simhbase.frames import Documents, Fields, GivenRow, document_rows
from simhbase.progress import length

SOURCE = "rows"


class GivenRows:
    """Rows of a frame or an iterable, read like Sources; each becomes one record or reject.

    Rows without an id are named by their number, from 0. Progress is counted in rows.
    """

    def __init__(self, given: Documents, options: InputOptions) -> None:
        self._given = given
        self._options = options
        is_prepared = options.fingerprint_field is not None
        fields = Fields(options.id_field, options.content_field, options.value_field, is_prepared)
        self._rows = document_rows(given, fields, need_ids=False)
        self.left_out: list[LeftOut] = []
        self.notes: list[str] = []
        self.consumed = 0

    def total(self) -> int | None:
        return length(self._given)

    def chunks(self) -> Iterator[Chunk]:
        return chunked(in_certain_base(map(self._raw, self._rows), self._options))

    def _raw(self, row: GivenRow) -> Raw | Reject:
        number = self.consumed
        self.consumed += 1
        row_id = str(number) if row.id is None else row.id
        if row.problem is not None:
            return Reject(SOURCE, number, row_id, row.problem)
        text = row.text.encode(errors="surrogatepass")
        if len(text) > self._options.max_record_bytes:
            return Reject(SOURCE, number, row_id, too_long(len(text), self._options))
        value = None if row.value is None else str(row.value).encode(errors="surrogatepass")
        given_id = None if self._options.id_from == "text" else row_id
        holds: Literal["integer", "text"] = "integer" if row.is_integer else "text"
        return Raw(SOURCE, number, given_id, text, value, holds, AS_GIVEN)
