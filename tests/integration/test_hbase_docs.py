"""The examples of the pages on HBase do what they show."""

import re
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from simhbase.errors import TablesMissing
from simhbase.stores import drop_store
from simhbase.stores.hbase.counters import NAMES
from simhbase.stores.hbase.tools import VARIABLE
from tests.cluster import QUICKLY_COMPILED, Cluster
from tests.command_line import result, run
from tests.examples import ROOT, blocks, page

PAGE = "".join(page(f"docs/{name}.md") for name in ("hbase", "hbase-operations", "hbase-alarms"))
STORE = "simhbase"
OTHERS = ("big", "restored", "wide")


def blocks_of(*languages: str) -> list[str]:
    return [block for language, block in blocks(PAGE) if language in languages]


def drop(hbase: Cluster, *prefixes: str) -> None:
    for prefix in prefixes:
        with suppress(TablesMissing):
            drop_store(hbase.url(prefix))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the demo's articles in it."""
    made = tmp_path_factory.mktemp("docs")
    with (made / "articles.jsonl").open("wb") as articles:
        subprocess.run([sys.executable, ROOT / "scripts" / "articles.py"], stdout=articles, check=True)
    return made


@pytest.fixture(scope="module")
def made(hbase, folder, request) -> None:
    """The store after the page's commands, which make, check, load and look after it. It stays: it is dropped
    before it is made again, and an HBase that ends does without that."""
    drop(hbase, STORE, *OTHERS)
    long = ("console hbase full",) if request.config.getoption("--full") else ()
    for block in blocks_of("console hbase", *long):
        follow(block, hbase, folder)


def follow(block: str, hbase: Cluster, folder: Path) -> None:
    """Runs the commands of a block, and compares what they print with what it shows."""
    for example in block.split("$ ")[1:]:
        command, _, shown = example.partition("\n")
        command = re.sub(r"hbase://HOST/(\w+)\?thrift2=PORT", lambda url: hbase.url(url[1]), command)
        variables = {"SIMHBASE_STORE": hbase.url(STORE), VARIABLE: shlex.join(hbase.command("run"))}
        done = run(*shlex.split(command)[1:], cwd=folder, **variables, **QUICKLY_COMPILED)
        said = done.stderr.decode() + done.stdout.decode()
        assert re.fullmatch(as_shown(shown), said, re.DOTALL), f"{command}:\n{said}"


def as_shown(output: str) -> str:
    """A pattern for output: '...' stands for anything, also within a line, and ports are the test's own."""
    anything = re.escape(output).replace(re.escape("...\n"), ".*").replace(re.escape("..."), ".*")
    return re.sub(
        r"hbase://127\\\.0\\\.0\\\.1:\d+/(\w+)\\\?thrift2=\d+", r"hbase://[^/]+/\1\\?thrift2=\\d+", anything
    )


@pytest.mark.hbase
@pytest.mark.usefixtures("made")
def test_tables_are_made_checked_and_looked_after_as_shown(hbase, folder):
    answer = result("stats", cwd=folder, SIMHBASE_STORE=hbase.url(STORE))
    connections = {"connections_allowed", "connections_in_use", "connections_waiting"}
    assert set(answer["operations"]) == {*NAMES, *connections}
    described = result("tables", "describe", cwd=folder, SIMHBASE_STORE=hbase.url(STORE))
    assert described["tables"]["documents"]["attributes"]["COMPRESSION"] == "GZ"


@pytest.mark.hbase
@pytest.mark.usefixtures("made")
def test_clones_of_snapshots_are_a_store_without_problems(hbase, folder):
    (snapshot,), (clone,) = blocks_of("ruby snapshot"), blocks_of("ruby clone")
    taken = ("tables", "snapshot", "simhbase-1122", "--store", hbase.url(STORE))
    assert result(*taken, cwd=folder)["script"] == snapshot
    names = re.findall(r"'(simhbase-1122-\w+)'", snapshot)
    left = "".join(f"begin\n  delete_snapshot '{name}'\nrescue\nend\n" for name in names)  # by a failure
    without_exit = snapshot.removesuffix("exit\n")
    hbase.shell(f"{left}{without_exit}{clone}{left}exit\n")
    (block,) = blocks_of("console clone")
    follow(block, hbase, folder)
    documents = [
        result("stats", "--exact", cwd=folder, SIMHBASE_STORE=hbase.url(prefix))["documents"]
        for prefix in (STORE, "restored")
    ]
    assert documents[0] == documents[1] == 7249


def test_every_counter_is_explained():
    (table,) = re.findall(r"\| counter \|.*?\n\n", PAGE, re.DOTALL)
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == set(NAMES)


def test_every_log_message_is_explained():
    """Each by its words between what is filled in."""
    source = "".join(path.read_text("utf-8") for path in (ROOT / "simhbase/stores/hbase").glob("*.py"))
    messages = re.findall(r'\blog\.(?:info|warning|log)\((?:level, )?"([^"]+)"', source)
    (table,) = re.findall(r"\| message \|.*?\n\n", PAGE, re.DOTALL)
    missing = [message for message in messages if not re.search(filled_in(message), table)]
    assert len(messages) >= 8
    assert not missing


def filled_in(message: str) -> str:
    """A pattern for a message of the log, on one line."""
    return ".+".join(map(re.escape, re.split(r"%[-.\d]*[a-z]", message)))
