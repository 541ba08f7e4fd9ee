"""Honest clients of a service beside hostile ones, and jobs over folders that strangers filled.

Honest clients add, claim, look up and delete documents of their own: what was acknowledged is found until it
is deleted, and each answer takes at most PATIENCE seconds. Meanwhile others send what costs much or means
nothing, or copy an honest text. Jobs read honest documents beside the files of tests/hostile.py: they end,
say that something could not be read, and keep all honest documents. Afterwards the store is clean, no request
has ended with an error of the service, and neither service nor jobs have taken much memory.
"""

from __future__ import annotations

import json
import random
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

import simhbase
from simhbase.admin.check import check
from tests.adversary.contest import Contest
from tests.command_line import COMMAND, documents, environment, read_lines, texts
from tests.hostile import FILES
from tests.service import Service, serving

PATIENCE = 60.0  # seconds for an answer, repeats of the client included: many processes share the machine
JOB_SECONDS = 300.0
MOST_MEMORY = 1 << 20  # KiB, of the service or a job
HONEST, HOSTILE = 3, 4  # threads
VICTIM, COPIED = "victim", texts(1, seed=10_000_019)[0]
HONEST_DOCUMENTS = 20  # of a job


@dataclass(frozen=True)
class Outcome:
    """What happened, for the record: operations of honest clients that were acknowledged and hold, seconds
    that the slowest took, answers to hostile ones by kind and status, jobs by what their folder held, and the
    most memory in KiB of the service and of a job."""

    operations: int
    slowest: float
    hostile: Mapping[str, int]
    jobs: Mapping[str, int]
    service_memory: int
    job_memory: int


@dataclass
class Honest:
    """A client that keeps account of its documents."""

    service: Service
    name: str
    operations: int = 0
    slowest: float = 0.0
    held: dict[str, str] = field(default_factory=dict)  # texts by id

    def work(self, over: Event, seed: int) -> None:
        chance = random.Random(seed)
        with simhbase.Client(self.service.url, timeout=PATIENCE) as client:
            for number in count():
                if over.is_set():
                    break
                begin = time.monotonic()
                self._step(client, chance, f"{self.name}/{number}", seed * 1_000_003 + number)
                self.slowest = max(self.slowest, time.monotonic() - begin)
                self.operations += 1
            for document, text in self.held.items():
                assert_found(client, document, text)

    def _step(self, client: simhbase.Client, chance: random.Random, document: str, seed: int) -> None:
        (text,) = texts(1, seed=seed)
        kind = chance.choice(["add", "claim", "find", "delete"] if self.held else ["add"])
        if kind == "add":
            assert client.add([(document, text)]).added == 1
            self.held[document] = text
        elif kind == "claim":
            assert client.claim(document, text).outcome == "accepted"
            self.held[document] = text
        elif kind == "find":
            known = chance.choice([*self.held])
            assert_found(client, known, self.held[known])
            assert_found(client, VICTIM, COPIED)
        else:
            gone = chance.choice([*self.held])
            assert client.delete([gone]) == 1
            del self.held[gone]
            assert client.document(gone) is None


def assert_found(client: simhbase.Client, document: str, text: str) -> None:
    """The document is found by its text, unless the answer says that it is not all."""
    found = client.find(text)
    assert document in {match.id for match in found.matches} or found.truncated, (document, found)


Hostile = Callable[[Service, random.Random], object]


def posted(path: str, body: Callable[[random.Random], bytes]) -> Hostile:
    def send(service: Service, chance: random.Random) -> int:
        return service.send("POST", path, body(chance), {"Content-Type": "application/json"}).status

    return send


def dumped(value: object) -> bytes:
    return json.dumps(value).encode()


def long_text(chance: random.Random) -> bytes:
    return dumped({"text": "word " * chance.choice([150_000, 200_000, 3_000_000])})


def many_values(chance: random.Random) -> bytes:
    tags = {f"t{number}": "" for number in range(chance.choice([10_000, 1_500_000]))}
    return dumped({"id": "stranger/tags", "text": COPIED, "tags": tags})


def copies(chance: random.Random) -> bytes:
    """Of an honest text, under names of their own."""
    named = [f"stranger/{chance.randrange(3_000)}" for _ in range(100)]
    return dumped({"documents": [{"id": each, "text": COPIED} for each in {*named}]})


def nonsense(chance: random.Random) -> bytes:
    if chance.random() < 0.3:
        return b'{"text":' + b"[" * 2_000_000
    return chance.randbytes(chance.randrange(1 << 16))


def dripping(service: Service, chance: random.Random) -> str:
    """A body that comes byte by byte, and never ends."""
    with socket.create_connection((service.address.hostname, service.address.port), PATIENCE) as connection:
        head = "POST /v1/find HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: 100000\r\n\r\n".encode())
        for _ in range(chance.randrange(30)):
            connection.sendall(b"x")
            time.sleep(0.1)
    return "left"


def reading_nothing(service: Service, chance: random.Random) -> str:
    """Asks for long answers, and leaves without them."""
    with closing(service.connect(PATIENCE)) as connection:
        body = dumped({"texts": [COPIED] * 256})
        connection.request("POST", "/v1/find", body, {"Content-Type": "application/json"})
        time.sleep(chance.uniform(0, 3))
    return "left"


def leaving(service: Service, chance: random.Random) -> str:
    """Asks for what takes long, many times, and waits for none of it."""
    for _ in range(20):
        with closing(service.connect(PATIENCE)) as connection:
            connection.request("GET", chance.choice(["/v1/groups", f"/v1/documents/{VICTIM}/neighbours"]))
    return "left"


