"""Operations on several connections at once, with retries.

An operation is made of tasks. A task is a generator: it yields the requests of a step, is sent their
answers, and returns its result. The tasks of a connection take their steps together, so that one round
trip serves them all, and all connections ("lanes") are sent requests before any is waited for.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar, cast

from simhbase.errors import ReadOnly, StoreFailed, StoreUnreachable, TablesMissing
from simhbase.stores.base import Access
from simhbase.stores.hbase.address import Address
from simhbase.stores.hbase.connection import Broken, Connection, Refused, Trouble
from simhbase.stores.hbase.pool import thrift1_pool
from simhbase.stores.hbase.requests import Request, TableRequests

T = TypeVar("T")
Steps = Generator[list[Request], list[Any], T]
Task = Callable[[], Steps[T]]

# Requests under way on a lane. A gateway that writes an answer does not read, and we do not read while
# we write: what is under way must fit into the buffers of its socket.
BURST_BYTES = 64 << 10
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds
OPENING_PATIENCE = 10.0  # seconds
EXPLAINING_LIMIT = 3.0  # seconds for finding out why something failed
# Of an operation's time: after so much silence a gateway is asked whether it lives, and has as much again
# to say so. Silence alone says little: a gateway waits for a region server that has died, too.
DOUBT = 1 / 8


def ask(request: Request) -> Steps[Any]:
    """The task of one request, whose result is the answer."""
    (answer,) = yield [request]
    return answer


class Patience:
    """The time for an operation with all its attempts, and the pauses between them."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.renew()

    def renew(self) -> None:
        """Begins anew, because something was achieved."""
        self.deadline = time.monotonic() + self.seconds
        self._failures = 0

    def pause(self) -> bool:
        """Waits, longer each time; false where the time is up.

        The first failure is followed by no pause: it may be a connection that was closed while it was
        idle. Chance keeps many clients from coming back all at once.
        """
        self._failures += 1
        if self._failures > 1:
            pause = min(FIRST_PAUSE * 2 ** (self._failures - 2), LONGEST_PAUSE)
            time.sleep(max(0.0, min(pause * random.uniform(0.5, 1.5), self.deadline - time.monotonic())))
        return time.monotonic() < self.deadline


@dataclass(slots=True)
class _Running:
    """A task under way: its number, and the requests whose answers it waits for."""

    number: int
    steps: Steps[Any]
    requests: list[Request]


@dataclass(slots=True)
class _Lane:
    """A connection and its tasks under way."""

    connection: Connection
    running: list[_Running] = field(default_factory=list)
    sent: float = 0.0
    deadline: float = 0.0
    broken: bool = False

    def requests(self) -> list[Request]:
        return [request for task in self.running for request in task.requests]


