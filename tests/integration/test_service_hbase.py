"""A service over HBase: several processes, and a gateway that goes away, hangs, and comes back."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import simhbase
from tests.cluster import Cluster
from tests.command_line import texts
from tests.relay import LOCALHOST, Relay
from tests.service import Answer, Service, serving

pytestmark = pytest.mark.hbase

PREFIX = "served"
ONE, OTHER = texts(2)


@pytest.fixture
def relay(hbase: Cluster) -> Iterator[Relay]:
    simhbase.open(hbase.empty_store(PREFIX), create=simhbase.Profile(verify=False)).close()
    with Relay(hbase.gateway) as relay:
        yield relay


def url_of(relay: Relay, seconds: int, *others: Relay) -> str:
    gateways = ",".join(f"{LOCALHOST}:{each.port}" for each in (relay, *others))
    return f"hbase://{gateways}/{PREFIX}?timeout={seconds}"


def found(service: Service, text: str) -> Answer:
    return service.post("/v1/find", {"text": text})


def await_found(service: Service, text: str) -> Answer:
    deadline = time.monotonic() + 120
    while (answer := found(service, text)).status != 200:
        assert answer.status == 503
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return answer


def test_several_processes_see_what_each_of_them_stores(relay: Relay, tmp_path: Path) -> None:
    with serving(url_of(relay, 60), tmp_path, "--workers", 2) as service:
        for number, text in enumerate(texts(10, seed=1)):
            assert service.post("/v1/documents", {"id": str(number), "text": text}).json["added"] == 1
            for _ in range(3):
                (lookup,) = found(service, text).json["lookups"]
                assert [match["id"] for match in lookup["matches"]] == [str(number)]
        numbers = service.get("/metrics").body.decode()
        assert 'simhbase_store_total{event="operations"}' in numbers
        (allowed,) = re.findall(r"^simhbase_connections_allowed (.+)$", numbers, re.MULTILINE)
        assert float(allowed) in (8, 16)  # of those that have been asked for their numbers


def test_while_the_store_is_away_it_says_so_and_afterwards_goes_on(relay: Relay, tmp_path: Path) -> None:
    with serving(url_of(relay, 3), tmp_path) as service:
        assert service.post("/v1/documents", {"id": "one", "text": ONE}).status == 200
        relay.refuse()
        for path, value in (
            ("/v1/find", {"text": ONE}),
            ("/v1/documents", {"id": "two", "text": OTHER}),
            ("/v1/claim", {"id": "three", "text": OTHER, "timeout": 1}),
        ):
            away = service.post(path, value)
            assert (away.status, away.code) == (503, "store_unreachable"), away.body
            assert int(away.headers["retry-after"]) >= 1
            assert "Traceback" not in away.body.decode()
        assert service.get("/readyz").status == 503
        assert service.get("/healthz").status == 200
        relay.come_back()
        (lookup,) = await_found(service, ONE).json["lookups"]
        assert [match["id"] for match in lookup["matches"]] == ["one"]
        service.await_ready()
        assert service.post("/v1/documents", {"id": "two", "text": OTHER}).json["added"] <= 1
        assert service.get("/v1/documents/two").status == 200


def test_while_all_gateways_are_gone_every_answer_says_so_at_once(
    hbase: Cluster, relay: Relay, tmp_path: Path
) -> None:
    with Relay(hbase.gateway) as other, serving(url_of(relay, 60, other), tmp_path) as service:
        assert service.post("/v1/documents", {"id": "one", "text": ONE}).status == 200
        relay.refuse()
        other.refuse()
        assert found(service, ONE).code == "store_unreachable"  # after 2 s, and not after 30
        start = time.monotonic()
        for _ in range(20):
            for away in (found(service, ONE), service.get("/readyz"), service.get("/v1/documents/one")):
                assert (away.status, away.code) == (503, "store_unreachable"), away.body
                assert "Connection refused" in away.json["error"]["message"]
        assert time.monotonic() - start < 30  # each of them waited that long
        warnings = [line["message"] for line in service.logged() if line["level"] == "warning"]
        assert len(warnings) == 3, warnings  # two gateways and the store
        other.come_back()
        await_found(service, ONE)
        service.await_ready()
        (end,) = [line["message"] for line in service.logged() if "hbase://" in line["message"]]
        assert re.search(r" answers again, after \d+ s$", end)
        relay.come_back()  # which the fixture ends


def test_a_store_that_hangs_is_not_waited_for_longer_than_a_request_may_take(
    relay: Relay, tmp_path: Path
) -> None:
    with serving(url_of(relay, 8), tmp_path, "--timeout", 1) as service:
        assert service.post("/v1/documents", {"id": "one", "text": ONE}).status == 200
        relay.hang()
        for _ in range(3):
            late = found(service, ONE)
            assert (late.status, late.code) == (503, "timed_out")
            assert late.headers["retry-after"]
        assert service.get("/readyz").code in ("timed_out", "store_unreachable")
        assert service.get("/healthz").status == 200
        relay.go_on()
        await_found(service, ONE)


def test_a_client_waits_until_the_store_is_back(relay: Relay, tmp_path: Path) -> None:
    with serving(url_of(relay, 3), tmp_path) as service, simhbase.Client(service.url, timeout=120) as client:
        client.add([simhbase.Document("one", ONE)])
        relay.refuse()
        assert found(service, ONE).status == 503
        relay.come_back()
        assert [match.id for match in client.find(ONE).matches] == ["one"]
