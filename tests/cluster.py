"""A running HBase for tests, started and stopped by scripts/hbase."""

import json
import os
import shlex
import subprocess
import sys
import textwrap
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory, TemporaryFile
from typing import Any, cast

from simhbase.errors import TablesMissing
from simhbase.stores import open_store
from simhbase.stores.base import MET, Drawers, HintingStore, RecordTable
from simhbase.stores.hbase import HBaseBackend
from simhbase.stores.hbase.schema import INDEX, TABLES, Options

SCRIPT = Path(__file__).parents[1] / "scripts" / "hbase"
# In the minutes that HBase runs here, Java's better compiler takes two fifths of its processor time.
QUICKLY_COMPILED = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
# A gateway looks sooner whether a table is made, and tries again sooner: not where servers are killed.
HASTY = {
    "--standalone": ["-D", "hbase.client.pause=20"],
    "--cluster": [],
    "--kerberos": ["-D", "hbase.client.pause=20"],
}
# Stands between simhbase and HBase's command.
HOOKED = """\
import os, signal, subprocess, sys
from pathlib import Path
process = subprocess.Popen([*{real!r}, *sys.argv[1:]], stdin=-1, stdout=-1, text=True)
def said():
    for line in process.stdout:
        if "simhbase: " in line:
            return line.partition("simhbase: ")[2].strip()
        print(line, end="", flush=True)
    sys.exit(process.wait())
def run():
    process.stdin.write(line)
    process.stdin.flush()
    return said()
def once(word):
    mark = Path({folder!r}, word)
    return not mark.exists() and not mark.touch()
print("simhbase:", said(), flush=True)
for line in sys.stdin:
    name, *words = line.rstrip("\\n").split("\\t")
    table = words[-1].rpartition("_")[2]
{script}
    print("simhbase:", run(), flush=True)
"""
REGIONS = 3
EMPTIED_ROWS = 8_000  # tables with more are dropped and made anew
SOON = 1.1  # seconds: by at most one are versions ahead that an index chooses
PATIENCE = 60.0  # seconds until a shell that was to end is killed


class Shell:
    """A running HBase shell, which ends at the first error. To start one for each script would cost ten
    seconds of processor time each."""

    DONE = "--- done ---"
    LOOP = (
        "puts '{0}'; $stdout.flush; "
        "while file = $stdin.gets; eval(File.read(file.chomp), binding); puts '{0}'; $stdout.flush; end"
    )

    def __init__(self, command: Sequence[str]) -> None:
        self._errors = TemporaryFile("w+")  # noqa: SIM115  # as long as the shell runs
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, bufsize=1
        )
        self._ask(self.LOOP.format(self.DONE))

    def run(self, commands: str) -> str:
        """What these print, without a last exit."""
        with NamedTemporaryFile("w", suffix=".rb") as script:
            script.write(commands.strip().removesuffix("\nexit"))
            script.flush()
            return self._ask(script.name)

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        said = []
        for said_line in self._process.stdout:
            said.append(said_line)
            if said_line.endswith(f"{self.DONE}\n"):  # what a command that failed says has no end of line
                return "".join(said).removesuffix(f"{self.DONE}\n")
        self._errors.seek(0)
        raise AssertionError(f"the shell has ended: {''.join(said)}{self._errors.read()}")

    def close(self) -> None:
        with self._errors, self._process as process:
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # it has ended, with a line unread
                process.stdin.close()  # it ends with what it reads
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:  # its servers may be gone
                process.kill()


