"""Claims: "accept this text unless a near one is already accepted", by any number of workers at once.

To look up and then to add is a race: two workers can both see nothing. In a store that changes all its tables
in one step both are done under its lock (`AtomicClaimer`). In others claims are decided in batches, as
`batch.py` says (`BatchClaimer`). In both, claims of many threads and tasks share batches: while one is
on its way new ones queue up, and the next batch takes all of them. One that waits for others delays nobody.

Muted documents make nothing a duplicate, and nobody waits for claims that would be muted: of near texts at
most one is accepted among those that are not muted, and all of those that are.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from time import monotonic, sleep
from typing import Protocol, cast

from simhbase.drawers.scheme import Bounds, Scheme
from simhbase.errors import Undecided, UsageError
from simhbase.index.claims import TIMEOUT
from simhbase.index.claims.batch import (
    NO_ROW,
    ClaimBatch,
    ClaimContext,
    ClaimKind,
    DocumentRow,
    jittered,
    stored_outcome,
)
from simhbase.index.claims.selection import (
    OthersOfBatch,
    annotations_of,
    duplicates_of,
    nearest_stored,
    others_of,
)
from simhbase.index.counts import note_refused
from simhbase.index.reader import DRAWER_LIMIT, Reader
from simhbase.index.writer import DocumentBatch, Writer, admitted, alive_since, known
from simhbase.model.values import AddReport, Claim, Fingerprint, Match, Outcome
from simhbase.process.interrupt import interrupt_pending
from simhbase.process.logs import logger
from simhbase.process.queue import OF_ALL, Queue, QueuedRequest
from simhbase.stores.base import HintingStore, Store

log = logger(__name__)

LARGEST_BATCH = 4096  # fewer claims than can be decided within a lease; what a load writes together
LARGEST_SHARED = 512  # claims of several callers in one batch
# The same on behalf of sources, and of a part of a larger request: other sources wait for it, and near a
# cluster each claim may take a fifth of a second.
PART = 32
CALLS_BESIDE = 2  # of a batch: its ticket and its own rows, while it reads drawers
FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.1  # seconds
PAUSE_FOR_OTHERS = 0.001  # seconds: without it this thread takes the lock again before another one can
INTERRUPTIBLE = 0.5  # seconds after which Ctrl-C is noticed at the latest
IDLE = 0.2  # seconds without claims after which what they left is removed
OTHER_TEXT = "another text is stored under this id: a change is made by add"
TIME_IS_UP = (
    "not decided within {seconds:g} s, as others have not decided about texts near it, or much was claimed "
    "at once. Nothing is stored: make the same claim again"
)
INTERRUPTED = "interrupted while others had not decided about texts near it: make the same claim again"
NOT_CLEANED_UP = "claims were answered, and not cleaned up, which vacuum does later: %s"

Count = Callable[..., None]
NOTHING = AddReport()


@dataclass(frozen=True, slots=True)
class Claimed:
    """The answers to claims, and what was stored."""

    claims: list[Claim]
    report: AddReport


@dataclass(frozen=True, eq=False, kw_only=True)
class QueuedClaims(QueuedRequest[ClaimKind, Claimed]):
    """Claims of one caller, answered as if they came one after the other.

    batch: what can be claimed; claims: the answer to each document that was asked about, None for those of
    `batch`; timeout: seconds, after which claims that are open are undecided.
    """

    batch: DocumentBatch
    claims: Sequence[Claim | None]
    timeout: float
    is_given_up: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(
        cls,
        documents: DocumentBatch,
        kind: ClaimKind,
        timeout: float = TIMEOUT,
        reasons: Sequence[str | None] | None = None,
        source: Hashable = None,
        is_given_up: threading.Event | None = None,
    ) -> QueuedClaims:
        """The request for n documents. reasons: why a document has no fingerprint, None for those that have
        one. Raises UsageError for a timeout that is none."""
        documents = documents if kind.scope is None else kind.scope.documents(documents)
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
            raise UsageError(f"must be a number of seconds, not {timeout!r}", parameter="timeout")
        reasons = reasons or [None] * len(documents.ids)
        fits = [number for number, reason in enumerate(reasons) if reason is None]
        batch, rejected = admitted(documents if len(fits) == len(reasons) else documents[fits])
        left, refused = set(batch.ids), iter(rejected)
        claims = list[Claim | None]()
        for document, value, reason in zip(documents.ids, documents.values, reasons, strict=True):
            if reason is not None:
                claims.append(Claim(document, "rejected", reason=reason))
            elif document in left:
                left.remove(document)
                claims.append(None)
            else:
                claims.append(Claim(document, "rejected", Fingerprint(value), reason=next(refused).reason))
        return cls(
            kind=kind,
            records=batch.ids,
            batch=batch,
            claims=claims,
            timeout=timeout,
            source=source,
            is_given_up=is_given_up or threading.Event(),
        )

    def result(self) -> Claimed:
        """Waits for the answers. Ctrl-C gives up what has to wait for others."""
        try:
            # Importing polars makes the system resume a wait after Ctrl-C, so none may be long.
            while not self.future.done():
                wait([self.future], INTERRUPTIBLE)
            return self.future.result()
        except BaseException:
            self.is_given_up.set()
            raise

    def is_late(self, time: float) -> bool:
        return self.is_given_up.is_set() or time >= self.asked + self.timeout

    def answer(self, claims: Sequence[Claim], report: AddReport, count: Count) -> None:
        """Gives the answers to the claims of `batch`, with the others."""
        answers = iter(claims)
        answered = [next(answers) if each is None else each for each in self.claims]
        for outcome, number in Counter(each.outcome for each in answered).items():
            count("claims", number, outcome=outcome)
        if self.kind.scope is not None:
            answered = list(map(self.kind.scope.claim, answered))
        self.future.set_result(Claimed(answered, report))

    def part(self, numbers: Sequence[int]) -> PartOfClaims:
        """The request for some of `batch`."""
        some = self.batch[numbers]
        return PartOfClaims(
            kind=self.kind,
            records=some.ids,
            batch=some,
            claims=[],
            timeout=self.timeout,
            source=self.source,
            asked=self.asked,
            is_given_up=self.is_given_up,
        )


class PartOfClaims(QueuedClaims):
    """A part of a request, of which the first ones are decided, at least one."""

    def answer(self, claims: Sequence[Claim], report: AddReport, count: Count) -> None:
        """Gives the answers to the whole request, which counts and shows them."""
        self.future.set_result(Claimed([*claims], report))


class Claimer(Protocol):
    """Stores documents of one scheme that nothing near is stored of."""

    def begin(self, request: QueuedClaims) -> None:
        """Has documents claimed. They are durable when the request is answered."""

    def close(self) -> None:
        """Returns when all that was begun is answered and cleaned up; may be called twice."""
        return


def claimer_for(
    store: Store,
    scheme: Scheme,
    clock: Callable[[], int],
    count: Count,
    *,
    counts: bool = False,
) -> Claimer:
    """The claimer for a kind of store. count: is told metrics; counts: whether the store counts refused
    claims."""
    if store.keeps_hints:
        shared = cast(HintingStore, store)
        return BatchClaimer(ClaimContext(shared, scheme, clock, count, counts=counts))
    return AtomicClaimer(store, scheme, clock, count, counts=counts)


class AtomicClaimer(Claimer):
    """Claims in a store that changes all its tables in one step. Callers wait for their turn; the one whose
    turn it is claims for all who wait, so that they share reads and a commit. A large request on behalf of a
    source is decided in parts, between which others have their turns; one of a load is decided at once."""

    def __init__(
        self,
        store: Store,
        scheme: Scheme,
        clock: Callable[[], int],
        count: Count,
        *,
        counts: bool = False,
    ) -> None:
        self._store, self._scheme, self._clock = store, scheme, clock
        self._count, self._counts = count, counts
        self._queue = Queue[QueuedClaims](0, "claims")

    def begin(self, request: QueuedClaims) -> None:
        most = LARGEST_SHARED if request.source is None else PART
        if request.source is not None and len(request.records) > 1 and not isinstance(request, PartOfClaims):
            self._begin_in_parts(request)
            return
        self._queue.put(request, is_due=True)
        turn = self._queue.turn
        while not request.future.done():
            if turn.acquire(timeout=LONGEST_PAUSE):  # meanwhile another one may claim for this one
                try:
                    if not request.future.done():
                        self._claim_all(self._queue.take(most))
                finally:
                    turn.release()

    def _begin_in_parts(self, request: QueuedClaims) -> None:
        claims, report = list[Claim](), NOTHING
        left = range(len(request.records))
        while left and not (claims and request.is_late(monotonic())):
            part = request.part(left[:PART])
            self.begin(part)
            try:
                claimed = part.future.result()
            except Exception as error:
                request.fail(error)
                return
            claims += claimed.claims
            report += claimed.report
            left = left[len(claimed.claims) :]
        claims += _too_late(request.batch, left, request.timeout)
        request.answer(claims, report, self._count)

    def _claim_all(self, requests: Sequence[QueuedClaims]) -> None:
        """Claims for requests of one kind."""
        # One by one, so that each reports what was stored before.
        alone = requests[0].kind.replacing or len(requests) == 1
        try:
            for part in [[each] for each in requests] if alone else _without_repeated_ids(requests):
                self._claim_or_fail(part)
        except BaseException:  # Ctrl-C in the thread whose turn it is
            for request in requests:
                request.fail(Undecided("the process was interrupted: make the same claims again"))
            raise

    def _claim_or_fail(self, requests: Sequence[QueuedClaims]) -> None:
        """If one request may be the cause of an error, each is claimed by itself."""
        try:
            self._claim(requests)
        except Exception as error:
            if len(requests) == 1 or isinstance(error, OF_ALL):
                for request in requests:
                    request.fail(error)
                return
            for request in requests:
                self._claim_or_fail([request])

    def _claim(self, requests: Sequence[QueuedClaims]) -> None:
        """Claims for requests with different ids."""
        batches, first = [request.batch for request in requests], requests[0]
        batch = batches[0] if len(batches) == 1 else DocumentBatch.joined(batches)
        claims, again, report, size = list[Claim](), set[str](), NOTHING, len(batch.ids)
        in_parts = first.source is not None
        is_part = len(requests) == 1 and isinstance(first, PartOfClaims)
        while len(claims) < size and not (claims and is_part):
            if in_parts and all(each.timeout and each.is_late(monotonic()) for each in requests):
                claims += _too_late(batch, range(len(claims), size), first.timeout)  # nobody is waiting
                break
            if claims:
                sleep(PAUSE_FOR_OTHERS)
            left = batch[range(len(claims), size)] if claims else batch
            decided, stored, added = self._decide(left, first.kind, in_parts=in_parts)
            report = report + added if claims else added
            claims += decided
            again |= stored
        answered = iter(claims)
        for request in requests:
            answers = list(islice(answered, len(request.batch.ids)))
            unchanged = sum(claim.id in again for claim in answers)
            if len(requests) > 1:  # and nothing is replaced
                report = AddReport(added=sum(claim.accepted for claim in answers) - unchanged)
            if unchanged:
                report = replace(report, unchanged=report.unchanged + unchanged)
            request.answer(answers, report, self._count)

    def _decide(
        self, batch: DocumentBatch, kind: ClaimKind, *, in_parts: bool
    ) -> tuple[list[Claim], set[str], AddReport]:
        """What is decided about documents, which of them were accepted before, and what was added.

        in_parts: stop before a document that a crowd is near to, so that others can write in between.
        """
        of = kind.scope.of if kind.scope else b""
        reader = Reader(self._store, self._scheme, clock=self._clock, hidden=kind.hidden(), of=of)
        if kind.annotates:
            return self._annotated(batch, reader, kind.bounds)
        with self._store.exclusive():
            alive = alive_since(self._store, self._clock())
            stored = [] if kind.replacing else known(self._store, batch.ids)
            answers = {
                number: claim_of(batch, number, stored_outcome(batch, number, each.entry, self._scheme))
                for number, each in enumerate(stored)
                if each and each.stored and each.version >= alive
            }
            again = {claim.id for claim in answers.values() if claim.accepted}
            open_ = [number for number in range(len(batch.ids)) if number not in answers]
            new = batch[open_] if answers else batch
            found = duplicates_of(reader, new.ids, new.fingerprints, kind.bounds, in_parts=in_parts)
            kept = [place for place, near in enumerate(found) if near is None]
            report = Writer(self._store, self._scheme, self._clock).add(
                new if len(kept) == len(new.ids) else new[kept]
            )
        for number, near in zip(open_, found, strict=False):
            answers[number] = claim_of(batch, number, "duplicate" if near else "accepted", near)
        end = open_[len(found)] if len(found) < len(open_) else len(batch.ids)
        claims = [answers[number] for number in range(end)]
        if self._counts:
            note_refused(self._store, self._clock(), claims)
        return claims, again, report

    def _annotated(
        self, batch: DocumentBatch, reader: Reader, bounds: Bounds
    ) -> tuple[list[Claim], set[str], AddReport]:
        report = Writer(self._store, self._scheme, self._clock).add(batch)
        self._store.refresh()
        # Afterwards: of two workers one sees the other's.
        near = annotations_of(reader, batch.ids, batch.fingerprints, bounds)
        claims = [
            replace(claim_of(batch, number, "accepted"), also_at=each.matches, truncated=each.truncated)
            for number, each in enumerate(near)
        ]
        return claims, set(), report


def _too_late(batch: DocumentBatch, numbers: Sequence[int], seconds: float) -> list[Claim]:
    """The answers to claims that were not begun within the time of their request."""
    reason = TIME_IS_UP.format(seconds=seconds)
    return [claim_of(batch, number, "undecided", reason=reason) for number in numbers]


def claim_of(
    batch: DocumentBatch, number: int, outcome: Outcome, match: Match | None = None, reason: str | None = None
) -> Claim:
    """The answer to one claim of a batch."""
    reason = OTHER_TEXT if outcome == "conflict" else reason
    return Claim(batch.ids[number], outcome, Fingerprint(batch.values[number]), match, reason)


class BatchClaimer(Claimer):
    """Claims in a store that many processes write. One thread takes those that share batches: two batches at
    once would be smaller, and cost twice as much a claim. Another takes calls of many, for which few would
    wait too long. Texts to annotate do not wait for claims."""

    def __init__(self, context: ClaimContext) -> None:
        self._context = context
        self._annotating = AtomicClaimer(context.store, context.scheme, context.clock, context.count)
        self._shared = Queue[QueuedClaims](1, "claims", lambda: self._serve(self._shared))
        self._large = Queue[QueuedClaims](1, "claims", lambda: self._serve(self._large))

    def begin(self, request: QueuedClaims) -> None:
        if request.kind.annotates:
            self._annotating.begin(request)
            return
        queue = self._large if len(request.records) > LARGEST_SHARED else self._shared
        queue.put(request, is_due=True)

    def close(self) -> None:
        self._shared.close()
        self._large.close()

    def _serve(self, queue: Queue[QueuedClaims]) -> None:
        def take(seconds: float | None) -> Sequence[QueuedClaims]:
            if seconds == IDLE and queue.closed:
                seconds = 0.0
            return queue.take(LARGEST_SHARED, seconds and jittered(seconds))

        with ThreadPoolExecutor(CALLS_BESIDE, "simhbase claims, calls") as pool:
            claim_all(replace(self._context, beside=lambda call: pool.submit(call).result), take)


def claim_all(context: ClaimContext, take: Callable[[float | None], Sequence[QueuedClaims]]) -> None:
    """Claims what `take` gives, until that is nothing and all is answered and cleaned up. take: is told how
    many seconds to wait for more; None: until there is something, or there will be nothing any more."""
    context = replace(context, remains=[])
    groups: list[_Group] = []
    pause: float | None = None
    while (requests := take(pause)) or groups or context.remains:
        if context.is_to_clean_up or not (requests or groups):
            try:
                context.clean_up()
            except Exception as error:
                log.warning(NOT_CLEANED_UP, error)
        groups += [_Group(context, some) for some in _without_repeated_ids(requests)]
        has_moved = False
        for group in list(groups):
            try:
                has_moved |= group.step()
            except Exception as error:
                has_moved = True
                groups.remove(group)
                groups += group.failed(error)
        groups = [group for group in groups if not group.is_over]
        if not groups:
            pause = IDLE if context.remains else None
        elif has_moved:
            pause = 0.0
        else:
            pause = min(2 * pause, LONGEST_PAUSE) if pause else FIRST_PAUSE


def _without_repeated_ids(requests: Sequence[QueuedClaims]) -> list[list[QueuedClaims]]:
    """The requests in parts that have no id twice."""
    parts: list[list[QueuedClaims]] = []
    ids: list[set[str]] = []
    for request in requests:
        which = next((n for n, each in enumerate(ids) if each.isdisjoint(request.batch.ids)), len(parts))
        if which == len(parts):
            parts.append([])
            ids.append(set())
        parts[which].append(request)
        ids[which].update(request.batch.ids)
    return parts


class _Group:
    """Requests of one kind, with different ids, answered as if their claims came one after the other.

    A claim near an earlier one waits for its answer; the others go into a batch together. A batch that waits
    for others stays open while the next one begins.
    """

    def __init__(self, context: ClaimContext, requests: Sequence[QueuedClaims]) -> None:
        self.context = context
        self.kind = requests[0].kind
        self.answers: dict[str, Claim] = {}
        self.reports = dict.fromkeys(requests, NOTHING)
        self._left = {request: set(request.batch.ids) for request in requests}  # ids without an answer
        self._request_of = {document: request for request in requests for document in request.batch.ids}
        self._open: list[ClaimBatch] = []
        self._begun = set[str]()  # ids that were in a batch
        self._decided: list[QueuedClaims] = []  # whose refused claims are not counted yet

    @cached_property
    def batch(self) -> DocumentBatch:
        return DocumentBatch.joined([request.batch for request in self._left])

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The place of each claim in their order."""
        return {document: number for number, document in enumerate(self.batch.ids)}

    @cached_property
    def _others(self) -> OthersOfBatch:
        return others_of(self.batch.fingerprints, self.context.scheme, self.kind.bounds)

    @property
    def is_over(self) -> bool:
        return not self._open and all(request.future.done() for request in self._left)

    def step(self) -> bool:
        """Decides what can be decided; False if that was nothing. Gives up what is late, or all that has to
        wait for others after Ctrl-C. Raises what the store does: pending claims stay until their lease
        ends."""
        for request, left in self._left.items():
            if not left and not request.future.done():
                self._finish(request)
        has_moved = self._begin()
        for batch in self._open:
            has_moved |= batch.step()
        time = self.context.waiting.time()
        if late := {id_ for request, ids in self._left.items() if request.is_late(time) for id_ in ids}:
            self._give_up(late, TIME_IS_UP)
        elif not has_moved and interrupt_pending():
            self._give_up(set().union(*self._left.values()), INTERRUPTED)
        if self._decided:
            self._count_and_answer()
        self._open = [batch for batch in self._open if not batch.is_over]
        if self._open and not has_moved:
            self.context.count("claim_waits")
        return has_moved

    def _begin(self) -> bool:
        """Begins a batch of the claims that can begin; False if nothing was begun or answered."""
        answered = len(self.answers)
        free = list(self._free())
        batch = self._looking_first(free) if self.context.recent.is_alone else self._batch_of(free)
        if batch.ids:
            self._open.append(batch)
            self._begun.update(batch.ids)
            batch.begin()
        return bool(batch.ids) or len(self.answers) > answered

    def _looking_first(self, numbers: Sequence[int]) -> ClaimBatch:
        """A batch of claims that has looked, without those that need not go into it."""
        batch = ClaimBatch(self.context, self.kind, self.batch[numbers], {}, self._answer)
        if numbers:
            known, near = batch.look_first()
            batch.keep(self._unsettled(numbers, known, near))
        return batch

    def _batch_of(self, numbers: Sequence[int]) -> ClaimBatch:
        """A batch of claims, without those that need not go into it by what an ordinary lookup finds. That
        spares writes, and decides nothing else: the batch looks when it has its ticket."""
        # While nearly all claims are new, their batch is the first to read anything.
        unread = set[int]()
        if self.context.recent.are_new:
            # Unless a batch has met something under the id, or an accepted claim is near.
            unread = {
                number
                for number in numbers
                if self.batch.ids[number] not in self._begun and not any(self._others.kept_near(number))
            }
        known = {self.batch.ids[number]: NO_ROW for number in unread}
        if left := [number for number in numbers if number not in unread]:
            found, near = self._first_lookup(left)
            unread.update(left[place] for place in self._unsettled(left, found, near))
            known |= found
        return ClaimBatch(self.context, self.kind, self.batch[sorted(unread)], known, self._answer)

    def _free(self) -> Iterator[int]:
        """The claims that are in no batch, and not near an earlier one without an answer."""
        busy = {document for batch in self._open for document in batch.ids}
        undecided: set[int] = set()
        free = 0
        for document, number in self._numbers.items():
            if document in self.answers:
                continue
            is_free = document not in busy and undecided.isdisjoint(self._others.values_near(number))
            if free < LARGEST_BATCH and is_free:
                free += 1
                yield number
            undecided.add(self._others.value_of(number))

    def _unsettled(
        self, numbers: Sequence[int], known: Mapping[str, DocumentRow], near: Sequence[Sequence[Match]]
    ) -> list[int]:
        """Answers what is decided by what is stored, or by earlier claims; returns the places of the others
        that can go into a batch. known: documents rows by id; near: what is stored near each claim."""
        hidden = self.kind.hidden()
        left = []
        for place, number in enumerate(numbers):
            document = self.batch.ids[number]
            matches = [*hidden.visible(self._others.kept_near(number)), *near[place]]
            # Without documents that an earlier claim may replace, as it has no answer yet.
            final = [
                match
                for match in matches
                if match.id in self.answers or self._numbers.get(match.id, number) >= number
            ]
            stored = known[document].committed
            if settled := self.context.settled(self.kind, self.batch, number, stored, final):
                self._answer(document, *settled, AddReport(unchanged=int(settled[0] == "accepted")))
            elif not matches:
                left.append(place)
        return left

    def _first_lookup(
        self, numbers: Sequence[int]
    ) -> tuple[dict[str, DocumentRow], Sequence[Sequence[Match]]]:
        """Reads the documents rows of claims. Finds, within a reader's usual limits, the stored documents
        near each claim: those that are claimed, too, and the nearest other one."""
        ids = [self.batch.ids[number] for number in numbers]
        read = self.context.beside(lambda: self.context.read_rows(ids))
        reader, prints = self.context.reader(self.kind), self.batch.fingerprints[list(numbers)]
        near = nearest_stored(reader, prints, self.kind.bounds, self._numbers, DRAWER_LIMIT)
        others = [
            [match for match in matches if match.id != document]
            for document, matches in zip(ids, near.matches, strict=True)
        ]
        return read(), others

    def _answer(
        self,
        document: str,
        outcome: Outcome,
        match: Match | None = None,
        report: AddReport = NOTHING,
        reason: str | None = None,
    ) -> None:
        number, request = self._numbers[document], self._request_of[document]
        if outcome == "accepted":
            self._others.keep(number, document)
        if outcome != "undecided":
            was_stored = outcome in ("accepted", "conflict") and not report.added
            self.context.recent.note(outcome, was_stored=was_stored)
        self.answers[document] = claim_of(self.batch, number, outcome, match, reason)
        self.reports[request] += report
        self._left[request].remove(document)
        if not self._left[request]:
            self._finish(request)

    def _finish(self, request: QueuedClaims) -> None:
        if self.context.counts:
            self._decided.append(request)
            return
        claims = [self.answers[document] for document in request.batch.ids]
        request.answer(claims, self.reports[request], self.context.count)

    def _count_and_answer(self) -> None:
        """Counts the refused claims of all requests that are decided, with one write, then answers them."""
        decided, self._decided = self._decided, []
        claims = {each: [self.answers[document] for document in each.batch.ids] for each in decided}
        note_refused(self.context.store, self.context.clock(), chain.from_iterable(claims.values()))
        for request, answers in claims.items():
            request.answer(answers, self.reports[request], self.context.count)

    def _give_up(self, ids: set[str], reason: str) -> None:
        for batch in self._open:
            batch.give_up(ids)
        for document in ids.difference(self.answers):
            reason = reason.format(seconds=self._request_of[document].timeout)
            self._answer(document, "undecided", reason=reason)

    def failed(self, error: Exception) -> Iterator[_Group]:
        """Raises an error for the requests that have no answer. If one of them may be the cause, each half
        begins again."""
        if self._decided:
            with suppress(Exception):  # they begin again then, and are answered as before
                self._count_and_answer()
        left = [request for request in self._left if not request.future.done()]
        if not left:
            log.warning(NOT_CLEANED_UP, error)
        elif len(left) == 1 or isinstance(error, OF_ALL):
            for request in left:
                request.fail(error)
        else:
            for batch in self._open:
                with suppress(Exception):  # others wait for its lease then
                    batch.abandon()
            half = len(left) // 2
            yield from (_Group(self.context, some) for some in (left[:half], left[half:]))
