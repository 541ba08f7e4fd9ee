"""scripts/hbase, with a real HBase: what starts, what a kill leaves, and what a person is told."""

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import happybase
import pytest

from tests.cluster import QUICKLY_COMPILED, Cluster

pytestmark = pytest.mark.hbase

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "hbase"
ROWS = [b"%04d" % number for number in range(1000)]


@dataclass(frozen=True)
class Instance:
    folder: Path

    def command(self, *arguments: object) -> list[str]:
        name, *rest = map(str, arguments)
        return [sys.executable, str(SCRIPT), name, "--folder", str(self.folder), *rest]

    def run(self, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        environment = os.environ | QUICKLY_COMPILED | options.pop("env", {})
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, env=environment, **options
        )

    def up(self, *arguments: object) -> str:
        done = self.run("up", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def kill(self, name: str) -> None:
        done = self.run("kill", name)
        assert done.returncode == 0, done.stderr

    @property
    def description(self) -> dict[str, Any]:
        return json.loads((self.folder / "cluster.json").read_text())

    def connect(self, gateway: str = "thrift-1") -> happybase.Connection:
        return happybase.Connection("127.0.0.1", self.description["ports"][gateway], timeout=60_000)

    def processes(self) -> list[str]:
        listing = subprocess.run(["ps", "-e", "-ww", "-o", "args="], capture_output=True, text=True)
        return [line for line in listing.stdout.splitlines() if f"={self.folder}#" in line]


@pytest.fixture
def hbase(hbase: Cluster) -> Instance:
    """The standalone HBase of all tests."""
    return Instance(hbase.folder)


@pytest.fixture
def mended(hbase: Instance) -> Iterator[Instance]:
    """The same, of which everything runs again after the test."""
    yield hbase
    hbase.up()


@pytest.fixture
def table() -> str:
    """One that no test before has made."""
    return f"rows{time.time_ns()}"


def write_rows(instance: Instance, table: str) -> None:
    connection = instance.connect()
    connection.create_table(table, {"d": {}})
    with connection.table(table).batch() as batch:
        for row in ROWS:
            batch.put(row, {b"d:": row})
    connection.close()


def read_rows(instance: Instance, table: str, gateway: str = "thrift-1") -> list[bytes]:
    connection = instance.connect(gateway)
    rows = [row for row, _ in connection.table(table).scan()]
    connection.close()
    return rows


def test_up_prints_the_file_that_says_where_everything_is(hbase: Instance) -> None:
    printed = hbase.up()
    assert printed == f"{hbase.folder / 'cluster.json'}\n"
    described = hbase.description
    ports = described["ports"]
    assert described["gateways"] == [f"127.0.0.1:{ports['thrift-1']}"]
    assert described["thrift2"] == f"127.0.0.1:{ports['thrift2']}"
    assert described["url"] == f"hbase://127.0.0.1:{ports['thrift-1']}/simhbase?thrift2={ports['thrift2']}"
    assert len(set(ports.values())) == len(ports) == 5
    assert (Path(described["conf"]) / "hbase-site.xml").exists()


def test_the_gateways_answer_when_up_returns(hbase: Instance) -> None:
    connection = hbase.connect()
    assert isinstance(connection.tables(), list)
    connection.close()


def test_the_process_ids_are_those_of_the_jvms(hbase: Instance) -> None:
    for name, pid in hbase.description["pids"].items():
        command = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True)
        assert "java" in command.stdout.split()[0]
        assert f"#{name} " in command.stdout


def test_up_when_up_says_so_and_leaves_everything_as_it_is(hbase: Instance) -> None:
    before = hbase.description
    again = hbase.run("up")
    assert (again.returncode, "up already" in again.stderr) == (0, True)
    assert hbase.description == before


def test_status_shows_every_process_with_its_port_and_memory(hbase: Instance) -> None:
    status = hbase.run("status")
    assert status.returncode == 0
    described = hbase.description
    lines = {line.split()[0]: line.split() for line in status.stdout.splitlines()[1:4]}
    for name in ("master", "thrift-1", "thrift2"):
        _, pid, port, memory, heap = lines[name]
        assert (int(pid), int(port)) == (described["pids"][name], described["ports"][name])
        assert int(memory) > 0
        assert int(heap) > 0


@pytest.mark.full  # the tests that kill servers of a cluster need it, too
def test_rows_outlive_a_killed_server_that_up_brings_back(mended: Instance, table: str) -> None:
    write_rows(mended, table)
    before = mended.description
    mended.kill("master")
    status = mended.run("status")
    assert (status.returncode, "down" in status.stdout) == (1, True)

    mended.up()
    after = mended.description
    assert after["ports"] == before["ports"]
    assert after["pids"]["thrift-1"] == before["pids"]["thrift-1"]
    assert after["pids"]["master"] != before["pids"]["master"]
    assert read_rows(mended, table) == ROWS


@pytest.mark.full
def test_down_keeps_the_rows_and_the_ports(mended: Instance, table: str) -> None:
    write_rows(mended, table)
    ports = mended.description["ports"]
    down = mended.run("down")
    assert (down.returncode, mended.processes()) == (0, [])
    assert mended.description["pids"] == {}

    mended.up()
    assert mended.description["ports"] == ports
    assert read_rows(mended, table) == ROWS


def test_a_start_that_fails_shows_the_reason_and_leaves_the_rest_alone(mended: Instance) -> None:
    mended.kill("thrift-1")
    port = mended.description["ports"]["thrift-1"]
    with socket.create_server(("127.0.0.1", port)):
        failed = mended.run("up")
    assert failed.returncode == 1
    assert "thrift-1 has ended" in failed.stderr
    assert "Address already in use" in failed.stderr
    assert mended.description["pids"].keys() == {"master", "thrift2"}
    assert len(mended.processes()) == 2


