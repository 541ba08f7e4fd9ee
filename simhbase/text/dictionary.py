"""jieba's dictionary and model for the core, with a copy on disk that is mapped into memory.

Making the copy takes two seconds, opening it a millisecond. Its name holds a hash of everything
that it depends on. Of processes that start together one makes it, and the others wait. A damaged copy is made
again.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import runpy
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path

from simhbase._core import DICTIONARY, Dictionary, build_dictionary
from simhbase.errors import BadInput
from simhbase.logs import logger
from simhbase.text.userfile import package_folder

_STATES = "BEMS"
_IMPOSSIBLE = -3.14e100  # jieba's
_log = logger(__name__)


@cache
def dictionary() -> Dictionary:
    """Map the copy, or make it. Raises BadInput if jieba's files are missing or malformed."""
    folder = package_folder(
        "jieba", "jieba is not installed, but its dictionary is needed: pip install jieba"
    )
    path = cache_folder() / f"words-{_key(folder)}.bin"
    try:
        return _opened(path) or _made(folder, path)
    except OSError as error:
        _log.warning(
            "cannot keep jieba's dictionary in %s (%s): every process takes 2 s and 7 MB to make it. Set "
            "XDG_CACHE_HOME to a folder that can be written to",
            path.parent,
            error.strerror,
        )
        return Dictionary(_block(folder))


def cache_folder() -> Path:
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "simhbase"
    return Path(os.path.expanduser("~")) / ".cache" / "simhbase"  # noqa: PTH111  # Path.home raises without a home


def _key(folder: Path) -> str:
    of_files = [file.stat() for file in (folder / "dict.txt", *_model(folder))]
    files = [(each.st_size, each.st_mtime_ns) for each in of_files]
    return hashlib.sha256(repr((DICTIONARY, version("jieba"), files)).encode()).hexdigest()[:16]


def _model(folder: Path) -> list[Path]:
    return [folder / "finalseg" / f"prob_{name}.py" for name in ("start", "trans", "emit")]


def _opened(path: Path) -> Dictionary | None:
    """The dictionary in a file, None if there is none or it is damaged."""
    try:
        with path.open("rb") as file:
            return Dictionary(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (FileNotFoundError, ValueError):  # mmap refuses an empty file with a ValueError, too
        return None


def _made(folder: Path, path: Path) -> Dictionary:
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path.with_suffix(".lock")):
        if found := _opened(path):
            return found  # another process made it
        block = _block(folder)
        _write(path, block)
    return Dictionary(block)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _write(path: Path, block: bytes) -> None:
    """Write beside and rename: a file that other processes have mapped never changes."""
    descriptor, part = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(block)
        Path(part).replace(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def _block(folder: Path) -> bytes:
    starts, transitions, emissions = (runpy.run_path(str(file))["P"] for file in _model(folder))
    try:
        return build_dictionary(
            (folder / "dict.txt").read_text("utf-8"),
            [starts[state] for state in _STATES],
            [[transitions[one].get(other, _IMPOSSIBLE) for other in _STATES] for one in _STATES],
            [emissions[state] for state in _STATES],
        )
    except ValueError as error:
        raise BadInput(f"{folder / 'dict.txt'}, {error}: install jieba again") from error
