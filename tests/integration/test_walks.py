"""The walks of ARCHITECTURE.md are the ways that a run really takes."""

import asyncio
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import simhbase
from simhbase.admin import tables
from simhbase.online.app import create_app
from simhbase.online.metrics import ServiceMetrics
from simhbase.online.settings import Settings
from tests.command_line import run, texts

ROOT = Path(simhbase.__file__).parent
PAGE = (ROOT.parent / "ARCHITECTURE.md").read_text("utf-8").partition("## Walks\n")[2].partition("\n## ")[0]
WALKS = {
    name: re.findall(r"`([\w/]+\.py:[\w.]+)`", way)
    for name, way in re.findall(r"\*\*(.+?)\*\*:(.*?)(?:\n\n|$)", PAGE, re.DOTALL)
}
TEXT, OTHER = texts(2)


def called(call: Callable[[], object]) -> Iterator[str]:
    """The functions of the product that a call enters, in order."""
    entered: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            entered.append((frame.f_code.co_filename, frame.f_code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return (f"{Path(file).relative_to(ROOT)}:{name}" for file, name in entered if file.startswith(f"{ROOT}/"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [
        json.dumps({"id": name, "text": text})
        for name, text in [("a", TEXT), ("b", TEXT + "。"), ("c", OTHER)]
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    with simhbase.open(f"rocksdb:{tmp_path}/store", create=simhbase.Profile(verify=False)) as index:
        index.add([simhbase.Document("a", TEXT)])
    return tmp_path


def command(folder: Path, *arguments: object) -> None:
    done = run(*arguments, cwd=folder)
    assert done.returncode == 0, done.stderr.decode()


def claim(folder: Path) -> None:
    with simhbase.open(f"rocksdb:{folder}/store") as index:
        assert index.claim("new", OTHER)


def post(folder: Path) -> None:
    body = json.dumps({"text": TEXT}).encode()
    sent: list[Any] = []

    async def receive() -> dict[str, object]:
        if not bodies:
            await asyncio.Event().wait()  # the client stays
        return {"type": "http.request", "body": bodies.pop(), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    bodies = [body]
    headers = [
        (b"host", b"localhost"),
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
    ]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/find",
        "raw_path": b"/v1/find",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "scheme": "http",
        "http_version": "1.1",
    }
    with simhbase.open(f"rocksdb:{folder}/store", access="read") as index:
        app = create_app(index, Settings(f"rocksdb:{folder}/store"), ServiceMetrics())
        asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 200, sent


RUNS: dict[str, Callable[[Path], None]] = {
    "load": lambda folder: command(folder, "load", "in.jsonl", "--store", "rocksdb:store", "--threads", 1),
    "find": lambda folder: command(folder, "find", "--text", TEXT, "--store", "rocksdb:store"),
    "claim": claim,
    "dedup": lambda folder: command(folder, "dedup", "in.jsonl", "--unique", "u.jsonl", "--threads", 1),
    "POST /v1/find": post,
    "tables create": lambda folder: command(folder, "tables", "create", "--store", "rocksdb:new"),
    "migrate": lambda folder: command(folder, "migrate", "--store", "rocksdb:store", "--to", "rocksdb:new"),
}


def test_the_page_has_all_walks():
    assert WALKS.keys() == RUNS.keys()
    assert all(5 < len(walk) < 20 for walk in WALKS.values())


@pytest.mark.parametrize("name", RUNS)
def test_a_run_meets_the_functions_of_its_walk_in_their_order(name, folder):
    entered = called(lambda: RUNS[name](folder))
    missing = next(
        (each for each in WALKS[name] if each not in entered), None
    )  # `in` goes on where it stopped
    assert missing is None, f"{name}: {missing} was not called, or earlier"


# Functions that a call enters, once everything is imported and kept. A ceiling may only fall.
CEILINGS = {
    "find": 43,
    "claim": 101,
    "load": 278,
    "dedup": 218,
    "tables create": 73,
    "migrate": 149,
    "check": 100,
    "vacuum": 64,
}
SENTENCES = (
    "The committee approved the budget after a long debate over schools.",
    "The ferry to the island sails at eight, ten and noon; in a storm it stays.",
    "The ferry to the island sails at eight, ten and noon: in a storm it stays!",
)
NEW = texts(6)[2:]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Callable[[int], object]]]:
    """What is counted, each to be called with 0, 1, 2 and 3."""
    folder = tmp_path_factory.mktemp("walks")
    lines = [json.dumps({"id": str(number), "text": text}) for number, text in enumerate(SENTENCES)]
    inputs = folder / "in.jsonl"
    inputs.write_text("\n".join(lines))
    loaded = f"rocksdb:{folder}/stored"
    simhbase.load(inputs, loaded)
    simhbase.load(inputs, f"rocksdb:{folder}/found")
    with simhbase.open(f"rocksdb:{folder}/found") as index:
        yield {
            "find": lambda _: index.find(SENTENCES[1]),
            "claim": lambda number: index.claim(f"new{number}", NEW[number]),
            "load": lambda number: simhbase.load(inputs, f"rocksdb:{folder}/loaded{number}"),
            "dedup": lambda number: simhbase.dedup(
                inputs, unique=folder / f"u{number}.jsonl", duplicates=folder / f"d{number}.jsonl"
            ),
            "tables create": lambda number: tables.create(f"rocksdb:{folder}/created{number}"),
            "migrate": lambda number: simhbase.migrate(loaded, f"rocksdb:{folder}/migrated{number}"),
            "check": lambda _: simhbase.check(loaded),
            "vacuum": lambda _: simhbase.vacuum(loaded),
        }


@pytest.mark.parametrize("name", CEILINGS)
def test_a_walk_enters_no_more_functions_than_it_did(name, calls):
    calls[name](0)
    runs = [called(partial(calls[name], run)) for run in (1, 2, 3)]
    # Some things are done now and then, such as to look if the tables are still there.
    entered = set.intersection(*(set(filter(is_named, run)) for run in runs))
    assert len(entered) <= CEILINGS[name], "\n".join(sorted(entered))


def is_named(function: str) -> bool:
    """True for what is no comprehension or module."""
    return not re.search(r"[.:]<(?!lambda)[^.]*$", function)
