"""What loads note in the table meta, so that one that was stopped goes on where it was.

load/NAME                      the load's state, JSON; changed by compare-and-set alone
load-part/NAME 00 number (8)   what was read for one acknowledged write, JSON
load-pending/NAME              what was decided about the next write before it was begun, JSON
The last two are removed when the load has finished.

A change of the state is also the sign of life of the run that owns it. One that was killed is known by its
process on the same host; on another host by a state that does not change for LEASE seconds of the observer's
own clock, so that clocks need not agree. Two runs that both believe to own a load cannot both go on: the
compare-and-set of one of them fails.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from types import TracebackType
from typing import Any, Literal, Self

import orjson

from simhbase.errors import SimhbaseError, StoreBusy, UsageError
from simhbase.index.owner import Owner
from simhbase.index.writer import now
from simhbase.logs import logger
from simhbase.stores.base import Records, Store, leaves_hints

log = logger(__name__)
LEASE = 120.0  # seconds; a write of a load takes less, or fails
_LOOKED_AT = 1.0  # seconds between looks at a state that may be a dead run's
_STATE, _PART, _PENDING = b"load/", b"load-part/", b"load-pending/"
_PARTS_AT_ONCE = 256  # read with one call; each has the places of a write's rejects
_NAME = re.compile(r".{1,200}")

Progress = Literal["running", "stopped", "finishing", "finished"]


@dataclass(frozen=True)
class LoadState:
    """A load by its name.

    progress: running (or killed meanwhile), stopped by what `reason` says, finishing (all is stored, its
    files get their names) or finished. begun, changed: milliseconds since 1970. task: a digest of what it was
    told to do. parts: writes that were acknowledged, with their lines in the files. counts: what became of
    the documents so far, by name. files: of those it writes, by
    option, the bytes that count, and their CRC-32.
    """

    name: str
    task: str
    progress: Progress
    owner: Owner
    begun: int
    changed: int
    reason: str = ""
    parts: int = 0
    counts: dict[str, int] | None = None
    files: dict[str, tuple[int, int]] | None = None

    @property
    def is_unfinished(self) -> bool:
        """Whether something is left to do."""
        return self.progress != "finished"

    @property
    def was_killed(self) -> bool:
        """Whether it ended without a word, as far as this host can tell."""
        return self.progress in ("running", "finishing") and self.owner.is_gone

    @property
    def may_run(self) -> bool:
        """Whether a process may be at it; one of this host is."""
        return self.progress in ("running", "finishing") and not self.owner.is_gone

    def encode(self) -> bytes:
        """The row's value."""
        return orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)

    @staticmethod
    def decode(value: bytes) -> LoadState:
        """The state of a row's value."""
        found = orjson.loads(value)
        return LoadState(**found | {"owner": Owner(**found["owner"])})


class Manifests:
    """The loads of a store."""

    def __init__(self, store: Store) -> None:
        self._meta = store.records("meta")
        self._has_one_writer = not leaves_hints(store)

    def all(self) -> list[LoadState]:
        """The last run of each name, in the order of their beginnings."""
        rows = self._meta.iterate(_STATE, _STATE[:-1] + bytes([_STATE[-1] + 1]))
        found = (LoadState.decode(cell.value) for some in rows for _, cell in some)
        return sorted(found, key=lambda each: each.begun)

    def claim(self, name: str, task: str) -> Manifest:
        """The load of a name for this process alone: a new one, or one that is unfinished, whose `state` says
        how far it is. Raises StoreBusy where another process runs it, UsageError for no name or where an
        unfinished load of this name was told to do something else."""
        require_name(name)
        while True:
            value = self._free(name)
            before = None if value is None else LoadState.decode(value)
            if before and before.is_unfinished and before.task != task:
                raise UsageError(
                    f"the load {name!r} was begun with other inputs or options, and is unfinished. Give it "
                    f"those, or choose another name, or forget it: {forgetting(name)}"
                )
            manifest = Manifest(self._meta, name, task, before, value)
            if manifest.take():
                return manifest

    def _free(self, name: str) -> bytes | None:
        """The state of a load that nobody runs, None where there is none. Whether a process of another host
        lives is waited for. Raises StoreBusy where one does."""
        value, end = self._value(name), None
        while value is not None and self._may_run(state := LoadState.decode(value)):
            if state.owner.is_here:
                raise _busy(state)
            if end is None:
                log.warning(
                    "the load %r may be running on %s: waiting up to %.0f s for a sign of life",
                    *(name, state.owner.host, LEASE),
                )
                end = time.monotonic() + LEASE
            if time.monotonic() > end:
                break
            time.sleep(_LOOKED_AT)
            found = self._value(name)
            if found not in (None, value) and self._may_run(changed := LoadState.decode(found)):
                raise _busy(changed)
            value = found
        return value

    def _may_run(self, state: LoadState) -> bool:
        """Whether a process may be at a load; who writes to an embedded store knows that no other does."""
        return state.may_run and (state.owner.is_of_this_process or not self._has_one_writer)

    def forget(self, name: str) -> bool:
        """Removes what is noted of a load; what it has stored stays. False where there is none of this name.
        Raises StoreBusy where a process runs it, as far as this host can tell."""
        require_name(name)
        value = self._value(name)
        if value is None:
            return False
        state = LoadState.decode(value)
        if self._may_run(state) and state.owner.is_here:
            raise _busy(state)
        self._meta.delete([_STATE + name.encode()])
        _remove_parts(self._meta, name)
        return True

    def _value(self, name: str) -> bytes | None:
        (cell,) = self._meta.get([_STATE + name.encode()])
        return None if cell is None else cell.value


