"""What requests hold. Nothing is converted into what it might have meant, and unknown fields are refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, ClassVar

from msgspec import UNSET, Meta, Struct, UnsetType

from simhbase.model import MOST_IN_NOTE, Document, Fingerprint

Distance = Annotated[int, Meta(ge=0, le=1 << 16, description="Maximum Hamming distance in bits (simhash).")]
Similarity = Annotated[float, Meta(ge=0, le=1, description="Minimum estimated Jaccard similarity.")]
Time = Annotated[datetime, Meta(tz=True, description="A time with its zone (RFC 3339).")]
Tags = Annotated[dict[str, str], Meta(description="Names and values.")]
Tag = Annotated[str, Meta(pattern="^[^=]+=", description="NAME=VALUE.")]
Seconds = Annotated[float, Meta(ge=0, le=3600)]


class AnyRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Any request. repeated: what comes any number of times in an address."""

    repeated: ClassVar[frozenset[str]] = frozenset()


class FindRequest(AnyRequest, frozen=True):
    """One text, or several. k, min_similarity: the store's profile says where they are left out; since: only
    documents last written then or later; tags: only documents that have all of these."""

    text: str | UnsetType = UNSET
    texts: list[str] | UnsetType = UNSET
    k: Distance | None = None
    min_similarity: Similarity | None = None
    since: Time | None = None
    tags: Tags = {}

    def __post_init__(self) -> None:
        if (self.text is UNSET) == (self.texts is UNSET):
            raise ValueError("give either text or texts")

    def all(self) -> list[str]:
        """The texts."""
        return [self.text] if isinstance(self.text, str) else self.texts or []


class GivenDocument(AnyRequest, frozen=True):
    """A text under its id."""

    id: str
    text: str
    tags: Tags = {}

    def document(self) -> Document:
        """The same for the index."""
        return Document(self.id, self.text, self.tags)


class DocumentsRequest(AnyRequest, frozen=True):
    """One document, or several."""

    id: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    tags: Tags = {}
    documents: list[GivenDocument] | UnsetType = UNSET

    def __post_init__(self) -> None:
        one = [each is not UNSET for each in (self.id, self.text)]
        if one != [self.documents is UNSET] * 2:
            raise ValueError("give either id and text, or documents")
        if self.tags and self.documents is not UNSET:
            raise ValueError("give tags with each of the documents")

    def all(self) -> list[Document]:
        """The documents."""
        if isinstance(self.id, str) and isinstance(self.text, str):
            return [Document(self.id, self.text, self.tags)]
        return [each.document() for each in self.documents or []]


class ClaimRequest(DocumentsRequest, frozen=True):
    """One document, or several; timeout: seconds to wait for others who claim near texts, at most as long as
    the service waits for any answer."""

    timeout: Seconds = 30.0


class DocumentRequest(AnyRequest, frozen=True):
    """A stored document."""

    id: str


class NeighboursRequest(AnyRequest, frozen=True):
    """A stored document, and what counts as near it; tag: only documents with this tag, of several
    with all."""

    repeated: ClassVar[frozenset[str]] = frozenset({"tag"})

    id: str
    k: Distance | None = None
    min_similarity: Similarity | None = None
    since: Time | None = None
    tag: list[Tag] = []

    def __post_init__(self) -> None:
        names = [each.partition("=")[0] for each in self.tag]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"{min(twice)!r} comes twice: a tag has one value")

    @property
    def tags(self) -> dict[str, str]:
        """By name."""
        return {name: value for name, _, value in (each.partition("=") for each in self.tag)}


class CompareRequest(AnyRequest, frozen=True):
    """Two texts."""

    left: str
    right: str


class ExplainRequest(AnyRequest, frozen=True):
    """A text; id: a document that is to be among the candidates, found or not."""

    text: str
    id: str | None = None
    k: Distance | None = None
    min_similarity: Similarity | None = None


class MuteRequest(AnyRequest, frozen=True):
    """Documents that are to be no matches, by their ids or all of a fingerprint; until: when that ends, null
    for never; note: why, in one line."""

    ids: list[str] = []
    fingerprints: list[Fingerprint] = []
    until: Time | None = None
    note: Annotated[str, Meta(max_length=MOST_IN_NOTE)] = ""


class UnmuteRequest(AnyRequest, frozen=True):
    """Ids and fingerprints, each any number of times."""

    repeated: ClassVar[frozenset[str]] = frozenset({"id", "fingerprint"})

    id: list[str] = []
    fingerprint: list[Fingerprint] = []


def from_address(given: Iterable[tuple[str, str]], kind: type[AnyRequest]) -> dict[str, object]:
    """The names and values of an address for wire.convert. A time stays text: as a number it would be taken
    for seconds since 1970."""
    values: dict[str, object] = {}
    several: dict[str, list[str]] = {}
    for name, value in given:
        if name in kind.repeated:
            several.setdefault(name, []).append(value)
        else:
            values[name] = _number(value) if name in ("k", "min_similarity") else value
    return values | several


def _number(text: str) -> int | float | str:
    if re.fullmatch("-?[0-9]{1,9}", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?[0-9]{1,9}\.[0-9]{1,99}", text) else text
