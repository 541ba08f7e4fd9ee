"""Users of a secured HBase in tests: their keytabs, tickets and gateways."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryFile
from xml.etree import ElementTree

from tests.cluster import QUICKLY_COMPILED, Cluster

HOST = "localhost"
LIMIT = 120.0  # seconds until a gateway must listen


@dataclass(frozen=True)
class Realm:
    """An HBase that scripts/hbase has started with --kerberos; tickets are kept in a folder."""

    cluster: Cluster
    folder: Path
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def settings(self) -> str:
        """Kerberos's own settings."""
        return str(self.cluster.description["environment"]["KRB5_CONFIG"])

    def keytab(self, user: str) -> str:
        return f"FILE:{self.cluster.folder}/keytabs/{user}.keytab"

    def by_keytab(self, user: str, *, settings: str | None = None) -> dict[str, str]:
        """The environment of a user who has a keytab, and no ticket so far."""
        return self._environment(settings) | {"KRB5_CLIENT_KTNAME": self.keytab(user)}

    def by_ticket(self, user: str, *options: str) -> dict[str, str]:
        """The environment of a user who has a ticket, which kinit gets with these options."""
        environment = self._environment()
        self.renew(environment, user, *options)
        return environment

    def renew(self, environment: dict[str, str], user: str, *options: str) -> None:
        """Puts a new ticket where an environment names it."""
        command = ["kinit", *options, "-k", "-t", self.keytab(user), user]
        subprocess.run(command, env=os.environ | environment, check=True)

    def without_ticket(self) -> dict[str, str]:
        return self._environment()

    def _environment(self, settings: str | None = None) -> dict[str, str]:
        cache = f"FILE:{self.folder}/{next(self._numbers)}"
        return {
            "KRB5_CONFIG": settings or self.settings,
            "KRB5CCNAME": cache,
            "KRB5_CLIENT_KTNAME": f"FILE:{self.folder}/no.keytab",
        }

    def url(self, table: str = "texts:news", **options: object) -> str:
        return self.cluster.url(table, **({"kerberos": "hbase", "timeout": 120} | options))

    @contextmanager
    def gateway(self, version: int, properties: Mapping[str, object]) -> Iterator[int]:
        """The port of one more gateway of Thrift 1 or 2, with properties in place of those of the cluster;
        None takes one away."""
        port = free_port()
        conf = self.folder / f"conf-{port}"
        copytree(self.cluster.folder / "conf", conf)
        site = ElementTree.parse(conf / "hbase-site.xml")
        root = site.getroot()
        for entry in root.findall("property"):
            if entry.findtext("name") in properties:
                root.remove(entry)
        for name, value in properties.items():
            if value is not None:
                added = ElementTree.SubElement(root, "property")
                ElementTree.SubElement(added, "name").text = name
                ElementTree.SubElement(added, "value").text = str(value)
        site.write(conf / "hbase-site.xml")
        main = f"org.apache.hadoop.hbase.thrift{'' if version == 1 else '2'}.ThriftServer"
        arguments = ["--conf", str(conf), main, "-p", str(port), "-b", "127.0.0.1", "start"]
        command = self.cluster.command("run", *arguments)
        with (
            TemporaryFile("w+") as log,
            subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | QUICKLY_COMPILED) as process,
        ):
            try:
                deadline = time.monotonic() + LIMIT
                while not listens(port):
                    if process.poll() is not None or time.monotonic() > deadline:
                        log.seek(0)
                        raise AssertionError(f"{' '.join(command)}:\n{log.read()[-3000:]}")
                    time.sleep(0.1)
                yield port
            finally:
                process.terminate()


def listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
