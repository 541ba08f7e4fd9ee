"""What the names of files tell of their formats."""

from __future__ import annotations

from pathlib import PurePath

from simhbase.corpus.record import Format

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
EXTENSIONS = tuple(_BY_EXTENSION)
FORMATS_OF_PAGES = ("html", "warc")
WITHOUT_FIELDS: tuple[Format, ...] = ("html", "warc", "text", "lines")


def format_of(name: str) -> Format | None:
    """The format given by a file's name, also before .gz etc.; None if unknown."""
    path = PurePath(name.lower())
    if path.suffix in SUFFIXES:
        path = path.with_suffix("")
    return _BY_EXTENSION.get(path.suffix)


def plain_name(name: str) -> str:
    """The name of a file without folder and format endings."""
    path = PurePath(name)
    if path.suffix.lower() in SUFFIXES:
        path = path.with_suffix("")
    return path.stem if path.suffix.lower() in _BY_EXTENSION else path.name
