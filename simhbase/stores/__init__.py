"""Opens stores by URL. A backend is imported only when its scheme is used."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from simhbase.errors import UsageError
from simhbase.model.urls import refuse_secret, shown
from simhbase.stores.base import Access, NoteDamage, Store

BACKENDS = {
    "memory": "simhbase.stores.memory",
    "rocksdb": "simhbase.stores.rocksdb",
    "hbase": "simhbase.stores.hbase",
    "postgresql": "simhbase.stores.postgresql",
    "redis": "simhbase.stores.redis",
    "rediss": "simhbase.stores.redis",
}
_PASSWORDS = {
    "postgresql": "PGPASSWORD or in ~/.pgpass",
    "redis": "REDISCLI_AUTH",
    "rediss": "REDISCLI_AUTH",
}
_EXTRAS = {"psycopg": "postgresql", "hiredis": "redis"}


def open_store(url: str, access: Access) -> Store:
    """Open an existing store. Raises TablesMissing, StoreBusy, StoreUnreachable, UsageError."""
    return _backend(url).open_store(url, access)  # type: ignore[no-any-return]  # a module is untyped


def open_damaged(url: str, note: NoteDamage) -> Store:
    """Open what can be read of a damaged store, which no other process may write meanwhile. Its tables leave
    out what cannot be read; note: called with what is lost by it. Raises the errors of `open_store`."""
    return _backend(url).open_damaged(url, note)  # type: ignore[no-any-return]  # a module is untyped


def create_store(url: str, access: Access = "write", *, counts: bool = False) -> Store:
    """Open a store for writing, creating what is missing. May be repeated. counts: also the table `met`."""
    return _backend(url).create_store(url, access, counts=counts)  # type: ignore[no-any-return]  # a module is untyped


def drop_store(url: str) -> None:
    """Delete a store with all its data. Raises TablesMissing, StoreBusy."""
    _backend(url).drop_store(url)


def copy_store(url: str, folder: str) -> None:
    """Copy an embedded store to a new folder. Raises TablesMissing, StoreBusy, StoreFailed, UsageError if the
    folder exists."""
    _backend(url).copy_store(url, folder)


def droppable(url: str) -> list[str]:
    """Names of what `drop_store` would delete, for a store or the remains of an interrupted creation. Raises
    TablesMissing if there is nothing."""
    return _backend(url).droppable(url)  # type: ignore[no-any-return]  # a module is untyped


def is_store(folder: Path) -> bool:
    """True for the folder of an embedded store, which is not an input."""
    return _backend("rocksdb:").is_store(folder)  # type: ignore[no-any-return]  # a module is untyped


def is_one_folder(url: str, other: str) -> bool:
    """True for two URLs of one embedded store, also if one is a link to the other."""
    if not all(each.startswith("rocksdb:") for each in (url, other)):
        return False
    path_of = _backend(url).path_of
    return bool(path_of(url).resolve() == path_of(other).resolve())


def is_in_hbase(url: str) -> bool:
    """True for a store in HBase. Raises UsageError for an invalid URL."""
    _require_url(url)
    return url.startswith("hbase:")


def is_on_server(url: str) -> bool:
    """True for a store whose tables are created by an administrator only: a mistyped URL is an error there,
    not a new store. Raises UsageError for an invalid URL."""
    _require_url(url)
    return url.startswith(("hbase:", "postgresql:", "redis:", "rediss:"))


def _require_url(url: object) -> None:
    if not isinstance(url, str):
        name = shown(str(url)) if isinstance(url, Path) else "simhbase.db"
        raise UsageError(
            f"a {type(url).__name__} is not the URL of a store: give a string such as 'rocksdb:{name}'"
        )
    refuse_secret(url, _PASSWORDS.get(url.partition(":")[0].lower(), "the settings of the server"))


def _backend(url: str) -> ModuleType:
    _require_url(url)
    scheme, colon, _ = url.partition(":")
    if not colon or scheme not in BACKENDS:
        known = ", ".join(f"{name}:" for name in BACKENDS)
        hint = "" if colon else f"; did you mean 'rocksdb:{shown(url)}'?"
        if scheme in ("http", "https"):
            hint = ". A service is asked by simhbase.Client(URL), or by any HTTP client (docs/service.md)"
        raise UsageError(f"no store {shown(url)!r}: a store's URL starts with one of {known}{hint}")
    try:
        return import_module(BACKENDS[scheme])
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        raise UsageError(
            f"stores with a URL of {scheme}: need {error.name}, which is not installed: "
            f"pip install 'simhbase[{_EXTRAS[error.name]}]'"
        ) from error
