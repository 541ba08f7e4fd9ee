"""Inputs by URL: from a web server, and from fsspec's own file system in memory."""

from __future__ import annotations

import asyncio
import gzip
import io
import random
import re
import socketserver
import subprocess
import sys
import threading
import time
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir, suppress
from errno import EIO
from functools import partial
from importlib.util import find_spec
from os import environ
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFile
from pyarrow import parquet
from yarl import URL

from simhbase.corpus import redirects, remote
from simhbase.corpus.parser import Parser
from simhbase.corpus.record import InputOptions, Record, SourceReject
from simhbase.corpus.redirects import Redirects
from simhbase.corpus.remote import public_name
from simhbase.corpus.sources import Sources
from simhbase.errors import BadInput
from tests.command_line import environment
from tests.reading import json_lines, read, rejects, texts, write
from tests.web import Web

A = {"id": "a", "text": "first"}
B = {"id": "b", "text": "second"}
FILES = {
    "z.jsonl": json_lines({"id": "z", "text": "t"}),
    "b.jsonl.gz": gzip.compress(json_lines(A)) + gzip.compress(json_lines(B)),
    "m/x.csv": b"id,text\nx,t\n",
    "m/deep/y.txt": b"a text",
    "m-n/x.csv": b"id,text\nm-n,t\n",
    ".hidden/no.jsonl": b"never read",
    ".no.jsonl": b"never read",
    "_SUCCESS": b"",
    "notes.doc": b"no format",
    "part-0": json_lines({"id": "part", "text": "t"}),
}


@pytest.fixture
def folder(tmp_path) -> Path:
    for name, content in FILES.items():
        write(tmp_path / "day" / name, content)
    return tmp_path


@pytest.fixture
def web(folder) -> Iterator[Web]:
    with Web(folder) as server:
        yield server


@pytest.fixture
def memory(folder) -> Iterator[str]:
    """The same files in fsspec's file system in memory."""
    system = fsspec.filesystem("memory")
    system.put(str(folder / "day"), "/there/day", recursive=True)
    yield "memory://there"
    system.rm("/there", recursive=True)


@pytest.fixture(params=["web", "memory"])
def base(request) -> str:
    found = request.getfixturevalue(request.param)
    return found.url if isinstance(found, Web) else found


def shape(root: str, given: str, **how: Any) -> tuple[list[tuple[Any, ...]], Counter[str]]:
    """What reading gives, with sources and ids as they are called below a root, and what was left out."""
    options = InputOptions(**how)
    sources = Sources([given], options)
    rows = [
        (item.source.removeprefix(root), item.line, (item.id or "").removeprefix(root))
        for chunk in map(Parser(options).parse, sources.chunks())
        for item in chunk
    ]
    return rows, sum((each.endings for each in sources.left_out), Counter())


