"""Word lists and other files that are part of a profile, of users and of packages."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

from simhbase.errors import BadInput
from simhbase.packing import Rereadable, Unreadable, unpacked


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


def read_utf8(path: Path, kind: str) -> bytes:
    """Read a file in UTF-8, decompressed if its first bytes say so. kind: its name in messages. Raises
    BadInput."""
    try:
        content = b"".join(unpacked(Rereadable(BytesIO(path.read_bytes()))))
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"the {kind} {path} is not UTF-8 at byte {error.start}") from error
    except Unreadable as error:
        raise BadInput(f"the {kind} {path} cannot be read: {error}") from error
    except OSError as error:
        raise BadInput(f"cannot read the {kind} {path}: {error.strerror}") from error
    return content
