"""What a service answers where something is wrong with itself."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from starlette.types import Message

import simhbase
from simhbase.errors import ProfileMismatch, StoreFailed
from simhbase.online.app import create_app
from simhbase.online.metrics import ServiceMetrics
from simhbase.online.settings import Settings


def answered(path: str, failing: str, error: Exception) -> tuple[int, dict[bytes, bytes], Any]:
    """What a GET is answered where a method of the index raises this."""

    def fail(*arguments: object) -> None:
        raise error

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    sent: list[Message] = []
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "state": {},
    }
    with simhbase.open("memory:", create=simhbase.Profile()) as index:
        setattr(index, failing, fail)
        app = create_app(index, Settings("memory:"), ServiceMetrics())
        asyncio.run(app(scope, receive, send))
    start, *rest = sent
    body = b"".join(message.get("body", b"") for message in rest)
    return start["status"], dict(start["headers"]), json.loads(body)["error"]


def test_what_nobody_has_thought_of_is_in_the_log_and_not_in_the_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        status, headers, error = answered("/v1/status", "stats", ZeroDivisionError("a secret"))
    assert (status, error["code"]) == (500, "internal")
    assert "secret" not in json.dumps(error)
    assert headers[b"x-request-id"].decode() == error["request_id"]
    assert [record.exc_info is not None for record in caplog.records] == [True]


@pytest.mark.parametrize("error", [StoreFailed("no space left"), ProfileMismatch("made anew")])
def test_a_store_that_somebody_has_to_mend_is_no_error_of_the_request(error: Exception) -> None:
    for path, failing in (("/v1/status", "stats"), ("/readyz", "require_own_tables")):
        status, headers, said = answered(path, failing, error)
        assert (status, said["code"], said["message"]) == (503, "store_failed", str(error))
        assert int(headers[b"retry-after"]) > 0
