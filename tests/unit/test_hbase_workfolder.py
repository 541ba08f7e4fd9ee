"""The folder of HFiles in a folder that others can write to, such as the system's temporary one."""

import os
from multiprocessing import get_context

import pytest

from simhbase.errors import StoreFailed
from simhbase.stores.hbase.workfolder import WorkFolder


def test_what_an_earlier_run_has_left_is_replaced(tmp_path):
    left = WorkFolder(str(tmp_path), "load")
    (left.local / "half.hfile").write_bytes(b"x")
    folder = WorkFolder(str(tmp_path), "load")
    assert list(folder.local.iterdir()) == []
    assert not left.local.exists()
    assert folder.local.parent.stat().st_mode & 0o022 == 0


def test_a_link_of_the_name_is_not_followed(tmp_path):
    """Names can be computed by others, who could read and change the files."""
    (tmp_path / "of others").mkdir()
    (tmp_path / "load").symlink_to(tmp_path / "of others")
    with pytest.raises(StoreFailed, match="File exists"):
        WorkFolder(str(tmp_path), "load")
    assert list((tmp_path / "of others").iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders away")
@pytest.mark.parametrize("is_link", [False, True])
def test_a_work_folder_that_another_user_has_prepared_is_not_used(tmp_path, is_link):
    """Its owner could replace the files that are handed over."""
    tmp_path.chmod(0o1777)
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    elsewhere.mkdir()
    work.symlink_to(elsewhere) if is_link else work.mkdir()
    os.lchown(work, 1, -1)
    with pytest.raises(StoreFailed, match=r"it is a (link|folder) of another user"):
        WorkFolder(str(work), "load")
    assert list(work.iterdir()) == []


def test_a_pipe_of_the_name_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "load")
    process = get_context("spawn").Process(target=WorkFolder, args=(str(tmp_path), "load"))
    process.start()
    process.join(30)
    has_ended = process.exitcode is not None
    process.kill()
    assert has_ended
    with pytest.raises(StoreFailed, match="File exists"):
        WorkFolder(str(tmp_path), "load")
