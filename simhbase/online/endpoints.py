"""The table of routes: required role, request and answer of each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from simhbase.model.explanations import Comparison, Explanation
from simhbase.model.stored import StoredDocument, StoredPage
from simhbase.online import answers, asked
from simhbase.online.service import Service
from simhbase.online.tokens import Role

JSON, JSON_LINES = "application/json", "application/x-ndjson"
DOCUMENTS = "/v1/documents"
DOCUMENT = f"{DOCUMENTS}/{{id}}"


@dataclass(frozen=True)
class Endpoint:
    """A route. role: None needs no token. asked: type of the request, from the body of a POST, otherwise from
    the address; answer: type of the result, sent with the store's `profile` under /v1. in_lines: the body may
    be JSON lines. comparing: the body has a smaller limit."""

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
        return self.method == "POST"

    @property
    def names_profile(self) -> bool:
        """Answers of the store contain the digest of its profile."""
        return self.path.startswith("/v1/")


# A path comes after longer ones that start with it.
ENDPOINTS = (
    Endpoint("POST", "/v1/find", Service.find, "read", asked.FindRequest, answers.Lookups),
    Endpoint("POST", "/v1/claim", Service.claim, "write", asked.ClaimsRequest, answers.Claims),
    Endpoint("POST", DOCUMENTS, Service.add, "write", asked.DocumentsRequest, answers.Stored, in_lines=True),
    Endpoint("GET", DOCUMENTS, Service.stored, "read", asked.StoredRequest, StoredPage),
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
    Endpoint("GET", "/v1/groups", Service.groups, "read", asked.GroupsRequest, answers.GroupList),
    Endpoint(
        "POST", "/v1/compare", Service.compare, "read", asked.CompareRequest, Comparison, comparing=True
    ),
    Endpoint(
        "POST", "/v1/explain", Service.explain, "read", asked.ExplainRequest, Explanation, comparing=True
    ),
    Endpoint(
        "POST",
        "/v1/features",
        Service.features,
        "read",
        asked.FeaturesRequest,
        answers.Features,
        comparing=True,
    ),
    Endpoint("GET", "/v1/muted", Service.muted, "read", None, answers.MutedList),
    Endpoint("POST", "/v1/muted", Service.mute, "write", asked.MuteRequest, answers.Added),
    Endpoint("DELETE", "/v1/muted", Service.unmute, "write", asked.UnmuteRequest, answers.Unmuted),
    Endpoint("GET", "/v1/status", Service.status, "read", None, answers.Status),
    Endpoint("GET", "/healthz", Service.healthz, None, None, answers.Alive),
    Endpoint("GET", "/readyz", Service.readyz, None, None, answers.Alive),
    Endpoint("GET", "/metrics", Service.numbers, "metrics", None, bytes),
)
