"""What scripts/hbase tells a person before there is any HBase."""

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.cluster import Cluster

SCRIPT = Path(__file__).parents[2] / "scripts" / "hbase"


def run(
    name: str, folder: Path, environment: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(Cluster(folder).command(name), capture_output=True, text=True, env=environment)


def test_where_java_is_missing_the_message_says_what_to_install(tmp_path: Path) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    ps = subprocess.run(["which", "ps"], capture_output=True, text=True, check=True).stdout.strip()
    (bare / "ps").symlink_to(ps)
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    failed = run("up", tmp_path / "hbase", environment | {"PATH": str(bare)})
    assert failed.returncode == 1
    assert "HBase needs Java 17" in failed.stderr
    assert "openjdk-17-jdk-headless" in failed.stderr


def test_a_java_home_without_java_17_is_named(tmp_path: Path) -> None:
    failed = run("up", tmp_path / "hbase", os.environ | {"JAVA_HOME": str(tmp_path)})
    assert (failed.returncode, f"JAVA_HOME={tmp_path}" in failed.stderr) == (1, True)


def test_commands_on_a_folder_without_hbase_say_how_to_start_one(tmp_path: Path) -> None:
    folder = tmp_path / "none"
    status = run("status", folder)
    assert (status.returncode, "scripts/hbase up --folder" in status.stderr) == (1, True)
    down = run("down", folder)
    assert (down.returncode, "down already" in down.stderr) == (0, True)
    assert not folder.exists()


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    loader = SourceFileLoader("hbase_script", str(SCRIPT))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, loader.name, module)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("looks", [1, 3])
def test_a_process_that_has_no_arguments_yet_has_not_ended(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, looks: int
) -> None:
    seen = iter([*[{}] * (looks - 1), {"kdc": script.Process(1, 1)}])
    monkeypatch.setattr(script, "running", lambda folder: next(seen))
    script.check_alive(SimpleNamespace(folder=tmp_path), [script.KDC])
    assert next(seen, None) is None
