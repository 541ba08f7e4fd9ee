"""Raw records of Parquet and Arrow files, which are read by column.

pyarrow has no limits of memory and time: files are read in a process that has some
(`process/isolation.py`), by many rows at a time, and by fewer where these are damaged or take too much
memory.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from errno import EACCES, EFBIG
from io import SEEK_END, RawIOBase
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from simhbase.corpus.fields import listed, with_field
from simhbase.corpus.formats.arrow import MAGIC as ARROW_MAGIC
from simhbase.corpus.formats.arrow import STREAM, ArrowTable, read_whole
from simhbase.corpus.formats.encoding_detection import DetectedEncoding
from simhbase.corpus.formats.rows import distinct_names
from simhbase.corpus.outputs.files import json_line
from simhbase.corpus.record import (
    ID_HINT,
    TAG_HINT,
    VALUE_HINT,
    Chunk,
    InputOptions,
    Raw,
    Reject,
    Source,
    SourceReject,
    TooLong,
    chunked,
    too_long,
)
from simhbase.errors import BadInput
from simhbase.model.ids import IDS_ARE, id_of
from simhbase.process.machine import share_of_memory

if TYPE_CHECKING:
    from simhbase.process.workers import Bounds

MAGIC, _ENCRYPTED = b"PAR1", b"PARE"
MAGIC_BYTES = 16  # texts may begin with a magic word; bytes that they do not contain follow in a file
BINARY = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")  # bytes that texts do not contain
_LENGTH_BYTES = 4  # of a footer's length, before the last magic word
_PARQUET_END = _LENGTH_BYTES + len(MAGIC)
_FEWER = 32  # times as few rows are read at a time after a failure
_ROWS = 1024  # read at a time: a power of _FEWER
BATCH_BYTES = 128 << 20  # of rows that are read at a time, by the sizes that the file states
# Bytes of all rows that any file may give, however small it is: they may share values without limit. A larger
# one may give MOST_RATIO times its bytes (texts have 3 to 20), or MOST_SHARED_RATIO times (zstd reaches
# 32,000) up to MOST_SHARED: to read and fingerprint these takes a minute of processor time, and 87 GB of a
# file of 2.7 MB would take twenty.
MOST_BYTES = 256 << 20
MOST_RATIO = 100
MOST_SHARED_RATIO = 1 << 15
MOST_SHARED = 4 << 30
_ROW_BYTES = 64  # at least, of each row
_SHARED = (
    "its rows share values, and those so far have {:,} bytes; {:,} are allowed for so few bytes of a file. "
    "Read a larger part with a larger max_record_bytes, or export the rows as JSON lines"
)
_MOST_OF_VALUE = 1 << 16  # bytes of an id, a tag or a value to choose by: many rows may share one
_MOST_OF_SCHEMA = 16 << 20  # bytes, of one that is given to other processes
FOOTER_BYTES = 64 << 20  # of Parquet, that Spark reads
BUFFER_BYTES = 1 << 20  # read buffer of a column; without it, a whole row group's column is read at once
# Of processor time, for a file, and more for each of its MiB: a second gives some 100 MB of texts.
_SECONDS, _SECONDS_PER_MIB = 10.0, 3.0
_MEMORY, _MEMORY_RATIO = 1 << 30, 8  # bytes for any file, and times its bytes


def is_columnar(head: bytes) -> bool:
    """True if a file that begins like this is Parquet or Arrow. MAGIC_BYTES are enough."""
    is_named = head.startswith((MAGIC, ARROW_MAGIC, _ENCRYPTED)) and BINARY.search(head[:MAGIC_BYTES])
    return bool(is_named) or head.startswith(STREAM)


def _most_of_all(size: int, options: InputOptions) -> int:
    """Bytes that all rows of a file of this size may have."""
    few = max(MOST_BYTES, 16 * options.max_record_bytes)
    return max(few, min(MOST_SHARED_RATIO * size, MOST_SHARED), MOST_RATIO * size)


def _opened(file: RawIOBase) -> _Parquet | ArrowTable:
    """A reader of the file. Raises as pyarrow."""
    head = file.read(MAGIC_BYTES) or b""
    file.seek(0)
    if head.startswith(_ENCRYPTED):
        raise OSError(EACCES, "it is encrypted, and no keys are read")
    if head.startswith(MAGIC):
        return _Parquet(file)
    return ArrowTable(file, head.startswith(STREAM), _sound)


class _Parquet:
    """A Parquet file. Raises as pyarrow."""

    def __init__(self, file: RawIOBase) -> None:
        from pyarrow.parquet import ParquetFile

        self._size = file.seek(0, SEEK_END)
        self._table: Any = ParquetFile(
            file, buffer_size=BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True
        )
        self.schema: Any = self._table.schema_arrow

    def batches(self, columns: list[str] | None, begin: int, at_once: int) -> Iterator[Any]:
        """The rows of these columns (None: all) from row `begin` on, at most `at_once` at a time. Raises as
        pyarrow, after every readable row, and OSError if the rows are not all that the footer counts: pyarrow
        reads of a group the rows that it tells."""
        footer, given = self._table.metadata, 0
        _require_places(footer, self._size, None if columns is None else {*columns})
        for group in range(footer.num_row_groups):
            passed = min(max(begin - given, 0), footer.row_group(group).num_rows)
            given += passed
            for batch in self._group(group, columns, passed, at_once):
                yield batch
                given += batch.num_rows
        _require_all(given, footer)

    def _group(self, group: int, columns: list[str] | None, begin: int, at_once: int) -> Iterator[Any]:
        from pyarrow import ArrowException

        told = self._table.metadata.row_group(group)
        if begin == told.num_rows > 0:
            return
        rows, given = _rows_at_once(told.total_byte_size, told.num_rows, at_once), begin
        try:
            for batch in self._rest(group, columns, rows, given):
                yield _sound(batch)
                given += batch.num_rows
        except MemoryError:
            raise
        except (ArrowException, OSError):  # some rows of the batch may be readable
            yield from map(_sound, self._rest(group, columns, 1, given))

    def _rest(self, group: int, columns: list[str] | None, rows: int, given: int) -> Iterator[Any]:
        """The rows of a group after the first `given` ones, in batches of at most `rows`."""
        for batch in self._table.iter_batches(rows, [group], columns, use_threads=False):
            if given < batch.num_rows:
                yield batch.slice(given)
            given = max(given - batch.num_rows, 0)


def _rows_at_once(size: int, rows: int, at_once: int) -> int:
    """How many rows to read at a time, given the size in memory that the file states for `rows` of them."""
    while at_once > 1 and at_once * size > BATCH_BYTES * max(rows, 1):
        at_once //= _FEWER
    return at_once


def footer_of(file: RawIOBase) -> bytes:
    """A Parquet file that has no rows, and the footer of this one. Empty for a file that is none, or is
    encrypted. Raises BadInput for a footer that is too long."""
    if file.read(len(MAGIC)) != MAGIC:
        return b""
    end = max(file.seek(0, SEEK_END) - _PARQUET_END, 0)
    file.seek(end)
    size = int.from_bytes(read_whole(file, _LENGTH_BYTES), "little")
    if size > min(FOOTER_BYTES, end):
        raise BadInput(f"its footer has {size:,} bytes, at most {FOOTER_BYTES:,} are read")
    file.seek(end - size)
    return MAGIC + read_whole(file, size + _PARQUET_END)


def require_all_rows(file: RawIOBase, size: int) -> Iterator[None]:
    """Raise BadInput for a footer by which a reader leaves out rows, or reads some twice. file: the footer,
    as of `footer_of`; size: of the file that it is of."""
    from pyarrow import ArrowException
    from pyarrow.parquet import read_metadata

    try:
        footer = read_metadata(file)
        _require_places(footer, size, None)
        _require_all(sum(footer.row_group(group).num_rows for group in range(footer.num_row_groups)), footer)
    except (ArrowException, OSError) as error:
        raise BadInput(f"it cannot be read ({_brief(error)})") from error
    yield from ()


def _require_places(footer: Any, size: int, columns: Set[str] | None) -> None:
    """Raise OSError if the same places in a file of this size are listed for several columns: these would be
    read again and again, or twice, and others not at all. columns: that are read, None for all."""
    begins, total = set[int](), 0
    names = [footer.schema.column(number).path.split(".")[0] for number in range(footer.num_columns)]
    read = [number for number, name in enumerate(names) if columns is None or name in columns]
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for column in map(group.column, read):
            if column.total_compressed_size > 0:
                begin = min(filter(None, (column.dictionary_page_offset, column.data_page_offset)), default=0)
                total += column.total_compressed_size
                if begin in begins or total > size:
                    raise OSError("its columns overlap")
                begins.add(begin)


def _require_all(given: int, footer: Any) -> None:
    if given != footer.num_rows:
        raise OSError(f"its groups have {given:,} rows, its footer counts {footer.num_rows:,}")


def _sound(batch: Any) -> Any:
    """The batch. Raises as `_require_sound`."""
    for column in batch.columns:
        _require_sound(column)
    return batch


def _require_sound(array: Any) -> None:
    """Raise ArrowInvalid for an array that leads out of its memory, which would end the process. Texts that
    are not UTF-8 cost their own rows only."""
    from pyarrow import ArrowInvalid, DictionaryArray, types

    array.validate()
    if types.is_dictionary(array.type):
        _require_sound(array.dictionary)
        array.indices.validate(full=True)
        DictionaryArray.from_arrays(array.indices, array.dictionary)  # checks the indices
    else:
        with suppress(ArrowInvalid):  # dictionaries within lists and structs cannot be viewed
            array = array.view(_of_bytes(array.type))
        array.validate(full=True)


def bounds_of(size: int) -> Bounds:
    """Limits for reading a file of this size (bytes), all of whose rows may be in one batch."""
    from simhbase.process.workers import Bounds  # takes time to load

    memory = min(_MEMORY + _MEMORY_RATIO * size, share_of_memory(1))
    return Bounds(_SECONDS, memory, _SECONDS_PER_MIB)


def load_pyarrow() -> None:
    """Prepare a process for reading tables: its memory is limited afterwards."""
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # others reserve more than they use
    with suppress(ImportError):  # told where a table is read
        from pyarrow import compute, ipc, parquet  # noqa: F401  # they take memory of their own


class ReadState(NamedTuple):
    """What was given of a table: rows, and their bytes. is_gb18030: of its texts, as of DetectedEncoding;
    at_once: rows that are read at a time from here on."""

    rows: int = 0
    bytes: int = 0
    is_gb18030: bool | None = None
    at_once: int = _ROWS

    def with_fewer(self) -> ReadState | None:
        """The same, by fewer rows at a time, as these took too much memory; None if it is one."""
        return None if self.at_once == 1 else self._replace(at_once=self.at_once // _FEWER)


class TablePart(NamedTuple):
    """Rows of a table, notes about their texts, and what was given with them."""

    items: Chunk
    notes: list[str]
    state: ReadState


BEGIN = ReadState()


def table_parts(
    file: RawIOBase, source: Source, options: InputOptions, state: ReadState = BEGIN
) -> Iterator[TablePart]:
    """All further rows of a seekable Parquet or Arrow file; a reject at the end if it is damaged. Rows are
    numbered from 1, like lines. Raises MemoryError: fewer at a time may be readable."""
    notes = list[str]()
    detected = DetectedEncoding(
        lambda found: notes.append(f"{source.name}: its texts are {found}"), state.is_gb18030
    )
    rows = _records(file, source, options, state, detected, notes.append)
    # The last attempt gives each row before the one that ends it.
    for chunk in ([row] for row in rows) if state.at_once == 1 else chunked(rows):
        size = sum(map(_size_of, chunk))
        state = ReadState(state.rows + len(chunk), state.bytes + size, detected.is_gb18030, state.at_once)
        yield TablePart(chunk, notes, state)
        notes.clear()


def _records(
    file: RawIOBase,
    source: Source,
    options: InputOptions,
    state: ReadState,
    detected: DetectedEncoding,
    note: Callable[[str], None],
) -> Iterator[Raw | Reject]:
    try:
        from pyarrow import ArrowException
    except ImportError:
        reason = "Parquet is read by pyarrow, which is not installed: pip install 'simhbase[parquet]'"
        yield SourceReject(source.name, None, None, reason)
        return
    row, read = state.rows, state.bytes
    try:
        most = _most_of_all(file.seek(0, SEEK_END), options)
        file.seek(0)
        table = _opened(file)
        columns = _Columns.of(table.schema, options)
        names = None if options.whole_rows else columns.names
        content = columns.content.type
        if options.encoding != "auto" and _is_text(content) and not _is_binary(content) and not row:
            note(f"{source.name}: its texts are UTF-8, as its schema says: encoding has no effect")
        for batch in table.batches(names, row, state.at_once):
            at_once = _rows_at_once(batch.get_total_buffer_size(), batch.num_rows, state.at_once)
            for begin in range(0, batch.num_rows, at_once):
                for item in columns.records(source, row, batch.slice(begin, at_once), options, detected):
                    if read > most:
                        raise OSError(EFBIG, _SHARED.format(read, most))
                    read += _size_of(item)
                    row += 1
                    yield item
    except BadInput as error:
        yield SourceReject(source.name, None, None, str(error))
    except MemoryError:  # of pyarrow, it is an ArrowException, too
        raise
    except (ArrowException, OSError, UnicodeDecodeError) as error:  # the last: of names of columns
        said = error.strerror if isinstance(error, OSError) else None  # from the system or a server
        if row:
            reason = f"it is damaged, and cannot be read from this row on ({_brief(error)})"
        else:
            reason = f"it is damaged or was cut short: it cannot be read ({_brief(error)})"
        yield unreadable_from(row, source, said) if said else _ended(row, source, reason)


def unreadable_from(row: int, source: Source, reason: str) -> Reject:
    """Reject the rest of a file after its first `row` rows, for another reason than damage."""
    return _ended(row, source, f"it cannot be read{' further' if row else ''}: {reason}")


def _ended(row: int, source: Source, reason: str) -> Reject:
    if row:
        return Reject(source.name, row + 1, None, reason)
    return SourceReject(source.name, None, None, reason)


def _size_of(item: Raw | Reject) -> int:
    """Bytes of a row, whose text is also in its JSON line."""
    return _ROW_BYTES + (max(len(item.data), len(item.row or b"")) if isinstance(item, Raw) else 0)


@dataclass(frozen=True, slots=True)
class _Column:
    """The location of values: a column, and steps into structs. type: Arrow's."""

    path: tuple[str, ...]
    type: Any

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def array(self, batch: Any) -> Any:
        """The column of a batch."""
        from pyarrow import compute

        array = batch.column(batch.schema.names.index(self.path[0]))
        for step in self.path[1:]:
            array = compute.struct_field(array, step)
        return array

    def ids(self, batch: Any, long: dict[int, str]) -> list[Any]:
        """The values of a batch's rows, texts and integers as UTF-8. long: as of `cells`."""
        from pyarrow import types

        is_plain = _is_text(self.type) or types.is_integer(self.type)
        return self.cells(batch, long) if is_plain else list(self.array(batch).to_pylist())

    def cells(self, batch: Any, long: dict[int, str]) -> list[Any]:
        """The values of a batch's rows as UTF-8 texts; binary values unchanged. long: gets the places of
        those that are too long, with why."""
        cells = self.texts(batch, _MOST_OF_VALUE)
        for place, cell in enumerate(cells):
            if isinstance(cell, TooLong):
                said = f"the value of column {self.name!r} has {cell.bytes:,} bytes"
                long[place] = f"{said}, at most {_MOST_OF_VALUE:,} are read"
        return cells

    def texts(self, batch: Any, most: int) -> list[bytes | TooLong | None]:
        """The values of a batch's rows as UTF-8 texts; TooLong for texts of more than `most` bytes."""
        from pyarrow import string, types

        array = self.array(batch)
        # Cast by Arrow: Python has no nanosecond timestamps, and rejects texts that are not UTF-8.
        texts = array if _is_text(self.type) else array.cast(string())
        if not types.is_dictionary(texts.type):
            return _values(texts, most)
        used = texts.indices.unique().drop_null()
        values = dict(zip(used.to_pylist(), _values(_taken(texts.dictionary, used), most), strict=True))
        return [None if index is None else values[index] for index in texts.indices.to_pylist()]