class Manifest:
    """A load that this process runs. Each change is refused with StoreBusy where another has taken it over.

    before: the state of the unfinished run that it goes on with, None of a new load.
    """

    def __init__(
        self, meta: Records, name: str, task: str, before: LoadState | None, value: bytes | None
    ) -> None:
        self.before = before if before and before.is_unfinished else None
        self.state = _claimed(self.before, name, task)
        self._meta = meta
        self._value = value
        self._key = _STATE + name.encode()
        self._changed = time.monotonic()

    def take(self) -> bool:
        """Becomes its owner; false where another was faster."""
        value = self.state.encode()
        self.state.owner.run()  # before anybody can see it
        is_taken = False
        try:
            is_taken = self._meta.compare_and_set(self._key, self._value, value)
        finally:
            if not is_taken:
                self.release()
        if not is_taken:
            return False
        self._value = value
        if self.before is None:
            _remove_parts(self._meta, self.state.name)
        return True

    def begin_anew(self) -> None:
        """Begins from the first document, whatever was done before."""
        self.before = None
        self.change(progress="running", begun=now(), parts=0, counts=None, files=None)
        _remove_parts(self._meta, self.state.name)

    def change(self, **values: Any) -> None:
        """Notes that the load is further."""
        state = replace(self.state, changed=now(), **values)
        value = state.encode()
        if not self._meta.compare_and_set(self._key, self._value, value):
            raise StoreBusy(
                f"another process goes on with the load {state.name!r}, as this one gave no sign of life for "
                f"{LEASE:.0f} s, or somebody has forgotten it: what this one has stored is kept"
            )
        self.state, self._value, self._changed = state, value, time.monotonic()

    def live(self) -> None:
        """Gives a sign of life, where it is time for one."""
        if time.monotonic() - self._changed > LEASE / 4:
            self.change()

    def parts(self) -> Iterator[Any]:
        """What was noted of the acknowledged writes, in their order."""
        for first in range(0, self.state.parts, _PARTS_AT_ONCE):
            numbers = range(first, min(first + _PARTS_AT_ONCE, self.state.parts))
            cells = self._meta.get([_part_key(self.state.name, number) for number in numbers])
            yield from (orjson.loads(cell.value) for cell in cells if cell is not None)

    def note_part(self, number: int, value: Any) -> None:
        """Notes what one of the next writes was about; counts once the state says so."""
        self._meta.put([(_part_key(self.state.name, number), orjson.dumps(value))])

    @property
    def pending(self) -> Any:
        """What was decided last about a write, None where nothing was."""
        (cell,) = self._meta.get([_PENDING + self.state.name.encode()])
        return None if cell is None else orjson.loads(cell.value)

    def note_pending(self, decided: Any) -> None:
        """Notes what is decided about the next write, before that is begun."""
        self._meta.put([(_PENDING + self.state.name.encode(), orjson.dumps(decided))])

    def finish(self) -> None:
        """The load has done all it was told to."""
        self.change(progress="finished", files=None)
        _remove_parts(self._meta, self.state.name)

    def stop(self, reason: str) -> None:
        """The load ends before that, and may be gone on with. One that is finishing stays so: some of its
        files may have their names."""
        if self.state.progress == "running":
            self.change(progress="stopped", reason=reason)

    def release(self) -> None:
        """This process runs the load no longer."""
        self.state.owner.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The load has done all, or is stopped by an error, and this process runs it no longer."""
        try:
            if error is None:
                self.finish()
            else:
                with suppress(SimhbaseError):  # the store may be what failed
                    self.stop(_reason(error))
        finally:
            self.release()

    def remove(self) -> None:
        """Nothing is noted any more."""
        self._meta.delete([self._key])
        _remove_parts(self._meta, self.state.name)


def require_name(name: str) -> None:
    """Raises UsageError for what can name no load."""
    if not _NAME.fullmatch(name) or not name.isprintable():
        raise UsageError(f"{name!r} names no load: give 1 to 200 printable characters")


def forgetting(name: str) -> str:
    """The command that forgets a load."""
    return f"simhbase loads forget {shlex.quote(name)}"


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    first, *_ = str(error).splitlines() or [type(error).__name__]
    return first.encode("utf-8", "backslashreplace").decode()  # names of files may be no UTF-8


def _claimed(before: LoadState | None, name: str, task: str) -> LoadState:
    """The state of a load that this process takes."""
    owner = Owner.here()
    if before is None:
        return LoadState(name, task, "running", owner, begun=now(), changed=now())
    progress: Progress = "finishing" if before.progress == "finishing" else "running"
    return replace(before, progress=progress, owner=owner, changed=now(), reason="")


def _busy(state: LoadState) -> StoreBusy:
    owner = state.owner
    return StoreBusy(
        f"the load {state.name!r} is running already, as process {owner.pid} on {owner.host}: wait for "
        "its end"
    )


def _part_key(name: str, number: int) -> bytes:
    return _part_prefix(name) + number.to_bytes(8)


def _part_prefix(name: str) -> bytes:
    return _PART + name.encode() + b"\0"


def _remove_parts(meta: Records, name: str) -> None:
    prefix = _part_prefix(name)
    for rows in meta.iterate(prefix, prefix[:-1] + b"\1"):
        meta.delete([key for key, _ in rows])
    meta.delete([_PENDING + name.encode()])
