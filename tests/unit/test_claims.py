"""Claims of one process, in a store that many may write; tests/property/test_claims.py has interleavings."""

import threading
import time
from collections.abc import Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any, get_args

import numpy as np
import pytest

import simhbase
from simhbase import Document
from simhbase.errors import StoreFailed
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index.claims import claim
from simhbase.index.claims.batch import ClaimContext, ClaimKind, LoadRun
from simhbase.index.claims.claim import PART, AtomicClaimer, BatchClaimer, Claimed, QueuedClaims
from simhbase.index.claims.selection import NEAREST
from simhbase.index.rows import BATCH_ROWS, document_key
from simhbase.index.writer import DocumentBatch, Writer
from simhbase.model.values import Claim, ClaimMode, Match
from simhbase.profile.profile import Profile
from tests.claiming import FAR, KIND, SCHEME, A, Quiet, claims_of, fingerprints_of, stored_in
from tests.near import versions
from tests.simulated import Answer, Ask, Call, Server, SimulatedStore

LEASE = 10.0
NEAR = A ^ 1
REPLACING = ClaimKind(SCHEME.bounds(None, None), replacing=True)


class Died(Exception):
    pass


class Steps(Quiet):
    """A clock that only moves when somebody waits, or is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += 1.0


def claimed(context: ClaimContext, given: dict[str, int], timeout: float = 1e9) -> Sequence[Claim]:
    return claims_of(context, list(given), fingerprints_of(list(given.values())), REPLACING, timeout).claims


def leave_a_dead_claim(server: Server) -> None:
    """Of a worker that died when the texts near A were about to be claimed."""

    def ask(call: Call) -> Answer:
        if call.method == "compare_and_set":
            raise Died
        return server.ask(call)

    with pytest.raises(Died):
        claimed(ClaimContext(SimulatedStore(ask), SCHEME, lease=LEASE), {"dead": A})


@pytest.mark.parametrize("ids", [["moved", "new"], ["new", "moved"]])
def test_a_text_near_one_that_the_same_call_has_replaced_is_no_duplicate(ids):
    server = Server()
    store = SimulatedStore(server.ask)
    Writer(store, SCHEME, lambda: 1).add(DocumentBatch(["moved"], fingerprints_of([A])))
    wanted = {"moved": FAR, "new": NEAR}
    answers = claimed(
        ClaimContext(store, SCHEME, lambda: 1), {document: wanted[document] for document in ids}
    )
    # As if they came one after the other: who comes first meets the text that is replaced later.
    assert [answer.accepted for answer in answers] == [
        ids == ["moved", "new"] or answer.id == "moved" for answer in answers
    ]
    assert stored_in(server.state) == {answer.id: wanted[answer.id] for answer in answers if answer.accepted}


def test_calls_that_wait_for_less_than_a_lease_end_a_dead_claim_together():
    server, steps = Server(), Steps()
    leave_a_dead_claim(server)
    context = ClaimContext(SimulatedStore(server.ask), SCHEME, lease=LEASE, waiting=steps)
    outcomes = [claimed(context, {"b": NEAR}, timeout=LEASE / 2 - 1)[0].outcome for _ in range(4)]
    assert outcomes == ["undecided"] * 2 + ["accepted"] * 2
    assert stored_in(server.state) == {"b": NEAR}


def test_what_waits_is_renewed_while_other_claims_of_its_call_go_on(monkeypatch):
    monkeypatch.setattr(claim, "LARGEST_BATCH", 1)
    server, steps = Server(), Steps()
    leave_a_dead_claim(server)
    beats: dict[bytes, list[float]] = {}

    def ask(call: Call) -> Answer:
        steps.now += 3.0 if call.method == "increment" else 0.0
        if call.method == "compare_and_set" and call.keys[0].startswith(BATCH_ROWS):
            beats.setdefault(call.keys[0], []).append(steps.now)
        return server.ask(call)

    context = ClaimContext(SimulatedStore(ask), SCHEME, lease=LEASE, waiting=steps)
    others = {f"far {number}": FAR ^ 0xFF << 8 * number for number in range(6)}
    assert all(answer.accepted for answer in claimed(context, {"b": NEAR, **others}))
    times, *_ = beats.values()
    assert len(times) > 3
    assert all(after - before < LEASE for before, after in pairwise(times))


def scans_and_puts_of_claims(another_process: bool) -> list[tuple[str, int]]:
    """Reads and writes of the index, with the number of documents, by claims of 30 stored and 70 new texts
    while nobody else claims, or while another process takes tickets."""
    server, calls = Server(), list[tuple[str, int]]()

    def ask(call: Call) -> Answer:
        if (call.table, call.method) in (("index", "scan"), ("index", "put")):
            calls.append((call.method, len(call.keys) // SCHEME.tables))
        if another_process and call.method == "increment":
            server.ask(call)
        return server.ask(call)

    values = [0x9E3779B97F4A7C15 * number & (1 << 64) - 1 for number in range(1, 101)]
    writer = Writer(SimulatedStore(server.ask), SCHEME, lambda: 1)
    writer.add(DocumentBatch([f"stored {number}" for number in range(30)], fingerprints_of(values[:30])))
    documents = {f"claimed {number}": value for number, value in enumerate(values)}
    answers = claimed(ClaimContext(SimulatedStore(ask), SCHEME, lease=LEASE), documents)
    assert [answer.accepted for answer in answers] == [False] * 30 + [True] * 70
    return calls


def test_while_one_process_claims_it_looks_once_and_puts_only_what_is_new():
    assert scans_and_puts_of_claims(another_process=False) == [("scan", 100), ("put", 70)]


def test_if_another_process_takes_a_ticket_meanwhile_a_batch_looks_again():
    assert scans_and_puts_of_claims(another_process=True) == [("scan", 100), ("put", 70), ("scan", 70)]


@pytest.mark.parametrize("another_process", [False, True])
def test_of_a_cluster_a_claim_reads_the_nearest_until_one_matches(another_process: bool) -> None:
    """Each read all documents: 32 claims near 10,000 took half a minute."""
    server, read = Server(), list[int]()

    def ask(call: Call) -> Answer:
        if call.table == "documents" and call.method != "put":
            read.append(len(call.keys))
        if another_process and call.method == "increment":
            server.ask(call)
        return server.ask(call)

    near = [A ^ 1 << bit for bit in range(32)]
    writer = Writer(SimulatedStore(server.ask), SCHEME, lambda: 1)
    stored = [f"stored {number}" for number in range(640)]
    writer.add(DocumentBatch(stored, fingerprints_of([A, *near[1:]] * 20)))
    context = ClaimContext(SimulatedStore(ask), SCHEME, lease=LEASE)
    assert claimed(context, {"new": FAR})[0].accepted
    for number in range(3):
        read.clear()
        (answer,) = claimed(context, {f"claimed {number}": A})
        assert (answer.outcome, answer.match and answer.match.distance) == ("duplicate", 0)
        assert sum(read) <= 2 * NEAREST


def test_a_load_that_is_resumed_waits_for_no_claim_of_the_run_before():
    server, steps = Server(), Steps()

    def ask(call: Call) -> Answer:
        if call.method == "compare_and_set":
            raise Died
        return server.ask(call)

    def claim_by(ask: Ask, document: str, run: LoadRun) -> str:
        context = ClaimContext(SimulatedStore(ask), SCHEME, lease=LEASE, waiting=steps)
        kind = REPLACING._replace(run=run)
        return claims_of(context, [document], fingerprints_of([A]), kind, LEASE / 2).claims[0].outcome

    first, second = b"12345678", b"abcdefgh"
    with pytest.raises(Died):
        claim_by(ask, "a", LoadRun(first))
    assert claim_by(server.ask, "a", LoadRun(second)) == "undecided"
    assert claim_by(server.ask, "a", LoadRun(second, ended=first)) == "accepted"


class Expiring(SimulatedStore):
    def ttl(self) -> int:
        return 100


def test_a_claim_of_what_is_stored_writes_it_anew_before_it_expires():
    server = Server()
    time = [1_000_000]
    context = ClaimContext(Expiring(server.ask), SCHEME, lambda: time[0], chance=lambda most: 0)

    def version() -> int:
        server.least_time = time[0]
        claimed(context, {"a": A})
        ((cell,),) = [SimulatedStore(server.ask).records("documents").get([document_key("a")])]
        return cell.version

    first = version()
    time[0] += 10_000
    assert version() == first
    time[0] += 30_000
    assert version() >= time[0]


SKETCHED = {"verified": Profile(verify=True, threshold=0.8, reach=7), "minhash": Profile(scheme="minhash")}


@pytest.mark.parametrize("before", ["new", "stored with another text"])
@pytest.mark.parametrize("name", SKETCHED)
def test_pending_claims_are_compared_by_their_sketches(name, before):
    scheme = SKETCHED[name].index_scheme
    prints = _sketched(SKETCHED[name])
    server, steps = Server(), Steps()
    if before != "new":
        Writer(SimulatedStore(server.ask), scheme, lambda: 1).add(DocumentBatch(["dead"], prints[[3]]))

    def ask(call: Call) -> Answer:
        if call.method == "compare_and_set":
            raise Died
        return server.ask(call)

    def claim_one(ask: Ask, document: str, number: int, timeout: float) -> str:
        context = ClaimContext(SimulatedStore(ask), scheme, lease=LEASE, waiting=steps)
        kind = ClaimKind(scheme.bounds(None, None), replacing=True)
        (answer,) = claims_of(context, [document], prints[[number]], kind, timeout).claims
        return answer.outcome

    with pytest.raises(Died):
        claim_one(ask, "dead", 0, LEASE)
    assert claim_one(server.ask, "other", 2, 0) == "accepted"
    assert claim_one(server.ask, "similar", 1, 0) == "undecided"
    assert claim_one(server.ask, "similar", 1, 2 * LEASE) == "accepted"
    assert claim_one(server.ask, "dead", 0, 0) == "duplicate"
    assert stored_in(server.state).keys() == {"other", "similar"} | ({"dead"} if before != "new" else set())


def _sketched(profile: Profile) -> FingerprintBatch:
    """A text, one near it, and two others; where sketches verify, the first of these has the same bits."""
    text, similar = islice(versions(1), 2)
    other, another = islice(versions(2, seed=1), 0, 8, 4)
    found = profile.fingerprinter().fingerprint_many([text, similar, other, another]).fingerprints
    if profile.index_scheme.listed_sketching is None:
        found.values[1:3] = found.values[0]
    return found


def test_claims_of_sources_take_turns() -> None:
    """16 requests of one token for a thousand claims each held up those of others for half a minute."""
    with (
        simhbase.open("memory:", create=simhbase.Profile(verify=False)) as index,
        ThreadPoolExecutor(8) as pool,
    ):
        begun, go_on, order = threading.Event(), threading.Event(), list[Hashable]()
        claimer = index.claimer
        assert isinstance(claimer, AtomicClaimer)
        claim_all, waiting = claimer._claim, claimer._queue

        def noted(requests: Sequence[QueuedClaims]) -> None:
            order.extend(request.source for request in requests)
            begun.set()
            assert go_on.wait(10)
            claim_all(requests)

        claimer._claim = noted  # type: ignore[method-assign]
        many = [Document(f"{number}", "words of a text") for number in range(PART)]
        calls = [pool.submit(index.begin_claims, many, source="a")]
        assert begun.wait(10)
        calls += [pool.submit(index.begin_claims, many, source="a") for _ in range(3)]
        while waiting.records < 3 * len(many):
            time.sleep(0.01)
        calls.append(pool.submit(index.begin_claims, [Document("b", "words of a text")], source="b"))
        while waiting.records <= 3 * len(many):
            time.sleep(0.01)
        go_on.set()
        for each in calls:
            assert each.result().result()
    assert order == ["a", "a", "b", "a", "a"]


def test_others_have_their_turns_between_the_parts_of_a_large_request() -> None:
    """A thousand claims near a large cluster held up those of others for half a minute."""
    with (
        simhbase.open("memory:", create=simhbase.Profile(verify=False)) as index,
        ThreadPoolExecutor(2) as pool,
    ):
        begun, go_on, order = threading.Event(), threading.Event(), list[list[str]]()
        claimer = index.claimer
        assert isinstance(claimer, AtomicClaimer)
        claim_all, waiting = claimer._claim, claimer._queue

        def noted(requests: Sequence[QueuedClaims]) -> None:
            order.append(sorted({str(request.source) for request in requests}))
            begun.set()
            assert go_on.wait(10)
            claim_all(requests)

        claimer._claim = noted  # type: ignore[method-assign]
        many = [Document(f"{number}", "words of a text") for number in range(40 * PART)]
        many[100] = Document("far", "another one with other words")
        many[200] = Document("3", "an id that came earlier")
        large = pool.submit(index.begin_claims, many, source="a")
        assert begun.wait(10)
        small = pool.submit(index.begin_claims, [Document("b", "words of a text")], source="b")
        while not waiting.records:
            time.sleep(0.01)
        go_on.set()
        claims, (other,) = large.result().result().claims, small.result().result().claims
    assert [each.id for each in claims] == [each.id for each in many]
    outcomes = {each.id: each.outcome for each in claims}
    assert (outcomes.pop("0"), outcomes.pop("far"), claims[200].outcome) == (*["accepted"] * 2, "rejected")
    assert {each.outcome for each in claims if each.id in outcomes and each is not claims[200]} == {
        "duplicate"
    }
    assert (other.outcome, other.match and other.match.id) == ("duplicate", "0")
    assert order[0] == ["a"]
    assert "b" in order[1]
    assert order[-1] == ["a"]


@pytest.mark.parametrize("mode", get_args(ClaimMode))
def test_what_a_large_request_has_not_begun_in_time_is_undecided(mode: ClaimMode) -> None:
    """20 requests to annotate a thousand texts near 60,000 took 2 GB, and went on after their time."""
    texts = [f"a text of words {number} {number * 7919} {number * 104729}" for number in range(3 * PART)]
    with simhbase.open("memory:", create=simhbase.Profile(verify=False)) as index:
        begun = index.begin_claims([Document(text, text) for text in texts], 0, mode=mode, source="a")
        claims = begun.result().claims
        decided, left = claims[:PART], claims[PART:]
        assert {each.outcome for each in decided} <= {"accepted", "duplicate"}
        assert {each.outcome for each in left} == {"undecided"}
        assert "not decided within 0 s" in str(left[0].reason)
        assert index.fingerprints([each.id for each in left]) == [None] * len(left)


def test_a_store_of_many_processes_annotates_in_parts_too() -> None:
    batch = DocumentBatch([f"d{number}" for number in range(PART + 1)], fingerprints_of([A] * (PART + 1)))
    claimer = BatchClaimer(ClaimContext(SimulatedStore(Server().ask), SCHEME))
    request = QueuedClaims.of(batch, KIND._replace(annotates=True), 0, source="a")
    with closing(claimer):
        claimer.begin(request)
    *claims, late = request.result().claims
    assert [each.outcome for each in (*claims, late)] == [*["accepted"] * PART, "undecided"]
    assert [match.id for match in claims[2].also_at] == ["d0", "d1"]


def test_claims_that_take_long_hold_up_no_writer_and_no_other_claim() -> None:
    """Near a crowd of which none matches, 32 were decided before another's, under the lock of the store:
    nobody could write, /readyz answered 503, and others' claims never came."""
    size, beside = 300, list[int]()
    with simhbase.open("memory:", create="default") as index, ThreadPoolExecutor(2) as pool:
        many = [Document(f"a{number}", text) for number, text in enumerate(islice(versions(9), 0, None, 4))]
        found = index.fingerprinter.fingerprint_many([each.text for each in many] * size).fingerprints
        sketches = np.random.default_rng(0).integers(0, 256, found.sketches.shape, np.uint8)
        index.add_batch(
            [f"s{number}" for number in range(len(found))], FingerprintBatch(found.values, sketches)
        )
        claimer, decide = index.claimer, claim.duplicates_of
        assert isinstance(claimer, AtomicClaimer)
        others = list[Future[Future[Claimed]]]()

        def decided(*arguments: Any, **options: Any) -> list[Match | None]:
            if not others:
                another = [Document("b", "quite another text of other words")]
                others.append(pool.submit(index.begin_claims, another, source="b"))
                while not claimer._queue.records:
                    time.sleep(0.01)
            matches = decide(*arguments, **options)
            beside.append(len(matches))
            return matches

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(claim, "duplicates_of", decided)
            claims = index.begin_claims(many, source="a").result().claims
        assert others[0].result().result().claims[0].outcome == "accepted"
        assert [each.id for each in claims] == [each.id for each in many]
        assert max(beside) <= 2  # one of them, and the other one's
        again = index.claim_many(many)
    assert {each.outcome for each in (*claims, *again)} == {"accepted"}


