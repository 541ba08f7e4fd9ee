"""Who deletes a backend, Spark or the measurements still has a working house."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import simhbase
from tests.command_line import environment

HOUSE = Path(simhbase.__file__).parent
# HFiles are HBase's, also where Spark makes them.
OF_HBASE = ("stores/hbase", "loads/hfiles.py", "loads/hfile_input.py", "spark")
OTHERS = ("quality", "stores/postgresql", "stores/redis", "stores/rocksdb")
ROOMS = {"hbase": OF_HBASE, **{name: (name,) for name in ("spark", *OTHERS)}, "all": (*OF_HBASE, *OTHERS)}
IMPORTS = """
import importlib, pkgutil, sys, simhbase
assert simhbase.__file__.startswith(sys.argv[1]), simhbase.__file__
for module in pkgutil.walk_packages(simhbase.__path__, "simhbase."):
    importlib.import_module(module.name)
with simhbase.open("memory:", create="default") as index:
    index.add([("a", "The ferry to the island sails at eight, ten and noon.")])
    assert index.find("The ferry to the island sails at eight, ten and noon!").matches
"""


def without(rooms: tuple[str, ...], folder: Path) -> None:
    shutil.copytree(HOUSE, folder / "simhbase", ignore=shutil.ignore_patterns("docs", "__pycache__"))
    for room in rooms:
        path = folder / "simhbase" / room
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def run(folder: Path, *arguments: object) -> None:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=environment() | {"PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.parametrize("name", ROOMS)
def test_all_modules_are_imported_without(name, tmp_path):
    without(ROOMS[name], tmp_path)
    run(tmp_path, "-c", IMPORTS, tmp_path)


def test_memory_keeps_its_contract_without_all_of_them(tmp_path):
    without(ROOMS["all"], tmp_path)
    tests = HOUSE.parent / "tests/contract"
    files = [tests / f"test_{name}.py" for name in ("store", "near")]
    run(tmp_path, "-m", "pytest", "-q", "-k", "memory and not rocksdb", "-p", "no:cacheprovider", *files)
