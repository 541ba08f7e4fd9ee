"""Connections to the server, scripts, the lock, and errors.

Commands are bytes in Redis's protocol, many at a time; answers are read by hiredis.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, wraps
from hashlib import sha1
from importlib.resources import files
from secrets import token_hex
from typing import Any, ParamSpec, TypeVar, cast

import hiredis
from hiredis import pack_command

from simhbase.errors import (
    BadInput,
    PermanentError,
    SimhbaseError,
    StoreBusy,
    StoreFailed,
    StoreUnreachable,
    TablesMissing,
    UsageError,
)
from simhbase.model.urls import cause_without, without
from simhbase.process.plain_files import open_plain
from simhbase.stores.pool import Pool
from simhbase.stores.redis.url import Address

P = ParamSpec("P")
T = TypeVar("T")
Argument = bytes | str | int
PASSWORD = "REDISCLI_AUTH"  # as for redis-cli
CONNECTING_SECONDS = 10.0
LEASE = 30.0  # seconds that a lock lasts without a change of its holder
HOLDER_ASKED = 1.0  # seconds after which one who waits asks whether the holder is still connected
HINT_MS = 1000  # how long a released lock calls those who wait
OPTIMISTIC_READS = 3
FIRST_CURSOR = b"0"  # of a scan, and the one after its last answer
MOST_REPEATED, MOST_STEPS = 100, 1 << 24
_RECEIVED = 1 << 20
# Of the answers to one call: two thousand drawers have some 0.25 MB each, at the limit of 10,000 rows. Many
# empty lists take 16 times their bytes.
MOST_BYTES = 512 << 20
LEAST_SPEED = 1_000  # bytes a second, behind the first of an answer
# First words of errors that pass: the server starts, runs a long script, or fails over. One that became a
# replica was the primary when the store was opened: its address may lead to the new one.
_PASSING = {
    *("LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS", "UNBLOCKED", "READONLY"),
}
_ADVICE = {
    "READONLY": "The server is a read-only replica. Name the primary",
    "OOM": "The server's memory is full. Raise maxmemory, or delete documents",
    "MISCONF": "The server refuses writes, as it cannot save them to disk. See its log",
    "NOPERM": "Grant it to the user, or use another",
    "NOAUTH": f"Give the password by {PASSWORD}",
    "WRONGPASS": f"Correct {PASSWORD}, or the user in the URL",
    "WRONGTYPE": "Other data is under the keys of this prefix. Use another prefix",
}
_CLOSED = (
    "the server closed the connection: it stopped, or the answer was larger than its setting "
    "client-output-buffer-limit normal allows (CONFIG SET client-output-buffer-limit 'normal 0 0 0')"
)
# WAIT and WAITAOF wait for writes of their connection: one that changes nothing, also while memory is full.
_TOUCH = (
    "#!lua flags=allow-oom\n"
    "return redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HINCRBY', KEYS[1], 'removals', 0)"
)


_pack = cast(Callable[[tuple[Argument, ...]], bytes], pack_command)  # its type takes one argument only


def packed(*command: Argument) -> bytes:
    """A command in Redis's protocol."""
    return _pack(command)


class Script:
    def __init__(self, name: str) -> None:
        self.text = files(__package__).joinpath(name).read_bytes()
        self.sha = sha1(self.text, usedforsecurity=False).hexdigest()


CHANGE, LOCK = Script("change.lua"), Script("lock.lua")