def taking_apart(service: Service, _: random.Random) -> int:
    """The page, in many parts."""
    parts = ",".join(f"{2 * at}-{2 * at}" for at in range(100))
    return service.get("/page/page.css", Range=f"bytes={parts}").status


def probing(service: Service, chance: random.Random) -> int:
    return max(service.get("/readyz").status for _ in range(chance.randrange(1, 50)))


def smuggling(service: Service, _: random.Random) -> int:
    """A request within a body, which would delete an honest document."""
    with closing(service.connect(PATIENCE)) as connection:
        inner = f"DELETE /v1/documents/{VICTIM} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        connection.request("POST", "/v1/find", inner, {"Connection": "Upgrade", "Upgrade": "websocket"})
        return connection.getresponse().status


def leading_out(service: Service, _: random.Random) -> int:
    return service.get("/v1/documents/..%2f..%2f..%2fetc%2fpasswd").status


HOSTILES: Mapping[str, Hostile] = {
    "hot texts": posted("/v1/find", lambda _: dumped({"texts": [COPIED] * 256})),
    "a long text": posted("/v1/find", long_text),
    "long texts to compare": posted(
        "/v1/compare", lambda _: dumped({"left": " " * 400_000, "right": "a\u3000" * 200_000})
    ),
    "many values": posted("/v1/documents", many_values),
    "copies": posted("/v1/documents", copies),
    "backslashes": posted("/v1/find", lambda _: b'{"text": "' + b"\\\\" * 8_000_000 + b'"}'),
    "nonsense": posted("/v1/claim", nonsense),
    "dripping": dripping,
    "reading nothing": reading_nothing,
    "leaving": leaving,
    "taking apart": taking_apart,
    "probing": probing,
    "smuggling": smuggling,
    "leading out": leading_out,
}


def annoy(service: Service, over: Event, chance: random.Random, told: Counter[str]) -> None:
    while not over.is_set():
        kind = chance.choice([*HOSTILES])
        with suppress(OSError, HTTPException):  # it may be cut off
            answer = HOSTILES[kind](service, chance)
            assert answer != 500, f"{kind}: the service failed"
            told[f"{kind}: {answer}"] += 1


def read_folders(over: Event, chance: random.Random, told: Counter[str]) -> int:
    """Jobs, one after the other; returns the most memory that one of their processes took, in KiB."""
    most = 0
    while not over.is_set():
        kind = chance.choice([*FILES])
        with TemporaryDirectory(prefix="simhbase-strangers-") as folder:
            most = max(most, read_folder(Path(folder), kind, chance.randrange(1 << 30)))
        told[kind] += 1
    return most


def read_folder(folder: Path, kind: str, seed: int) -> int:
    """A job; returns its memory in KiB."""
    given = folder / "in"
    given.mkdir()
    documents(given / "honest.jsonl", texts(HONEST_DOCUMENTS, seed=seed), prefix="honest")
    FILES[kind](given)
    command = [*COMMAND, "dedup", "--unique", "unique.jsonl", "in"]
    with (folder / "said").open("wb") as said:
        job = subprocess.Popen(command, cwd=folder, env=environment(), stdout=said, stderr=said)
        end, memory = time.monotonic() + JOB_SECONDS, 0
        while job.poll() is None:
            if time.monotonic() > end:
                job.kill()
                raise AssertionError(f"{kind}: a job takes more than {JOB_SECONDS:g} s")
            memory = max(memory, memory_of(job.pid))  # that of wait4 counts the process that started it, too
            time.sleep(0.1)
    assert job.returncode == 3, f"{kind}: {job.returncode}, {(folder / 'said').read_text()}"
    kept = {line["id"] for line in read_lines(folder / "unique.jsonl")}
    missing = {f"honest{number}" for number in range(HONEST_DOCUMENTS)} - kept
    assert not missing, f"{kind}: honest documents are not kept: {missing}"
    assert memory < MOST_MEMORY, f"{kind}: a job took {memory:,} KiB"
    return memory


def oppose_strangers(contest: Contest) -> Outcome:
    """Asserts that honest ones are served well beside hostile ones."""
    seed, url = contest.seed, f"rocksdb:{contest.folder / 'store.db'}"
    with simhbase.open(url, create="default") as index:
        index.add([(VICTIM, COPIED)])
    over, told, jobs = Event(), Counter[str](), Counter[str]()
    with serving(url, contest.folder) as service:
        honest = [Honest(service, f"honest{number}") for number in range(HONEST)]
        with ThreadPoolExecutor(HONEST + HOSTILE + 1) as pool:
            reading = pool.submit(read_folders, over, random.Random(seed), jobs)
            working: list[Future[Any]] = [
                reading,
                *(pool.submit(each.work, over, seed + number) for number, each in enumerate(honest)),
                *(
                    pool.submit(annoy, service, over, random.Random(seed + number), told)
                    for number in range(HOSTILE)
                ),
            ]
            end = time.monotonic() + contest.seconds
            while time.monotonic() < end and not any(each.done() for each in working):
                time.sleep(0.5)
            over.set()
            for each in working:
                each.result()
        memory = memory_of(service.process.pid)
        assert "Traceback" not in service.log_text()
    assert memory < MOST_MEMORY, f"the service took {memory:,} KiB"
    assert check(url).clean
    operations, slowest = sum(each.operations for each in honest), max(each.slowest for each in honest)
    return Outcome(operations, round(slowest, 1), told, jobs, memory, reading.result())


def memory_of(process: int) -> int:
    """The most memory that a process has had, in KiB; 0 if it has just ended."""
    status = Path(f"/proc/{process}/status").read_text()
    return int((status.partition("VmHWM:")[2].split() or ["0"])[0])
