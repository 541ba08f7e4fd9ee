"""Files at URLs: listing and reading them through fsspec."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from errno import EIO
from fnmatch import fnmatchcase
from functools import partial
from pathlib import PurePosixPath
from time import monotonic
from typing import Any, BinaryIO, Literal, cast
from urllib.parse import urldefrag, urljoin, urlsplit

from simhbase.corpus.folders import Unread, printable
from simhbase.corpus.formats.parquet import MAGIC_BYTES, is_columnar
from simhbase.corpus.paths import (
    FoundSource,
    LeftOut,
    Listed,
    local_path,
    part_of_program,
    taken_from_folder,
)
from simhbase.corpus.record import Format, Source, SourceReject
from simhbase.corpus.redirects import Redirects
from simhbase.model.urls import (
    cause_without,
    redacted,
    secret_options,
    secrets_in,
    without,
    without_passwords,
)
from simhbase.text.html import links

STREAM_BYTES = 4 << 20  # per request for a file that is read sequentially
BLOCK_BYTES, BLOCKS = 1 << 20, 16  # cache of a file with random access, as columns are read in parallel
SILENCE = 60.0  # seconds without data, or until the headers are there, after which a web server is given up
SLOWEST = 1000  # bytes a second; after SILENCE seconds of waiting, a server that gives fewer is given up
LIST_BYTES = 64 << 20  # of a web server's list of a folder
NAMES_BYTES = 1 << 30  # that the links of all these lists may take: each repeats the name of its folder
EACH_NAME = 400  # bytes that a link takes beside its name
DEEPEST = 100  # folders below the one given: there may always be one more
_WEB = re.compile("https?://")
_WHOLE, _PARTIAL_CONTENT = (200, 203), 206
_FAILED, _REDIRECTED = 400, (301, 302, 303, 307, 308)  # aiohttp raises, or follows
_PART = re.compile("bytes=([0-9]+)-([0-9]+)")
_GLOB = re.compile(r"[*?[]")
_WEB_GLOB = re.compile(r"[*[]")  # "?" starts the query
_URL = re.compile(r"[a-z][a-z0-9+.-]{0,40}://[^\s'\"<>]+")  # bounded: time is linear in what a server says
_INSIDE = "::"  # fsspec's separator for a file inside another one
_LONGEST_SAID = 200

_Info = Mapping[str, Any]  # name, type and size of a file or folder


def public_name(given: str) -> str:
    """The name of an input in messages, rejects and ids: its URL without what may be secret (see `shown`).
    Paths are unchanged."""
    if local_path(given) is not None:
        return printable(given)
    if _INSIDE in given:
        return f"{public_name(given.partition(_INSIDE)[0])}::..."
    return printable(redacted(given, every_option=False))


def expand_url(given: str, file_format: Format | None, *, follow_links: bool = False) -> Iterator[Listed]:
    """The files of a URL, a folder or glob at a URL; like `expand` for paths.

    On the web, a URL ending in a slash is a folder, if the server lists it with links. SourceRejects also
    report failed listings.
    """
    secrets = [*secrets_in(given), *_configured(given)]
    try:
        with _failing_clearly(secrets):
            place = _Place.of(given, secrets, follow_links=follow_links)
    except OSError as error:
        yield SourceReject(public_name(given), None, None, f"it cannot be opened: {error.strerror}")
    else:
        yield from place.expand(file_format)


@dataclass(frozen=True, slots=True, repr=False)  # which would show passwords
class RemoteFile:
    """A file of an fsspec file system. listed: its entry in a listing; secrets: of the URL that was given."""

    system: Any
    path: str
    listed: _Info | None
    secrets: Sequence[str] = ()

    def size(self) -> int | None:
        try:
            info = self.listed or self.system.info(self.path)
        except Exception:  # opening the file will raise
            return None
        size: int | None = info.get("size")
        return size

    def open(self, _mode: Literal["rb"], /) -> BinaryIO:
        """Open for reading; sequentially, except for Parquet, which is seekable. Raises OSError."""
        with _failing_clearly(self.secrets):
            file = self._streamed()
            head = b""
            while len(head) < MAGIC_BYTES and (more := file.read(MAGIC_BYTES - len(head))):
                head += more
            if not is_columnar(head):
                return cast(BinaryIO, _File(file, head, self.secrets, self._listed_size()))
            file.close()
            cache = {"cache_type": "blockcache", "cache_options": {"maxblocks": BLOCKS}}
            more = cache if self.system.async_impl else {}
            sought = self.system.open(self.path, "rb", block_size=BLOCK_BYTES, **more, **self._undecoded())
            return cast(BinaryIO, _File(sought, None, self.secrets))

    def _listed_size(self) -> int | None:
        """Of a web server's file None: its client knows when an answer ends."""
        size = None if _WEB.match(self.path) else (self.listed or {}).get("size")
        return size if isinstance(size, int) else None

    def _streamed(self) -> Any:
        if not _WEB.match(self.path):
            return self.system.open(self.path, "rb", block_size=STREAM_BYTES)
        from aiohttp import ClientTimeout

        # One response contains the whole file, without a time limit. Passing any size avoids a request that
        # reports every problem as "not found".
        timeout = ClientTimeout(total=None, sock_connect=SILENCE, sock_read=SILENCE)
        file = self.system.open(self.path, "rb", block_size=0, size=1, timeout=timeout, **self._undecoded())
        # Beside the limit of the socket: bytes between chunks are no data.
        file.read = partial(file.read, timeout=SILENCE)
        return file

    def _undecoded(self) -> Mapping[str, Any]:
        """Options by which a web server's file comes as it is: aiohttp's decompression stops after the first
        gzip member, and takes memory without a limit."""
        if not _WEB.match(self.path):
            return {}
        headers = self.system.kwargs.get("headers", {}) | {"Accept-Encoding": "identity"}
        return {"headers": headers, "auto_decompress": False}


