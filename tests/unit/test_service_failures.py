"""What a service answers where something is wrong with itself."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
import weakref
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message

import simhbase
from simhbase.admin import Administrator
from simhbase.errors import Overloaded, ProfileMismatch, StoreFailed
from simhbase.index.index import Index
from simhbase.model import wire
from simhbase.online.app import LONG_ADDRESS, create_app, unless_gone
from simhbase.online.bodies import LONG, MANY_STRINGS, Bodies
from simhbase.online.calls import AT_ONCE, Begins, Calls, source
from simhbase.online.metrics import ServiceMetrics
from simhbase.online.settings import Limits, Settings


def test_one_source_does_not_fill_all_threads() -> None:
    """16 claims of a thousand texts each held up the one claim of another token for half a minute."""
    go_on, held = threading.Event(), threading.Semaphore(0)

    def long() -> None:
        held.release()
        assert go_on.wait(10)

    async def ask(calls: Calls, name: str, call: Callable[[], object]) -> None:
        source.set(name)
        await calls.run(call)

    async def ask_all() -> None:
        calls = Calls(2, 100, 10)
        many = [asyncio.create_task(ask(calls, "a", long)) for _ in range(5)]
        for _ in range(2):
            assert await asyncio.to_thread(held.acquire, timeout=10)
        await asyncio.gather(*(asyncio.create_task(ask(calls, name, int)) for name in "bcb"))
        assert not any(each.done() for each in many)
        assert not held.acquire(blocking=False)  # the others of a wait
        go_on.set()
        await asyncio.gather(*many)
        calls.close()
        assert calls.pending == 0

    asyncio.run(ask_all())


def test_what_a_cancelled_call_was_given_is_not_kept_until_its_turn() -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Body(list[int]):
        """Can be referred to weakly."""

    def first() -> None:
        begun.set()
        go_on.wait(10)

    async def ask_and_cancel() -> None:
        calls = Calls(1, 100, 10)
        running = asyncio.create_task(calls.run(first))
        await asyncio.to_thread(begun.wait, 10)
        body = Body([1])
        kept = weakref.ref(body)
        asked = asyncio.create_task(calls.run(len, body))
        await asyncio.sleep(0)
        assert calls.pending == 2
        asked.cancel()
        await asyncio.wait([asked])
        del body, asked
        gc.collect()
        assert kept() is None
        assert calls.pending == 1
        go_on.set()
        await running
        assert await calls.run(len, b"after") == 5
        calls.close()

    asyncio.run(ask_and_cancel())


def test_one_source_does_not_take_all_places_of_those_who_wait() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        go_on.wait(10)

    async def ask(calls: Calls, name: str) -> None:
        source.set(name)
        await calls.run(slow)

    async def ask_all() -> None:
        calls = Calls(1, 3, 10)
        tasks = [asyncio.create_task(ask(calls, "greedy")) for _ in range(4)]
        await asyncio.to_thread(begun.wait, 10)
        with pytest.raises(Overloaded):
            await ask(calls, "greedy")
        tasks += [asyncio.create_task(ask(calls, "modest")) for _ in range(2)]
        await asyncio.sleep(0)
        assert calls.pending == 6
        with pytest.raises(Overloaded):
            await ask(calls, "modest")
        go_on.set()
        await asyncio.gather(*tasks)
        calls.close()
        assert calls.pending == 0

    asyncio.run(ask_all())


def test_one_source_does_not_take_all_of_the_memory_for_bodies() -> None:
    bodies = Bodies(100, "requests")
    with ExitStack() as held:
        source.set("greedy")
        hold = held.enter_context(bodies.holding())
        hold(90)
        source.set("modest")
        other = held.enter_context(bodies.holding())
        source.set("greedy")
        with pytest.raises(Overloaded):
            hold(20)
        other(30)
        other(20)
        with pytest.raises(Overloaded):
            other(1)
    with bodies.holding() as hold:
        hold(100)


def test_what_nobody_waits_for_is_not_answered() -> None:
    """The client has gone."""
    cancelled = []

    async def answer() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    # The body of a GET, which nobody reads, comes first.
    messages: list[Message] = [{"type": "http.request"}, {"type": "http.disconnect"}]

    async def receive() -> Message:
        await asyncio.sleep(0)
        return messages.pop(0)

    async def ask() -> None:
        with pytest.raises(ClientDisconnect):
            await unless_gone(Request({"type": "http"}, receive), answer())

    asyncio.run(asyncio.wait_for(ask(), 10))
    assert cancelled == [True]


def test_a_body_whose_client_has_gone_is_not_decoded() -> None:
    """Those of 1,000 requests that were cancelled while they waited for that kept others waiting for 8 s."""
    decoded, begun, go_on = list[int](), threading.Event(), threading.Event()
    decode = wire.decode

    def slowly(body: bytes, *given: Any) -> Any:
        decoded.append(len(body))
        begun.set()
        assert go_on.wait(10)
        return decode(body, *given)

    async def ask(app: ASGIApp) -> None:
        first, second = (
            asyncio.create_task(
                asked(app, "POST", "/v1/find", {"texts": ["word " * (LONG // each)]}, gone=gone)
            )
            for each, gone in ((4, False), (2, True))
        )
        assert await asyncio.to_thread(begun.wait, 10)
        with pytest.raises(ValueError, match="not enough values"):  # of an answer
            await second
        go_on.set()
        assert (await first)[0] == 200

    with (
        simhbase.open("memory:", create="default") as index,
        patch.object(wire, "decode", slowly),
    ):
        asyncio.run(asyncio.wait_for(ask(create_app(index, Settings("memory:"), ServiceMetrics())), 30))
    assert len(decoded) == 1


async def asked(
    app: ASGIApp,
    method: str,
    path: str,
    value: object = None,
    client: str = "10.0.0.1",
    *,
    gone: bool = False,
    **headers: str,
) -> tuple[int, dict[bytes, bytes], Any]:
    """The status, headers and value of an answer. gone: the client leaves when it has sent the body."""

    async def receive() -> Message:
        if not bodies:
            if gone:
                return {"type": "http.disconnect"}
            await asyncio.Event().wait()  # the client stays
        return {"type": "http.request", "body": bodies.pop(), "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    path, _, query = path.partition("?")
    bodies = [b"" if value is None else json.dumps(value).encode()]
    sent: list[Message] = []
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [
            (b"host", b"localhost"),
            (b"content-type", b"application/json"),
            *((name.encode(), header.encode()) for name, header in headers.items()),
        ],
        "client": (client, 1024),
        "state": {},
    }
    await app(scope, receive, send)
    start, *rest = sent
    body = b"".join(message.get("body", b"") for message in rest)
    return start["status"], dict(start["headers"]), json.loads(body)


def answered(path: str, failing: str, error: Exception) -> tuple[int, dict[bytes, bytes], Any]:
    """What a GET is answered where a method of the index or of its administrator raises this."""
    owner = Administrator if hasattr(Administrator, failing) else Index
    with (
        simhbase.open("memory:", create=simhbase.Profile(verify=False)) as index,
        patch.object(owner, failing, side_effect=error),
    ):
        app = create_app(index, Settings("memory:"), ServiceMetrics())
        status, headers, value = asyncio.run(asked(app, "GET", path))
    return status, headers, value["error"]


@pytest.mark.parametrize("has_tokens", [False, True])
def test_a_header_that_nobody_asked_for_gives_no_turns(tmp_path: Path, has_tokens: bool) -> None:
    """Who could name any source would have as many turns as it likes."""
    tokens = None
    if has_tokens:
        tokens = tmp_path / "tokens"
        tokens.write_text(f"read {'r' * 32}\nwrite {'w' * 32}\n")
        tokens.chmod(0o600)
    seen = list[Hashable]()

    async def ask(app: ASGIApp) -> None:
        clients = "2001:db9::1", "2001:db9::2", "2001:db9::2"
        headers = f"Bearer {'r' * 32}", f"bearer {'r' * 32}", f"Bearer {'w' * 32}"
        for client, header in zip(clients, headers, strict=True):
            given = {"left": "a b c d", "right": "a b c e"}
            status, _, _ = await asked(app, "POST", "/v1/compare", given, client, authorization=header)
            assert status == 200

    with simhbase.open("memory:", create=simhbase.Profile(verify=False)) as index:
        compare = index.compare

        def noting(left: str, right: str) -> simhbase.Comparison:
            seen.append(source.get())
            return compare(left, right)

        index.compare = noting
        asyncio.run(ask(create_app(index, Settings("memory:", token_file=tokens), ServiceMetrics())))
    tokens_seen = [sha256(token.encode() * 32).digest() for token in "rrw"]
    assert seen == (tokens_seen if has_tokens else ["2001:db9::/64"] * 3)  # of which one client has all


def test_comparing_keeps_no_writer_waiting_and_has_a_queue_of_its_own() -> None:
    limits = Limits()
    most = limits.comparing_threads + limits.comparing_waiting
    may_end = threading.Event()

    async def ask(app: ASGIApp) -> None:
        texts = {"left": "a b c d", "right": "a b c e"}
        compares = [asyncio.create_task(asked(app, "POST", "/v1/compare", texts)) for _ in range(most + 3)]
        document = {"id": "a", "text": "one two three four five"}
        added = await asked(app, "POST", "/v1/documents", document)
        assert (added[0], added[2]["added"]) == (200, 1)
        refused, _ = await asyncio.wait(compares, timeout=0.5)
        done = [each.result() for each in refused]
        assert [(status, value["error"]["code"]) for status, _, value in done] == [(503, "overloaded")] * 3
        may_end.set()
        statuses = [(await each)[0] for each in compares]
        assert statuses.count(200) == most

    with simhbase.open("memory:", create=simhbase.Profile(verify=False)) as index:
        compare = index.compare

        def slowly(left: str, right: str) -> simhbase.Comparison:
            may_end.wait()
            return compare(left, right)

        index.compare = slowly
        asyncio.run(ask(create_app(index, Settings("memory:", limits=limits), ServiceMetrics())))


def test_readiness_is_checked_once_for_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests for /readyz share a check that is running or less than a second old."""
    may_end = threading.Event()
    checks = 0

    def slowly() -> None:
        nonlocal checks
        checks += 1
        may_end.wait()

    async def ask(app: ASGIApp) -> None:
        def asking() -> list[asyncio.Task[Any]]:
            return [asyncio.create_task(asked(app, "GET", "/readyz")) for _ in range(40)]

        monkeypatch.setattr("simhbase.online.service.READY_KEPT", 3600.0)
        requests = asking()
        await asyncio.sleep(0)  # each of them has begun
        requests.pop().cancel()
        may_end.set()
        requests += asking()
        assert {(await each)[0] for each in requests} == {200}
        assert checks == 1
        monkeypatch.setattr("simhbase.online.service.READY_KEPT", 0.0)
        await asked(app, "GET", "/readyz")
        assert checks == 2

    with simhbase.open("memory:", create=simhbase.Profile(verify=False)) as index:
        monkeypatch.setattr(index, "require_ready", slowly)
        asyncio.run(ask(create_app(index, Settings("memory:"), ServiceMetrics())))


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
    for path, failing in (("/v1/status", "stats"), ("/readyz", "require_ready")):
        status, headers, said = answered(path, failing, error)
        assert (status, said["code"], said["message"]) == (503, "store_failed", str(error))
        assert int(headers[b"retry-after"]) > 0


