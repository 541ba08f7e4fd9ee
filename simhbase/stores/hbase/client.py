"""Operations on several connections at once, with retries, within a limit of time.

An operation is made of tasks. A task is a generator: it yields the requests of a step, is sent their
answers, and returns its result. The tasks of a connection take their steps together, so that one round
trip serves them all, and all connections are sent requests before any is waited for.
"""

from __future__ import annotations

import logging
import random
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from simhbase.errors import ReadOnly, StoreFailed, StoreUnreachable, TableDisabled, TablesMissing
from simhbase.logs import logger
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
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds
OPENING_SECONDS = 10.0
SILENT_SECONDS = 2.0  # after which somebody who waits for an answer is told so
# Of an operation's time: what is kept for finding out why it failed, and that at most, in seconds.
EXPLAINING_SHARE, EXPLAINING_LIMIT = 1 / 10, 3.0
# Of an operation's time: after so much silence a gateway is asked whether it lives, and has as much again
# to say so. Silence alone says little: a gateway waits for a region server that has died, too.
DOUBT_SHARE = 1 / 8
SLOW_SECONDS = 1.0

log = logger(__name__)


def ask(request: Request) -> Steps[Any]:
    """The task of one request, whose result is the answer."""
    (answer,) = yield [request]
    return answer


def tasks(requests: Iterable[Request]) -> list[Task[Any]]:
    """The tasks of requests that do not depend on each other."""
    return [partial(ask, request) for request in requests]