class Connection:
    """One connection. Raises OSError, hiredis.ReplyError, hiredis.ProtocolError."""

    def __init__(self, address: Address) -> None:
        self.closed = False
        self.name = f"simhbase-{token_hex(4)}"
        self.token = ""  # of the lock, while it is held
        self._reader = hiredis.Reader()
        self._address = address
        waiting = min(CONNECTING_SECONDS, address.timeout)
        self._socket = socket.create_connection((address.host, address.port), waiting)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if address.tls:
                self._socket = encrypted(self._socket, address)
            # A server that does not answer at all is unreachable, and a long command is not.
            self._socket.settimeout(address.timeout)
            self._introduce(address)
        except BaseException:
            self.close()
            raise

    def _introduce(self, address: Address) -> None:
        password = os.environb.get(PASSWORD.encode())
        commands = list[tuple[Argument, ...]]()
        if password is not None:
            user = () if address.user is None else (address.user,)
            commands.append(("AUTH", *user, password))
        elif address.user is not None:
            raise UsageError(f"{address.url} names a user: give the password by {PASSWORD}")
        if address.database:
            commands.append(("SELECT", address.database))
        _sound(self.ask(b"".join(packed(*command) for command in commands), len(commands)))
        self.ask(packed("CLIENT", "SETNAME", self.name), 1)  # which a user may not be allowed to

    @cached_property
    def listed(self) -> str:
        """Number and name of this connection in the server's list, "" if the user may not give or ask them.
        A server that starts again gives the same numbers again, to others."""
        number, name = self.ask(packed("CLIENT", "ID") + packed("CLIENT", "GETNAME"), 2)
        return f"{number}:{self.name}" if name == self.name.encode() and isinstance(number, int) else ""

    def ask(self, commands: bytes, answers: int) -> list[Any]:
        """The answers to commands, errors among them."""
        found, reader = list[Any](), self._reader
        try:
            self._socket.sendall(commands)
            asked, size = time.monotonic(), 0
            while len(found) < answers:
                answer = reader.gets()
                if answer is not False:
                    found.append(answer)
                    asked = time.monotonic()
                elif received := self._socket.recv(_RECEIVED):
                    reader.feed(received)
                    size += len(received)
                    self._require_end(time.monotonic() - asked, size)
                else:
                    raise ConnectionResetError(_CLOSED)
        except MemoryError as error:
            self.close()
            raise StoreFailed(f"{self._address.url}: an answer takes more memory than is left") from error
        except BaseException:
            self.close()  # what comes later would be taken for the answer to something else
            raise
        return found

    def _require_end(self, seconds: float, size: int) -> None:
        """Raises TimeoutError for an answer that drips, StoreFailed for one that comes to no end."""
        if seconds > self._address.timeout + size / LEAST_SPEED:
            raise TimeoutError("timed out")
        if size > MOST_BYTES:
            raise StoreFailed(
                f"{self._address.url}: an answer has more than {MOST_BYTES >> 20} MiB: is it a Redis, and is "
                "the data under these keys simhbase's? If so, look up fewer documents at a time"
            )

    def close(self) -> None:
        self.closed = True
        self._socket.close()


def encrypted(plain: socket.socket, address: Address) -> ssl.SSLSocket:
    for path in (address.ca, address.cert, address.key):
        if path:
            open_plain(path).close()  # OpenSSL would wait for the writer of a pipe
    context = ssl.create_default_context(cafile=address.ca)
    if address.cert:
        context.load_cert_chain(address.cert, address.key)
    return context.wrap_socket(plain, server_hostname=address.host)


