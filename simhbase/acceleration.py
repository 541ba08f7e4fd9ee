"""Decides when to use loops compiled by Numba (the extra `fast`). Results are the same without them.

Loading them takes about a second, and the first compilation half a minute. So a process switches to them
after it has worked about that long without. A process with latency requirements calls `prepare` first.
"""

from __future__ import annotations

from importlib import import_module
from threading import Lock
from types import ModuleType

from simhbase.logs import logger

_WORTH_LOADING = 1 << 20  # characters of text, which take about as long without Numba as loading it
_TEXT, _FINGERPRINT = "simhbase.text.compiled", "simhbase.fingerprint.loops"

_spent = 0
_modules: dict[str, ModuleType | None] = {}  # loaded modules; None if loading failed
_loading = Lock()
_log = logger(__name__)


def text_loops(characters: int) -> ModuleType | None:
    """`simhbase.text.compiled` for texts with this many characters, or None if it is not worthwhile."""
    return _loops(_TEXT, characters)


def fingerprint_loops(characters: int = 0) -> ModuleType | None:
    """`simhbase.fingerprint.loops` for work equivalent to texts with this many characters, or None."""
    return _loops(_FINGERPRINT, characters)


def prepare() -> bool:
    """Load and compile all loops now. Returns True if they are available."""
    with _loading:
        text, fingerprint = _loaded(_TEXT), _loaded(_FINGERPRINT)
    return text is not None and fingerprint is not None


def _loops(name: str, characters: int) -> ModuleType | None:
    global _spent
    if name in _modules:
        return _modules[name]
    _spent += characters  # a race between threads only makes it less exact
    # The current texts do not count yet. While another thread loads, this one works without the loops.
    if _spent - characters < _WORTH_LOADING or not _loading.acquire(blocking=False):
        return None
    try:
        return _loaded(name)
    finally:
        _loading.release()


def _loaded(name: str) -> ModuleType | None:
    if name in _modules:
        return _modules[name]
    _modules[name] = None
    try:
        loops = import_module(name)
        loops.prepare()
        _modules[name] = loops
    except ImportError:
        pass  # without the extra
    except Exception as error:  # Numba's own, of a cache that is damaged or has no folder it may write to
        _log.warning(
            "cannot load the compiled loops of %s, fingerprints will take longer (%s: %s): "
            "set NUMBA_CACHE_DIR to an empty folder that can be written to",
            name,
            type(error).__name__,
            error,
        )
    return _modules[name]