@dataclass(frozen=True)
class Cluster:
    folder: Path
    _checked: set[str] = field(default_factory=set, compare=False)  # prefixes of stores

    def command(self, name: str, *arguments: str) -> list[str]:
        """How to run a command of scripts/hbase."""
        return [sys.executable, str(SCRIPT), name, "--folder", str(self.folder), *arguments]

    def run(self, *arguments: str) -> str:
        """What a command of scripts/hbase prints; its errors where it fails."""
        command = self.command(*arguments)
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | QUICKLY_COMPILED)
        assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def is_up(self) -> bool:
        return subprocess.run(self.command("status"), capture_output=True).returncode == 0

    @property
    def description(self) -> dict[str, Any]:
        return json.loads((self.folder / "cluster.json").read_text())

    @property
    def gateway(self) -> tuple[str, int]:
        host, port = self.description["gateways"][0].split(":")
        return host, int(port)

    def url(self, prefix: str, **options: object) -> str:
        thrift2 = self.description["ports"]["thrift2"]
        query = "".join(f"&{name}={value}" for name, value in options.items())
        return f"hbase://{','.join(self.description['gateways'])}/{prefix}?thrift2={thrift2}{query}"

    @cached_property
    def _shell(self) -> "Shell":
        return Shell(self.command("shell"))

    def shell(self, commands: str) -> str:
        """What the HBase shell prints. The first time, and after an error, it takes many seconds to start."""
        try:
            return self._shell.run(commands)
        except (AssertionError, BrokenPipeError):
            vars(self).pop("_shell").close()
            raise

    def empty_store(self, prefix: str) -> str:
        """The URL of a store without rows, made if it does not exist."""
        with closing(self.emptied(prefix)):
            return self.url(prefix)

    def emptied(self, prefix: str) -> HintingStore:
        """A store without rows, opened; made if it does not exist."""
        store = self._opened(prefix)
        with suppress(TablesMissing):  # few stores count refused claims
            store.keep_counts()
            drop_tables(self.url(prefix), [MET])
            store.close()
            store = self._opened(prefix)
        tables = {INDEX: lambda: emptied_drawers(store.drawers)}
        tables |= {name: partial(emptied_records, store, name) for name in store.tables}
        try:
            with ThreadPoolExecutor(len(tables)) as pool:
                done = list(pool.map(lambda empty: empty(), tables.values()))
        except BaseException:
            store.close()
            raise
        if all(done):
            return store
        store.close()
        drop_tables(
            self.url(prefix), [name for name, is_empty in zip(tables, done, strict=True) if not is_empty]
        )
        self._checked.discard(prefix)
        return self._opened(prefix)

    def _opened(self, prefix: str) -> HintingStore:
        """Whether a store's tables are as they should be is looked at once."""
        url = self.url(prefix)
        if prefix not in self._checked:
            HBaseBackend(url).make(Options(regions=REGIONS))
            self._checked.add(prefix)
        try:
            return cast(HintingStore, open_store(url, "write"))
        except TablesMissing:  # a test has dropped them
            HBaseBackend(url).make(Options(regions=REGIONS))
            return cast(HintingStore, open_store(url, "write"))


def emptied_drawers(drawers: Drawers) -> bool:
    """Deletes all rows, which is faster than a new table where they are few; false where they are not."""
    count = 0
    for rows in drawers.iterate():
        count += len(rows.keys)
        if count > EMPTIED_ROWS:
            return False
        drawers.remove(rows.keys, rows.times)
    return True


def emptied_records(store: HintingStore, table: RecordTable) -> bool:
    """The same; false, too, where rows have versions that are still to come, and not soon: what is put before
    these come would be hidden."""
    count, ahead = 0, 0.0
    records = store.records(table)
    for batch in cells_of(store, table):
        count += len(batch)
        ahead = max(ahead, max(version for _, _, version in batch) / 1000 - time.time())
        if count > EMPTIED_ROWS or ahead > SOON:
            return False
        own = [(key, version) for key, name, version in batch if not name]
        named = [(key, name, version) for key, name, version in batch if name]
        records.delete([key for key, _ in own], [version for _, version in own])
        if named:
            store.document_cells.delete([each[:2] for each in named], [version for _, _, version in named])
    time.sleep(max(ahead, 0.0))
    return True


def cells_of(store: HintingStore, table: RecordTable) -> Iterator[list[tuple[bytes, bytes, int]]]:
    """Keys, names and versions, in batches: documents have what claims have left beside them, too."""
    if table == "documents":
        for rows in store.document_cells.iterate():
            yield [(key, name, cell.version) for key, cells in rows for name, cell in cells.items()]
    else:
        for batch in store.records(table).iterate():
            yield [(key, b"", cell.version) for key, cell in batch]


def drop_tables(url: str, names: Collection[str]) -> None:
    """Drops some of a store's tables."""
    from simhbase.stores.hbase import HBaseBackend
    from simhbase.stores.hbase.administration import Thrift2Administrator
    from simhbase.stores.hbase.url import parse

    with closing(Thrift2Administrator(parse(url))) as administrator:
        for name, table in zip((*TABLES, MET), HBaseBackend(url).tables(Options(counts=True)), strict=True):
            if name in names:
                administrator.drop(table)


@contextmanager
def started(folder: str | None, mode: str) -> Iterator[Cluster]:
    """An HBase, in a new folder where none is given; it goes on running if it was up before."""
    with nullcontext(folder) if folder else TemporaryDirectory(prefix="simhbase-") as place:
        cluster = Cluster(Path(place))
        was_up = cluster.is_up()
        cluster.run("up", mode, *([] if was_up else HASTY[mode]))
        try:
            yield cluster
        finally:
            if shell := vars(cluster).get("_shell"):
                shell.close()
            if not was_up:
                cluster.run("down")


def hooked(cluster: Cluster, folder: Path, script: str, *options: str) -> str:
    """HBase's command, with a script that runs before each line that it is to carry out: `name` is the tool,
    `words` are its arguments, `table` is the last word of the table's name. `run()` has it carried out at
    once; `once(word)` is true the first time. options: of scripts/hbase run."""
    path = folder / "hbase.py"
    indented = textwrap.indent(textwrap.dedent(script), "    ")
    path.write_text(HOOKED.format(real=cluster.command("run", *options), folder=str(folder), script=indented))
    return shlex.join([sys.executable, str(path)])
