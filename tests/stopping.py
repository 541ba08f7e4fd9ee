"""A store whose process stops between any two of its calls, or in the middle of one."""

from collections.abc import Callable
from functools import partial

from simhbase.stores.base import Store


class Crash(Exception):  # the process is gone, which is no error of the product
    pass


class Stopping:
    """A store whose calls end with a crash: after `calls` of them, at once or with half the work done.
    A commit of an atomic store is never half done: that is its promise, which tests of the store see to. That
    of another store is its calls."""

    def __init__(self, store: Store, calls: int, *, torn: bool = False) -> None:
        self._store = store
        self._calls = calls
        self._torn = torn

    def __getattr__(self, name: str) -> object:
        found = getattr(self._store, name)
        if name == "exclusive" or (not callable(found) and name != "drawers"):
            return found  # what is told is no call
        if name == "commit" and self._store.keeps_hints:
            return partial(type(self._store).commit, self)
        if name == "drawers":
            return _Counted(self, found)
        if name == "records":
            return lambda table: _Counted(self, found(table))
        return _Counted(self, self._store).counted(name)

    def spend(self, call: Callable[..., object], name: str, *args: object, **kwargs: object) -> object:
        if self._calls == 0:
            if self._torn and name in ("put", "delete", "add", "remove"):
                half = len(args[0]) // 2
                # Keys go with their times or versions; a version that all have in common stays.
                cut = [each[:half] if hasattr(each, "__len__") else each for each in args]
                call(*cut, **kwargs)
            raise Crash
        self._calls -= 1
        return call(*args, **kwargs)


class _Counted:
    def __init__(self, store: Stopping, part: object) -> None:
        self._store, self._part = store, part

    def counted(self, name: str) -> Callable[..., object]:
        call = getattr(self._part, name)
        return lambda *args, **kwargs: self._store.spend(call, name, *args, **kwargs)

    __getattr__ = counted