class Client(Pool[Connection]):
    """Runs commands and scripts for the keys with one prefix.

    identity: of the tables that were opened, which others of the same prefix do not have; changes of other
    tables are refused, and what is read from them is an error. may_lock: False if locking was refused.
    """

    raised = (OSError, hiredis.HiredisError)

    def __init__(self, address: Address) -> None:
        super().__init__(address.url, address.connections, address.timeout)
        self.address = address
        self.identity = b""
        self.may_lock = True
        self._seen = threading.local()
        self._state = packed("HMGET", self.key("counts"), "store", "removals")

    def key(self, name: str) -> bytes:
        return f"{self.address.prefix}:{name}".encode()

    @property
    def waiting_ms(self) -> int:
        """Milliseconds that the server may wait before it answers; less than we wait for the answer."""
        return int(self.address.timeout * 800)

    def ask(self, doing: str, commands: bytes, answers: int) -> list[Any]:
        """The answers to commands that may be repeated. The state of the tables is asked for before and after
        them, in the same round trip. Raises StoreUnreachable, StoreBusy, StoreFailed, TablesMissing."""
        if not answers:
            return []

        def asked(connection: Connection) -> list[Any]:
            if not self.identity:
                return _sound(connection.ask(commands, answers))
            before, *found, after = _sound(
                connection.ask(b"".join((self._state, commands, self._state)), answers + 2)
            )
            with understood(self, "counts"):
                (_, first), (identity, last) = before, after
                if identity != self.identity:
                    raise tables_gone(f"{doing} {self.url}")
                if (seen := self._removals) is not None:
                    seen |= {first, last}
            return found

        return self.call(doing, asked)

    @property
    def url(self) -> str:
        return self.address.url

    @property
    def _removals(self) -> set[bytes | None] | None:
        """Counts of removals that this thread's consistent read has seen."""
        found: set[bytes | None] | None = getattr(self._seen, "removals", None)
        return found

    def read(self, doing: str, *command: Argument) -> Any:
        """The answer to one command."""
        (answer,) = self.ask(doing, packed(*command), 1)
        return answer

    def change(self, doing: str, operation: str, *arguments: Argument) -> Any:
        """Runs an operation of change.lua that writes, acknowledged by as many replicas as the URL says: at
        the end of the lock, if it is held."""

        def run(connection: Connection) -> Any:
            lease = (connection.token, int(LEASE * 1000)) if operation == "change" else ()
            answer = _run(
                connection, CHANGE, "", [self.key("counts")], (self.identity, operation, *lease, *arguments)
            )
            if not connection.token:
                self._replicated(doing, connection)
            return answer

        return self.call(doing, run)

    def rows(self, doing: str, operation: str, *arguments: Argument) -> Any:
        """Runs an operation of change.lua that only reads, as a user or replica may."""

        def run(connection: Connection) -> Any:
            given = (self.identity, operation, *arguments)
            return _run(connection, CHANGE, "_RO", [self.key("counts")], given)

        self._look(doing)
        answer = self.call(doing, run)
        self._look(doing)
        return answer

    def _look(self, doing: str) -> None:
        """Notes the count of removals, if this thread reads consistently."""
        if self._removals is not None:
            self.read(doing, "HLEN", self.key("counts"))

    def _replicated(self, doing: str, connection: Connection) -> None:
        """Waits until replicas have everything that was written before, by any connection. Raises
        StoreUnreachable."""
        if wanted := self.address.replicas:
            _, there = _sound(connection.ask(self.touch + packed("WAIT", wanted, self.waiting_ms), 2))
            with understood(self, "counts"):
                is_late = there < wanted
            if is_late:
                raise StoreUnreachable(
                    f"{doing} {self.url}: only {there} of {wanted} replicas acknowledged it. Repeat it"
                )

    @property
    def touch(self) -> bytes:
        return packed("EVAL", _TOUCH, 1, self.key("counts"))

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Holds the lock; re-entrant. Its holder is known by its connection: once that is closed, others take
        the lock, and at the latest LEASE after its last change. A change whose lock was lost is refused by
        the server. At the end replicas have what was read, too: it may be what an earlier call wrote, which
        failed for their sake."""
        if self.held:
            yield
            return
        with self.holding("locking", self._lock) as connection:
            try:
                yield
            finally:
                # What was changed is acknowledged: without an answer, others notice that the connection is
                # gone.
                try:
                    self._unlock(connection, connection.token)
                except self.raised:
                    connection.close()
                connection.token = ""
            with self.translated("writing"):
                self._replicated("writing", connection)

    def _lock(self, connection: Connection) -> None:
        token = f"{connection.listed}:{token_hex(8)}"
        keys = self.lock_keys
        end = time.monotonic() + self.address.timeout
        while not _run(connection, LOCK, "", keys, ("take", token, int(LEASE * 1000))):
            left = end - time.monotonic()
            if left <= 0:
                raise StoreBusy(
                    f"locking {self.address.url}: another process held the lock for "
                    f"{self.address.timeout:g} s. Try again later"
                )
            pause = min(left, HOLDER_ASKED, self.address.timeout / 2)
            if _answer(connection, "BLPOP", self.key("unlocked"), f"{pause:.3f}") is None:
                self._release_if_holder_gone(connection)
        connection.token = token

    def _release_if_holder_gone(self, connection: Connection) -> None:
        """Releases a lock whose holder's connection is gone."""
        with understood(self, "lock"):
            token = _answer(connection, "GET", self.key("lock"))
            number, _, rest = (token or b"").partition(b":")
            name, _, _ = rest.partition(b":")
            if name and b" name=%b " % name not in _answer(connection, "CLIENT", "LIST", "ID", number):
                self._unlock(connection, token)

    def _unlock(self, connection: Connection, token: Argument) -> None:
        _run(connection, LOCK, "", self.lock_keys, ("release", token, HINT_MS))

    @property
    def lock_keys(self) -> list[bytes]:
        return [self.key("lock"), self.key("unlocked")]

    def consistent(self, read: Callable[[], T]) -> T:
        """Calls `read`, again if rows were removed meanwhile; the last time under the lock, if it may."""
        if self.held or self._removals is not None:
            return read()
        end = time.monotonic() + self.address.timeout
        attempts = 0
        while True:
            self._seen.removals = seen = set[bytes | None]()
            try:
                result = read()
            finally:
                self._seen.removals = None
            if len(seen) <= 1:
                return result
            attempts += 1
            is_late = time.monotonic() > end
            if self.may_lock and (attempts >= OPTIMISTIC_READS or is_late):
                with ExitStack() as lock:
                    try:
                        lock.enter_context(self.exclusive())
                    except StoreFailed:
                        self.may_lock = False
                    else:
                        return read()
            if is_late:
                raise StoreBusy(
                    f"reading {self.address.url}: documents were replaced or deleted during each try, for "
                    f"{self.address.timeout:g} s, and the lock was refused. Look up fewer at a time, or "
                    "grant a writer's rights"
                )

    def _connect(self) -> Connection:
        return Connection(self.address)

    def _translate(self, error: Exception, doing: str) -> SimhbaseError:
        return translated(error, doing)

    def _secrets(self, error: Exception) -> Iterable[str]:
        return given_secrets()


