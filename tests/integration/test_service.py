"""What a running service answers."""

from __future__ import annotations

import asyncio
import json
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

import pytest

import simhbase
from simhbase.index.claims.claim import AtomicClaimer
from simhbase.model.values import ClaimMode
from simhbase.model.wire import encode
from simhbase.online.asked import (
    ClaimsRequest,
    FindRequest,
    GivenDocument,
    GroupsRequest,
    NeighboursRequest,
    StoredRequest,
)
from simhbase.online.failures import TooLarge
from simhbase.online.metrics import ServiceMetrics
from simhbase.online.service import Service as Operations
from simhbase.online.settings import Limits, Settings
from tests.command_line import texts
from tests.service import Service, serving

ONE, OTHER = texts(2)
NEAR = ONE + " more"
ODD_IDS = (
    "a/b",
    "/leading/and/trailing/",
    "x/neighbours",
    "neighbours",
    "..",
    "./.",
    "a//b",
    "with space, comma; and ?query=1&x#fragment",
    "100%25",
    "+",
    "\x00\x01\x7f",
    "北京/新闻",
    "🙂‍🙃",
    "e\u0301 is not é",
    "\u202eright to left",
    "x" * 1024,
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    simhbase.open(f"rocksdb:{folder}/store", create=simhbase.Profile(verify=False)).close()
    with serving("rocksdb:store", folder) as running:
        yield running


def path_of(document: str) -> str:
    return f"/v1/documents/{quote(document, safe='')}"


def add(service: Service, **documents: str) -> None:
    given = [{"id": name, "text": text} for name, text in documents.items()]
    answer = service.post("/v1/documents", {"documents": given})
    assert answer.status == 200, answer.body


def matches(service: Service, text: str, **bounds: object) -> list[dict[str, Any]]:
    answer = service.post("/v1/find", {"text": text, **bounds})
    assert answer.status == 200, answer.body
    (lookup,) = answer.json["lookups"]
    found: list[dict[str, Any]] = lookup["matches"]
    return found


def test_a_document_that_was_added_is_found_with_its_distance_and_drawers(service: Service) -> None:
    (text,) = texts(1, seed=1)
    add(service, found=text)
    (match,) = matches(service, text)
    drawers = list(range(1, 11))
    fingerprint = match.pop("fingerprint")
    assert match == {"id": "found", "distance": 0, "similarity": None, "drawers": drawers}
    assert len(fingerprint) == 16
    assert int(fingerprint, 16)


def test_several_texts_are_answered_in_their_order_and_those_without_a_fingerprint_say_why(
    service: Service,
) -> None:
    one, other = texts(2, seed=2)
    add(service, one=one, other=other)
    answer = service.post("/v1/find", {"texts": [other, "", one]}).json
    assert len(answer["profile"]) == 16
    found = [[match["id"] for match in lookup["matches"]] for lookup in answer["lookups"]]
    assert found == [["other"], [], ["one"]]
    assert answer["lookups"][1]["fingerprint"] is None
    assert "empty" in answer["lookups"][1]["reason"]


def test_bounds_reach_the_lookup(service: Service) -> None:
    (text,) = texts(1, seed=3)
    add(service, bounded=text)
    for since in ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00+08:00", "2020-01-01", "7d", "1h"):
        assert matches(service, text, k=0, since=since) != []
    refused = service.post("/v1/find", {"text": text, "k": 9})
    assert (refused.status, refused.code) == (422, "invalid")
    assert "0 to 3 with layout 5x2" in refused.body.decode()
    assert service.post("/v1/find", {"text": text, "since": "9000-01-01T00:00:00Z"}).status == 422
    without_zone = ("2020-01-01T00:00:00", "2020-01-01 00", "2020-01-01_0030", "20200101T00")
    for since, said in {
        **dict.fromkeys(without_zone, "has no time zone"),
        "yesterday": "is not a time",
    }.items():
        refused = service.post("/v1/find", {"text": text, "since": since})
        assert (refused.status, said in refused.body.decode()) == (422, True)


def test_documents_come_as_lines_of_json_too(service: Service) -> None:
    lines = [{"id": f"line{number}", "text": text} for number, text in enumerate(texts(3, seed=4))]
    body = "\n".join(json.dumps(line) for line in lines).encode() + b"\n\n"
    kind = {"Content-Type": "application/x-ndjson; charset=utf-8"}
    answer = service.send("POST", "/v1/documents", body, kind)
    assert (answer.json["added"], answer.json["rejected"]) == (3, [])
    broken = service.send("POST", "/v1/documents", body + b'{"id": 1, "text": "x"}', kind)
    assert (broken.status, broken.json["error"]["details"][0]["where"]) == (422, "line 5.id")


def test_an_add_says_what_it_did_and_what_it_rejected(service: Service) -> None:
    one, other = texts(2, seed=5)
    add(service, moves=one, stays=other)
    given = [
        {"id": "moves", "text": other},
        {"id": "stays", "text": other},
        {"id": "short", "text": "x"},
        {"id": "", "text": one},
    ]
    answer = service.post("/v1/documents", {"documents": given}).json
    assert (answer["added"], answer["updated"], answer["unchanged"]) == (0, 1, 1)
    assert [each["id"] for each in answer["rejected"]] == ["short", ""]
    assert all(each["reason"] for each in answer["rejected"])


def test_of_near_texts_that_are_claimed_one_is_accepted(service: Service) -> None:
    (text,) = texts(1, seed=9)
    claims = [{"id": f"claim{number}", "text": text} for number in range(3)]
    first = service.post("/v1/claim", claims[0]).json["claims"]
    assert [(each["id"], each["outcome"], each["match"]) for each in first] == [("claim0", "accepted", None)]
    assert service.post("/v1/claim", claims[0]).json["claims"] == first
    answer = service.post("/v1/claim", {"documents": [*claims, {"id": "none", "text": "x"}], "timeout": 5})
    outcomes = [each["outcome"] for each in answer.json["claims"]]
    assert outcomes == ["accepted", "duplicate", "duplicate", "rejected"]
    match = answer.json["claims"][1]["match"]
    assert (match["id"], match["distance"], match["drawers"]) == ("claim0", 0, list(range(1, 11)))
    assert answer.json["claims"][3]["reason"]
    assert service.get("/v1/documents/claim1").status == 404


def test_a_claim_of_an_id_with_another_text_is_a_conflict(service: Service) -> None:
    one, other = texts(2, seed=10)
    add(service, taken=one)
    (claim,) = service.post("/v1/claim", {"id": "taken", "text": other}).json["claims"]
    assert claim["outcome"] == "conflict"
    assert claim["reason"]
    for timeout in (-1, "5", None, 1e9):
        assert service.post("/v1/claim", {"id": "a", "text": one, "timeout": timeout}).status == 422


def test_of_many_that_claim_one_text_at_once_one_is_accepted(service: Service) -> None:
    (text,) = texts(1, seed=11)
    claims = [{"id": f"race{number}", "text": text} for number in range(16)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda claim: service.post("/v1/claim", claim).json["claims"][0], claims))
    accepted = [answer["id"] for answer in answers if answer["outcome"] == "accepted"]
    assert len(accepted) == 1
    assert {answer["match"]["id"] for answer in answers if answer["match"]} == set(accepted)


