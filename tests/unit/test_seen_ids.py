from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tracemalloc
from subprocess import PIPE

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.corpus.record import Record, Reject
from simhbase.errors import SimhbaseError
from simhbase.jobs.seen_ids import FirstSeen, SeenIds
from simhbase.stores.rocksdb import scratch
from simhbase.stores.rocksdb.scratch import Scratch
from tests.limits import files_up_to


def places(source: str, lines: range) -> list[FirstSeen]:
    return [FirstSeen(source, line) for line in lines]


def test_a_new_id_was_seen_nowhere_and_a_repeat_where_it_was_first():
    seen = SeenIds()
    assert seen.note(["a", "b"], places("x", range(1, 3))) == [None, None]
    assert seen.note(["b", "c", "a"], places("y", range(1, 4))) == [
        FirstSeen("x", 2),
        None,
        FirstSeen("x", 1),
    ]
    assert seen.note(["c", "a"], places("x", range(9, 11))) == [FirstSeen("y", 2), FirstSeen("x", 1)]


def test_repeats_within_one_call_name_the_first_of_them():
    found = SeenIds().note(["a", "b", "a", "a"], places("x", range(5, 9)))
    assert found == [None, None, FirstSeen("x", 5), FirstSeen("x", 5)]


def test_the_same_place_read_twice_is_a_repeat():
    seen = SeenIds()
    seen.note(["a"], [FirstSeen("x", 1)])
    assert seen.note(["a"], [FirstSeen("x", 1)]) == [FirstSeen("x", 1)]


def test_nothing_may_be_noted():
    assert SeenIds().note([], []) == []


def test_lines_and_sources_keep_their_numbers_when_they_are_large():
    seen = SeenIds()
    noted = [FirstSeen(f"source {i}", 2**36 - 1 - i) for i in range(3000)]
    ids = [f"id {i}" for i in range(3000)]
    assert seen.note(ids, noted) == [None] * 3000
    assert seen.note(ids, places("other", range(3000))) == noted


@pytest.mark.parametrize("batch", [1, 7, 1000, 20_000])
def test_growth_forgets_nothing_whatever_the_batches(batch):
    ids = [f"id {i}" for i in range(20_000 if batch > 1 else 3000)]
    noted = places("x", range(len(ids)))
    seen = SeenIds()
    for start in range(0, len(ids), batch):
        part = slice(start, start + batch)
        assert not any(seen.note(ids[part], noted[part]))
    assert seen.note(ids, noted) == noted


@given(
    st.lists(st.lists(st.integers(0, 3000).map(str), max_size=600), max_size=8),
    st.sampled_from([0, 1, 100, 1000]),
)
def test_ids_on_disk_are_told_as_those_in_memory(batches, in_memory):
    on_disk, all_in_memory = SeenIds(in_memory), SeenIds()
    for number, ids in enumerate(batches):
        noted = places(f"source {number}", range(1, len(ids) + 1))
        assert on_disk.note(ids, noted) == all_in_memory.note(ids, noted)


def growing(seen: SeenIds, count: int = 20_000) -> None:
    for start in range(0, count, 1000):
        lines = range(start, start + 1000)
        assert not any(seen.note([str(line) for line in lines], places("x", lines)))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_many_ids_leave_memory_and_no_file(folder):
    tracemalloc.start()
    seen = SeenIds(in_memory=1000)
    growing(seen, 50_000)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1_000_000
    assert len(list(folder.iterdir())) == 1
    assert seen.note(["7", "7,000"], places("y", range(2))) == [FirstSeen("x", 7), None]
    del seen
    assert list(folder.iterdir()) == []


def test_jobs_without_a_store_load_no_engine_before_ids_go_to_disk():
    jobs = "simhbase.deduplication.dedup, simhbase.deduplication.match"
    code = f"import sys, {jobs}; sys.exit('rocksdict' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_another_one_uses_is_not(folder):
    code = (
        "import os; from simhbase.stores.rocksdb.scratch import Scratch; it = Scratch(); "
        "it.put({b'a': b'1'}); print(flush=True); os.read(0, 1); os.kill(os.getpid(), 9)"
    )
    command, environment = [sys.executable, "-c", code], {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, env=environment) as other:
        other.stdout.readline()
        (of_other,) = folder.iterdir()
        first = Scratch()
        assert of_other.exists()
        other.stdin.write(b"1")
        other.stdin.flush()
        other.wait(60)
        second = Scratch()
        assert not of_other.exists()
        first.put({b"a": b"2"})
        second.put({b"a": b"3"})
        assert (first.get([b"a", b"b"]), second.get([b"a"])) == ([b"2", None], [b"3"])
        del first, second
    assert list(folder.iterdir()) == []


def test_a_full_disk_is_told_with_what_helps(folder, monkeypatch):
    monkeypatch.setattr(scratch, "_WRITE_BUFFER", 64 << 10)
    seen = SeenIds(in_memory=1000)
    with files_up_to(32 << 10), pytest.raises(SimhbaseError, match=f"ids in {folder}.*TMPDIR"):
        growing(seen, 200_000)
    del seen
    assert list(folder.iterdir()) == []


def test_a_record_with_a_repeated_id_is_rejected_and_names_the_first():
    first = Record("x.jsonl", 3, "a", text="t")
    bad = Reject("x.jsonl", 4, None, "not JSON")
    again = Record("y.jsonl", 1, "a", text="other")
    last = Record("y.jsonl", 2, "b", text="t")
    assert SeenIds().reject_repeats([first, bad, again, last]) == [
        first,
        bad,
        Reject("y.jsonl", 1, "a", "the same id came before, in line 3 of x.jsonl"),
        last,
    ]


def test_a_repeated_id_that_is_made_of_a_file_name_says_how_to_tell_files_apart():
    by_name = [Record(f"{folder}/a.txt", 1, "x/a.txt", text="t") for folder in ("d1", "d2")]
    own = [Record(f"{folder}/a.jsonl", 1, "7", text="t") for folder in ("d1", "d2")]
    twice = [Record("b.txt", 1, "b.txt", text="t") for _ in range(2)]
    rejects = [
        item for item in SeenIds().reject_repeats([*by_name, *own, *twice]) if isinstance(item, Reject)
    ]
    came = "the same id came before, in line 1 of"
    assert [reject.reason for reject in rejects] == [
        f"{came} d1/a.txt: ids from path tell files of one name apart",
        f"{came} d1/a.jsonl",
        f"{came} b.txt",
    ]
