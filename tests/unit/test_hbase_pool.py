"""How many connections there are, how long an operation takes, and which gateways are asked: with gateways
that are none."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from typing import Any

import pytest
from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.thrift import TProcessor
from thriftpy2.transport import TBufferedTransportFactory, TSocket

from simhbase.errors import StoreFailed, StoreUnreachable
from simhbase.stores import attempts
from simhbase.stores.hbase import HBaseStore, pool
from simhbase.stores.hbase.interface import RetryingIOError, Thrift1
from simhbase.stores.hbase.url import parse

LOCALHOST = "127.0.0.1"
TRowResult = Thrift1.getRowsWithColumns_result.thrift_spec[0][2][1]
TCell = TRowResult.thrift_spec[2][2][1][1]


class Stub:
    """A Thrift 1 gateway whose rows all exist. `delay`: seconds before each answer to a read."""

    def __init__(self, delay: float = 0.0, port: int = 0) -> None:
        self.delay = delay
        self._gate: threading.Event | None = None
        self.answers = True
        self.refuses = False
        self.connections = self.open = self.most_open = self.calls = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server((LOCALHOST, port), backlog=128)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Stub":
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    @contextmanager
    def holding(self) -> Iterator[Callable[[], None]]:
        """The next read waits until the block ends; what it gives waits until that read has come."""
        gate, before = threading.Event(), self.calls
        self._gate = gate
        try:
            yield lambda: wait_until(lambda: self.calls > before)
        finally:
            gate.set()

    def isTableEnabled(self, tableName: bytes) -> bool:  # noqa: N802, N803
        return True

    def getRowsWithColumns(self, tableName, rows, columns, attributes):  # noqa: N802, N803
        with self._lock:
            gate, self._gate = self._gate, None
            self.calls += 1
        if gate is not None:
            gate.wait()
        time.sleep(self.delay)
        if self.refuses:
            error = RetryingIOError(b"org.apache.X: later\n\tat Y")
            error.canRetry = True
            raise error
        return [TRowResult(row=row, columns={columns[0]: TCell(value=b"v", timestamp=7)}) for row in rows]

    def atomicIncrement(self, tableName, row, column, value):  # noqa: N802, N803
        return value

    def _accept(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _take(self, process_in: Callable[[Any], Any], protocol: Any) -> Any:
        taken = process_in(protocol)
        while not self.answers:
            time.sleep(0.01)
        return taken

    def _serve(self, client: socket.socket) -> None:
        with self._lock:
            self.connections += 1
            self.open += 1
            self.most_open = max(self.open, self.most_open)
        with client, suppress(Exception):
            transport = TBufferedTransportFactory().get_transport(TSocket(sock=client))
            protocol = TBinaryProtocolFactory().get_protocol(transport)
            processor = TProcessor(Thrift1, self)
            processor.process_in = partial(self._take, processor.process_in)
            while True:
                processor.process(protocol, protocol)
        with self._lock:
            self.open -= 1


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as stub:
        yield stub


@pytest.fixture
def opened() -> Iterator[Callable[..., HBaseStore]]:
    with ExitStack() as stack:

        def open_at(*ports: int, timeout: float = 5, **options: object) -> HBaseStore:
            gateways = ",".join(f"{LOCALHOST}:{port}" for port in ports)
            query = "".join(f"&{name}={value}" for name, value in options.items())
            store = HBaseStore(parse(f"hbase://{gateways}/p?timeout={timeout}{query}"), "write")
            return stack.enter_context(closing(store))

        yield open_at


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60  # which only a hang reaches
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def get(store: HBaseStore, keys: int = 1) -> None:
    found = store.records("documents").get([b"%d" % key for key in range(keys)])
    assert [cell and cell.version for cell in found] == [7] * keys


def test_threads_share_the_connections_of_a_process(stub, opened):
    store = opened(stub.port, connections=3)
    stub.delay = 0.02
    with ThreadPoolExecutor(20) as threads:
        list(threads.map(lambda _: [get(store, keys=500) for _ in range(5)], range(20)))
    assert stub.most_open <= 3
    assert stub.connections <= 3


def test_it_says_how_many_connections_are_in_use_and_waited_for(stub, opened):
    store = opened(stub.port, connections=1, timeout=60)
    unused = {"connections_allowed": 1, "connections_in_use": 0, "connections_waiting": 0}
    assert store.gauges() == unused
    with ThreadPoolExecutor(2) as threads:
        with stub.holding():
            calls = [threads.submit(get, store) for _ in range(2)]
            wait_until(lambda: tuple(store.gauges().values()) == (1, 1, 1))
        for call in calls:
            call.result()
    assert store.gauges() == unused


def test_an_operation_goes_on_with_the_connections_that_are_there(stub, opened):
    store = opened(stub.port, connections=2, timeout=60)
    get(store, keys=500)
    with ThreadPoolExecutor(1) as threads:
        with stub.holding() as wait_for_it:
            slow = threads.submit(get, store)
            wait_for_it()
            get(store, keys=500)
            assert not slow.done()
        slow.result()
    assert stub.connections == 2


def test_a_large_operation_lets_others_in(stub, opened):
    store = opened(stub.port, connections=2, timeout=120)
    stub.delay = 0.1
    with ThreadPoolExecutor(1) as threads:
        large = threads.submit(get, store, 30_000)
        wait_until(lambda: stub.calls > 0)
        get(store)
        assert not large.done()
        large.result()


def test_a_thread_waits_for_a_free_connection_no_longer_than_it_may(stub, opened):
    store = opened(stub.port, connections=1, timeout=0.5)
    patient = opened(stub.port, connections=1, timeout=60)
    patient._client._pool = store._client._pool
    with ThreadPoolExecutor(1) as threads:
        with stub.holding() as wait_for_it:
            slow = threads.submit(get, patient)
            wait_for_it()
            with pytest.raises(StoreUnreachable, match="all 1 connections are in use by other threads"):
                get(store)
            assert not slow.done()
        slow.result()


@pytest.mark.parametrize("keys", [1, 20_000])
def test_the_time_limit_is_one_of_the_whole_operation(stub, opened, keys):
    """Also where each of its calls takes less."""
    store, stub.delay = opened(stub.port, connections=1, timeout=1.5), 6.0 if keys == 1 else 0.4
    with pytest.raises(StoreUnreachable, match=r"within 1\.5 s"):
        get(store, keys)  # without a limit it would come back after 6 s, or 16


def test_the_time_limit_holds_for_all_retries_with_what_explains_the_error(stub, opened):
    store, stub.refuses = opened(stub.port, timeout=1.5), True
    with pytest.raises(StoreUnreachable, match="X: later"):
        get(store)
    assert store.counters()["retries"] == stub.calls - 1 > 1
    assert store.counters()["slow_operations"] == 1


def test_an_outage_is_said_at_its_beginning_once_a_minute_and_at_its_end(opened, caplog, monkeypatch):
    monkeypatch.setattr(attempts, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(attempts, "SAID_EVERY", 1.0)
    with Stub() as one, Stub() as other:
        store = opened(one.port, other.port, timeout=5)
    with pytest.raises(StoreUnreachable):
        get(store)
    assert store.counters()["retries"] > 4
    gateways = [f"gateway {LOCALHOST}:{stub.port}" for stub in (one, other)]
    beginnings = [*(f"{gateway} rests" for gateway in gateways), "waiting for"]
    for beginning in beginnings:
        said = [record.message for record in caplog.records if record.message.startswith(beginning)]
        assert [", since " in each for each in said] == [False, *[True] * (len(said) - 1)]
        assert 2 <= len(said) <= 6  # a busy machine tries less often than once a second
    caplog.clear()
    with Stub(port=one.port):
        get(store)
    ends = [record.message.partition(" answers again, after ")[0] for record in caplog.records]
    assert ends == [gateways[0], store.url]


def test_while_all_gateways_are_gone_a_store_that_fails_fast_says_so_at_once(opened, monkeypatch):
    monkeypatch.setattr(attempts, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(attempts, "TRIED_EVERY", 3600.0)
    with Stub() as one, Stub() as other:
        store = opened(one.port, other.port, timeout=3600)
        store.fail_fast()
    cause = f"{LOCALHOST}:{one.port}: Connection refused"
    with pytest.raises(StoreUnreachable, match=f"reading p_documents failed: .*{cause}"):
        get(store)
    with Stub(port=one.port):
        with pytest.raises(StoreUnreachable, match=f"no answer for 0 s: .*{cause}.* gateways run there"):
            get(store)  # of many callers one is let through, in an hour
        store._outage._next = 0.0
        get(store)
        get(store)


def test_a_region_that_is_away_is_waited_for_while_gateways_answer(stub, opened, monkeypatch):
    monkeypatch.setattr(attempts, "SILENT_SECONDS", 0.1)
    store = opened(stub.port, timeout=60)
    store.fail_fast()
    stub.refuses = True
    threading.Timer(1.0, setattr, (stub, "refuses", False)).start()
    get(store)
    assert store.counters()["retries"] > 1


def test_a_gateway_that_takes_connections_and_says_nothing_costs_its_time_once(stub, opened, monkeypatch):
    monkeypatch.setattr(pool, "OPENING_LIMIT", 1.0)
    with Stub() as silent:
        silent.answers = False
        store = opened(silent.port, stub.port, timeout=20)
        for _ in range(6):
            get(store, keys=500)
            store._client._pool.discard(store._client._pool.take(8, time.monotonic() + 1))
        assert silent.connections == 3  # after the first, it is asked for SASL and for plain Thrift
        assert store.counters()["resting_gateways"] == 1


def test_a_gateway_that_falls_silent_costs_its_time_once(opened, monkeypatch):
    with Stub() as one, Stub() as other:
        store = opened(one.port, other.port, timeout=8)
        get(store, keys=5_000)
        assert one.connections
        assert other.connections
        one.answers = False
        for _ in range(10):
            get(store, keys=500)
        assert 1 <= store.counters()["abandoned_calls"] < 5
        one.answers = True


def test_open_connections_are_used_on_where_a_gateway_refuses_new_ones(stub, opened, monkeypatch, caplog):
    """It answered the probe, such as without a Kerberos ticket that is still valid: it does not hang."""

    def refuse(*arguments: object) -> None:
        raise StoreFailed("the ticket has expired")

    pool_of = opened(stub.port)._client._pool
    monkeypatch.setattr(pool, "connect", refuse)
    pool_of.require_life(pool_of._gateways[0], 1.0)
    assert "the ticket has expired" in caplog.text


def test_what_is_no_gateway_among_some_that_are_is_left_out(stub, opened, caplog):
    with socket.create_server((LOCALHOST, 0)) as web:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = web.accept()
                    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    client.close()

        threading.Thread(target=serve, daemon=True).start()
        port = web.getsockname()[1]
        store = opened(port, stub.port)
        for _ in range(5):
            get(store, keys=500)
        assert f"{LOCALHOST}:{port} speaks HTTP" in caplog.text
        with pytest.raises(StoreFailed, match="speaks HTTP"):
            get(opened(port))
        web.shutdown(socket.SHUT_RDWR)


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_child_process_has_connections_of_its_own(stub, opened):
    store = opened(stub.port, connections=2)
    get(store, keys=500)
    child = os.fork()
    if not child:
        code = 1
        try:
            for _ in range(5):
                get(store, keys=500)
            code = 0
        finally:
            os._exit(code)
    for _ in range(5):
        get(store, keys=500)
    assert os.waitpid(child, 0)[1] == 0
    assert stub.connections == 4


def test_nothing_is_logged_where_nothing_goes_wrong(stub, opened, caplog):
    with caplog.at_level(logging.INFO, logger="simhbase"):
        store = opened(stub.port)
        get(store, keys=500)
        assert store.records("meta").increment(b"n") == 1
    assert not caplog.records
    assert store.counters() == dict.fromkeys(store.counters(), 0) | {"operations": 2}