class TestPlaces:
    @pytest.mark.parametrize(
        "below",
        [
            "day/",
            "day/*.jsonl*",
            "day/*.csv",
            "day/**/*.csv",
            "day/*/x.csv",
            "day/**",
            "day/m*",
            "d*y/[bz].jsonl*",
            "day/.hidden/*",
            "day/part-0",
        ],
    )
    @pytest.mark.parametrize("id_from", ["line", "field"])
    def test_they_name_the_files_that_local_ones_name_in_their_order(self, folder, base, below, id_from):
        here = shape(f"{folder}/", f"{folder}/{below}", id_from=id_from)
        assert shape(f"{base}/", f"{base}/{below}", id_from=id_from) == here
        assert here[0]

    def test_a_format_takes_all_visible_files_of_a_folder(self, folder, base):
        (folder / "day" / "b.jsonl.gz").unlink()
        assert shape(f"{base}/", f"{base}/day/m/", format="text") == (
            [("day/m/x.csv", 1, "x.csv"), ("day/m/deep/y.txt", 1, "deep/y.txt")],
            Counter(),
        )

    def test_a_named_file_is_taken_whatever_its_name(self, base):
        assert texts(read(f"{base}/day/part-0")) == [("part", "t")]

    def test_what_is_missing_is_one_reject(self, base):
        reason = "it cannot be opened: there is no such file or folder"
        (found,) = read(f"{base}/nothing.jsonl")
        assert found == SourceReject(f"{base}/nothing.jsonl", None, None, reason)
        (found,) = read(f"{base}/nothing/*.jsonl")
        assert (type(found), found.reason) == (SourceReject, reason)
        (found,) = read(f"{base}/day/*.nothing")
        assert found.reason == "no file has a name like this"

    def test_an_empty_folder_says_so(self, folder, web):
        (folder / "empty").mkdir()
        ((_, _, reason),) = rejects(read(f"{web.url}/empty/"))
        assert reason.startswith("the folder has no files ending in .jsonl")

    def test_links_to_other_orders_and_places_are_no_files_of_a_folder(self, folder, web):
        others = ["?C=N;O=D", "../", "/", "/day/z.jsonl"]
        inside = ["here.jsonl", "a%20b.jsonl", "/list/c.jsonl", "d.jsonl?key=s"]
        links = "".join(f'<a href="{link}">x</a>' for link in [*others, *inside])
        for name in ("here.jsonl", "a b.jsonl", "c.jsonl", "d.jsonl"):
            write(folder / "list" / name, json_lines(A))
        write(folder / "list" / "index.html", links.encode())
        rows, left_out = shape(f"{web.url}/list/", f"{web.url}/list/", id_from="line")
        assert [row[2] for row in rows] == ["a%20b.jsonl:1", "c.jsonl:1", "d.jsonl:1", "here.jsonl:1"]
        assert not left_out

    def test_what_a_server_does_not_list_costs_nothing_else(self, web):
        web.answers["/day/m/"] = 403
        found = read(f"{web.url}/day/")
        assert [item.id for item in found] == ["a", "b", "z", None, "m-n"]
        assert found[3].source == f"{web.url}/day/m/"
        assert "it cannot be opened: 403, message='Forbidden'" in found[3].reason

    def test_files_of_this_machine_need_no_fsspec(self, folder):
        program = (
            "import sys; from tests.reading import read, texts\n"
            f"print(len(texts(read('file://{folder}/day/*.jsonl*'))), 'fsspec' in sys.modules)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment(), capture_output=True, check=True
        )
        assert done.stdout == b"3 False\n"
        assert read(f"file://{folder}/day") == read(f"{folder}/day")

    def test_a_file_with_the_name_of_a_url_is_reached_by_its_path(self, tmp_path):
        write(tmp_path / "s3:" / "bucket" / "x.jsonl", json_lines(A))
        with chdir(tmp_path):
            assert texts(read("./s3://bucket/x.jsonl")) == [("a", "first")]


class TestWhatIsMissingHere:
    def test_fsspec(self):
        program = (
            "import sys; sys.modules['fsspec'] = None\n"
            "from tests.reading import read\n"
            "print(read('https://host/x.jsonl')[0].reason)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment(), capture_output=True, check=True
        )
        assert b"fsspec, which is not installed: pip install 'simhbase[remote]'" in done.stdout

    @pytest.mark.parametrize("name", ["page.html", "crawl.warc"])
    def test_what_reads_pages_and_web_archives(self, tmp_path, name):
        (tmp_path / name).write_text("<p>A page</p>")
        program = (
            "import sys; sys.modules['resiliparse'] = None\n"
            "from tests.reading import read\n"
            f"print(read({str(tmp_path / name)!r}))"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment(), capture_output=True, check=True
        )
        assert b"pip install 'simhbase[web]'" in done.stdout

    @pytest.mark.skipif(find_spec("s3fs") is not None, reason="s3fs is installed")
    def test_the_package_of_a_scheme(self):
        ((_, _, reason),) = rejects(read("s3://bucket/day/*.jsonl.gz"))
        assert "s3:// needs a package that is not installed: pip install s3fs" in reason

    def test_the_scheme(self):
        ((_, _, reason),) = rejects(read("nowhere://x"))
        assert reason == "it cannot be opened: Protocol not known: nowhere"