class _File(io.RawIOBase):
    """A file of fsspec that raises OSErrors with the original message.

    head: what was read already; None if it is seekable; secrets: of the URL that was given; least: bytes that
    there are, as libraries take the end of what a server sends for the end of the file.
    """

    def __init__(
        self, file: Any, head: bytes | None, secrets: Sequence[str] = (), least: int | None = None
    ) -> None:
        self._file = file
        self._secrets = secrets
        self._head = head
        self._least = least or 0
        self._given, self._waited = 0, 0.0

    def read(self, size: int = -1, /) -> bytes:
        if self._head:
            head, self._head = self._head, b""
            self._given += len(head)
            return head
        begun = monotonic()
        with _failing_clearly(self._secrets):
            data: bytes = self._file.read(size)
        if data and not self.seekable():
            self._require_some_speed(len(data), monotonic() - begun)
        if not data and size and self._given < self._least:
            raise OSError(EIO, f"the server gave {self._given:,} of its {self._least:,} bytes")
        return data

    def _require_some_speed(self, given: int, waited: float) -> None:
        """Raises OSError if a server drips: it would keep a command for years."""
        self._given += given
        self._waited += waited
        if self._waited > SILENCE and self._given < SLOWEST * self._waited:
            raise OSError(EIO, f"the server gives less than {SLOWEST:,} bytes a second")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._head is None

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        with _failing_clearly(self._secrets):
            position: int = self._file.seek(offset, whence)
        return position

    def tell(self) -> int:
        position: int = self._file.tell()
        return position

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


