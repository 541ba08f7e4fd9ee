"""The copy of jieba's dictionary on disk: made once, mapped, and not trusted if it is damaged."""

import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from simhbase.text import dictionary as module
from simhbase.text import dictionary_making
from simhbase.text.dictionary import dictionary
from simhbase.text.packages import package_folder

ASK = "from simhbase.text.features import tokens; print(*tokens('北京大学的学生'))"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder for the copy."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    dictionary.cache_clear()
    yield tmp_path / "cache" / "simhbase"
    dictionary.cache_clear()


@pytest.fixture(scope="module")
def block():
    return dictionary_making._block(package_folder("jieba", "jieba is not installed"))


@pytest.mark.slow
def test_of_processes_that_start_together_one_makes_it(folder):
    """All have the words, and there is one file."""
    running = [
        subprocess.Popen([sys.executable, "-c", ASK], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    said = [process.communicate()[0] for process in running]
    assert said == ["北京大学 的 学生\n"] * 4
    assert sorted(each.suffix for each in folder.iterdir()) == [".bin", ".lock"]


@pytest.mark.slow
def test_of_threads_and_processes_that_wait_none_makes_it_again(folder, block, monkeypatch):
    """While another holds the lock a process waits, and then takes what that one made."""
    path = Path(module.cache_folder()) / f"words-{module._key(package_folder('jieba', ''))}.bin"
    folder.mkdir(parents=True)
    monkeypatch.setattr(dictionary_making, "_block", lambda folder: pytest.fail("made again"))
    with ThreadPoolExecutor() as pool:
        with dictionary_making._alone(path.with_suffix(".lock")):
            waiting = [pool.submit(dictionary_making._made, "", path) for _ in range(3)]
            path.write_bytes(block)
        assert all(each.result() for each in waiting)
    assert dictionary()


def test_no_other_user_can_hold_its_lock(tmp_path):
    """All processes that make a dictionary would wait for that user."""
    lock = tmp_path / "words.lock"
    lock.touch(0o644)
    with dictionary_making._alone(lock):
        assert lock.stat().st_mode & 0o777 == 0o600


def test_its_lock_is_no_link(tmp_path):
    """Whoever owned the folder had a file of root emptied that kept its HOME."""
    (tmp_path / "victim").write_text("of another")
    (tmp_path / "words.lock").symlink_to("victim")
    with pytest.raises(OSError, match="Too many levels"), dictionary_making._alone(tmp_path / "words.lock"):
        pass
    assert (tmp_path / "victim").read_text() == "of another"


@pytest.mark.parametrize("damage", [b"", b"x", b"simhdic\x01" * 9])
def test_a_damaged_copy_is_made_again(folder, block, damage, monkeypatch):
    folder.mkdir(parents=True)
    path = folder / f"words-{module._key(package_folder('jieba', ''))}.bin"
    path.write_bytes(damage)
    monkeypatch.setattr(dictionary_making, "_block", lambda folder: block)
    dictionary()
    assert path.read_bytes() == block


def test_a_folder_that_cannot_be_written_to_costs_time_and_says_so_once(tmp_path, block, caplog, monkeypatch):
    """Its place is taken by a file, which no user may turn into a folder."""
    (tmp_path / "cache").write_text("in the way")
    monkeypatch.setattr(dictionary_making, "_block", lambda folder: block)
    with caplog.at_level(logging.WARNING):
        assert dictionary() is dictionary()
    (warning,) = caplog.messages
    assert "cannot keep jieba's dictionary in" in warning
    assert "XDG_CACHE_HOME" in warning


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders away")
@pytest.mark.parametrize("place", [os.mkfifo, lambda path: path.symlink_to("victim")], ids=["pipe", "link"])
@pytest.mark.parametrize("suffix", [".bin", ".lock"])
@pytest.mark.parametrize("folder_of_another", ["simhbase", ".cache/simhbase"])
def test_what_another_user_has_prepared_is_not_used(tmp_path, place, suffix, folder_of_another):
    """In a folder of all users the file behind a link was emptied, and a pipe waited for."""
    tmp_path.chmod(0o1777)
    path = tmp_path / folder_of_another / "words-1.bin"
    path.parent.mkdir(parents=True)
    place(path.with_suffix(suffix))
    victim = path.parent / "victim"
    victim.write_text("of another")
    for each in (path.parent, tmp_path / folder_of_another.partition("/")[0]):
        os.chown(each, 1, -1)
    assert module.opened(str(path)) is None
    with pytest.raises(OSError, match="it is a folder of another user"):
        dictionary_making._made("", path)
    assert victim.read_text() == "of another"
