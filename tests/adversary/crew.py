"""Workers in processes, which are killed and replaced."""

import os
import random
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import RLock

from tests.adversary.syncs import note_syncs
from tests.adversary.workers import Task, Work
from tests.command_line import COMMAND
from tests.history import PAUSE, Journal, Sharing

AHEADS = (0, -300_000, 300_000)  # milliseconds by which clocks of workers are ahead; opening takes it off
PATIENCE = 300.0  # seconds for all to begin
HOUR = 3_600.0


@dataclass
class Crew:
    """Workers that share documents. embedded: the folder of the store, if it is in one; changing: held
    by who kills workers, until others are there."""

    what: Sharing
    folder: Path
    chance: random.Random
    crowd: int
    seconds: float
    variables: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] = tuple(COMMAND)
    embedded: Path | None = None
    running: dict[BaseProcess, tuple[Work, Task]] = field(default_factory=dict)
    changing: AbstractContextManager[bool] = field(default_factory=RLock)
    _started: int = 0

    @property
    def journals(self) -> list[Journal]:
        return [Journal(path) for path in sorted(self.folder.glob("*.journal"))]

    def start(self, work: Work) -> Task:
        number = self._started
        self._started += 1
        task = Task(
            self.what,
            self.journal(work.__name__),
            self.chance.getrandbits(32),
            AHEADS[number % len(AHEADS)],
            self.crowd,
            # So that what an hour shows can be judged in minutes.
            max(PAUSE, 0.2 * self.seconds / HOUR),
            self.command,
            self.variables,
        )
        process = get_context("spawn").Process(target=run, args=(work, task, self.embedded), daemon=True)
        process.start()
        self.running[process] = (work, task)
        return task

    def journal(self, name: str) -> Journal:
        """One that nobody has written yet."""
        return Journal(self.folder / f"{self._started}-{name}.journal")

    def replace_one(self) -> None:
        """Kills a worker that has begun, and starts another in its place: on a slow machine nobody would ever
        begin otherwise."""
        with self.changing:
            begun = [process for process, (_, task) in self.running.items() if self._has_begun(task)]
            if begun:
                process = self.chance.choice(begun)
                work, _ = self.running.pop(process)
                kill(process)
                self.start(work)

    def stop(self, *works: Work) -> list[Work]:
        """Kills those who do such work, or all; returns what they did."""
        stopped = {process: work for process, (work, _) in self.running.items() if not works or work in works}
        for process in stopped:
            kill(process)
            del self.running[process]
        return list(stopped.values())

    @contextmanager
    def without(self, *works: Work) -> Iterator[None]:
        """Nobody does such work for the block. Those who do it have begun before."""
        with self.changing:
            self.wait_until_all_work()
            stopped = self.stop(*works)
            try:
                yield
            finally:
                for work in stopped:
                    self.start(work)

    def require_life(self) -> None:
        for process, (_, task) in list(self.running.items()):
            assert process.exitcode in (None, -signal.SIGKILL), f"{task.journal.path.name} ended, see stderr"

    def wait_until_all_work(self) -> None:
        end = time.monotonic() + PATIENCE
        while not all(self._has_begun(task) for _, task in self.running.values()):
            self.require_life()
            assert time.monotonic() < end, f"some do not begin: {self._last_errors()}"
            time.sleep(0.2)

    def _last_errors(self) -> list[str]:
        return [path.read_text().splitlines()[-1] for path in sorted(self.folder.glob("*.errors"))]

    def _has_begun(self, task: Task) -> bool:
        number = task.journal.path.name.partition("-")[0]
        return any(self.folder.glob(f"{number}[.-]*.journal"))

    def end(self) -> None:
        self.stop()


def run(work: Work, task: Task, embedded: Path | None) -> None:
    os.setpgrp()  # what it starts is killed with it
    if embedded is not None:
        note_syncs(embedded)
    work(task)


def kill(process: BaseProcess) -> None:
    assert process.pid is not None
    with suppress(ProcessLookupError):  # it has not begun
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()
