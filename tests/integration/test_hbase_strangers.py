"""What answers in the place of a gateway is named, and nothing hangs."""

import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from thriftpy2.protocol import TBinaryProtocol, TBinaryProtocolFactory, TCompactProtocolFactory
from thriftpy2.thrift import TProcessor
from thriftpy2.transport import TBufferedTransportFactory, TFramedTransportFactory, TMemoryBuffer, TSocket

from simhbase.errors import SimhbaseError, StoreFailed, StoreUnreachable
from simhbase.stores import open_store
from simhbase.stores.hbase import url
from simhbase.stores.hbase.connection import ConnectionLost, GatewaySocket, connect
from simhbase.stores.hbase.interface import Thrift1, thrift2
from simhbase.stores.hbase.requests import Request
from simhbase.stores.hbase.wires import Security
from tests.command_line import run_alone
from tests.contract.plain import Values
from tests.relay import LOCALHOST, Relay

Handler = Callable[[socket.socket], None]


def assert_refused(error: type[SimhbaseError], message: str, port: int, **options: object) -> None:
    """Opening a store there raises an error with these words in it."""
    limit = 1 if error is StoreUnreachable else 20  # seconds: the others are told at once
    query = "&".join(f"{name}={value}" for name, value in ({"timeout": limit} | options).items())
    with pytest.raises(error, match=re.escape(message)):
        open_store(f"hbase://{LOCALHOST}:{port}/simhbase?{query}", "read")


