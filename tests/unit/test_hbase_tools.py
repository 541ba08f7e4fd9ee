"""HBase's command as a child process: what it prints, how it fails, and that nobody is left of it."""

import os
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from simhbase.errors import UsageError
from simhbase.stores.hbase.tools import HOME, VARIABLE, ToolFailed, Tools, hbase_command

TRACE = """
2026-11-22T10:15:04,613 WARN  [main] util.NativeCodeLoader: Unable to load native-hadoop library
Exception in thread "main" java.io.IOException: it failed
\tat org.apache.hadoop.fs.FileSystem.getLocal(FileSystem.java:510)
Caused by: java.net.ConnectException: refused
"""


STARTED = "import os, sys, time; print('simhbase: HBase 2.6.1', flush=True)"
EACH = "[print(({answer}), flush=True) for line in sys.stdin]"


def tools(
    folder: Path, answer: str, before: str = STARTED, alive: Callable[[], object] = lambda: None
) -> Tools:
    """Those of a command that answers every line so."""
    return Tools([sys.executable, "-c", f"{before}\n{EACH.format(answer=answer)}"], folder / "log", alive)


def test_one_process_answers_all_calls(tmp_path):
    with closing(tools(tmp_path, "f'{os.getpid()} {line!r}\\nsimhbase: true'")) as found:
        assert found.version() == (2, 6, 1)
        found.load("trying", "file:///a b", "ns:t", ["-Dx=1"])
        found.files("trying", "-rm", "x")
        assert found.has("t", "r", 5)
    first, second, third = (tmp_path / "log").read_text().splitlines()
    assert len({line.split()[0] for line in (first, second, third)}) == 1
    assert "load\\t-Dx=1\\tfile:///a b\\tns:t\\n" in first
    assert "files\\t-rm\\tx" in second
    assert "has\\tt\\tr\\t5" in third


def test_the_command_does_not_run_in_the_working_folder(tmp_path, monkeypatch):
    """Ruby reads a file .jrubyrc there, and code of a stranger from where that says."""
    (tmp_path / "work").mkdir()
    (tmp_path / "given").mkdir()
    monkeypatch.chdir(tmp_path / "given")
    with closing(tools(tmp_path / "work", "os.getcwd() + '\\nsimhbase: true'")) as found:
        found.files("trying")
    assert (tmp_path / "work" / "log").read_text() == f"{tmp_path}/work\n"


def test_folders_of_its_variables_may_be_named_from_the_working_folder(tmp_path, monkeypatch):
    """Where its configuration is not found, HBase takes the servers of this machine."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").mkdir()
    monkeypatch.setenv("HBASE_CONF_DIR", "conf")
    (tmp_path / "work").mkdir()
    with closing(tools(tmp_path / "work", "os.environ['HBASE_CONF_DIR'] + '\\nsimhbase: true'")) as found:
        found.files("trying")
    assert (tmp_path / "work" / "log").read_text() == f"{tmp_path}/conf\n"


def test_a_path_is_no_further_word_or_tool(tmp_path):
    """A folder whose name has a line break was followed by a tool of its choice."""
    with closing(tools(tmp_path, "f'{line!r}\\nsimhbase: true'")) as found:
        for path in ("file:///a\nfiles\t-rm\t-r\t/", "a\tb", "a\r"):
            with pytest.raises(UsageError, match="has a tab or line break"):
                found.files("trying", "-mkdir", path)
    assert not (tmp_path / "log").exists()


def test_java_is_told_to_start_quickly_and_then_what_a_person_says(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xmx4g")
    with closing(tools(tmp_path, "os.environ['JAVA_TOOL_OPTIONS'] + '\\nsimhbase: true'")) as found:
        found.files("trying")
    assert (tmp_path / "log").read_text().split()[0::2] == ["-XX:TieredStopAtLevel=1", "-Xmx4g"]


def test_rows_are_counted_or_the_tool_has_failed(tmp_path):
    with closing(tools(tmp_path, "'simhbase: ' + ('12' if '5' in line else 'false')")) as found:
        assert found.hidden("t", 5) == 12
        with pytest.raises(ToolFailed, match="counting rows of t that others have written since failed"):
            found.hidden("t", 6)


def test_a_tool_that_fails_is_named_with_its_telling_lines(tmp_path):
    with closing(tools(tmp_path, f"{TRACE!r} + 'simhbase: false'")) as found:
        for _ in range(2):
            with pytest.raises(ToolFailed) as raised:
                found.files("making it")
            assert str(raised.value) == (
                f"making it failed. {tmp_path / 'log'} says:\n"
                '  Exception in thread "main" java.io.IOException: it failed\n'
                "  Caused by: java.net.ConnectException: refused"
            )


def test_an_id_in_a_message_is_no_answer(tmp_path):
    """HBase's loader shows the first and the last row of a file, which end with ids of documents."""
    message = "INFO tool.LoadIncrementalHFiles: Trying to load first=Optional[x simhbase: false] last=\n"
    with closing(tools(tmp_path, f"{message!r} + 'simhbase: true'")) as found:
        found.files("trying")
        found.files("trying")
    assert (tmp_path / "log").read_text() == 2 * message