class TestReading:
    def test_packed_files_come_as_the_server_holds_them(self, web):
        # What the server says of it has aiohttp unpack it, and only its first member.
        web.headers["/day/b.jsonl.gz"] = {"Content-Encoding": "gzip"}
        assert texts(read(f"{web.url}/day/b.jsonl.gz")) == [("a", "first"), ("b", "second")]

    def test_a_connection_that_breaks_off_is_one_reject(self, folder, web):
        rows = [{"id": str(number), "text": "word " * 200} for number in range(3000)]
        write(folder / "x.jsonl", json_lines(*rows))
        web.ends_after["/x.jsonl"] = 2_500_000
        *found, last = read(f"{web.url}/x.jsonl", f"{web.url}/day/z.jsonl")
        assert last.id == "z"
        broken = found.pop()
        assert [item.id for item in found] == [str(number) for number in range(len(found))]
        assert (broken.source, broken.line) == (f"{web.url}/x.jsonl", len(found) + 1)
        assert broken.reason.startswith("it cannot be read further: Response payload is not completed")

    @pytest.mark.parametrize("status", [401, 403, 500, 503])
    def test_what_a_server_answers_is_said(self, web, status):
        web.answers["/day/z.jsonl"] = status
        found = read(f"{web.url}/day/z.jsonl", f"{web.url}/day/part-0")
        assert [item.id for item in found] == [None, "part"]
        assert f"it cannot be opened: {status}, message=" in found[0].reason

    @pytest.mark.parametrize("below", ["x.jsonl", "day/", "day/*.jsonl"])
    def test_a_server_that_is_not_there_is_named(self, web, below):
        web.__exit__(None, None, None)
        ((_, _, reason),) = rejects(read(f"{web.url}/{below}"))
        assert reason.startswith(f"it cannot be opened: Cannot connect to host {web.host}")

    def test_sizes_are_known_where_they_are_told(self, folder, web, memory):
        there = ["z.jsonl", "b.jsonl.gz"]
        size = sum(len(FILES[name]) for name in there)
        for base in (web.url, memory):
            sources = Sources([f"{base}/day/{name}" for name in there], InputOptions())
            assert sources.total() == size
            assert sum(map(len, sources.chunks())) == 3
            assert sources.consumed == size
        assert Sources([f"{memory}/day/m"], InputOptions()).total() == 12 + 6
        assert Sources([f"{web.url}/day/"], InputOptions()).total() is None


class TestParquet:
    @pytest.fixture
    def write_rows(self, folder) -> Callable[[int], int]:
        def written(count: int) -> int:
            chance = random.Random(7)
            texts = [chance.randbytes(600).hex() for _ in range(count)]
            path = folder / "x.parquet"
            parquet.write_table(pa.table({"id": list(map(str, range(count))), "text": texts}), path)
            return path.stat().st_size

        return written

    def test_it_is_read_by_parts_of_the_file(self, web, write_rows):
        size = write_rows(4000)
        assert size > 4_000_000
        web.gives_parts = True
        sources = Sources([f"{web.url}/x.parquet"], InputOptions())
        ids = [item.id for chunk in sources.chunks() for item in chunk]
        assert ids == [str(number) for number in range(4000)]
        assert sources.consumed == size
        asked = [headers["Range"] for _, _, headers in web.asked if "Range" in headers]
        assert len(asked) == len(set(asked)) <= 6  # no part twice, though columns are read side by side

    def test_content_tells_it(self, folder, memory, write_rows):
        write_rows(10)
        fsspec.filesystem("memory").put(str(folder / "x.parquet"), "/there/x")
        assert len(texts(read(f"{memory}/x"))) == 10

    def test_a_server_that_gives_no_parts_is_one_reject(self, web, write_rows):
        write_rows(2000)
        ((line, _, reason),) = rejects(read(f"{web.url}/x.parquet"))
        assert (line, reason.endswith("by which Parquet is read: download it")) == (None, True)

    def test_a_connection_that_breaks_off_is_one_reject(self, web, write_rows):
        size = write_rows(4000)
        web.gives_parts = True
        web.ends_after["/x.parquet"] = size // 2
        ((line, _, reason),) = rejects(read(f"{web.url}/x.parquet"))
        assert (line, reason.split(":")[0]) == (None, "it cannot be read")


