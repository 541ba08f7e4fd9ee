"""jieba's dictionary and model for the core, with a copy on disk that is mapped into memory.

Making the copy takes two seconds, opening it a millisecond. Its name holds a hash of everything that it
depends on. A damaged copy is made again.

Paths are strings here: every process that fingerprints needs this, and pathlib takes longer to import than
the copy to open.
"""

from __future__ import annotations

import mmap
import os
import stat
from functools import cache

from mmh3 import hash_bytes

from simhbase._core import DICTIONARY, Dictionary
from simhbase.text.packages import package_folder


@cache
def dictionary() -> Dictionary:
    """Map the copy, or make it. Raises BadInput if jieba's files are missing or malformed."""
    folder = package_folder(
        "jieba", "jieba is not installed, but its dictionary is needed: pip install jieba"
    )
    path = os.path.join(cache_folder(), f"words-{_key(folder)}.bin")
    if found := opened(path):
        return found
    from simhbase.text.dictionary_making import make  # needed once in the life of the copy

    return make(folder, path)


def cache_folder() -> str:
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(caches, "simhbase")


def _key(folder: str) -> str:
    files = [os.stat(file) for file in (os.path.join(folder, "dict.txt"), *model(folder))]
    sizes = [(each.st_size, each.st_mtime_ns) for each in files]
    with open(os.path.join(folder, "__init__.py"), "rb") as file:
        start = file.read()  # holds the version
    return hash_bytes(repr((DICTIONARY, sizes)).encode() + start).hex()[:16]


def model(folder: str) -> list[str]:
    """Files of jieba's model for words that are not in the dictionary."""
    return [os.path.join(folder, "finalseg", f"prob_{name}.py") for name in ("start", "trans", "emit")]


def opened(path: str) -> Dictionary | None:
    """The dictionary in a file, None if there is none, it is damaged, or another user may have made it."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        # As `refuse_prepared`, whose module takes longer to import.
        while folder != (parent := os.path.dirname(folder)):
            above = os.stat(parent)
            if above.st_mode & stat.S_ISVTX and os.lstat(folder).st_uid not in (os.geteuid(), above.st_uid):
                return None
            folder = parent
        with open(path, "rb") as file:
            return Dictionary(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError):  # mmap refuses an empty file with a ValueError, too
        return None