@dataclass(frozen=True, slots=True, repr=False)  # which would show passwords
class _Place:
    """A path of a file system. prefix: of its URLs; secrets: of the URL that was given."""

    system: Any
    path: str
    prefix: str
    follow_links: bool
    unread: Unread
    linked: Counter[str] = field(default_factory=Counter)  # bytes that links take, by the given path
    secrets: Sequence[str] = ()

    @classmethod
    def of(cls, given: str, secrets: Sequence[str], *, follow_links: bool) -> _Place:
        """Raises the file system's errors, and OSError if a package is missing."""
        scheme = given.partition("://")[0]
        if _INSIDE in given:
            raise OSError(EIO, "URLs with :: in them are not read")
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise OSError(
                EIO, "URLs are read by fsspec, which is not installed: pip install 'simhbase[remote]'"
            ) from error
        try:
            # A session for each server, as its redirects are looked at.
            client = partial(_client, urlsplit(given).hostname, follow_links)
            system, path = url_to_fs(given, **({"get_client": client} if _WEB.match(given) else {}))
        except ImportError as error:  # the message has the package, the cause the module
            package = getattr(error.__cause__, "name", None)
            do = f": pip install {package}" if package else ""
            raise OSError(EIO, f"{scheme}:// needs a package that is not installed{do} ({error})") from error
        system.invalidate_cache()  # long-running processes would see stale listings
        inner = path.lstrip("/")
        before = given.rpartition(inner)[0] if inner else given
        prefix = before if "://" in before else f"{scheme}://"
        return cls(system, path, prefix, follow_links, Unread(), secrets=secrets)

    @property
    def _is_on_web(self) -> bool:
        return _WEB.match(self.path) is not None

    def expand(self, file_format: Format | None) -> Iterator[Listed]:
        if self._is_on_web:
            if _WEB_GLOB.search(re.split("[?#]", self.path, maxsplit=1)[0]):
                yield from self._matching(file_format)
            elif self.path.endswith("/"):
                name = self._name(self.path)
                yield from taken_from_folder(name, self._below(self.path, name), file_format, self.unread)
            else:
                yield self._file(self.path, None)
            return
        try:
            with _failing_clearly(self.secrets):
                info = self.system.info(self.path)
        except OSError as error:
            if _GLOB.search(self.path):
                yield from self._matching(file_format)
            else:
                yield self._reject(self.path, error)
        else:
            yield from self._file_or_folder(info, file_format, self.path)

    def _file_or_folder(self, info: _Info, file_format: Format | None, path: str) -> Iterator[Listed]:
        if _is_folder(info):
            name = self._name(path)
            yield from taken_from_folder(name, self._below(path, name), file_format, self.unread)
        else:
            yield self._file(path, info)

    def _below(self, folder: str, root: str) -> Iterator[FoundSource | SourceReject]:
        """The files of a folder, then those of its visible subfolders. root: the name of the given folder."""
        entries = yield from self._entries(folder)
        for info in entries.values():
            if not _is_folder(info):
                file = self._name(info["name"])
                source = Source(file, file.removeprefix(root).lstrip("/"))
                yield FoundSource(source, RemoteFile(self.system, info["name"], info, self.secrets))
        for name, info in entries.items():
            if _is_folder(info) and not name.startswith("."):
                yield from self._below(info["name"], root)

    def _entries(self, folder: str) -> Generator[SourceReject, None, dict[str, _Info]]:
        """The entries of a folder by name, in order; a reject if it cannot be listed, or is too deep."""
        entries: dict[str, _Info] = {}
        try:
            if folder.rstrip("/").count("/") > self.path.rstrip("/").count("/") + DEEPEST:
                raise OSError(EIO, f"it is more than {DEEPEST} folders deep, of which there may be no end")
            with _failing_clearly(self.secrets):
                listed = self._linked(folder) if self._is_on_web else self.system.ls(folder, detail=True)
                for info in listed:
                    above, _, name = info["name"].rstrip("/").rpartition("/")
                    # Object stores may list a folder in itself, web servers link to sorted lists.
                    is_inside = above == folder.rstrip("/")
                    if name and not name.startswith("?") and is_inside and self._is_read(info, name):
                        entries[name] = info
        except OSError as error:
            yield self._reject(folder, error)
        return dict(sorted(entries.items()))

    def _linked(self, folder: str) -> Iterator[_Info]:
        """What a web server's list links to in its folder. (fsspec's own takes hours for a hostile page.)"""
        page = bytearray()
        with RemoteFile(self.system, folder, None, self.secrets).open("rb") as file:
            while block := file.read(STREAM_BYTES):
                page += block
                if len(page) > LIST_BYTES:
                    raise OSError(EIO, f"its list has more than {LIST_BYTES >> 20} MiB")
        for target in links(page.decode(errors="ignore")):
            name = ""
            with suppress(ValueError):  # what is no URL
                name = urldefrag(urljoin(folder, target)).url
            if not name.startswith(folder):
                continue
            self.linked[self.path] += len(name) + EACH_NAME
            if self.linked[self.path] > NAMES_BYTES:
                held = f"links of more than {NAMES_BYTES >> 20:,} MiB are listed in its folders"
                raise OSError(EIO, f"{held}: give them one by one")
            yield {"name": name, "size": None, "type": "directory" if name.endswith("/") else "file"}

    def _is_read(self, info: _Info, name: str) -> bool:
        """False for links, as of SFTP, which may lead anywhere. Those to folders are never followed."""
        if info["type"] != "link" and not info.get("islink"):
            return True
        if self.follow_links and not _is_folder(self.system.info(info["name"])):
            return True
        if not name.startswith("."):
            self.unread.links.append(self._name(info["name"]))
        return False

    def _matching(self, file_format: Format | None) -> Iterator[Listed]:
        parts = self.path.split("/")
        magic = _WEB_GLOB if self._is_on_web else _GLOB
        first = next(number for number, part in enumerate(parts) if magic.search(part))
        root = "/".join(parts[:first])
        root += "/" if self._is_on_web or (parts[0] == "" and first == 1) else ""
        found: dict[PurePosixPath, _Info] = {}
        failures: set[SourceReject] = set()
        for match in self._matches({"name": root, "type": "directory"}, parts[first:]):
            if not isinstance(match, SourceReject):
                found[PurePosixPath(match["name"])] = match
            elif match not in failures:  # "**" visits a folder twice
                yield match
                failures.add(match)
        folders = {path for path, info in found.items() if _is_folder(info)}
        of_programs, is_empty = Counter[str](), not failures
        for path in sorted(found):
            if not folders.isdisjoint(path.parents):  # "**" also names what is in the folders it names
                continue
            below = PurePosixPath(*PurePosixPath(found[path]["name"]).parts[len(PurePosixPath(root).parts) :])
            if (part := part_of_program(below, parts[first:])) is not None:
                of_programs[printable(part)] += path in folders or found[path].get("size") != 0
            else:
                is_empty = False
                yield from self._file_or_folder(found[path], file_format, found[path]["name"])
        if left_out := LeftOut(self._name(self.path), Counter(), +of_programs, *self.unread.taken()):
            yield left_out
        if is_empty:
            reason = (
                "no file that is read has a name like this" if left_out else "no file has a name like this"
            )
            yield SourceReject(self._name(self.path), None, None, reason)

    def _matches(self, folder: _Info, wanted: list[str]) -> Iterator[_Info | SourceReject]:
        """Entries below a folder that match a pattern, one path component at a time."""
        first, *others = wanted
        if first == "**" and not others:
            yield folder
            return
        if first == "**":
            yield from self._matches(folder, others)
        entries = yield from self._entries(folder["name"])
        for name, info in entries.items():
            if name.startswith(".") and not first.startswith("."):
                continue
            if first == "**":
                if _is_folder(info):
                    yield from self._matches(info, wanted)
            elif fnmatchcase(name, first):
                if not others:
                    yield info
                elif _is_folder(info):
                    yield from self._matches(info, others)

    def _file(self, path: str, listed: _Info | None) -> FoundSource:
        name = self._name(path)
        return FoundSource(Source(name, name), RemoteFile(self.system, path, listed, self.secrets))

    def _reject(self, path: str, error: OSError) -> SourceReject:
        return SourceReject(self._name(path), None, None, f"it cannot be opened: {error.strerror}")

    def _name(self, path: str) -> str:
        return public_name(path if self._is_on_web else self.prefix + path.lstrip("/"))


