"""Folders among temporary files: removed by their process, or after it was killed by the next one."""

import os
import signal
import tempfile
from pathlib import Path

import pytest

from simhbase.process.temporary import TemporaryFolder


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_private_and_ends_with_its_object(top):
    folder = TemporaryFolder("test")
    assert list(top.iterdir()) == [folder.path]
    assert folder.path.stat().st_mode & 0o777 == 0o700
    (folder.path / "file").touch()
    del folder
    assert list(top.iterdir()) == []


def test_one_in_use_and_those_of_other_kinds_stay(top):
    first, other = TemporaryFolder("test"), top / "simhbase-other-1"
    other.mkdir()
    second = TemporaryFolder("test")
    assert set(top.iterdir()) == {first.path, second.path, other}


def test_what_is_no_folder_of_this_user_is_left_alone_and_waited_for_by_nobody(top, monkeypatch):
    """A pipe whose name another user has chosen held the process for ever."""
    target = top / "kept"
    target.mkdir()
    os.mkfifo(top / f"simhbase-test-{1:032x}")
    (top / f"simhbase-test-{2:032x}").symlink_to(target)
    (top / f"simhbase-test-{3:032x}").touch()
    before = set(top.iterdir())
    TemporaryFolder("test").remove()
    assert set(top.iterdir()) == before
    abandoned = top / f"simhbase-test-{4:032x}"
    abandoned.mkdir()
    with monkeypatch.context() as another_user:
        another_user.setattr(os, "geteuid", lambda: os.getuid() + 1)
        TemporaryFolder("test").remove()
    assert abandoned.exists()
    TemporaryFolder("test").remove()
    assert set(top.iterdir()) == before


def test_a_folder_that_a_user_has_named_alike_stays(top):
    """A copy named simhbase-copy-monday was removed by the next one beside it."""
    own = [top / f"simhbase-test-{name}" for name in ("monday", "20261201", f"{0:016x}", f"{0:032x}-")]
    for folder in own:
        folder.mkdir()
    TemporaryFolder("test").remove()
    assert sorted(top.iterdir()) == sorted(own)


def test_a_folder_that_another_process_removes_before_it_is_locked_is_made_again(top, monkeypatch):
    made: list[Path] = []
    mkdir = Path.mkdir

    def made_and_removed(path: Path, mode: int) -> None:
        made.append(path)
        mkdir(path, mode)
        if len(made) == 1:
            path.rmdir()

    monkeypatch.setattr(Path, "mkdir", made_and_removed)
    folder = TemporaryFolder("test")
    assert folder.path == made[1]
    assert folder.path.exists()
    folder.remove()


def test_an_interrupt_while_it_is_made_leaves_nothing(top, monkeypatch):
    mkdir = Path.mkdir

    def interrupted(path: Path, mode: int) -> None:
        mkdir(path, mode)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Path, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt):
        TemporaryFolder("test")
    assert list(top.iterdir()) == []
