"""What the names of files tell of their formats."""

from __future__ import annotations

from pathlib import PurePath

from simhbase.corpus.record import FORMATS, Format
from simhbase.errors import UsageError

STDIN = "-"
SUFFIXES = (".gz", ".zst", ".bz2", ".xz")  # of compressed files
_BY_EXTENSION: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "text",
    ".md": "text",
    ".html": "html",
    ".htm": "html",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".warc": "warc",
    ".wet": "warc",  # of Common Crawl
}
# Of files that programs may look for, and that are not written.
NOT_WRITTEN = (".bz2", ".xz", ".lz4", ".zip", ".7z", ".tar", ".xlsx", ".xls", ".ods", ".avro", ".orc")
JSON_LINES_NOT = "JSON lines are written, not {}: name it .jsonl, or .jsonl.gz or .jsonl.zst"
EXTENSIONS = tuple(_BY_EXTENSION)
FORMATS_OF_PAGES = ("html", "warc")
WITHOUT_FIELDS: tuple[Format, ...] = ("html", "warc", "text", "lines")
WITH_FIELDS: tuple[Format, ...] = tuple(each for each in FORMATS if each not in WITHOUT_FIELDS)


def format_of(name: str) -> Format | None:
    """The format given by a file's name, also before .gz etc.; None if unknown."""
    path = PurePath(name.lower())
    if path.suffix in SUFFIXES:
        path = path.with_suffix("")
    return _BY_EXTENSION.get(path.suffix)


def require_lines(name: str, option: str | None = None) -> None:
    """Raise UsageError if the name of a file of JSON lines promises another format."""
    ending = PurePath(name).suffix
    if ending.lower() in NOT_WRITTEN or format_of(name) not in (None, "jsonl"):
        raise UsageError(f"{name}: {JSON_LINES_NOT.format(ending)}", parameter=option)


def plain_name(name: str) -> str:
    """The name of a file without folder and format endings."""
    path = PurePath(name)
    if path.suffix.lower() in SUFFIXES:
        path = path.with_suffix("")
    return path.stem if path.suffix.lower() in _BY_EXTENSION else path.name