class TestSecrets:
    def test_the_server_gets_them_and_nobody_else_does(self, web):
        base = f"http://someone:hidden@{web.host}/day"
        items = read(f"{base}/z.jsonl?signature=hidden", f"{base}/m/", id_from="line")
        assert [item.id for item in items] == [f"{web.url}/day/z.jsonl:1", "x.csv:2", "deep/y.txt"]
        assert {item.source for item in items} == {
            f"{web.url}/day/z.jsonl",
            f"{web.url}/day/m/x.csv",
            f"{web.url}/day/m/deep/y.txt",
        }
        assert all("Authorization" in headers for _, _, headers in web.asked)
        assert ("GET", "/day/z.jsonl?signature=hidden") in {asked[:2] for asked in web.asked}

    @pytest.mark.parametrize(
        "below", ["z.jsonl", "", "*.jsonl", "**/*.jsonl", "**", "none", "none/", "none/*", "a::zip://b"]
    )
    def test_no_reject_has_them(self, web, below):
        web.answers |= {"/day/z.jsonl": 403, "/day/": 500}
        url = f"http://someone:hidden@{web.host}/day/{below}?signature=hidden#hidden"
        found = rejects(read(url))
        assert len(found) == 1
        assert "hidden" not in str(read(url))

    @pytest.mark.parametrize(
        ("given", "name"),
        [
            ("https://u:p@host:8/a/b.gz?X-Amz-Signature=s#f", "https://host:8/a/b.gz"),
            ("https://token@host/a", "https://host/a"),
            ("https://host?key=s", "https://host"),
            ("ftp://u:p@host/a?b", "ftp://u@host/a?b"),
            ("abfs://container@account/a@b:c", "abfs://container@account/a@b:c"),
            ("s3://bucket/day-?/*.gz", "s3://bucket/day-?/*.gz"),
            ("zip://a::https://u:p@host/b?key=s", "zip://a::..."),
            (
                "s3://bucket/day-?/x=1/*.gz?y=1&aws_secret_key=s",
                "s3://bucket/day-?/x=1/*.gz?y=1&aws_secret_key=...",
            ),
            ("./s3://u:p@x?y", "./s3://u:p@x?y"),
            ("a b?c.jsonl", "a b?c.jsonl"),
        ],
    )
    def test_names_are_without_them(self, given, name):
        assert public_name(given) == name


class Dripping(io.BytesIO):
    """A response that comes in pieces of a size, each after a moment."""

    def __init__(self, content: bytes, piece: int) -> None:
        super().__init__(content)
        self._piece = piece

    def read(self, size: int | None = -1, /) -> bytes:
        time.sleep(0.001)
        return super().read(self._piece)


def test_a_server_that_drips_is_given_up_and_one_that_is_slow_is_not(monkeypatch):
    """One byte a second kept a command for years."""
    monkeypatch.setattr(remote, "SILENCE", 0.02)
    slow = remote._File(Dripping(b"a" * 60_000, 1000), b"head")
    assert sum(len(slow.read()) for _ in range(61)) == 60_004
    dripping = remote._File(Dripping(b"a" * 60_000, 1), b"head")
    monkeypatch.setattr(remote, "SLOWEST", 10_000)  # a piece may come in less than its moment
    with pytest.raises(OSError, match="gives less than 10,000 bytes a second") as failed:
        sum(len(dripping.read()) for _ in range(1000))
    assert failed.value.errno == EIO


