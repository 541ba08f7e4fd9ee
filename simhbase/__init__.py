"""simhbase: have we already seen this text, or one almost like it?

The public names; each is imported when it is first used, so that the command line starts quickly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
    from simhbase.index import Index
    from simhbase.index import open_index as open  # noqa: A004  # read as simhbase.open
    from simhbase.model import AddReport, Document, Lookup, Match, Rejected
    from simhbase.profile import Profile

__all__ = ["AddReport", "Document", "Index", "Lookup", "Match", "Profile", "Rejected", "open"]

_HOMES = {
    "AddReport": ("simhbase.model", "AddReport"),
    "Document": ("simhbase.model", "Document"),
    "Index": ("simhbase.index", "Index"),
    "Lookup": ("simhbase.model", "Lookup"),
    "Match": ("simhbase.model", "Match"),
    "Profile": ("simhbase.profile", "Profile"),
    "Rejected": ("simhbase.model", "Rejected"),
    "open": ("simhbase.index", "open_index"),
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("simhbase")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value
