"""What a gateway refuses for lack of rights is not tried again, and costs no more than it has to."""

import logging
from time import process_time

import pytest

from simhbase.admin.tables import require_ttl
from simhbase.errors import SchemaDiffers, StoreFailed, StoreUnreachable
from simhbase.index.writer import REFRESHED, alive_since
from simhbase.stores.hbase import HBaseBackend, wires
from simhbase.stores.hbase.client import GatewayClient
from simhbase.stores.hbase.connection import CallRefused
from simhbase.stores.hbase.store import HBaseStore
from simhbase.stores.hbase.url import Gateway, parse

DENIED = (
    "org.apache.hadoop.hbase.client.RetriesExhaustedWithDetailsException: Failed 1 action: "
    "org.apache.hadoop.hbase.security.AccessDeniedException: Insufficient permissions (user=worker)"
)


@pytest.mark.parametrize(("text", "final"), [(DENIED, True), ("NotServingRegionException: moved", False)])
def test_what_is_denied_is_final_though_the_gateway_says_that_it_may_be_tried_again(text, final):
    assert CallRefused(Gateway("host", 9090), text, final=False).final is final


@pytest.mark.parametrize("word", ["a.", "pass", "a.a.AException: ", "<title>", "a.AException: a."])
def test_the_first_line_of_an_answer_takes_linear_time_to_find(word):
    """It is the gateway's, and may have an id in it: 20 kB of dots took 4 s, and 80 kB of titles 10 s."""
    begun = process_time()
    CallRefused(Gateway("host", 9090), word * (100_000 // len(word)), final=True)
    assert wires._gist(word.encode() * (100_000 // len(word))).startswith(f": {word[:3]}")
    assert process_time() - begun < 1


def test_the_first_line_of_an_answer_names_each_exception_once():
    once = CallRefused(Gateway("host", 9090), f"java.io.IOException: {DENIED}\n\tat x", final=True)
    assert str(once) == (
        "host:9090: IOException: RetriesExhaustedWithDetailsException: Failed 1 action: "
        "AccessDeniedException: Insufficient permissions (user=worker)"
    )
    twice = "a.b.AException: c.AException: it failed"
    assert str(CallRefused(Gateway("host", 9090), twice, final=True)) == "host:9090: AException: it failed"
    assert wires._gist(b"<html>\n<title>502 Bad\nGateway</title></html>") == ": 502 Bad\nGateway"


def refused_store(monkeypatch: pytest.MonkeyPatch, reason: str) -> HBaseStore:
    def refuse(self: HBaseStore) -> int:
        raise StoreFailed(f"describing simhbase_documents failed: host:9090: {reason}")

    monkeypatch.setattr(HBaseStore, "_read_ttl", refuse)
    return HBaseStore(parse("hbase://host:9090/simhbase"), "write")


def test_a_time_to_live_that_must_not_be_seen_is_unknown_and_is_warned_of(monkeypatch, caplog):
    store = refused_store(monkeypatch, "AccessDeniedException: Insufficient permissions")
    with caplog.at_level(logging.WARNING):
        assert [store.ttl(), store.ttl()] == ["unknown", "unknown"]
        assert [alive_since(store, 0), alive_since(store, 0, REFRESHED)] == [0, 0]
    assert caplog.text.count("not rewritten before they expire") == 1
    for wanted in (None, 60):
        with pytest.raises(SchemaDiffers, match=r"may not read after which time.*Grant its user C"):
            require_ttl(store, wanted)


def test_a_time_to_live_that_cannot_be_read_for_another_reason_is_an_error(monkeypatch):
    with pytest.raises(StoreFailed, match="disabled"):
        refused_store(monkeypatch, "the table is disabled").ttl()


@pytest.mark.parametrize(
    "text",
    [
        "Zookeeper LIST could not be completed in 10000 ms",
        "java.io.IOException: Zookeeper GET could not be completed in 10000 ms",
        "KeeperErrorCode = ConnectionLoss for /hbase/master",
        "org.apache.hadoop.hbase.PleaseHoldException: Master is initializing",
    ],
)
def test_a_zookeeper_or_master_that_does_not_answer_may_be_asked_again(text):
    refused = CallRefused(Gateway("host", 9090), text, final=True)
    assert (refused.is_outage, refused.final) == (True, False)


def test_an_administrator_that_meets_an_outage_says_that_the_store_is_unreachable(monkeypatch, caplog):
    refused = CallRefused(Gateway("host", 9091), "Zookeeper LIST could not be completed", final=True)
    calls = []

    def attempt(self, call, deadline):
        calls.append(call)
        raise refused

    monkeypatch.setattr(GatewayClient, "attempt", attempt)
    url = "hbase://host:9090/p?thrift2=9091&timeout=3"
    with pytest.raises(StoreUnreachable, match="Zookeeper LIST could not be completed"):
        HBaseBackend(url).check()
    assert len(calls) > 2
    assert (
        caplog.text.count("waiting for host:9091: Zookeeper LIST could not be completed (3 s at most)") == 1
    )


def test_another_refusal_ends_an_administrator_at_once(monkeypatch):
    def attempt(self, call, deadline):
        raise CallRefused(Gateway("host", 9091), "TableExistsException: p_index", final=True)

    monkeypatch.setattr(GatewayClient, "attempt", attempt)
    with pytest.raises(StoreFailed, match="TableExistsException"):
        HBaseBackend("hbase://host:9090/p?thrift2=9091").check()
