"""Content of files that are part of a profile."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class NamedContent:
    """The content of a file; equal if the content is equal, whatever the names. digest: SHA-256 in hex."""

    name: str = field(compare=False)
    content: bytes = field(repr=False)

    @cached_property
    def digest(self) -> str:
        from hashlib import sha256  # OpenSSL's, which takes time to load

        return sha256(self.content).hexdigest()
