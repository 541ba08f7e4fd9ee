"""Reads users' small files as a whole: word lists, profiles, tokens; compressed or not."""

from __future__ import annotations

from pathlib import Path

from simhbase.errors import BadInput
from simhbase.model.urls import redacted
from simhbase.process.plain_files import open_plain
from simhbase.text.boilerplate import Boilerplate
from simhbase.text.idf import IdfTable
from simhbase.text.packing import Rereadable, RereadablePipe, Unreadable, unpacked

MOST_BYTES = 1 << 30


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


def read_utf8(path: Path, kind: str, most: int = MOST_BYTES, *, plain: bool = False) -> bytes:
    """Read a file in UTF-8, decompressed if its first bytes say so. kind: its name in messages; most: bytes,
    when unpacked; plain: refuses pipes and devices, which a service would wait for. Raises BadInput."""
    content = bytearray()
    try:
        with open_plain(path) if plain else path.open("rb") as file:
            for part in unpacked((Rereadable if file.seekable() else RereadablePipe)(file)):
                content += part
                if len(content) > most:
                    raise BadInput(f"the {kind} {path} has more than {most >> 20:,} MiB: is it another file?")
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"the {kind} {path} is not UTF-8 at byte {error.start}") from error
    except Unreadable as error:
        raise BadInput(f"the {kind} {path} cannot be read: {error}") from error
    except OSError as error:
        raise BadInput(f"cannot read the {kind} {redacted(str(path))}: {error.strerror}") from error
    return bytes(content)