@contextmanager
def serving(handle: Handler) -> Iterator[int]:
    """The port of a server that does the same with each connection, and hangs up at the first error."""
    with socket.create_server((LOCALHOST, 0)) as listener:

        def serve() -> None:
            with suppress(OSError):  # it is closed
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=answer, args=(connection,), daemon=True).start()

        def answer(connection: socket.socket) -> None:
            with connection, suppress(Exception):
                handle(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


class Gateway:
    """Answers the one question that a new connection is asked."""

    def getThriftServerType(self) -> int:  # noqa: N802  # the name in Thrift
        return 1


def thrift(protocols: Any, transports: Any) -> Handler:
    """A Thrift server of some protocol over some transport."""

    def handle(connection: socket.socket) -> None:
        protocol = protocols.get_protocol(transports.get_transport(TSocket(sock=connection)))
        processor = TProcessor(thrift2.Reading, Gateway())
        while True:
            processor.process(protocol, protocol)

    return handle


@pytest.mark.parametrize(
    ("protocol", "transport", "message"),
    [
        (TBinaryProtocolFactory(), TFramedTransportFactory(), "speaks Thrift in frames: start it without -f"),
        (TCompactProtocolFactory(), TBufferedTransportFactory(), "speaks Thrift's compact protocol: start"),
        (TCompactProtocolFactory(), TFramedTransportFactory(), "speaks Thrift's compact protocol in frames"),
    ],
)
def test_a_thrift_server_of_another_protocol_is_named(protocol, transport, message):
    with serving(thrift(protocol, transport)) as port:
        assert_refused(StoreFailed, f"{LOCALHOST}:{port} {message}", port)


def test_a_web_server_is_named():
    with serving(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as port:
        assert_refused(StoreFailed, f"{LOCALHOST}:{port} speaks HTTP: add http=1 if it is a Thrift", port)


def test_another_server_is_named():
    with serving(lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.2")) as port:
        assert_refused(StoreFailed, f"{LOCALHOST}:{port} is no Thrift server: it says b'SSH-2.0", port)


def sasl(connection: socket.socket) -> None:
    """What libthrift 0.14 does that is set up for SASL: hangs up on all that is no SASL."""
    if connection.recv(1) == b"\x01":
        connection.recv(100)
        connection.sendall(b"\x03\x00\x00\x00\x20Unsupported mechanism type GSSAPI")


def old_sasl(connection: socket.socket) -> None:
    """What libthrift 0.12 does: says so first."""
    connection.recv(5)
    connection.sendall(b"\x04\x00\x00\x00\x13Invalid status -128")


@pytest.mark.parametrize("handle", [sasl, old_sasl])
def test_a_gateway_with_kerberos_is_named(handle):
    with serving(handle) as port:
        assert_refused(StoreFailed, f"{LOCALHOST}:{port} asks for SASL (Kerberos): add kerberos=", port)


class OverHttp(BaseHTTPRequestHandler):
    """A gateway by HTTP. It answers a request for somebody with what it says of a proxy user."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:  # the name there
        request = TMemoryBuffer(self.rfile.read(int(self.headers["Content-Length"])))
        if user := self.headers.get("doAs"):
            self.send_error(500, "Server Error", f"AuthorizationException: not allowed to impersonate {user}")
            return
        answer = TMemoryBuffer()
        TProcessor(thrift2.Reading, Gateway()).process(TBinaryProtocol(request), TBinaryProtocol(answer))
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer.getvalue())))
        self.end_headers()
        self.wfile.write(answer.getvalue())

    def log_message(self, *arguments: object) -> None: ...


@pytest.fixture
def web_gateway() -> Iterator[int]:
    with ThreadingHTTPServer((LOCALHOST, 0), OverHttp) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_requests_by_http_are_answered_in_order_also_where_many_are_under_way(web_gateway):
    gateway, limit = url.Gateway(LOCALHOST, web_gateway), time.monotonic() + 20
    with closing(connect(gateway, thrift2.Reading, 1, Security(http=True), limit)) as connection:
        requests = [Request("getThriftServerType", {}) for _ in range(50)]
        for request in requests:
            connection.write(request)
        connection.send()
        assert [connection.receive(request) for request in requests] == [1] * 50
        assert connection.is_usable()


def test_who_may_not_act_for_a_user_by_http_is_told_so_at_once(web_gateway):
    words = "HTTP 500 Server Error"
    assert_refused(StoreFailed, f"{LOCALHOST}:{web_gateway}: {words}", web_gateway, http=1, user="somebody")


def test_a_gateway_without_http_is_named():
    with serving(thrift(TBinaryProtocolFactory(), TBufferedTransportFactory())) as port:
        words = "speaks Thrift without HTTP: leave out http=1"
        assert_refused(StoreFailed, f"{LOCALHOST}:{port} {words}", port, http=1)


def endless(part: bytes) -> Handler:
    """Answers the first question with unknown fields that come to no end."""
    name = b"getThriftServerType"
    head = b"\x80\x01\x00\x02" + len(name).to_bytes(4) + name + bytes(4)

    def handle(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(head)
        while True:
            connection.sendall(part)

    return handle


A_FIELD = b"\x02\x00\x63\x01"  # number 99, a bool


def test_an_answer_without_end_is_refused_for_its_size(monkeypatch):
    monkeypatch.setattr("simhbase.stores.hbase.connection.MOST_BYTES", 1 << 20)
    with serving(endless(A_FIELD * 250_000)) as port:
        assert_refused(StoreFailed, f"{LOCALHOST}:{port}: an answer has more than 1 MiB", port)


@pytest.mark.parametrize("kinds", [b"\x0f\x00\x63\x01", b"\x0d\x00\x63\x02\x01"])
def test_elements_without_bytes_are_not_counted(kinds):
    """Of a list or map, some number of them in four bytes. The interpreter was held for seconds by each."""
    with serving(endless(kinds + b"\x7f\xff\xff\xff")) as port:
        started = time.process_time()
        words = "an answer that cannot be read (a value of a kind that Thrift does not have)"
        assert_refused(StoreUnreachable, words, port)
        assert time.process_time() - started < 2


@pytest.mark.parametrize(("kind", "key"), [(b"\x0b", bytes(4)), (b"\x03", b"\x00")])
def test_a_map_that_its_reader_takes_for_another_is_refused(kind, key):
    """Its values are texts, and rows of Thrift 1 have maps to structures: what a text holds would be read as
    a structure, whatever its key is, and was not looked at."""
    pair = key + bytes(4) + A_FIELD
    with serving(endless(b"\x0d\x00\x02" + kind + b"\x0b\x00\x00\x00\x01" + pair)) as port:
        assert_refused(StoreUnreachable, "an answer that cannot be read (a map to texts)", port)


def test_what_is_sent_without_end_does_not_outlast_the_time_limit():
    with serving(endless(A_FIELD)) as port:
        connection = GatewaySocket(url.Gateway(LOCALHOST, port), Security())
        connection.deadline = time.monotonic() + 10
        connection.open()
        connection.write(b"a question")
        connection.flush()
        connection.read(1)
        connection.deadline = time.monotonic()
        time.sleep(0.1)  # until there is more to read
        with closing(connection), pytest.raises(TimeoutError):
            connection.read(1)


def test_a_server_that_hangs_up_is_unreachable():
    with serving(lambda connection: None) as port:
        assert_refused(StoreUnreachable, f"did not succeed within 1 s: {LOCALHOST}:{port}: ", port)


def test_a_server_that_stays_silent_is_unreachable():
    with serving(lambda connection: connection.recv(1 << 20) and connection.recv(1)) as port:
        assert_refused(StoreUnreachable, f"{LOCALHOST}:{port}: no answer in time", port)


def test_a_host_without_a_server_is_unreachable():
    with socket.create_server((LOCALHOST, 0)) as reserved:
        port = reserved.getsockname()[1]
    assert_refused(
        StoreUnreachable,
        f"looking for simhbase_index did not succeed within 1 s: {LOCALHOST}:{port}: Connection refused",
        port,
    )


@pytest.mark.parametrize("command", [("stats",), ("tables", "check")])
def test_who_waits_for_a_host_without_a_server_is_told_so_before_the_end(tmp_path, command):
    with socket.create_server((LOCALHOST, 0)) as reserved:
        port = reserved.getsockname()[1]
    store = f"hbase://{LOCALHOST}:{port}/p?timeout=4"
    url = store if command == ("stats",) else f"{store}&thrift2={port}"
    done = run_alone(*command, "--store", url, cwd=tmp_path)
    assert done.returncode == 11
    waiting = f"waiting for {LOCALHOST}:{port}: Connection refused (4 s at most)"
    assert [line == waiting for line in done.stderr.decode().splitlines()] == [True, False]


def test_a_host_that_does_not_exist_is_unreachable():
    with pytest.raises(StoreUnreachable, match=r"no\.such\.host\.invalid:9090: "):
        open_store("hbase://no.such.host.invalid/?timeout=1", "read")


def test_all_gateways_are_tried_and_named():
    with socket.create_server((LOCALHOST, 0)) as one, socket.create_server((LOCALHOST, 0)) as other:
        ports = one.getsockname()[1], other.getsockname()[1]
    with pytest.raises(StoreUnreachable) as caught:
        open_store(f"hbase://{LOCALHOST}:{ports[0]},{LOCALHOST}:{ports[1]}/?timeout=1", "read")
    assert all(f"{LOCALHOST}:{port}: Connection refused" in str(caught.value) for port in ports)
    assert caught.value.exit_code == 11


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost with its key, both in one file."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-keyout", "key.pem", "-out", "certificate.pem", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", f"subjectAltName=IP:{LOCALHOST}"),
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return folder / "certificate.pem"


@pytest.fixture
def tls_server(certificate: Path) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))

    def handle(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            wrapped.recv(1)

    with serving(handle) as port:
        yield port


def test_a_gateway_with_tls_is_named(tls_server):
    assert_refused(StoreFailed, "speaks TLS: add tls=1", tls_server)


def test_a_gateway_without_tls_is_named():
    with serving(thrift(TBinaryProtocolFactory(), TBufferedTransportFactory())) as port:
        assert_refused(StoreFailed, "speaks without TLS: leave out tls=1", port, tls=1)


@pytest.mark.parametrize("tls", [0, 1])
def test_a_gateway_that_loses_its_first_connection_is_asked_again(certificate, tls):
    """It is not taken for one that speaks with TLS, or without, which it does anyway."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    answer = thrift(TBinaryProtocolFactory(), TBufferedTransportFactory())
    asked = []

    def handle(connection: socket.socket) -> None:
        if tls:
            connection = context.wrap_socket(connection, server_side=True)
        with connection:
            asked.append(connection)
            if len(asked) > 1:
                answer(connection)

    with serving(handle) as port:
        gateway, limit = url.Gateway(LOCALHOST, port), time.monotonic() + 5
        trusted = ssl.create_default_context(cafile=certificate) if tls else None
        with pytest.raises(ConnectionLost):
            connect(gateway, Thrift1, 1, Security(trusted), limit)
        connect(gateway, Thrift1, 1, Security(trusted), limit).close()


def test_a_certificate_that_nobody_vouches_for_is_refused(tls_server):
    words = "has a certificate that is not trusted (self-signed certificate): name the file"
    assert_refused(StoreFailed, f"{LOCALHOST}:{tls_server} {words}", tls_server, tls=1)


def test_a_file_without_certificates_is_refused(tls_server, tmp_path):
    (tmp_path / "ca.pem").write_text("nothing")
    words = f"ca={tmp_path / 'ca.pem'} holds no certificates"
    assert_refused(StoreFailed, words, tls_server, tls=1, ca=tmp_path / "ca.pem")


@pytest.mark.hbase
def test_a_gateway_is_used_through_tls(hbase, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    hbase.empty_store("tls")
    rows = [(b"%04d" % number, bytes(1000)) for number in range(2_000)]
    with Relay(hbase.gateway, context) as relay:
        url = f"hbase://{LOCALHOST}:{relay.port}/tls?connections=2&timeout=20&tls=1&ca={certificate}"
        with closing(open_store(url, "write")) as store:
            records = Values(store.records("documents"))
            records.put(rows)
            before = relay.connections
            assert records.get([key for key, _ in rows]) == [value for _, value in rows]
            assert records.scan([b""], 3_000) == [rows]
            assert relay.connections == before  # they are kept
            relay.cut()
            assert records.get([b"0001"]) == [bytes(1000)]