def test_a_gateway_is_healthy_only_if_the_call_returns_a_result(hbase: Instance) -> None:
    def answers(gateway: str, method: str) -> bool:
        program = ROOT / "docker" / "hbase" / "thrift-answers"
        port = str(hbase.description["ports"][gateway])
        return subprocess.run([program, port, method], capture_output=True).returncode == 0

    assert answers("thrift-1", "getTableNames")
    assert answers("thrift2", "listNamespaces")
    assert not answers("thrift-1", "listNamespaces")
    assert not answers("master", "getTableNames")


def test_another_mode_is_refused_in_the_same_folder(hbase: Instance) -> None:
    refused = hbase.run("up", "--cluster")
    assert (refused.returncode, "holds a standalone HBase" in refused.stderr) == (1, True)


def test_an_unknown_process_is_answered_with_the_known_ones(hbase: Instance) -> None:
    refused = hbase.run("kill", "mastre")
    assert refused.returncode == 1
    assert "choose among master, thrift-1, thrift2" in refused.stderr


def test_logs_are_those_since_the_last_start(hbase: Instance) -> None:
    assert hbase.run("logs", "master").stdout.count("Master has completed initialization") == 1


@pytest.mark.full
def test_the_shell_runs_files_and_input_and_ends_with_an_error_at_the_first(
    hbase: Instance, tmp_path: Path, table: str
) -> None:
    script = tmp_path / "tables.rb"
    script.write_text(f"create '{table}', {{NAME => 'd', BLOCKSIZE => '16384'}}, SPLITS => ['5']\n")
    made = hbase.run("shell", script)
    assert made.returncode == 0, made.stderr
    described = hbase.run("shell", input=f"describe '{table}'\n")
    assert (described.returncode, "BLOCKSIZE => '16384'" in described.stdout) == (0, True)
    assert hbase.run("shell", script).returncode != 0


@pytest.mark.full
def test_the_shell_runs_no_settings_of_the_current_folder(hbase: Instance, tmp_path: Path) -> None:
    for name in (".irbrc", "irb.rc", "_irbrc"):
        (tmp_path / name).write_text("puts 'a stranger'\n")
    (tmp_path / "given").write_text("puts 'the one given'\n")
    done = hbase.run("shell", "given", cwd=tmp_path)
    assert ("a stranger" in done.stdout, "the one given" in done.stdout) == (False, True), done.stderr


@pytest.mark.full
def test_properties_hold_until_the_next_down(tmp_path: Path) -> None:
    instance = Instance(tmp_path)
    setting = "hbase.thrift.server.socket.read.timeout=2345"
    try:
        instance.up("-D", setting)
        instance.kill("thrift-1")
        instance.up()
        assert instance.description["properties"] == dict([setting.split("=")])
        site = (tmp_path / "conf" / "hbase-site.xml").read_text()
        assert "<value>2345</value>" in site
    finally:
        instance.run("down", check=True)
    assert instance.run("up", "-D", "nonsense").returncode == 2


@pytest.mark.full
def test_a_cluster_beside_it_loses_nothing_and_every_process_comes_back(
    hbase: Instance, tmp_path: Path
) -> None:
    cluster = Instance(tmp_path)
    names = ["zookeeper", "master", "thrift-1", "thrift-2", "thrift2"]
    names += [f"regionserver-{number}" for number in (1, 2, 3)]
    try:
        cluster.up("--cluster")
        assert sorted(cluster.description["pids"]) == sorted(names)
        assert len(cluster.description["gateways"]) == 2
        write_rows(cluster, "rows")
        for name in names:
            cluster.kill(name)
        cluster.up()
        assert sorted(cluster.description["pids"]) == sorted(names)
        assert read_rows(cluster, "rows", "thrift-2") == ROWS
        assert len(hbase.processes()) == 3
    finally:
        cluster.run("down", check=True)
    assert cluster.processes() == []


def test_an_interrupted_start_leaves_no_process_behind(tmp_path: Path) -> None:
    instance = Instance(tmp_path)
    with subprocess.Popen(instance.command("up"), stderr=subprocess.PIPE, text=True) as starting:
        assert starting.stderr is not None
        for line in starting.stderr:
            if line.startswith("Starting thrift2"):
                starting.send_signal(signal.SIGINT)
                break
        starting.stderr.read()
    assert starting.returncode == 130
    assert instance.processes() == []


def test_an_interrupt_that_strikes_in_a_destructor_is_not_lost(tmp_path: Path) -> None:
    # Python prints an exception that is raised there, and goes on.
    (tmp_path / "sitecustomize.py").write_text("""
import os, signal, subprocess

destroy = subprocess.Popen.__del__

def interrupt_and_destroy(self):
    if any("-Dsimhbase.process=" in str(argument) for argument in self.args):
        os.kill(os.getpid(), signal.SIGINT)
    destroy(self)

subprocess.Popen.__del__ = interrupt_and_destroy
""")
    instance = Instance(tmp_path / "hbase")
    try:
        done = instance.run("up", env={"PYTHONPATH": str(tmp_path)})
        assert "Exception ignored" in done.stderr
        assert done.returncode == 130
        assert instance.processes() == []
    finally:
        instance.run("down")


@pytest.mark.full
def test_what_maven_could_not_do_is_shown(tmp_path: Path) -> None:
    script = runpy.run_path(str(SCRIPT))
    script["find_program"]("mvn", "maven")
    pom = tmp_path / "pom.xml"
    pom.write_text("<project>")
    with pytest.raises(script["Failure"], match="Non-readable POM"):
        script["fetch_jars"](pom, tmp_path / "jars")
