"""Lookups of many threads and tasks share reads, and each gets the answer that it would get alone."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simhbase
from simhbase import Document, Index, Lookup, Profile, SharedLookups
from simhbase.errors import Overloaded, StoreFailed, StoreUnreachable, TimedOut, UsageError
from simhbase.model.values import Query
from simhbase.online import shared as shared_lookups
from simhbase.process import queue
from tests.cluster import Cluster
from tests.command_line import environment
from tests.near import versions

LONG = 20.0  # seconds: what takes so long hangs
TEXTS = list(versions(30, words=40))
STORED = [Document(f"d{number}", text) for number, text in enumerate(TEXTS)]
OTHERS = ["", "word", *versions(4, seed=1)]


def in_memory(*documents: Document, profile: Profile | None = None) -> Index:
    index = simhbase.open("memory:", create=profile or Profile(verify=False))
    index.add(documents)
    return index


# --- the same answers ---

Question = tuple[str, list[Any], dict[str, Any]]  # a method of both, what is looked up, bounds

BOUNDS = st.fixed_dictionaries(
    {}, optional={"k": st.integers(0, 3), "since": st.sampled_from([None, timedelta(days=1)])}
)
QUESTIONS = st.one_of(
    st.tuples(st.just("find"), st.lists(st.sampled_from(TEXTS + OTHERS), min_size=1, max_size=1), BOUNDS),
    st.tuples(st.just("find_many"), st.lists(st.sampled_from(TEXTS + OTHERS), max_size=5), BOUNDS),
    st.tuples(st.just("find_ids"), st.lists(st.sampled_from([d.id for d in STORED] + ["no"])), BOUNDS),
    st.tuples(
        st.just("find_fingerprints"), st.lists(st.integers(0, len(TEXTS) - 1), max_size=4), BOUNDS
    ),  # those of the documents of these numbers
)


@pytest.fixture(scope="module", params=["memory", "rocksdb", "rocksdb, reading", "sketches"])
def index(request, tmp_path_factory) -> Iterator[Index]:
    if request.param.startswith("rocksdb"):
        url = f"rocksdb:{tmp_path_factory.mktemp('shared')}/store"
        with simhbase.open(url, create=Profile(verify=False)) as writing:
            writing.add(STORED)
            if request.param == "rocksdb":
                yield writing
                return
        with simhbase.open(url, access="read") as reading:
            yield reading
        return
    with in_memory(*STORED, profile=Profile(verify=request.param == "sketches")) as made:
        yield made


def asked(index: Index | SharedLookups, question: Question, values: Sequence[int], prefix: str = "") -> Any:
    """What a method answers; `a` before its name has that of asyncio."""
    method, records, bounds = question
    if method == "find_fingerprints":
        records = [values[number] for number in records]
    look_up = getattr(index, prefix + method)
    given = records[0] if method == "find" else records
    if method in ("find", "find_many") and isinstance(index, Index):
        return look_up(given, **bounds)
    return look_up(given, Query(**bounds))


@settings(max_examples=25)
@given(
    threads=st.lists(st.lists(QUESTIONS, max_size=4), min_size=1, max_size=8),
    tasks=st.lists(QUESTIONS, max_size=8),
    largest_batch=st.sampled_from([1, 3, 256]),
    readers=st.integers(1, 3),
)
def test_answers_are_those_of_the_index_in_any_interleaving(index, threads, tasks, largest_batch, readers):
    check_answers(index, threads, tasks, largest_batch, readers)


def check_answers(
    index: Index,
    threads: list[list[Question]],
    tasks: list[Question],
    largest_batch: int = 256,
    readers: int = 1,
) -> None:
    values = [found or 0 for found in index.fingerprints([document.id for document in STORED])]
    together = threading.Barrier(len(threads) + 1)

    def work(questions: list[Question]) -> list[Any]:
        together.wait(LONG)
        return [asked(shared, question, values) for question in questions]

    async def ask_all() -> list[Any]:
        together.wait(LONG)
        return await asyncio.gather(*(asked(shared, question, values, "a") for question in tasks))

    with (
        SharedLookups(index, largest_batch=largest_batch, readers=readers) as shared,
        ThreadPoolExecutor(len(threads)) as pool,
    ):
        answers = pool.map(work, threads)
        assert asyncio.run(ask_all()) == [asked(index, question, values) for question in tasks]
        expected = [[asked(index, question, values) for question in questions] for questions in threads]
        assert list(answers) == expected
        assert shared.waiting == 0


CROWDS = dict(zip((1, 7, 8, 9, 40, 70), TEXTS[::4], strict=False))


@pytest.fixture(scope="module", params=[False, True])
def crowded(request: pytest.FixtureRequest) -> Iterator[Index]:
    """Texts that are stored by several ids, each with variants; the last ones are tagged, others muted."""
    with in_memory(profile=Profile(verify=request.param)) as made:
        for size, text in CROWDS.items():
            made.add([Document(f"{size}-{n:02}", text) for n in range(size - 1)])
            made.add([Document(f"{size}-last", text, tags={"is": "last"})])
            made.add([Document(f"{size}v{n:02}", f"{text} {n}", tags={"is": "other"}) for n in range(size)])
        made.mute([f"40-{n:02}" for n in range(39)])
        yield made


@settings(max_examples=40)
@given(
    method=st.sampled_from(["find_texts", "find_ids"]),
    records=st.lists(st.sampled_from([*CROWDS, None]), min_size=1, max_size=5),
    tags=st.sampled_from([{}, {"is": "last"}, {"is": "other"}, {"is": "none"}]),
    bounds=st.fixed_dictionaries(
        {}, optional={"k": st.integers(0, 3), "since": st.sampled_from([timedelta(days=1), timedelta(0)])}
    ),
    together=st.booleans(),
)
def test_answers_in_stages_are_those_of_the_index(
    crowded: Index,
    method: str,
    records: list[int | None],
    tags: dict[str, str],
    bounds: dict[str, Any],
    together: bool,
) -> None:
    """What is left out at first, of a crowd or of one fingerprint, may have the tag, or not be muted."""
    query = Query(tags=tags, **bounds)
    if method == "find_texts":
        look_up, asked_for = "afind_many", [CROWDS[each] if each else "" for each in records]
    else:
        look_up, asked_for = "afind_ids", [f"{each}-last" if each else "no" for each in records]

    async def ask(shared: SharedLookups) -> list[Lookup]:
        parts = [asked_for] if together else [[each] for each in asked_for]
        questions = (getattr(shared, look_up)(part, query, near_limit=1 << 14) for part in parts)
        return [lookup for answers in await asyncio.gather(*questions) for lookup in answers]

    with (
        mock.patch.object(shared_lookups, "FOLLOWED_TOGETHER", 8),
        mock.patch.object(shared_lookups, "FOLLOWED_BY_FEW", 32),
        SharedLookups(crowded) as shared,
    ):
        assert asyncio.run(ask(shared)) == getattr(crowded, method)(asked_for, query)


@pytest.mark.hbase
@pytest.mark.parametrize("readers", [1, 3])
def test_answers_are_those_of_the_index_in_hbase(hbase: Cluster, readers: int) -> None:
    url = hbase.empty_store("shared")
    with simhbase.open(url, create=Profile(verify=False)) as index:
        index.add(STORED)
        questions: list[Question] = [
            *(("find", [text], {}) for text in TEXTS[:40]),
            *(("find_many", TEXTS[start : start + 9] + OTHERS, {"k": 2}) for start in range(0, 90, 9)),
            *(("find_ids", [document.id, "no"], {}) for document in STORED[:20]),
            *(("find_fingerprints", [number], {}) for number in range(20)),
        ]
        threads = [questions[start::8] for start in range(8)]
        check_answers(index, threads, questions[::3], readers=readers)


# --- what is read together ---


@pytest.fixture(autouse=True)
def _no_spare_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads wait at gates, also on a slow machine."""
    monkeypatch.setattr(queue, "STUCK_SECONDS", LONG)


