"""When to use the loops that Numba compiles (the extra `fast`). Results are the same without them.

Importing Numba takes a third of a second, and the first process of a user compiles for ten. So a process
switches to the loops once it has worked about as long without them. A process that answers one text at a
time, where the switch would delay one answer, calls `prepare` first.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from threading import Lock
from types import ModuleType

from simhbase.logs import logger

_WORTH_LOADING = 1 << 20  # characters of text, which take about as long without Numba as loading it
_TEXT, _FINGERPRINT = "simhbase.text.compiled", "simhbase.fingerprint.loops"

_spent = 0
_loading = Lock()
_log = logger(__name__)


def text_loops(characters: int) -> ModuleType | None:
    """`simhbase.text.compiled` for texts of so many characters, or None where they go without it."""
    return _loops(_TEXT, characters)


def fingerprint_loops(characters: int = 0) -> ModuleType | None:
    """`simhbase.fingerprint.loops` for what is as much work as texts of so many characters, or None."""
    return _loops(_FINGERPRINT, characters)


def prepare() -> bool:
    """Load and compile all loops now. Returns whether they are there."""
    text, fingerprint = _load(_TEXT), _load(_FINGERPRINT)
    return text is not None and fingerprint is not None


def _loops(name: str, characters: int) -> ModuleType | None:
    global _spent
    if _spent < _WORTH_LOADING:
        _spent += characters  # of two threads one may be lost: it is a guess anyway
        return None
    return _load(name)


def _load(name: str) -> ModuleType | None:
    global _spent
    with _loading:  # so that no two threads compile the same
        _spent = _WORTH_LOADING
        return _loaded(name)


@cache
def _loaded(name: str) -> ModuleType | None:
    try:
        loops = import_module(name)
        loops.prepare()
    except ImportError:
        return None  # without the extra
    except Exception as error:  # Numba's own, of a cache that is damaged or has no folder it may write to
        _log.warning(
            "the compiled loops of %s cannot be loaded, and fingerprints take longer (%s: %s): "
            "set NUMBA_CACHE_DIR to an empty folder that may be written to",
            name,
            type(error).__name__,
            error,
        )
        return None
    return loops
