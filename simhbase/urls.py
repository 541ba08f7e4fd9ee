"""URLs of stores and services are shown in messages, so there is no secret in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from simhbase.errors import UsageError

_PORT = re.compile(r":\d+(?=[/,?])")
# As an option, in a fragment, or within the value of another option.
_SECRET = re.compile(r"(?i)(pass(?!file)|pwd|secret|token|auth|api_?key)[a-z]*\s*=")
_AUTHORITY = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_BETWEEN = re.compile(r"[/?#\s]+")  # parts of a URL, also of an invalid one
_EMBEDDED = ("memory:", "rocksdb:")  # their folders may have any name


def refuse_secret(url: str, instead: str) -> None:
    """Raises UsageError for a URL with what may be a password, also with one that has signs which end a name
    in a URL. The URL is not shown. instead: how to give it."""
    is_named = not url.startswith(_EMBEDDED) and _SECRET.search(unquote(url))
    parts = () if url.startswith(_EMBEDDED) else _BETWEEN.split(unquote(url))
    has_user = any(":" in part.rpartition("@")[0] for part in parts)
    if is_named or has_user or (_AUTHORITY.match(url) and any(":" in user for user in _users(url))):
        raise UsageError(
            "the URL contains a password, and URLs are shown in messages, logs and lists of processes: leave "
            f"it out, and give it by {instead}"
        )


def _users(url: str) -> Iterator[str]:
    """What may be the user of a URL, wherever a user ends, without addresses of IPv6."""
    rest = re.sub(r"\[[^]]*\]", "", url.partition("://")[2])
    yield unquote(rest.partition("?")[0].rpartition("@")[0])
    yield _PORT.sub("", rest.rpartition("@")[0])
