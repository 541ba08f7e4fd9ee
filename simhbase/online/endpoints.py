"""The table of routes: who may use each, what it takes and what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from simhbase.model import AddReport, Comparison, Explanation, StoredDocument
from simhbase.online import answers, asked
from simhbase.online.service import Service
from simhbase.online.tokens import Role

JSON, JSON_LINES = "application/json", "application/x-ndjson"
DOCUMENTS = "/v1/documents"
DOCUMENT = f"{DOCUMENTS}/{{id}}"


@dataclass(frozen=True)
class Endpoint:
    """A method of a path. role: None asks for no token. asked: what it takes, in its body where it is a POST,
    else in its address; answer: what it returns, which stands beside the store's `profile` under /v1.
    in_lines: its body may be lines of JSON. comparing: its body is smaller than others."""

    method: str
    path: str
    call: Callable[..., Awaitable[object]]
    role: Role | None
    asked: type[asked.AnyRequest] | None
    answer: type[Any]
    in_lines: bool = False
    comparing: bool = False

    @property
    def name(self) -> str:
        return self.call.__name__

    @property
    def has_body(self) -> bool:
        """Only a POST has one that is read."""
        return self.method == "POST"

    @property
    def names_profile(self) -> bool:
        """Answers of the store say by which parameters it compares."""
        return self.path.startswith("/v1/")


# A path that another one begins with comes behind it.
ENDPOINTS = (
    Endpoint("POST", "/v1/find", Service.find, "read", asked.FindRequest, answers.Lookups),
    Endpoint("POST", "/v1/claim", Service.claim, "write", asked.ClaimRequest, answers.Claims),
    Endpoint("POST", DOCUMENTS, Service.add, "write", asked.DocumentsRequest, AddReport, in_lines=True),
    Endpoint(
        "GET",
        f"{DOCUMENT}/neighbours",
        Service.neighbours,
        "read",
        asked.NeighboursRequest,
        answers.Neighbours,
    ),
    Endpoint("GET", DOCUMENT, Service.get, "read", asked.DocumentRequest, StoredDocument),
    Endpoint("DELETE", DOCUMENT, Service.delete, "write", asked.DocumentRequest, answers.Deleted),
    Endpoint(
        "POST", "/v1/compare", Service.compare, "read", asked.CompareRequest, Comparison, comparing=True
    ),
    Endpoint(
        "POST", "/v1/explain", Service.explain, "read", asked.ExplainRequest, Explanation, comparing=True
    ),
    Endpoint("GET", "/v1/muted", Service.muted, "read", None, answers.MuteList),
    Endpoint("POST", "/v1/muted", Service.mute, "write", asked.MuteRequest, answers.Added),
    Endpoint("DELETE", "/v1/muted", Service.unmute, "write", asked.UnmuteRequest, answers.Removed),
    Endpoint("GET", "/v1/status", Service.status, "read", None, answers.Status),
    Endpoint("GET", "/healthz", Service.healthz, None, None, answers.Alive),
    Endpoint("GET", "/readyz", Service.readyz, None, None, answers.Alive),
    Endpoint("GET", "/metrics", Service.numbers, "read", None, bytes),
)
