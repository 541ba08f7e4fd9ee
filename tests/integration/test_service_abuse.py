"""What a service survives: wrong tokens, too much, too slow, random requests, and its own end."""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from urllib.parse import quote

import pytest

import simhbase
from simhbase.admin import Administrator
from simhbase.index.reader import Reader
from simhbase.model.statistics import Stats
from simhbase.model.stored import StoredPage
from simhbase.online.asked import StoredRequest
from simhbase.online.connection import MOST_CHUNKS, PIPELINED
from simhbase.online.metrics import ServiceMetrics
from simhbase.online.service import Service as OnlineService
from simhbase.online.settings import Settings
from simhbase.online.shared import SharedLookups
from simhbase.stores.base import NearRows, Row
from simhbase.stores.memory import MemoryRecords, MemoryStore
from tests.command_line import environment, run, run_alone, texts
from tests.examples import ROOT
from tests.redis import Redis
from tests.relay import Relay
from tests.service import Answer, Service, serving

READ, WRITE = "reading-is-allowed-with-this", "writing-is-allowed-with-this"
BEARER = {"Authorization": f"Bearer {WRITE}"}
ONE = texts(1)[0]


def store_in(folder: Path, **profile: Any) -> str:
    url = f"rocksdb:{folder}/store"
    simhbase.open(url, create=simhbase.Profile(**profile)).close()
    return url


@contextmanager
def with_tokens(folder: Path, *options: object) -> Iterator[Service]:
    tokens = folder / "tokens"
    tokens.write_text(f"# who may ask\n\nread {READ} a reader\nwrite  {WRITE}\n")
    tokens.chmod(stat.S_IRUSR | stat.S_IWUSR)
    with serving(store_in(folder), folder, "--token-file", tokens, *options) as service:
        yield service


def document(number: int = 1) -> dict[str, str]:
    return {"id": f"d{number}", "text": texts(1, seed=number)[0]}


def asked(service: Service, token: str | None, path: str = "/v1/find", **value: Any) -> Answer:
    headers = {} if token is None else {"Authorization": token}
    return service.post(path, value or {"text": ONE}, **headers)


# --- tokens ---


def test_tokens_allow_reading_or_writing_and_nothing_else(tmp_path: Path) -> None:
    with with_tokens(tmp_path) as service:
        for token in (
            None,
            "",
            "Bearer",
            f"Basic {READ}",
            f"Bearer {READ}x",
            f"Bearer {READ[:-1]}",
            "Bearer é",
        ):
            refused = asked(service, token)
            assert (refused.status, refused.code) == (401, "unauthorized"), token
            assert refused.headers["www-authenticate"].startswith("Bearer")
        assert asked(service, f"Bearer {READ}").status == 200
        assert asked(service, f"bearer {WRITE}").status == 200
        assert asked(service, f"Bearer {WRITE}", "/v1/documents", **document()).json["added"] == 1
        for method, path in (
            ("POST", "/v1/documents"),
            ("DELETE", "/v1/documents/d1"),
            ("POST", "/v1/muted"),
            ("DELETE", "/v1/muted?id=d1"),
        ):
            body = None if method == "DELETE" else b'{"id": "d2", "text": "a b c d"}'
            headers = {"Authorization": f"Bearer {READ}", "Content-Type": "application/json"}
            refused = service.send(method, path, body, headers)
            assert (refused.status, refused.code) == (403, "forbidden")
        for path in (
            "/v1/status",
            "/v1/muted",
            "/metrics",
            "/v1/documents/d1",
            "/v1/documents/d1/neighbours",
        ):
            assert service.get(path).status == 401
            assert service.get(path, Authorization=f"Bearer {READ}").status == 200
        for path in ("/healthz", "/readyz", "/openapi.json"):
            assert service.get(path).status == 200
        assert service.get("/healthz", Host="any.name.example").status == 200
        assert READ not in str(service.logged())


def test_a_token_file_that_changes_is_read_again_and_a_wrong_one_changes_nothing(tmp_path: Path) -> None:
    other = "another-token-for-reading"
    with with_tokens(tmp_path) as service:
        changed = tmp_path / "changed"
        changed.write_text(f"read {other}\n")
        changed.rename(tmp_path / "tokens")
        await_status(service, other, 200)
        assert asked(service, f"Bearer {READ}").status == 401
        (tmp_path / "tokens").write_text("nonsense\n")
        await_logged(service, "keeping the previous tokens")
        assert asked(service, f"Bearer {other}").status == 200
        (tmp_path / "tokens").write_text(f"read {READ}\n")
        await_status(service, READ, 200)
        assert asked(service, f"Bearer {other}").status == 401


def test_a_token_file_that_others_may_read_is_warned_of_after_each_change(tmp_path: Path) -> None:
    with with_tokens(tmp_path) as service:
        assert not any("other users can read" in line["message"] for line in service.logged())
        (tmp_path / "tokens").chmod(0o644)
        await_logged(service, "other users can read")


def test_a_token_is_looked_at_before_the_body_comes(tmp_path: Path) -> None:
    with with_tokens(tmp_path) as service, closing(opened(service)) as stranger:
        head = b"POST /v1/find HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n"
        stranger.sendall(head)
        assert stranger.recv(1000).startswith(b"HTTP/1.1 401")


def await_status(service: Service, token: str, status: int) -> None:
    deadline = time.monotonic() + 30
    while asked(service, f"Bearer {token}").status != status:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def await_logged(service: Service, text: str) -> None:
    deadline = time.monotonic() + 30
    while not any(text in line["message"] for line in service.logged()):
        assert time.monotonic() < deadline
        asked(service, "Bearer x")
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot read the token file"),
        ("", "has no tokens"),
        ("# nothing\n", "has no tokens"),
        ("admin 0123456789abcdef\n", "line 1: must be 'read TOKEN', 'write TOKEN' or 'metrics TOKEN'"),
        ("read\n", "line 1: must be 'read TOKEN'"),
        ("write short\n", "line 1: a token needs at least 16 characters"),
    ],
)
def test_a_wrong_token_file_is_refused_without_what_it_says(
    tmp_path: Path, content: str | None, problem: str
) -> None:
    if content is not None:
        (tmp_path / "tokens").write_text(content)
    options = ("--store", store_in(tmp_path), "--token-file", "tokens", "--port", 0)
    done = run("serve", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert problem in done.stderr.decode()
    assert "0123456789abcdef" not in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


# --- how it starts ---


def test_others_are_let_in_with_tokens_only(tmp_path: Path) -> None:
    done = run_alone("serve", "--store", store_in(tmp_path), "--host", "0.0.0.0", cwd=tmp_path)
    assert done.returncode == 2
    assert "--token-file" in done.stderr.decode()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--timeout", "nan"),
        ("--timeout", "inf"),
        ("--timeout", 30_000),  # milliseconds
        ("--max-body", 16 << 20),  # bytes
        ("--max-batch", 1 << 30),
        ("--workers", 100_000),
        ("--allow-host", "http://search.example/"),
        ("--allow-host", "search.example:8765"),
        ("--allow-host", ""),
    ],
)
def test_a_setting_that_nobody_can_mean_is_refused(tmp_path: Path, option: str, value: object) -> None:
    done = run("serve", "--store", "rocksdb:none", "--port", 0, option, value, cwd=tmp_path)
    assert done.returncode == 2
    assert f"Invalid value for '{option}'" in done.stderr.decode()


