"""One scan for many drawers and listings, through Thrift 2; and Thrift 1 where that does not work."""

import logging
import time
from collections.abc import Iterator
from contextlib import closing
from secrets import token_hex

import happybase
import numpy as np
import pytest

from simhbase.drawers.layout import layout
from simhbase.drawers.rowkeys import KEY_BYTES, PREFIX_BYTES, encode, prefixes
from simhbase.stores import open_store
from simhbase.stores.base import Row, Store
from simhbase.stores.hbase import drawers, filtered, filters, records
from simhbase.stores.hbase.interface import thrift2
from tests.cluster import Cluster
from tests.contract.plain import Read, read
from tests.relay import LOCALHOST, Relay

pytestmark = pytest.mark.hbase

PREFIX = "filtered"
LAYOUT = layout("5x2")
STORED = np.random.default_rng(1).integers(0, 2**64, 300, dtype=np.uint64)
# Drawers in which there are many: 40 rows each.
CROWDED = np.concatenate([STORED[:3] ^ np.uint64(low) for low in range(40)])
LISTED = [b"%08d" % number for number in range(60)]


@pytest.fixture(scope="module")
def url(hbase: Cluster) -> str:
    url = hbase.empty_store(PREFIX)
    with closing(open_store(url, "write")) as store:
        store.drawers.add(encode(np.concatenate([STORED, CROWDED]), LAYOUT))
        rows = [(key + b"%d" % number, b"v") for key in LISTED for number in range(int(key) % 7)]
        store.records("fingerprints").put(rows)
    return url


@pytest.fixture
def relay(hbase: Cluster, url: str) -> Iterator[Relay]:
    """In front of the Thrift 2 gateway."""
    with Relay((LOCALHOST, hbase.description["ports"]["thrift2"])) as relay:
        yield relay


@pytest.fixture
def store(hbase: Cluster, relay: Relay) -> Iterator[Store]:
    gateways = ",".join(hbase.description["gateways"])
    url = f"hbase://{gateways}/{PREFIX}?thrift2={LOCALHOST}:{relay.port}&timeout=8"
    with closing(open_store(url, "read")) as store:
        yield store


def asked() -> np.ndarray:
    """Drawers with rows and without, in no order."""
    near = np.concatenate([STORED[::7] ^ np.uint64(1), np.array([0, 2**64 - 1], np.uint64), CROWDED[:3]])
    distinct = np.unique(prefixes(near, LAYOUT).reshape(-1, PREFIX_BYTES), axis=0)
    return np.random.default_rng(2).permutation(distinct)


def expected(wanted: np.ndarray, limit: int | None) -> tuple[list[list[int]], list[bool]]:
    rows = np.unique(encode(np.concatenate([STORED, CROWDED]), LAYOUT).reshape(-1, KEY_BYTES), axis=0)
    found = [
        [int.from_bytes(row[PREFIX_BYTES:]) for row in rows[(rows[:, :PREFIX_BYTES] == prefix).all(axis=1)]]
        for prefix in wanted
    ]
    return [each[:limit] for each in found], [limit is not None and len(each) > limit for each in found]


def as_lists(found: Read) -> tuple[list[list[int]], list[bool]]:
    parts = np.split(found.fingerprints, found.offsets[1:-1])
    return [part.tolist() for part in parts], found.truncated.tolist()


def assert_right(store: Store, limit: int | None = None) -> None:
    wanted = asked()
    assert as_lists(read(store, wanted, limit)) == expected(wanted, limit)


def listed(limit: int) -> list[list[bytes]]:
    return [[key + b"%d" % number for number in range(int(key) % 7)][:limit] for key in LISTED]


def keys(found: list[list[Row]]) -> list[list[bytes]]:
    return [[key for key, _ in rows] for rows in found]


@pytest.mark.parametrize(
    ("page", "limit"),
    [
        *((1, 1), (1, 40), (7, 39), (7, None), (39, 40), (39, None), (8_192, 1), (8_192, None)),
        *((40, 39), (40, 40), (40, 41), (40, None), (41, 40)),
    ],
)
def test_drawers_are_read_page_by_page_up_to_their_limit(store, monkeypatch, page, limit):
    monkeypatch.setattr(drawers, "FILTERED_ROWS", page)
    monkeypatch.setattr(drawers, "FIRST_ROWS", page)
    monkeypatch.setattr(filtered, "FEWEST_RANGES", 20)
    assert_right(store, limit)
    truncated = sum(expected(asked(), limit)[1])
    assert store.counters()["truncated_drawers"] == truncated
    assert store.counters()["retries"] == 0


@pytest.mark.parametrize(
    ("page", "limit"), [(1, 1), (1, 6), (2, 3), (2, 100), (7, 6), (7, 100), (8_192, 3), (8_192, 100)]
)
def test_listings_are_read_page_by_page_up_to_their_limit(store, monkeypatch, page, limit):
    monkeypatch.setattr(records, "FILTERED_ROWS", page)
    assert keys(store.records("fingerprints").scan(LISTED[::-1], limit)) == listed(limit)[::-1]


