"""The log of loads in the meta table, on every store: who may run one, and what is left when it has ended."""

import threading
import time
from typing import Any

import pytest

from simhbase.errors import StoreBusy, StoreFailed, StoreUnreachable, UsageError
from simhbase.index import load_log
from simhbase.index.load_log import LoadLog, all_loads, finished_since, forget_load
from simhbase.stores.base import Store


def killed(log: LoadLog) -> None:
    """What is left of a run whose process was killed."""
    log._end()  # waits for a sign of life that is on its way


def stop(log: LoadLog, reason: str = "for a test") -> None:
    log.__exit__(ValueError, ValueError(reason), None)


def meta(store: Store) -> list[bytes]:
    return [key for rows in store.records("meta").iterate() for key, _ in rows]


@pytest.fixture
def short_lease(monkeypatch):
    monkeypatch.setattr(load_log, "LEASE", 0.5)
    monkeypatch.setattr(load_log, "RENEWED", 0.1)
    monkeypatch.setattr(load_log, "_LOOKED_AT", 0.05)


def test_a_load_that_runs_is_refused_and_one_that_was_killed_is_resumed(store, short_lease):
    first = LoadLog.begin(store, "a", "task")
    first.advance([{"n": 1}], counts={"added": 7}, files={"unique": (3, 9)})
    with pytest.raises(StoreBusy, match="the load 'a' is running already, as process"):
        LoadLog.begin(store, "a", "task")
    killed(first)
    second = LoadLog.begin(store, "a", "task")
    assert second.before is not None
    state = second.state
    assert (second.before.progress, state.parts, state.counts) == ("running", 1, {"added": 7})
    assert state.files == {"unique": (3, 9)}
    assert list(second.parts(Any)) == [{"n": 1}]
    for refused in (first.require_held, lambda: first.advance([{"n": 2}])):
        with pytest.raises(StoreBusy, match="taken over by another process"):
            refused()
    stop(second)


def test_a_load_of_another_process_is_refused_while_it_gives_signs_of_life(store, short_lease):
    first = LoadLog.begin(store, "a", "task")
    load_log._held.discard(first.state.token)  # as another process sees it
    if store.multi_writer:
        with pytest.raises(StoreBusy, match="running already"):
            LoadLog.begin(store, "a", "task")
        with pytest.raises(StoreBusy, match="running already"):
            forget_load(store, "a")
    killed(first)
    second = LoadLog.begin(store, "a", "task")
    assert second.before is not None
    stop(second)


def test_a_run_that_has_nothing_to_note_gives_signs_of_life(store, short_lease):
    log = LoadLog.begin(store, "a", "task")
    (before,) = all_loads(store)
    assert not before.was_killed
    while all_loads(store)[0].changed == before.changed:
        time.sleep(0.01)
    killed(log)
    time.sleep(0.2)
    (after,) = all_loads(store)
    time.sleep(0.6)
    assert all_loads(store) == [after]
    assert after.was_killed


def test_of_those_who_take_a_load_at_once_one_gets_it(store, short_lease):
    taken, refused = [], []

    def take() -> None:
        try:
            taken.append(LoadLog.begin(store, "a", "task"))
        except StoreBusy as error:
            refused.append(error)

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(taken), len(refused)) == (1, 5)
    stop(taken[0])


def test_a_load_that_another_one_takes_after_it_was_seen_free_is_not_taken_over(store, monkeypatch):
    others = []
    seen_free = load_log._value_of_free

    def taken_meanwhile(*arguments):
        value = seen_free(*arguments)
        monkeypatch.setattr(load_log, "_value_of_free", seen_free)
        others.append(LoadLog.begin(store, "a", "task"))
        return value

    monkeypatch.setattr(load_log, "_value_of_free", taken_meanwhile)
    with pytest.raises(StoreBusy, match="running already"):
        LoadLog.begin(store, "a", "task")
    stop(others[0])


def test_an_unfinished_load_is_not_given_to_another_task_and_a_finished_one_begins_anew(store):
    first = LoadLog.begin(store, "a", "task")
    first.advance([{"n": 1}])
    stop(first, "the disk is full")
    with pytest.raises(UsageError, match="simhbase loads forget a"):
        LoadLog.begin(store, "a", "other")
    with LoadLog.begin(store, "a", "task") as second:
        assert second.before is not None
        assert second.before.reason == "the disk is full"
    third = LoadLog.begin(store, "a", "other")
    assert (third.before, third.state.parts) == (None, 0)
    stop(third)


