"""A running HBase for tests, started and stopped by scripts/hbase."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

from simhbase.stores import drop_store, open_store
from simhbase.stores.base import Store
from simhbase.stores.hbase.schema import Options

SCRIPT = Path(__file__).parents[1] / "scripts" / "hbase"
REGIONS = 3
EMPTIED_ROWS = 20_000  # tables with more are dropped, which takes seconds


@dataclass(frozen=True)
class Cluster:
    folder: Path

    def command(self, name: str, *arguments: str) -> list[str]:
        """How to run a command of scripts/hbase."""
        return [sys.executable, str(SCRIPT), name, "--folder", str(self.folder), *arguments]

    def run(self, *arguments: str) -> str:
        """What a command of scripts/hbase prints; its errors where it fails."""
        command = self.command(*arguments)
        done = subprocess.run(command, capture_output=True, text=True)
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

    def shell(self, commands: str) -> str:
        """What the HBase shell prints. It takes many seconds to start."""
        with NamedTemporaryFile("w", suffix=".rb") as script:
            script.write(commands)
            script.flush()
            return self.run("shell", script.name)

    def empty_store(self, prefix: str) -> str:
        """The URL of a store without rows, made if it does not exist."""
        from simhbase.stores.hbase import create_tables

        url = self.url(prefix)
        create_tables(url, Options(regions=REGIONS))
        with closing(open_store(url, "write")) as store:
            emptied = emptied_by_deletes(store)
        if not emptied:
            drop_store(url)
            create_tables(url, Options(regions=REGIONS))
        return url


def emptied_by_deletes(store: Store) -> bool:
    """Deletes all rows, which is faster than new tables where they are few; false where they are not, or
    have versions that are still to come: what is put before these come would be hidden."""
    tables = [store.drawers, *map(store.records, store.tables)]
    if sum(table.approximate_size().rows for table in tables) > EMPTIED_ROWS:
        return False
    for rows in store.drawers.iterate():
        store.drawers.remove(rows.keys, rows.times)
    now = time.time_ns() // 1_000_000
    for table in map(store.records, store.tables):
        for batch in table.iterate():
            if any(cell.version > now for _, cell in batch):
                return False
            table.delete([key for key, _ in batch])
    return True


@contextmanager
def started(folder: str | None, mode: str) -> Iterator[Cluster]:
    """An HBase, in a new folder where none is given; it goes on running if it was up before."""
    with nullcontext(folder) if folder else TemporaryDirectory(prefix="simhbase-") as place:
        cluster = Cluster(Path(place))
        was_up = cluster.is_up()
        cluster.run("up", mode)
        try:
            yield cluster
        finally:
            if not was_up:
                cluster.run("down")