@pytest.mark.parametrize("document", ODD_IDS, ids=ascii)
def test_any_id_can_be_stored_read_and_deleted(service: Service, document: str) -> None:
    (text,) = texts(1, seed=100 + ODD_IDS.index(document))
    stored = service.post("/v1/documents", {"id": document, "text": text})
    assert stored.json["rejected"] == []
    path = path_of(document)
    assert service.get(path).json["id"] == document
    assert service.get(f"{path}/neighbours").json["id"] == document
    assert service.send("DELETE", path).json == {**service_profile(service), "id": document, "deleted": True}
    assert service.get(path).status == 404
    assert service.send("DELETE", path).status == 404


def service_profile(service: Service) -> dict[str, str]:
    return {"profile": service.get("/v1/status").json["profile"]}


def test_slashes_of_an_id_may_be_sent_as_they_are(service: Service) -> None:
    add(service, **{"deep/er/id": texts(1, seed=6)[0]})
    assert service.get("/v1/documents/deep/er/id").json["id"] == "deep/er/id"
    assert service.get("/v1/documents/deep/er/id/neighbours").json["matches"] == []


@pytest.mark.parametrize("document", ["", "unknown", "x" * 1025, "/"])
@pytest.mark.parametrize("what", ["", "/neighbours"])
def test_an_unknown_id_is_not_found(service: Service, document: str, what: str) -> None:
    answer = service.get(path_of(document) + what)
    assert (answer.status, answer.code) == (404, "not_found")


def test_an_id_that_is_no_utf8_is_refused(service: Service) -> None:
    for path in ("/v1/documents/%ff", "/v1/documents/%ed%a0%80", "/v1/documents/%c0%af/neighbours"):
        assert service.get(path).status == 400