class ScanEnd:
    """Notices a scan of the server that comes to no end, as its cursors come again. Those of sound servers do
    so only while they change the size of their tables."""

    def __init__(self, client: Client, of: bytes) -> None:
        self._client, self._of = client, of
        self._steps, self._noted, self._repeated = 0, b"", 0

    def is_reached(self, cursor: bytes) -> bool:
        """True for the cursor of the last answer. Raises StoreFailed."""
        self._repeated += cursor == self._noted
        self._steps += 1
        if self._steps.bit_count() == 1:  # so that any cycle of cursors is met
            self._noted = cursor
        if self._repeated > MOST_REPEATED or self._steps > MOST_STEPS:
            raise StoreFailed(
                f"reading {self._of.decode(errors='replace')} of {self._client.address.url}: the server's "
                f"scan came to no end in {self._steps:,} steps. Look at its log, and at proxies before it"
            )
        return cursor == FIRST_CURSOR


def scanned(client: Client, doing: str, keys: bytes, count: int) -> Iterator[list[bytes]]:
    """All keys of a pattern, in parts, in no order; some may come twice."""
    cursor, end = FIRST_CURSOR, ScanEnd(client, keys)
    while True:
        answer = client.read(doing, "SCAN", cursor, "MATCH", keys, "COUNT", count)
        with understood(client, keys.decode(errors="replace")):
            cursor, found = answer
            found = list(found)
            is_over = end.is_reached(cursor)
        yield found
        if is_over:
            return


def _answer(connection: Connection, *command: Argument) -> Any:
    (answer,) = _sound(connection.ask(packed(*command), 1))
    return answer


def _sound(answers: list[Any]) -> list[Any]:
    """Raises the first error among the answers."""
    for answer in answers:
        if isinstance(answer, hiredis.ReplyError):
            raise answer
    return answers


def _run(
    connection: Connection,
    script: Script,
    kind: str,
    keys: Sequence[bytes],
    arguments: Sequence[Argument],
) -> Any:
    """The answer of a script, which the server gets where it does not know it. kind: "_RO" if it only
    reads."""
    rest = (len(keys), *keys, *arguments)
    try:
        return _answer(connection, f"EVALSHA{kind}", script.sha, *rest)
    except hiredis.ReplyError as error:
        if not str(error).startswith("NOSCRIPT"):
            raise
    return _answer(connection, f"EVAL{kind}", script.text, *rest)


