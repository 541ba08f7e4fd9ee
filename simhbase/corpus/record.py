"""What passes between reading, parsing and writing: raw records, records, rejects."""

from __future__ import annotations

import codecs
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from simhbase.errors import BadInput, UsageError
from simhbase.text.encoding import decode

if TYPE_CHECKING:
    from simhbase.index.tags import Tags

Format = Literal["jsonl", "csv", "tsv", "text", "html", "lines", "parquet", "warc"]
FORMATS: tuple[Format, ...] = get_args(Format)
IdFrom = Literal["field", "line", "path", "text"]
IDS_FROM: tuple[IdFrom, ...] = get_args(IdFrom)

MAX_RECORD_BYTES = 16 << 20
# What to do where the value_field is missing.
VALUE_HINT = "keep by another field, or name the date field"
TAG_HINT = "name another tag field"  # the same of a field whose value is a tag


@dataclass(frozen=True, slots=True)
class InputOptions:
    """How files are read.

    format: jsonl, csv, tsv, parquet, warc, text (a file a document), html (the same, of a page's main text)
    or lines (a line a document); None goes by each file's name and takes JSON lines where the name says
    nothing. html: what the text_field holds is HTML, of which the main text is taken. id_field, text_field
    and fingerprint_field name JSON fields (a dot steps into objects, where the whole name is no key of the
    record), CSV columns or Parquet's (a dot steps into structs); with a fingerprint_field they have a
    fingerprint (hexadecimal, `fingerprint_bits` long) in place of a text. id_from: ids are those of the
    id_field where a format has fields; line: the source and the line of each document; path: the same with
    the absolute path of the source's file, links followed, however it was named; text: 16 hex digits of
    a hash of its text, which are the same wherever it comes from. id_prefix is put before every id; {file} in
    it stands for the name of the document's file, without folder and endings. encoding is one of Python's, or
    auto (UTF-8, UTF-16 with a byte order mark, or else GB18030). delimiter is that of csv, by default a
    comma. A record of more than max_record_bytes is rejected. value_field names one more
    field or column, that documents are preferred by. whole_rows: rows of CSV and Parquet are read with all
    their columns, as JSON objects, for what is written out. tags: of all documents; tag_fields: names of
    further tags, and the fields or columns that hold their values. The jobs set the last four.

    Raises UsageError for options out of their range.
    """

    format: Format | None = None
    id_field: str = "id"
    id_from: IdFrom = "field"
    text_field: str = "text"
    fingerprint_field: str | None = None
    fingerprint_bits: int = 64
    id_prefix: str = ""
    encoding: str = "utf-8"
    delimiter: str = ","
    max_record_bytes: int = MAX_RECORD_BYTES
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
        if self.html and self.fingerprint_field is not None:
            raise UsageError("fingerprints are no HTML: leave it out", parameter="html")
        if self.max_record_bytes < 1:
            raise UsageError(f"must be at least 1, not {self.max_record_bytes}", parameter="max_record_bytes")
        decode(b"", self.encoding)
        has_lines = self.format not in ("text", "html")
        if has_lines and self.encoding != "auto" and "\n".encode(self.encoding) != b"\n":
            raise UsageError(
                f"{self.encoding!r} does not end lines with the byte 0a: "
                f"convert first (iconv -f {self.encoding} -t utf-8)",
                parameter="encoding",
            )
        encoding = "gb18030" if self.encoding == "auto" else self.encoding
        if self.format in (None, "csv") and _is_part_of_characters(self.delimiter, encoding):
            raise UsageError(
                f"the byte of {self.delimiter!r} is also the second one of other characters in {encoding}. "
                f"Convert first (iconv -f {encoding} -t utf-8), or use another delimiter",
                parameter="delimiter",
            )

    @property
    def content_field(self) -> str:
        """The field that holds what a record is about: its fingerprint or its text."""
        return self.fingerprint_field or self.text_field

    @property
    def id_hint(self) -> str:
        """What to do where the field of the id is missing."""
        return "name another id field, or make ids of lines or texts"

    @property
    def content_hint(self) -> str:
        """What to do where the field of the content is missing."""
        return f"name another {'fingerprint' if self.fingerprint_field else 'text'} field"

    def decode(self, data: bytes) -> str:
        """The text that bytes of a file stand for. Raises BadInput naming the option."""
        try:
            return decode(data, self.encoding)
        except BadInput as error:
            automatic = self.encoding == "auto"
            hint = "name its encoding" if automatic else "encoding auto reads GB18030, too"
            raise BadInput(f"{error}: {hint}") from error


def _is_part_of_characters(character: str, encoding: str) -> bool:
    """Whether the byte of an ASCII character may come second in another one's."""
    for lead in range(0x80, 0x100):
        with suppress(UnicodeDecodeError):
            decoder = codecs.getincrementaldecoder(encoding)()
            if not decoder.decode(bytes([lead, ord(character)])).endswith(character):
                return True
    return False


def too_long(size: int, options: InputOptions) -> str:
    """Why a record of so many bytes is rejected."""
    most = f"at most {options.max_record_bytes:,} are read"
    return f"the record has {size:,} bytes or more, {most} (max_record_bytes)"


@dataclass(frozen=True, slots=True)
class Source:
    """Where records come from: its name for people, and the id of a document that has none of its own."""

    name: str
    id: str

    def id_of_line(self, line: int, options: InputOptions) -> str | None:
        """The id of a document that begins in a line, None where it is made of its text."""
        return None if options.id_from == "text" else f"{self.id}:{line}"


class Raw(NamedTuple):
    """A record as it was cut out of its source, cheap to send to another process.

    line: where it begins, from 1. id: as bytes where the file holds it, as text where it is made of the
    file's name, None where it is in the JSON object or made of the text. data: the bytes of the text or
    fingerprint, of a page of HTML, or of a JSON object. value: the cell of the value_field, if a row has one.
    encoding: that of the bytes, where the file says it; None for that of the options. tags: the cells of the
    tag_fields, if it is a row.
    """

    source: str
    line: int
    id: bytes | str | None
    data: bytes
    value: bytes | None = None
    holds: Literal["text", "page", "json"] = "text"
    encoding: str | None = None
    tags: tuple[bytes | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """A document of a source, with a text or, where fingerprints are read, a fingerprint.

    json: the JSON line it came from, in UTF-8 and without the line break (see WithItsId for
    one with an id prefix), or that of a whole row; None in other formats. value: what the document is
    preferred by, if it has that.
    """

    source: str
    line: int
    id: str
    text: str | None = None
    fingerprint: int | None = None
    json: bytes | None = None
    value: Value | None = None
    tags: Tags = ()


@dataclass(frozen=True, slots=True)
class Reject:
    """What could not be read, and why. line and id are None where they are not known."""

    source: str
    line: int | None
    id: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class SourceReject(Reject):
    """A whole source that could not be read: it stands for no record."""


@dataclass(frozen=True, slots=True)
class WithoutFingerprint(Reject):
    """A document whose text has too little for a fingerprint, as it may be written out."""

    record: Record


Chunk = list[Raw | Reject]  # in input order, of bounded count and bytes


def chunk_bytes(chunk: Chunk) -> int:
    """What the records of a chunk have in bytes."""
    return sum(len(item.data) for item in chunk if isinstance(item, Raw))


Value = str | int | float
