"""Opens stores by URL. A backend is imported only when its scheme is used."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import cast

from simhbase.errors import UsageError
from simhbase.model.urls import redacted, refuse_secret
from simhbase.stores.backend import Backend
from simhbase.stores.base import Access, Store

BACKENDS = {
    "memory": ("simhbase.stores.memory", "MemoryBackend"),
    "rocksdb": ("simhbase.stores.rocksdb", "RocksBackend"),
    "hbase": ("simhbase.stores.hbase", "HBaseBackend"),
    "postgresql": ("simhbase.stores.postgresql", "PostgresBackend"),
    "redis": ("simhbase.stores.redis", "RedisBackend"),
    "rediss": ("simhbase.stores.redis", "RedisBackend"),
}
_PASSWORDS = {
    "postgresql": "PGPASSWORD or in ~/.pgpass",
    "redis": "REDISCLI_AUTH",
    "rediss": "REDISCLI_AUTH",
}
_EXTRAS = {"psycopg": "postgresql", "hiredis": "redis"}


def backend(url: str) -> Backend:
    """What a URL leads to. Raises UsageError for an invalid one."""
    if not isinstance(url, str):
        name = redacted(str(url)) if isinstance(url, Path) else "simhbase.db"
        raise UsageError(
            f"a {type(url).__name__} is not the URL of a store: give a string such as 'rocksdb:{name}'"
        )
    scheme, colon, _ = url.partition(":")
    refuse_secret(url, _PASSWORDS.get(scheme.lower(), "the settings of the server"))
    if not colon or scheme not in BACKENDS:
        known = ", ".join(f"{name}:" for name in BACKENDS)
        hint = "" if colon else f"; did you mean 'rocksdb:{redacted(url)}'?"
        if scheme in ("http", "https"):
            hint = ". A service is asked by simhbase.Client(URL), or by any HTTP client (docs/service.md)"
        raise UsageError(f"no store {redacted(url)!r}: a store's URL starts with one of {known}{hint}")
    module, name = BACKENDS[scheme]
    try:
        return cast(Backend, getattr(import_module(module), name)(url))
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        raise UsageError(
            f"stores with a URL of {scheme}: need {error.name}, which is not installed: "
            f"pip install 'simhbase[{_EXTRAS[error.name]}]'"
        ) from error


def open_store(url: str, access: Access) -> Store:
    """Open an existing store. Raises TablesMissing, StoreBusy, StoreUnreachable, UsageError."""
    return backend(url).open(access)


def create_store(url: str, access: Access = "write", *, counts: bool = False) -> Store:
    """Open a store for writing, creating what is missing. May be repeated. counts: also the table `met`."""
    return backend(url).create(access, counts=counts)


def drop_store(url: str) -> None:
    """Delete a store with all its data. Raises TablesMissing, StoreBusy."""
    backend(url).drop()


def is_store(folder: Path) -> bool:
    """True for the folder of an embedded store, which is not an input."""
    return bool(import_module("simhbase.stores.rocksdb.folder").is_store(folder))
