"""Runs operations on several connections in parallel, with retries, within a time limit.

An operation consists of tasks. A task is a generator: it yields the requests of a step, is sent their
answers, and returns its result. The tasks of a connection take their steps together, so one round trip serves
all of them, and requests are sent on all connections before waiting for any.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from simhbase.errors import ReadOnly, StoreFailed, StoreUnreachable, TableDisabled, TablesMissing
from simhbase.process.logs import logger
from simhbase.stores.attempts import Attempts, Outage
from simhbase.stores.base import Access
from simhbase.stores.hbase.connection import CallFailed, CallRefused, Connection, ConnectionLost
from simhbase.stores.hbase.counters import Counters
from simhbase.stores.hbase.pool import Pool
from simhbase.stores.hbase.requests import Request, Table
from simhbase.stores.hbase.url import Address

T = TypeVar("T")
Steps = Generator[list[Request], list[Any], T]
Task = Callable[[], Steps[T]]

# Requests under way on a connection. A gateway that writes an answer does not read, and we do not read
# while we write: what is under way must fit into the buffers of its socket.
BURST_BYTES = 64 << 10
OPENING_SECONDS = 10.0
# Of an operation's time: what is kept for finding out why it failed, and that at most, in seconds.
EXPLAINING_SHARE, EXPLAINING_LIMIT = 1 / 10, 3.0
# Share of an operation's time: after this much silence a gateway is probed, and has as much again
# to say so. Silence alone says little: a gateway waits for a region server that has died, too.
DOUBT_SHARE = 1 / 8
SLOW_SECONDS = 1.0
_IS_UP = "Is HBase up, and do its Thrift gateways run there?"

log = logger(__name__)


def ask(request: Request) -> Steps[Any]:
    """The task of one request; its result is the answer."""
    (answer,) = yield [request]
    return answer


def tasks(requests: Iterable[Request]) -> list[Task[Any]]:
    """A task for each independent request."""
    return [partial(ask, request) for request in requests]


class Operation(Attempts):
    """A call of the store. It ends at `limit`, including checks that explain an error."""

    def __init__(self, doing: str, table: Table, seconds: float, outage: Outage) -> None:
        super().__init__(seconds, outage)
        self.doing = f"{doing} {table.name}"
        self.table = table
        self.limit = self.end
        self.end -= min(seconds * EXPLAINING_SHARE, EXPLAINING_LIMIT)


@dataclass(slots=True)
class _Running:
    """A running task: its number, and the requests it waits for."""

    number: int
    steps: Steps[Any]
    requests: list[Request]


@dataclass(slots=True)
class _Channel:
    """A connection and its running tasks."""

    connection: Connection
    running: list[_Running] = field(default_factory=list)

    def send(self) -> None:
        for task in self.running:
            for request in task.requests:
                self.connection.write(request)
        self.connection.send()

    def answers(self) -> list[Any]:
        """The answers to all requests; CallRefused for refused ones."""
        return [self._answer(request) for task in self.running for request in task.requests]

    def _answer(self, request: Request) -> Any:
        try:
            return self.connection.receive(request)
        except CallRefused as refused:
            return refused


class _Attempt:
    """One attempt at the remaining tasks. Afterwards `left` are those without a result."""

    def __init__(self, pool: Pool, tasks: Sequence[Task[Any]], left: Iterable[int]) -> None:
        self._pool = pool
        self._tasks = tasks
        self._waiting = deque(left)
        self._failed: list[int] = []
        self.results: dict[int, Any] = {}
        self.abandoned = 0  # requests without a waiting caller
        self.problem: CallFailed | None = None

    @property
    def left(self) -> list[int]:
        return [*self._waiting, *self._failed]

    def run(self, deadline: float, doubt: float | None) -> None:
        """Take as many connections as the tasks can use, and serve them in turn: send requests, and wait at
        the next turn. Connections that other threads wait for are returned between two tasks."""
        try:
            connections = self._pool.take(len(self._waiting), deadline)
        except ConnectionLost as problem:
            self.problem = problem
            return
        share = -(-len(self._waiting) // len(connections))
        for connection in connections:
            probe = partial(self._pool.require_life, connection.gateway, doubt or 0.0)
            connection.limit(deadline, doubt, probe)
        busy = deque(map(_Channel, connections))
        try:
            while busy:
                channel = busy[0]
                gives_way = len(busy) > 1 and self._pool.is_wanted()
                if self._serve(channel, 0 if gives_way else share):
                    busy.rotate(-1)
                else:
                    busy.popleft()
        finally:  # pending answers would be returned to the next call
            self._pool.discard(channel.connection for channel in busy)

    def _serve(self, channel: _Channel, share: int) -> bool:
        """Take the next step on a channel; false if it was returned or given up."""
        start = time.monotonic()
        try:
            if channel.running:
                self._advance(channel, iter(channel.answers()))
            if not channel.running:
                self._fill(channel, share)
            if not channel.running:
                self._pool.give_back([channel.connection])
                return False
            channel.send()
        except ConnectionLost as problem:
            self._failed += [task.number for task in channel.running]
            self.abandoned += sum(len(task.requests) for task in channel.running)
            self.problem = problem
            self._pool.give_up([channel.connection], time.monotonic() - start, problem)
            return False
        return True

    def _fill(self, channel: _Channel, share: int) -> None:
        """Start tasks on a channel: its share, or a burst, or one larger task."""
        size = 0
        while self._waiting and len(channel.running) < share:
            steps = self._tasks[self._waiting[0]]()
            requests = next(steps)
            size += sum(request.size for request in requests)
            if channel.running and size > BURST_BYTES:
                break
            channel.running.append(_Running(self._waiting.popleft(), steps, requests))

    def _advance(self, channel: _Channel, answers: Iterator[Any]) -> None:
        """Pass answers to the tasks of a channel; unfinished ones have new requests."""
        running = []
        for task in channel.running:
            own = list(islice(answers, len(task.requests)))
            refused = next((answer for answer in own if isinstance(answer, CallRefused)), None)
            if refused is not None:
                self._failed.append(task.number)
                self.problem = refused
                continue
            try:
                task.requests = task.steps.send(own)
                running.append(task)
            except StopIteration as end:
                self.results[task.number] = end.value
        channel.running = running


class GatewayClient:
    """Runs operations on the tables of an address. outage: of its gateways."""

    def __init__(
        self, address: Address, access: Access, pool: Pool, counters: Counters, outage: Outage
    ) -> None:
        self._address = address
        self._access = access
        self._pool = pool
        self._counters = counters
        self.outage = outage

    def gauges(self) -> Mapping[str, int]:
        """Use of its connections; see Pool.gauges."""
        return self._pool.gauges()

    def share(self, n: int, fewest: int, most: int) -> int:
        """Number of n rows per task, so that every connection gets a task."""
        return min(max(-(-n // self._pool.most), fewest), most)

    @contextmanager
    def reading(self, table: Table, doing: str = "reading") -> Iterator[Operation]:
        """A read operation. Raises StoreUnreachable at once if the store fails fast, and all gateways are
        known to be gone."""
        operation = Operation(doing, table, self._address.timeout, self.outage)
        if (why := self.outage.refusal()) is not None:
            raise StoreUnreachable(f"{operation.doing} failed: {why}. {_IS_UP}")
        try:
            yield operation
            self.outage.answered()
        finally:
            seconds = time.monotonic() - operation.start
            self._counters.count("operations")
            if seconds > SLOW_SECONDS:
                self._counters.count("slow_operations")
                log.info("%s took %.1f s, with %d retries", operation.doing, seconds, operation.retries)

    @contextmanager
    def writing(self, table: Table) -> Iterator[Operation]:
        """A write operation. Raises ReadOnly if the store was opened for reading."""
        if self._access == "read":
            raise ReadOnly(f"{self._address.url} was opened for reading: open it with access='write'")
        with self.reading(table, "writing to") as operation:
            yield operation

    def read(self, operation: Operation, tasks: Sequence[Task[T]]) -> list[T]:
        """The results of reading tasks. Raises StoreUnreachable, StoreFailed, TablesMissing, and errors of
        parsers.

        If there is another gateway, an attempt gets half of the remaining time: a gateway may hang, and
        abandoned reads are harmless.
        """
        return self._run(operation, tasks, 2 if self._pool.has_choice else 1)

    def write(self, operation: Operation, tasks: Sequence[Task[T]]) -> list[T]:
        """The results of writing tasks that may be repeated. Raises the errors of `read`.

        An attempt gets all the remaining time, unless the gateway hangs: an abandoned write may still be
        executed.
        """
        return self._run(operation, tasks, 1)

    def write_once(
        self, operation: Operation, tasks: Sequence[Task[T]]
    ) -> tuple[dict[int, T], CallFailed | None]:
        """One attempt at writing tasks that must not be repeated blindly: their results by number, and why
        others have none. Those may have been executed, or may be later."""
        attempt = self._attempt(tasks, range(len(tasks)), operation.end)
        return attempt.results, attempt.problem

    def call(self, operation: Operation, function: Callable[[Connection], T]) -> T:
        """The result of a function of a connection, which may be repeated. Raises the errors of `read`."""
        while True:
            try:
                return self.attempt(function, operation.end)
            except CallFailed as problem:
                self.pause_or_raise(operation, problem)

    def attempt(self, function: Callable[[Connection], T], deadline: float) -> T:
        """The result of a function of a connection, called once. Raises CallFailed."""
        (connection,) = self._pool.take(1, deadline)
        start = time.monotonic()
        doubt = self._doubt
        probe = partial(self._pool.require_life, connection.gateway, doubt or 0.0)
        connection.limit(deadline, doubt, probe)
        try:
            with connection.failures():
                result = function(connection)
        except ConnectionLost as problem:
            self._counters.count("abandoned_calls")
            self._pool.give_up([connection], time.monotonic() - start, problem)
            raise
        except CallRefused:
            self._pool.give_back([connection])
            raise
        except BaseException:
            self._pool.discard([connection])
            raise
        self._pool.give_back([connection])
        return result

    def try_once(self, tasks: Sequence[Task[T]], deadline: float) -> list[T]:
        """The results of tasks, with one retry if idle connections were closed. Raises CallFailed."""
        results: dict[int, T] = {}
        left: Sequence[int] = range(len(tasks))
        for last in (False, True):
            attempt = self._attempt(tasks, left, deadline)
            results |= attempt.results
            left = attempt.left
            problem = attempt.problem
            if problem is not None and (last or isinstance(problem, CallRefused)):
                raise problem
            if problem is None:
                break
        return [results[number] for number in range(len(tasks))]

    def pause_or_raise(self, operation: Operation, problem: CallFailed) -> None:
        """Returns, after a pause (`Attempts.pause_for`), if a retry may help; raises a simhbase error if the
        refusal is final (`CallRefused`), or the time is up."""
        # Writes to a missing table and all calls to a disabled one fail for other reasons.
        if isinstance(problem, CallRefused):
            self._ask_about(operation.table, operation.limit)
            if problem.final:
                raise StoreFailed(f"{operation.doing} failed: {problem}") from problem
        if not operation.pause_for(problem, gone=problem.is_gone):
            if self.outage.is_known():
                raise StoreUnreachable(f"{operation.doing} failed: {problem}. {_IS_UP}") from problem
            self._ask_about(operation.table, operation.limit)
            raise _unreachable(operation, problem) from problem
        self._counters.count("retries")

    def require(self, table: Table) -> None:
        """Raises TablesMissing if a table does not exist, StoreFailed if it is disabled, and
        StoreUnreachable, earlier than other operations: an address that never answered may be mistyped."""
        seconds = min(self._address.timeout, OPENING_SECONDS)
        operation = Operation("looking for", table, seconds, self.outage)
        while (problem := self._unready(table, operation.end)) is not None:
            if isinstance(problem, CallRefused) and problem.final:
                raise StoreFailed(f"{operation.doing} failed: {problem}") from problem
            if operation.pause_for(problem, gone=isinstance(problem, CallFailed) and problem.is_gone):
                continue
            if isinstance(problem, TableDisabled):
                raise problem
            raise _unreachable(operation, problem) from problem
        self.outage.answered()

    def _unready(self, table: Table, deadline: float) -> CallFailed | TableDisabled | None:
        """Why a table cannot be used yet. Raises TablesMissing."""
        try:
            return self._ask_about(table, deadline)
        except TableDisabled as disabled:  # as it is for a moment while another process creates it
            return disabled

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    @property
    def _doubt(self) -> float | None:
        """Seconds of silence after which a gateway is probed; None if there is no other."""
        return self._address.timeout * DOUBT_SHARE if self._pool.has_choice else None

    def _run(self, operation: Operation, tasks: Sequence[Task[T]], attempts: int) -> list[T]:
        """Each attempt gets an equal share of the remaining time."""
        results: dict[int, T] = {}
        left: Sequence[int] = range(len(tasks))
        while left:
            now = time.monotonic()
            attempt = self._attempt(tasks, left, now + (operation.end - now) / attempts)
            results |= attempt.results
            left = attempt.left
            if attempt.problem is not None:
                self.pause_or_raise(operation, attempt.problem)
        return [results[number] for number in range(len(tasks))]

    def _attempt(self, tasks: Sequence[Task[Any]], left: Sequence[int], deadline: float) -> _Attempt:
        attempt = _Attempt(self._pool, tasks, left)
        attempt.run(deadline, self._doubt)
        if attempt.abandoned:
            self._counters.count("abandoned_calls", attempt.abandoned)
            log.info("%d calls were abandoned: %s", attempt.abandoned, attempt.problem)
        return attempt

    def _ask_about(self, table: Table, deadline: float) -> CallFailed | None:
        """Raises TablesMissing or StoreFailed if a table is missing or disabled; returns what prevents an
        answer."""
        limit = min(deadline, time.monotonic() + EXPLAINING_LIMIT)
        try:
            enabled = self.attempt(lambda connection: connection.is_table_enabled(table.name), limit)
        except CallFailed as problem:
            if isinstance(problem, CallRefused) and "TableNotFoundException" in problem.text:
                raise TablesMissing(
                    f"{table.name} is missing: create the tables of {self._address.url} with "
                    "'simhbase tables create'"
                ) from problem
            return problem
        if not enabled:
            raise TableDisabled(f"{table.name} is disabled: in the hbase shell, enable '{table.name}'")
        return None


def _unreachable(operation: Operation, problem: CallFailed) -> StoreUnreachable:
    return StoreUnreachable(
        f"{operation.doing} did not succeed within {operation.seconds:g} s: {problem}. {_IS_UP}"
    )
