"""Stores by URL. A backend is imported only when its scheme is asked for."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from simhbase.errors import UsageError
from simhbase.stores.base import Access, Store

_BACKENDS = {
    "memory": "simhbase.stores.memory",
    "rocksdb": "simhbase.stores.rocksdb",
    "hbase": "simhbase.stores.hbase",
}


def open_store(url: str, access: Access) -> Store:
    """Opens a store that exists. Raises TablesMissing, StoreBusy, StoreUnreachable, UsageError."""
    return _backend(url).open_store(url, access)  # type: ignore[no-any-return]  # a module is untyped


def create_store(url: str) -> Store:
    """Opens a store for writing and makes what is missing of it; may be repeated."""
    return _backend(url).create_store(url)  # type: ignore[no-any-return]  # a module is untyped


def drop_store(url: str) -> None:
    """Deletes a store with all its data. Raises TablesMissing, StoreBusy."""
    _backend(url).drop_store(url)


def copy_store(url: str, folder: str) -> None:
    """Makes a folder that is the same embedded store as it is now. Raises TablesMissing, StoreBusy,
    StoreFailed, and UsageError where something is there already."""
    _backend(url).copy_store(url, folder)


def droppable(url: str) -> list[str]:
    """The names of what `drop_store` would delete: of a store, or of the half of one that a creation
    left which was interrupted. Raises TablesMissing where there is nothing."""
    return _backend(url).droppable(url)  # type: ignore[no-any-return]  # a module is untyped


def is_store(folder: Path) -> bool:
    """Whether a folder holds an embedded store, so that its files are nobody's input."""
    return _backend("rocksdb:").is_store(folder)  # type: ignore[no-any-return]  # a module is untyped


def location(url: str) -> str:
    """The part of a URL behind its scheme."""
    return url.partition(":")[2]


def is_in_hbase(url: str) -> bool:
    """Whether a store is in HBase. Raises UsageError for what is no URL."""
    _require_url(url)
    return url.startswith("hbase:")


def _require_url(url: object) -> None:
    if not isinstance(url, str):
        raise UsageError(f"{url!r} is no URL of a store: it is a string, such as 'rocksdb:{url}'")


def _backend(url: str) -> ModuleType:
    _require_url(url)
    scheme, colon, _ = url.partition(":")
    if not colon or scheme not in _BACKENDS:
        known = ", ".join(f"{name}:" for name in _BACKENDS)
        hint = "" if colon else f"; did you mean 'rocksdb:{url}'?"
        raise UsageError(f"no store {url!r}: a store's URL begins with one of {known}{hint}")
    return import_module(_BACKENDS[scheme])
