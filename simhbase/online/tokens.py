"""Who may read and who may write: bearer tokens in a file."""

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
from simhbase.logs import logger

Role = Literal["read", "write"]
SHORTEST = 16  # characters
LOOKED_AT = 1.0  # seconds after which the file is looked at again

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Token:
    """A token's SHA-256, and what it allows; write allows reading, too."""

    digest: bytes
    role: Role


def read_tokens(path: Path) -> list[Token]:
    """The tokens of a file: lines of a role and a token, `read TOKEN` or `write TOKEN`; what follows is a
    note, and lines that begin with # are, too. Raises UsageError for a file that cannot be read, holds
    none, or a line that is no such."""
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
        raise UsageError(f"{path} has no tokens: a line each is needed, 'read TOKEN' or 'write TOKEN'")
    return tokens


def _token(path: Path, number: int, words: list[str]) -> Token:
    """One line; what it says is never shown, as it may be secret."""
    role = next((each for each in get_args(Role) if each == words[0]), None)
    if role is None or len(words) < 2:
        raise UsageError(f"{path}, line {number}: 'read TOKEN' or 'write TOKEN' is needed")
    if len(words[1]) < SHORTEST:
        raise UsageError(
            f"{path}, line {number}: a token has at least {SHORTEST} characters. One that nobody guesses: "
            "openssl rand -hex 32"
        )
    return Token(hashlib.sha256(words[1].encode()).digest(), role)


class Tokens:
    """The tokens of a file as it is now.

    A file that has become unreadable or wrong leaves the tokens as they were, and the log says so: whoever
    takes a token away sees there whether it is gone.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen = self._state()
        self._looked = time.monotonic()
        self._tokens = read_tokens(path)
        self._warn()

    def require(self, authorization: str, role: Role) -> None:
        """Lets in a request with a header whose token allows so much. Raises HTTPException."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise HTTPException(
                401, "a token is needed: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"}
            )
        found = self.role(token.encode("latin-1"))  # as it was decoded
        if found is None:
            raise HTTPException(
                401, "this token is unknown here", {"WWW-Authenticate": 'Bearer error="invalid_token"'}
            )
        if role == "write" and found != "write":
            raise HTTPException(403, "this token only allows reading: writing needs another")

    def role(self, token: bytes) -> Role | None:
        """What a token allows, None where it is unknown."""
        self._look()
        digest = hashlib.sha256(token).digest()
        found: Role | None = None
        for each in self._tokens:  # all of them, so that the time tells nothing
            if hmac.compare_digest(each.digest, digest) and found != "write":
                found = each.role
        return found

    def _look(self) -> None:
        """Reads the file again if it has changed."""
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
                log.error("the tokens stay as they were: %s", error)
            else:
                log.info("%s has changed: %d tokens", self._path, len(self._tokens))
                self._warn()

    def _warn(self) -> None:
        """Says where others may read the file."""
        if self._seen and stat.S_IMODE(self._seen[0]) & 0o077:
            log.warning("others than its owner may read %s: chmod 600 keeps its tokens secret", self._path)

    def _state(self) -> tuple[int, ...] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns
