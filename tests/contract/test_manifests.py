"""Loads noted in the meta table, on every store: who may run one, and what is left when it has ended."""

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from unittest.mock import patch

import pytest

from simhbase.errors import StoreBusy, StoreUnreachable, UsageError
from simhbase.index import manifests, owner
from simhbase.index.manifests import LoadState, Manifests
from simhbase.index.owner import Owner
from simhbase.stores.base import Store


def killed(state: LoadState) -> None:
    """What is left of a run whose process was killed."""
    owner._running.discard(state.owner.token)


def meta(store: Store) -> list[bytes]:
    return [key for rows in store.records("meta").iterate() for key, _ in rows]


def test_a_load_that_runs_is_refused_and_one_that_was_killed_is_gone_on_with(store):
    first = Manifests(store).claim("a", "task")
    first.note_part(0, {"n": 1})
    first.change(parts=1, counts={"added": 7}, files={"unique": (3, 9)})
    with pytest.raises(StoreBusy, match="the load 'a' is running already, as process"):
        Manifests(store).claim("a", "task")
    killed(first.state)
    (state,) = Manifests(store).all()
    assert (state.was_killed, state.progress) == (True, "running")
    second = Manifests(store).claim("a", "task")
    assert second.before == state
    assert (second.state.parts, second.state.counts, second.state.files) == (
        1,
        {"added": 7},
        {"unique": [3, 9]},
    )
    assert list(second.parts()) == [{"n": 1}]
    with pytest.raises(StoreBusy, match="another process goes on"):
        first.change(parts=2)
    second.finish()


def test_a_load_of_a_killed_process_of_another_host_is_taken_when_it_gives_no_sign_of_life(
    store, monkeypatch
):
    first = Manifests(store).claim("a", "task")
    first.change(owner=replace(first.state.owner, host="elsewhere"))
    monkeypatch.setattr(manifests, "LEASE", 0.3)
    monkeypatch.setattr(manifests, "_LOOKED_AT", 0.1)
    second = Manifests(store).claim("a", "task")
    assert second.before == first.state
    second.stop("for a test")


def test_a_load_of_another_host_that_gives_signs_of_life_is_refused(store, monkeypatch):
    first = Manifests(store).claim("a", "task")
    first.change(owner=replace(first.state.owner, host="elsewhere"))
    monkeypatch.setattr(manifests, "_LOOKED_AT", 0.1)
    changing = threading.Timer(0.3, lambda: first.change(parts=1))
    changing.start()
    with pytest.raises(StoreBusy, match="on elsewhere"):
        Manifests(store).claim("a", "task")
    changing.join()


def test_of_those_who_take_a_load_at_once_one_gets_it(store):
    states, refused = [], []

    def take() -> None:
        try:
            states.append(Manifests(store).claim("a", "task").state)
        except StoreBusy as error:
            refused.append(error)

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(states), len(refused)) == (1, 5)


def test_an_unfinished_load_is_not_given_to_another_task_and_a_finished_one_begins_anew(store):
    first = Manifests(store).claim("a", "task")
    first.note_part(0, {"n": 1})
    first.change(parts=1)
    first.stop("the disk is full")
    with pytest.raises(UsageError, match="simhbase loads forget a"):
        Manifests(store).claim("a", "other")
    second = Manifests(store).claim("a", "task")
    assert second.before is not None
    assert second.before.reason == "the disk is full"
    second.finish()
    third = Manifests(store).claim("a", "other")
    assert (third.before, third.state.parts) == (None, 0)
    third.stop("")