def test_tags_are_kept_shown_and_what_lookups_are_limited_by(service: Service) -> None:
    (text,) = texts(1, seed=31)
    documents = [
        {"id": "of a", "text": text, "tags": {"tenant": "a", "source": "wire=1"}},
        {"id": "of b", "text": text, "tags": {"tenant": "b"}},
        {"id": "of nobody", "text": text},
    ]
    lines, kind = "\n".join(map(json.dumps, documents[:2])), {"Content-Type": "application/x-ndjson"}
    assert service.send("POST", "/v1/documents", lines.encode(), kind).json["added"] == 2
    assert service.post("/v1/documents", documents[2]).json["added"] == 1
    assert service.get(path_of("of a")).json["tags"] == documents[0]["tags"]
    assert service.get(path_of("of nobody")).json["tags"] == {}
    for tags, expected in (
        ({"tenant": "b"}, ["of b"]),
        ({"tenant": "a", "source": "wire=1"}, ["of a"]),
        ({"tenant": "a", "source": "wire"}, []),
        ({}, ["of a", "of b", "of nobody"]),
    ):
        assert [match["id"] for match in matches(service, text, tags=tags)] == expected
    neighbours = service.get(f"{path_of('of nobody')}/neighbours?tag=tenant%3Da&tag=source=wire=1")
    assert [match["id"] for match in neighbours.json["matches"]] == ["of a"]


def test_a_claim_stores_its_tags_and_is_decided_over_all_of_them(service: Service) -> None:
    (text,) = texts(1, seed=32)
    claims = [{"id": f"claim of {tenant}", "text": text, "tags": {"tenant": tenant}} for tenant in "ab"]
    first, second = (service.post("/v1/claim", claim).json["claims"][0] for claim in claims)
    assert (first["outcome"], second["outcome"]) == ("accepted", "duplicate")
    assert service.get(path_of("claim of a")).json["tags"] == {"tenant": "a"}


def test_tags_that_cannot_be_are_rejected_or_refused(service: Service) -> None:
    (text,) = texts(1, seed=33)
    long = {"id": "long tag", "text": text, "tags": {"tenant": "x" * 256}}
    (rejected,) = service.post("/v1/documents", long).json["rejected"]
    assert rejected["id"] == "long tag"
    assert "256 bytes" in rejected["reason"]
    (claim,) = service.post("/v1/claim", long).json["claims"]
    assert claim["outcome"] == "rejected"
    for asked in (
        service.post("/v1/find", {"text": text, "tags": {"tenant": ""}}),
        service.post("/v1/find", {"text": text, "tags": {"tenant": 1}}),
        service.post("/v1/documents", {"documents": [], "tags": {"tenant": "a"}}),
        service.get(f"{path_of('of a')}/neighbours?tag=tenant"),
    ):
        assert (asked.status, asked.json["error"]["code"]) == (422, "invalid")


def test_stored_documents_are_listed_by_pages(service: Service) -> None:
    given = [{"id": f"l/{n}?&", "text": text, "tags": {"l": "1"}} for n, text in enumerate(texts(5, seed=77))]
    assert service.post("/v1/documents", {"documents": given}).status == 200
    found: list[dict[str, Any]] = []
    after = ""
    for _ in range(3):
        page = service.get(f"/v1/documents?tag=l=1&limit=2{after}").json
        assert {"profile", "documents", "after"} == page.keys()
        found += page["documents"]
        after = f"&after={quote(page['after'] or '', safe='')}"
    assert page["after"] is None
    assert sorted(each["id"] for each in found) == [f"l/{n}?&" for n in range(5)]
    assert found[0].keys() == {"id", "fingerprint", "tags", "met"}
    assert found[0]["met"] is None
    assert service.get("/v1/documents?since=2020-01-01T00:00:00Z&limit=1").json["documents"]
    for wrong in ("limit=0", "limit=1001", "since=yesterday", "tag=l=1&tag=l=2", "more=1", "limit=1&limit=2"):
        assert service.get(f"/v1/documents?{wrong}").code == "invalid", wrong


def test_the_words_of_a_text_have_weights(service: Service) -> None:
    answer = service.post("/v1/features", {"text": "bridge bridge river"})
    assert answer.status == 200, answer.body
    assert [word for word, _ in answer.json["features"]] == ["bridge", "river"]
    assert answer.json["features"][0][1] > answer.json["features"][1][1] > 0
    assert service.post("/v1/features", {"text": ""}).json["features"] == []


def test_neighbours_are_the_others_near_a_document(service: Service) -> None:
    (text,) = texts(1, seed=7)
    add(service, first=text, second=text.upper())
    answer = service.get("/v1/documents/first/neighbours?k=0").json
    assert [match["id"] for match in answer["matches"]] == ["second"]
    assert (answer["id"], answer["truncated"]) == ("first", False)
    for query in ("k=x", "k=-1", "min_similarity=nan", "since=yesterday", "since=5", "depth=2"):
        assert service.get(f"/v1/documents/first/neighbours?{query}").status == 422


