"""jieba's dictionary and model for the core, with a copy on disk that is mapped into memory.

Making the copy takes two seconds, opening it a millisecond. Its name holds a hash of everything that it
depends on. A damaged copy is made again.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from functools import cache
from pathlib import Path

from simhbase._core import DICTIONARY, Dictionary
from simhbase.text.packages import package_folder


@cache
def dictionary() -> Dictionary:
    """Map the copy, or make it. Raises BadInput if jieba's files are missing or malformed."""
    folder = package_folder(
        "jieba", "jieba is not installed, but its dictionary is needed: pip install jieba"
    )
    path = cache_folder() / f"words-{_key(folder)}.bin"
    if found := opened(path):
        return found
    from simhbase.text.dictionary_copy import make  # needed once in the life of the copy

    return make(folder, path)


def cache_folder() -> Path:
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "simhbase"
    return Path(os.path.expanduser("~")) / ".cache" / "simhbase"  # noqa: PTH111  # Path.home raises without a home


def _key(folder: Path) -> str:
    files = [file.stat() for file in (folder / "dict.txt", *model(folder))]
    sizes = [(each.st_size, each.st_mtime_ns) for each in files]
    start = (folder / "__init__.py").read_bytes()  # holds the version
    return hashlib.sha256(repr((DICTIONARY, sizes)).encode() + start).hexdigest()[:16]


def model(folder: Path) -> list[Path]:
    """Files of jieba's model for words that are not in the dictionary."""
    return [folder / "finalseg" / f"prob_{name}.py" for name in ("start", "trans", "emit")]


def opened(path: Path) -> Dictionary | None:
    """The dictionary in a file, None if there is none or it is damaged."""
    try:
        with path.open("rb") as file:
            return Dictionary(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError):  # mmap refuses an empty file with a ValueError, too
        return None