def test_a_port_that_is_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_alone("serve", "--store", store_in(tmp_path), "--port", port, cwd=tmp_path)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1, port {port}" in done.stderr.decode()


def test_a_store_that_is_not_there_ends_it_with_10(tmp_path: Path) -> None:
    done = run_alone("serve", "--store", "rocksdb:nothing", "--port", 0, cwd=tmp_path)
    assert done.returncode == 10
    assert not (tmp_path / "nothing").exists()


def test_a_store_that_another_process_writes_to_ends_it_with_13(tmp_path: Path) -> None:
    url = store_in(tmp_path)
    with simhbase.open(url):
        assert run_alone("serve", "--store", url, "--port", 0, cwd=tmp_path).returncode == 13
        with serving(url, tmp_path, "--read-only") as service:
            refused = service.post("/v1/documents", document())
            assert (refused.status, refused.code) == (403, "read_only")
            assert service.get("/v1/status").json["access"] == "read"


def test_an_embedded_store_has_one_process_unless_they_only_read(tmp_path: Path) -> None:
    url = store_in(tmp_path)
    with simhbase.open(url) as index:
        index.add([simhbase.Document("one", ONE)])
    done = run_alone("serve", "--store", url, "--workers", 2, "--port", 0, cwd=tmp_path)
    assert done.returncode == 2
    assert "read-only" in done.stderr.decode()
    with serving(url, tmp_path, "--workers", 2, "--read-only") as service:
        for _ in range(20):
            (lookup,) = service.post("/v1/find", {"text": ONE}).json["lookups"]
            assert [match["id"] for match in lookup["matches"]] == ["one"]
        numbers = service.get("/metrics").body.decode().splitlines()
        (line,) = [each for each in numbers if each.startswith("simhbase_lookups_total")]
        assert float(line.split()[1]) == 20  # of both processes


@pytest.mark.full
def test_workers_that_take_long_to_start_are_waited_for(tmp_path: Path) -> None:
    slow = "import sys, time\nif any('multiprocessing' in each for each in sys.orig_argv): time.sleep(8)\n"
    (tmp_path / "sitecustomize.py").write_text(slow)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    with serving(store_in(tmp_path), tmp_path, "--workers", 2, "--read-only", PYTHONPATH=path) as service:
        assert service.get("/readyz").status == 200
        assert "died" not in json.dumps(service.logged())


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Service]:
    with with_tokens(tmp_path, "--workers", 2, "--read-only", "--timeout", 1) as service:
        await_status(service, READ, 200)
        yield service


def workers_of(service: Service) -> list[int]:
    children = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()
    return [int(each) for each in children if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]


def await_workers(service: Service, wanted: Callable[[list[int]], bool]) -> None:
    end = time.monotonic() + 60
    while not wanted(workers_of(service)):
        assert time.monotonic() < end, service.log_text()
        time.sleep(0.05)


def test_several_processes_do_not_begin_where_one_would_not(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("bogus\n")
    url = store_in(tmp_path)
    options = "--store", url, "--workers", 2, "--read-only", "--port", 0, "--token-file", "tokens"
    done = run_alone("serve", *options, cwd=tmp_path)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1), done.stderr
    assert b"tokens, line 1" in done.stderr


