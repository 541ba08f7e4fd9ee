"""What workers were answered who have claimed near texts at once, and whether that can be right."""

import gzip
import json
import multiprocessing
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest

from simhbase.admin.check import Checker
from simhbase.drawers.join import pairs_within
from simhbase.errors import RetryableError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import open_index
from simhbase.model.values import Claim
from simhbase.profile.profile import Profile
from tests.reference import DATA

K = 3
PATIENCE = 900.0  # seconds
AT_ONCE = 20  # documents of a claim at most

Given = tuple[str, object]  # an id, and a fingerprint or a text


@dataclass(frozen=True)
class Answer:
    """What a worker was answered about a document, and when: seconds of one clock. outcome None: it was never
    answered, as the worker was killed, or the store failed."""

    id: str
    outcome: str | None
    match: str | None
    begin: float
    end: float


def claim_by(
    ask: Callable[[list[Given]], list[Claim]], worker: int, given: Sequence[Given], path: Path
) -> None:
    """Claims documents in an order of its own, and notes when it begins and what it is answered."""
    chance = random.Random(worker)
    left = list(given)
    chance.shuffle(left)
    with path.open("a") as file:

        def note(kind: str, what: object) -> None:
            print(json.dumps([kind, what, time.monotonic()]), file=file, flush=True)

        while left:
            some, left = left[: (size := chance.randint(1, AT_ONCE))], left[size:]
            note("begin", [document for document, _ in some])
            try:
                claims = ask(some)
            except RetryableError:
                left += some  # the same claims again
                continue
            undecided = {each.id for each in claims if each.outcome == "undecided"}
            left += [each for each in some if each[0] in undecided]
            note("end", [(each.id, each.outcome, each.match and each.match.id) for each in claims])


def claim(url: str, worker: int, documents: Sequence[Given], path: Path, scope: str | None = None) -> None:
    with open_index(url, scope=scope) as index:

        def ask(some: list[Given]) -> list[Claim]:
            values = np.array([value for _, value in some], dtype=np.uint64)
            batch = FingerprintBatch.bare(values)
            return index.claim_batch([document for document, _ in some], batch, timeout=120).claims

        claim_by(ask, worker, documents, path)


def claim_and_stay(
    url: str, worker: int, documents: Sequence[Given], path: Path, scope: str | None = None
) -> None:
    """The same; the first worker does not end by itself, so that it can be killed at any time."""
    claim(url, worker, documents, path, scope)
    if worker == 0:
        time.sleep(PATIENCE)


def clusters(count: int, size: int) -> Iterator[tuple[str, int]]:
    """Documents in groups: of a group many are within three bits of each other, and not all."""
    chance = random.Random(count)
    for group in range(count):
        centre = chance.getrandbits(64)
        for number in range(size):
            value = centre
            for bit in chance.sample(range(64), chance.randint(0, 3)):
                value ^= 1 << bit
            yield f"{number}/{group}", value


def answers_in(path: Path) -> list[Answer]:
    """What a worker has noted; a line that was cut by its end does not count."""
    found, begin, asked = [], 0.0, list[str]()
    *lines, _ = path.read_text().split("\n") if path.exists() else [""]
    for kind, what, when in map(json.loads, lines):
        if kind == "begin":
            found += [Answer(document, None, None, begin, float("inf")) for document in asked]
            asked, begin = what, when
        else:
            found += [Answer(document, outcome, match, begin, when) for document, outcome, match in what]
            asked = []
    return found + [Answer(document, None, None, begin, float("inf")) for document in asked]