class Gate:
    """An index whose lookups wait until they are let in; `reads` are the records of each."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.open = threading.Event()
        self.reads: list[list[object]] = []
        self._arrived = threading.Semaphore(0)
        for name in ("find_texts", "find_ids"):
            setattr(index, name, self._waiting(getattr(index, name)))

    def _waiting(self, look_up: Callable[..., list[Lookup]]) -> Callable[..., list[Lookup]]:
        def wait(records: list[object], *bounds: object) -> list[Lookup]:
            self.reads.append(records)
            self._arrived.release()
            assert self.open.wait(LONG)
            return look_up(records, *bounds)

        return wait

    def wait_for_read(self) -> None:
        assert self._arrived.acquire(timeout=LONG)


@contextmanager
def gated(**options: int) -> Iterator[tuple[SharedLookups, Gate, ThreadPoolExecutor]]:
    """Shared lookups of which the first one is being read, and threads to ask more from."""
    gate = Gate(in_memory(*STORED))
    with SharedLookups(gate.index, **options) as shared, ThreadPoolExecutor(20) as pool:
        try:
            first = pool.submit(shared.find, TEXTS[0])
            gate.wait_for_read()
            yield shared, gate, pool
        finally:
            gate.open.set()
        assert first.result(LONG).matches


def submitted(
    pool: ThreadPoolExecutor, shared: SharedLookups, look_up: Callable[..., Any], *arguments: Any
) -> Future[Any]:
    """A call in another thread that waits in the queue when this returns."""
    before = shared.waiting
    call = pool.submit(look_up, *arguments)
    wait_until(lambda: shared.waiting > before)
    return call


def wait_until(true: Callable[[], bool]) -> None:
    moment = threading.Event()
    for _ in range(int(LONG / 0.001)):
        if true():
            return
        moment.wait(0.001)
    raise AssertionError("it never was")


def test_those_who_ask_while_a_read_is_under_way_share_the_next_one():
    with gated() as (shared, gate, pool):
        calls = [submitted(pool, shared, shared.find, text) for text in TEXTS[:12]]
        gate.open.set()
        answers = [call.result(LONG) for call in calls]
        assert gate.reads == [[TEXTS[0]], TEXTS[:12]]
        assert answers == in_memory(*STORED).find_many(TEXTS[:12])


def test_tasks_that_ask_in_one_turn_of_the_event_loop_share_a_read():
    async def ask_all(shared: SharedLookups) -> list[Lookup]:
        return await asyncio.gather(*(shared.afind(text) for text in TEXTS[:12]))

    gate = Gate(in_memory(*STORED))
    gate.open.set()
    with SharedLookups(gate.index) as shared:
        assert asyncio.run(ask_all(shared)) == in_memory(*STORED).find_many(TEXTS[:12])
    assert gate.reads == [TEXTS[:12]]


def test_a_read_serves_one_kind_of_lookup_and_kinds_take_turns():
    with gated(largest_batch=2) as (shared, gate, pool):
        calls = [
            *(submitted(pool, shared, shared.find, text, Query(k=1)) for text in TEXTS[:3]),
            submitted(pool, shared, shared.find, TEXTS[3], Query(k=2)),
            submitted(pool, shared, shared.find_ids, ["d1"], Query(k=1)),
        ]
        gate.open.set()
        for call in calls:
            call.result(LONG)
        assert gate.reads[1:] == [TEXTS[:2], [TEXTS[3]], ["d1"], [TEXTS[2]]]


def test_many_lookups_of_one_source_are_read_in_parts_between_which_others_have_their_turns():
    def find_many(texts: Sequence[str], source: str) -> list[Lookup]:
        return shared.find_many(texts, source=source)

    with gated(largest_batch=4) as (shared, gate, pool):
        many = submitted(pool, shared, find_many, TEXTS[:12], "many")
        few = submitted(pool, shared, find_many, TEXTS[12:14], "few")
        fewer = submitted(pool, shared, find_many, TEXTS[14:16], "fewer")
        gate.open.set()
        assert many.result(LONG) == in_memory(*STORED).find_many(TEXTS[:12])
        assert len(few.result(LONG)) == len(fewer.result(LONG)) == 2
        assert gate.reads[1:] == [TEXTS[:4], TEXTS[12:16], TEXTS[4:8], TEXTS[8:12]]


def test_a_source_has_no_more_turns_by_asking_in_many_ways():
    def find(text: str, source: str, query: Query) -> list[Lookup]:
        return shared.find_many([text], query, source=source)

    with gated() as (shared, gate, pool):
        calls = [submitted(pool, shared, find, TEXTS[each], "many", Query(k=each % 4)) for each in range(8)]
        calls.append(submitted(pool, shared, find, TEXTS[9], "few", Query(k=3)))
        calls.append(submitted(pool, shared, find, TEXTS[8], "fewer", Query()))
        gate.open.set()
        for call in calls:
            call.result(LONG)
    # The reads of the first, of another kind each; what others ask for in the same way is read with them.
    assert TEXTS[8] in gate.reads[3]
    assert [TEXTS[9], TEXTS[3]] in [
        sorted(read[:2], key=TEXTS.index, reverse=True) for read in gate.reads[2:4]
    ]


def test_others_may_wait_beyond_what_one_source_fills():
    def find_many(texts: Sequence[str], source: str) -> list[Lookup]:
        return shared.find_many(texts, source=source)

    with gated(queue=4) as (shared, gate, pool):
        calls = [submitted(pool, shared, find_many, TEXTS[:4], "many")]
        with pytest.raises(Overloaded):
            find_many(TEXTS[4:5], "many")
        calls.append(submitted(pool, shared, find_many, TEXTS[4:7], "few"))
        with pytest.raises(Overloaded):
            find_many(TEXTS[7:8], "few")
        gate.open.set()
        assert [len(call.result(LONG)) for call in calls] == [4, 3]


def test_long_texts_are_read_in_parts(monkeypatch):
    monkeypatch.setattr(shared_lookups, "LARGEST_TEXTS", len(TEXTS[1]) + len(TEXTS[2]))
    with gated() as (shared, gate, pool):
        calls = [
            submitted(pool, shared, shared.find_many, TEXTS[1:6]),
            submitted(pool, shared, shared.find, "x"),
        ]
        gate.open.set()
        assert [len(call.result(LONG)) for call in calls[:1]] == [5]
        assert [len(read) for read in gate.reads[1:3]] == [2, 2]
        read = [text for texts in gate.reads[1:] for text in texts]
        assert sorted(map(str, read)) == sorted([*TEXTS[1:6], "x"])


def test_who_would_wait_too_long_is_told_at_once_and_the_others_are_answered():
    with gated(queue=3) as (shared, gate, pool):
        calls = [submitted(pool, shared, shared.find, text) for text in TEXTS[:2]]
        with pytest.raises(
            Overloaded, match=r"^2 lookups in memory: are waiting, the maximum is 3: try again"
        ):
            shared.find_many(TEXTS[:2])
        calls.append(submitted(pool, shared, shared.find, TEXTS[2]))
        with pytest.raises(Overloaded):
            asyncio.run(shared.afind(TEXTS[3]))
        assert shared.waiting == 3
        gate.open.set()
        assert [call.result(LONG) for call in calls] == in_memory(*STORED).find_many(TEXTS[:3])
        assert len(shared.find_many(TEXTS)) == len(TEXTS), "more at once than may wait, as nobody waits"


def test_who_gives_up_is_not_looked_up_and_harms_nobody():
    async def ask_and_cancel() -> list[Any]:
        tasks = [asyncio.create_task(shared.afind(text)) for text in TEXTS[:4]]
        while shared.waiting < 4:
            await asyncio.sleep(0.001)
        tasks[1].cancel()
        with pytest.raises(TimedOut, match=r"no answer from memory: within 0\.01 s"):
            await shared.afind(TEXTS[5], timeout=0.01)
        gate.open.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    with gated() as (shared, gate, _):
        with pytest.raises(TimedOut, match=r"no answer from memory: within 0\.01 s"):
            shared.find(TEXTS[6], timeout=0.01)
        answers = asyncio.run(ask_and_cancel())
        assert gate.reads[1:] == [[TEXTS[0], *TEXTS[2:4]]]
    assert isinstance(answers.pop(1), asyncio.CancelledError)
    assert answers == in_memory(*STORED).find_many([TEXTS[0], *TEXTS[2:4]])


def test_a_read_that_hangs_stops_no_others_and_further_readers_end(monkeypatch):
    """Such as one of a server of HBase that is gone."""
    monkeypatch.setattr(queue, "STUCK_SECONDS", 0.05)
    monkeypatch.setattr(shared_lookups, "STUCK_SECONDS", 0.05)
    index, go_on, hung = in_memory(*STORED), threading.Event(), threading.Semaphore(0)
    look_up = index.find_texts

    def find_texts(texts: Sequence[str], *rest: Any) -> list[Lookup]:
        if set(texts) & {TEXTS[0], TEXTS[1]}:
            hung.release()
            assert go_on.wait(LONG)
        return look_up(texts, *rest)

    monkeypatch.setattr(index, "find_texts", find_texts)

    async def ask() -> list[Lookup]:
        hanging = []
        for text in TEXTS[:2]:  # the second one hangs in the spare reader
            hanging.append(asyncio.create_task(shared.afind(text)))
            await asyncio.to_thread(hung.acquire, timeout=LONG)
        found = [await shared.afind(text, timeout=LONG) for text in TEXTS[2:5]]
        assert not any(task.done() for task in hanging)
        go_on.set()
        return [*await asyncio.gather(*hanging), *found]

    before = readers()  # of other tests
    with SharedLookups(index) as shared:
        assert asyncio.run(ask()) == in_memory(*STORED).find_many(TEXTS[:5])
        wait_until(lambda: len(readers() - before) == 1)
        assert shared.find(TEXTS[3]).matches
    wait_until(lambda: not readers() - before)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing tells what a thread does")
def test_a_long_read_that_is_at_work_has_no_further_readers_beside_it(monkeypatch):
    """Texts that take seconds each took all readers, and with them the processors."""
    monkeypatch.setattr(queue, "STUCK_SECONDS", 0.05)
    monkeypatch.setattr(shared_lookups, "STUCK_SECONDS", 0.05)
    index, look_up = in_memory(*STORED), Index.find_texts

    def find_texts(texts: Sequence[str], *rest: Any) -> list[Lookup]:
        end = time.thread_time() + 0.3
        while time.thread_time() < end:
            pass
        at_work.append(threading.current_thread())
        return look_up(index, texts, *rest)

    monkeypatch.setattr(index, "find_texts", find_texts)
    at_work: list[threading.Thread] = []
    with SharedLookups(index, largest_batch=1) as shared, ThreadPoolExecutor(4) as pool:
        assert [*pool.map(shared.find, TEXTS[:4])] == in_memory(*STORED).find_many(TEXTS[:4])
    assert len(at_work) == 4
    assert len(set(at_work)) == 1


@pytest.mark.parametrize("is_task", [False, True])
def test_a_caller_behind_a_read_that_hangs_needs_no_later_caller(monkeypatch, is_task):
    """It waited for the hanging read if that had begun shortly before, and nobody asked later."""
    monkeypatch.setattr(queue, "STUCK_SECONDS", 0.3)
    monkeypatch.setattr(shared_lookups, "STUCK_SECONDS", 0.1)
    index, go_on, hung = in_memory(*STORED), threading.Event(), threading.Semaphore(0)
    look_up = index.find_texts

    def find_texts(texts: Sequence[str], *rest: Any) -> list[Lookup]:
        if TEXTS[0] in texts:
            hung.release()
            assert go_on.wait(LONG)
        return look_up(texts, *rest)

    monkeypatch.setattr(index, "find_texts", find_texts)
    with SharedLookups(index) as shared, ThreadPoolExecutor() as pool:
        hanging = pool.submit(shared.find, TEXTS[0])
        assert hung.acquire(timeout=LONG)
        try:
            found = (
                asyncio.run(shared.afind(TEXTS[2], timeout=LONG / 2))
                if is_task
                else shared.find(TEXTS[2], timeout=LONG / 2)
            )
        finally:
            go_on.set()
        assert found == look_up([TEXTS[2]])[0]
        assert hanging.result() == look_up([TEXTS[0]])[0]


def readers() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if "shared lookups" in each.name}


def test_a_task_that_is_cancelled_while_it_is_read_harms_nobody():
    async def ask_and_cancel() -> None:
        task = asyncio.create_task(shared.afind(TEXTS[1]))
        await asyncio.to_thread(gate.wait_for_read)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.open.set()
        assert (await shared.afind(TEXTS[2], timeout=LONG)).matches

    gate = Gate(in_memory(*STORED))
    with SharedLookups(gate.index) as shared:
        asyncio.run(ask_and_cancel())


def test_who_gives_up_leaves_the_place_to_others():
    async def ask_and_cancel() -> Any:
        for _ in range(3):
            asked = asyncio.create_task(shared.afind_many(TEXTS[:3]))
            while shared.waiting < 3:
                await asyncio.sleep(0.001)
            with pytest.raises(Overloaded):
                await shared.afind(TEXTS[4])
            asked.cancel()
            await asyncio.wait([asked])
            assert shared.waiting == 0
        with pytest.raises(TimedOut):
            await shared.afind_many(TEXTS[:3], timeout=0.01)
        task = asyncio.create_task(shared.afind(TEXTS[4]))
        while shared.waiting < 1:
            await asyncio.sleep(0.001)
        gate.open.set()
        return await task

    with gated(queue=3) as (shared, gate, _):
        with pytest.raises(TimedOut):
            shared.find_many(TEXTS[:3], timeout=0.01)
        assert asyncio.run(ask_and_cancel()) == in_memory(*STORED).find(TEXTS[4])


# --- errors ---


def test_a_record_that_cannot_be_read_is_its_own_callers_error():
    with in_memory(*STORED) as index:
        alone = index.find_ids([document.id for document in STORED[:9]])
        there = index.find_ids

        def damaged(ids: list[str], query: Query = Query()) -> list[Lookup]:
            if "damaged" in ids:
                raise StoreFailed("a row cannot be read")
            return there(ids, query)

        index.find_ids = damaged  # type: ignore[method-assign]  # of this one
        gate = Gate(index)
        with SharedLookups(index) as shared, ThreadPoolExecutor(20) as pool:
            first = pool.submit(shared.find_ids, ["d0"])
            gate.wait_for_read()
            ids = [*(document.id for document in STORED[:9]), "damaged"]
            calls = [submitted(pool, shared, shared.find_ids, [each]) for each in ids]
            gate.open.set()
            assert first.result(LONG) == [call.result(LONG)[0] for call in calls[:1]]
            assert [call.result(LONG)[0] for call in calls[:-1]] == alone
            with pytest.raises(StoreFailed, match="cannot be read"):
                calls[-1].result(LONG)
            assert len(gate.reads) < 2 * len(ids)


def test_a_store_that_is_away_is_everybodys_error_after_one_try():
    with gated() as (shared, gate, pool):
        calls = [submitted(pool, shared, shared.find, text) for text in TEXTS[:5]]

        def away(records: list[object], *_: object) -> list[Lookup]:
            gate.reads.append(records)
            raise StoreUnreachable("nobody answers")

        there, gate.index.find_texts = gate.index.find_texts, away  # type: ignore[method-assign]  # of this one
        gate.open.set()
        errors = [call.exception(LONG) for call in calls]
        assert {str(error) for error in errors} == {"nobody answers"}
        assert len({id(error) for error in errors}) == len(errors), "each raises, and keeps, its own"
        assert len(gate.reads) == 2
        gate.index.find_texts = there  # type: ignore[method-assign]  # back again
        assert shared.find(TEXTS[1]).matches


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda shared: shared.find_many("one"), "one string was given"),
        (lambda shared: shared.find("some text", Query(k=9)), "k = 9"),
        (lambda shared: shared.find("some text", Query(min_similarity=0.5)), "keeps no sketches"),
        (lambda shared: shared.find(7), "7 is among the texts"),
        (
            lambda shared: shared.find_fingerprints([1 << 64]),
            "fingerprints must be a list or array of integers",
        ),
        (lambda shared: SharedLookups(shared.index, queue=0), "queue: must be a whole number"),
    ],
)
def test_what_cannot_be_looked_up_is_refused_as_the_index_does(ask, message):
    with in_memory() as index, SharedLookups(index) as shared, pytest.raises(UsageError, match=message):
        ask(shared)


# --- the end ---


def test_closing_finishes_what_was_accepted_and_takes_nothing_more():
    def is_closed() -> bool:
        try:
            shared.find(TEXTS[0], timeout=0.001)
        except TimedOut:
            return False
        except StoreFailed as error:
            return "were closed" in str(error)
        raise AssertionError("it is answered before the gate is open")

    with gated() as (shared, gate, pool):
        calls = [submitted(pool, shared, shared.find, text) for text in TEXTS[:5]]
        closing = pool.submit(shared.close)
        wait_until(is_closed)
        assert not closing.done()
        gate.open.set()
        assert [call.result(LONG) for call in calls] == in_memory(*STORED).find_many(TEXTS[:5])
        closing.result(LONG)
        shared.close()
        assert gate.index.find(TEXTS[0]).matches, "the index stays open"


def test_what_was_accepted_is_answered_by_a_close_that_comes_at_once(monkeypatch):
    with in_memory(*STORED) as index:
        shared = SharedLookups(index)
        accept = shared._queue.put

        def accept_and_close(*arguments: Any, **options: Any) -> bool:
            accepted = accept(*arguments, **options)
            shared.close()
            return accepted

        monkeypatch.setattr(shared._queue, "put", accept_and_close)
        assert shared.find(TEXTS[0], timeout=LONG).matches


# The parent's reader is in the middle of a read when it forks.
FORKED = """
import os, sys, threading
import simhbase
from simhbase import Document, Profile, SharedLookups
from simhbase.errors import StoreFailed

