"""What may happen to every store, and how faults are chosen."""

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import TypeVar

from simhbase.errors import PermanentError, RetryableError
from tests.adversary.crew import Crew
from tests.adversary.workers import clean
from tests.relay import Relay

FAULTS_AT_ONCE = 3
PATIENCE = 120.0  # seconds in which an error that does not pass must come behind those that do


@dataclass(frozen=True)
class Damage:
    """What was damaged from when to when, as errors name it: a regular expression."""

    named: str
    begin: float
    end: float


@dataclass(frozen=True)
class Fault:
    """What happened, from when to when."""

    kind: str
    begin: float
    end: float


@dataclass(frozen=True)
class Snapshot:
    """The URL of a store made of a snapshot, and from when to when that was taken."""

    url: str
    begin: float
    end: float


T = TypeVar("T")
Kind = Callable[[], str | None]  # more exactly what happened


@dataclass
class Faults:
    """What may happen. Each is undone before it returns, or by `undo`.

    url: of the store, past relays; victims: documents that no worker changes, with their fingerprints; only:
    names of faults, if not all may happen.
    """

    relays: Sequence[Relay]
    crew: Crew
    chance: random.Random
    url: str
    victims: Mapping[str, int] = field(default_factory=dict)
    only: Sequence[str] = ()
    happened: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)  # operations on what was damaged
    damages: list[Damage] = field(default_factory=list)
    past: list[Fault] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    over: Event = field(default_factory=Event)
    _under_way: list[str] = field(default_factory=list)
    _choosing: Lock = field(default_factory=Lock)

    def happen(self, calm: float) -> None:
        """One after the other, until it is over, about so many seconds apart; several threads may do that."""
        while not self.over.wait(self.chance.uniform(0, 2 * calm)):
            with self._choosing:
                kinds = self._kinds()
                if not kinds:
                    continue
                kind = self.chance.choice(kinds)
                self._under_way.append(kind.__name__)
            begin = time.monotonic()
            fault = kind() or kind.__name__.replace("_", " ")
            self._under_way.remove(kind.__name__)
            self.past.append(Fault(kind.__name__, begin, time.monotonic()))
            self.happened[fault] += 1

    def _kinds(self) -> list[Kind]:
        """What may happen now. No more than one thread does the same, or something else of its group."""
        groups: list[list[Kind]] = [[self.kill_a_worker], [self.cut_connections], *self._groups()]
        free = [kind for group in groups if not self._is_under_way(group) for kind in group]
        return [kind for kind in free if not self.only or kind.__name__ in self.only]

    def _is_under_way(self, group: Sequence[Kind]) -> bool:
        return any(kind.__name__ in self._under_way for kind in group)

    def _groups(self) -> list[list[Kind]]:
        raise NotImplementedError

    def undo(self) -> None:
        raise NotImplementedError

    def kill_a_worker(self) -> None:
        self.crew.replace_one()

    def cut_connections(self) -> None:
        for relay in self.relays:
            relay.cut()

    def quiet(self) -> AbstractContextManager[None]:
        """For the block nobody repairs what is damaged, nor writes where only one process can."""
        return self.crew.without(clean)

    @contextmanager
    def damaged(self, named: str) -> Iterator[None]:
        """Damage is there for the block; errors of workers may name it."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self.damages.append(Damage(named, begin, time.monotonic()))

    def require_error(self, operation: str, call: Callable[[], object], named: str) -> None:
        """The operation on what is damaged fails, and names it. Other faults may make it fail before."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                answer = call()
            except RetryableError:
                assert time.monotonic() < end, f"{operation} meets nothing but errors that pass"
                time.sleep(0.1)
            except PermanentError as error:
                if not re.search(named, str(error)):
                    raise AssertionError(f"{operation} should name {named!r}: {error}") from error
                self.refused[operation] += 1
                return
            else:
                raise AssertionError(f"{operation} answers {answer!s:.300}, and {named!r} is damaged")


def lasting(call: Callable[[], T]) -> T:
    """Makes a call until no other fault is in its way."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return call()
        except RetryableError:
            assert time.monotonic() < end
            time.sleep(0.1)