def test_a_process_that_dies_is_replaced_also_if_others_cannot_begin_for_a_while(
    two: Service, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    right = tokens.read_text()
    before = workers_of(two)
    numbers = {"Authorization": f"Bearer {READ}"}
    assert all(two.get("/metrics", **numbers).status == 200 for _ in range(20))  # both have gauges
    tokens.write_text("bogus\n")
    os.kill(before[0], signal.SIGKILL)
    await_workers(two, lambda _: "cannot serve: " in two.log_text())
    (folder,) = {
        each.parent for each in Path(gettempdir()).glob(f"simhbase-metrics-*/counter_{before[1]}.db")
    }
    assert not [*folder.glob(f"gauge_live*_{before[0]}.db")]  # of the sum
    tokens.write_text(right)
    await_workers(two, lambda now: len(now) == 2 and before[1] in now)
    await_status(two, READ, 200)
    assert "Traceback" not in two.log_text()
    assert two.stop() == 0
    assert not folder.exists()


def test_several_processes_stop_also_if_one_hangs(two: Service) -> None:
    os.kill(workers_of(two)[0], signal.SIGSTOP)
    begun = time.monotonic()
    assert two.stop() == 1
    assert time.monotonic() - begun < 1 + 15 + 5
    assert "1 of 2 processes have abandoned calls of the store, or did not stop within 16 s" in two.log_text()


def test_ctrl_c_while_processes_are_starting_is_no_error(tmp_path: Path) -> None:
    """A terminal sends SIGINT to all: each wrote a traceback, and was said to have died."""
    with serving(store_in(tmp_path), tmp_path, "--workers", 2, "--read-only") as service:
        for each in workers_of(service):
            os.kill(each, signal.SIGKILL)
        await_workers(service, lambda now: not now)
        await_workers(service, lambda now: len(now) == 2)  # which are importing now
        for each in [*workers_of(service), service.process.pid]:
            os.kill(each, signal.SIGINT)
        assert service.process.wait(30) == 0
        log = service.log_text()
        assert "Traceback" not in log
        assert log.count(" died with exit code ") == 2


def test_processes_end_with_the_one_that_started_them(two: Service) -> None:
    processes = workers_of(two)
    two.process.kill()
    two.process.wait()
    end = time.monotonic() + 30
    while any(Path(f"/proc/{each}").exists() for each in processes):
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.redis
@pytest.mark.parametrize("workers", [1, 2])
def test_a_service_stops_also_if_its_store_hangs(redis: Redis, tmp_path: Path, workers: int) -> None:
    simhbase.open(redis.empty_store("hanging"), create=simhbase.Profile(verify=False)).close()
    with (
        Relay(("127.0.0.1", redis.port)) as relay,
        serving(redis.through(relay, "hanging"), tmp_path, "--timeout", 1, "--workers", workers) as service,
    ):
        assert service.post("/v1/find", {"text": ONE}).status == 200
        relay.hang()
        assert service.post("/v1/find", {"text": ONE}).code == "timed_out"
        begun = time.monotonic()
        assert service.stop() == 1
        assert time.monotonic() - begun < 1 + 10 + 5
        assert "calls of the store have not ended within 11 s of the stop" in service.log_text()


# --- limits ---


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("limited")
    options = ("--max-body", 1, "--max-batch", 10, "--timeout", 2)
    with serving(store_in(folder), folder, *options) as service:
        yield service


def opened(service: Service, seconds: float = 60) -> socket.socket:
    return socket.create_connection((service.address.hostname, service.address.port), seconds)


def test_a_body_that_is_too_large_is_refused_by_its_length_and_while_it_comes(limited: Service) -> None:
    kind = {"Content-Type": "application/json"}
    large = limited.send("POST", "/v1/find", b" " * (1 << 21), kind)
    assert (large.status, large.code) == (413, "too_large")
    chunks = (b" " * (1 << 16) for _ in range(32))
    endless = limited.send("POST", "/v1/find", chunks, kind)
    assert (endless.status, endless.code) == (413, "too_large")
    assert limited.get("/healthz").status == 200


def most_memory(service: Service) -> int:
    """In bytes, until now."""
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def flood(service: Service, connections: ExitStack, *headers: str) -> list[bytes]:
    """Sends most of a body of 4 MiB on each of 150 connections; the answers that came before the rest."""
    size, all_ = 4 << 20, []
    head = ["POST /v1/find HTTP/1.1", "Host: localhost", f"Content-Length: {size}", *headers]
    for _ in range(150):
        each = connections.enter_context(closing(opened(service)))
        with suppress(ConnectionError):  # it was answered and closed
            each.sendall("\r\n".join([*head, "", ""]).encode() + b" " * (size - 1))
        all_.append(each)
    answered, *_ = select.select(all_, [], [], 10)
    answers = []
    for each in answered:
        with suppress(ConnectionError):
            answers.append(each.recv(10_000))
    return answers


def test_bodies_of_strangers_are_not_held(tmp_path: Path) -> None:
    with with_tokens(tmp_path, "--max-body", 4) as service, ExitStack() as connections:
        before = most_memory(service)
        for answer in flood(service, connections):
            assert answer.startswith(b"HTTP/1.1 401")
        assert most_memory(service) - before < 200 << 20  # of 600 MiB that were sent


def test_no_more_bodies_are_held_at_once_than_16_of_the_largest(tmp_path: Path) -> None:
    with with_tokens(tmp_path, "--max-body", 4) as service:
        before = most_memory(service)
        with ExitStack() as connections:
            json_ = ("Content-Type: application/json", f"Authorization: Bearer {READ}")
            answers = flood(service, connections, *json_)
            assert answers
            for answer in answers:
                assert answer.startswith(b"HTTP/1.1 503")
                assert b"\r\nretry-after: 1\r\n" in answer.lower()
            assert most_memory(service) - before < 300 << 20  # 64 are held, of 600 that were sent
        await_status(service, READ, 200)


def test_a_batch_that_is_too_large_is_refused(limited: Service) -> None:
    assert limited.post("/v1/find", {"texts": ["x"] * 10}).status == 200
    refused = limited.post("/v1/find", {"texts": ["x"] * 11})
    assert (refused.status, refused.code) == (413, "too_large")
    refused = limited.post("/v1/documents", {"documents": [document(each) for each in range(11)]})
    assert (refused.status, refused.code) == (413, "too_large")
    assert limited.get("/v1/documents/d0").status == 404


def test_a_body_that_comes_slowly_is_not_waited_for(limited: Service) -> None:
    def dripping() -> Iterator[bytes]:
        for _ in range(600):
            yield b" "
            time.sleep(0.05)

    try:
        answer = limited.send("POST", "/v1/find", dripping(), {"Content-Type": "application/json"})
    except (ConnectionError, HTTPException):
        return  # the connection was closed while it was written to
    assert (answer.status, answer.code) == (408, "too_slow")


def test_headers_that_come_slowly_end_the_connection(limited: Service) -> None:
    with closing(opened(limited, 20)) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        assert slow.recv(1000) == b""
    with closing(opened(limited, 20)) as silent:
        assert silent.recv(1000) == b""


def test_a_client_that_reads_nothing_is_disconnected(limited: Service) -> None:
    body = as_json({"text": " ".join(f"{number:x}" for number in range(150_000))})
    whole = len(limited.post("/v1/features", body).body)
    number = 12
    assert number * whole > 20 << 20  # more than the buffers of a connection hold
    head = "POST /v1/features HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    with closing(socket.socket()) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        deaf.settimeout(10)
        deaf.connect((limited.address.hostname, limited.address.port))
        with suppress(TimeoutError, ConnectionError):  # it is not read while answers wait
            deaf.sendall(request * number)
        time.sleep(6)  # three times as long as it may take
        read = 0
        with suppress(ConnectionError):
            while got := deaf.recv(1 << 20):
                read += len(got)
                assert read < number * whole
    assert limited.get("/healthz").status == 200


def test_answers_that_nobody_reads_are_few(tmp_path: Path) -> None:
    """60 clients that asked for 30 MiB each, and did not read it, took 1.8 GiB."""
    url, long = store_in(tmp_path), chr(1) * 1_000
    with simhbase.open(url) as index:
        index.add([simhbase.Document(f"{long}{number}", ONE) for number in range(1_000)])
    body = as_json({"texts": [ONE] * 5})
    request = FIND + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
    with serving(url, tmp_path) as service:
        whole = len(service.send("POST", "/v1/find", body, {"Content-Type": "application/json"}).body)
        assert whole > 25 << 20
        before = most_memory(service)
        with ExitStack() as connections:
            deaf = [connections.enter_context(closing(opened(service))) for _ in range(60)]
            for each in deaf:
                each.sendall(request)
            answers = [each.recv(1_000) for each in deaf]
            assert {answer[9:12] for answer in answers} == {b"200", b"503"}
            assert most_memory(service) - before < 800 << 20
            assert service.get("/healthz").status == 200
        again = service.post("/v1/find", {"texts": [ONE] * 5})
        assert (again.status, len(again.body)) == (200, whole)


def test_requests_that_wait_for_the_answer_to_another_are_few(limited: Service) -> None:
    """256 KiB of them on each of 40 connections took 650 MB, and the service for half a minute."""
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with closing(opened(limited)) as few:
        few.sendall(request * PIPELINED + last)
        assert received(few).count(b"HTTP/1.1 200") == PIPELINED + 1
    with closing(opened(limited)) as many:
        many.sendall(request * 2_000)
        answers = received(many)
        assert answers.count(b"HTTP/1.1 200") <= PIPELINED + 1
        assert b"HTTP/1.1 400" in answers


def received(connection: socket.socket) -> bytes:
    """Everything until the connection ends."""
    parts = []
    with suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def test_texts_to_compare_are_limited_in_length(tmp_path: Path) -> None:
    with serving(store_in(tmp_path), tmp_path) as service:
        for path, body in (
            ("compare", {"left": "x" * (1 << 20), "right": ""}),
            ("explain", {"text": "x" * (1 << 20)}),
        ):
            refused = service.post(f"/v1/{path}", body)
            assert (refused.status, refused.code) == (413, "too_large")


def test_many_slow_connections_keep_nobody_else_out(limited: Service) -> None:
    with ExitStack() as slow:
        for _ in range(200):
            each = slow.enter_context(closing(opened(limited)))
            each.sendall(b"POST /v1/find HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
        assert limited.post("/v1/find", {"text": ONE}).status == 200


@pytest.mark.parametrize(("size", "status"), [(60_000, b"200"), (70_000, b"400")])
def test_headers_of_one_packet_are_counted_too(limited: Service, size: int, status: bytes) -> None:
    with closing(opened(limited)) as large:
        head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Large: " + b"x" * size + b"\r\n\r\n"
        large.sendall(head)
        assert large.recv(1000).startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize("end", [b"\r\n", b""])
def test_many_short_headers_are_counted_by_what_they_take(limited: Service, end: bytes) -> None:
    """15,000 of them, 60 kB without a token, took 1.7 MB on each of 4,096 connections, for half a minute."""
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    with closing(opened(limited)) as few:
        few.sendall(head + b"a:\r\n" * 400 + b"\r\n")
        assert received(few).startswith(b"HTTP/1.1 200")
    with closing(opened(limited)) as many:
        many.sendall(head + b"a:\r\n" * 600 + end)
        answer = received(many)
        assert answer.startswith(b"HTTP/1.1 400")
        assert b"The headers are too large." in answer


def test_headers_that_are_too_large_are_refused(limited: Service) -> None:
    with closing(opened(limited)) as large:
        large.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Large: ")
        with suppress(ConnectionError):
            for _ in range(100):
                large.sendall(b"x" * 10_000)
            assert b"200" not in large.recv(1000)
    assert limited.get("/healthz").status == 200


def test_a_path_is_as_long_as_that_of_an_id(limited: Service) -> None:
    """It was decoded for everybody: 3,900 connections without a token, each with 60 kB of escapes, held up
    all others for 70 s."""
    longest = quote("\u00e9" * 511)
    assert limited.get(f"/v1/documents/{longest}/neighbours").code == "not_found"
    refused = limited.get("/" + "%41" * 20_000)
    assert (refused.status, refused.json["error"]["message"]) == (400, "The path is too long.")


def test_an_address_has_few_parameters(limited: Service) -> None:
    """15,000 took 10 ms each, and 1,000 addresses of them 1.7 GB."""
    ids = "&".join(f"id={number}" for number in range(64))
    assert limited.send("DELETE", f"/v1/muted?{ids}").json["removed"] == 0
    for method, path in (("DELETE", "/v1/muted"), ("GET", "/v1/documents"), ("POST", "/v1/find")):
        refused = limited.send(method, f"{path}?{ids}&id=64")
        assert (refused.status, refused.code) == (413, "too_large")
        assert "more than 64 parameters" in refused.json["error"]["message"]


@pytest.mark.parametrize("begun", [b"1;", b"0", b"0\r\nX-Large: ", b"0\r\n"])
def test_what_stands_beside_a_body_is_limited_too(limited: Service, begun: bytes) -> None:
    """The headers behind a body were gathered for half a minute, in time quadratic in their length."""
    with closing(opened(limited)) as large:
        head = b"POST /v1/find HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        large.sendall(head + begun)
        part = begun[:1] * (1 << 16)

        def send() -> None:
            for _ in range(100):
                large.sendall(part)
                time.sleep(0.01)

        with pytest.raises(ConnectionError):
            send()
    assert limited.get("/healthz").status == 200


def test_chunks_of_a_body_are_limited(limited: Service) -> None:
    """One connection, without a token, held all others for seconds by 20 MB in chunks of a byte each."""
    head = b"POST /v1/find HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with closing(opened(limited)) as small:
        small.sendall(head)
        with pytest.raises(ConnectionError):
            small.sendall(b"1\r\n \r\n" * 3_000_000)
    begun = time.monotonic()
    assert limited.get("/healthz").status == 200
    assert time.monotonic() - begun < 2
    with closing(opened(limited)) as small:
        small.sendall(head + b"1\r\n \r\n" * (MOST_CHUNKS + 2) + b"1\r\n")  # two more for 1,024 bytes
        assert b"The body has too many small chunks." in received(small)
    for size, number in ((1, MOST_CHUNKS - 2), (600, 1500)):  # beside that of the text, and the last one
        chunks = [as_json({"text": ONE}), *[b" " * size] * number]
        answer = limited.send("POST", "/v1/find", iter(chunks), {"Content-Type": "application/json"})
        assert answer.status == 200


def test_headers_behind_a_body_are_none(limited: Service) -> None:
    head = "POST /v1/find HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    body = as_json({"text": ONE}).decode()
    trailers = "Host: elsewhere.example\r\nAuthorization: a\r\nAuthorization: b\r\nX-Request-ID: behind\r\n"
    with closing(opened(limited)) as chunked:
        chunks = f"{len(body):x}\r\n{body}\r\n0\r\n{trailers}\r\n"
        chunked.sendall(f"{head}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}".encode())
        answer = received(chunked)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"behind" not in answer


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET \xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /v1/find HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/find HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /v1/find HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %s2\r\n\r\n{}" % (b"0" * 5000),
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /v1/find HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET http://[::1/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET //evil.example/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=lambda sent: ascii(sent[:30]),
)
def test_what_is_no_request_harms_nobody(limited: Service, sent: bytes) -> None:
    with closing(opened(limited)) as odd:
        odd.sendall(sent)
        answer = odd.recv(100)
        assert not answer.startswith(b"HTTP/1.1 5")
    assert limited.get("/healthz").status == 200


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_a_body_behind_an_upgrade_is_no_request(limited: Service, protocol: str) -> None:
    inner = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = (
        b"POST /v1/find HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Connection: Upgrade\r\nUpgrade: %s\r\nContent-Length: %d\r\n\r\n"
    )
    with closing(opened(limited)) as asking:
        asking.sendall(head % (protocol.encode(), len(inner)))
        said = asking.recv(1000)
        with suppress(ConnectionError):
            asking.sendall(inner)
            while more := asking.recv(1000):
                said += more
    assert said.startswith(b"HTTP/1.1 400")
    assert said.count(b"HTTP/1.1") == 1


FIND = b"POST /v1/find HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKS = b'd\r\n{"text":"ab"}\r\n0\r\n\r\n'


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET /healthz HTTP/1.1\r\n\r\n", "There is no Host."),
        (b"GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "The target is not a path."),
        (b"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "The target is not a path."),
        (b"GET /healthz HTTP/2.0\r\nHost: localhost\r\n\r\n", "Only HTTP/1.1 is spoken here."),
        (
            FIND + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNKS,
            "The only transfer coding is chunked.",
        ),
        (
            FIND.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS,
            "The only transfer coding is chunked.",
        ),
    ],
    ids=["no host", "absolute", "another host", "another version", "coded", "chunks in 1.0"],
)
def test_what_a_proxy_may_read_otherwise_is_refused(limited: Service, sent: bytes, reason: str) -> None:
    with closing(opened(limited)) as asking:
        asking.sendall(sent)
        head, _, body = received(asking).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400")
        error = json.loads(body)["error"]
        assert (error["code"], error["message"]) == ("malformed", reason)


def test_the_only_transfer_coding_is_chunked_and_old_probes_name_no_host(tmp_path: Path) -> None:
    with with_tokens(tmp_path) as service:
        for sent in (
            FIND + f"Authorization: Bearer {READ}\r\nTransfer-Encoding: Chunked\r\n".encode(),
            b"GET /healthz HTTP/1.0\r\n",
        ):
            with closing(opened(service)) as asking:
                asking.sendall(sent + b"Connection: close\r\n\r\n" + CHUNKS * sent.startswith(FIND))
                assert received(asking).startswith(b"HTTP/1.1 200")


def test_a_compressed_body_is_refused_as_such(limited: Service) -> None:
    refused = limited.post("/v1/find", {"text": ONE}, **{"Content-Encoding": "gzip"})
    assert (refused.status, refused.code) == (415, "unsupported_media_type")
    assert "compressed" in refused.json["error"]["message"]


def test_what_would_be_ignored_is_refused(limited: Service) -> None:
    """A bound in the address, ids in the body of DELETE: the answer would be to another question."""
    for method, path, body in (
        ("POST", "/v1/find?k=1", as_json({"text": ONE})),
        ("GET", "/v1/status?scope=acme", None),
        ("DELETE", "/v1/muted", as_json({"ids": ["a"]})),
        ("GET", "/v1/documents", as_json({"since": "1d"})),
    ):
        refused = limited.send(method, path, body, {"Content-Type": "application/json"})
        assert (refused.status, refused.code) == (422, "invalid"), path
    assert limited.send("DELETE", "/v1/muted?id=a", b"").status == 200
    assert limited.get("/healthz?verbose").status == 200
    assert limited.get("/v1/documents?tag=%FF=a").status == 400


def test_a_path_is_decoded_once_and_has_one_spelling(limited: Service) -> None:
    assert limited.post("/v1/documents", {"id": "50%25", "text": ONE}).json["added"] == 1
    assert limited.get("/v1/documents/50%2525").status == 200
    for other in ("/v1/%64ocuments/50%252525", "/%68ealthz", "/page/page%2Ejs"):
        assert limited.get(other).status == 404


def test_pages_of_other_sites_learn_nothing_by_what_loads(limited: Service) -> None:
    limited.post("/v1/documents", {"id": "secret", "text": ONE})
    for path in ("/v1/documents/secret", "/v1/groups", "/page/page.js"):
        for site in ("cross-site", "same-site"):
            refused = limited.get(path, **{"Sec-Fetch-Site": site})
            assert (refused.status, refused.code) == (403, "forbidden")
        for site in ("same-origin", "none"):
            answer = limited.get(path, **{"Sec-Fetch-Site": site})
            assert answer.status == 200
            assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert limited.get("/", **{"Sec-Fetch-Site": "cross-site"}).status == 200


@pytest.mark.parametrize(
    "name", ["Authorization", "Content-Encoding", "Content-Type", "Host", "Sec-Fetch-Site"]
)
def test_a_header_that_decides_is_given_once(limited: Service, name: str) -> None:
    with closing(opened(limited)) as asking:
        twice = f"{name}: localhost\r\n" * 2
        host = "" if name == "Host" else "Host: localhost\r\n"
        asking.sendall(f"GET /healthz HTTP/1.1\r\n{host}{twice}\r\n".encode())
        said = asking.recv(1000)
    assert said.startswith(b"HTTP/1.1 400")
    assert f"{name} is given more than once".encode() in said


def test_a_long_name_of_a_field_is_not_said_in_full(limited: Service) -> None:
    refused = limited.post("/v1/find", {"text": ONE, "x" * 2000: 1})
    assert (refused.status, refused.code) == (422, "invalid")
    assert len(refused.body) < 1000


def test_what_a_terminal_may_obey_is_escaped_in_the_log(limited: Service) -> None:
    path = "/\x9b31m\u202e\u2028"
    limited.get(quote(path))
    assert path in [line["path"] for line in limited.logged() if "path" in line]
    assert not any(sign in limited.log_text() for sign in "\x9b\u202e\u2028")


def test_a_long_path_is_not_logged_in_full(limited: Service) -> None:
    limited.get(f"/long{'x' * 4_000}")
    (line,) = [each for each in limited.logged() if each.get("path", "").startswith("/longx")]
    assert len(json.dumps(line)) < 5_000


def test_who_has_no_token_is_not_told_of_the_store(tmp_path: Path) -> None:
    with with_tokens(tmp_path) as service:
        shutil.rmtree(tmp_path / "store")
        refused = service.get("/readyz")
        assert refused.status == 503
        assert "rocksdb:" not in str(refused.json)
        assert f"rocksdb:{tmp_path}" in service.log_text()


# --- the OpenAPI document ---


def test_examples_of_the_api_document_are_answered(tmp_path: Path) -> None:
    with serving(store_in(tmp_path), tmp_path) as service:
        paths = service.get("/openapi.json").json["paths"]
        tried = 0
        for path, methods in paths.items():
            for media, content in methods.get("post", {}).get("requestBody", {}).get("content", {}).items():
                examples = [each["value"] for each in content["examples"].values()]
                assert examples
                for example in examples:
                    body = example.encode() if isinstance(example, str) else as_json(example)
                    answer = service.send("POST", path, body, {"Content-Type": media})
                    assert answer.status == 200, (path, example, answer.body)
                    tried += 1
        assert tried >= 6
        for schema in service.get("/openapi.json").json["components"]["schemas"].values():
            assert schema.get("description"), schema["title"]


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


def random_requests(folder: Path, service: Service, examples: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{service.url}/openapi.json", "--no-color"]
    options = {
        "--max-examples": examples,
        "--seed": 1,
        "--header": f"Authorization: Bearer {WRITE}",
        "--generation-database": "none",
        # A k above the layout's guarantee, or a similarity where there are no sketches, is as described, too.
        # And an add answers 200 where it has rejected the one document, which then is not there.
        "--exclude-checks": "positive_data_acceptance,ensure_resource_availability",
        "--suppress-health-check": "all",
    }
    return subprocess.run(
        [*command, *(str(word) for option in options.items() for word in option)],
        cwd=folder,
        env=environment(SCHEMATHESIS_HOOKS="tests.ndjson", PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("examples", "least"), [(8, 200), pytest.param(1300, 10_000, marks=pytest.mark.full)]
)
def test_random_requests_get_answers_that_the_api_document_describes(
    tmp_path: Path, examples: int, least: int
) -> None:
    with with_tokens(tmp_path) as service:
        done = random_requests(tmp_path, service, examples)
        assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2000:]
        statuses = [line["status"] for line in service.logged() if "status" in line]
        assert len(statuses) >= least
        assert max(statuses) < 500
        assert service.get("/readyz").status == 200


# --- the end ---


def test_a_stop_answers_what_was_accepted(tmp_path: Path) -> None:
    answered: list[str] = []
    sent: list[str] = []
    refused = threading.Event()
    with serving(store_in(tmp_path), tmp_path) as service:

        def work(worker: int) -> None:
            chance = random.Random(worker)
            with closing(service.connect()) as connection:
                connection.connect()
                for number in range(10_000):
                    name = f"{worker}/{number}"
                    text = " ".join(f"{chance.randrange(1 << 32):x}" for _ in range(30))
                    try:
                        connection.request(
                            "POST",
                            "/v1/documents",
                            as_json({"id": name, "text": text}),
                            {"Content-Type": "application/json"},
                        )
                        sent.append(name)
                        answer = connection.getresponse()
                        body = answer.read()
                    except (ConnectionError, HTTPException):
                        refused.set()
                        return
                    assert answer.status == 200, body
                    answered.append(name)

        with ThreadPoolExecutor(8) as pool:
            workers = [pool.submit(work, worker) for worker in range(8)]
            while len(answered) < 200:
                time.sleep(0.01)
            assert service.stop() == 0
            for worker in workers:
                worker.result()
        assert refused.is_set()
    with simhbase.open(f"rocksdb:{tmp_path}/store") as index:
        assert None not in index.fingerprints(answered)
    lines = [line for line in service.logged() if line.get("route") == "/v1/documents"]
    assert len(lines) == len(answered)  # none was begun and not answered
    assert all(line["status"] == 200 for line in lines)


def test_a_slow_request_is_answered_before_the_service_ends(tmp_path: Path) -> None:
    many = [{"id": f"slow{number}", "text": text} for number, text in enumerate(texts(1000, words=300))]
    with serving(store_in(tmp_path), tmp_path) as service, ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(service.post, "/v1/documents", {"documents": many})
        while len(service.logged()) < 4:  # its own start, and a first request
            time.sleep(0.01)
        time.sleep(0.3)
        os.kill(service.process.pid, signal.SIGTERM)
        assert under_way.result().json["added"] == 1000
        assert service.process.wait(60) == 0


# --- one who asks for much ---


def test_texts_are_short_together_and_alone(tmp_path: Path) -> None:
    with serving(store_in(tmp_path), tmp_path, "--max-characters", 1000) as service:
        long, short = "word " * 300, "word " * 200
        for path, value in (
            ("/v1/find", {"text": long}),
            ("/v1/find", {"texts": [ONE, long]}),
            ("/v1/documents", {"id": "a", "text": long}),
            ("/v1/claim", {"documents": [{"id": "a", "text": long}]}),
        ):
            refused = service.post(path, value)
            assert (refused.status, refused.code) == (413, "too_large")
            assert " has 1,500 characters, at most 1,000 are allowed" in refused.json["error"]["message"]
        assert service.post("/v1/find", {"texts": [short] * 4}).status == 200
        refused = service.post("/v1/find", {"texts": [short] * 5})
        assert (refused.status, refused.code) == (413, "too_large")
        assert "5,000 characters in total, at most 4,000" in refused.json["error"]["message"]


def test_a_body_of_many_small_values_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    tags = ",".join(f'"t{number}":""' for number in range(200_000))
    many = [
        f'{{"id": "a", "text": "b", "tags": {{{tags}}}}}',
        f'{{"documents": [{{"id": "a", "text": "b", "tags": {{{tags}}}}}]}}',
        f'{{"id": "a", "text": "b", "tags": {{{tags.replace(":", " :")}}}}}',
        '{"texts": [' + ",".join(['"\\\\"'] * 200_000) + "]}",
    ]
    with serving(store_in(tmp_path), tmp_path) as service:
        for body in many:
            path = "/v1/find" if "texts" in body else "/v1/documents"
            refused = service.send("POST", path, body.encode(), {"Content-Type": "application/json"})
            assert (refused.status, refused.code) == (413, "too_large")
            assert "more than 64,064 names and values" in refused.json["error"]["message"]
        lines = {"Content-Type": "application/x-ndjson"}
        for body in (b"\n" * (8 << 20), b" \r\n" * (1 << 20)):
            refused = service.send("POST", "/v1/documents", body, lines)
            assert (refused.status, refused.code) == (413, "too_large")
        long = service.post("/v1/find", {"text": ONE, "since": "9" * 1_000_000})
        assert (long.status, len(long.body) < 4_000) == (422, True)
        quotes = {"id": "a", "text": f"{ONE} " + '"yes", "no" ' * 80_000}
        assert service.post("/v1/documents", quotes).json["added"] == 1


def test_a_body_of_backslashes_takes_no_more_memory_than_another(tmp_path: Path) -> None:
    """Names that are given twice were looked for in time and memory by the escapes: 16 MiB took 0.9 GB."""
    with serving(store_in(tmp_path), tmp_path) as service:
        before = most_memory(service)
        refused = service.post("/v1/find", b'{"text": "' + b"\\\\" * (8 * (1 << 20) - 100) + b'"}')
        assert (refused.status, refused.code) == (413, "too_large")
        assert most_memory(service) - before < 200 << 20


@pytest.mark.parametrize("value", ["{}", '"' + "word " * 300_000 + '"'], ids=["objects", "long texts"])
def test_bodies_that_were_refused_are_not_kept(tmp_path: Path, value: str) -> None:
    """Errors and their futures kept each other, and the body: 150 requests of one reader took 2.6 GB."""
    number = (15 << 20) // (len(value) + 1)
    body = b'{"texts": [' + b",".join([value.encode()] * number) + b"]}"
    with serving(store_in(tmp_path), tmp_path) as service:
        most = list[int]()
        for _ in range(20):
            assert service.post("/v1/find", body).code in ("invalid", "too_large")
            most.append(most_memory(service))
    assert most[-1] - most[1] < 100 << 20


def test_the_page_is_sent_whole(limited: Service) -> None:
    """100 parts of a file were read by a thread each: 700 bytes without a token took a hundred times as long
    as others."""
    whole = limited.get("/page/page.css")
    ranges = ",".join(f"{2 * at}-{2 * at}" for at in range(100))
    parts = limited.get("/page/page.css", Range=f"bytes={ranges}")
    assert (parts.status, parts.body) == (200, whole.body)
    assert whole.headers["content-type"] == "text/css; charset=utf-8"


def test_an_answer_has_a_limit(tmp_path: Path) -> None:
    """A text that is stored often, or has many near variants, asked for often, is said to be truncated."""
    url = store_in(tmp_path)
    variants = [f"{ONE} {number} {number}" for number in range(600)]
    with simhbase.open(url) as index:
        index.add([simhbase.Document(f"d{number}", ONE) for number in range(600)])
        index.add([simhbase.Document(f"v{number}", text) for number, text in enumerate(variants)])
        there = {text: len(index.find(text)) for text in (ONE, variants[0])}
        assert min(there.values()) > 512
    with serving(url, tmp_path) as service:
        for number, limit in ((1, 100_000), (150, 512), (400, 128)):
            for text, near in there.items():
                found = service.post("/v1/find", {"texts": [text] * number}).json["lookups"]
                assert {len(lookup["matches"]) for lookup in found} == {min(near, limit)}
                assert {lookup["truncated"] for lookup in found} == {near > limit}


def test_others_are_served_while_large_answers_are_made(tmp_path: Path) -> None:
    """Answers of 34 MB were cut and encoded by the loop: 24 of them held up all others for 6 s of 13."""
    url = store_in(tmp_path)
    with simhbase.open(url) as index:
        index.add([simhbase.Document(f"{number:04}" + "\x01" * 1000, ONE) for number in range(1000)])
    with serving(url, tmp_path) as service, ThreadPoolExecutor(6) as clients:
        begun = time.monotonic()
        large = [clients.submit(service.post, "/v1/find", {"texts": [ONE] * 10}) for _ in range(6)]
        waited = list[float]()
        while not all(each.done() for each in large):
            start = time.monotonic()
            assert service.get("/healthz").status == 200
            waited.append(time.monotonic() - start)
        took = time.monotonic() - begun
    assert {each.result().status for each in large} <= {200, 503}
    assert max(waited) < took / 4


def test_many_variants_of_a_text_are_followed_up_to_what_an_answer_holds(tmp_path: Path) -> None:
    """All were verified, and then cut: 64 texts near 30,000 stored ones took 11 s and 0.9 GB."""
    with simhbase.open("memory:", create="default") as index:
        index.add([simhbase.Document(f"v{number}", f"{ONE} {number} {number}") for number in range(600)])
        asked = [f"{ONE} {number} {number}" for number in range(9)]
        counted = Counter[str]()
        match = Reader.matches

        def matches(self: Reader, *arguments: Any) -> Any:
            found = match(self, *arguments)
            counted["matches"] += sum(map(len, found))
            return found

        with pytest.MonkeyPatch.context() as patch, SharedLookups(index) as shared:
            patch.setattr(Reader, "matches", matches)
            found = asyncio.run(shared.afind_many(asked, near_limit=64))
        whole = index.find_many(asked)
    assert counted["matches"] <= 64 * len(asked)
    for few, every in zip(found, whole, strict=True):
        assert (len(few), few.truncated) == (64, True)
        assert set(few.matches) <= set(every.matches)
        assert max(match.distance for match in few) <= sorted(match.distance for match in every)[64]


@pytest.mark.parametrize("asked", [1, 3])
@pytest.mark.parametrize("tags", [{}, {"kind": "none"}])
def test_of_what_is_near_a_text_no_more_is_listed_than_is_followed(
    monkeypatch: pytest.MonkeyPatch, asked: int, tags: dict[str, str]
) -> None:
    """All of it was: for one text in the read that all others wait for, and again by itself, or to find one
    with a tag. Near 100,000 documents that took 1.2 s, then 4 s and 0.9 GB, and near a million ten times as
    much."""
    monkeypatch.setattr("simhbase.online.shared.FOLLOWED_ALONE", 64)
    monkeypatch.setattr("simhbase.index.reader.LISTED_AT_ONCE", 8)
    variants = [f"{ONE} {number} {number}" for number in range(600)]
    listed = list[int]()
    near, scan = MemoryStore.near, MemoryRecords.scan

    def near_one(self: MemoryStore, *arguments: Any) -> NearRows:
        found = near(self, *arguments)
        listed.append(sum(map(len, found.listed.values())))
        return found

    def scanned(self: MemoryRecords, *arguments: Any) -> list[list[Row]]:
        found = scan(self, *arguments)
        listed.append(sum(map(len, found)))
        return found

    with simhbase.open("memory:", create="default") as index, SharedLookups(index) as shared:
        for copy in range(20):
            index.add([simhbase.Document(f"{copy}v{n}", text) for n, text in enumerate(variants)])
        whole = index.find(ONE)
        monkeypatch.setattr(MemoryStore, "near", near_one)
        monkeypatch.setattr(MemoryRecords, "scan", scanned)
        query = simhbase.Query(tags=tags)
        lookups = asyncio.run(shared.afind_many([ONE, *variants][:asked], query, near_limit=64))
    assert len(whole) > 1500
    assert {(len(each), each.truncated) for each in lookups} == {(0 if tags else 64, True)}
    if not tags:
        assert set(lookups[0].matches) <= set(whole.matches)
        assert max(match.distance for match in lookups[0]) <= sorted(each.distance for each in whole)[64]
    assert max(listed) < 500  # several variants may have one fingerprint


def test_an_explanation_follows_no_more_than_a_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100,000 near documents it took 2.6 s and 0.4 GB, and of more as much more."""
    monkeypatch.setattr("simhbase.index.explain.MOST_FOLLOWED", 120)
    followed = list[int]()
    match = Reader.matches

    def matches(self: Reader, fingerprints: Any, led: Any, *arguments: Any) -> Any:
        followed.append(len(led))
        return match(self, fingerprints, led, *arguments)

    with simhbase.open("memory:", create="default") as index:
        index.add([simhbase.Document(f"v{number}", f"{ONE} {number} {number}") for number in range(600)])
        index.add([simhbase.Document(f"d{number}", ONE) for number in range(200)])
        assert len(index.find(ONE)) > 250
        monkeypatch.setattr(Reader, "matches", matches)
        explained = index.explain(ONE)
    assert max(followed) == 120
    assert {each.verdict for each in explained.candidates} == {"match"}


def test_single_texts_that_are_near_many_are_not_followed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were joined to one read: 64 near 100,000 took minutes and 1.6 GB, and all others waited."""
    monkeypatch.setattr("simhbase.online.shared.FOLLOWED_TOGETHER", 40)
    monkeypatch.setattr("simhbase.online.shared.FOLLOWED_BY_FEW", 150)
    followed = list[int]()
    match, light = Reader.matches, texts(1, seed=9)[0]

    def matches(self: Reader, fingerprints: Any, led: Any, *arguments: Any) -> Any:
        followed.append(len(led))
        return match(self, fingerprints, led, *arguments)

    variants = [f"{ONE} {number} {number}" for number in range(600)]
    with simhbase.open("memory:", create="default") as index:
        index.add([simhbase.Document(f"v{number}", text) for number, text in enumerate(variants)])
        index.add([simhbase.Document(f"d{number}", light) for number in range(300)])
        asked = [ONE, light, texts(1, seed=10)[0], *variants[:30]]
        whole = [index.find(text) for text in asked]
        ids = ["v0", "d0", "v1", "d1"]
        near = index.find_ids(ids)
        monkeypatch.setattr(Reader, "matches", matches)

        async def all_at_once(shared: SharedLookups) -> list[simhbase.Lookup]:
            found = [shared.afind_many([text], near_limit=100_000) for text in asked]
            found += [shared.afind_ids([each], near_limit=100_000) for each in ids]
            return [lookup for (lookup,) in await asyncio.gather(*found)]

        with SharedLookups(index) as shared:
            assert asyncio.run(all_at_once(shared)) == [*whole, *near]
    assert max(followed) <= len([*asked, *ids]) * 40


def test_texts_near_few_do_not_wait_for_those_near_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text near 80,000 takes 5 s, and each token may ask for one: beside two of these a third waited for
    12 s."""
    monkeypatch.setattr("simhbase.online.shared.FOLLOWED_TOGETHER", 10)
    monkeypatch.setattr("simhbase.process.queue._is_stuck", lambda *_: False)  # as it computes
    answer, may_end, heavy = SharedLookups._answer, threading.Event(), threading.Event()

    def slowly(self: SharedLookups, requests: Any) -> None:
        if any(text == ONE for request in requests for text in request.records) and (
            requests[0].kind[-1].weight is not None
        ):
            heavy.set()
            assert may_end.wait(30)
        answer(self, requests)

    monkeypatch.setattr(SharedLookups, "_answer", slowly)

    async def ask(shared: SharedLookups) -> None:
        many = asyncio.create_task(shared.afind_many([ONE], near_limit=100_000))
        await asyncio.to_thread(heavy.wait, 10)
        (few,) = await shared.afind_many([texts(1, seed=9)[0]], near_limit=100_000, timeout=5)
        assert not few
        assert not many.done()
        may_end.set()
        assert len((await many)[0]) > 10

    with simhbase.open("memory:", create="default") as index, SharedLookups(index) as shared:
        index.add([simhbase.Document(f"v{number}", f"{ONE} {number} {number}") for number in range(100)])
        asyncio.run(ask(shared))


def test_pages_of_documents_are_read_by_few_threads() -> None:
    """40 clients that paged through Redis by a tag that none had kept it busy: others waited for 5 s."""
    running = most = 0
    lock = threading.Lock()

    def stored_page(*query: object) -> StoredPage:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        return StoredPage((), None)

    async def ask(service: OnlineService) -> None:
        async with service.lifespan(None):
            await asyncio.gather(*(service.stored(StoredRequest()) for _ in range(20)))

    with pytest.MonkeyPatch.context() as patch:
        index = simhbase.open("memory:", create="default")
        patch.setattr(index, "stored_page", stored_page)
        asyncio.run(ask(OnlineService(index, Settings("memory:"), ServiceMetrics())))
    assert most == 2


def test_a_store_is_counted_once_for_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where texts had been made to fill drawers, each of 1,000 requests for the status read millions of rows,
    16 at a time."""
    counted = 0
    stats = Administrator.stats

    def slowly(administrator: Administrator) -> Stats:
        nonlocal counted
        counted += 1
        time.sleep(0.05)
        return stats(administrator)

    async def ask(service: OnlineService) -> None:
        async with service.lifespan(None):
            found = await asyncio.gather(*(service.status() for _ in range(20)))
            assert len({each.counted_at for each in found}) == 1

    monkeypatch.setattr(Administrator, "stats", slowly)
    index = simhbase.open("memory:", create="default")
    asyncio.run(ask(OnlineService(index, Settings("memory:"), ServiceMetrics())))
    assert counted == 1


def seconds_of_processor(service: Service) -> float:
    fields = Path(f"/proc/{service.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_changes_of_a_long_mute_list_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Each that succeeded had the others read it again: 40 took 18 s, and every lookup meanwhile 0.1 s."""
    with serving(store_in(tmp_path), tmp_path) as service, ThreadPoolExecutor(16) as clients:

        def mute(name: object) -> int:
            return service.post("/v1/muted", {"ids": [str(name)]}).status

        for part in range(10):
            ids = [f"{part}-{number}" for number in range(1000)]
            assert service.post("/v1/muted", {"ids": ids}).status == 200
        begin = seconds_of_processor(service)
        assert set(map(mute, range(16))) == {200}
        between = seconds_of_processor(service)
        assert set(clients.map(mute, range(16))) == {200}
        assert seconds_of_processor(service) - between < 3 * (between - begin)  # it was 8 times


def test_many_claims_near_a_large_cluster_take_no_more_by_its_size_and_hold_up_nobody(
    tmp_path: Path,
) -> None:
    """Near 30,000 stored texts, 1,000 claims took 20 s and 2 GB, and other claims waited for all of them."""
    many = [{"id": f"q{number}", "text": f"{ONE} q{number} q{number}"} for number in range(1000)]
    others = texts(200, seed=7)
    seconds = list[float]()
    for size in (500, 10_000):
        folder = tmp_path / str(size)
        folder.mkdir()
        url = store_in(folder)
        with simhbase.open(url) as index:
            index.add([simhbase.Document(f"v{number}", f"{ONE} {number} {number}") for number in range(size)])
        with serving(url, folder) as service, ThreadPoolExecutor(1) as pool:
            service.post("/v1/claim", {"id": "first", "text": f"{ONE} first first"})
            memory, begin = most_memory(service), seconds_of_processor(service)
            answer = pool.submit(service.post, "/v1/claim", {"documents": many})
            beside = 0
            while not answer.done():
                other = {"id": f"n{beside}", "text": others[beside % len(others)]}
                assert service.post("/v1/claim", other).status == 200
                beside += not answer.done()
                time.sleep(0.01)
            assert {claim["outcome"] for claim in answer.result().json["claims"]} == {"duplicate"}
            seconds.append(seconds_of_processor(service) - begin)
            assert most_memory(service) - memory < 150 << 20  # it was 0.7 GB
    assert beside >= 3  # of those that come in the meantime none waits for all
    assert seconds[1] < 8 * seconds[0]  # it was 24 times