def test_a_part_that_is_decided_with_claims_of_others_is_answered_whole(monkeypatch) -> None:
    decide = claim.duplicates_of
    monkeypatch.setattr(claim, "duplicates_of", lambda *given, **options: decide(*given, **options)[:1])
    with simhbase.open("memory:", create=simhbase.Profile(verify=False)) as index:
        claimer = index.claimer
        assert isinstance(claimer, AtomicClaimer)
        large, other = (
            QueuedClaims.of(DocumentBatch(ids, fingerprints_of(values)), REPLACING, source=ids[0])
            for ids, values in ((["a", "b", "c"], [A, A, FAR]), (["d"], [FAR]))
        )
        part = large.part(range(3))
        claimer._claim([part, other])
        assert [each.outcome for each in part.future.result().claims] == ["accepted", "duplicate", "accepted"]
        assert [each.outcome for each in other.future.result().claims] == ["duplicate"]


def test_a_part_is_late_when_its_request_is() -> None:
    request = QueuedClaims.of(DocumentBatch(["a"], fingerprints_of([A])), REPLACING, 10.0, source="a")
    part = replace(request, asked=time.monotonic() - 11).part([0])
    assert part.is_late(time.monotonic())
    request.is_given_up.set()
    assert request.part([0]).is_late(time.monotonic())


def test_an_error_in_a_part_is_one_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with simhbase.open("memory:", create=simhbase.Profile(verify=False)) as index:
        claimer = index.claimer
        assert isinstance(claimer, AtomicClaimer)
        claim_all, parts = claimer._claim, list[int]()

        def fails(requests: Sequence[QueuedClaims]) -> None:
            parts.append(len(requests[0].records))
            if len(parts) == 2:
                raise StoreFailed("it broke")
            claim_all(requests)

        monkeypatch.setattr(claimer, "_claim", fails)
        documents = [Document(f"{number}", "words of a text") for number in range(3 * PART)]
        with pytest.raises(StoreFailed, match="it broke"):
            index.begin_claims(documents, source="a").result()
        assert parts == [PART, PART]
        assert [each.outcome for each in index.claim_many(documents)].count("accepted") == 1
