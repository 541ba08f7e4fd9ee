"""A store whose process stops between any two of its calls, or in the middle of one."""

from collections.abc import Callable

from simhbase.stores.base import Store


class Crash(Exception):  # the process is gone, which is no error of the product
    pass


class Stopping:
    """A store whose calls end with a crash: after `calls` of them, at once or with half the work done."""

    def __init__(self, store: Store, calls: int, *, torn: bool) -> None:
        self._store = store
        self._calls = calls
        self._torn = torn

    def __getattr__(self, name: str) -> object:
        found = getattr(self._store, name)
        if name in ("exclusive", "url"):
            return found
        if name == "drawers":
            return _Counted(self, found)
        if name == "records":
            return lambda table: _Counted(self, found(table))
        return _Counted(self, self._store).counted(name)

    def spend(self, call: Callable[..., object], name: str, *args: object, **kwargs: object) -> object:
        if self._calls == 0:
            if self._torn and name in ("put", "delete", "add", "remove"):
                call(args[0][: len(args[0]) // 2], *args[1:], **kwargs)
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