def test_groups_are_those_of_the_stored_documents(service: Service) -> None:
    one, other = texts(2, seed=91)
    documents = [("g/1", one), ("g/2", one.upper()), ("g/3", one), ("g/4", other), ("g/5", other)]
    given = [{"id": name, "text": text, "tags": {"g": name[-1]}} for name, text in documents]
    for each in given:  # one after the other: the first is the oldest
        assert service.post("/v1/documents", each).status == 200
    found = service.get("/v1/groups?limit=1000").json
    groups = [each for each in found["groups"] if each["group"].startswith("g/")]
    members = [{"id": name, "distance": 0, "similarity": None} for name in ("g/2", "g/3", "g/5")]
    assert groups == [
        {"group": "g/1", "size": 3, "members": members[:2], "met": None},
        {"group": "g/4", "size": 2, "members": members[2:], "met": None},
    ]
    assert found["found"] == len(found["groups"])
    assert (found["truncated"], found["lost_sketches"]) == (False, 0)
    assert found["documents"] + found["muted"] >= len(documents)
    tagged = service.get("/v1/groups?tag=g=1&chains=true").json
    assert (tagged["documents"], tagged["groups"]) == (1, [])
    with simhbase.Client(service.url) as client:
        first = client.groups(limit=1)
        assert first.truncated
        assert len(first.groups) == 1
        assert first.found > 1
        assert client.groups(4, chains=True).groups == ()
        assert client.groups(tags={"g": "1"}).documents == 1
    for wrong in (
        "min_size=1",
        "min_size=x",
        "limit=0",
        "chains=yes",
        "since=yesterday",
        "k=2",
        "min_size=2&min_size=3",
    ):
        assert service.get(f"/v1/groups?{wrong}").code == "invalid", wrong


def test_a_store_that_is_too_large_is_not_grouped_for_a_request() -> None:
    index = simhbase.open("memory:", create=simhbase.Profile(verify=False))
    asked = Operations(index, Settings("memory:", limits=Limits(grouped=3, matches=2)), ServiceMetrics())

    async def asks() -> None:
        async with asked.lifespan(None):
            index.add([simhbase.Document(each, ONE) for each in "abc"])
            found = await asked.groups(GroupsRequest(limit=2))
            assert (found.groups[0].size, len(found.groups[0].members), found.truncated) == (3, 1, True)
            index.add([simhbase.Document("d", ONE)])
            with pytest.raises(TooLarge, match="run 'simhbase groups'"):
                await asked.groups(GroupsRequest())

    asyncio.run(asks())