class Attempts:
    """The time for all attempts at something with the pauses between them: `seconds`, until `end`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.start = time.monotonic()
        self.end = self.start + seconds
        self.retries = 0
        self._said = False

    def pause_for(self, problem: Exception) -> bool:
        """The same as pause, and says what is waited for, once, before the wait becomes a long one."""
        longest = min(FIRST_PAUSE * 2**self.retries, LONGEST_PAUSE)
        if not self._said and time.monotonic() + longest > self.start + SILENT_SECONDS < self.end:
            self._said = True
            log.warning("waiting for %s (%.0f s at most)", problem, self.seconds)
        return self.pause()

    def pause(self) -> bool:
        """Waits, longer each time; false where the time is up.

        The first failure is followed by no pause: it may be a connection that was closed while it was
        idle. Chance keeps many clients from coming back all at once.
        """
        self.retries += 1
        if self.retries > 1:
            pause = min(FIRST_PAUSE * 2 ** (self.retries - 2), LONGEST_PAUSE) * random.uniform(0.5, 1.5)
            time.sleep(max(0.0, min(pause, self.end - time.monotonic())))
        return time.monotonic() < self.end


class Operation(Attempts):
    """One call of the store. It ends at `limit`, with what is asked to explain an error."""

    def __init__(self, doing: str, table: Table, seconds: float) -> None:
        super().__init__(seconds)
        self.doing = f"{doing} {table.name}"
        self.table = table
        self.limit = self.end
        self.end -= min(seconds * EXPLAINING_SHARE, EXPLAINING_LIMIT)


@dataclass(slots=True)
class _Running:
    """A task under way: its number, and the requests whose answers it waits for."""

    number: int
    steps: Steps[Any]
    requests: list[Request]


@dataclass(slots=True)
class _Channel:
    """A connection and its tasks under way."""

    connection: Connection
    running: list[_Running] = field(default_factory=list)

    def send(self) -> None:
        for task in self.running:
            for request in task.requests:
                self.connection.write(request)
        self.connection.send()

    def answers(self) -> list[Any]:
        """The answers to all requests, CallRefused in the place of those that were refused."""
        return [self._answer(request) for task in self.running for request in task.requests]

    def _answer(self, request: Request) -> Any:
        try:
            return self.connection.receive(request)
        except CallRefused as refused:
            return refused


class _Attempt:
    """One go at the tasks that are left. Afterwards `left` are those without a result."""

    def __init__(self, pool: Pool, tasks: Sequence[Task[Any]], left: Iterable[int]) -> None:
        self._pool = pool
        self._tasks = tasks
        self._waiting = deque(left)
        self._failed: list[int] = []
        self.results: dict[int, Any] = {}
        self.abandoned = 0  # requests that nobody waits for any more
        self.problem: CallFailed | None = None

    @property
    def left(self) -> list[int]:
        return [*self._waiting, *self._failed]

    def run(self, deadline: float, doubt: float | None) -> None:
        """Takes as many connections as the tasks can use, and serves them in turn: each is sent requests,
        and waited for when it is its turn again. One that other threads wait for is given back between
        two tasks."""
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
        finally:  # answers that are under way would be given to the next call
            self._pool.discard(channel.connection for channel in busy)

    def _serve(self, channel: _Channel, share: int) -> bool:
        """Takes the next step on a channel; false where it has been given back or given up."""
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
        """Begins tasks on a channel: its share, or as many as make a burst, or a single larger one."""
        size = 0
        while self._waiting and len(channel.running) < share:
            steps = self._tasks[self._waiting[0]]()
            requests = next(steps)
            size += sum(request.size for request in requests)
            if channel.running and size > BURST_BYTES:
                break
            channel.running.append(_Running(self._waiting.popleft(), steps, requests))

    def _advance(self, channel: _Channel, answers: Iterator[Any]) -> None:
        """Gives the tasks of a channel their answers; what is left running has requests to send."""
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
    """Carries out operations on the tables of an address."""

    def __init__(self, address: Address, access: Access, pool: Pool, counters: Counters) -> None:
        self._address = address
        self._access = access
        self._pool = pool
        self._counters = counters

    def gauges(self) -> Mapping[str, int]:
        """How its connections are used; see Pool.gauges."""
        return self._pool.gauges()

    def share(self, n: int, fewest: int, most: int) -> int:
        """How many of n rows to put into one task, so that there is one for every connection."""
        return min(max(-(-n // self._pool.most), fewest), most)

    @contextmanager
    def reading(self, table: Table, doing: str = "reading") -> Iterator[Operation]:
        """An operation that reads."""
        operation = Operation(doing, table, self._address.timeout)
        try:
            yield operation
        finally:
            seconds = time.monotonic() - operation.start
            self._counters.count("operations")
            if seconds > SLOW_SECONDS:
                self._counters.count("slow_operations")
                log.info("%s took %.1f s, with %d retries", operation.doing, seconds, operation.retries)

    @contextmanager
    def writing(self, table: Table) -> Iterator[Operation]:
        """An operation that writes. Raises ReadOnly where the store was opened for reading."""
        if self._access == "read":
            raise ReadOnly(f"{self._address.url} was opened for reading: open it with access='write'")
        with self.reading(table, "writing to") as operation:
            yield operation

    def read(self, operation: Operation, tasks: Sequence[Task[T]]) -> list[T]:
        """The results of tasks that read. Raises StoreUnreachable, StoreFailed, TablesMissing, and what
        the readers of answers do.

        Where there is another gateway, an attempt has half of the time that is left: a gateway may
        hang, and reads that are given up harm nobody.
        """
        return self._run(operation, tasks, 2 if self._pool.has_choice else 1)

    def write(self, operation: Operation, tasks: Sequence[Task[T]]) -> list[T]:
        """The results of tasks that write and may be repeated. Raises what `read` does.

        An attempt has all the time that is left, unless the gateway itself hangs: a write that is given
        up is carried out later, perhaps, for nothing.
        """
        return self._run(operation, tasks, 1)

    def write_once(
        self, operation: Operation, tasks: Sequence[Task[T]]
    ) -> tuple[dict[int, T], CallFailed | None]:
        """One attempt at tasks that write and may not be repeated blindly: their results by number, and why
        others have none, which may have been carried out nevertheless, or may be yet."""
        attempt = self._attempt(tasks, range(len(tasks)), operation.end)
        return attempt.results, attempt.problem

    def call(self, operation: Operation, function: Callable[[Connection], T]) -> T:
        """What a function of a connection returns, which may be called again. Raises what `read` does."""
        while True:
            try:
                return self.attempt(function, operation.end)
            except CallFailed as problem:
                self.failed(operation, problem)

    def attempt(self, function: Callable[[Connection], T], deadline: float) -> T:
        """What a function of a connection returns, called once. Raises CallFailed."""
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
        """The results of tasks, with one more attempt where connections were closed while they were idle.
        Raises CallFailed."""
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

    def failed(self, operation: Operation, problem: CallFailed) -> None:
        """Returns, after a pause, where another attempt may help, and raises an error of ours where
        it will not, or the time is up."""
        # Writes to a missing table and all calls to a disabled one fail for other reasons.
        if isinstance(problem, CallRefused):
            self._ask_about(operation.table, operation.limit)
            if problem.final:
                raise StoreFailed(f"{operation.doing} failed: {problem}") from problem
        if not operation.pause():
            self._ask_about(operation.table, operation.limit)
            raise _unreachable(operation, problem) from problem
        self._counters.count("retries")
        level = logging.INFO if operation.retries == 1 else logging.WARNING
        log.log(level, "%s: attempt %d after %s", operation.doing, operation.retries + 1, problem)

    def require(self, table: Table) -> None:
        """Raises TablesMissing where a table does not exist, StoreFailed where it is disabled, and
        StoreUnreachable, sooner than other operations: what never answered may be mistyped."""
        operation = Operation("looking for", table, min(self._address.timeout, OPENING_SECONDS))
        while (problem := self._ask_about(table, operation.end)) is not None:
            if isinstance(problem, CallRefused) and problem.final:
                raise StoreFailed(f"{operation.doing} failed: {problem}") from problem
            if not operation.pause_for(problem):
                raise _unreachable(operation, problem) from problem

    def close(self) -> None:
        """Ends all use."""
        self._pool.close()

    @property
    def _doubt(self) -> float | None:
        """After how much silence a gateway is asked whether it lives; None where there is no other."""
        return self._address.timeout * DOUBT_SHARE if self._pool.has_choice else None

    def _run(self, operation: Operation, tasks: Sequence[Task[T]], attempts: int) -> list[T]:
        """An attempt has the share of the time that is left which makes so many of them possible."""
        results: dict[int, T] = {}
        left: Sequence[int] = range(len(tasks))
        while left:
            now = time.monotonic()
            attempt = self._attempt(tasks, left, now + (operation.end - now) / attempts)
            results |= attempt.results
            left = attempt.left
            if attempt.problem is not None:
                self.failed(operation, attempt.problem)
        return [results[number] for number in range(len(tasks))]

    def _attempt(self, tasks: Sequence[Task[Any]], left: Sequence[int], deadline: float) -> _Attempt:
        attempt = _Attempt(self._pool, tasks, left)
        attempt.run(deadline, self._doubt)
        if attempt.abandoned:
            self._counters.count("abandoned_calls", attempt.abandoned)
            log.info("%d calls were abandoned: %s", attempt.abandoned, attempt.problem)
        return attempt

    def _ask_about(self, table: Table, deadline: float) -> CallFailed | None:
        """Raises TablesMissing or StoreFailed where a table is missing or disabled; returns what
        prevents an answer."""
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
        f"{operation.doing} did not succeed within {operation.seconds:g} s: {problem}. Is HBase up, and do "
        "its Thrift gateways run there?"
    )
