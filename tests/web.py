"""A web server for the files of a folder, as others have them: it lists folders, gives parts of files, asks
for secrets, and breaks off."""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import unquote, urlsplit


class Web:
    """Serves a folder on a free port.

    gives_parts: whether it answers requests for a range of a file. ends_after: how many bytes of a file, by
    its path, are sent before the connection is closed. holds_after: the same, but what follows is sent when
    `going_on` is set. answers: the status that takes the place of a file or list. headers: more of those of
    answers. asked: the method, path and headers of each request so far.
    """

    def __init__(self, folder: Path) -> None:
        self.gives_parts = False
        self.ends_after: dict[str, int] = {}
        self.holds_after: dict[str, int] = {}
        self.going_on = threading.Event()
        self.answers: dict[str, int] = {}
        self.headers: dict[str, dict[str, str]] = {}
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self, folder))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.host}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.going_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, web: Web, folder: Path, *arguments: object) -> None:
        self._web = web
        super().__init__(*arguments, directory=folder)  # type: ignore[arg-type]  # as the server gives them

    def do_GET(self) -> None:
        path = self._noted()
        file = Path(self.translate_path(self.path))
        if path in self._web.answers or not file.is_file():
            self._without_file(path)
            return
        content = file.read_bytes()
        part = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if part and self._web.gives_parts:
            begin, end = int(part[1]), min(int(part[2]) + 1, len(content))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")
        else:
            begin, end = 0, len(content)
            self.send_response(200)
        self.send_header("Content-Length", str(end - begin))
        self._end_headers(path)
        last = min(end, self._web.ends_after.get(path, end))
        with suppress(ConnectionError):  # who has seen enough closes
            held = min(last, self._web.holds_after.get(path, last))
            self.wfile.write(content[begin:held])
            if held < last:
                self._web.going_on.wait()
                self.wfile.write(content[held:last])

    def do_HEAD(self) -> None:
        path = self._noted()
        if path in self._web.answers:
            self._without_file(path)
        else:
            super().do_HEAD()

    def _noted(self) -> str:
        path = unquote(urlsplit(self.path).path)
        self._web.asked.append((self.command, self.path, dict(self.headers)))
        return path

    def _without_file(self, path: str) -> None:
        if path in self._web.answers:
            self.send_error(self._web.answers[path])
        else:
            super().do_GET()

    def _end_headers(self, path: str) -> None:
        for name, value in self._web.headers.get(path, {}).items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *said: object) -> None:
        pass
