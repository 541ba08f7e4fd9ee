"""Content of files that are part of a profile, and the files of installed packages."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from simhbase.errors import BadInput


@dataclass(frozen=True)
class NamedContent:
    """The content of a file; equal if the content is equal, whatever the names. digest: SHA-256 in hex."""

    name: str = field(compare=False)
    content: bytes = field(repr=False)

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def package_folder(name: str, missing: str) -> Path:
    """Folder of an installed package, which is not imported (that takes 100 ms for jieba). Raises BadInput
    with the message `missing`."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise BadInput(missing)
    return Path(spec.submodule_search_locations[0])


def package_version(name: str) -> str:
    """Version of an installed package."""
    from importlib.metadata import version  # takes 40 ms, and few processes ask

    return version(name)