async def _client(_server: str | None, follow_links: bool, **options: Any) -> Any:
    """A session for requests to one web server, and where it leads."""
    from aiohttp import ClientSession, TCPConnector, ThreadedResolver

    if follow_links:
        return ClientSession(middlewares=(_within_limits,), **options)
    redirects = Redirects(ThreadedResolver())
    connector = TCPConnector(resolver=cast(Any, redirects))
    return ClientSession(connector=connector, middlewares=(_within_limits, redirects.check), **options)


async def _within_limits(request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
    """The answer of a web server to one request. Raises OSError if its headers drip, if it is a part of a
    file, or nothing, where the file was asked for, or larger than the part that was asked for, which is
    held."""
    from asyncio import timeout

    try:
        async with timeout(SILENCE):
            answer = await handler(request)
    except TimeoutError as error:
        raise OSError(EIO, f"the server sent no answer within {SILENCE:g} seconds") from error
    part = _PART.fullmatch(request.headers.get("Range", ""))
    if not part and answer.status < _FAILED and answer.status not in (*_WHOLE, *_REDIRECTED):
        answer.close()
        raise OSError(EIO, f"the server answered {answer.status}, which is no whole file")
    if part:
        asked, length = int(part[2]) - int(part[1]) + 1, answer.content_length
        is_part = answer.status == _PARTIAL_CONTENT or "Content-Range" in answer.headers
        if is_part and (length is None or length > asked):
            answer.close()
            how = (
                "does not say how long a part of the file is"
                if length is None
                else "gives more than was asked"
            )
            raise OSError(EIO, f"the server {how}: download the file")
    return answer


def _configured(given: str) -> Iterator[str]:
    """Secrets that libraries have from files, and give to servers: those in fsspec's configuration, and the
    token of Hugging Face."""
    with suppress(ImportError):
        from fsspec.config import conf

        yield from secret_options(conf)
    if given.startswith("hf://"):
        with suppress(Exception):  # where a token cannot be renewed, its use will fail
            from huggingface_hub import get_token

            yield get_token() or ""


def _is_folder(info: _Info) -> bool:
    return bool(info["type"] == "directory")


@contextmanager
def _failing_clearly(secrets: Sequence[str]) -> Iterator[None]:
    """Converts all exceptions to OSError: file systems raise those of their libraries. secrets: that servers
    may repeat."""
    try:
        yield
    except Exception as error:
        raise OSError(EIO, _said(error, secrets)) from cause_without(error, secrets)


def _said(error: Exception, secrets: Sequence[str]) -> str:
    """The error in one line, without secrets."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file or folder"
    if isinstance(error, TimeoutError) and not str(error):
        return "the server gave no data for too long"
    told = str(error)
    # Errors of this module have this number; some of libraries, too, which tell what a server says.
    if isinstance(error, OSError) and error.errno == EIO:
        told = error.strerror or told
    line = next(iter(told.strip().splitlines()), "") or type(error).__name__
    if "range requests" in line:
        return "the server gives no parts of files (range requests), by which Parquet is read: download it"
    shown = without_passwords(_URL.sub(lambda url: public_name(url[0]), line))
    return without(shown, secrets)[:_LONGEST_SAID]
