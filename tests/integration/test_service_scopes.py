"""A service of a store with scopes: each token sees one of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import simhbase
from tests.command_line import run_alone, texts
from tests.service import Service, serving

SCOPES = ("acme", "acme corp")
TOKENS = dict(zip(SCOPES, ("a-token-of-acme-0", "a-token-of-corp-0"), strict=True))
METRICS = "a-token-of-the-operator"
ONE, OTHER = texts(2)


def scoped_store(folder: Path) -> str:
    url = f"rocksdb:{folder}/store"
    simhbase.open(url, create="default", scoped=True).close()
    return url


def token_file(folder: Path, content: str) -> Path:
    path = folder / "tokens"
    path.write_text(content)
    path.chmod(0o600)
    return path


class Tenant:
    """Requests with the token of a scope."""

    def __init__(self, service: Service, scope: str) -> None:
        self._service, self._bearer = service, f"Bearer {TOKENS[scope]}"

    def get(self, path: str) -> Any:
        answer = self._service.get(path, Authorization=self._bearer)
        return answer.json if answer.status == 200 else answer.status

    def post(self, path: str, **value: Any) -> Any:
        return self._service.post(path, value, Authorization=self._bearer).json

    def delete(self, path: str) -> int:
        return self._service.send("DELETE", path, headers={"Authorization": self._bearer}).status


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    lines = [f'write {token} scope="{scope}"' for scope, token in TOKENS.items()]
    tokens = token_file(tmp_path, "\n".join([*lines, f"metrics {METRICS}"]))
    with serving(scoped_store(tmp_path), tmp_path, "--token-file", tokens) as running:
        yield running


def test_what_one_scope_stores_is_new_and_unknown_in_another(service: Service) -> None:
    one, other = (Tenant(service, scope) for scope in SCOPES)
    claims = [tenant.post("/v1/claim", id="d", text=ONE)["claims"][0] for tenant in (one, other, one)]
    assert [claim["outcome"] for claim in claims] == ["accepted"] * 3
    assert len({claim["fingerprint"] for claim in claims}) == 1
    again = one.post("/v1/claim", id="e", text=ONE)["claims"][0]
    assert (again["outcome"], again["match"]["id"]) == ("duplicate", "d")
    assert other.post("/v1/documents", documents=[{"id": "f/1", "text": ONE}])["added"] == 1
    ids = {"d"}, {"d", "f/1"}
    for tenant, stored in zip((one, other), ids, strict=True):
        (lookup,) = tenant.post("/v1/find", text=ONE)["lookups"]
        assert {match["id"] for match in lookup["matches"]} == stored
        assert {each["id"] for each in tenant.get("/v1/documents")["documents"]} == stored
        groups = tenant.get("/v1/groups")
        assert (groups["documents"], groups["found"]) == (len(stored), len(stored) - 1)
        assert tenant.get("/v1/status")["stats"]["documents"] == len(stored)
        explained = tenant.post("/v1/explain", text=ONE, id="f/1")
        assert {each["id"] for each in explained["candidates"]} == stored | {"f/1"}
    assert one.get("/v1/documents/f%2F1") == 404
    assert one.delete("/v1/documents/f%2F1") == 404
    assert other.get("/v1/documents/f%2F1")["id"] == "f/1"
    assert [each["id"] for each in other.get("/v1/documents/d/neighbours")["matches"]] == ["f/1"]
    assert one.get("/v1/documents/d/neighbours")["matches"] == []


def test_a_mute_list_is_of_one_scope(service: Service) -> None:
    one, other = (Tenant(service, scope) for scope in SCOPES)
    for tenant in (one, other):
        tenant.post("/v1/documents", documents=[{"id": "d", "text": ONE}])
    assert one.post("/v1/muted", ids=["d", "x"]) | {"profile": ""} == {
        "profile": "",
        "added": 2,
        "not_stored": ["x"],
    }
    found = [tenant.post("/v1/find", text=ONE)["lookups"][0]["matches"] for tenant in (one, other)]
    assert [len(matches) for matches in found] == [0, 1]
    assert [len(tenant.get("/v1/muted")["muted"]) for tenant in (one, other)] == [2, 0]


def test_no_id_reaches_another_scope(service: Service) -> None:
    one, other = (Tenant(service, scope) for scope in SCOPES)
    other.post("/v1/documents", documents=[{"id": "d", "text": ONE}])
    for forged in ("acme corp\x1fd", "\x1fd", "acme\x1fd"):
        assert one.post("/v1/documents", documents=[{"id": forged, "text": OTHER}])["added"] == 1
        assert one.delete(f"/v1/documents/{forged.replace(chr(31), '%1F').replace(' ', '%20')}") == 200
    assert [each["id"] for each in other.get("/v1/documents")["documents"]] == ["d"]


def test_metrics_are_the_operators_and_name_no_scope(service: Service) -> None:
    Tenant(service, "acme corp").post("/v1/claim", id="d", text=ONE)
    refused = service.get("/metrics", Authorization=f"Bearer {TOKENS['acme']}")
    assert (refused.status, refused.code) == (403, "forbidden")
    assert "use a metrics token" in refused.json["error"]["message"]
    found = service.get("/metrics", Authorization=f"Bearer {METRICS}")
    assert found.status == 200
    assert b'simhbase_claims_total{outcome="accepted"} 1.0' in found.body
    assert b"acme" not in found.body
    assert service.get("/v1/status", Authorization=f"Bearer {METRICS}").status == 403
    assert Tenant(service, "acme").get("/v1/status")["stats"]["operations"] == {}


@pytest.mark.parametrize(
    ("tokens", "options", "problem"),
    [
        (None, (), "has scopes: name the one to serve, or give a token file"),
        ("read a-token-of-nothing", (), "the store has scopes: add the one of the token behind it"),
        ("read a-token-of-acme-0 scope=acme", ("--scope", "acme"), "what is served has no scopes"),
    ],
)
def test_a_store_with_scopes_is_served_with_one_for_each_request(
    tmp_path: Path, tokens: str | None, options: tuple[str, ...], problem: str
) -> None:
    given = () if tokens is None else ("--token-file", token_file(tmp_path, tokens))
    store = scoped_store(tmp_path)
    done = run_alone("serve", "--store", store, "--port", 0, *given, *options, cwd=tmp_path)
    assert done.returncode == 2
    assert problem in done.stderr.decode()


def test_one_scope_is_served_as_a_store(tmp_path: Path) -> None:
    with serving(scoped_store(tmp_path), tmp_path, "--scope", "acme") as service:
        assert service.post("/v1/claim", {"id": "d", "text": ONE}).json["claims"][0]["outcome"] == "accepted"
        assert [each["id"] for each in service.get("/v1/documents").json["documents"]] == ["d"]
