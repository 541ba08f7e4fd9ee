"""The log of loads in the meta table, which lets an interrupted load resume.

    load/NAME                      state of the load, JSON; changed by compare-and-set only
    load-part/NAME 00 number (8)   what was read for one acknowledged write, JSON
    load-pending/NAME              decisions about the next write, noted before it starts, JSON

The last two are removed when the load has finished. Within a scope its prefix stands before NAME (`of`).

A run holds a load by a lease: a thread updates the state every RENEWED seconds. In a multi-writer store, a
load whose state has not changed for LEASE seconds of the observer's clock can be taken over, so clocks need
not agree. An embedded store has one writing process, so an unfinished load is taken over at once. If two runs
both believe they hold a load, the compare-and-set of one fails.
"""

from __future__ import annotations

import os
import shlex
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, replace
from secrets import token_hex
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Annotated, Any, Literal, TypeVar, cast

import orjson
from msgspec import Meta as Allowed

from simhbase.errors import BadInput, SimhbaseError, StoreBusy, StoreFailed, UsageError
from simhbase.model import wire
from simhbase.model.moment import Milliseconds
from simhbase.process.logs import logger
from simhbase.stores.base import Store, now
from simhbase.stores.meta import MOST_TRIES, Meta, not_changed

log = logger(__name__)
LEASE, RENEWED = 30.0, 10.0  # seconds
_LOOKED_AT = 1.0  # seconds between reads of the state of a run that may be dead
_STATE, _PENDING = b"load/", b"load-pending/"
_PARTS = b"load-part/%b\0"  # of a load; the number of a note follows, in 8 bytes
_PARTS_AT_ONCE = 256  # rows per read; each lists the rejects of a write
_MOST_IN_NAME = 200  # characters
_held: set[str] = set()  # tokens of the runs of this process

T = TypeVar("T")
Count = Annotated[int, Allowed(ge=0, le=1 << 62)]
Token = Annotated[str, Allowed(pattern="^([0-9a-f]{2})*$")]
LoadProgress = Literal["running", "stopped", "finishing", "finished"]


@dataclass(frozen=True)
class LoadState:
    """State of a load.

    task: digest of its inputs and options. progress: running, stopped (see `reason`), finishing (everything
    is stored; output files are being renamed and the report written) or finished. host, process, token: of
    the run that holds or last held it. begun, changed: milliseconds since 1970. parts: acknowledged writes.
    counts: documents so far, by outcome. files: valid bytes and CRC-32 of each output file, by option.
    report: the final report, from finishing on.
    """

    name: str
    task: str
    progress: LoadProgress
    begun: Milliseconds
    changed: Milliseconds
    host: str = ""
    process: int = 0
    token: Token = ""
    reason: str = ""
    parts: Count = 0
    counts: dict[str, Any] | None = None
    files: dict[str, tuple[Count, Count]] | None = None
    report: dict[str, Any] | None = None

    @property
    def is_unfinished(self) -> bool:
        """True if there is something left to do."""
        return self.progress != "finished"

    @property
    def is_held(self) -> bool:
        """True while a run holds it, or if one was killed holding it."""
        return self.progress in ("running", "finishing")

    @property
    def was_killed(self) -> bool:
        """True if the run that held it has not renewed its lease, by this clock."""
        return self.is_held and self.token not in _held and now() - self.changed > LEASE * 1000


# JSON of rows, by what their keys begin with. What notes hold is up to those who note.
LOAD_ROWS: Mapping[bytes, type] = {_STATE: LoadState, b"load-": cast(type, Any)}