class Hostile(socketserver.StreamRequestHandler):
    """Answers requests for a path by its function here."""

    def handle(self) -> None:
        with suppress(ConnectionError):
            while line := self.rfile.readline():
                head = dict(
                    iter(lambda: self.rfile.readline().decode().rstrip().partition(": ")[::2], ("", ""))
                )
                path = line.split()[1].decode()
                getattr(self, path.strip("/").partition("/")[0])(path, head)

    def say(self, body: bytes, status: str = "200 OK", **headers: str) -> None:
        headers = {"Content_Length": str(len(body)), "Content_Type": "text/html"} | headers
        said = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items() if value)
        self.wfile.write(f"HTTP/1.1 {status}\r\n{said}\r\n".encode() + body)

    def dripping(self, _path: str, _head: dict[str, str]) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nA: ")
        for _ in range(1000):
            self.wfile.write(b"x")
            time.sleep(0.02)

    def spaces(self, path: str, _head: dict[str, str]) -> None:
        """Hours for a regular expression that goes back at each of them."""
        there = path.endswith("/")
        self.say(
            b"<a href='x.jsonl'>" + b"<a href=x" * 50_000 + b"<a" + b" " * 200_000 if there else json_lines(A)
        )

    def deep(self, path: str, _head: dict[str, str]) -> None:
        self.say(json_lines(A) if path.endswith("l") else b'<a href="x.jsonl"><a href="deeper/">')

    def telling(self, _path: str, _head: dict[str, str]) -> None:
        self.say(b"", "500 token=secret")

    def repeating(self, path: str, head: dict[str, str]) -> None:
        given = b64decode(head["Authorization"].removeprefix("Basic ")).decode()
        self.say(b"", f"500 {given} {head['Authorization']} {path}")

    def between(self, path: str, _head: dict[str, str]) -> None:
        """A chunk's line that does not end, from the first or second chunk on."""
        first = b"1\r\n{\r\n" if path.endswith("second") else b""
        self.say(first, Content_Length="", Transfer_Encoding="chunked")
        self.wfile.write(b"1;")
        while True:
            self.wfile.write(b"a")
            time.sleep(0.01)

    def answering(self, path: str, _head: dict[str, str]) -> None:
        """Another status than that of a file."""
        self.say(b"", path.rpartition("/")[2])

    def leading(self, path: str, _head: dict[str, str]) -> None:
        """To another host, on the port here."""
        host, _, rest = path.removeprefix("/leading/").partition("/")
        self.say(b"", "302 Found", Location=f"http://{host}:{self.server.server_address[1]}/{rest}")

    def large(self, _path: str, _head: dict[str, str]) -> None:
        self.say(b"<a href='x.jsonl'>" * 1000)

    def long(self, path: str, _head: dict[str, str]) -> None:
        """A short list of a folder with a long name has long links."""
        self.say(b"<a href='x/'>" * 1000 if len(path) > 9000 else b"<a href='" + b"a" * 9000 + b"/'>")

    def parts(self, path: str, head: dict[str, str]) -> None:
        """More than was asked for, of a length that is not said or is."""
        if "Range" not in head:
            self.say(b"PAR1" + bytes(1000))
        elif path.endswith("said"):
            self.say(bytes(1 << 22), "206 Partial Content")
        else:
            more = {"Content_Length": "", "Transfer_Encoding": "chunked"}
            self.say(b"400000\r\n" + bytes(1 << 22) + b"\r\n0\r\n\r\n", "206 Partial Content", **more)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


