"""Authorization by bearer tokens from a file."""

from __future__ import annotations

import hashlib
import json
import re
import stat
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from starlette.exceptions import HTTPException

from simhbase.errors import BadInput, UsageError
from simhbase.index.scopes import require_scope
from simhbase.process.logs import logger
from simhbase.text.userfile import read_utf8

Role = Literal["metrics", "read", "write"]  # each includes those before it
ROLES: tuple[Role, ...] = get_args(Role)
SHORTEST = 16  # characters
MOST_BYTES = 1 << 20  # of a file: some 14,000 tokens
LOOKED_AT = 0.5  # seconds between checks for a changed file
WRITTEN = 0.5  # seconds since its last write in which a file may be half written
_FORM = "must be 'read TOKEN', 'write TOKEN' or 'metrics TOKEN'"
_SCOPE = "scope="

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Token:
    """SHA-256 of a token, its role, and the scope that it is bound to."""

    digest: bytes
    role: Role
    scope: str | None = None

    def includes(self, role: Role) -> bool:
        """True if it allows what this role allows. Metrics are of all scopes, so that one of them does not
        include them."""
        is_for_all = role == "metrics" and self.scope is not None
        return not is_for_all and ROLES.index(self.role) >= ROLES.index(role)


def read_tokens(path: Path, *, scoped: bool = False) -> list[Token]:
    """Read a token file: lines of `read TOKEN`, `write TOKEN` or `metrics TOKEN`, optionally followed by a
    comment; lines starting with # are comments. scoped: tokens that read and write are each bound to a scope,
    `read TOKEN scope=NAME`, behind which a comment begins with #; else none is.

    Raises UsageError if the file cannot be read, is no plain file or larger than 1 MiB, has no tokens or an
    invalid line, or gives one token two scopes."""
    try:
        content = read_utf8(path, "token file", MOST_BYTES, plain=True)
    except BadInput as error:
        raise UsageError(str(error)) from error
    tokens: dict[bytes, Token] = {}
    for number, line in enumerate(content.decode("utf-8-sig").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            token = _token(line)
            _require_scopes(token, scoped=scoped)
        except UsageError as error:
            raise UsageError(f"{path}, line {number}: {error}") from error
        before = tokens.setdefault(token.digest, token)
        if before.scope != token.scope:
            raise UsageError(f"{path}, line {number}: a line before has this token with another scope")
        if ROLES.index(before.role) < ROLES.index(token.role):
            tokens[token.digest] = token
    if not tokens:
        raise UsageError(f"{path} has no tokens: add lines 'read TOKEN' or 'write TOKEN'")
    return list(tokens.values())


def _token(line: str) -> Token:
    """Parse a line. Errors never show it, as it may be secret."""
    words = line.split(maxsplit=2)
    role = next((each for each in ROLES if each == words[0]), None)
    if role is None or len(words) < 2 or words[1].startswith(_SCOPE):
        raise UsageError(_FORM)
    token = words[1]
    if len(token) < SHORTEST:
        raise UsageError(
            f"a token needs at least {SHORTEST} characters. Generate one with openssl rand -hex 32"
        )
    return Token(hashlib.sha256(token.encode()).digest(), role, _scope("".join(words[2:])))


def _scope(rest: str) -> str | None:
    """The scope that stands behind a token. Raises UsageError for a comment that may be meant as one."""
    is_given = rest.startswith(_SCOPE)
    value, comment = _value(rest.removeprefix(_SCOPE)) if is_given else (None, rest)
    if is_given and comment and not comment.startswith("#"):
        raise UsageError(
            'behind a scope, a comment begins with #, and a name with spaces is put in quotes: scope="NAME"'
        )
    if re.search("scope", comment, re.IGNORECASE):
        raise UsageError(
            f"its comment mentions a scope: put {_SCOPE}NAME directly behind the token, or use other words"
        )
    return None if value is None else require_scope(value)


def _value(text: str) -> tuple[str, str]:
    """A name, as it is or as a string of JSON, and what comes behind it."""
    if not text.startswith('"'):
        name = re.split(r"\s", text, maxsplit=1)[0]
        if "#" in name:
            raise UsageError(f'put a name with # in quotes, {_SCOPE}"NAME", and a space before a comment')
        return name, text[len(name) :].strip()
    try:
        name, end = json.JSONDecoder().raw_decode(text)
    except ValueError as error:
        raise UsageError(f'the name of its scope is no string of JSON: {_SCOPE}"NAME"') from error
    if text[end : end + 1].strip():
        raise UsageError("put a space behind the name of its scope")
    return name, text[end:].strip()


def _require_scopes(token: Token, *, scoped: bool) -> None:
    needs_one = scoped and token.role != "metrics"
    if needs_one and token.scope is None:
        raise UsageError(f"the store has scopes: add the one of the token behind it, {_SCOPE}NAME")
    if token.scope is not None and not needs_one:
        why = "metrics are of all scopes" if scoped else "what is served has no scopes"
        raise UsageError(f"it names a scope, but {why}: leave {_SCOPE} out")


class Tokens:
    """The tokens of a file, reloaded when it changes. scoped: see `read_tokens`.

    If the file becomes unreadable or invalid, the tokens stay as they were, and the log has an error.
    """

    def __init__(self, path: Path, *, scoped: bool = False) -> None:
        self._path, self._scoped = path, scoped
        self._lock = threading.Lock()
        self._seen = self._state()
        self._looked = time.monotonic()
        self._tokens = self._read()
        self._warn()

    def _read(self) -> Mapping[bytes, Token]:
        return {token.digest: token for token in read_tokens(self._path, scoped=self._scoped)}

    def require(self, authorization: str, role: Role) -> Token:
        """The token in a header, which has this role. Raises HTTPException."""
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() != "bearer" or not given:
            raise HTTPException(
                401, "a token is required: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"}
            )
        token = self.find(given.encode("latin-1"))  # headers are decoded as latin-1
        if token is None:
            raise HTTPException(401, "unknown token", {"WWW-Authenticate": 'Bearer error="invalid_token"'})
        if not token.includes(role):
            raise HTTPException(403, _refusal(token, role))
        return token

    def find(self, given: bytes) -> Token | None:
        """What the file says of a token, None if it is unknown."""
        self._look()
        # Nobody can choose a digest, so the time that this takes tells nothing of other tokens.
        return self._tokens.get(hashlib.sha256(given).digest())

    def _look(self) -> None:
        with self._lock:
            if time.monotonic() - self._looked < LOOKED_AT:
                return
            self._looked = time.monotonic()
            state = self._state()
            if state == self._seen or (state and abs(time.time() - state[-1] / 1e9) < WRITTEN):
                return
            self._seen = state
            try:
                self._tokens = self._read()
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


def _refusal(token: Token, role: Role) -> str:
    if token.role == "metrics":
        return "this token only allows metrics: use a read token"
    if role == "metrics":
        return "this token is bound to a scope, and metrics are of all of them: use a metrics token"
    return "this token only allows reading: use a write token"
