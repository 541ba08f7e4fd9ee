"""HBase's command as a child process: what it prints, how it fails, and that nobody is left of it."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from simhbase.errors import UsageError
from simhbase.stores.hbase.tools import BULK_LOAD, IMPORT, VARIABLE, ToolFailed, Tools, hbase_command

TRACE = """
2026-11-22T10:15:04,613 WARN  [main] util.NativeCodeLoader: Unable to load native-hadoop library
Exception in thread "main" java.io.IOException: it failed
\tat org.apache.hadoop.fs.FileSystem.getLocal(FileSystem.java:510)
Caused by: java.net.ConnectException: refused
"""


def tools(folder: Path, script: str, alive: Callable[[], object] = lambda: None) -> Tools:
    return Tools([sys.executable, "-c", script], folder, alive)


def test_what_a_tool_prints_comes_back_and_stays_in_its_log(tmp_path):
    found = tools(tmp_path, "import sys; print(sys.argv[1:]); print('x', file=sys.stderr)")
    assert "['a.Class', 'b c']" in found.run("trying", "log", "a.Class", "b c")
    assert "x" in (tmp_path / "log.log").read_text()


def test_what_does_little_is_compiled_quickly_unless_it_is_said_how(tmp_path, monkeypatch):
    found = tools(tmp_path, "import os; print(os.environ.get('JAVA_TOOL_OPTIONS'))")
    for said, quickly, well in (
        (None, "-XX:TieredStopAtLevel=1", "None"),
        ("-Xmx4g", "-XX:TieredStopAtLevel=1 -Xmx4g", "-Xmx4g"),
    ):
        monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
        if said:
            monkeypatch.setenv("JAVA_TOOL_OPTIONS", said)
        assert found.run("loading", "log", BULK_LOAD, does_little=True) == f"{quickly}\n"
        assert found.run("making", "log", IMPORT) == f"{well}\n"


def test_a_tool_that_fails_is_named_with_its_telling_lines(tmp_path):
    with pytest.raises(ToolFailed) as raised:
        tools(tmp_path, f"print({TRACE!r}); raise SystemExit(3)").run("making it", "log", "a.Class")
    assert str(raised.value) == (
        f"making it failed (a.Class ended with 3). {tmp_path / 'log.log'} says:\n"
        '  Exception in thread "main" java.io.IOException: it failed\n'
        "  Caused by: java.net.ConnectException: refused"
    )


def test_a_tool_that_says_nothing_and_fails(tmp_path):
    with pytest.raises(ToolFailed, match=r"says:\n  nothing$"):
        tools(tmp_path, "raise SystemExit(1)").run("making it", "log", "a.Class")


def test_a_tool_is_stopped_where_its_load_is(tmp_path):
    def interrupted() -> None:
        raise KeyboardInterrupt

    script = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
    found = tools(tmp_path, f"import os; os.chdir({str(tmp_path)!r}); {script}", interrupted)
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        found.run("trying", "log", "a.Class")
    assert time.monotonic() - begun < 300
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_the_command_may_have_arguments(monkeypatch):
    monkeypatch.setenv(VARIABLE, f"{sys.executable} -m 'a b'")
    assert hbase_command() == [sys.executable, "-m", "a b"]


@pytest.mark.parametrize("command", ["", "/nowhere/hbase", "'unbalanced"])
def test_a_command_that_is_none_is_refused(monkeypatch, command):
    monkeypatch.setenv(VARIABLE, command)
    with pytest.raises(UsageError, match=VARIABLE):
        hbase_command()