@dataclass
class Fleet:
    """Workers that claim a part of the documents each: work(where, worker, its part, where to note)."""

    work: Callable[[str, int, Sequence[Given], Path], None]
    where: str
    documents: Sequence[Given]
    folder: Path
    workers: int

    def __post_init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.folder.mkdir(exist_ok=True)
        share = -(-len(self.documents) // self.workers)
        parts = [self.documents[start : start + share] for start in range(0, len(self.documents), share)]
        self.paths = [self.folder / str(number) for number in range(len(parts))]
        self.processes: list[BaseProcess] = [
            context.Process(target=self.work, args=(self.where, number, part, path), daemon=True)
            for number, (part, path) in enumerate(zip(parts, self.paths, strict=True))
        ]

    def start(self) -> None:
        for process in self.processes:
            process.start()

    def wait_for(self, share: float, worker: int | None = None) -> None:
        """Until so many of the documents, or of those of one worker, have been answered."""
        paths, documents = self.paths, len(self.documents)
        if worker is not None:
            paths, documents = [self.paths[worker]], documents // len(self.paths)
        end = time.monotonic() + PATIENCE
        while (
            sum(each.outcome is not None for path in paths for each in answers_in(path)) < share * documents
        ):
            assert time.monotonic() < end, "they do not get on"
            assert any(process.is_alive() for process in self.processes), "all have ended"
            time.sleep(0.01)

    def join(self) -> list[int | None]:
        for process in self.processes:
            process.join(PATIENCE)
        return [process.exitcode for process in self.processes]

    def answers(self) -> list[Answer]:
        return [answer for path in self.paths for answer in answers_in(path)]


def assert_no_near_pair(
    url: str, documents: Sequence[tuple[str, int]], scope: str | None = None
) -> dict[str, int]:
    """Compares all that is stored with each other, and returns it."""
    ids = [document for document, _ in documents]
    with open_index(url, access="read", scope=scope) as index:
        found = zip(ids, index.fingerprints(ids), strict=True)
        stored = {document: value for document, value in found if value is not None}
        assert Checker(index.store, index.profile.index_scheme).check().clean
    assert len(pairs_within(np.array(list(stored.values()), dtype=np.uint64), K).left) == 0
    return stored


def assert_right(
    url: str, documents: Sequence[tuple[str, int]], answers: Sequence[Answer], scope: str | None = None
) -> int:
    """Checks a history against what is stored; returns how many documents are."""
    fingerprints = dict(documents)
    stored = assert_no_near_pair(url, documents, scope)
    accepted = {answer.id for answer in answers if answer.outcome == "accepted"}
    unanswered = {answer.id for answer in answers if answer.outcome is None}
    assert accepted <= stored.keys() <= accepted | unanswered
    assert {document: fingerprints[document] for document in stored} == stored
    begun = {answer.id: answer.begin for answer in sorted(answers, key=lambda each: -each.begin)}
    for answer in answers:
        assert answer.outcome in ("accepted", "duplicate", "undecided", None), answer
        if answer.outcome == "duplicate":
            assert answer.match in stored, answer
            assert answer.id not in stored, answer
            assert (fingerprints[answer.id] ^ stored[answer.match]).bit_count() <= K, answer
            assert begun[answer.match] <= answer.end, f"{answer}: of what nobody had claimed"
    return len(stored)


def assert_scopes_claim_apart(url: str, given: Sequence[tuple[str, int]], size: int, folder: Path) -> None:
    """Claims the same documents, in groups of `size`, in two scopes at once, while a worker of one of them is
    killed: each has what it would have alone."""
    documents = [each for start in range(size) for each in given[start::size]]
    scopes = "a", "ab"
    works = partial(claim_and_stay, scope="a"), partial(claim, scope="ab")
    fleets = [
        Fleet(work, url, documents, folder / scope, 2) for work, scope in zip(works, scopes, strict=True)
    ]
    for fleet in fleets:
        fleet.start()
    fleets[0].wait_for(0.3, worker=0)
    fleets[0].processes[0].kill()
    assert [fleet.join() for fleet in fleets] == [[-signal.SIGKILL, 0], [0, 0]]
    groups = len(given) // size
    for fleet, scope in zip(fleets, scopes, strict=True):
        stored = assert_right(url, given, fleet.answers(), scope)
        assert groups / 2 <= stored < len(given)
    assert {answer.outcome for answer in fleets[1].answers()} == {"accepted", "duplicate"}


def texts_of(corpus: str, most: int) -> Iterator[tuple[str, str]]:
    path = DATA / f"{corpus}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not in {DATA}")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for record in map(json.loads, islice(lines, most)):
            yield f"{corpus}/{record['id']}", record["text"]


def fingerprinted(texts: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The fingerprints of texts by their ids, without those that have none."""
    found = Profile(verify=False).fingerprinter().fingerprint_many([text for _, text in texts])
    columns = texts, found.fingerprints.values.tolist(), found.accepted.tolist()
    return {document: value for (document, _), value, fits in zip(*columns, strict=True) if fits}