def _taken(texts: Any, places: Any) -> Any:
    """The texts at these places. Arrow has no such function for views."""
    from pyarrow import array, large_binary, types

    if not (types.is_string_view(texts.type) or types.is_binary_view(texts.type)):
        return texts.take(places)
    found = (texts[place].as_buffer() for place in places.to_pylist())
    return array([None if each is None else each.to_pybytes() for each in found], large_binary())


def _values(texts: Any, most: int) -> list[bytes | TooLong | None]:
    from pyarrow import compute, large_binary

    texts = texts.cast(large_binary())
    lengths = compute.binary_length(texts)
    if (compute.max(lengths).as_py() or 0) <= most:
        found: list[bytes | TooLong | None] = texts.to_pylist()
        return found
    return [
        TooLong(size) if size is not None and size > most else texts[row].as_py()
        for row, size in enumerate(lengths.to_pylist())
    ]


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns to read: ids (None if they are derived), texts or fingerprints, values to choose duplicates
    by, tags."""

    id: _Column | None
    content: _Column
    value: _Column | None
    tags: tuple[_Column, ...]

    @classmethod
    def of(cls, schema: Any, options: InputOptions) -> _Columns:
        """The columns named by the options. Raises BadInput if one is missing or has the wrong type."""
        from pyarrow import types

        leaves = list(_leaves(schema))
        there = dict(sorted(leaves, key=lambda leaf: -len(leaf[1].path)))  # whole names win
        paths = Counter(column.path for _, column in leaves)
        content = _found(there, options.content_field, options.content_hint)
        if options.fingerprint_field is None and not _is_text(content.type):
            raise _wrong(content, "that is no text", options.content_hint)
        if not (_is_text(content.type) or _is_integer(content.type, options.fingerprint_bits)):
            wanted = f"fingerprints are texts, or integers of {options.fingerprint_bits} bits"
            raise _wrong(content, wanted, options.content_hint)
        has_id = options.id_from == "field"
        chosen = _found(there, options.id_field, ID_HINT) if has_id else None
        if chosen and not (_is_text(chosen.type) or _is_number(chosen.type) or _is_uuid(chosen.type)):
            raise _wrong(chosen, IDS_ARE, ID_HINT)
        value = None if options.value_field is None else _found(there, options.value_field, VALUE_HINT)
        if value and (types.is_nested(value.type) or types.is_boolean(value.type)):
            raise _wrong(value, "texts or numbers are compared", VALUE_HINT)
        tags = tuple(_found(there, field, TAG_HINT) for _, field in options.tag_fields)
        for tag in tags:
            if not (_is_text(tag.type) or types.is_integer(tag.type)):
                raise _wrong(tag, "tags are texts or integers", TAG_HINT)
        for each in filter(None, (chosen, content, value, *tags)):
            if paths[each.path] > 1:
                raise BadInput(f"{paths[each.path]} columns are named {each.name!r}: rename one")
        return cls(chosen, content, value, tags)

    @property
    def names(self) -> list[str]:
        return sorted({each.name for each in (self.id, self.content, self.value, *self.tags) if each})

    def records(
        self, source: Source, row: int, batch: Any, options: InputOptions, detected: DetectedEncoding
    ) -> Iterator[Raw | Reject]:
        """The rows of a batch. row: number of rows before it; detected: encoding of texts that are bytes."""
        nothing: list[bytes | None] = [None] * batch.num_rows
        long: dict[int, str] = {}
        ids = self.id.ids(batch, long) if self.id else nothing
        values = self.value.cells(batch, long) if self.value else nothing
        tag_cells = [each.cells(batch, long) for each in self.tags]
        tags = zip(*tag_cells, strict=True) if tag_cells else repeat(())
        texts = self.content.texts(batch, options.max_record_bytes)
        is_found = options.encoding == "auto" and _is_binary(self.content.type)
        encoding = "utf-8" if is_found or not _is_binary(self.content.type) else None
        holds: Literal["text", "integer"] = "text" if _is_text(self.content.type) else "integer"
        if is_found:
            detected.decide(text for text in texts if isinstance(text, bytes) and text)
            texts = [detected.converted(text) if isinstance(text, bytes) else text for text in texts]
        lines = self._lines(batch, texts, encoding, options) if options.whole_rows else nothing
        columns = zip(ids, texts, values, lines, strict=True)
        for line, ((given, text, value, whole), tagged) in enumerate(
            zip(columns, tags, strict=False), row + 1
        ):
            if reason := long.get(line - row - 1):
                yield Reject(source.name, line, None, reason)
                continue
            try:
                row_id = _id(self.id, given) if self.id else source.id_of_line(line, options)
            except BadInput as error:
                yield Reject(source.name, line, None, str(error))
                continue
            if text is None:
                yield Reject(source.name, line, row_id, f"column {self.content.name!r} is null, not a text")
            elif isinstance(text, TooLong):
                yield Reject(source.name, line, row_id, too_long(text.bytes, options))
            elif len(whole or b"") - len(text) > options.max_record_bytes:
                yield Reject(source.name, line, row_id, too_long(len(whole or b""), options))
            else:
                yield Raw(source.name, line, row_id, text, value, holds, encoding, tagged, row=whole)

    def _lines(
        self, batch: Any, texts: list[bytes | TooLong | None], encoding: str | None, options: InputOptions
    ) -> list[bytes | None]:
        """The rows of a batch as JSON lines; None for one whose text cannot be read: the parser rejects it.
        texts: bytes of the texts or fingerprints."""
        read = options.decode if _is_text(self.content.type) else _number
        contents = [self._content(each, encoding, read) for each in texts]
        name, names = self.content.name, batch.schema.names
        columns = [
            contents if column == name else json_values(values)
            for column, values in zip(names, batch.columns, strict=True)
        ]
        distinct = distinct_names(names)
        rows = (dict(zip(distinct, row, strict=True)) for row in zip(*columns, strict=True))
        if name not in names:  # a field of a struct
            rows = (with_field(row, name, each) for row, each in zip(rows, contents, strict=True))
        return [None if each is None else json_line(row) for row, each in zip(rows, contents, strict=True)]

    @staticmethod
    def _content(
        text: bytes | TooLong | None, encoding: str | None, read: Callable[[bytes, str | None], str | int]
    ) -> str | int | None:
        try:
            return read(text, encoding) if isinstance(text, bytes) else None
        except BadInput:
            return None


def _number(digits: bytes, _encoding: str | None) -> int:
    return int(digits)


def json_values(array: Any) -> list[Any]:
    """The values of an array as JSON values."""
    from pyarrow import ArrowInvalid, ArrowNotImplementedError, types

    try:
        array = array.cast(json_type(array.type))
    except (ArrowInvalid, ArrowNotImplementedError):  # Python can format what Arrow cannot
        return [_json_value(value.as_py()) for value in array]
    if types.is_large_binary(array.type):
        return [
            None if each is None else each.decode(errors="backslashreplace") for each in array.to_pylist()
        ]
    values: list[Any] = array.to_pylist()
    is_json = types.is_primitive(array.type) or types.is_string(array.type)
    return values if is_json else [_json_value(value) for value in values]


def column_types(file: RawIOBase) -> Iterator[dict[str, Any]]:
    """Column names of a Parquet file as in rows, with the Arrow types that their values can be converted back
    to; binary becomes text. Empty for a damaged file, and one with a very large schema."""
    from pyarrow import ArrowException
    from pyarrow.parquet import read_schema

    # The last exception: of names of columns.
    with suppress(ArrowException, OSError, UnicodeDecodeError):
        schema = read_schema(file)
        if schema.serialize().size <= _MOST_OF_SCHEMA:
            yield dict(zip(distinct_names(schema.names), map(_of_texts, schema.types), strict=True))


def _of_texts(kind: Any) -> Any:
    """A type with UTF-8 text in place of all text and binary types."""
    import pyarrow as arrow
    from pyarrow import types

    def leaf(kind: Any) -> Any:
        if types.is_null(kind) or not _is_text(kind):
            return kind
        is_large = types.is_large_string(kind) or types.is_large_binary(kind)
        return arrow.large_string() if is_large else arrow.string()

    return _remade(kind, leaf, _list_of)


def _of_bytes(kind: Any) -> Any:
    """A type with binary in place of text, with the same layout."""
    import pyarrow as arrow

    def leaf(kind: Any) -> Any:
        if arrow.types.is_string(kind):
            return arrow.binary()
        if arrow.types.is_string_view(kind):
            return arrow.binary_view()
        return arrow.large_binary() if arrow.types.is_large_string(kind) else kind

    return _remade(kind, leaf, _list_of)


def _list_of(kind: Any, values: Any) -> Any:
    """A list of the same kind with other values."""
    import pyarrow as arrow
    from pyarrow import types

    if types.is_fixed_size_list(kind):
        return arrow.list_(values, kind.list_size)
    return arrow.large_list(values) if types.is_large_list(kind) else arrow.list_(values)


def json_type(kind: Any, *, is_made: bool = False) -> Any:
    """The type to cast to before converting to Python, which has no nanosecond timestamps, and rejects texts
    that are not UTF-8. is_made: an array of it is made of Python values, so UUIDs etc. are as stored."""
    import pyarrow as arrow
    from pyarrow import types

    def leaf(kind: Any) -> Any:
        if isinstance(kind, arrow.BaseExtensionType):  # Arrow would cast the bytes of a UUID to a text
            return kind.storage_type if is_made else kind
        if types.is_null(kind) or types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
            return kind
        return arrow.large_binary() if _is_text(kind) else arrow.string()

    return _remade(kind, leaf, lambda _, values: arrow.large_list(values))


def _remade(kind: Any, leaf: Callable[[Any], Any], list_of: Callable[[Any, Any], Any]) -> Any:
    """A type with nested types replaced: leaf(type) for simple types, list_of(type, value type) for lists;
    dictionaries are decoded."""
    import pyarrow as arrow
    from pyarrow import types

    def inner(kind: Any) -> Any:
        return _remade(kind, leaf, list_of)

    if types.is_dictionary(kind):
        return inner(kind.value_type)
    if types.is_struct(kind):
        return arrow.struct([(field.name, inner(field.type)) for field in kind.fields])
    if types.is_map(kind):
        return arrow.map_(inner(kind.key_type), inner(kind.item_type))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return list_of(kind, inner(kind.value_type))
    return leaf(kind)


def _json_value(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return value.decode(errors="backslashreplace")
        case dict():
            return {str(name): _json_value(each) for name, each in value.items()}
        case list() | tuple():
            return [_json_value(each) for each in value]
        case _:
            return str(value)


def _leaves(fields: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, _Column]]:
    """All columns except structs, and the fields of structs, by dotted name."""
    from pyarrow import types

    for field in fields:
        column = _Column((*above, field.name), field.type)
        if types.is_struct(field.type):
            yield from _leaves(field.type.fields, column.path)
        else:
            yield column.name, column


def _found(there: Mapping[str, _Column], wanted: str, hint: str) -> _Column:
    if wanted not in there:
        raise BadInput(f"no column {wanted!r} {listed(there)}: {hint}")
    return there[wanted]


def _wrong(column: _Column, reason: str, hint: str) -> BadInput:
    return BadInput(f"column {column.name!r} is {column.type}, {reason}: {hint}")


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _is_text(kind.value_type)
    # A column that has only nulls has the null type: all rows are rejected.
    is_string = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return bool(is_string or _is_binary(kind) or types.is_null(kind))


def _is_integer(kind: Any, bits: int) -> bool:
    """True for integers of this length: of 64 bits, or of the databases' decimal type."""
    from pyarrow import types

    if types.is_decimal(kind):
        return bool(kind.scale == 0)
    return bool(bits == 64 and (types.is_int64(kind) or types.is_uint64(kind)))


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _is_uuid(kind: Any) -> bool:
    return getattr(kind, "extension_name", None) == "arrow.uuid"


def _is_binary(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind))


def _id(column: _Column, value: Any) -> str:
    if value is None:
        raise BadInput(f"column {column.name!r} is null: {IDS_ARE}")
    try:
        return value.decode() if isinstance(value, bytes) else id_of(value)
    except UnicodeDecodeError as error:
        raise BadInput(f"the id is not UTF-8 at byte {error.start + 1}") from error


def _brief(error: Exception) -> str:
    return str(error).split("\n", 1)[0].rstrip(".")[:200]
