"""The service against direct calls of the library, by as many clients at once, in turn, over one store.

Direct: threads of one process that call one open index, each text by itself, and through SharedLookups, as
the service does. The service: `simhbase serve` in a process of its own, and clients in another one, each a
connection that stays open; it sends requests that were prepared and reads answers without looking into them
(0.05 ms of processor a request), so that the time is the service's. All share the machine's cores.

Of one client: a lookup that comes after a pause takes two to four times as long as in a loop, as the
processor has gone cold meanwhile. So one client is compared with direct calls at the pace of the service.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import socket
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from multiprocessing.synchronize import Barrier
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, sleep
from typing import NamedTuple, cast

import orjson

import simhbase
from tests.bench.report import Cell, Table
from tests.service import Service, serving

STORED, QUERIES = 20_000, 2_000
CLIENTS = (1, 4, 16, 32)
BATCHES = (1, 10, 100)
ASKING_BATCHES = 8  # clients: 1,024 texts may wait
READ = 1 << 16  # bytes at once
IDLE = 0.5  # seconds
TURNS = 3
LENGTHS = ("news", "short")
SHORT = 140  # characters


class Spent(NamedTuple):
    """Seconds by the clock, and of processors: of this process, or of the service."""

    wall: float
    processor: float


def measure(scale: float = 1.0) -> list[Table]:
    """The tables: by the number of clients, and by texts in a request."""
    articles = _articles()
    stored = articles * (1 + round(STORED * scale) // len(articles))
    documents = [
        simhbase.Document(str(number), f"{text} {number}")
        for number, text in enumerate(stored[: round(STORED * scale)])
    ]
    queries = {"news": articles[:QUERIES], "short": [text[:SHORT] for text in articles[:QUERIES]]}
    with TemporaryDirectory() as folder:
        url = f"rocksdb:{folder}/store"
        with simhbase.open(url, create=simhbase.Profile(verify=False)) as index:
            index.add(documents)
        by_clients = [row for kind in LENGTHS for row in _by_clients(Path(folder), kind, queries[kind])]
        alone = [_alone(Path(folder), kind, queries[kind]) for kind in LENGTHS]
        by_batch = _by_batch(Path(folder), queries["news"])
    note = (
        f"{len(documents):,} documents; news are articles of {_median(queries['news'])} characters in the "
        f"median, short ones their first {SHORT}. Medians of {TURNS} turns. The clients of the "
        "service take their share of the cores, which is in its rate and not in its processor time; direct "
        "calls need none."
    )
    columns = [
        "texts",
        "clients",
        *("direct/s", "direct, shared/s", "service/s", "service / direct"),
        *("direct, processor ms a text", "service, processor ms a text", "direct / service"),
    ]
    return [
        Table("Lookups by the service and by direct calls", columns, by_clients, [note]),
        Table(
            "One client, and direct calls at its pace",
            [
                "texts",
                *("service, ms a request", "direct, ms a call in a loop", "direct, ms a call at this pace"),
                "direct at this pace / service",
            ],
            alone,
        ),
        Table(
            f"The same by texts in a request, {ASKING_BATCHES} clients",
            ["texts a request", "direct/s", "service/s", "service / direct"],
            by_batch,
        ),
    ]


def _articles() -> list[str]:
    done = subprocess.run([sys.executable, "scripts/articles.py"], check=True, capture_output=True)
    return [orjson.loads(line)["text"] for line in done.stdout.splitlines()]


def _median(texts: Sequence[str]) -> int:
    return round(statistics.median(map(len, texts)))


def _by_clients(folder: Path, kind: str, texts: Sequence[str]) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    bodies = [orjson.dumps({"text": text}) for text in texts]
    for clients in CLIENTS:
        direct, shared, service = _in_turn(
            lambda clients=clients: _direct(folder, texts, clients),
            lambda clients=clients: _shared(folder, texts, clients),
            lambda clients=clients: _service(folder, bodies, clients),
        )
        rates = [len(texts) / spent.wall for spent in (direct, shared, service)]
        processors = [1000 * spent.processor / len(texts) for spent in (direct, service)]
        rows.append([kind, clients, *rates, rates[2] / rates[0], *processors, processors[0] / processors[1]])
    return rows


def _alone(folder: Path, kind: str, texts: Sequence[str]) -> list[Cell]:
    bodies = [orjson.dumps({"text": text}) for text in texts]
    turns = []
    for _ in range(TURNS):
        request = _service(folder, bodies, 1).wall / len(texts)
        turns.append((request, _direct(folder, texts, 1).wall / len(texts), _paced(folder, texts, request)))
    request, loop, paced = (1000 * statistics.median(column) for column in zip(*turns, strict=True))
    return [kind, request, loop, paced, paced / request]


def _paced(folder: Path, texts: Sequence[str], seconds: float) -> float:
    """Seconds of a direct call where one begins every so many seconds."""
    spent = 0.0
    with simhbase.open(f"rocksdb:{folder}/store") as index:
        index.find(texts[0])
        due = perf_counter()
        for text in texts:
            due = max(due + seconds, perf_counter())
            sleep(max(0.0, due - perf_counter()))
            start = perf_counter()
            index.find(text)
            spent += perf_counter() - start
    return spent / len(texts)


def _by_batch(folder: Path, texts: Sequence[str]) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for batch in BATCHES:
        batches = [texts[start : start + batch] for start in range(0, len(texts), batch)]
        bodies = [orjson.dumps({"texts": each}) for each in batches]
        direct, service = _in_turn(
            lambda batches=batches: _direct_batches(folder, batches, ASKING_BATCHES),
            lambda bodies=bodies: _service(folder, bodies, ASKING_BATCHES),
        )
        rows.append([batch, len(texts) / direct.wall, len(texts) / service.wall, direct.wall / service.wall])
    return rows


def _in_turn(*ways: Callable[[], Spent]) -> list[Spent]:
    """Medians of each way, all in turn, so that a drifting machine hits all alike."""
    turns = [[way() for way in ways] for _ in range(TURNS)]
    return [
        Spent(*(statistics.median(column) for column in zip(*way, strict=True)))
        for way in zip(*turns, strict=True)
    ]


def _direct(folder: Path, texts: Sequence[str], clients: int) -> Spent:
    with simhbase.open(f"rocksdb:{folder}/store") as index, ThreadPoolExecutor(clients) as pool:
        index.find(texts[0])
        return _timed(lambda: list(pool.map(index.find, texts)))


def _shared(folder: Path, texts: Sequence[str], clients: int) -> Spent:
    with (
        simhbase.open(f"rocksdb:{folder}/store") as index,
        simhbase.SharedLookups(index) as shared,
        ThreadPoolExecutor(clients) as pool,
    ):
        shared.find(texts[0])
        return _timed(lambda: list(pool.map(shared.find, texts)))


def _direct_batches(folder: Path, batches: Sequence[Sequence[str]], clients: int) -> Spent:
    with simhbase.open(f"rocksdb:{folder}/store") as index, ThreadPoolExecutor(clients) as pool:
        index.find_many(batches[0])
        return _timed(lambda: list(pool.map(index.find_many, batches)))


def _service(folder: Path, bodies: Sequence[bytes], clients: int) -> Spent:
    requests = list(map(_request, bodies))
    with serving(f"rocksdb:{folder}/store", folder, "--log-level", "warning") as service:
        _ask(service, requests[:1], 1)
        _await_idle(service.process.pid)
        barrier = multiprocessing.Barrier(2)
        asking = multiprocessing.Process(target=_clients, args=(service, requests, clients, barrier))
        asking.start()
        barrier.wait()
        start, processor = perf_counter(), processor_seconds(service.process.pid)
        barrier.wait()
        spent = Spent(perf_counter() - start, processor_seconds(service.process.pid) - processor)
        asking.join()
        return spent


def _await_idle(process: int) -> None:
    """Wait until a service has done what it does at its start."""
    before = -1.0
    while (spent := processor_seconds(process)) > before:
        before = spent
        sleep(IDLE)


def processor_seconds(process: int) -> float:
    """What a process has spent so far, as Linux counts it."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _clients(service: Service, requests: Sequence[bytes], clients: int, barrier: Barrier) -> None:
    barrier.wait()
    _ask(service, requests, clients)
    barrier.wait()


