"""Modules and settings in the current folder, which may be a stranger's: no process uses them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simhbase.index.opening import open_index
from tests import service
from tests.command_line import environment
from tests.examples import ROOT

INSTALLED = Path(sys.executable).with_name("simhbase")
PYTHON = """
import simhbase

if __name__ == "__main__":
    simhbase.dedup("pages")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A current folder with pages and modules."""
    pages = tmp_path / "current" / "pages"
    pages.mkdir(parents=True)
    for number in range(3):
        text = "".join(f"<p>what page {number} says in its paragraph {place}</p>" for place in range(1000))
        (pages / f"{number}.html").write_text(f"<html><body>{text}</body></html>")
    for name in ("multiprocessing", "pickle", "pyspark", "runpy", "signal"):
        (pages.parent / f"{name}.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w').close()\n")
    return pages.parent


def done(*command: object, folder: Path) -> bytes:
    """What a command prints."""
    ended = subprocess.run(
        [*map(str, command)],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout


def test_a_command_that_reads_pages_runs_none(folder, tmp_path):
    done(INSTALLED, "dedup", "--unique", tmp_path / "unique.jsonl", "pages", folder=folder)
    assert not (tmp_path / "run").exists()


def test_a_program_that_reads_pages_runs_none(folder, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(PYTHON)
    done(sys.executable, script, folder=folder)
    assert not (tmp_path / "run").exists()


def test_plots_have_no_settings_of_it(folder, tmp_path):
    """Some have LaTeX read files of the user, and old versions of matplotlib evaluate one."""
    (folder / "matplotlibrc").write_text("text.usetex: True\n")
    script = tmp_path / "script.py"
    script.write_text("from simhbase.quality.plots import rcParams\nprint(rcParams['text.usetex'])")
    assert done(sys.executable, script, folder=folder) == b"False\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize("closed", ["os.chmod('.', 0o700)", "os.rmdir(os.getcwd())"])
def test_plots_are_drawn_where_the_current_folder_cannot_be_entered_or_is_gone(tmp_path, closed):
    """It was an unexpected error: a user who is given a command in the folder of root cannot return to it."""
    script, folder = tmp_path / "script.py", tmp_path / "folder"
    script.write_text(
        "import importlib, os, simhbase.quality.plots as plots\n"
        f"before = os.stat('.')\n{closed}\nos.setresuid(65534, 65534, 0)\n"
        "importlib.reload(plots)\nos.setresuid(0, 0, 0)\n"
        "assert os.path.samestat(before, os.stat('.')) and plots.rcParams"
    )
    folder.mkdir()
    done(sys.executable, script, folder=folder)


def test_a_service_with_several_processes_runs_none(folder, tmp_path, monkeypatch):
    url = f"rocksdb:{tmp_path / 'store'}"
    open_index(url, create="default").close()
    monkeypatch.setattr(service, "COMMAND", [str(INSTALLED)])
    with service.serving(url, folder, "--workers", 2, "--read-only"):
        assert not (tmp_path / "run").exists()


def test_a_fleet_of_workers_runs_none(folder, tmp_path):
    url = f"rocksdb:{tmp_path / 'store'}"
    open_index(url, create="default").close()
    done(sys.executable, ROOT / "examples" / "worker.py", "--store", url, "--workers", 1, folder=folder)
    assert not (tmp_path / "run").exists()
