"""Authorization by bearer tokens from a file."""

from __future__ import annotations

import hashlib
import hmac
import stat
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from starlette.exceptions import HTTPException

from simhbase.errors import UsageError
from simhbase.process.logs import logger

Role = Literal["read", "write"]
SHORTEST = 16  # characters
LOOKED_AT = 1.0  # seconds between checks for a changed file

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Token:
    """SHA-256 of a token, and its role; write includes read."""

    digest: bytes
    role: Role


def read_tokens(path: Path) -> list[Token]:
    """Read a token file: lines of `read TOKEN` or `write TOKEN`, optionally followed by a comment; lines
    starting with # are comments. Raises UsageError if the file cannot be read, has no tokens or an invalid
    line."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the tokens in {path} cannot be read: {error}") from error
    tokens = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        tokens.append(_token(path, number, words))
    if not tokens:
        raise UsageError(f"{path} has no tokens: add lines 'read TOKEN' or 'write TOKEN'")
    return tokens


def _token(path: Path, number: int, words: list[str]) -> Token:
    """Parse a line. Errors never show it, as it may be secret."""
    role = next((each for each in get_args(Role) if each == words[0]), None)
    if role is None or len(words) < 2:
        raise UsageError(f"{path}, line {number}: must be 'read TOKEN' or 'write TOKEN'")
    if len(words[1]) < SHORTEST:
        raise UsageError(
            f"{path}, line {number}: a token needs at least {SHORTEST} characters. Generate one with "
            "openssl rand -hex 32"
        )
    return Token(hashlib.sha256(words[1].encode()).digest(), role)


class Tokens:
    """The tokens of a file, reloaded when it changes.

    If the file becomes unreadable or invalid, the tokens stay as they were, and the log has an error.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen = self._state()
        self._looked = time.monotonic()
        self._tokens = read_tokens(path)
        self._warn()

    def require(self, authorization: str, role: Role) -> str:
        """The token in a header, which has this role. Raises HTTPException."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise HTTPException(
                401, "a token is required: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"}
            )
        found = self.role(token.encode("latin-1"))  # headers are decoded as latin-1
        if found is None:
            raise HTTPException(401, "unknown token", {"WWW-Authenticate": 'Bearer error="invalid_token"'})
        if role == "write" and found != "write":
            raise HTTPException(403, "this token only allows reading: use a write token")
        return token

    def role(self, token: bytes) -> Role | None:
        """The role of a token, None if it is unknown."""
        self._look()
        digest = hashlib.sha256(token).digest()
        found: Role | None = None
        for each in self._tokens:  # all of them: constant time
            if hmac.compare_digest(each.digest, digest) and found != "write":
                found = each.role
        return found

    def _look(self) -> None:
        with self._lock:
            if time.monotonic() - self._looked < LOOKED_AT:
                return
            self._looked = time.monotonic()
            state = self._state()
            if state == self._seen:
                return
            self._seen = state
            try:
                self._tokens = read_tokens(self._path)
            except UsageError as error:
                log.error("keeping the previous tokens: %s", error)
            else:
                log.info("%s has changed: %d tokens", self._path, len(self._tokens))
                self._warn()

    def _warn(self) -> None:
        """Warns if other users can read the file. Its group may: secrets of Kubernetes are read by theirs."""
        if self._seen and stat.S_IMODE(self._seen[0]) & 0o027:
            log.warning("other users can read the tokens in %s: run chmod 600 on it", self._path)

    def _state(self) -> tuple[int, ...] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns
