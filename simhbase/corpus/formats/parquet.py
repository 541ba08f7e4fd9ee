"""Raw records of Parquet and Arrow files (also Feather), which are read by column."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import EACCES, EFBIG
from functools import partial
from io import SEEK_END, RawIOBase
from itertools import islice, repeat
from typing import Any, BinaryIO, Literal

from simhbase.corpus.fields import listed, with_field
from simhbase.corpus.formats.arrow_sizes import (
    Message,
    blocks,
    first_message,
    message_at,
    require_small_footer,
)
from simhbase.corpus.formats.encoding_detection import DetectedEncoding
from simhbase.corpus.formats.parquet_sizes import (
    Chunk,
    Page,
    chunks,
    pages,
    shared_bytes,
    small_footer,
)
from simhbase.corpus.formats.row_sizes import MOST_ROWS, PART_BYTES, dictionary_bytes, parts, row_sizes
from simhbase.corpus.formats.rows import distinct_names
from simhbase.corpus.outputs.files import json_line
from simhbase.corpus.record import (
    ID_HINT,
    MAX_RECORD_BYTES,
    TAG_HINT,
    VALUE_HINT,
    InputOptions,
    Raw,
    Reject,
    Source,
    SourceReject,
    TooLong,
    too_long,
)
from simhbase.errors import BadInput
from simhbase.model.ids import IDS_ARE, id_of

MAGIC, ARROW_MAGIC, _ENCRYPTED = b"PAR1", b"ARROW1", b"PARE"
_ARROW_STREAM = b"\xff\xff\xff\xff"  # as data sets of Hugging Face
MAGIC_BYTES = 16  # texts may begin with a magic word; bytes that they do not contain follow in a file
BINARY = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")  # bytes that texts do not contain
_END_OF_STREAM = _ARROW_STREAM + bytes(4)
FEW_ROWS = 16  # read at once where not all sizes are known
BATCH_BYTES = 128 << 20  # of the pages that the rows of a batch are in, and of their copies of shared values
MOST_RATIO = 100  # of bytes in memory to bytes in the file; texts have 3 to 20
# Of bytes of all rows to bytes of the file, as rows may share values without limit. zstd reaches 32,000.
# Beyond MOST_RATIO rows have at most MOST_SHARED bytes: to read and fingerprint them takes a minute of
# processor time, and 87 GB of a file of 2.7 MB would take twenty.
MOST_SHARED_RATIO = 1 << 15
MOST_SHARED = 4 << 30
_ROW_BYTES, _VALUE_BYTES = 64, 8  # at least, of each row, and of each value
# A batch takes time however few rows it has, and counts as so many bytes. Its dictionaries are checked again
# for each, which takes a part of the time that rows of their size take.
_BATCH_BYTES, _DICTIONARY_SHARE = 1 << 12, 32
_LENGTHS_BYTES = 8  # of the two lengths of a text, where these are deltas
_SHARED = (
    "its rows share values, and those so far have {:,} bytes; {:,} are allowed for so few bytes of a file. "
    "Read a larger part with a larger max_record_bytes, or export the rows as JSON lines"
)
_MOST_OF_VALUE = 1 << 16  # bytes of an id, a tag or a value to choose by: many rows may share one
BUFFER_BYTES = 1 << 20  # read buffer of a column; without it, a whole row group's column is read at once


def is_columnar(head: bytes) -> bool:
    """True if a file that begins like this is Parquet or Arrow. MAGIC_BYTES are enough."""
    is_named = head.startswith((MAGIC, ARROW_MAGIC, _ENCRYPTED)) and BINARY.search(head[:MAGIC_BYTES])
    return bool(is_named) or head.startswith(_ARROW_STREAM)


def _most_bytes(options: InputOptions) -> int:
    """Bytes of rows that any file may have, however small it is."""
    return FEW_ROWS * max(options.max_record_bytes, MAX_RECORD_BYTES)


def _most_of_all(size: int, options: InputOptions) -> int:
    """Bytes that all rows of a file of this size may have."""
    shared = min(MOST_SHARED_RATIO * size, MOST_SHARED)
    return max(_most_bytes(options), shared, MOST_RATIO * size)


def _opened(file: RawIOBase, options: InputOptions) -> _Parquet | _ArrowFile:
    """A reader of the file. Raises as pyarrow."""
    from pyarrow.parquet import ParquetFile

    most_bytes = _most_bytes(options)
    head = file.read(MAGIC_BYTES) or b""
    file.seek(0)
    if head.startswith(_ENCRYPTED):
        raise OSError(EACCES, "it is encrypted, and no keys are read")
    if not head.startswith(MAGIC):
        return _ArrowFile(file, most_bytes, is_stream=head.startswith(_ARROW_STREAM))
    footer = small_footer(file)
    opened = partial(
        ParquetFile, file, buffer_size=BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True
    )
    table = opened()
    leaves = [table.schema.column(number) for number in range(len(table.schema))]
    # A row may have any number of texts in lists, which share memory as dictionaries only.
    texts = [leaf.path for leaf in leaves if leaf.max_repetition_level and leaf.physical_type == "BYTE_ARRAY"]
    if texts and options.whole_rows:
        file.seek(0)
        table = opened(read_dictionary=texts)
    columns = [(leaf.path, leaf.max_repetition_level == 0) for leaf in leaves]
    return _Parquet(file, table, chunks(file, footer, columns, table.num_row_groups), most_bytes)


@dataclass(frozen=True, slots=True)
class _Parquet:
    """A Parquet file, a reader of it, and where the columns of its groups are. most_bytes: of a page in
    memory, unless it is large in the file, too."""

    file: RawIOBase
    table: Any
    chunks: list[list[Chunk]]
    most_bytes: int

    @property
    def schema_arrow(self) -> Any:
        return self.table.schema_arrow

    def batches(self, columns: list[str] | None) -> Iterator[Any]:
        """The rows of these columns (None: all). Raises as pyarrow, after every readable row, and OSError if
        they are not all that the footer counts: pyarrow reads of a group the rows that it tells."""
        given = 0
        for group in range(self.table.num_row_groups):
            for batch in self._batches_of(group, columns):
                yield batch
                given += batch.num_rows
        _require_all(given, self.table.metadata)

    def _batches_of(self, group: int, columns: list[str] | None) -> Iterator[Any]:
        from pyarrow import ArrowException

        read = [
            (number, chunk)
            for number, chunk in enumerate(self.chunks[group])
            if columns is None or any(f"{chunk.column}.".startswith(f"{each}.") for each in columns)
        ]
        size = self._batch_rows(group, read)
        rows = 0
        try:
            for batch in self._read(group, columns, read, size):
                yield _sound(batch)
                rows += batch.num_rows
        except (ArrowException, OSError):  # some rows of the batch may be readable
            rest = self._read(group, columns, read, 1)
            yield from map(_sound, islice(rest, rows, None))

    def _read(
        self, group: int, columns: list[str] | None, read: Sequence[tuple[int, Chunk]], size: int
    ) -> Iterator[Any]:
        """Batches of so many rows. Checks the pages of files on the web as they are read. Raises OSError for
        those that take too much memory."""
        later = [
            _LaterPages(chunk, self._pages(group, number, chunk), self.most_bytes)
            for number, chunk in read
            if self._is_looked_at_later(chunk)
        ]
        batches = self.table.iter_batches(size, [group], columns, use_threads=False)
        given = 0
        while True:
            for each in later:
                each.look(given + size)
            batch = next(batches, None)
            if batch is None:
                return
            given += batch.num_rows
            yield batch

    def _is_looked_at_later(self, chunk: Chunk) -> bool:
        """True for a column of a file on the web, which would be fetched twice; not with lists, as one row
        may have all of their values."""
        return chunk.is_flat and not _is_local(self.file)

    def _batch_rows(self, group: int, columns: Sequence[tuple[int, Chunk]]) -> int:
        """How many rows are read at once. Raises OSError for pages that take too much memory."""
        read = [self._first_pages(group, number, chunk) for number, chunk in columns]
        shared = sum(page.unpacked for each in read for page in each if page.is_dictionary)
        rows = MOST_ROWS if _is_local(self.file) else FEW_ROWS
        # A large page is unpacked whole, however few of its rows are read.
        most = max(BATCH_BYTES, 2 * sum(most_bytes(each, 1) for each in read))
        while rows > 1 and sum(most_bytes(each, rows) for each in read) > most:
            rows //= 2
        return rows_at_once(shared, rows)

    def _first_pages(self, group: int, number: int, chunk: Chunk) -> list[Page]:
        """All pages of a column, or the first one if the others are looked at later. Raises OSError for those
        that take too much memory."""
        found = self._pages(group, number, chunk)
        some = list(islice(found, 1) if self._is_looked_at_later(chunk) else found)
        if not chunk.is_flat:  # one row may have all of its values
            packed, unpacked = sum(page.packed for page in some), sum(map(_held, some))
            what = f"{_values_of(chunk)}, which are in lists,"
            require_plausible(what, packed, unpacked, self.most_bytes)
        return some

    def _pages(self, group: int, number: int, chunk: Chunk) -> Iterator[Page]:
        """The pages of a column, each with what its texts take in memory. Raises OSError for one that takes
        too much, and for more that have to be unpacked for this than the rows of any file may have."""
        what, packed, unpacked = _values_of(chunk), 0, 0
        for page in pages(self.file, chunk):
            require_plausible(what, page.packed, page.unpacked, self.most_bytes)
            if page.deltas is None:
                yield page
                continue
            with_lengths = page.unpacked + _LENGTHS_BYTES * page.values  # those of a page are held at once
            require_plausible(what, page.packed, with_lengths, self.most_bytes)
            whole = page._replace(unpacked=with_lengths + self._shared_bytes(group, number, page))
            require_plausible(what, page.packed, whole.unpacked, self.most_bytes)
            packed, unpacked = packed + page.packed, unpacked + whole.unpacked
            require_plausible(what, packed, unpacked, MOST_SHARED)
            yield whole

    def _shared_bytes(self, group: int, number: int, page: Page) -> int:
        from pyarrow import decompress

        column = self.table.schema.column(number)
        levels = (column.max_repetition_level > 0) + (column.max_definition_level > 0)
        codec = self.table.metadata.row_group(group).column(number).compression
        return shared_bytes(self.file, page, codec, levels, partial(decompress, asbytes=True))


@dataclass
class _LaterPages:
    """The pages of a column that are looked at just before their rows are read. rows: that they have;
    most_bytes: of those of a batch in memory."""

    chunk: Chunk
    pages: Iterator[Page]
    most_bytes: int
    rows: int = 0

    def look(self, rows: int) -> None:
        """Check the pages of the first `rows` rows, and the next page. Raises OSError if they take too much
        memory together."""
        packed = unpacked = 0
        while self.rows <= rows and (page := next(self.pages, None)):
            packed, unpacked = packed + page.packed, unpacked + page.unpacked
            require_plausible(_values_of(self.chunk), packed, unpacked, self.most_bytes)
            self.rows += 0 if page.is_dictionary else page.rows


def _values_of(chunk: Chunk) -> str:
    return f"values of column {chunk.column}"


def require_all_rows(file: RawIOBase) -> None:
    """Raise BadInput for a Parquet file of which a reader that takes its footer at its word leaves out rows,
    or reads some twice; for one that is none, or is encrypted, nothing is raised."""
    from pyarrow import ArrowException

    is_parquet = file.read(len(MAGIC)) == MAGIC
    file.seek(0)
    try:
        if is_parquet and isinstance(opened := _opened(file, InputOptions()), _Parquet):
            footer = opened.table.metadata
            groups = range(footer.num_row_groups)
            _require_all(sum(footer.row_group(group).num_rows for group in groups), footer)
    except (ArrowException, OSError) as error:
        raise BadInput(f"it cannot be read ({_brief(error)})") from error


def _require_all(given: int, footer: Any) -> None:
    if given != footer.num_rows:
        raise OSError(f"its groups have {given:,} rows, its footer counts {footer.num_rows:,}")


def _held(page: Page) -> int:
    """Bytes in memory, at least, of the values of a page: few bytes of a page may repeat one."""
    return max(page.unpacked, 0 if page.is_dictionary else _VALUE_BYTES * page.values)


def most_bytes(column: Sequence[Page], rows: int) -> int:
    """Bytes in memory, at most, of the pages that hold this many adjacent rows."""
    data = [page for page in column if not page.is_dictionary]
    most = first = within = held = 0  # within: rows between the first page and the last
    for last, page in enumerate(data):
        held += page.unpacked
        within += data[last - 1].rows if last - 1 > first else 0
        while first < last and within > rows - 2:
            held -= data[first].unpacked
            first += 1
            within -= data[first].rows if first < last else 0
        most = max(most, held)
    return most


def _is_local(file: RawIOBase) -> bool:
    try:
        return file.fileno() >= 0
    except OSError:
        return False


def require_plausible(what: str, packed: int, unpacked: int, most: int) -> None:
    """Raise OSError for what takes more bytes of memory at once than that, and only a few in the file."""
    if unpacked > most and unpacked > MOST_RATIO * packed:
        raise OSError(
            EFBIG,
            f"{what} take {unpacked:,} bytes of memory at once, {most:,} are allowed for so few bytes of a "
            f"file ({packed:,}): 16 times max_record_bytes",
        )


def rows_at_once(shared: int, rows: int) -> int:
    """Rows to read at once: `rows`, or fewer if each may copy shared values of `shared` bytes."""
    return max(1, min(rows, BATCH_BYTES // max(shared, 1)))


class _ArrowFile:
    """An Arrow file or stream, read like Parquet, batch by batch."""

    def __init__(self, file: RawIOBase, most_bytes: int, *, is_stream: bool) -> None:
        from pyarrow import ipc

        self._file = file
        self._most_bytes = most_bytes
        if is_stream:
            message_at(file, 0)  # refuses a schema that would take much memory
        else:
            require_small_footer(file)
        file.seek(0)
        self._reader: Any = ipc.open_stream(file) if is_stream else ipc.open_file(file)
        self._is_stream = is_stream
        self._looked_at, begin = 0, file.tell()  # bytes
        self._file_bytes = file.seek(0, SEEK_END)
        # Of a file: where what was not looked at begins, and the batches before it that are not listed.
        self._passed, self._unlisted = 0 if is_stream else first_message(file), 0
        file.seek(begin)
        self.schema_arrow = self._reader.schema

    def batches(self, _columns: list[str] | None) -> Iterator[Any]:
        """Batches of the file, with all columns. Raises as pyarrow, also for a stream that has no end, and
        for a file with other batches than its footer lists."""
        return self._of_stream() if self._is_stream else self._of_file()

    def _of_stream(self) -> Iterator[Any]:
        while True:
            self._require_plausible_stream()
            try:
                batch = self._reader.read_next_batch()
            except StopIteration:
                self._require_end()
                return
            yield _sound(batch)

    def _of_file(self) -> Iterator[Any]:
        for number, place in enumerate(self._places()):
            if place < self._passed:
                raise OSError("its batches overlap")
            self._pass_to(place)
            if message := self._require_plausible(place):
                self._passed = message.end
            yield _sound(self._reader.get_batch(number))
        self._pass_to(self._file_bytes)
        if self._unlisted:
            raise OSError(f"its footer leaves out {self._unlisted:,} of its batches")

    def _pass_to(self, place: int) -> None:
        """Count the batches up to a place, as far as messages follow each other."""
        with suppress(OSError):  # no message: the footer begins here
            while self._passed < place and (message := message_at(self._file, self._passed)):
                self._unlisted += message.has_rows
                self._passed = message.end
        self._passed = max(self._passed, place)

    def _places(self) -> list[int]:
        """Where the batches of a file begin. Raises OSError for dictionaries that take too much memory, and
        for a footer that pyarrow reads otherwise."""
        dictionaries, places = blocks(self._file)
        if len(places) != self._reader.num_record_batches:
            raise OSError("its footer tells otherwise where its batches are")
        for place in dictionaries:
            self._require_plausible(place)
        return places

    def _require_plausible(self, place: int) -> Message | None:
        """Raise OSError if the message there takes too much memory, or if messages overlap."""
        message = message_at(self._file, place)
        if message:
            require_plausible("rows", message.packed, message.unpacked, self._most_bytes)
            self._looked_at += message.end - place
            if self._looked_at > self._file_bytes:  # they would be read again and again
                raise OSError("its batches overlap")
        return message

    def _require_plausible_stream(self) -> None:
        """Check all messages up to the next one with rows. Raises as `_require_plausible`."""
        begin = place = self._file.tell()
        while (message := self._require_plausible(place)) and not message.has_rows:
            place = message.end
        self._file.seek(begin)

    def _require_end(self) -> None:
        """Raise OSError if a stream ends without its mark, or if something follows it."""
        end = self._file.tell()
        self._file.seek(max(end - len(_END_OF_STREAM), 0))
        if self._file.read(len(_END_OF_STREAM)) != _END_OF_STREAM:
            raise OSError("it was cut short: it has no mark of its end")
        if self._file.read(1):
            raise OSError("more data follows its end, as of several files that were joined")


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


def parquet_records(
    source: Source, file: RawIOBase, options: InputOptions, note: Callable[[str], None]
) -> Iterator[Raw | Reject]:
    """All rows of a seekable Parquet file; a reject at the end if it is damaged. note: gets what was decided
    about its texts.

    Rows are numbered from 1, like lines. Memory is bounded by pages and BATCH_BYTES, the bytes of all
    rows by those of the file.
    """
    try:
        from pyarrow import ArrowException
    except ImportError:
        reason = "Parquet is read by pyarrow, which is not installed: pip install 'simhbase[parquet]'"
        yield SourceReject(source.name, None, None, reason)
        return
    row, read = 0, 0
    detected = DetectedEncoding(lambda found: note(f"{source.name}: its texts are {found}"))
    try:
        most = _most_of_all(file.seek(0, SEEK_END), options)
        file.seek(0)
        table = _opened(file, options)
        columns = _Columns.of(table.schema_arrow, options)
        names = None if options.whole_rows else columns.names
        content = columns.content.type
        if options.encoding != "auto" and _is_text(content) and not _is_binary(content):
            note(f"{source.name}: its texts are UTF-8, as its schema says: encoding has no effect")
        for batch in table.batches(names):
            read += _BATCH_BYTES + dictionary_bytes(batch.columns) // _DICTIONARY_SHARE
            for part in parts(batch):
                if read > most:
                    raise OSError(EFBIG, _SHARED.format(read, most))
                measured, given = columns.bytes_of(part, options), 0
                for item in columns.records(source, row, part, options, detected):
                    given += _row_size(item)
                    yield item
                # Of rows that are rejected for their length only the first one is known.
                read += _ROW_BYTES * part.num_rows + max(measured, given)
                row += part.num_rows
    except BadInput as error:
        yield SourceReject(source.name, None, None, str(error))
    except (ArrowException, OSError, UnicodeDecodeError) as error:  # the last: of names of columns
        said = error.strerror if isinstance(error, OSError) else None  # from the system or a server
        if row:
            reason = f"it is damaged, and cannot be read from this row on ({_brief(error)})"
            yield Reject(source.name, row + 1, None, f"it cannot be read further: {said}" if said else reason)
        else:
            reason = f"it is damaged or was cut short: it cannot be read ({_brief(error)})"
            yield SourceReject(source.name, None, None, f"it cannot be read: {said}" if said else reason)


def _row_size(item: Raw | Reject) -> int:
    """Bytes of a row, whose text is also in its JSON line."""
    return max(len(item.data), len(item.row or b"")) if isinstance(item, Raw) else 0


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
        values = dict(zip(used.to_pylist(), _values(texts.dictionary.take(used), most), strict=True))
        return [None if index is None else values[index] for index in texts.indices.to_pylist()]


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

    def bytes_of(self, batch: Any, options: InputOptions) -> int:
        """Bytes of what is read of a batch's rows."""
        chosen = (self.id, self.content, self.value, *self.tags)
        read = batch.columns if options.whole_rows else [each.array(batch) for each in chosen if each]
        return int(row_sizes(read, batch.num_rows).sum())

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
        others = self._sizes_of_others(batch) if options.whole_rows else [0] * batch.num_rows
        # A row larger than a part is alone in it.
        is_read = options.whole_rows and max(others, default=0) <= max(PART_BYTES, options.max_record_bytes)
        lines = self._lines(batch, texts, encoding, options) if is_read else nothing
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
            elif (size := others[line - row - 1]) > options.max_record_bytes:
                yield Reject(source.name, line, row_id, too_long(size, options))
            else:
                yield Raw(source.name, line, row_id, text, value, holds, encoding, tagged, row=whole)

    def _sizes_of_others(self, batch: Any) -> list[int]:
        """Bytes of the columns of each row that are read for output files only."""
        columns = [
            column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
            if name != self.content.name
        ]
        sizes: list[int] = row_sizes(columns, batch.num_rows).tolist()
        return sizes

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


def column_types(file: BinaryIO) -> dict[str, Any]:
    """Column names of a Parquet file as in rows, with the Arrow types that their values can be converted back
    to; binary becomes text. Empty for a damaged file, and one whose footer is refused."""
    from pyarrow import ArrowException
    from pyarrow.parquet import read_schema

    try:
        small_footer(file)  # refuses what would take much memory
        schema = read_schema(file)
    except (ArrowException, OSError):
        return {}
    return dict(zip(distinct_names(schema.names), map(_of_texts, schema.types), strict=True))


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
