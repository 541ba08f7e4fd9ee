"""Loads noted in the meta table, on every store: who may run one, and what is left when it has ended."""

import threading
from dataclasses import replace

import pytest

from simhbase.errors import StoreBusy, UsageError
from simhbase.index import manifests, owner
from simhbase.index.manifests import LoadState, Manifests
from simhbase.stores.base import Store


def killed(state: LoadState) -> None:
    """What is left of a run whose process was killed."""
    owner._running.discard(state.owner.token)


def meta(store: Store) -> list[bytes]:
    return [key for rows in store.records("meta").iterate() for key, _ in rows]


def test_a_load_that_runs_is_refused_and_one_that_was_killed_is_gone_on_with(store):
    first = Manifests(store).claim("a", "task")
    first.note_part({"n": 1})
    first.change(parts=1, counts={"added": 7}, lengths={"unique": 3})
    with pytest.raises(StoreBusy, match="the load 'a' is running already, as process"):
        Manifests(store).claim("a", "task")
    killed(first.state)
    (state,) = Manifests(store).all()
    assert (state.was_killed, state.progress) == (True, "running")
    second = Manifests(store).claim("a", "task")
    assert second.before == state
    assert (second.state.parts, second.state.counts, second.state.lengths) == (1, {"added": 7}, {"unique": 3})
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
    first.note_part({"n": 1})
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
        manifest.note_part({"n": 1})
        manifest.change(parts=1)
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


def test_what_was_decided_counts_for_the_write_it_was_decided_for_alone(store):
    manifest = Manifests(store).claim("a", "task")
    manifest.note_pending(["x"])
    assert manifest.pending == ["x"]
    manifest.note_part({})
    manifest.change(parts=1)
    assert manifest.pending is None


@pytest.mark.parametrize("name", ["", "a\n", "x" * 201, "\x7f"])
def test_names_that_nobody_could_type_are_refused(store, name):
    with pytest.raises(UsageError, match="names no load"):
        Manifests(store).claim(name, "task")


def test_a_process_that_has_ended_or_whose_number_another_one_has_now_is_gone(store):
    here = Manifests(store).claim("a", "task").state.owner
    assert not here.is_gone
    assert replace(here, pid=2**22 + 1).is_gone
    assert replace(here, boot="another").is_gone
    assert not replace(here, host="elsewhere", pid=2**22 + 1).is_gone