def test_nothing_but_the_state_is_left_of_a_load_that_has_finished_and_nothing_of_one_forgotten(store):
    before = meta(store)
    for name in ("a", "aa", "a/b"):
        manifest = Manifests(store).claim(name, "task")
        manifest.note_part(0, {"n": 1})
        manifest.change(parts=1)
        assert manifest.pending is None
        manifest.note_pending({"x": 1})
        assert manifest.pending == {"x": 1}
        manifest.stop("")
    Manifests(store).claim("a", "task").finish()
    left = {key for key in meta(store) if key not in before}
    assert {key for key in left if b"part" in key or b"pending" in key} == {
        b"load-part/aa\0" + bytes(8),
        b"load-part/a/b\0" + bytes(8),
        b"load-pending/aa",
        b"load-pending/a/b",
    }
    for name in ("a", "aa", "a/b"):
        assert Manifests(store).forget(name)
        assert not Manifests(store).forget(name)
    assert meta(store) == before


def test_a_load_that_runs_is_not_forgotten(store):
    manifest = Manifests(store).claim("a", "task")
    with pytest.raises(StoreBusy, match="running already"):
        Manifests(store).forget("a")
    manifest.stop("")
    assert Manifests(store).forget("a")


@pytest.mark.parametrize("name", ["", "a\n", "x" * 201, "\x7f", "n\udcff"])
def test_names_that_nobody_could_type_are_refused(store, name):
    with pytest.raises(UsageError, match="names no load"):
        Manifests(store).claim(name, "task")


def test_a_process_that_has_ended_or_whose_number_another_one_has_now_is_gone():
    here = Owner.here()
    here.run()
    assert not here.is_gone
    here.end()
    assert here.is_gone
    parent = replace(here, pid=os.getppid(), started=owner._started(os.getppid()))
    assert not parent.is_gone
    assert replace(parent, started="1").is_gone
    assert not replace(parent, started="").is_gone  # nobody can tell
    assert replace(parent, pid=2**22 + 1).is_gone


@pytest.mark.parametrize("elsewhere", [{"host": "another"}, {"boot": "another"}, {"namespace": "another"}])
def test_a_process_that_cannot_be_seen_is_not_gone(elsewhere):
    there = replace(Owner.here(), pid=2**22 + 1, **elsewhere)
    assert (there.is_here, there.is_gone) == (False, False)


def test_a_zombie_is_gone():
    child = subprocess.Popen([sys.executable, "-c", ""])
    running = replace(Owner.here(), pid=child.pid, started=owner._started(child.pid) or "")
    while not running.is_gone:  # before its parent asks for it
        time.sleep(0.01)
    child.wait()
    assert running.is_gone


def test_a_claim_that_another_thread_sees_is_one_that_runs(store, monkeypatch):
    records = store.records("meta")
    seen = []

    class Slow:
        """Another thread looks before this one has heard of its success."""

        def __getattr__(self, name):
            return getattr(records, name)

        def compare_and_set(self, *arguments):
            done = records.compare_and_set(*arguments)
            (state,) = Manifests(store).all()
            seen.append(state.was_killed)
            return done

    loads = Manifests(store)
    loads._meta = Slow()
    loads.claim("a", "task")
    assert seen == [False]


def test_a_claim_that_fails_leaves_nobody_behind(store):
    loads = Manifests(store)
    with (
        patch.object(loads._meta, "compare_and_set", side_effect=StoreUnreachable),
        pytest.raises(StoreUnreachable),
    ):
        loads.claim("a", "task")
    assert Manifests(store).claim("a", "task").before is None


def test_a_load_that_has_nothing_to_note_for_long_gives_a_sign_of_life(store, monkeypatch):
    load = Manifests(store).claim("a", "task")
    (before,) = Manifests(store).all()
    load.live()
    assert Manifests(store).all() == [before]
    monkeypatch.setattr(manifests, "LEASE", 0)
    time.sleep(0.01)
    load.live()
    (after,) = Manifests(store).all()
    assert after.changed > before.changed
    load.stop("")


def test_parts_come_in_their_order_however_many_there_are(store, monkeypatch):
    monkeypatch.setattr(manifests, "_PARTS_AT_ONCE", 4)
    load = Manifests(store).claim("a", "task")
    for number in range(10):
        load.note_part(number, number)
    load.change(parts=9)  # the last one does not count yet
    assert list(load.parts()) == list(range(9))
    load.stop("")
