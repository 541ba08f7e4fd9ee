"""Every interleaving of writers, a lookup and vacuums over a simulated store, call by call of the store.

The processes are real code, which cannot be copied in the middle of a call. So they are replayed: a process
is a function of the answers that it got, and to find its next call it runs from its start, is fed what it
was answered, and is stopped by an exception where it asks for more. Each history of answers is replayed once
and then known by a number, as is each state of the store, so that a state of the whole is a few numbers.

What is left out, because another state that is explored shows at least as much:
- a lookup that has ended changes nothing, and one that has not begun may never do: nothing follows its end;
- a late copy that can change nothing any more is as good as none, and none was made in another state;
- a worker's crash before its first call, or after its last, is a shorter program.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from simhbase.admin.vacuum import LEAST_GRACE, Vacuum
from simhbase.drawers.layout import layout
from simhbase.drawers.scheme import SimHashScheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.index import rows
from simhbase.index.reader import Reader
from simhbase.index.rows import Entry, State
from simhbase.index.writer import DocumentBatch, Writer
from simhbase.stores.arrays import to_bytes
from tests import simulated
from tests.simulated import EMPTY, Answer, Ask, Call, SimulatedStore, carried_out, kept, table_of, visible

EPOCH = 1000  # by which all clocks go on when the grace time passes
EVERYTHING = 1 << 40  # a time that all is older than
GRACE = LEAST_GRACE
HALVES = 2  # of a grace time, each longer than any operation or lookup
LOOKUP = -1  # among those who are under way; the others are workers
T = TypeVar("T")

X, Y = "xm6", "ycj"  # one salt of the table obsolete is theirs, the first
SALTS = 1
QUERY = 0x0123456789ABCDEF
FORM = SketchParameters(slots=8, bits=8)


class Text(NamedTuple):
    """What a document may be: a fingerprint, and a sketch where some are kept."""

    fingerprint: int
    sketch: bytes = b""


# A and B are near the query, each in one of its two drawers and in none of the other's; C is far.
A, B, C = Text(QUERY ^ 1), Text(QUERY ^ 1 << 63), Text(~QUERY & (1 << 64) - 1)
LIKE, UNLIKE, OTHER = bytes(8), bytes([1] * 8), bytes([2] * 8)
PLAIN = SimHashScheme(layout("2x1"), 1)
VERIFIED = SimHashScheme(layout("2x1"), 1, FORM, 0.9)


class Operation(NamedTuple):
    """Adds a document, or deletes it: then it has no text. With a version, adds it as another store has it,
    or deletes it as it was seen."""

    id: str
    text: Text | None
    version: int | None = None


def add(document: str, text: Text) -> Operation:
    return Operation(document, text)


def delete(document: str) -> Operation:
    return Operation(document, None)


def copy(document: str, text: Text, version: int) -> Operation:
    return Operation(document, text, version)


def delete_seen(document: str, version: int) -> Operation:
    return Operation(document, None, version)


@dataclass(frozen=True)
class Case:
    """Programs of workers, their clocks, and what is stored before: id, text, version."""

    programs: tuple[tuple[Operation, ...], ...]
    clocks: tuple[int, ...]
    stored: tuple[tuple[str, Text, int], ...] = ()
    scheme: SimHashScheme = PLAIN


@dataclass(frozen=True)
class Rules:
    """What may happen, and the code that runs.

    grace: when a vacuum may begin, and what it takes for old.
      "quiet": while nothing is under way; all that was written before is old, all that begins later young.
      "passes": the grace time begins at any moment. What takes its time later is young, and the vacuum begins
        at any moment after each half of the grace time has seen the end of all that was under way when it
        began. One half would not do: an operation that has taken its version may commit when a lookup has
        begun, and that lookup must not meet a vacuum that takes this version for old.
      "old": while nothing is under way, and what is written beside it seems old, too.
      "none": at any moment, and everything seems old.
    """

    store: type[SimulatedStore] = SimulatedStore
    reader: type[Reader] = Reader
    grace: str = "quiet"
    vacuums: int = 1
    vacuum: Callable[[Vacuum], object] = Vacuum.run
    late: bool = True
    crash: bool = True
    lookup: bool = True
    fine: bool = False


class Violation(NamedTuple):
    kind: str
    steps: list[str]


class Explored(NamedTuple):
    states: int
    runs: int
    violation: Violation | None


class _Unanswered(BaseException):
    def __init__(self, call: Call) -> None:
        self.call = call


@dataclass
class _Replay:
    """Feeds a process the answers that it got, each with the epoch of that moment."""

    answers: Sequence[tuple[Answer, int]]
    epoch: int
    position: int = 0

    def ask(self, call: Call) -> Answer:
        if self.position == len(self.answers):
            raise _Unanswered(call)
        answer, self.epoch = self.answers[self.position]
        self.position += 1
        return answer


Process = Callable[[SimulatedStore, Callable[[], int]], object]


class _Histories:
    """Processes with what they were answered so far, by number."""

    def __init__(self, store: Callable[[Ask, bool], SimulatedStore], fine: bool) -> None:
        self.store, self.fine = store, fine
        self._known: list[tuple[Process, int, tuple[tuple[Answer, int], ...]]] = []
        self.call: list[Call | None] = []  # None: it has ended
        self.result: list[object] = []
        self._next: dict[object, int] = {}

    def begun(self, name: object, process: Process, epoch: int) -> int:
        return self._number((name, epoch), process, epoch, ())

    def after(self, history: int, answer: Answer, epoch: int) -> int:
        found = self._next.get((history, answer, epoch))
        if found is None:
            process, start, answers = self._known[history]
            key = (history, answer, epoch)
            found = self._number(key, process, start, (*answers, (answer, epoch)))
        return found

    def _number(
        self, key: object, process: Process, epoch: int, answers: tuple[tuple[Answer, int], ...]
    ) -> int:
        if key not in self._next:
            replay = _Replay(answers, epoch)
            call, result = None, None
            try:
                result = process(self.store(replay.ask, self.fine), lambda: replay.epoch)
            except _Unanswered as unanswered:
                call = unanswered.call
            self._next[key] = len(self._known)
            self._known.append((process, epoch, answers))
            self.call.append(call)
            self.result.append(result)
        return self._next[key]

    def __len__(self) -> int:
        return len(self._known)


class _Worker(NamedTuple):
    """operation: the number of the one that is next, or under way; history: -1 between operations, -2 after a
    crash; before: the operations that had ended when it began."""

    operation: int = 0
    history: int = -1
    before: frozenset[int] = frozenset()

    @property
    def is_busy(self) -> bool:
        return self.history >= 0


class _Lookup(NamedTuple):
    """history, and what was found to be near throughout, and at any time: ids, and (id, fingerprint)."""

    history: int
    must: frozenset[str]
    may: frozenset[tuple[str, int]]


class _Vacuum(NamedTuple):
    """history: -1 before it begins, -2 after its end; passed: of the grace time, in halves, the one under way
    included; young: the epoch that began with it; waiting: who has been under way since this half began."""

    history: int = -1
    passed: int = 0
    young: int = 0
    waiting: frozenset[int] = frozenset()


class _World(NamedTuple):
    store: int
    workers: tuple[_Worker, ...]
    superseded: frozenset[int]
    crashes: int
    late: Call | bool  # True: there may be one yet
    lookup: _Lookup | None
    vacuums: tuple[_Vacuum, ...]
    epoch: int


@dataclass(frozen=True)
class _Seen:
    """What a state of the store means: what is stored of each document, which of them are near, as (id,
    fingerprint), and whether hints are missing that lead to one."""

    truth: dict[str, Text]
    near: frozenset[tuple[str, int]]
    lacks_rows: bool


def _seen(state: simulated.State, scheme: SimHashScheme) -> _Seen:
    listings, index = table_of(state, "fingerprints"), table_of(state, "index")
    truth, lacks_rows = {}, False
    for each in visible(table_of(state, "documents")):
        entry = Entry.decode(each.key, each.value)
        if entry.state != State.STORED:
            continue
        document = rows.document_id(each.key)
        listing = kept(listings, rows.listing_key(entry.fingerprint, document)).value
        truth[document] = text = Text(entry.fingerprint, entry.sketch)
        keys = to_bytes(scheme.keys(FingerprintBatch.bare(np.array([text.fingerprint], dtype=np.uint64))))
        lacks_rows |= listing is None or any(kept(index, key).value is None for key in keys)
    near = frozenset(
        (document, text.fingerprint)
        for document, text in truth.items()
        if (text.fingerprint ^ QUERY).bit_count() <= scheme.k and text.sketch in (b"", LIKE)
    )
    return _Seen(truth, near, lacks_rows)


@dataclass
class Exploration:
    """Explores one case under some rules, breadth first: the way to the first violation is a shortest one."""

    case: Case
    rules: Rules = Rules()
    most: int | None = None
    _stores: list[simulated.State] = field(default_factory=list)
    _numbers: dict[simulated.State, int] = field(default_factory=dict)
    _moves: dict[object, tuple[int, Answer]] = field(default_factory=dict)
    _views: dict[int, _Seen] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._histories = _Histories(self.rules.store, self.rules.fine)
        self._operations = [
            (worker, number, operation)
            for worker, program in enumerate(self.case.programs)
            for number, operation in enumerate(program)
        ]
        self._index = {(worker, number): at for at, (worker, number, _) in enumerate(self._operations)}

    def run(self) -> Explored:
        start = _World(
            self._number(self._initial()),
            (_Worker(),) * len(self.case.programs),
            frozenset(),
            0 if self.rules.crash else 1,
            self.rules.late,
            None,
            (_Vacuum(),) * self.rules.vacuums,
            0,
        )
        came: dict[_World, tuple[_World, str] | None] = {start: None}
        queue = deque([start])
        while queue:
            world = queue.popleft()
            for label, following in self._following(world):
                if isinstance(following, str):
                    steps = [*_way(came, world), label]
                    return Explored(len(came), len(self._histories), Violation(following, steps))
                if following not in came:
                    came[following] = (world, label)
                    wrong = self._wrong(following)
                    if wrong:
                        return Explored(
                            len(came), len(self._histories), Violation(wrong, _way(came, following))
                        )
                    queue.append(following)
            if self.most is not None and len(came) > self.most:
                raise AssertionError(f"more than {self.most} states")
        return Explored(len(came), len(self._histories), None)

    # The store

    def _initial(self) -> simulated.State:
        """What writers with clocks of the time of each document made."""
        server = simulated.Server(EMPTY)
        store = SimulatedStore(server.ask)
        for document, text, version in self.case.stored:
            clock = partial(int, version)
            Writer(store, self.case.scheme, clock, chance=lambda most: 0).add(
                DocumentBatch([document], _prints([text]))
            )
        return server.state

    def _number(self, state: simulated.State) -> int:
        if state not in self._numbers:
            self._numbers[state] = len(self._stores)
            self._stores.append(state)
        return self._numbers[state]

    def _carried_out(self, store: int, call: Call, epoch: int) -> tuple[int, Answer]:
        key = (store, call, epoch)
        if key not in self._moves:
            state, answer = carried_out(self._stores[store], call, epoch * EPOCH)
            self._moves[key] = self._number(state), answer
        return self._moves[key]

    def _seen(self, store: int) -> _Seen:
        if store not in self._views:
            self._views[store] = _seen(self._stores[store], self.case.scheme)
        return self._views[store]

    # What may come next

    def _following(self, world: _World) -> Iterator[tuple[str, "_World | str"]]:
        for number, worker in enumerate(world.workers):
            yield from self._work(world, number, worker)
        yield from self._late(world)
        yield from self._lookup(world)
        for number, vacuum in enumerate(world.vacuums):
            yield from self._vacuum(world, number, vacuum)

    def _work(self, world: _World, number: int, worker: _Worker) -> Iterator[tuple[str, _World]]:
        program = self.case.programs[number]
        if worker.history == -2 or worker.operation == len(program):
            return
        histories = self._histories
        operation = program[worker.operation]
        if worker.is_busy:
            history, before = worker.history, worker.before
            if not world.crashes:
                crashed = self._ended(world, number, _Worker(worker.operation, -2))
                yield f"worker {number} crashes", crashed._replace(crashes=1)
        else:
            # What chance adds to versions differs from one operation to the next.
            chance = 2 * worker.operation + (number == 0)
            clock = self.case.clocks[number]
            process = partial(_work, self.case.scheme, operation, clock, chance)
            history = histories.begun((number, operation), process, world.epoch)
            before = frozenset(
                at
                for at, (who, nth, other) in enumerate(self._operations)
                if other.id == operation.id
                and (nth < world.workers[who].operation or world.workers[who][:2] == (nth, -2))
            )
        call = histories.call[history]
        assert call is not None
        store, answer = self._carried_out(world.store, call, world.epoch)
        following = histories.after(history, answer, world.epoch)
        label = f"worker {number}: {_shown(call)}"
        moved = self._stored(world, store)
        if histories.call[following] is None:
            moved = self._ended(moved, number, _Worker(worker.operation + 1))
            moved = moved._replace(superseded=moved.superseded | before)
        else:
            workers = _replaced(world.workers, number, _Worker(worker.operation, following, before))
            moved = moved._replace(workers=workers)
        yield label, moved
        if world.late is True and call.is_put and not self._is_spent(store, call):
            yield f"{label}, to be repeated", moved._replace(late=call)

    def _ended(self, world: _World, number: int, worker: _Worker) -> _World:
        """A world in which what a worker had under way has ended."""
        vacuums = tuple(
            vacuum._replace(waiting=vacuum.waiting - {number}) if vacuum.waiting else vacuum
            for vacuum in world.vacuums
        )
        return world._replace(workers=_replaced(world.workers, number, worker), vacuums=vacuums)

    def _stored(self, world: _World, store: int) -> _World:
        """A world with another store; what the lookup under way may find follows it."""
        lookup = world.lookup
        if lookup is not None:
            near = self._seen(store).near
            lookup = lookup._replace(
                must=lookup.must & {document for document, _ in near}, may=lookup.may | near
            )
        return world._replace(store=store, lookup=lookup)

    def _late(self, world: _World) -> Iterator[tuple[str, _World]]:
        if isinstance(world.late, Call):
            store, _ = self._carried_out(world.store, world.late, world.epoch)
            if store != world.store:
                label = f"once more: {_shown(world.late)}"
                yield label, self._stored(world._replace(late=False), store)

    def _is_spent(self, store: int, call: Call) -> bool:
        """Whether a call that was carried out can never again change anything: where its cells have later
        versions, which only rise, or the only value that is ever put there."""
        if call.versions is None:
            return False
        table = table_of(self._stores[store], call.table)
        return all(
            value == b"" or (there := kept(table, key)).version > version or there.hidden >= version
            for key, value, version in zip(call.keys, call.values, call.versions, strict=True)
        )

    def _lookup(self, world: _World) -> Iterator[tuple[str, "_World | str"]]:
        if not self.rules.lookup:
            return
        histories = self._histories
        if world.lookup is None:
            process = partial(_look, self.rules.reader, self.case.scheme)
            near = self._seen(world.store).near
            history = histories.begun("lookup", process, 0)
            lookup = _Lookup(history, frozenset(document for document, _ in near), near)
        else:
            lookup = world.lookup
        call = histories.call[lookup.history]
        assert call is not None
        _, answer = self._carried_out(world.store, call, world.epoch)
        following = histories.after(lookup.history, answer, 0)
        label = f"lookup: {_shown(call)}"
        if histories.call[following] is not None:
            yield label, world._replace(lookup=lookup._replace(history=following))
            return
        found = histories.result[following]
        assert isinstance(found, frozenset)
        if not lookup.must <= {document for document, _ in found}:
            yield label, "a document that was near throughout was missed"
        if not found <= lookup.may:
            yield label, "a document was found that was near at no time"

    def _vacuum(self, world: _World, number: int, vacuum: _Vacuum) -> Iterator[tuple[str, _World]]:
        def go(label: str, to: _Vacuum, epoch: int = world.epoch) -> tuple[str, _World]:
            return label, world._replace(vacuums=_replaced(world.vacuums, number, to), epoch=epoch)

        if vacuum.history == -2:
            return
        if vacuum.history >= 0:
            yield self._vacuumed(world, number, vacuum)
            return
        grace = self.rules.grace
        busy = frozenset(at for at, worker in enumerate(world.workers) if worker.is_busy)
        if world.lookup is not None:
            busy |= {LOOKUP}
        if grace == "passes" and vacuum.passed < HALVES:
            if not vacuum.waiting:
                label = f"half {vacuum.passed + 1} of the grace time begins"
                epoch = world.epoch + (vacuum.passed == 0)
                young = vacuum.young or epoch
                yield go(label, _Vacuum(-1, vacuum.passed + 1, young, busy), epoch)
        elif grace == "none" or not (vacuum.waiting if grace == "passes" else busy):
            epoch = world.epoch + (grace == "quiet")
            before = EVERYTHING if grace in ("old", "none") else (vacuum.young or epoch) * EPOCH
            process = partial(_clean, self.rules.vacuum, self.case.scheme, before)
            history = self._histories.begun(("vacuum", before), process, 0)
            yield go("the vacuum begins", _Vacuum(history), epoch)

    def _vacuumed(self, world: _World, number: int, vacuum: _Vacuum) -> tuple[str, _World]:
        histories = self._histories
        call = histories.call[vacuum.history]
        assert call is not None
        store, answer = self._carried_out(world.store, call, world.epoch)
        following = histories.after(vacuum.history, answer, 0)
        after = _Vacuum(-2 if histories.call[following] is None else following)
        moved = self._stored(world, store)
        return f"vacuum: {_shown(call)}", moved._replace(vacuums=_replaced(world.vacuums, number, after))

    # What must hold

    def _wrong(self, world: _World) -> str | None:
        if self._seen(world.store).lacks_rows:
            return "a stored document lacks its rows"
        if not any(worker.is_busy for worker in world.workers):
            truth = self._seen(world.store).truth
            # What a version of the past makes of a document depends on what is there.
            past = {operation.id for _, _, operation in self._operations if operation.version is not None}
            for document in {operation.id for _, _, operation in self._operations} - past:
                if truth.get(document) not in self._possible(world, document):
                    return "an operation that another followed has won"
        return None

    def _possible(self, world: _World, document: str) -> list[Text | None]:
        """What may be stored of a document when nothing is under way: what operations made that have not
        been followed by another one, which was acknowledged."""
        possible, acknowledged = [], False
        for at, (who, nth, operation) in enumerate(self._operations):
            if operation.id != document:
                continue
            worker = world.workers[who]
            crashed = worker[:2] == (nth, -2)
            acknowledged |= nth < worker.operation
            if (crashed or nth < worker.operation) and at not in world.superseded:
                possible.append(operation.text)
        if not acknowledged:
            possible.append(next((text for stored, text, _ in self.case.stored if stored == document), None))
        return possible


def explore(case: Case, rules: Rules = Rules()) -> Explored:
    return Exploration(case, rules).run()


def _work(
    scheme: SimHashScheme,
    operation: Operation,
    clock: int,
    chance: int,
    store: SimulatedStore,
    epoch: Callable[[], int],
) -> None:
    at_work = Writer(store, scheme, lambda: clock + epoch() * EPOCH, lambda most: chance)
    if operation.version is not None and operation.text is not None:
        at_work.copy(DocumentBatch([operation.id], _prints([operation.text])), [operation.version])
    elif operation.version is not None:
        at_work.delete_seen({operation.id: operation.version})
    elif operation.text is None:
        at_work.delete([operation.id])
    else:
        at_work.add(DocumentBatch([operation.id], _prints([operation.text])))


def _look(
    reader: type[Reader], scheme: SimHashScheme, store: SimulatedStore, epoch: Callable[[], int]
) -> frozenset[tuple[str, int]]:
    query = Text(QUERY, LIKE if scheme.sketching else b"")
    (found,) = reader(store, scheme).find(_prints([query]))
    return frozenset((match.id, match.fingerprint) for match in found.matches)


def _clean(
    run: Callable[[Vacuum], object],
    scheme: SimHashScheme,
    before: int,
    store: SimulatedStore,
    epoch: Callable[[], int],
) -> None:
    run(Vacuum(store, scheme, GRACE, lambda: before + GRACE * 1000))


def _prints(texts: Sequence[Text]) -> FingerprintBatch:
    sketches = np.frombuffer(b"".join(text.sketch for text in texts), dtype=np.uint8)
    values = np.array([text.fingerprint for text in texts], dtype=np.uint64)
    return FingerprintBatch(values, sketches.reshape(len(texts), -1))


def _replaced(values: tuple[T, ...], number: int, value: T) -> tuple[T, ...]:
    return (*values[:number], value, *values[number + 1 :])


def _way(came: dict[_World, tuple[_World, str] | None], world: _World) -> list[str]:
    steps = []
    while (step := came[world]) is not None:
        world, label = step
        steps.append(label)
    return steps[::-1]


def _shown(call: Call) -> str:
    versions = "" if call.versions is None else f" at {call.versions}"
    keys = ", ".join(key.hex() for key in call.keys)
    return f"{call.method} {call.table} {keys}{versions}"
