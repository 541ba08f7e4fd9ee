"""Raw records, records and rejects, which pass between reading, parsing and writing."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from simhbase.errors import BadInput, UsageError
from simhbase.text.encoding import decode_all, is_wide

if TYPE_CHECKING:
    from simhbase.index.tags import Tags

Base = Literal[16, 10]
BASES: tuple[Base, ...] = get_args(Base)
Quoting = Literal["csv", "none", "backslash"]
QUOTINGS: tuple[Quoting, ...] = get_args(Quoting)
Format = Literal["jsonl", "csv", "tsv", "text", "html", "lines", "parquet", "arrow", "warc"]
FORMATS: tuple[Format, ...] = get_args(Format)
IdFrom = Literal["field", "line", "path", "text"]
IDS_FROM: tuple[IdFrom, ...] = get_args(IdFrom)

# The encoding of texts that a program holds: UTF-8, also of halves of surrogate pairs.
AS_GIVEN = "as given"
MAX_RECORD_BYTES = 16 << 20
CHUNK_RECORDS, CHUNK_BYTES = 512, 1 << 20
# Advice if a field is missing.
TEXT_HINT = "name another text field (text_field)"
FINGERPRINT_HINT = "name another fingerprint field (fingerprint_field)"
ID_HINT = "name another id field (id_field), or make ids of lines or texts (id_from)"
VALUE_HINT = "keep by another field, or name the date field"
TAG_HINT = "name another tag field (tag_fields)"


@dataclass(frozen=True, slots=True)
class InputOptions:
    """How files are read.

    format: jsonl, csv, tsv, parquet, arrow (also Feather), warc, text (one document per file), html (the
    same, with the main text of a page) or lines (one document per line); None uses each file's ending, or
    jsonl if that is unknown. html: text_field contains HTML, of which the main text is extracted. id_field,
    text_field, fingerprint_field: JSON fields (a dot steps into objects, unless the record has the whole
    name as a key) or columns of CSV or Parquet (a dot steps into structs); fingerprint_field has
    fingerprints of `fingerprint_bits` bits in place of texts: integers (also signed ones, as two's
    complement), or texts in digits of fingerprint_base, 16 or 10. None: what the first 1,000 texts
    of a source show: 0x, or a letter among 16 digits, says 16; a minus sign, or 17 to 20 decimal digits, 10;
    a source that shows neither is refused. id_from: field: the id_field, in formats
    with fields; line: source and line; path: the same with the absolute path of the file, links resolved;
    text: 16 hex digits of a hash of the text. id_prefix: put before every id; {file} is the file's name
    without folder and endings. encoding: a Python encoding, or auto: UTF-8, UTF-16 and UTF-32 with a byte
    order mark, or GB18030 for a source whose first texts beyond ASCII are Chinese in it, and not UTF-8;
    other texts are rejected. delimiter: for csv, by default a comma. quoting: csv (cells may be in quotes,
    which are doubled within), none (quotes are part of the texts) or backslash (as COPY of PostgreSQL and
    SELECT INTO OUTFILE of MySQL write: quotes are part of the texts, a backslash begins an escape, and \\N is
    NULL); None: csv, between tabs by what the file shows. max_record_bytes: larger records are rejected.
    value_field: a field or column to choose duplicates by. whole_rows: keep JSON lines, and read CSV and
    Parquet rows with all columns, as JSON objects, for output files. follow_links: also read what links
    name that lead out of a given folder or glob, each folder once, and where a web server leads to this
    machine or network. zstd_long: zstd files made with --long up
    to this are read, which takes 2^zstd_long bytes of memory; None: 27, like zstd. escape_formulas: in CSV
    and TSV that are written, put an apostrophe before texts that spreadsheets take for formulas. tags: for
    all documents; tag_fields: names of further tags, with the fields or columns of their values. Jobs set
    the last four.

    Raises UsageError for invalid options.
    """

    format: Format | None = None
    id_field: str = "id"
    id_from: IdFrom = "field"
    text_field: str = "text"
    fingerprint_field: str | None = None
    fingerprint_base: Base | None = None
    fingerprint_bits: int = 64
    id_prefix: str = ""
    encoding: str = "auto"
    delimiter: str = ","
    quoting: Quoting | None = None
    max_record_bytes: int = MAX_RECORD_BYTES
    follow_links: bool = False
    zstd_long: int | None = None
    escape_formulas: bool = False
    value_field: str | None = None
    html: bool = False
    whole_rows: bool = False
    tags: Tags = ()
    tag_fields: Tags = ()

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise UsageError(f"{self.format!r} is none of {', '.join(FORMATS)}", parameter="format")
        if self.id_from not in IDS_FROM:
            raise UsageError(f"{self.id_from!r} is none of {', '.join(IDS_FROM)}", parameter="id_from")
        if self.id_from == "text" and self.fingerprint_field is not None:
            raise UsageError("fingerprints have no text to make ids of", parameter="id_from")
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n':
            raise UsageError(
                f"must be one ASCII character, no quote and no line break, not {self.delimiter!r}",
                parameter="delimiter",
            )
        if self.quoting not in (None, *QUOTINGS):
            raise UsageError(f"{self.quoting!r} is none of {', '.join(QUOTINGS)}", parameter="quoting")
        if self.fingerprint_base not in (None, *BASES):
            raise UsageError(f"{self.fingerprint_base!r} is neither 16 nor 10", parameter="fingerprint_base")
        if self.html and self.fingerprint_field is not None:
            raise UsageError("fingerprints are no HTML: leave it out", parameter="html")
        if self.max_record_bytes < 1:
            raise UsageError(f"must be at least 1, not {self.max_record_bytes}", parameter="max_record_bytes")
        if self.zstd_long is not None and not 10 <= self.zstd_long <= 31:
            raise UsageError(f"must be from 10 to 31, not {self.zstd_long}", parameter="zstd_long")
        decode_all(b"", self.encoding)
        if unknown := re.search(r"\{[^}]*\}?|\}", self.id_prefix.replace("{file}", "")):
            raise UsageError(
                f"{unknown[0]} stands for nothing: {{file}} is the file's name", parameter="id_prefix"
            )
        parts = {"delimiter": self.delimiter} if self.format in (None, "csv") else {}
        if self.quoting == "backslash":
            parts["quoting"] = "\\"
        for parameter, part in parts.items() if self.encoding != "auto" else ():
            if problem := problem_of_part(part, self.encoding):
                advice = f"Convert first (iconv -f {self.encoding} -t utf-8), or use another {parameter}"
                raise UsageError(f"{problem}. {advice}", parameter=parameter)

    @property
    def content_field(self) -> str:
        """The field with the text or fingerprint."""
        return self.fingerprint_field or self.text_field

    @property
    def content_hint(self) -> str:
        """Advice if the content field is missing."""
        return FINGERPRINT_HINT if self.fingerprint_field else TEXT_HINT

    def decode(self, data: bytes, encoding: str | None = None) -> str:
        """Decode bytes of a record, without a byte order mark. Otherwise as `decode_cell`."""
        text = self.decode_cell(data, encoding)
        return text if encoding == AS_GIVEN else text.removeprefix("\ufeff")

    def decode_cell(self, data: bytes, encoding: str | None = None) -> str:
        """Decode bytes of a part of a record. encoding: of these, if it is known. Raises BadInput, with
        advice if it is not."""
        if encoding == AS_GIVEN:
            return data.decode(errors="surrogatepass")
        try:
            return decode_all(data, encoding or self.encoding)
        except BadInput as error:
            if encoding not in (None, "utf-8"):
                raise
            told, _, where = str(error).partition(": ")
            told = told.replace("utf-8", "UTF-8")
            raise BadInput(f"{told}: name its encoding (encoding), {where}") from error


def problem_of_part(part: str, encoding: str) -> str | None:
    """Why cells of an encoding cannot be parted by the byte of an ASCII character; None if they can."""
    if encoding == "auto" or is_wide(encoding):  # converted before
        return None
    if _is_part_of_characters(part, encoding):
        return f"the byte of {part!r} is also the second one of other characters in {encoding}"
    return None


def _is_part_of_characters(character: str, encoding: str) -> bool:
    """True if the byte of an ASCII character may be the second byte of another one."""
    for lead in range(0x80, 0x100):
        both = bytes([lead, ord(character)])
        with suppress(UnicodeDecodeError):
            text = codecs.getincrementaldecoder(encoding)().decode(both)
            if text and not text.endswith(character):
                return True
            if not text and _goes_on(both, encoding):
                return True
    return False


def _goes_on(begin: bytes, encoding: str) -> bool:
    """True if a third byte may follow two of a character."""
    for third in range(0x100):
        with suppress(UnicodeDecodeError):
            codecs.getincrementaldecoder(encoding)().decode(begin + bytes([third]))
            return True
    return False


def too_long(size: int, options: InputOptions) -> str:
    """Why a record of this size is rejected."""
    most = f"at most {options.max_record_bytes:,} are read"
    return f"the record has {size:,} bytes or more, {most} (max_record_bytes)"


@dataclass(frozen=True, slots=True)
class TooLong:
    """Stands for a line or value that was not read because it is too long."""

    bytes: int


@dataclass(frozen=True, slots=True)
class Source:
    """A source of records: its public name, and ids for documents without their own."""

    name: str
    id: str

    def id_of_line(self, line: int, options: InputOptions) -> str | None:
        """The id of a document that starts in a line, None if it is derived from its text."""
        return None if options.id_from == "text" else f"{self.id}:{line}"


class Raw(NamedTuple):
    """An unparsed record.

    line: where it begins, from 1. id: bytes from the file, a string derived from the file's name, or None if
    it is in the JSON object or derived from the text. data: bytes of a text, fingerprint, HTML page or JSON
    object, or the decimal digits of an integer (a fingerprint). value: the cell of value_field, for rows.
    encoding: of the bytes, if the file states it; None uses the options. tags: the cells of tag_fields, for
    rows. is_named: False for a row of a program without an id, whose name is compared with no other. base:
    of the digits of a fingerprint, where the options do not say it. row: all cells of its row, as one JSON
    line, if whole rows are kept.
    """

    source: str
    line: int
    id: bytes | str | None
    data: bytes
    value: bytes | None = None
    holds: Literal["text", "page", "json", "integer"] = "text"
    encoding: str | None = None
    tags: tuple[bytes | None, ...] = ()
    is_named: bool = True
    base: Base = 16
    row: bytes | None = None


class Record(NamedTuple):
    """A document of a source, with a text or a fingerprint.

    json: with `whole_rows` its JSON line, in UTF-8 and without line break (see with_its_id for ids with a
    prefix), or that of a whole row; None in other formats. value: for choosing which duplicate to keep, if
    present. is_named: as in Raw. title: of a page.
    """

    source: str
    line: int
    id: str
    text: str | None = None
    fingerprint: int | None = None
    json: bytes | None = None
    value: Value | None = None
    tags: Tags = ()
    is_named: bool = True
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Reject:
    """A record that could not be used, and why. line and id: None if unknown."""

    source: str
    line: int | None
    id: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class SourceReject(Reject):
    """A source that could not be read."""


@dataclass(frozen=True, slots=True)
class WithoutFingerprint(Reject):
    """A document with too few features for a fingerprint, in the form to write out."""

    record: Record


Chunk = list[Raw | Reject]  # in input order, of bounded count and bytes
ReadItems = Sequence[Raw | Record | Reject]  # a chunk, parsed if it held HTML


def size_of(items: ReadItems) -> int:
    """Size of the records of a chunk, in bytes; of parsed ones in characters."""
    raw = sum(len(item.data) + len(item.row or b"") for item in items if isinstance(item, Raw))
    return raw + sum(len(item.text or "") for item in items if isinstance(item, Record))


def chunked(items: Iterable[Raw | Reject]) -> Iterator[Chunk]:
    """Records in chunks of at most CHUNK_RECORDS, and at most CHUNK_BYTES except for single larger ones."""
    chunk: Chunk = []
    size = 0
    for item in items:
        further = len(item.data) + len(item.row or b"") if isinstance(item, Raw) else 0
        if chunk and (len(chunk) == CHUNK_RECORDS or size + further > CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(item)
        size += further
        if size > CHUNK_BYTES:  # a large record: yield before reading the next one
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


Value = str | int | float