def test_a_load_that_is_stopped_while_it_finishes_stays_so_and_keeps_its_report(store, short_lease):
    log = LoadLog.begin(store, "a", "task")
    log.change(progress="finishing", report={"added": 3})
    stop(log)
    (state,) = all_loads(store)
    assert (state.progress, state.report) == ("finishing", {"added": 3})
    assert finished_since(store, "a", "task", 0) is None
    with LoadLog.begin(store, "a", "task") as again:
        assert again.state.progress == "finishing"
    (state,) = all_loads(store)
    assert finished_since(store, "a", "task", state.changed) == {"added": 3}
    assert finished_since(store, "a", "task", state.changed + 1) is None
    assert finished_since(store, "a", "other", 0) is None


def test_nothing_but_the_state_is_left_of_a_load_that_has_finished_and_nothing_of_one_forgotten(store):
    before = meta(store)
    for name in ("a", "aa", "a/b"):
        log = LoadLog.begin(store, name, "task")
        log.advance([{"n": 1}])
        assert log.pending(Any) is None
        log.note_pending({"x": 1})
        assert log.pending(Any) == {"x": 1}
        stop(log)
    with LoadLog.begin(store, "a", "task"):
        pass
    left = {key for key in meta(store) if key not in before}
    assert {key for key in left if b"part" in key or b"pending" in key} == {
        b"load-part/aa\0" + bytes(8),
        b"load-part/a/b\0" + bytes(8),
        b"load-pending/aa",
        b"load-pending/a/b",
    }
    for name in ("a", "aa", "a/b"):
        assert forget_load(store, name)
        assert not forget_load(store, name)
    assert meta(store) == before


def test_a_load_that_runs_is_not_forgotten(store):
    log = LoadLog.begin(store, "a", "task")
    with pytest.raises(StoreBusy, match="running already"):
        forget_load(store, "a")
    stop(log)
    assert forget_load(store, "a")


def test_names_that_cannot_be_typed_are_refused(store):
    for name in ("", "a\n", "x" * 201, "\x7f", "n\udcff"):
        with pytest.raises(UsageError, match="is not a valid name of a load"):
            LoadLog.begin(store, name, "task")


class Failing:
    """Records whose compare-and-set fails once, before or after it was carried out."""

    def __init__(self, records, *, carried_out: bool) -> None:
        self._records = records
        self._carried_out = carried_out
        self._fails = True

    def __getattr__(self, name):
        return getattr(self._records, name)

    def compare_and_set(self, *arguments, **named):
        if not self._fails:
            return self._records.compare_and_set(*arguments, **named)
        self._fails = False
        if self._carried_out:
            self._records.compare_and_set(*arguments, **named)
        raise StoreUnreachable("for a test")


@pytest.mark.parametrize("carried_out", [False, True])
def test_a_change_whose_call_fails_can_be_repeated(store, carried_out):
    log = LoadLog.begin(store, "a", "task")
    log._meta = Failing(log._meta, carried_out=carried_out)
    with pytest.raises(StoreUnreachable):
        log.change(counts={"added": 1})
    log.change(counts={"added": 2})
    assert all_loads(store)[0].counts == {"added": 2}
    stop(log)


def test_a_claim_that_fails_leaves_no_holder_behind(store, monkeypatch):
    records = store.records("meta")
    failing = Failing(records, carried_out=False)
    monkeypatch.setattr(type(store), "records", lambda self, table: failing)
    with pytest.raises(StoreUnreachable):
        LoadLog.begin(store, "a", "task")
    log = LoadLog.begin(store, "a", "task")
    assert log.before is None
    stop(log)


def test_parts_come_in_their_order_however_many_there_are(store, monkeypatch):
    monkeypatch.setattr(load_log, "_PARTS_AT_ONCE", 4)
    log = LoadLog.begin(store, "a", "task")
    for number in range(5):
        log.advance([2 * number, 2 * number + 1])
    assert list(log.parts(Any)) == list(range(10))
    stop(log)


def test_a_lost_part_is_an_error_that_says_how_to_begin_again(store, short_lease):
    """It was left out in silence, and what it covers was loaded twice or not at all."""
    first = LoadLog.begin(store, "a b", "task")
    first.advance(["one", "two", "three"])
    killed(first)
    store.records("meta").delete([load_log._PARTS % b"a b" + (1).to_bytes(8)])
    second = LoadLog.begin(store, "a b", "task")
    with pytest.raises(StoreFailed, match=r"its write 2 of 3 is lost.*simhbase loads forget 'a b'"):
        print(list(second.parts(Any)))
    killed(second)
    third = LoadLog.begin(store, "a b", "task")  # finishes the load, and removes its parts
    third.__exit__(None, None, None)
    with pytest.raises(StoreBusy, match="taken over by another process"):
        print(list(second.parts(Any)))