def test_a_list_of_groups_ends_where_many_refused_claims_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 groups may have 10 million, which took minutes."""
    monkeypatch.setattr("simhbase.index.counts.MOST_TOLD", 4)
    index = simhbase.open("memory:", create=simhbase.Profile(verify=False), counts=True)
    asked = Operations(index, Settings("memory:"), ServiceMetrics())

    async def asks() -> None:
        async with asked.lifespan(None):
            for text in (ONE, OTHER):
                index.add([simhbase.Document(f"{text}{number}", text) for number in range(2)])
                index.claim_many([simhbase.Document(f"{text}r{number}", text) for number in range(4)])
            found = await asked.groups(GroupsRequest())
            (group,) = found.groups
            assert (group.met.count if group.met else 0, found.found, found.truncated) == (4, 2, True)

    asyncio.run(asks())


def test_answers_have_a_limit_in_bytes() -> None:
    """100,000 ids of 1,000 control characters made an answer of 624 MB, encoded on the loop for 4 s."""
    index = simhbase.open("memory:", create=simhbase.Profile(verify=False))
    most = 16_000  # two ids and a half
    limits = Limits(answer_bytes=most)
    operations = Operations(index, Settings("memory:", limits=limits), ServiceMetrics())
    ids = [chr(1) * 1_000 + str(number) for number in range(6)]

    async def asks() -> None:
        async with operations.lifespan(None):
            index.add([simhbase.Document(each, ONE) for each in ids])
            (one,) = (await operations.find(FindRequest(text=ONE))).lookups
            several = (await operations.find(FindRequest(texts=[ONE] * 2))).lookups
            near = await operations.neighbours(NeighboursRequest(id=ids[0]))
            groups = await operations.groups(GroupsRequest(limit=1))
            given = [GivenDocument(id=each, text=ONE) for each in "ab"]
            claims = (await operations.claim(ClaimsRequest(documents=given, mode="annotate"))).claims
            after, listed = None, list[str]()
            while True:
                page = await operations.stored(StoredRequest(after=after))
                assert len(encode(page.documents)) <= most
                listed += [document.id for document in page.documents]
                if (after := page.after) is None:
                    break
            assert [len(lookup.matches) for lookup in (one, *several)] == [2, 1, 1]
            assert all(lookup.truncated for lookup in (one, *several, near, *claims))
            assert (len(near.matches), len(groups.groups[0].members), groups.truncated) == (1, 2, True)
            assert [len(claim.also_at) for claim in claims] == [1, 1]
            assert sorted(listed) == sorted([*ids, "a", "b"])

    asyncio.run(asks())


def test_of_all_annotated_texts_an_answer_lists_no_more_than_of_lookups() -> None:
    index = simhbase.open("memory:", create=simhbase.Profile(verify=False))
    operations = Operations(index, Settings("memory:", limits=Limits(matches=4)), ServiceMetrics())

    async def asks() -> None:
        async with operations.lifespan(None):
            index.add([simhbase.Document(each, ONE) for each in "abcdef"])
            given = [GivenDocument(id=each, text=ONE) for each in ("1", "2")]
            claims = (await operations.claim(ClaimsRequest(documents=given, mode="annotate"))).claims
            assert [(len(claim.also_at), claim.truncated) for claim in claims] == [(2, True)] * 2

    asyncio.run(asks())


@pytest.mark.parametrize("mode", get_args(ClaimMode))
def test_of_claims_whose_client_has_gone_what_has_not_begun_is_not_done(
    monkeypatch: pytest.MonkeyPatch, mode: ClaimMode
) -> None:
    """All of a thousand were claimed, for half a minute."""
    index = simhbase.open("memory:", create=simhbase.Profile(verify=False))
    operations = Operations(index, Settings("memory:"), ServiceMetrics())
    given = [GivenDocument(id=f"d{number}", text=text) for number, text in enumerate(texts(100, seed=90))]
    begun, gone, decide = threading.Event(), threading.Event(), AtomicClaimer._decide

    def decided(*given: Any, **options: Any) -> Any:
        begun.set()
        assert gone.wait(10)
        return decide(*given, **options)

    async def asks() -> list[int | None]:
        async with operations.lifespan(None):
            claim = asyncio.create_task(operations.claim(ClaimsRequest(documents=given, mode=mode)))
            assert await asyncio.to_thread(begun.wait, 10)
            claim.cancel()
            await asyncio.wait([claim])
            gone.set()
            operations._claims.close()
            return index.fingerprints(["d0", "d99"])

    monkeypatch.setattr(AtomicClaimer, "_decide", decided)
    first, last = asyncio.run(asks())
    assert first is not None
    assert last is None


def test_what_is_muted_is_no_match_until_it_is_unmuted(service: Service) -> None:
    (text,) = texts(1, seed=40)
    add(service, **{"muted/1": text, "muted 2": text})
    until = "2999-01-31T18:00:00+02:00"
    added = service.post("/v1/muted", {"ids": ["muted/1"], "until": until, "note": "asked for"})
    assert (added.status, added.json["added"]) == (200, 1), added.body
    (match,) = matches(service, text)
    assert match["id"] == "muted 2"
    assert added.json["not_stored"] == []
    both = {"ids": ["muted/1", "nobody"], "until": until, "note": "asked for"}
    assert service.post("/v1/muted", both).json["not_stored"] == ["nobody"]
    assert service.send("DELETE", "/v1/muted?id=nobody").json["removed"] == 1
    assert service.post("/v1/muted", {"fingerprints": [match["fingerprint"]]}).json["added"] == 1
    assert matches(service, text) == []
    of_id, of_fingerprint = service.get("/v1/muted").json["muted"]
    assert of_id.pop("since").startswith("20")
    assert of_fingerprint.pop("since").startswith("20")
    assert of_id == {
        "id": "muted/1",
        "fingerprint": None,
        "until": "2999-01-31T16:00:00Z",
        "note": "asked for",
    }
    assert of_fingerprint == {
        "id": None,
        "fingerprint": match["fingerprint"],
        "until": None,
        "note": "",
    }
    query = f"id=muted%2F1&id=nobody&fingerprint={match['fingerprint']}"
    removed = service.send("DELETE", f"/v1/muted?{query}")
    assert (removed.status, removed.json["removed"]) == (200, 2), removed.body
    assert [each["id"] for each in matches(service, text)] == ["muted 2", "muted/1"]
    assert service.get("/v1/muted").json["muted"] == []


@pytest.mark.parametrize(
    "body",
    [
        {"ids": [""]},
        {"ids": "muted"},
        {"ids": ["x" * 1025]},
        {"fingerprints": ["12"]},
        {"ids": ["a"], "until": "2020-01-31T18:00:00Z"},
        {"ids": ["a"], "until": "2999-01-31T18:00:00"},
        {"ids": ["a"], "until": "9999-12-31T23:59:59Z"},
        {"ids": ["a"], "until": 5},
        {"ids": ["a"], "note": "two\nlines"},
        {"ids": ["a"], "note": "x" * 501},
        {"id": "a"},
    ],
)
def test_what_can_be_no_entry_of_the_mute_list_is_refused(service: Service, body: dict[str, Any]) -> None:
    answer = service.post("/v1/muted", body)
    assert answer.status in (400, 422), answer.body
    assert service.get("/v1/muted").json["muted"] == []


def test_two_texts_are_compared_word_by_word(service: Service) -> None:
    answer = service.post(
        "/v1/compare", {"left": "a big brown dog runs", "right": "a big black dog runs"}
    ).json
    assert answer["distance"] > 0
    assert answer["match"] is False
    stretches = [(each["same"], each["left"], each["right"]) for each in answer["stretches"]]
    assert stretches == [
        (True, "a big ", "a big "),
        (False, "brown", "black"),
        (True, " dog runs", " dog runs"),
    ]
    assert {each["word"] for each in answer["words"]} == {"brown", "black"}


def test_an_explanation_has_each_drawer_and_what_became_of_a_document(service: Service) -> None:
    near, far = texts(2, seed=8)
    add(service, near=near, far=far)
    answer = service.post("/v1/explain", {"text": near, "id": "far"}).json
    assert [drawer["flag"] for drawer in answer["drawers"]] == list(range(1, 11))
    verdicts = {each["id"]: each["verdict"] for each in answer["candidates"]}
    assert verdicts == {"near": "match", "far": "too far"}
    assert service.post("/v1/explain", {"text": "x"}).json["reason"]


def test_answers_to_short_texts_say_what_the_profile_misses_of_them(service: Service) -> None:
    short, long = "A notice of the library.", texts(1, seed=140)[0]
    documents = [{"id": "short", "text": short}]
    requests: dict[str, dict[str, Any]] = {
        "find": {"texts": [long, short]},
        "claim": {"documents": documents, "mode": "annotate"},
        "documents": {"documents": documents},
    }
    for path, value in requests.items():
        (said,) = service.post(f"/v1/{path}", value).json["warnings"]
        assert "at most 140 characters" in said
    assert service.log_text().count(said) == 1
    assert service.post("/v1/find", {"text": long}).json["warnings"] == []
    schemas = service.get("/openapi.json").json["components"]["schemas"]
    assert all("warnings: what" in schemas[name]["description"] for name in ("Lookups", "Claims", "Stored"))
    calls: list[Callable[[simhbase.Client], object]] = [
        lambda client: client.find(short),
        lambda client: client.add([("short", short)]),
        lambda client: client.claim("short", short),
    ]
    for call in calls:
        with simhbase.Client(service.url) as client:
            with pytest.warns(simhbase.ShortTexts, match="at most 140 characters") as warned:
                call(client)
            assert warned[0].filename == __file__
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                call(client)


def test_the_status_says_what_the_store_is(service: Service) -> None:
    answer = service.get("/v1/status").json
    assert answer["version"] == simhbase.__version__
    assert answer["parameters"]["layout"] == "5x2"
    assert answer["access"] == "write"
    assert answer["stats"]["documents"] >= 0
    assert answer["stats"]["table_estimates"]["documents"].keys() == {"rows", "bytes", "error"}
    assert answer["counted_at"].endswith("Z")


def test_it_is_alive_and_ready(service: Service) -> None:
    assert service.get("/healthz").json == {"status": "ok"}
    assert service.get("/readyz").json == {"status": "ok"}


def test_metrics_count_answers_by_route_not_by_path(service: Service) -> None:
    service.get("/v1/documents/some-id")
    matches(service, ONE)
    page = service.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain")
    numbers = page.body.decode()
    assert 'simhbase_requests_total{method="GET",route="/v1/documents/{id}",status="404"}' in numbers
    assert "some-id" not in numbers
    histograms = ("candidates_bucket", "largest_drawer_bucket", "request_seconds_bucket")
    for name in ("lookups_total", "drawer_rows_total", "connections_in_use", *histograms):
        assert f"simhbase_{name}" in numbers


def test_a_request_id_comes_back_and_is_in_the_log(service: Service) -> None:
    answer = service.get("/healthz", **{"X-Request-ID": "batch-7:page/3"})
    assert answer.headers["x-request-id"] == "batch-7:page/3"
    (line,) = [line for line in service.logged() if line.get("request_id") == "batch-7:page/3"]
    assert (line["method"], line["path"], line["status"]) == ("GET", "/healthz", 200)
    failed = service.get("/v1/documents/nothing", **{"X-Request-ID": "x1"})
    assert failed.json["error"]["request_id"] == "x1"


@pytest.mark.parametrize("given", ["", "a b", 'x"y', "y" * 129, "é"])
def test_a_request_id_that_would_harm_a_log_is_replaced(service: Service, given: str) -> None:
    answer = service.get("/healthz", **{"X-Request-ID": given})
    assert answer.headers["x-request-id"] != given
    assert len(answer.headers["x-request-id"]) == 24


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"7",
        b"{",
        b"[" * 100_000,
        b'{"text": "\xff\xfe"}',
        b'{"text": "half of a pair: \\ud800"}',
        b'{"text": "\xed\xa0\x80"}',
        b'{"text": 7}',
        b'{"text": null}',
        b'{"text": ["a"]}',
        b'{"texts": "abc"}',
        b'{"texts": [1]}',
        b'{"text": "a", "texts": ["b"]}',
        b'{"text": "a", "texts": null}',
        b'{"id": "a", "text": "b", "documents": null}',
        b'{"id": "a"}',
        b"{}",
        b'{"text": "a b c d", "k": true}',
        b'{"text": "a b c d", "k": "1"}',
        b'{"text": "a b c d", "k": -1}',
        b'{"text": "a b c d", "k": 1.5}',
        b'{"text": "a b c d", "k": %s}' % (b"9" * 5000),
        b'{"text": "a b c d", "k": 1e400}',
        b'{"text": "a b c d", "min_similarity": NaN}',
        b'{"text": "a b c d", "min_similarity": Infinity}',
        b'{"text": "a b c d", "min_similarity": 2}',
        b'{"text": "a b c d", "since": 5}',
        b'{"text": "a b c d", "since": "5"}',
        b'{"text": "a b c d", "since": 1e300}',
        b'{"text": "a b c d", "since": "9999-12-31T23:59:59-23:59"}',
        b'{"text": "a b c d", "since": "0001-01-01T00:00:00+23:59"}',
        b'{"text": "a b c d", "kk": 1}',
        b"\x1f\x8b\x08\x00 no gzip either",
    ],
    ids=lambda body: ascii(body[:40]),
)
@pytest.mark.parametrize("path", ["/v1/find", "/v1/claim", "/v1/documents", "/v1/compare", "/v1/explain"])
def test_a_body_that_is_not_as_described_is_refused(service: Service, path: str, body: bytes) -> None:
    answer = service.post(path, body)
    assert answer.status in (400, 422), answer.body
    error = answer.json["error"]
    assert error.keys() == {"code", "message", "request_id", "details"}
    assert error["code"] in ("malformed", "invalid")
    assert "Traceback" not in answer.body.decode()


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "",
        "application/xml",
        "application/json; charset=utf-16",
        'application/json;x=y; Charset = "latin-1"',
        "application/json; charset=utf-8; charset=utf-16",
    ],
)
@pytest.mark.parametrize("path", ["/v1/find", "/v1/documents"])
def test_a_body_of_another_type_is_refused_as_pages_of_other_sites_send_such(
    service: Service, path: str, kind: str
) -> None:
    answer = service.send("POST", path, b'{"text": "a b c d"}', {"Content-Type": kind})
    assert (answer.status, answer.code) == (415, "unsupported_media_type")


@pytest.mark.parametrize("charset", ["", ";", "; charset=utf-8", ';charset="UTF-8"; x=y', ";CHARSET=utf8"])
def test_a_body_may_be_said_to_be_in_utf_8(service: Service, charset: str) -> None:
    headers = {"Content-Type": f"application/json{charset}"}
    assert service.send("POST", "/v1/find", b'{"text": "a b c d"}', headers).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "//v1/find",
        "/v1",
        "/v1/",
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/%00",
        "/page/../settings.py",
        "/\\..\\settings.py",
    ],
)
def test_paths_lead_nowhere_else(service: Service, path: str) -> None:
    answer = service.get(path)
    assert answer.status == 404, answer.body
    assert answer.code == "not_found"


def test_another_method_is_refused_and_says_which_there_are(service: Service) -> None:
    answer = service.get("/v1/find")
    assert (answer.status, answer.code, answer.headers["allow"]) == (405, "method_not_allowed", "POST")
    assert service.post("/v1/documents/one", {}).headers["allow"] == "DELETE, GET, HEAD"
    for path in ("/", "/openapi.json", "/page/page.js"):
        answer = service.post(path, {})
        assert (answer.status, answer.code) == (405, "method_not_allowed"), path


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("find", '{"text": "a text of words", "k": 1, "k": 2}', "k"),
        ("find", '{"text": "a text", "te\\u0078t": "another \\\\"}', "text"),
        ("find", '{"text": "a text of words", "tags": {"a": "1", "a": "1"}}', "a"),
        (
            "claim",
            '{"documents": [{"id": "x", "text": "words"}, {"id": "y", "id": "z", "text": "w"}]}',
            "id",
        ),
    ],
)
def test_a_name_given_twice_is_refused(service: Service, path: str, body: str, name: str) -> None:
    answer = service.post(f"/v1/{path}", body.encode())
    assert (answer.status, answer.code) == (400, "malformed"), answer.body
    assert f"'{name}' twice" in answer.body.decode()


def test_texts_that_look_like_names_given_twice_are_texts(service: Service) -> None:
    for text in ('with "text": and \\ "text": of \\" words', "\\", '\\\\"', '"\\', '\\n"text'):
        assert service.post("/v1/find", {"text": text, "tags": {"text": text}}).status == 200


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/v1/status", "/openapi.json", "/metrics"])
def test_head_is_answered_as_get_without_a_body(service: Service, path: str) -> None:
    got, head = service.get(path), service.send("HEAD", path)
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-type"] == got.headers["content-type"]


def test_answers_keep_browsers_in_bounds(service: Service) -> None:
    headers = service.get("/healthz").headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in headers


def test_without_tokens_another_host_is_refused(service: Service) -> None:
    for host in (
        *(
            "evil.example:80",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "localhost.",
            "localhost@evil",
        ),
        *("[::1].evil.example", "[::1]evil", "[::1]:80:evil", "[::1]:evil", "[localhost]", "[127.0.0.1]:80"),
        *("localhost:80@evil.example", "user@localhost", "localhost:", "localhost:80:80", "localhost:evil"),
        *(
            "localhost/evil",
            "localhost#",
            "localhost,evil",
            "[::1%evil.example]",
            "::1",
            "127.1",
            "2130706433",
        ),
        *(
            "127.0.0.1:80.evil.example",
            "127.0.0.1]",
            "[::1",
            "a]localhost",
            "",
            " ",
            "ʟocalhost".encode().decode("latin-1"),
        ),
    ):
        refused = service.get("/v1/status", Host=host)
        assert (host, refused.status, refused.code) == (host, 421, "unknown_host")
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:7", "[::1]", "[::FFFF:127.0.0.1]:7"):
        assert service.get("/healthz", Host=host).status == 200


def test_the_log_has_a_line_of_json_a_request_and_no_text(service: Service) -> None:
    matches(service, "some words that nobody else may read")
    lines = [line for line in service.logged() if line.get("route") == "/v1/find"]
    assert lines
    assert {"time", "level", "request_id", "status", "seconds", "client"} <= lines[-1].keys()
    assert "nobody else may read" not in json.dumps(service.logged())


def test_what_the_service_stored_is_there_when_it_has_stopped(tmp_path: Path) -> None:
    url = f"rocksdb:{tmp_path}/store"
    simhbase.open(url, create=simhbase.Profile(verify=False)).close()
    with serving(url, tmp_path) as service:
        add(service, kept=ONE)
    with simhbase.open(url) as index:
        assert [match.id for match in index.find(NEAR, k=3).matches] in (["kept"], [])
        assert index.fingerprints(["kept"]) != [None]


def test_a_store_that_counts_says_how_often_a_document_was_met(tmp_path: Path) -> None:
    url = f"rocksdb:{tmp_path}/store"
    simhbase.open(url, create=simhbase.Profile(verify=False), counts=True).close()
    with serving(url, tmp_path) as service:
        outcomes = [
            service.post("/v1/claim", {"id": name, "text": ONE}).json["claims"][0]["outcome"]
            for name in "abb"
        ]
        assert outcomes == ["accepted", "duplicate", "duplicate"]
        met = service.get("/v1/documents/a").json["met"]
        assert (met["count"], met["truncated"]) == (1, False)
        (stored,) = service.get("/v1/documents").json["documents"]
        assert (stored["id"], stored["met"]) == ("a", met)
        with simhbase.Client(service.url) as client:
            document = client.document("a")
            assert document is not None
            assert document.met is not None
            assert (document.met.count, [each.met for each in client.stored()]) == (1, [document.met])
