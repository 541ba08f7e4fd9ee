"""Files of words and phrases that a profile is made with."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path

from simhbase.errors import BadInput
from simhbase.packing import Rereadable, Unreadable, unpacked


@dataclass(frozen=True)
class NamedContent:
    """What is in a file: two of one content are equal, whatever their names."""

    name: str = field(compare=False)
    content: bytes = field(repr=False)

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def read_utf8(path: Path, kind: str) -> bytes:
    """What is in a file of UTF-8, of a kind that messages name: plain, or packed, as its first bytes
    say. Raises BadInput."""
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
