"""Reads users' word lists: stop words, IDF tables and boilerplate, compressed or not."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from simhbase.errors import BadInput
from simhbase.model.urls import redacted
from simhbase.text.boilerplate import Boilerplate
from simhbase.text.idf import IdfTable
from simhbase.text.packing import Rereadable, Unreadable, unpacked


def read_table(path: Path) -> IdfTable:
    """Read an IDF file. Raises BadInput if it is missing or malformed."""
    table = IdfTable(path.name, read_utf8(path, "IDF file"))
    _ = table.weights
    return table


def read_boilerplate(path: Path) -> Boilerplate:
    """Read a boilerplate file. Raises BadInput if it is missing or malformed."""
    boilerplate = Boilerplate(path.name, read_utf8(path, "boilerplate file"))
    _ = boilerplate.entries
    return boilerplate


def read_utf8(path: Path, kind: str) -> bytes:
    """Read a file in UTF-8, decompressed if its first bytes say so. kind: its name in messages. Raises
    BadInput."""
    try:
        content = b"".join(unpacked(Rereadable(BytesIO(path.read_bytes()))))
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"the {kind} {path} is not UTF-8 at byte {error.start}") from error
    except Unreadable as error:
        raise BadInput(f"the {kind} {path} cannot be read: {error}") from error
    except OSError as error:
        raise BadInput(f"cannot read the {kind} {redacted(str(path))}: {error.strerror}") from error
    return content