def test_a_full_disk_is_not_waited_for(tmp_path):
    waited = iter(range(20))  # seconds
    answer = "'a message\\nsimhbase: true'"
    with closing(tools(tmp_path, answer, alive=lambda: next(waited))) as found:
        found.log = Path("/dev/full")
        found.files("first")
        found.files("second")


def test_a_process_that_ends_is_started_again(tmp_path):
    mark = tmp_path / "mark"
    answer = f"os._exit(3) if not os.path.exists({str(mark)!r}) else 'simhbase: true'"
    with closing(tools(tmp_path, answer)) as found:
        with pytest.raises(ToolFailed, match=r"making it failed \(it ended with 3\)"):
            found.files("making it")
        mark.touch()
        found.files("making it")


def test_a_command_that_says_nothing_and_fails(tmp_path):
    with pytest.raises(
        ToolFailed, match=r"starting HBase's command failed \(it ended with 1\).*says:\n  nothing$"
    ):
        tools(tmp_path, "0", before="import sys; sys.exit(1)").version()


def test_a_tool_is_stopped_where_its_load_is(tmp_path):
    def interrupted() -> None:
        raise KeyboardInterrupt

    found = tools(tmp_path, "time.sleep(600)", alive=interrupted)
    found.version()
    process = found._process
    assert process is not None
    with pytest.raises(KeyboardInterrupt):
        found.files("trying")
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


def test_the_command_may_have_arguments(monkeypatch):
    monkeypatch.setenv(VARIABLE, f"{sys.executable} -m 'a b'")
    assert hbase_command() == [sys.executable, "-m", "a b"]


def test_the_command_is_found_on_the_path_and_then_in_hbase_home(monkeypatch, tmp_path):
    for folder in ("my hbase/bin", "path"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "hbase").touch(0o755)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv(HOME, f"{tmp_path}/my hbase")
    monkeypatch.setenv("PATH", "/nowhere")
    assert hbase_command() == [f"{tmp_path}/my hbase/bin/hbase"]
    monkeypatch.setenv("PATH", f"{tmp_path}/path")
    assert hbase_command() == [f"{tmp_path}/path/hbase"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, "path/hbase run")
    assert hbase_command() == [f"{tmp_path}/path/hbase", "run"]
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv(HOME)
    with pytest.raises(UsageError, match=f"set {HOME}, or name its hbase in {VARIABLE}"):
        hbase_command()


@pytest.mark.parametrize("command", ["", "/nowhere/hbase", "'unbalanced"])
def test_a_command_that_is_none_is_refused(monkeypatch, command):
    monkeypatch.setenv(VARIABLE, command)
    with pytest.raises(UsageError, match=VARIABLE):
        hbase_command()