def test_what_takes_long_to_decode_or_to_make_is_done_beside_what_others_ask_for(tmp_path: Path) -> None:
    """16 bodies of 16 MiB held the event loop, and so probes, for two seconds; 1,000 addresses of 60 kB for
    20, and 1,500 requests for metrics for 10."""
    threads = dict[str, threading.Thread]()

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **named: Any) -> Any:
            threads.setdefault("first", threading.current_thread())
            return function(*arguments, **named)

        return noted

    async def ask(app: ASGIApp) -> None:
        for where, most in (("id=", LONG_ADDRESS), ("id=%41", LONG_ADDRESS)):
            for more in (0, 1):
                query = where + "x" * (most - len(where) + more)
                assert (await asked(app, "DELETE", f"/v1/muted?{query}"))[0] == 200
                assert (threads.pop("first") is threading.main_thread()) == (not more)
        for texts, on_loop in (
            (["word " * (LONG // 10)], True),
            (["word " * (LONG // 4)], False),
            ([""] * (MANY_STRINGS // 2), True),
            ([""] * MANY_STRINGS, False),
        ):
            assert (await asked(app, "POST", "/v1/find", {"texts": texts}))[0] == 200
            assert (threads.pop("first") is threading.main_thread()) == on_loop
        with pytest.raises(json.JSONDecodeError):  # as it is no JSON
            await asked(app, "GET", "/metrics")
        assert threads.pop("first") is not threading.main_thread()

    metrics = ServiceMetrics()
    with (
        simhbase.open("memory:", create="default") as index,
        patch.object(wire, "decode", noting(wire.decode)),
        patch.object(wire, "convert", noting(wire.convert)),
        patch.object(metrics, "page", noting(metrics.page)),
    ):
        asyncio.run(ask(create_app(index, Settings("memory:"), metrics)))


def test_of_parameters_that_are_refused_the_first_is_decoded() -> None:
    """1,000 addresses of 60 kB with a body kept others waiting for 7 s."""
    sizes, query = list[int](), "&" * 63 + "%41" * LONG_ADDRESS

    def noted(query: bytes) -> QueryParams:
        sizes.append(len(query))
        return QueryParams(query)

    with (
        simhbase.open("memory:", create="default") as index,
        patch("simhbase.online.app.QueryParams", noted),
    ):
        app = create_app(index, Settings("memory:"), ServiceMetrics())
        status, _, answer = asyncio.run(asked(app, "POST", f"/v1/find?{query}", {"text": "word"}))
    assert (status, sizes) == (422, [LONG_ADDRESS])
    assert "in the address is not read: ask in the body" in answer["error"]["message"]


def test_requests_of_one_source_do_not_begin_before_all_others() -> None:
    """Of 3,900 connections of one token all requests that had come were begun, 64 kB of names each: the find
    of another token took 28 s."""
    begun = list[str]()

    async def ask(begins: Begins, name: str) -> None:
        source.set(name)
        await begins.turn()
        begun.append(name)

    async def ask_all() -> None:
        begins = Begins()
        many = [asyncio.create_task(ask(begins, "a")) for _ in range(10 * AT_ONCE)]
        other = asyncio.create_task(ask(begins, "b"))
        gone = asyncio.create_task(ask(begins, "c"))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(*many, other)
        await asyncio.create_task(ask(begins, "d"))

    asyncio.run(ask_all())
    assert begun.index("b") <= 2 * AT_ONCE
    assert (begun.count("a"), begun[-1], "c" in begun) == (10 * AT_ONCE, "d", False)