def test_cells_of_others_beside_listings_and_between_them_are_left_out(store, hbase):
    """A lookup that met one ended with a traceback."""
    before = listed(20)
    with closing(happybase.Connection(*hbase.gateway)) as connection:
        table = connection.table(f"{PREFIX}_fingerprints")
        others = [LISTED[3] + b"1", LISTED[3] + b"other", LISTED[0]]
        try:
            for key in others:
                table.put(key, {b"d:other": b"x"})
            assert keys(store.records("fingerprints").scan(LISTED, 20)) == before
        finally:
            for key in others:
                table.delete(key, [b"d:other"])


def test_drawers_cost_one_request_a_region(store, relay):
    requests = []
    for _ in range(100):
        relay.before("getScannerResults", lambda: requests.append(1))
    assert_right(store)
    assert 1 <= len(requests) <= 12


def test_wrong_borders_of_regions_cost_no_rows(store, monkeypatch):
    starts = np.array([b"", *(prefix.tobytes()[:3] for prefix in np.unique(asked()[::20], axis=0))])
    monkeypatch.setattr(filtered.FilteredScans, "_region_starts", lambda self, operation: starts)
    monkeypatch.setattr(drawers, "FILTERED_ROWS", 10)
    for limit in (5, None):
        assert_right(store, limit)
    assert keys(store.records("fingerprints").scan(LISTED, 5)) == listed(5)


def test_regions_that_split_meanwhile_cost_no_rows(store, hbase):
    assert_right(store)
    regions = store.drawers._filtered._regions
    key = f"\\x90\\x{token_hex(1)}\\x{token_hex(1)}"  # an HBase that goes on running has others
    hbase.shell(f"split '{PREFIX}_index', \"{key}\"\n")
    for _ in range(10):
        assert_right(store, 5)
    assert len(store.drawers._filtered._regions) == len(regions)  # it has not heard of it
    store.drawers._filtered._regions_until = 0.0
    assert_right(store)
    assert len(store.drawers._filtered._regions) == len(regions) + 1


def test_regions_that_cannot_be_told_cost_no_rows(hbase, relay):
    with Relay(parsed(hbase.description["gateways"][0])) as gateway:
        url = f"hbase://{LOCALHOST}:{gateway.port}/{PREFIX}?thrift2={LOCALHOST}:{relay.port}&timeout=8"
        with closing(open_store(url, "read")) as store:
            gateway.lose_request_for("getTableRegions")
            assert_right(store)
            assert store.drawers._filtered._regions.tolist() == [b""]
            store.drawers._filtered._regions_until = 0.0
            assert_right(store)
            assert len(store.drawers._filtered._regions) > 1


def parsed(gateway: str) -> tuple[str, int]:
    host, _, port = gateway.rpartition(":")
    return host, int(port)


@pytest.mark.parametrize("old", ["field", "filter"])
def test_a_gateway_that_does_not_know_the_filter_is_noticed_once(store, relay, monkeypatch, caplog, old):
    if old == "field":
        monkeypatch.delitem(thrift2.TScan.thrift_spec, 18)
    else:
        monkeypatch.setattr(filters, "_NAME", b"org.example.NoSuchFilter")
    asked_for = []
    for _ in range(1000):
        relay.before("getScannerResults", lambda: asked_for.append(1))
    with caplog.at_level(logging.WARNING):
        assert_right(store, 20)
        first = len(asked_for)
        assert first
        for _ in range(3):
            assert_right(store, 20)
    assert len(asked_for) == first
    (said,) = [record.message for record in caplog.records if "through Thrift 1" in record.message]
    assert said.startswith(f"{PREFIX}_index is read through Thrift 1 from now on: ")
    assert keys(store.records("fingerprints").scan(LISTED, 5)) == listed(5)


def test_thrift1_goes_on_where_thrift2_is_gone_and_leaves_off_when_it_is_back(store, relay, monkeypatch):
    monkeypatch.setattr(filtered, "FIRST_REST", 1.0)
    assert_right(store)
    relay.refuse()
    for limit in (20, None):
        assert_right(store, limit)
    assert keys(store.records("fingerprints").scan(LISTED, 5)) == listed(5)
    relay.come_back()
    before, deadline = relay.connections, time.monotonic() + 30
    while relay.connections == before and time.monotonic() < deadline:  # a second refusal doubles the rest
        time.sleep(0.2)
        assert_right(store)
    assert relay.connections > before


def test_thrift1_goes_on_where_thrift2_hangs_and_its_time_is_lost_once(store, relay, monkeypatch, caplog):
    monkeypatch.setattr(filtered, "FIRST_REST", filtered.LONGEST_REST)  # however slow all this is
    assert_right(store)
    relay.hang()
    for _ in range(3):
        assert_right(store)
    assert sum("Thrift 1 goes on" in record.message for record in caplog.records) == 1
    relay.go_on()


def test_connections_that_were_closed_while_idle_are_replaced(store, relay):
    for _ in range(3):
        assert_right(store)
        relay.cut()
    assert store.drawers._filtered.is_usable()
