"""Makes the copy of jieba's dictionary that dictionary.py maps. Of processes that start together one makes
it, and the others wait."""

from __future__ import annotations

import fcntl
import os
import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from simhbase._core import Dictionary, build_dictionary
from simhbase.errors import BadInput
from simhbase.process.logs import logger
from simhbase.process.plain_files import refuse_prepared, write_whole
from simhbase.text.dictionary import model, opened

_STATES = "BEMS"
_IMPOSSIBLE = -3.14e100  # jieba's
_log = logger(__name__)


def make(folder: str, path: str) -> Dictionary:
    """Make the copy of the dictionary of the jieba in `folder`, or take that of another process. Where it
    cannot be kept, says once what that costs. Raises BadInput if jieba's files are malformed."""
    try:
        return _made(folder, Path(path))
    except OSError as error:
        _log.warning(
            "cannot keep jieba's dictionary in %s (%s): every process takes 2 s and 7 MB to make it. Set "
            "XDG_CACHE_HOME to a folder that can be written to",
            Path(path).parent,
            error.strerror,
        )
        return Dictionary(_block(folder))


def _made(folder: str, path: Path) -> Dictionary:
    path.parent.mkdir(parents=True, exist_ok=True)
    for above in path.absolute().parents:
        refuse_prepared(above)  # others may have put links and pipes into it
    with _alone(path.with_suffix(".lock")):
        if found := opened(str(path)):
            return found  # another process made it
        block = _block(folder)
        write_whole(path, block)  # other processes may have mapped the file that is there
    return Dictionary(block)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Holds a lock, which no other user can: any could that may read the file."""
    how = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    with os.fdopen(os.open(path, how, 0o600), "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _block(folder: str) -> bytes:
    starts, transitions, emissions = (runpy.run_path(file)["P"] for file in model(folder))
    words = Path(folder, "dict.txt")
    try:
        return build_dictionary(
            words.read_text("utf-8"),
            [starts[state] for state in _STATES],
            [[transitions[one].get(other, _IMPOSSIBLE) for other in _STATES] for one in _STATES],
            [emissions[state] for state in _STATES],
        )
    except ValueError as error:
        raise BadInput(f"{words}, {error}: install jieba again") from error
