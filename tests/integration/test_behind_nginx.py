"""A service behind nginx, configured as docs/service.md shows it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

import simhbase
from tests.command_line import run, texts
from tests.operated import Proxy, behind_nginx
from tests.service import Service, serving

pytestmark = pytest.mark.operations

TOKENS = "read reader-token-0123456789\nwrite writer-token-0123456789\n"
READ, WRITE = ("Bearer reader-token-0123456789", "Bearer writer-token-0123456789")
FORGED = "203.0.113.9"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("proxied")
    (folder / "tokens").write_text(TOKENS)
    (folder / "tokens").chmod(0o600)
    simhbase.open(f"rocksdb:{folder}/store", create="default").close()
    trusted = ("--trusted-proxy", "127.0.0.1", "--trusted-proxy", "127.0.1.0/24")
    with serving("rocksdb:store", folder, "--token-file", "tokens", *trusted) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with behind_nginx(service, tmp_path_factory.mktemp("nginx")) as running:
        yield running


def client_of(service: Service, request_id: str) -> str:
    """The client that the log has for a request, whose line may come after its answer."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for line in service.logged():
            if line.get("request_id") == request_id and "client" in line:
                client: str = line["client"]
                return client
    raise AssertionError(f"the log has no request {request_id}")


def asked(proxy: Proxy, client: str, **headers: str) -> str:
    """Sends a request from an address, and returns its id."""
    return proxy.send("GET", "/healthz", client=client, **headers).headers["x-request-id"]


def test_the_log_has_the_address_of_the_client(service: Service, proxy: Proxy) -> None:
    assert client_of(service, asked(proxy, "127.0.0.2")) == "127.0.0.2"


def test_a_client_cannot_write_another_address_into_the_log(service: Service, proxy: Proxy) -> None:
    for forged in (FORGED, f"{FORGED}, 127.0.0.1", "unknown", ",", "[::1]:80", "x" * 1000):
        named = asked(proxy, "127.0.0.2", X_Forwarded_For=forged, Forwarded=f"for={FORGED}")
        assert client_of(service, named) == "127.0.0.2"


def test_a_client_that_does_not_come_through_the_proxy_cannot_either(service: Service) -> None:
    connection = service.connect()
    connection.source_address = ("127.0.0.3", 0)
    connection.request("GET", "/healthz", headers={"X-Forwarded-For": FORGED})
    named = connection.getresponse().headers["x-request-id"]
    connection.close()
    assert client_of(service, named) == "127.0.0.3"


def test_what_a_trusted_proxy_further_out_says_is_followed_to_the_first_that_is_not_trusted(
    service: Service, proxy: Proxy
) -> None:
    named = asked(proxy, "127.0.1.7", X_Forwarded_For=f"{FORGED}, 198.51.100.1, 127.0.1.8")
    assert client_of(service, named) == "198.51.100.1"


def test_without_the_option_the_log_has_the_proxy(tmp_path: Path) -> None:
    simhbase.open(f"rocksdb:{tmp_path}/store", create="default").close()
    with serving("rocksdb:store", tmp_path) as service:
        named = service.get("/healthz", **{"X-Forwarded-For": FORGED}).headers["x-request-id"]
        assert client_of(service, named) == "127.0.0.1"


def test_requests_and_answers_pass_the_proxy_unchanged(proxy: Proxy) -> None:
    one, other = texts(2)
    for id_ in ("a/b", "a//b", "x/neighbours", "100%25", "ä ö", "?query#fragment"):
        stored = proxy.send("POST", "/v1/documents", {"id": id_, "text": one}, Authorization=WRITE)
        assert stored.status == 200, stored.body
        path = "/v1/documents/" + quote(id_, safe="")
        assert proxy.send("GET", path, Authorization=READ).json["id"] == id_
    assert proxy.send("POST", "/v1/find", {"text": one}).code == "unauthorized"
    refused = proxy.send("POST", "/v1/documents", {"id": "x", "text": other}, Authorization=READ)
    assert (refused.status, refused.code) == (403, "forbidden")
    page = proxy.send("GET", "/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    for given in ("*", "proxy.example.org", "10.0.0.1/8", "1.2.3"):
        done = run("serve", "--store", "rocksdb:store", "--trusted-proxy", given, cwd=tmp_path)
        assert done.returncode == 2
        assert b"--trusted-proxy: " in done.stderr
        assert b"give an address or a network" in done.stderr
