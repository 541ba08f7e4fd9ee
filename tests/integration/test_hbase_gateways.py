"""Gateways that go, hang, come back and lose answers: what a store makes of it."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from simhbase.errors import StoreFailed, StoreUnreachable
from simhbase.stores import open_store
from simhbase.stores.base import Cell, RecordTable, Store
from simhbase.stores.hbase import HBaseStore, clocks, connection
from tests.cluster import Cluster
from tests.command_line import run
from tests.contract.plain import Values
from tests.relay import LOCALHOST, Relay

pytestmark = pytest.mark.hbase

PREFIX = "relayed"
ROWS = [(b"%04d" % number, b"value") for number in range(2_000)]
KEYS = [key for key, _ in ROWS]
VALUES = [value for _, value in ROWS]


@pytest.fixture
def relay(hbase: Cluster) -> Iterator[Relay]:
    hbase.empty_store(PREFIX)
    with Relay(hbase.gateway) as relay:
        yield relay


@pytest.fixture
def other(hbase: Cluster) -> Iterator[Relay]:
    with Relay(hbase.gateway) as relay:
        yield relay


def opened(*relays: Relay, **options: object) -> "closing[HBaseStore]":
    return closing(open_store(url_of(*relays, **options), "write"))


def url_of(*relays: Relay, **options: object) -> str:
    gateways = ",".join(f"{LOCALHOST}:{relay.port}" for relay in relays)
    query = "&".join(f"{name}={value}" for name, value in ({"timeout": 20} | options).items())
    return f"hbase://{gateways}/{PREFIX}?{query}"


def values(store: Store, table: RecordTable) -> Values:
    return Values(store.records(table))


# Connections that are idle


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Cluster]:
    """An HBase of its own whose gateway closes connections that were idle for 2 s."""
    cluster = Cluster(tmp_path)
    cluster.run("up", "-D", "hbase.thrift.server.socket.read.timeout=2000")
    yield cluster
    cluster.run("down")


@pytest.mark.full
def test_connections_that_a_gateway_closes_when_they_are_idle_are_not_used_again(impatient):
    with closing(open_store(impatient.empty_store(PREFIX), "write")) as store:
        records, meta = values(store, "documents"), values(store, "meta")
        records.put(ROWS)
        time.sleep(3)
        assert records.get(KEYS) == VALUES
        time.sleep(3)
        assert meta.compare_and_set(b"k", None, b"1")
        time.sleep(3)
        assert meta.increment(b"n") == 1  # a second attempt would have made it 2


def test_connections_are_recycled_before_a_gateway_would_close_them(relay, monkeypatch):
    with opened(relay, connections=1) as store:
        monkeypatch.setattr(connection, "IDLE_LIMIT", 0.2)
        values(store, "documents").get(KEYS)
        before = relay.connections
        values(store, "documents").get(KEYS)
        assert relay.connections == before
        time.sleep(0.3)
        values(store, "documents").get(KEYS)
        assert relay.connections == before + 1


# Gateways that go and come back


def test_connections_that_were_closed_while_idle_are_replaced(relay):
    with opened(relay) as store:
        records = values(store, "documents")
        records.put(ROWS)
        for _ in range(5):
            relay.cut()
            assert records.get(KEYS) == VALUES
            relay.cut()
            records.put(ROWS)


def test_connections_that_break_in_the_middle_of_calls_do_no_harm(relay):
    with opened(relay) as store:
        records = values(store, "documents")
        for method in ("mutateRows", "getRowsWithColumns"):
            relay.lose_answer_to(method)
            relay.lose_request_for(method)
        records.put(ROWS)
        assert records.get(KEYS) == VALUES
        for method in ("scannerOpenWithScan", "scannerGetList"):
            relay.lose_answer_to(method)
            relay.lose_request_for(method)
        assert records.scan([b""], len(ROWS) + 1) == [ROWS]
        assert relay.has_lost_all


def test_a_gateway_that_is_gone_is_said_to_be_so_in_time_and_used_when_it_is_back(relay):
    with opened(relay, timeout=2) as store:
        records = values(store, "documents")
        records.put(ROWS)
        relay.refuse()
        start = time.monotonic()
        with pytest.raises(StoreUnreachable, match=r"did not succeed within 2 s: .*Connection refused"):
            records.get(KEYS)
        assert time.monotonic() - start > 1.5
        relay.come_back()
        assert records.get(KEYS) == VALUES


def test_a_call_waits_for_a_gateway_that_comes_back(relay):
    with opened(relay) as store:
        records = values(store, "documents")
        records.put(ROWS)
        relay.refuse()
        back = threading.Timer(1.5, relay.come_back)
        back.start()
        assert records.get(KEYS) == VALUES
        back.join()


def test_the_work_of_a_gateway_that_goes_is_done_by_the_other(relay, other):
    with opened(relay, other) as store:
        records = values(store, "documents")
        records.put(ROWS)
        for gone, left in ((relay, other), (other, relay)):
            gone.refuse()
            before = left.connections
            assert records.get(KEYS) == VALUES
            records.put(ROWS)
            assert left.connections > before
            gone.come_back()


def test_a_read_leaves_a_gateway_that_hangs_for_the_other(relay, other):
    with opened(relay, other, timeout=8) as store:
        records = values(store, "documents")
        records.put(ROWS)  # all connections are open, to both
        relay.hang()
        assert records.get(KEYS) == VALUES
        abandoned = store.counters()["abandoned_calls"]
        for _ in range(5):
            assert records.get(KEYS) == VALUES
        assert store.counters()["abandoned_calls"] < abandoned + 5  # the hanging one is not asked each time
        relay.go_on()


def test_a_gateway_that_hangs_alone_is_given_up_in_time(relay):
    with opened(relay, timeout=2) as store:
        relay.hang()
        with pytest.raises(StoreUnreachable, match=r"did not succeed within 2 s: .*no answer in time"):
            values(store, "documents").get(KEYS)
        relay.go_on()
        assert values(store, "documents").get([b"a"]) == [None]


def test_commands_end_with_11_where_no_gateway_answers(relay, tmp_path):
    relay.refuse()
    done = run("stats", "--store", url_of(relay, timeout=1), cwd=tmp_path)
    assert done.returncode == 11
    assert b"Connection refused" in done.stderr
    assert b"Traceback" not in done.stderr
    relay.come_back()


# Answers that are lost


@pytest.mark.parametrize("lose", [Relay.lose_answer_to, Relay.lose_request_for])
def test_a_compare_and_set_whose_answer_is_lost_tells_the_truth(relay, lose):
    with opened(relay) as store:
        meta = values(store, "meta")
        lose(relay, "checkAndPut")
        assert meta.compare_and_set(b"k", None, b"1")
        lose(relay, "checkAndPut")
        assert not meta.compare_and_set(b"k", b"0", b"2")
        lose(relay, "checkAndPut")
        assert meta.compare_and_set(b"k", b"1", b"3")
        assert meta.get([b"k"]) == [b"3"]
        assert relay.has_lost_all


def test_a_compare_and_set_that_a_gateway_carries_out_twice_tells_the_truth(relay, other):
    """The gateway answers what came of the second time."""
    with opened(relay) as store, opened(other) as first:
        meta, same = values(store, "meta"), values(first, "meta")
        relay.before("checkAndPut", lambda: same.compare_and_set(b"k", None, b"1"))
        assert meta.compare_and_set(b"k", None, b"1")
        relay.before("checkAndPut", lambda: same.compare_and_set(b"k", b"1", b"2"))
        assert not meta.compare_and_set(b"k", b"1", b"3")
        assert meta.get([b"k"]) == [b"2"]


@pytest.mark.parametrize("lose", [Relay.lose_answer_to, Relay.lose_request_for])
def test_no_number_is_given_twice_where_an_answer_is_lost(relay, lose):
    with opened(relay) as store:
        meta = values(store, "meta")
        numbers = []
        for _ in range(5):
            lose(relay, "atomicIncrement")
            numbers.append(meta.increment(b"n"))
        assert numbers == sorted(set(numbers))
        assert relay.has_lost_all


def test_a_delete_that_arrives_twice_does_not_hide_what_was_put_between(relay, hbase):
    with opened(relay) as store:
        records = values(store, "documents")
        for number in range(30):
            records.put([(b"k", b"old")])
            relay.keep("mutateRowsTs")
            records.delete([b"k"])
            records.put([(b"k", b"%d" % number)])
            relay.send_kept_again()
            assert records.get([b"k"]) == [b"%d" % number]


def test_puts_and_deletes_that_arrive_late_change_nothing(relay, hbase):
    now = clocks.now()
    with opened(relay) as store:
        records = store.records("documents")
        relay.keep("mutateRowsTs")
        records.put([(b"k", b"1"), (b"l", b"1")], now)
        records.put([(b"k", b"2")], now + 1)
        relay.send_kept_again()
        assert records.get([b"k", b"l"]) == [Cell(b"2", now + 1), Cell(b"1", now)]
        relay.keep("mutateRowsTs")
        records.delete([b"k"], [now + 1])
        records.put([(b"k", b"3")], now + 2)
        relay.send_kept_again()
        assert records.get([b"k"]) == [Cell(b"3", now + 2)]


def test_a_compare_and_set_wins_over_a_cell_from_the_future(relay, hbase):
    """Of the same time, the cell that came later counts."""
    ahead = clocks.now() + 600_000
    with opened(relay) as store:
        records = store.records("documents")
        records.put([(b"k", b"1")], ahead)
        assert records.compare_and_set(b"k", b"1", b"2")
        assert not records.compare_and_set(b"k", b"1", b"3")
        assert records.compare_and_set(b"k", b"2", b"4")
        assert records.get([b"k"]) == [Cell(b"4", ahead)]


# Clocks


@pytest.mark.parametrize(("seconds", "message"), [(4000, "4000 s ahead of"), (-4000, "4000 s behind")])
def test_a_clock_that_is_wrong_by_more_than_an_hour_may_not_write(relay, monkeypatch, seconds, message):
    right = clocks.now
    monkeypatch.setattr(clocks, "now", lambda: right() + seconds * 1000)
    with pytest.raises(StoreFailed, match=f"this machine's clock is {message}"):
        open_store(url_of(relay), "write")
    open_store(url_of(relay), "read").close()


@pytest.mark.parametrize(("seconds", "warnings"), [(0, 0), (3, 0), (60, 1), (-60, 1)])
def test_a_clock_that_is_somewhat_wrong_is_warned_of(relay, monkeypatch, caplog, seconds, warnings):
    right = clocks.now
    monkeypatch.setattr(clocks, "now", lambda: right() + seconds * 1000)
    with opened(relay) as store:
        assert list(store.records("meta").iterate()) == []  # of the cell that was compared
    assert sum("this machine's clock is 60 s" in record.message for record in caplog.records) == warnings


def test_the_time_that_the_comparison_takes_is_no_difference(relay, monkeypatch, caplog):
    right = clocks.now
    times = iter([right() - 30_000, right() + 30_000])
    monkeypatch.setattr(clocks, "now", lambda: next(times))
    open_store(url_of(relay), "write").close()
    assert not caplog.records
