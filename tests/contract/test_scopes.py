"""A scope of a store answers as a store of its own does, whatever other scopes hold."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import simhbase
from simhbase import Administrator, Document, Fingerprint, Query
from simhbase.admin.check import Checker
from simhbase.errors import Conflict, SchemaDiffers, UsageError
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.index import Index
from simhbase.index.load_log import LoadLog
from simhbase.index.scoped import StoreOfScopes
from simhbase.index.scopes import Scope
from simhbase.index.stored_profile import read_profile, write_profile
from simhbase.profile.profile import Profile, make_profile
from simhbase.stores import create_store
from simhbase.stores.base import Store, now
from tests.contract.conftest import Kind, kind_called, with_profiles

NAMES = ["a", "b", "ax", "a b", "ü"]  # one begins as another
WORDS = [f"word{number}" for number in range(30)]
STEPS = {False: 50, True: 150}  # with --full
IDS = [*(f"d{number}" for number in range(10)), "a", "a\x1fb", "ü/ß"]
PROFILES = {name: make_profile({}, name) for name in ("default", "complete", "short", "classic")}


class Clock:
    """This machine's, and so many milliseconds more."""

    ahead = 0

    def __call__(self) -> int:
        return now() + self.ahead


class Two:
    """A store with scopes, and one store for each scope."""

    def __init__(self, kind: Kind, folder: Path, profile: Profile) -> None:
        self.clock = Clock()
        self.shared = StoreOfScopes(*made(kind.url(folder, 0), profile, scoped=True), clock=self.clock)
        self.scopes = {name: self.shared.within(name) for name in NAMES}
        self.alone = {
            name: Index(*made(kind.url(folder, number), profile), clock=self.clock)
            for number, name in enumerate(NAMES, 1)
        }

    def close(self) -> None:
        for index in (self.shared, *self.alone.values()):
            index.close()


def made(url: str, profile: Profile, *, scoped: bool = False) -> tuple[Store, Any]:
    store = create_store(url)
    write_profile(store, profile, scoped=scoped)
    return store, read_profile(store)


@pytest.fixture(params=with_profiles(*PROFILES))
def two(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Two]:
    kind, name = request.param
    found = Two(kind_called(kind, request), tmp_path, PROFILES[name])
    yield found
    found.close()


