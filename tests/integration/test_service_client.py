"""The client of a service: the answers of an index, whatever happens on the way."""

from __future__ import annotations

import asyncio
import gzip
import json
import multiprocessing
import socket
import ssl
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain, count, cycle, repeat
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

import simhbase
from simhbase.errors import (
    AccessDenied,
    BadInput,
    Conflict,
    PermanentError,
    ShortTexts,
    SimhbaseError,
    StoreUnreachable,
    UsageError,
)
from simhbase.model.values import Query, Rejected
from simhbase.online import client as client_module
from simhbase.online.async_client import AsyncClient
from simhbase.online.client import Client
from tests.command_line import texts
from tests.service import Service, serving

ONE, OTHER, THIRD = texts(3)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("client")
    simhbase.open(f"rocksdb:{folder}/store", create=simhbase.Profile(verify=False)).close()
    with serving("rocksdb:store", folder, "--max-batch", 100, "--max-body", 1) as running:
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.url) as asking:
        yield asking


@contextmanager
def answering(
    *statuses: int, retry_after: str = "0", closing: bool = False, tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, list[float]]]:
    """A server of another kind that answers with these statuses, then as if nothing were found; and when it
    was asked. closing: it closes each connection after an answer without having said so."""
    asked: list[float] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(time.monotonic())
            status = statuses[len(asked) - 1] if len(asked) <= len(statuses) else 200
            if not status:  # breaks off
                self.close_connection = True
                return
            lookup = {"fingerprint": None, "matches": [], "truncated": False, "reason": "x"}
            body = json.dumps({"profile": "x", "lookups": [lookup]}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if status == 503:
                self.send_header("Retry-After", retry_after)
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = closing

        def log_message(self, *said: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda request, address: None  # what a client does not like of it
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_tags_are_sent_and_come_back(client):
    (text,) = texts(1, seed=41)
    assert client.claim("tags/a", text, tags={"tenant": "a"}).accepted
    odd = {"tenant": "b", "名": "x=y&z"}
    client.add([simhbase.Document("tags/b", text, odd), simhbase.Document("tags/c", text)])
    assert client.document("tags/b") == simhbase.StoredDocument("tags/b", client.get("tags/b"), odd)
    assert client.document("tags/c").tags == {}
    assert client.document("tags/unknown") is None
    for tags, expected in (({"tenant": "a"}, ["tags/a"]), ({"名": "x=y&z"}, ["tags/b"]), (None, None)):
        matches = [match.id for match in client.find(text, tags=tags).matches]
        assert matches == (expected or ["tags/a", "tags/b", "tags/c"])
        matches = [match.id for match in client.neighbours("tags/c", Query(tags=tags or {})).matches]
        assert matches == (expected or ["tags/a", "tags/b"])


def test_answers_are_those_of_an_index(client: Client) -> None:
    report = client.add([simhbase.Document("one", ONE), simhbase.Document("short", "x")])
    assert (report.added, report.stored, report.rejected[0].id) == (1, 1, "short")
    lookup = client.find(ONE)
    assert lookup.fingerprint == client.get("one")
    assert lookup.matches == (simhbase.Match(0, "one", lookup.fingerprint or 0),)
    assert not lookup.truncated
    found = client.find_many([OTHER, "", ONE], k=0, since=datetime.now(UTC) - timedelta(hours=1))
    assert [len(each.matches) for each in found] == [0, 0, 1]
    assert found[1].reason


def test_documents_are_read_and_deleted_by_any_id(client: Client) -> None:
    for document in ("a/b", "x/neighbours", "..", "é?#", "北京"):
        client.add([simhbase.Document(document, THIRD)])
        assert client.get(document) is not None
        assert client.neighbours(document, Query(k=1)).fingerprint == client.get(document)
        assert client.delete([document, "unknown"]) == 1
        assert client.get(document) is None
        assert client.neighbours(document).reason


def test_claims_are_answered_as_an_index_does(client: Client) -> None:
    one, other = texts(2, seed=5)
    assert client.claim("claimed", one).accepted
    assert client.claim("claimed", one).accepted
    duplicate = client.claim("late", one)
    assert (duplicate.outcome, duplicate.match and duplicate.match.id) == ("duplicate", "claimed")
    with pytest.raises(Conflict, match="claimed"):
        client.claim("claimed", other)
    several = client.claim_many([simhbase.Document("claimed", one), simhbase.Document("short", "x")])
    assert [each.outcome for each in several] == ["accepted", "rejected"]


def test_documents_are_muted_and_unmuted(client: Client) -> None:
    (text,) = texts(1, seed=50)
    client.add([simhbase.Document(each, text) for each in ("muted/1?&", "muted 2")])
    (fingerprint,) = {match.fingerprint for match in client.find(text).matches}
    assert client.mute(["muted/1?&"], until=datetime.now(UTC) + timedelta(days=1), note="asked for") == 1
    assert [match.id for match in client.find(text).matches] == ["muted 2"]
    assert client.mute(["muted/1?&"], [fingerprint]) == 1
    assert client.find(text).matches == ()
    assert [(entry.id, entry.until) for entry in client.muted()] == [("muted/1?&", None), (None, None)]
    assert client.unmute(["muted/1?&", "nobody"], [fingerprint]) == 2
    assert client.muted() == []
    with pytest.raises(BadInput, match="the id is empty"):
        client.mute([""])


def test_texts_are_compared_and_explained(client: Client) -> None:
    assert client.compare(ONE, ONE).match is True
    assert len(client.explain(ONE, k=2).drawers) == 10
    assert client.status().access == "write"


def test_documents_come_in_any_form_and_are_listed(client: Client) -> None:
    some = texts(1234, words=20, seed=5)
    rows = [{"id": n, "text": text, "tags": {"form": "any"}} for n, text in enumerate(some)]
    with patch("simhbase.online.client.REQUEST", (100, 1_000_000)):
        report = client.add(pa.Table.from_pylist([*rows, {"id": 5000, "text": None}]))
        assert (report.stored, report.rejected) == (1234, (Rejected("5000", "the text is missing (None)"),))
        found = client.find_many((some[number] for number in (3, 700)), tags={"form": "any"})
        assert [lookup.matches[0].id for lookup in found] == ["3", "700"]
        claims = client.claim_many([(3, some[3]), ("c", None), (4, some[4])])
    assert [claim.outcome for claim in claims] == ["accepted", "rejected", "accepted"]
    listed = {each.id: each for each in client.stored(tags={"form": "any"})}
    assert len(listed) == 1234
    assert listed["7"] == client.document("7")
    for since in (datetime.now(UTC), timedelta(0), "0s", datetime.now(UTC).isoformat()):
        assert list(client.stored(since=since, tags={"form": "any"})) == []


def test_texts_are_annotated_with_what_they_are_near_to(client: Client) -> None:
    (text,) = texts(1, seed=55)
    given = [("note/1", text), ("note/2", text), ("note/3", "?"), ("note/4", None)]
    for _ in range(2):  # a claim that is repeated gets the same answer
        claims = client.claim_many(given, mode="annotate")
        assert [claim.outcome for claim in claims] == ["accepted", "accepted", "rejected", "rejected"]
        assert [[match.id for match in claim.also_at] for claim in claims] == [[], ["note/1"], [], []]
    with simhbase.open("memory:", create=simhbase.Profile(verify=False)) as index:
        assert index.claim_many(given, mode="annotate") == claims
        assert "x" * 1025 not in index
        assert index.claim_many([("x" * 1025, text)], mode="annotate")[0].outcome == "rejected"
        with pytest.raises(UsageError, match="mode: must be refuse or annotate"):
            index.claim_many(given, mode="note")  # type: ignore[arg-type]


def test_words_of_a_text_are_weighed(client: Client) -> None:
    with simhbase.open("memory:", create=simhbase.Profile(verify=False)) as index:
        assert client.features(ONE) == index.features(ONE) != []
    with simhbase.open("memory:", create="short") as index, pytest.raises(UsageError, match="only words"):
        index.features(ONE)


def test_tasks_ask_at_once_and_get_the_answers_of_the_client(service: Service) -> None:
    own = [(f"task/{number}", text) for number, text in enumerate(texts(20, seed=9))]

    async def ask() -> None:
        async with AsyncClient(service.url) as client:
            assert (await client.add(own)).stored == 20
            found = await asyncio.gather(*(client.find(text) for _, text in own))
            assert [lookup.matches[0].id for lookup in found] == [name for name, _ in own]
            claim = await client.claim("task/copy", own[0][1])
            assert (claim.outcome, claim.match and claim.match.id) == ("duplicate", "task/0")
            assert await client.get("task/1") == found[1].fingerprint
            assert {name for name, _ in own} <= {each.id async for each in client.stored()}
            with pytest.raises(Conflict):
                await client.claim("task/1", own[0][1] * 3 + OTHER)
            await client.close()

    asyncio.run(ask())


ALONE = """
import asyncio, sys

class Guard:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in {"simhbase", "msgspec", "urllib3"} and top not in sys.stdlib_module_names:
            raise ImportError(f"{name} is not installed here")

sys.meta_path.insert(0, Guard())
import simhbase

with simhbase.Client(sys.argv[1]) as client:
    print(client.add([{"id": "alone", "text": sys.argv[2]}]).stored, len(client.find(sys.argv[2])))

async def ask():
    async with simhbase.AsyncClient(sys.argv[1]) as client:
        print((await client.claim("alone", sys.argv[2])).outcome)

asyncio.run(ask())
"""


def test_a_client_needs_msgspec_and_urllib3_and_no_other_package(service: Service) -> None:
    (text,) = texts(1, seed=31)
    command = [sys.executable, "-c", ALONE, service.url, text]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["1", "1", "accepted"], done.stderr


def test_both_clients_have_the_same_methods() -> None:
    def methods(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert methods(AsyncClient) == methods(Client)


def test_what_the_service_refuses_is_said_at_once(client: Client) -> None:
    with pytest.raises(BadInput, match="0 to 3 with layout 5x2"):
        client.find(ONE, k=9)
    with pytest.raises(BadInput, match="at most 100"):
        client.find_many([ONE] * 101)
    with pytest.raises(BadInput, match="larger than 1,048,576 bytes"):
        client.find("x" * 3_000_000)
    with pytest.raises(UsageError, match="cannot be sent"):
        client.find("half of a pair: \ud800")
    with pytest.raises(UsageError, match="Unicode"):
        client.get("\ud800")
    with pytest.raises(UsageError, match="list"):
        client.delete("one")


def test_many_threads_share_a_client(client: Client) -> None:
    client.add([simhbase.Document("shared", ONE)])
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: client.find(ONE).matches, range(200)))
    assert len(set(found)) == 1


def test_a_child_of_a_fork_opens_connections_of_its_own(client: Client) -> None:
    client.status()
    context = multiprocessing.get_context("fork")
    ended = context.Queue()
    child = context.Process(target=lambda: ended.put(client.status().access))
    child.start()
    assert ended.get(timeout=30) == "write"
    child.join()
    assert client.status().access == "write"


def test_a_connection_that_was_closed_meanwhile_is_replaced() -> None:
    with answering(closing=True) as (url, asked), Client(url) as client:
        assert [client.find(ONE).reason for _ in range(3)] == ["x"] * 3
    assert len(asked) == 3


@pytest.mark.parametrize("statuses", [(503,), (503, 503, 503), (0,), (0, 503, 502, 0), (429, 504)])
def test_a_service_that_is_away_is_asked_again(statuses: tuple[int, ...]) -> None:
    with answering(*statuses) as (url, asked), Client(url) as client:
        assert client.find(ONE).reason == "x"
    assert len(asked) == len(statuses) + 1


def test_the_client_waits_as_long_as_the_service_asks_it_to() -> None:
    with answering(503, retry_after="1") as (url, asked), Client(url) as client:
        client.find(ONE)
    assert asked[1] - asked[0] >= 0.5  # with jitter


def test_a_call_ends_when_its_time_is_up() -> None:
    start = time.monotonic()
    turned_away = pytest.raises(StoreUnreachable)
    with answering(*[503] * 1000) as (url, _), Client(url, timeout=0.5) as client, turned_away:
        client.find(ONE)
    assert time.monotonic() - start < 30  # and not for ever
    with answering(503, retry_after="3600") as (url, asked), Client(url) as client, turned_away:
        client.find(ONE)
    assert len(asked) == 1


def test_a_service_that_says_nothing_is_not_waited_for_longer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Client(url, timeout=0.3) as client, pytest.raises(StoreUnreachable, match="does not answer"):
            client.find(ONE)


def saying(head: str, body: Iterable[bytes]) -> AbstractContextManager[str]:
    """A server that answers every request with these headers and this body, part by part."""
    return saying_bytes(chain([f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode()], body))


@contextmanager
def saying_bytes(parts: Iterable[bytes]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            for part in parts:
                self.wfile.write(part)

        do_POST = do_GET  # noqa: N815  # as the library names it

        def log_message(self, *said: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda request, address: None  # the client hangs up
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Again:
    """Parts that are made anew for each request."""

    def __init__(self, parts: Callable[[], Iterator[bytes]]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[bytes]:
        return self._parts()


def dripping() -> Iterator[bytes]:
    while True:
        yield b" "
        time.sleep(0.01)


@pytest.mark.parametrize(
    "parts",
    [
        [b'HTTP/1.1 401 No\r\n\r\n{"error":{"code":"unauthorized","message":"%s","request_id":""}}'],
        [b"%s\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n"],
    ],
)
def test_a_server_that_repeats_the_token_does_not_show_it(
    parts: Sequence[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "FIRST_PAUSE", 60.0)  # the first answer is the only one
    token = "5ec4e7" * 20
    said = [part % f"Bearer {token}".encode() for part in parts]
    with (
        saying_bytes(said) as url,
        Client(url, token=token, timeout=20) as client,
        pytest.raises(SimhbaseError) as failed,
    ):
        client.status()
    assert "Bearer ..." in str(failed.value)
    assert "5ec4e7" not in str(failed.value)
    assert "5ec4e7" not in "".join(traceback.format_exception(failed.value))


@pytest.mark.parametrize("head", ["Content-Length: 1000000", "Connection: close"])
def test_an_answer_that_drips_is_not_waited_for(head: str) -> None:
    # By the deadline of the answer, or by the wait for its last piece, which ends at the same time.
    late = pytest.raises(StoreUnreachable, match=r"timed out|not complete in time")
    with saying(head, dripping()) as url, Client(url, timeout=0.5) as client, late:
        client.status()


@pytest.mark.parametrize("status", [b"HTTP/1.1 200 OK\r\n", b""])
def test_headers_that_drip_are_not_waited_for(status: bytes) -> None:
    late = pytest.raises(StoreUnreachable, match=r"timed out|not complete in time")
    begun = time.monotonic()
    with saying_bytes(chain([status], dripping())) as url, Client(url, timeout=0.5) as client, late:
        client.status()
    assert time.monotonic() - begun < 5


@contextmanager
def taking_slowly(pause: float) -> Iterator[str]:
    """A server that reads 64 kB of a request, again and again after this many seconds, and answers then."""

    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, suppress(ConnectionError):
            received = b""
            while b"}" not in received[-1:]:
                time.sleep(pause)
                received = connection.recv(1 << 16)
            body = b'{"profile": "0", "lookups": [], "warnings": []}'
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        threading.Thread(target=serve, args=[listening], daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("seconds", [30, 1])
def test_a_long_request_has_all_of_its_time_to_be_sent(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simhbase.online.client.CONNECT_SECONDS", 0.5)
    refused = pytest.raises(PermanentError, match="0 answers to 1")  # it was sent, and an answer came
    late = pytest.raises(StoreUnreachable, match="the request was not sent in time")
    with taking_slowly(0.02) as url, Client(url, timeout=seconds) as client, refused if seconds > 1 else late:
        client.find_many(["a" * (8 << 20)])


def test_a_compressed_answer_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(1 << 20))
    head = f"Content-Encoding: gzip\r\nContent-Length: {len(bomb)}"
    refused = pytest.raises(PermanentError, match="answers in gzip, which was not asked for")
    with saying(head, [bomb]) as url, Client(url) as client, refused:
        client.status()


def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MOST_BYTES", 1 << 25)
    refused = pytest.raises(PermanentError, match="more than 33,554,432 bytes")
    with saying("Connection: close", repeat(bytes(1 << 20))) as url, Client(url) as client, refused:
        client.find(ONE)


def test_an_answer_that_lists_no_documents_is_given_up_sooner() -> None:
    """Its values may be of any kind: many small ones take 20 times their bytes, and a minute to decode."""
    refused = pytest.raises(PermanentError, match="more than 16,777,216 bytes")
    parts = chain([b'{"parameters":{"a":['], repeat(b"[]," * (1 << 18)))
    with saying("Connection: close", parts) as url, Client(url) as client, refused:
        client.status()


def test_an_answer_that_is_cut_off_is_no_answer() -> None:
    cut = pytest.raises(StoreUnreachable, match="does not answer")
    with saying("Content-Length: 100", [b"{}"]) as url, Client(url, timeout=0.3) as client, cut:
        client.status()


def test_no_service_at_all_is_said_with_its_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    refused = pytest.raises(StoreUnreachable, match=f"{port} does not answer: \\[Errno.*running")
    with Client(f"http://127.0.0.1:{port}", timeout=0.3) as client, refused:
        client.find(ONE)


def test_a_certificate_that_is_not_to_be_trusted_is_said_at_once(tmp_path: Path) -> None:
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key", "-out", "cert"]
    subprocess.run(
        [*made, "-days", "1", "-subj", "/CN=localhost"], cwd=tmp_path, check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    refused = pytest.raises(PermanentError, match="untrusted certificate")
    with answering(tls=context) as (url, asked), refused:
        Client(url.replace("http", "https"), timeout=3600).find(ONE)
    assert asked == []


def test_what_others_say_is_cut_and_leaves_the_terminal_alone() -> None:
    said = {"code": "invalid", "message": "\x1b[2J\u202e\x9b" + "a" * 100_000, "request_id": "r\x1b" * 5_000}
    body = json.dumps({"error": said | {"details": []}}).encode()
    head = f"HTTP/1.1 422 X\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with saying_bytes([head, body]) as url, Client(url) as client, pytest.raises(BadInput) as refused:
        client.status()
    message = str(refused.value)
    assert r"\x1b[2J\u202e\x9baaa" in message
    assert message.isprintable()
    assert len(message) < 20_000


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        ("HTTP/1.1 206 Partial Content\r\nContent-Length: {}", "status 206"),
        ("HTTP/1.1 204 No Content", "status 204"),
        ("HTTP/1.1 200 OK\r\nContent-Length: -5", "its Content-Length is -5"),
        ("HTTP/1.1 200 OK\r\nContent-Length: \u0662", "its Content-Length is"),
    ],
)
def test_what_may_be_a_part_of_an_answer_is_no_answer(head: str, problem: str) -> None:
    body = b'{"muted": []}'
    sent = [f"{head.format(len(body))}\r\n\r\n".encode(), body]
    refused = pytest.raises(PermanentError, match=problem)
    with saying_bytes(sent) as url, Client(url, timeout=5) as client, refused:
        client.muted()


@pytest.mark.parametrize(
    ("said", "passed_on"), [(["w"] * 1_000_000, 1), ([str(each) for each in range(11_234)], 11)]
)
def test_a_service_does_not_decide_how_many_warnings_there_are(said: list[str], passed_on: int) -> None:
    lookup = {"fingerprint": None, "matches": [], "truncated": False, "reason": "x"}
    body = json.dumps({"profile": "x", "lookups": [lookup], "warnings": said}).encode()
    head, warning = f"Content-Length: {len(body)}", pytest.warns(ShortTexts)
    with saying(head, [body]) as url, Client(url) as client, warning as warned:
        client.find(ONE)
    assert len(warned) == passed_on
    if passed_on > 1:
        assert str(warned[-1].message) == "and 11,224 more warnings"


LOOKUPS = b'{"profile": "x", "lookups": [], "warnings": []}'
CLAIMS = b'{"profile": "x", "claims": [], "warnings": []}'
PAGE = b'{"profile": "x", "documents": [], "after": "a"}'


@pytest.mark.parametrize(
    ("body", "call", "problem"),
    [
        (LOOKUPS, lambda client: client.find(ONE), "it has 0 answers to 1$"),
        (CLAIMS, lambda client: client.claim("a", ONE), "it has 0 answers to 1$"),
        (PAGE, lambda client: list(client.stored()), "its pages of documents come to no end$"),
    ],
)
def test_answers_that_no_service_gives_are_said(
    body: bytes, call: Callable[[Client], object], problem: str
) -> None:
    refused = pytest.raises(PermanentError, match=f"does not answer like a simhbase service: {problem}")
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with saying_bytes([head, body]) as url, Client(url, timeout=5) as client, refused:
        call(client)


@pytest.mark.parametrize("pages", [2, 3, 7, None])  # pages until one comes again
def test_pages_of_documents_that_come_to_no_end_are_refused(
    pages: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simhbase.online.client.MOST_EMPTY", 50)
    numbers = count() if pages is None else cycle(range(pages))

    def page() -> Iterator[bytes]:
        body = b'{"documents": [], "after": "%d"}' % next(numbers)
        yield b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    endless = pytest.raises(PermanentError, match=r"its pages of documents come to no end$")
    with saying_bytes(Again(page)) as url, Client(url, timeout=5) as client, endless:
        list(client.stored())


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:80",
        "ftp://host",
        "http://",
        "http://host:99999",
        "http://[::1",
        "https://secret@host",
        "http://host/?code=secret",
        "http://host/#secret",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is not the address") as refused:
        Client(url)
    assert "secret" not in str(refused.value)


def test_tokens_are_sent_and_missing_ones_are_said(tmp_path: Path) -> None:
    simhbase.open(f"rocksdb:{tmp_path}/store", create=simhbase.Profile(verify=False)).close()
    (tmp_path / "tokens").write_text(f"read {'r' * 16}\nwrite {'w' * 16}\n")
    with serving("rocksdb:store", tmp_path, "--token-file", "tokens") as service:
        with Client(service.url) as client, pytest.raises(AccessDenied, match="token is required"):
            client.find(ONE)
        with Client(service.url, token="r" * 16) as client:
            assert client.find(ONE).matches == ()
            with pytest.raises(AccessDenied, match="only allows reading"):
                client.add([simhbase.Document("one", ONE)])
        with Client(service.url, token="w" * 16) as client:
            assert client.add([simhbase.Document("one", ONE)]).added == 1
    with pytest.raises(UsageError, match="this one has others"):
        Client(service.url, token="ü")
    with pytest.raises(UsageError, match="spaces or line breaks: give only the token") as refused:
        Client(service.url, token=f"write {'w' * 16}\n")
    assert "www" not in str(refused.value)


def test_callers_do_not_notice_that_the_service_is_restarted(tmp_path: Path) -> None:
    url = f"rocksdb:{tmp_path}/store"
    simhbase.open(url, create=simhbase.Profile(verify=False)).close()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    going_on, added = threading.Event(), list[str]()
    going_on.set()

    def work(client: Client, worker: int) -> None:
        number = 0
        while going_on.is_set():
            name = f"{worker}/{number}"
            assert client.add([simhbase.Document(name, f"{ONE} {name}")]).stored == 1
            added.append(name)
            number += 1

    def await_more(workers: Sequence[Future[None]]) -> None:
        enough = len(added) + 20
        while len(added) < enough:
            for worker in workers:
                assert not worker.done(), worker.exception()
            time.sleep(0.01)

    with Client(f"http://127.0.0.1:{port}", timeout=120) as client, ThreadPoolExecutor(4) as pool:
        with serving(url, tmp_path, "--port", port):
            workers = [pool.submit(work, client, worker) for worker in range(4)]
            await_more(workers)
        with serving(url, tmp_path, "--port", port):
            await_more(workers)
            going_on.clear()
            for worker in workers:
                worker.result()
    with simhbase.open(url) as index:
        assert None not in index.fingerprints(added)


def test_long_documents_are_sent_a_few_at_a_time(tmp_path):
    """A service takes four million characters at once."""
    simhbase.open(f"rocksdb:{tmp_path}/store", create=simhbase.Profile(verify=False)).close()
    words = "some words of a text " * 20_000
    long = [simhbase.Document(f"long{number}", f"{number} {words}") for number in range(12)]
    with serving("rocksdb:store", tmp_path) as service, Client(service.url) as client:
        assert client.add(long).stored == 12
        found = client.find_many([document.text for document in long])
        assert [lookup.matches[0].distance for lookup in found] == [0] * 12
        assert service.post("/v1/find", {"texts": [words] * 12}).status == 413