class _Attempt:
    """One go at the tasks that are left. Afterwards `left` are those without a result."""

    def __init__(self, tasks: Sequence[Task[Any]], left: Iterable[int], patience: Patience) -> None:
        self._tasks = tasks
        self._waiting = deque(left)
        self._failed: list[int] = []
        self._patience = patience
        self.results: dict[int, Any] = {}
        self.problem: Trouble | None = None

    @property
    def left(self) -> list[int]:
        return [*self._waiting, *self._failed]

    def run(
        self,
        lanes: Sequence[_Lane],
        deadline: Callable[[], float],
        await_answer: Callable[[_Lane, Sequence[_Lane]], None],
    ) -> None:
        """Lanes are served in turn: each is sent requests, and waited for when it is its turn again.

        Time counts from when requests were sent, so that the lanes of a gateway that hangs are given up
        together, not one after the other.
        """
        share = -(-len(self._waiting) // len(lanes))
        busy = deque(lanes)
        while busy:
            lane = busy.popleft()
            try:
                if lane.running:
                    await_answer(lane, lanes)
                    answers = lane.connection.receive(lane.requests(), lane.deadline)
                    self._advance(lane, iter(answers))
                if not lane.running:
                    self._fill(lane, share)
                if lane.running:
                    lane.sent, lane.deadline = time.monotonic(), deadline()
                    lane.connection.send(lane.requests(), lane.deadline)
                    busy.append(lane)
            except Broken as problem:
                lane.broken = True
                self._failed += [task.number for task in lane.running]
                self.problem = problem

    def _fill(self, lane: _Lane, share: int) -> None:
        """Begins tasks on a lane: its share, or as many as make a burst, or a single larger one."""
        size = 0
        while self._waiting and len(lane.running) < share:
            steps = self._tasks[self._waiting[0]]()
            requests = next(steps)
            size += sum(len(request.message) for request in requests)
            if lane.running and size > BURST_BYTES:
                break
            lane.running.append(_Running(self._waiting.popleft(), steps, requests))

    def _advance(self, lane: _Lane, answers: Iterator[Any]) -> None:
        """Gives the tasks of a lane their answers; what is left running has requests to send."""
        running = []
        for task in lane.running:
            own = list(islice(answers, len(task.requests)))
            refused = next((answer for answer in own if isinstance(answer, Refused)), None)
            if refused is not None:
                self._failed.append(task.number)
                self.problem = refused
                continue
            try:
                task.requests = task.steps.send(own)
                running.append(task)
            except StopIteration as end:
                self.results[task.number] = end.value
                self._patience.renew()
        lane.running = running


class Client:
    """Carries out operations on the tables of an address."""

    def __init__(self, address: Address, access: Access) -> None:
        self._address = address
        self._access = access
        self._pool = thrift1_pool(address)

    def share(self, n: int, fewest: int, most: int) -> int:
        """How many of n rows to put into one task, so that there is one for every lane."""
        return min(max(-(-n // self._address.lanes), fewest), most)

    def patience(self) -> Patience:
        """The time that an operation has."""
        return Patience(self._address.timeout)

    def read(self, table: TableRequests, tasks: Sequence[Task[T]]) -> list[T]:
        """The results of tasks that read. Raises StoreUnreachable, StoreFailed, TablesMissing.

        Where there is another gateway, an attempt has half of the time that is left: a gateway may
        hang, and reads that are given up harm nobody.
        """
        patience = self.patience()

        def deadline() -> float:
            now = time.monotonic()
            return now + (patience.deadline - now) / min(len(self._address.gateways), 2)

        return self._run(f"reading {table.table}", table, tasks, patience, deadline)

    def write(self, table: TableRequests, tasks: Sequence[Task[T]]) -> list[T]:
        """The results of tasks that write and may be repeated. Raises ReadOnly, and what `read` does.

        An attempt has all the time that is left, unless the gateway itself hangs: a write that is given
        up may still be carried out later, after whatever the caller does next. What a gateway that hung
        carries out when it goes on can put documents back into the state of that call; `check` tells.
        """
        self.require_access()
        patience = self.patience()
        return self._run(f"writing to {table.table}", table, tasks, patience, lambda: patience.deadline)

    def attempt(self, table: TableRequests, task: Task[T], patience: Patience) -> T:
        """The result of a task that must not be repeated blindly. Raises what `write` does, and
        Trouble, after a pause, where it may have been carried out or not."""
        self.require_access()
        attempt = _Attempt([task], [0], patience)
        self._carry_out(attempt, lambda: patience.deadline)
        if attempt.problem is not None:
            self._endure(attempt.problem, f"writing to {table.table}", table, patience)
            raise attempt.problem
        (result,) = attempt.results.values()
        return cast(T, result)

    def close(self) -> None:
        """Ends all use."""
        self._pool.close()

    def _run(
        self,
        doing: str,
        table: TableRequests,
        tasks: Sequence[Task[T]],
        patience: Patience,
        deadline: Callable[[], float],
    ) -> list[T]:
        results: dict[int, T] = {}
        left: Sequence[int] = range(len(tasks))
        while left:
            attempt = _Attempt(tasks, left, patience)
            self._carry_out(attempt, deadline)
            results |= attempt.results
            left = attempt.left
            if attempt.problem is not None:
                self._endure(attempt.problem, doing, table, patience)
        return [results[number] for number in range(len(tasks))]

    def _carry_out(self, attempt: _Attempt, deadline: Callable[[], float]) -> None:
        """Runs an attempt on as many lanes as it can use."""
        try:
            most = min(self._address.lanes, len(attempt.left))
            lanes = [_Lane(connection) for connection in self._pool.take(most, deadline())]
        except Broken as problem:
            attempt.problem = problem
            return
        try:
            attempt.run(lanes, deadline, self._await_answer)
        finally:
            self._pool.give_up([lane.connection for lane in lanes if lane.broken])
            # One with answers under way would give them to the next call.
            for lane in lanes:
                if lane.running and not lane.broken:
                    lane.connection.close()
            self._pool.give_back([lane.connection for lane in lanes if not lane.running and not lane.broken])

    def _await_answer(self, lane: _Lane, lanes: Sequence[_Lane]) -> None:
        """Returns when a lane has an answer, or its gateway is worth waiting for. Raises Broken where
        it hangs, and there is another to go to."""
        doubt = self._address.timeout * DOUBT
        if len(self._address.gateways) < 2 or not lane.connection.is_silent(
            min(lane.sent + doubt, lane.deadline)
        ):
            return
        gateway = lane.connection.gateway
        if any(other.broken and other.connection.gateway == gateway for other in lanes):
            raise Broken(f"{gateway}: no answer in time")
        self._pool.require_life(gateway, time.monotonic() + doubt)

    def _endure(self, problem: Trouble, doing: str, table: TableRequests, patience: Patience) -> None:
        """Returns, after a pause, where another attempt may help, and raises an error of ours where
        it will not, or the time is up."""
        # Writes to a missing table and all calls to a disabled one fail for other reasons.
        if isinstance(problem, Refused):
            self._ask_about(table, time.monotonic() + EXPLAINING_LIMIT)
            if problem.final:
                raise StoreFailed(f"{doing} failed: {problem}") from problem
        if not patience.pause():
            self._ask_about(table, time.monotonic() + EXPLAINING_LIMIT)
            raise self._unreachable(doing, problem, patience) from problem

    def require_access(self) -> None:
        """Raises ReadOnly where the store was opened for reading."""
        if self._access == "read":
            raise ReadOnly(f"{self._address.url} was opened for reading: open it with access='write'")

    def require(self, table: TableRequests) -> None:
        """Raises TablesMissing where a table does not exist, StoreFailed where it is disabled, and
        StoreUnreachable, sooner than other operations: what never answered may be mistyped."""
        patience = Patience(min(self._address.timeout, OPENING_PATIENCE))
        while (problem := self._ask_about(table, patience.deadline)) is not None:
            if isinstance(problem, Refused) and problem.final:
                raise StoreFailed(f"looking for {table.table} failed: {problem}") from problem
            if not patience.pause():
                raise self._unreachable(f"looking for {table.table}", problem, patience) from problem

    def _ask_about(self, table: TableRequests, deadline: float) -> Trouble | None:
        """Raises TablesMissing or StoreFailed where a table is missing or disabled; returns what
        prevents an answer."""
        attempt = _Attempt([lambda: ask(table.is_enabled())], [0], self.patience())
        self._carry_out(attempt, lambda: deadline)
        problem = attempt.problem
        if isinstance(problem, Refused) and "TableNotFoundException" in problem.text:
            raise TablesMissing(
                f"{table.table} is missing: create the tables of {self._address.url} with "
                "'simhbase tables create'"
            )
        if attempt.results == {0: False}:
            raise StoreFailed(f"{table.table} is disabled: in the hbase shell, enable '{table.table}'")
        return problem

    @staticmethod
    def _unreachable(doing: str, problem: Trouble, patience: Patience) -> StoreUnreachable:
        return StoreUnreachable(
            f"{doing} did not succeed within {patience.seconds:g} s: {problem}. Is HBase up, and do its "
            "Thrift gateways run there?"
        )