class LoadLog(AbstractContextManager["LoadLog"]):
    """A load run by this process. Changes raise StoreBusy if another process has taken it over.

    before: state of the interrupted run that it resumes, None for a new load.
    """

    def __init__(self, store: Store, name: str, task: str, value: bytes | None, of: bytes = b"") -> None:
        self._meta = Meta(store)
        self._row = of + name.encode()
        self._key = _STATE + self._row
        self._lock = Lock()
        self._has_ended = Event()
        self._value = value
        found = None if self._value is None else self._meta.decode(self._key, self._value, LoadState)
        self.before = found if found and found.is_unfinished else None
        if self.before and self.before.task != task:
            raise UsageError(
                f"the load {name!r} is unfinished, and was started with other inputs or options. Give the "
                f"same ones, choose another name, or forget it: {forgetting(name)}"
            )
        if self.before is None:
            self.state = LoadState(name, task, "running", begun=now(), changed=now())
        else:
            is_finishing = self.before.progress == "finishing"
            self.state = replace(self.before, progress="finishing" if is_finishing else "running", reason="")
        self.state = replace(self.state, host=socket.gethostname(), process=os.getpid(), token=token_hex(8))

    @classmethod
    def begin(cls, store: Store, name: str, task: str, of: bytes = b"") -> LoadLog:
        """Start or resume a load.

        Raises StoreBusy if another process runs it (waits up to LEASE seconds if that may have been killed),
        UsageError for an invalid name or an unfinished load with another task.
        """
        require_name(name)
        row = of + name.encode()
        for _ in range(MOST_TRIES):
            # Compare-and-set with the value that was read: another process may take the load in between.
            found = cls(store, name, task, _value_of_free(store, row), of)
            if found._take():
                return found
        raise not_changed(store.url, _STATE + row)

    def _take(self) -> bool:
        """Take the lease; false if another process was faster."""
        _held.add(self.state.token)  # before another thread can see it
        is_taken = False
        try:
            is_taken = self._set(self.state)
        finally:
            if not is_taken:
                _held.discard(self.state.token)
        if is_taken:
            if self.before is None:
                _remove_parts(self._meta, self._row)
            Thread(target=self._renew, name=f"load {self.state.name}", daemon=True).start()
        return is_taken

    def _renew(self) -> None:
        while not self._has_ended.wait(RENEWED):
            try:
                self.change()
            except StoreBusy:
                return  # the next change of the run itself says so
            except SimhbaseError as error:  # the run itself will fail, or the next time succeeds
                log.warning("the lease of the load %r could not be renewed: %s", self.state.name, error)

    def _set(self, state: LoadState) -> bool:
        state = replace(state, changed=now())
        value = orjson.dumps(asdict(state), option=orjson.OPT_SORT_KEYS)
        if not self._meta.compare_and_set(self._key, self._value, value):
            found = self._meta.get(self._key)
            # A failed call may have been executed.
            is_ours = (
                found is not None and self._meta.decode(self._key, found, LoadState).token == state.token
            )
            if not is_ours or not self._meta.compare_and_set(self._key, found, value):
                return False
        self._value, self.state = value, state
        return True

    def change(self, **values: Any) -> None:
        with self._lock:
            if self._has_ended.is_set() or not self._set(replace(self.state, **values)):
                self._has_ended.set()
                raise StoreBusy(
                    f"the load {self.state.name!r} was taken over by another process (its lease expired), or "
                    "was forgotten. Documents stored so far are kept"
                )

    def require_held(self) -> None:
        if self._has_ended.is_set():
            self.change()

    def begin_anew(self) -> None:
        """Begins from the first document, whatever was done before."""
        self.before = None
        self.change(progress="running", begun=now(), parts=0, counts=None, files=None, report=None)
        _remove_parts(self._meta, self._row)

    def parts(self, kind: type[T]) -> Iterator[T]:
        """Notes of the acknowledged writes, in order. Raises StoreFailed if one is lost or of another kind:
        what it covers would be loaded twice, or not at all."""
        for first in range(0, self.state.parts, _PARTS_AT_ONCE):
            numbers = range(first, min(first + _PARTS_AT_ONCE, self.state.parts))
            values = self._meta.get_many([_PARTS % self._row + number.to_bytes(8) for number in numbers])
            for number, value in zip(numbers, values, strict=True):
                if value is None:
                    self.change()  # another process may have taken over the load, and finished it
                    raise self._not_resumed(f"{number + 1:,} of {self.state.parts:,} is lost from")
                try:
                    yield wire.decode(value, kind)
                except BadInput as error:
                    which = f"{number + 1:,} of {self.state.parts:,} is damaged ({error}) in"
                    raise self._not_resumed(which) from error

    def noted(self, values: Mapping[str, Any] | None, kind: type[T]) -> T:
        """Counts or a report of the state. Raises StoreFailed if they are of another kind."""
        try:
            return wire.convert(values or {}, kind)
        except BadInput as error:
            raise self._meta.damaged(self._key, error) from error

    def _not_resumed(self, which: str) -> StoreFailed:
        return StoreFailed(
            f"the load {self.state.name!r} cannot be resumed: the note of its write {which} the table meta. "
            f"Begin from its first document: {forgetting(self.state.name)}"
        )

    def advance(self, parts: Sequence[Any], **values: Any) -> None:
        """Note further acknowledged writes."""
        first = self.state.parts
        prefix = _PARTS % self._row
        rows = ((prefix + number.to_bytes(8), orjson.dumps(part)) for number, part in enumerate(parts, first))
        self._meta.put(list(rows))
        self.change(parts=first + len(parts), **values)

    def pending(self, kind: type[T]) -> T | None:
        """The last noted decisions about a write, or None. Raises StoreFailed if they are of another kind."""
        value = self._meta.get(_PENDING + self._row)
        try:
            return None if value is None else wire.decode(value, kind)
        except BadInput as error:
            raise self._not_resumed(f"that was begun is damaged ({error}) in") from error

    def note_pending(self, decided: Any) -> None:
        """Note the decisions about the next write before it starts."""
        self._meta.put([(_PENDING + self._row, orjson.dumps(decided))])

    def remove(self) -> None:
        """Forget the load."""
        self._end()
        self._meta.delete([self._key])
        _remove_parts(self._meta, self._row)

    def _end(self) -> None:
        with self._lock:
            self._has_ended.set()
        _held.discard(self.state.token)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Mark the load finished, or stopped after an error. One that is finishing stays so, as some output
        files may be renamed already."""
        if self.state.token not in _held:  # removed
            return
        try:
            if error is None:
                self.change(progress="finished")
                _remove_parts(self._meta, self._row)
            elif self.state.progress == "running":
                with suppress(SimhbaseError):  # the store may be what failed
                    self.change(progress="stopped", reason=_reason(error))
        finally:
            self._end()


def _value_of_free(store: Store, row: bytes) -> bytes | None:
    """State of a load that no run holds, None if there is none. Waits for its lease to expire; raises
    StoreBusy as soon as its run shows activity."""
    meta, key, first, end = Meta(store), _STATE + row, None, 0.0
    while (value := meta.get(key)) is not None and (state := meta.decode(key, value, LoadState)).is_held:
        if state.token in _held:
            raise _busy(state)
        if not store.multi_writer:
            break
        if first is None:
            first, end = value, time.monotonic() + LEASE
            log.warning(
                "the load %r may be running on %s: waiting up to %.0f s for a sign of life",
                *(state.name, state.host, LEASE),
            )
        if value != first:
            raise _busy(state)
        if time.monotonic() > end:
            break
        time.sleep(_LOOKED_AT)
    return value


def all_loads(store: Store, of: bytes = b"") -> list[LoadState]:
    """The last run of each name, by start time. of: the prefix of a scope; by default those of all scopes."""
    meta = Meta(store)
    found = (meta.decode(key, value, LoadState) for key, value in meta.under(_STATE + of))
    return sorted(found, key=lambda each: each.begun)


def last_run(store: Store, name: str, of: bytes = b"") -> LoadState | None:
    """State of the last run of a load, None if there is none."""
    meta, key = Meta(store), _STATE + of + name.encode()
    value = meta.get(key)
    return None if value is None else meta.decode(key, value, LoadState)


def finished_since(
    store: Store, name: str, task: str, since: int, of: bytes = b""
) -> Mapping[str, Any] | None:
    """The report of a load that finished after `since` (milliseconds since 1970), or None."""
    state = last_run(store, name, of)
    is_it = state and not state.is_unfinished and state.task == task and state.changed >= since
    return state.report if state and is_it else None


def forget_load(store: Store, name: str, of: bytes = b"") -> bool:
    """Remove a load's log; stored documents stay. False if there is no such load. Raises StoreBusy if a
    process runs it."""
    require_name(name)
    meta, state, row = Meta(store), last_run(store, name, of), of + name.encode()
    if state is None:
        return False
    is_held_elsewhere = store.multi_writer and not state.was_killed
    if state.is_held and (state.token in _held or is_held_elsewhere):
        raise _busy(state)
    meta.delete([_STATE + row])
    _remove_parts(meta, row)
    return True


def require_name(name: str) -> None:
    """Raises UsageError for an invalid name."""
    if not 1 <= len(name) <= _MOST_IN_NAME or not name.isprintable():
        raise UsageError(f"{name!r} is not a valid name of a load: give 1 to 200 printable characters")


def remove_damaged(store: Store, keys: Iterable[bytes]) -> None:
    """Remove all rows of the loads that these rows of meta belong to: a load cannot resume without one."""
    meta = Meta(store)
    for row in {key.partition(b"/")[2].partition(b"\0")[0] for key in keys}:
        meta.delete([_STATE + row])
        _remove_parts(meta, row)


def forgetting(name: str) -> str:
    return f"simhbase loads forget {shlex.quote(name)}"


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    first, *_ = str(error).splitlines() or [type(error).__name__]
    return first.encode("utf-8", "backslashreplace").decode()  # file names may not be UTF-8


def _busy(state: LoadState) -> StoreBusy:
    return StoreBusy(
        f"the load {state.name!r} is running already, as process {state.process} on {state.host}: wait for "
        "it to end"
    )


def _remove_parts(meta: Meta, row: bytes) -> None:
    meta.delete_under(_PARTS % row)
    meta.delete([_PENDING + row])