def given_secrets() -> list[str]:
    """What servers are given that is secret, and may repeat: one that knows no AUTH, as it was renamed, shows
    what it does not know."""
    return [os.fsdecode(os.environb.get(PASSWORD.encode(), b""))]


def translated(error: Exception, doing: str) -> SimhbaseError:
    """The error of simhbase for one of a socket, of TLS or of the server. doing: what was done, and where."""
    said = " ".join(without(str(error), given_secrets()).split()) or type(error).__name__
    if isinstance(error, ssl.SSLCertVerificationError):
        return StoreFailed(f"{doing}: {said}. Give the authority's certificate by ca=FILE in the URL")
    if isinstance(error, FileNotFoundError | PermissionError):
        return StoreFailed(f"{doing}: {said}")
    if not isinstance(error, hiredis.ReplyError):
        is_up = ". Is Redis up at this address?" if isinstance(error, ConnectionRefusedError) else ""
        return StoreUnreachable(f"{doing}: {said}{is_up}")
    word = said.split(maxsplit=1)[0]
    if word == "LOCKLOST":
        return StoreBusy(
            f"{doing}: the lock was lost, as this process held it for more than {LEASE:g} s without a "
            "change, or the server failed over or evicted it. Nothing is changed: try again"
        )
    if word == "NOTABLES":
        return tables_gone(doing)
    if word == "DAMAGED":
        return damaged(doing, said.partition(" ")[2])
    if word == "MOVED":
        return cluster_refused(doing)
    if advice := _ADVICE.get(word):
        said = f"{said.rstrip('.')}. {advice}"
    is_passing = word in _PASSING or "max number of clients" in said
    return (StoreUnreachable if is_passing else StoreFailed)(f"{doing}: {said}")


# What is done with answers fails by these where they have another form.
_MISUNDERSTOOD = ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error


@contextmanager
def understood(client: Client, key: str) -> Iterator[None]:
    """Raises StoreFailed if what is done with answers fails by their form. key: a pattern of the keys."""
    try:
        yield
    except BadInput:  # of those who ask
        raise
    except _MISUNDERSTOOD as error:
        raise _foreign(client, key, error) from cause_without(error, given_secrets())


def understanding(key: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Makes all of a method `understood`. key: a pattern of the keys, formatted with its object as `self`."""

    def decorate(method: Callable[P, T]) -> Callable[P, T]:
        @wraps(method)
        def checked(*arguments: P.args, **named: P.kwargs) -> T:
            try:  # a context manager would take a tenth of a lookup
                return method(*arguments, **named)
            except BadInput:
                raise
            except _MISUNDERSTOOD as error:
                reading: Any = arguments[0]
                foreign = _foreign(reading._client, key.format(self=reading), error)
                raise foreign from cause_without(error, given_secrets())

        return checked

    return decorate


def _foreign(client: Client, key: str, error: Exception) -> StoreFailed:
    said = without(str(error), given_secrets())
    return StoreFailed(
        f"reading {client.key(key).decode()} of {client.url}: simhbase did not write what is there "
        f"({type(error).__name__}: {said}). Others wrote to these keys, or the server is no Redis: "
        "restore its data, or use another prefix"
    )


def tables_gone(doing: str) -> TablesMissing:
    return TablesMissing(
        f"{doing}: the tables that were opened are gone: dropped, emptied (FLUSHALL, SWAPDB), or lost when "
        "the server restarted or failed over. Open the store again, or restore the server's data"
    )


def damaged(doing: str, what: str) -> StoreFailed:
    return StoreFailed(
        f"{doing}: {what}. The server evicted keys, or they were deleted by hand. Restore its data; or run "
        "'simhbase check --repair', which counts what is left, and load the lost documents again"
    )


def cluster_refused(doing: str) -> PermanentError:
    return StoreFailed(
        f"{doing}: the server is part of a Redis Cluster, where a change of all tables in one step is not "
        "possible. Name a server or primary that is in none"
    )