class Texts:
    """Texts many of which are near each other."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.bases = [[chance.choice(WORDS) for _ in range(40)] for _ in range(5)]

    def __call__(self) -> str:
        words = list(self.chance.choice(self.bases))
        for _ in range(self.chance.choice([0, 0, 1, 2, 4])):
            words[self.chance.randrange(40)] = self.chance.choice(WORDS)
        return " ".join(words)


def shape(answer: Any) -> Any:
    """An answer without what differs between stores: times, and what hints left behind."""
    if is_dataclass(answer) and not isinstance(answer, type):
        kind = type(answer).__name__
        left_out = {"since", "until", "more_candidates"}
        left_out |= {"rows", "candidates"} if kind == "Drawer" else set()
        named = {each.name: shape(getattr(answer, each.name)) for each in fields(answer)}
        found = {name: value for name, value in named.items() if name not in left_out}
        if kind == "Explanation":
            stale = [each for each in found["candidates"] if each["id"] is not None]
            found["candidates"] = sorted(stale, key=repr)
        return found
    if isinstance(answer, dict):
        return {name: shape(value) for name, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [shape(each) for each in answer]
    return str(answer) if isinstance(answer, Fingerprint) else answer


def asked(index: Index, name: str, given: Sequence[Any]) -> Any:
    documents, texts, ids, query = given
    values = index.fingerprinter.fingerprint_many(texts).values
    # The real clock of HBase would pass the end of a short time between two questions.
    old = timedelta(days=1) if index.store.keeps_hints else timedelta(seconds=20)
    calls: dict[str, Any] = {
        "add": lambda: index.add(documents),
        "claim": lambda: list(index.claim_many(documents)),
        "claim one": lambda: index.claim(documents[0].id, documents[0].text),
        "annotate": lambda: list(index.claim_many(documents, mode="annotate")),
        "delete": lambda: index.delete(ids),
        "find": lambda: index.find(texts[0], tags=query.tags, since=query.since),
        "find many": lambda: list(index.find_many(texts, tags=query.tags, since=query.since)),
        "find ids": lambda: index.find_ids(ids, query),
        "find fingerprints": lambda: index.find_fingerprints(values, query),
        "explain": lambda: index.explain(texts[0], ids[0]),
        "explain ids": lambda: index.explain_ids(ids),
        "documents": lambda: index.documents(ids),
        "fingerprints": lambda: index.fingerprints(ids),
        "stored": lambda: sorted(index.stored(query.since, query.tags), key=lambda each: each.id),
        "pages": lambda: sorted(paged(index)),
        "length": lambda: (len(index), sorted(index), ids[0] in index),
        "mute": lambda: index.mute(ids),
        "mute text": lambda: index.mute(fingerprints=values),
        "unmute": lambda: index.unmute(ids, values),
        "muted": lambda: index.muted(),
        "groups": lambda: groups_of(index),
        "pairs": lambda: sorted(map(repr, Administrator(index).pairs())),
        "count older": lambda: Administrator(index).count_older_than(old).removed,
        "delete older": lambda: Administrator(index).delete_older_than(old),
        "number": lambda: Administrator(index).documents(1 << 30),
    }
    try:
        return calls[name]()
    except Conflict as error:
        return str(error)


OPERATIONS = [
    *("add", "add", "claim", "claim one", "annotate", "delete", "find", "find many", "find ids"),
    *("find fingerprints", "explain", "explain ids", "documents", "fingerprints", "stored", "pages"),
    *("groups", "pairs", "count older", "delete older", "number"),
    *("length", "mute", "mute text", "unmute", "unmute", "muted"),
]


def groups_of(index: Index) -> list[str]:
    with Administrator(index).groups() as found:
        return [repr(group) for group in found]


def paged(index: Index) -> Iterator[str]:
    after = None
    while True:
        page = index.stored_page(after=after, limit=3)
        yield from (document.id for document in page.documents)
        if (after := page.after) is None:
            return


def test_a_scope_answers_as_a_store_of_its_own(two: Two, pytestconfig: pytest.Config) -> None:
    chance = random.Random(1)
    text = Texts(chance)
    has_past = not two.shared.store.keeps_hints  # HBase goes by its own clock
    for step in range(STEPS[pytestconfig.getoption("--full")]):
        two.clock.ahead += chance.randrange(1, 1000) if has_past else 0
        name, operation = chance.choice(NAMES), chance.choice(OPERATIONS)
        ids = chance.sample(IDS, chance.randrange(1, 4))
        texts = [text() for _ in ids]
        documents = [
            Document(each, of, {"kind": chance.choice("xy")}) for each, of in zip(ids, texts, strict=True)
        ]
        query = chance.choice([Query(), Query(tags={"kind": "x"})])
        if has_past and chance.random() < 0.3:
            query = Query(since=timedelta(seconds=3))
        given = documents, texts, ids, query
        found, expected = (
            shape(asked(index, operation, given)) for index in (two.scopes[name], two.alone[name])
        )
        assert found == expected, (step, name, operation)
    documents = {name: set(index) for name, index in two.alone.items()}
    assert {name: set(index) for name, index in two.scopes.items()} == documents
    assert any(documents.values())
    assert rows_of([two.shared]) == rows_of(two.alone.values())
    for index in (two.shared, *two.alone.values()):
        report = Checker(index.store, index.profile.index_scheme, repair=False).check()
        assert report.clean, report


def rows_of(indexes: Any) -> int:
    """Rows of the index table."""
    return sum(len(part.keys) for index in indexes for part in index.store.drawers.iterate())


def test_an_explanation_tells_no_numbers_of_another_scope(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where both have the same drawers, rows and candidates of all were counted."""
    monkeypatch.setattr(Scope, "value_mask", 0)
    monkeypatch.setattr(Scope, "sketch_mask", b"")
    one, other = two.shared.within("a"), two.shared.within("ax")
    text = " ".join(WORDS * 2)
    one.add([(str(number), f"{text} {number}") for number in range(20)])
    own, told = one.explain(text), other.explain(text)
    assert max(drawer.rows for drawer in own.drawers) > 1
    assert [(drawer.rows, drawer.candidates) for drawer in told.drawers] == [(0, 0)] * len(own.drawers)
    assert (told.candidates, told.more_candidates) == ((), 0)
    other.add([("mine", text)])
    assert [each.id for each in other.explain(text).candidates] == ["mine"]
    assert {drawer.rows for drawer in other.explain(text).drawers} == {1}