def _request(body: bytes) -> bytes:
    head = "POST /v1/find HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
    return f"{head}{len(body)}\r\n\r\n".encode() + body


def _ask(service: Service, requests: Sequence[bytes], clients: int) -> None:
    """Sends requests over so many connections, on each the next one as soon as the last is answered."""
    left = iter(requests)
    with DefaultSelector() as selector:
        for request in islice(left, clients):
            connection = socket.create_connection((service.address.hostname, service.address.port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(connection, EVENT_READ, bytearray())
            connection.sendall(request)
        while selector.get_map():
            for key, _ in selector.select():
                connection = cast(socket.socket, key.fileobj)
                key.data.extend(connection.recv(READ))
                if not _is_whole(key.data):
                    continue
                key.data.clear()
                if request := next(left, b""):
                    connection.sendall(request)
                else:
                    selector.unregister(connection)
                    connection.close()


def _is_whole(answer: bytearray) -> bool:
    """Whether all of an answer has come. Raises AssertionError for one that is none."""
    if not answer.startswith(b"HTTP/1.1 200"):
        raise AssertionError(bytes(answer))
    head, _, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return length is not None and len(body) == int(length[1])


def _timed(action: Callable[[], object]) -> Spent:
    start, processor = perf_counter(), process_time()
    action()
    return Spent(perf_counter() - start, process_time() - processor)