@pytest.fixture
def hostile() -> Iterator[str]:
    with Server(("127.0.0.1", 0), Hostile) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_what_a_server_says_of_a_failure_is_told_without_its_secrets(hostile):
    (found,) = read(f"{hostile}/telling/x.jsonl?sig=secret")
    assert "token=..." in found.reason
    assert "secret" not in f"{found}"


@pytest.mark.parametrize("below", ["repeating/x.jsonl", "repeating/", "repeating/*.jsonl", "repeating/x.zst"])
def test_a_server_that_repeats_a_password_does_not_show_it(hostile, below):
    (found,) = read(f"{hostile.replace('//', '//user:hunter@')}/{below}?sig=tr%2Fee")
    assert "500" in found.reason
    for secret in ("hunter", "tr%2Fee", "tr/ee", b64encode(b"user:hunter").decode()):
        assert secret not in f"{found}"


def test_a_file_of_a_server_holds_its_password_unseen():
    """Programs that report errors show what variables held."""
    (found,) = remote.expand_url("http://user:hunter@127.0.0.1:1/x.jsonl", None)
    assert "hunter" not in repr(found)


NEARER = ["127.0.0.1", "localhost", "0.0.0.0"]


@pytest.fixture
def far(monkeypatch) -> Iterator[str]:
    """A hostile server of this machine with an address that is taken for one of the internet."""
    near = redirects.nearness
    monkeypatch.setattr(redirects, "nearness", lambda address: 0 if address == "127.0.0.2" else near(address))
    with Server(("", 0), Hostile) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.2:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("host", NEARER)
@pytest.mark.parametrize("by", ["", "leading/127.0.0.2/"])
def test_a_server_does_not_lead_to_this_machine(far, host, by):
    """What services here answer would become documents."""
    (found,) = read(f"{far}/{by}leading/{host}/deep/x.jsonl")
    assert found.reason == (
        f"it cannot be opened: the server leads to {host}, an address of this machine or network: "
        "give the URL there, or follow links (follow_links)"
    )


def test_a_server_leads_to_what_is_no_nearer_and_anywhere_if_links_are_followed(far, hostile):
    assert texts(read(f"{far}/leading/127.0.0.2/deep/x.jsonl")) == [("a", "first")]
    assert texts(read(f"{far}/leading/127.0.0.1/deep/x.jsonl", follow_links=True)) == [("a", "first")]
    assert texts(read(f"{hostile}/leading/localhost/deep/x.jsonl")) == [("a", "first")]  # it was named itself


