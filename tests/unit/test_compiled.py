"""When compiled loops are taken, and where jieba's dictionary for them is kept."""

import logging
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from simhbase import acceleration
from simhbase.profile import Profile, make_profile
from tests.roads import road

dictionary = pytest.importorskip("simhbase.text.dictionary", reason="Numba is not installed")
TEXTS = ["研究生命起源的大学生在北京", "a text of some words, and others"]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Where the dictionary is kept, for this test only."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    dictionary.load.cache_clear()
    yield tmp_path / "simhbase"
    dictionary.load.cache_clear()


@pytest.fixture(scope="module")
def arrays():
    return [*map(np.copy, (array for part in dictionary.load() for array in part))]


def loaded() -> list[np.ndarray]:
    dictionary.load.cache_clear()
    return [array for part in dictionary.load() for array in part]


def are_equal(one, other) -> bool:
    return len(one) == len(other) and all(map(np.array_equal, one, other))


@pytest.fixture
def quickly_made(arrays, monkeypatch):
    """Dictionaries are made at once: a list that grows with each."""
    made = []
    words = dictionary.Dictionary(*arrays[: len(dictionary.Dictionary._fields)])
    monkeypatch.setattr(dictionary, "_words", lambda folder: made.append(folder) or words)
    characters = dictionary.Characters(*arrays[len(dictionary.Dictionary._fields) :])
    monkeypatch.setattr(dictionary, "_characters", lambda: characters)
    return made


def test_the_dictionary_is_made_once_and_then_read(folder, arrays):
    assert are_equal(loaded(), arrays), "made"
    assert [file.suffix for file in folder.iterdir()] == [".npz"]
    assert are_equal(loaded(), arrays), "read"


@pytest.mark.parametrize("damage", ["empty", "cut", "changed", "other"])
def test_a_damaged_copy_is_made_again(folder, arrays, quickly_made, damage):
    loaded()
    (copy,) = folder.iterdir()
    content = copy.read_bytes()
    middle = len(content) // 2
    copy.write_bytes(
        {
            "empty": b"",
            "cut": content[:middle],
            "changed": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
            "other": b"something else",
        }[damage]
    )
    assert are_equal(loaded(), arrays)
    assert len(quickly_made) == 2
    assert copy.read_bytes() == content


def test_a_folder_that_cannot_be_written_costs_time_only(folder, arrays, quickly_made):
    folder.write_bytes(b"a file, and no folder")
    assert are_equal(loaded(), arrays)
    assert are_equal(loaded(), arrays)
    assert len(quickly_made) == 2


def test_another_jieba_has_a_copy_of_its_own(folder, quickly_made, monkeypatch):
    loaded()
    monkeypatch.setattr(dictionary, "version", lambda package: "0.43")
    loaded()
    assert len(quickly_made) == 2
    assert len([*folder.iterdir()]) == 2


def test_another_version_of_the_code_has_a_copy_of_its_own(folder, quickly_made, monkeypatch, tmp_path):
    """It may take other characters for the same ones."""
    loaded()
    other = tmp_path / "normalise.py"
    other.write_text("changed")
    monkeypatch.setattr(dictionary.normalise, "__file__", str(other))
    loaded()
    assert len(quickly_made) == 2


def test_processes_that_make_it_at_once_leave_one_whole_copy(folder, arrays):
    script = "from simhbase.text.dictionary import load; print(sum(int(each.sum()) for each in load()[1]))"
    running = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) for _ in range(2)]
    expected = str(sum(int(each.sum()) for each in arrays[len(dictionary.Dictionary._fields) :]))
    assert {process.communicate()[0].decode().strip() for process in running} == {expected}
    assert [file.suffix for file in folder.iterdir()] == [".npz"]
    assert are_equal(loaded(), arrays)


def fingerprints() -> list[int]:
    return Profile(verify=False).fingerprinter().fingerprint_many(TEXTS).values.tolist()


def compiled_fingerprints() -> list[int]:
    assert acceleration.prepare()
    return fingerprints()


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_forked_and_spawned_processes_have_the_same_fingerprints(start):
    expected = compiled_fingerprints()
    with multiprocessing.get_context(start).Pool(2) as pool:
        assert pool.starmap(compiled_fingerprints, [()] * 4) == [expected] * 4


def test_threads_have_the_same_fingerprints():
    texts = [text * 50 for text in TEXTS] * 50
    fingerprinter = make_profile({}, "classic").fingerprinter()
    with road("plain"):
        expected = fingerprinter.fingerprint_many(texts).values
    found = []
    with road("compiled"):
        compiled = make_profile({}, "classic").fingerprinter()
        threads = [
            Thread(target=lambda: found.append(compiled.fingerprint_many(texts).values)) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 4
    assert all(np.array_equal(each, expected) for each in found)


@pytest.fixture
def unloaded(monkeypatch):
    """As in a new process."""
    monkeypatch.setattr(acceleration, "_modules", {})
    monkeypatch.setattr(acceleration, "_spent", 0)


def test_loops_are_taken_after_as_much_work_as_loading_them_takes(unloaded):
    assert acceleration.text_loops(1000) is None
    assert acceleration.text_loops(10**7) is None
    assert acceleration.text_loops(1) is not None


def test_loops_that_were_prepared_are_taken_at_once(unloaded):
    assert acceleration.prepare()
    assert acceleration.text_loops(1) is not None


def test_while_one_thread_loads_the_others_go_without(unloaded):
    acceleration.text_loops(10**7)
    with acceleration._loading:
        assert acceleration.text_loops(1) is None
    assert acceleration.text_loops(1) is not None


def test_long_texts_go_without_them_piece_by_piece(monkeypatch):
    with road("plain"):
        expected = fingerprints()
    monkeypatch.setattr("simhbase.text.features.LONGEST_COMPILED", 20)
    with road("compiled"):
        assert fingerprints() == expected


def test_without_numba_and_where_it_fails_the_others_are_taken(unloaded, monkeypatch, caplog):
    expected = fingerprints()
    acceleration.text_loops(10**9)
    for error in (ImportError("no numba"), RuntimeError("cannot cache: no locator"), EOFError("short")):

        def fail(name, error=error):
            raise error

        with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
            patch.setattr(acceleration, "_modules", {})
            patch.setattr(acceleration, "import_module", fail)
            assert fingerprints() == expected
            assert not acceleration.prepare()
    assert len(caplog.messages) == 4, "two modules, two errors"
    assert "RuntimeError: cannot cache: no locator" in caplog.messages[0]
    assert "NUMBA_CACHE_DIR" in caplog.messages[0]


@pytest.mark.full
def test_damaged_files_of_numba_cost_time_only(tmp_path):
    script = (
        "import logging; logging.basicConfig(); from simhbase import acceleration as a; a.prepare(); "
        f"from simhbase import Profile; print(Profile().fingerprinter().fingerprint({TEXTS[0]!r}))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    found = []
    for _ in range(2):
        ran = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
        )
        found.append(ran.stdout)
        for file in tmp_path.rglob("*.nbi"):
            file.write_bytes(file.read_bytes()[:-20])
    assert found[0] == found[1]
    assert "set NUMBA_CACHE_DIR to an empty folder" in ran.stderr