TEXTS = [" ".join(f"word{number}x{i}" for i in range(40)) for number in range(9)]

def asked(shared, text):
    try:
        return len(shared.find(text, timeout=60).matches)
    except StoreFailed as error:
        return "forked" if "forked" in str(error) else repr(error)

def all_asked(shared):
    answers = []
    ask = lambda text: answers.append(asked(shared, text))
    threads = [threading.Thread(target=ask, args=(text,)) for text in TEXTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers

with simhbase.open(sys.argv[1], create=Profile(verify=False)) as index:
    index.add([Document(str(number), text) for number, text in enumerate(TEXTS)])
    look_up, opened, arrived = index.find_texts, threading.Event(), threading.Event()
    def wait(*arguments):
        arrived.set()
        opened.wait(60)
        return look_up(*arguments)
    with SharedLookups(index) as shared:
        index.find_texts = wait
        waiting = threading.Thread(target=lambda: print("parent", all_asked(shared), flush=True))
        waiting.start()
        arrived.wait(60)
        children = []
        for _ in range(2):
            if not (child := os.fork()):
                index.find_texts = look_up
                print("child", shared.waiting, all_asked(shared), flush=True)
                shared.close()
                os._exit(0)
            children.append(child)
        for child in children:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        opened.set()
        waiting.join()
"""


def forked(url: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, url],  # of forks beside threads
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * LONG,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_children_of_a_fork_have_queues_and_threads_of_their_own():
    assert forked("memory:") == [f"child 0 {[1] * 9}"] * 2 + [f"parent {[1] * 9}"]


def test_children_are_told_where_their_store_does_not_survive_a_fork(tmp_path: Path):
    told = ["forked"] * 9
    assert forked(f"rocksdb:{tmp_path}/store") == [f"child 0 {told}"] * 2 + [f"parent {[1] * 9}"]


@pytest.mark.hbase
def test_children_of_a_fork_look_up_in_hbase(hbase: Cluster) -> None:
    assert forked(hbase.empty_store("shared")) == [f"child 0 {[1] * 9}"] * 2 + [f"parent {[1] * 9}"]


def test_within_a_scope_what_is_near_many_is_read_again_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lookups of a scope ended with the nearest 256 documents, and the only one with the tag was another."""
    monkeypatch.setattr("simhbase.online.shared.FOLLOWED_TOGETHER", 10)
    words = " ".join(TEXTS[:20]).split()
    text, *variants = (" ".join([*words[:place], f"x{place}", *words[place:]]) for place in range(101))
    junk = [Document(f"v{place}", variant, {"kind": "junk"}) for place, variant in enumerate(variants)]
    rare = Query(tags={"kind": "rare"})
    with simhbase.open("memory:", create="default", scoped=True) as store, SharedLookups(store) as shared:
        index, lookups = store.within("a"), shared.within("a")
        index.add([*junk, Document("rare", f"{text} x101 x102 x103", {"kind": "rare"})])
        whole = [index.find(text), index.find(text, tags=rare.tags)]
        assert len(whole[0]) > 10
        assert [match.id for match in whole[1]] == ["rare"]

        async def ask(*asked: str) -> list[Lookup]:
            queries = (Query(), rare)
            return [(await lookups.afind_many(asked, query, near_limit=1000))[0] for query in queries]

        assert asyncio.run(ask(text)) == asyncio.run(ask(text, TEXTS[-1])) == whole