class Names:
    """A resolver whose names have other addresses each time."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = iter(answers)

    async def resolve(self, _host: str) -> list[dict[str, str]]:
        return [{"host": address} for address in next(self._answers)]


@pytest.mark.parametrize("first", [["93.184.215.14"], ["127.0.0.1", "93.184.215.14"]])
def test_the_name_of_a_server_does_not_come_to_mean_this_machine(first):
    """Who serves strangers names them, too."""

    async def asked() -> None:
        hosts = Redirects(Names(first, ["10.0.0.1", "93.184.215.15"], ["127.0.0.1"]))
        await hosts.check(SimpleNamespace(url=URL("http://far.example/")), answered)
        assert await hosts.resolve("far.example") == [{"host": "93.184.215.14"}]
        assert await hosts.resolve("far.example") == [{"host": "93.184.215.15"}]
        with pytest.raises(BadInput, match=r"leads to far\.example"):
            await hosts.resolve("far.example")

    async def answered(_request: object) -> None: ...

    asyncio.run(asked())


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("example.com", 0),
        ("93.184.215.14", 0),
        ("2606:2800:220:1::1", 0),
        ("10.0.0.1", 1),
        ("100.64.0.1", 1),
        ("fd00:ec2::254", 1),
        ("::ffff:192.168.0.1", 1),
        ("169.254.169.254", 2),
        ("fe80::1%2", 2),
        ("::1", 2),
        ("::", 2),
        ("0.0.0.0", 2),
        ("::ffff:127.0.0.1", 2),
        ("64:ff9b::808:808", 0),
        ("64:ff9b::7f00:1", 2),
        ("127.1", 2),
        ("2130706433", 2),
    ],
)
def test_how_near_an_address_is(address, expected):
    assert redirects.nearness(address) == expected


def test_what_a_file_system_says_of_a_url_that_it_takes_apart_is_told_without_its_password(monkeypatch):
    def refuse(url: str, **_more: object) -> None:
        raise ValueError(f"namespace/name is needed, and not {url[14:22]}")

    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    (found,) = read("hf://datasets/u:secret@x/y/z.jsonl")
    assert found.reason == "it cannot be opened: namespace/name is needed, and not u:..."


@pytest.mark.parametrize("given", ["memory://halves", "memory://halves/*.jsonl"])
def test_a_name_with_half_a_surrogate_pair_takes_no_other_file_along(given):
    """Lists in JSON may have such names: reading ended at an unexpected UnicodeEncodeError."""
    files = fsspec.filesystem("memory")
    for name in ("a", "\ud800"):
        files.pipe(f"/halves/{name}.jsonl", json_lines({"id": "x", "text": "t"}))
    names = [item.source.rpartition("/")[2] for item in read(given)]
    assert names == ["a.jsonl", r"\ud800.jsonl"]


def test_a_long_word_of_a_server_takes_linear_time(monkeypatch):
    """As the id of a request, which the library of Hugging Face repeats: 60 kB held the process for 6 s."""

    def refuse(_url: str, **_more: object) -> None:
        raise ValueError(f"(Request ID: {'a.' * 75_000}) https://host/x?token=secret")

    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    before = time.process_time()
    (found,) = read("hf://datasets/x/y/z.jsonl")
    assert "(Request ID: a.a." in found.reason
    assert time.process_time() - before < 2


@pytest.mark.parametrize("of_library", [ValueError, partial(OSError, EIO)])
def test_a_file_system_that_repeats_a_token_of_the_environment_does_not_show_it(monkeypatch, of_library):
    """s3fs raises OSErrors with the number of our own, which were shown as they are."""

    def refuse(_url: str, **_more: object) -> None:
        raise of_library(f"403 Forbidden: no access for {environ['HF_TOKEN']}")

    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    (found,) = read("hf://datasets/x/y/z.jsonl")
    assert found.reason == "it cannot be opened: 403 Forbidden: no access for ..."


@pytest.mark.parametrize("where", ["a file", "a proxy", "fsspec", "fsspec's headers"])
def test_a_file_system_that_repeats_a_secret_of_its_library_does_not_show_it(where, tmp_path, monkeypatch):
    def refuse(_url: str, **_more: object) -> None:
        said = " ".join(("hf_secret", b64encode(b"u:hf_secret").decode()))
        raise ValueError(f"403 Forbidden: no access for {said if where == 'a proxy' else 'hf_secret'}")

    match where:
        case "a file":
            (tmp_path / "token").write_text("hf_secret")
            constants = pytest.importorskip("huggingface_hub").constants
            monkeypatch.setattr(constants, "HF_TOKEN_PATH", f"{tmp_path}/token")
        case "a proxy":
            monkeypatch.setenv("http_proxy", "u:hf_secret@proxy:3128")
        case "fsspec":
            monkeypatch.setitem(fsspec.config.conf, "hf", {"token": "hf_secret"})
        case _:
            headers = {"headers": {"Authorization": "Bearer hf_secret"}}
            monkeypatch.setitem(fsspec.config.conf, "http", {"client_kwargs": headers})
    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    (found,) = read("hf://datasets/x/y/z.jsonl")
    assert re.fullmatch(r"it cannot be opened: 403 Forbidden: no access for \.\.\.( \.\.\.)?", found.reason)


@pytest.mark.parametrize("below", ["dripping", "dripping/", "dripping/*.jsonl"])
def test_a_server_that_drips_its_headers_is_given_up(monkeypatch, hostile, below):
    monkeypatch.setattr(remote, "SILENCE", 0.3)
    ((_, _, reason),) = rejects(read(f"{hostile}/{below}"))
    assert reason == "it cannot be opened: the server sent no answer within 0.3 seconds"


@pytest.mark.parametrize("below", ["first", "second"])
def test_a_server_that_drips_between_chunks_is_given_up(monkeypatch, hostile, below):
    """Each byte began the time without data again."""
    monkeypatch.setattr(remote, "SILENCE", 0.3)
    ((_, _, reason),) = rejects(read(f"{hostile}/between/{below}"))
    assert "the server gave no data for too long" in reason


def test_a_list_of_a_folder_takes_linear_time(hostile):
    assert texts(read(f"{hostile}/spaces/")) == [("a", "first")]


def test_a_list_of_a_folder_has_a_limit(monkeypatch, hostile):
    monkeypatch.setattr(remote, "LIST_BYTES", 1 << 13)
    ((_, _, reason),) = rejects(read(f"{hostile}/large/"))
    assert reason.startswith("it cannot be opened: its list has more than")


@pytest.mark.parametrize("below", ["", "*/*/*.jsonl"])
def test_links_of_a_folder_with_a_long_name_have_a_limit(monkeypatch, hostile, below):
    monkeypatch.setattr(remote, "NAMES_BYTES", 1 << 20)
    reason = rejects(read(f"{hostile}/long/{below}"))[0][2]
    assert reason == (
        "it cannot be opened: links of more than 1 MiB are listed in its folders: give them one by one"
    )


@pytest.mark.parametrize("status", [101, 204, 205, 206, 300, 304])
def test_an_answer_that_is_no_whole_file_is_not_taken_for_one(hostile, status):
    ((_, _, reason),) = rejects(read(f"{hostile}/answering/{status}"))
    assert reason == f"it cannot be opened: the server answered {status}, which is no whole file"


@pytest.mark.parametrize("below", ["", "/*.jsonl", "/x.jsonl"])
def test_the_end_of_what_a_server_sends_is_not_taken_for_that_of_a_file(monkeypatch, below):
    """Libraries, as that of FTP, do: the documents behind it were lost without a word."""
    lines = json_lines(A, B)
    system = fsspec.filesystem("memory")
    system.pipe("/cut/x.jsonl", lines)
    size = lines.index(b"\n") + 1

    def read_some(file: io.BytesIO, most: int = -1) -> bytes:
        return io.BytesIO.read(file, size - file.tell() if most < 0 else min(most, size - file.tell()))

    monkeypatch.setattr(MemoryFile, "read", read_some, raising=False)
    record, end = read(f"memory://cut{below}")
    system.rm("/cut", recursive=True)
    assert (record.id, end.line) == ("a", 2)
    assert end.reason == f"it cannot be read further: the server gave {size} of its {len(lines)} bytes"


@pytest.mark.parametrize("below", ["", "**/*.jsonl", "**"])
def test_folders_without_end_are_given_up(hostile, below):
    items = read(f"{hostile}/deep/{below}", id_from="line")
    assert remote.DEEPEST < sum(isinstance(item, Record) for item in items) < remote.DEEPEST + 4
    ((_, _, reason),) = rejects(items)
    assert reason == "it cannot be opened: it is more than 100 folders deep, of which there may be no end"


@pytest.mark.parametrize(
    ("below", "said"),
    [("said", "gives more than was asked"), ("chunked", "does not say how long a part of the file is")],
)
def test_a_server_that_may_give_more_than_was_asked_for_is_given_up(hostile, below, said):
    ((_, _, reason),) = rejects(read(f"{hostile}/parts/{below}"))
    assert f"the server {said}: download the file" in reason