def test_statistics_tell_no_numbers_of_another_scope(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of all scopes in its drawers were counted, and so how many documents the others have was told."""
    monkeypatch.setattr(Scope, "value_mask", 0)
    monkeypatch.setattr(Scope, "sketch_mask", b"")
    one, other = two.shared.within("a"), two.shared.within("ax")
    text = " ".join(WORDS * 2)
    one.add([(str(number), f"{text} {number}") for number in range(20)])
    other.add([("mine", text)])
    assert Administrator(one).stats().drawers.largest_rows > 1
    told = Administrator(other).stats().drawers
    assert (told.mean_rows, told.largest_rows, told.over_limit) == (1, 1, 0)


def test_a_page_follows_one_that_was(two: Two) -> None:
    """An empty `after` was taken for an id, and the documents before it were left out."""
    for index in (two.scopes["a"], two.alone["a"]):
        for after in ("", "x" * 2_000):
            with pytest.raises(UsageError, match="after: no page before has this: the id"):
                index.stored_page(after=after)


def test_a_scope_is_listed_and_dropped_and_others_stay(two: Two) -> None:
    text = Texts(random.Random(2))
    of_all = Administrator(two.shared)
    for name in ("a", "ax"):
        two.scopes[name].add([(str(number), text()) for number in range(20)])
        two.scopes[name].mute(["1"])
        with LoadLog.begin(two.shared.store, "night", "task", two.scopes[name].of):
            pass
    assert of_all.scopes() == ["a", "ax"]
    assert len(Administrator(two.scopes["a"]).loads()) == 1
    assert of_all.drop_scope("a") == 20
    assert of_all.drop_scope("a") == 0
    assert of_all.scopes() == ["ax"]
    assert (len(two.scopes["a"]), len(two.scopes["ax"])) == (0, 20)
    assert (two.scopes["a"].muted(), len(two.scopes["ax"].muted())) == ([], 1)
    assert Administrator(two.scopes["a"]).loads() == []
    assert len(Administrator(two.scopes["ax"]).loads()) == 1


def near(index: Index, texts: Sequence[str]) -> list[list[tuple[str, float | None]]]:
    return [sorted((match.id, match.similarity) for match in found) for found in index.find_many(texts)]


@pytest.mark.parametrize("profile", PROFILES)
def test_migrate_moves_a_store_into_a_scope_and_copies_one_with_scopes(tmp_path: Path, profile: str) -> None:
    text = Texts(random.Random(3))
    documents = {name: [(str(number), text()) for number in range(30)] for name in ("a", "b")}
    urls = {name: f"rocksdb:{tmp_path}/{name}" for name in (*documents, "shared", "moved")}
    for name, some in documents.items():
        with simhbase.open(urls[name], create=profile) as index:
            index.add(some)
            index.delete(["7"])
        simhbase.migrate(urls[name], urls["shared"], scope=name)
    changed = {"layout": "6x3"} if profile == "default" else None
    simhbase.migrate(urls["shared"], urls["moved"], changed)
    for url in (urls["shared"], urls["moved"]):
        assert simhbase.check(url).clean
        for name, some in documents.items():
            with simhbase.open(urls[name], access="read") as one, simhbase.open(url, scope=name) as other:
                assert sorted(one) == sorted(other)
                texts = [each for _, each in some]
                if url == urls["shared"] or profile != "default":
                    assert near(other, texts) == near(one, texts)
                assert "7" not in other
    with simhbase.open(urls["moved"]) as whole:
        assert Administrator(whole).scopes() == ["a", "b"]


def test_a_store_with_scopes_is_not_mixed_with_others(tmp_path: Path) -> None:
    scoped, plain = f"rocksdb:{tmp_path}/scoped", f"rocksdb:{tmp_path}/plain"
    for url, scope in ((scoped, "a"), (plain, None)):
        with simhbase.open(url, create="classic", scope=scope) as index:
            index.add([("1", "one two three four five six")])
    for source, target in ((scoped, plain), (plain, scoped)):
        with pytest.raises(UsageError, match="other scopes"):
            simhbase.migrate(source, target)
    with pytest.raises(UsageError, match="has scopes itself"):
        simhbase.migrate(scoped, plain, scope="b")
    with pytest.raises(UsageError, match="has no scopes"):
        simhbase.open(plain, scope="a")
    with pytest.raises(SchemaDiffers, match="has no scopes"):
        simhbase.open(plain, create="classic", scoped=True)
    with simhbase.open(scoped) as whole, pytest.raises(UsageError, match="has scopes, and none was given"):
        whole.find("one two three four five six")


@pytest.mark.parametrize("name", ["", "a\x1fb", "a\n", "\x7f", "\x85", "ü" * 33, "\ud800", 1])
def test_what_is_no_name_of_a_scope_is_refused(name: object) -> None:
    with pytest.raises(UsageError, match="scope"):
        simhbase.open("memory:", create="classic", scope=name)


def test_an_id_and_its_scope_are_not_too_long() -> None:
    with simhbase.open("memory:", create="classic", scope="s") as index:
        words = "one two three four five six"
        report = index.add([("x" * 1022, words), ("y" * 1023, words), ("", words)])
    assert report.added == 1
    assert [each.reason for each in report.rejected] == [
        "the id and its scope have 1025 bytes in UTF-8, at most 1024 are allowed",
        "the id is empty",
    ]
    assert [each.id for each in report.rejected] == ["y" * 1023, ""]


def test_masks_are_the_known_ones() -> None:
    scope = Scope("ü", bytes(range(16)), SketchParameters(16, 8))
    assert f"{scope.value_mask:016x}" == "e55210433326fd58"
    assert scope.sketch_mask[:8].tobytes().hex() == "fa92497826b4bc67"
    assert scope.sketch_mask.shape == (16,)
    other = Scope("ü", bytes(16), SketchParameters(16, 8))
    assert other.value_mask != scope.value_mask
