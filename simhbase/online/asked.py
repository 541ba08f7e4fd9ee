"""Request bodies and parameters. Values are not converted, and unknown fields are refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, ClassVar

from msgspec import UNSET, Meta, Struct, UnsetType

from simhbase.errors import BadInput
from simhbase.index.index import PAGE
from simhbase.model.stored import MOST_IN_NOTE
from simhbase.model.values import ClaimMode, Document, Fingerprint

Distance = Annotated[int, Meta(ge=0, le=1 << 16, description="Maximum Hamming distance in bits (simhash).")]
Similarity = Annotated[float, Meta(ge=0, le=1, description="Minimum estimated Jaccard similarity.")]
Time = Annotated[
    str,
    Meta(
        description="A time with its zone (RFC 3339), a date (in UTC), or a duration back from now, for "
        "`until` from now on: 30d, 12h, 90m."
    ),
]
Tags = Annotated[dict[str, str], Meta(description="Names and values.")]
Tag = Annotated[str, Meta(pattern="^[^=]+=", description="NAME=VALUE.")]
Seconds = Annotated[float, Meta(ge=0, le=3600)]


class AnyRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class. repeated: names of query parameters that may occur several times."""

    repeated: ClassVar[frozenset[str]] = frozenset()


class FindRequest(AnyRequest, frozen=True):
    """One or several texts. k, min_similarity: by default the store's; since: only documents written at or
    after this time; tags: only documents that have all of these tags."""

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
        return [self.text] if isinstance(self.text, str) else self.texts or []


class GivenDocument(AnyRequest, frozen=True):
    """A text with its id."""

    id: str
    text: str
    tags: Tags = {}


class DocumentsRequest(AnyRequest, frozen=True):
    """One or several documents."""

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
        if isinstance(self.id, str) and isinstance(self.text, str):
            return [Document(self.id, self.text, self.tags)]
        return [Document(each.id, each.text, each.tags) for each in self.documents or []]


class ClaimsRequest(DocumentsRequest, frozen=True):
    """One or several documents. timeout: seconds to wait for claims of near texts by others, limited by the
    service's time limit. mode: annotate stores every text, and lists the documents near it as also_at."""

    timeout: Seconds = 30.0
    mode: ClaimMode = "refuse"


class FilteredRequest(AnyRequest, frozen=True):
    """Base class. since, tag: only documents written at or after this time, with this tag (repeatable: with
    all of them)."""

    repeated: ClassVar[frozenset[str]] = frozenset({"tag"})

    since: Time | None = None
    tag: list[Tag] = []

    def __post_init__(self) -> None:
        _ = self.tags

    @property
    def tags(self) -> dict[str, str]:
        """Raises ValueError for a name that is given twice."""
        tags: dict[str, str] = {}
        for name, _, value in (each.partition("=") for each in self.tag):
            if name in tags:
                raise ValueError(f"{name!r} is given twice: a tag has one value")
            tags[name] = value
        return tags


class StoredRequest(FilteredRequest, frozen=True):
    """The stored documents. after: from the page before; limit: documents per page."""

    after: str | None = None
    limit: Annotated[int, Meta(ge=1, le=PAGE)] = PAGE


class GroupsRequest(FilteredRequest, frozen=True):
    """The groups of stored documents. min_size: documents of a group; limit: groups of the answer; chains:
    groups are connected components."""

    min_size: Annotated[int, Meta(ge=2)] = 2
    limit: Annotated[int, Meta(ge=1, le=PAGE)] = 100
    chains: bool = False


class DocumentRequest(AnyRequest, frozen=True):
    """A stored document."""

    id: str


class NeighboursRequest(FilteredRequest, frozen=True, kw_only=True):
    """A stored document, and bounds of a match."""

    id: str
    k: Distance | None = None
    min_similarity: Similarity | None = None


class FeaturesRequest(AnyRequest, frozen=True):
    """A text."""

    text: str


class CompareRequest(AnyRequest, frozen=True):
    """Two texts."""

    left: str
    right: str


class ExplainRequest(AnyRequest, frozen=True):
    """A text. id: a document to include in the candidates, found or not."""

    text: str
    id: str | None = None
    k: Distance | None = None
    min_similarity: Similarity | None = None


class MuteRequest(AnyRequest, frozen=True):
    """Documents to hide from lookups, by id or fingerprint. until: when this ends, null for never; note: a
    line of text."""

    ids: list[str] = []
    fingerprints: list[Fingerprint] = []
    until: Time | None = None
    note: Annotated[str, Meta(max_length=MOST_IN_NOTE)] = ""


class UnmuteRequest(AnyRequest, frozen=True):
    """Ids and fingerprints, each repeatable."""

    repeated: ClassVar[frozenset[str]] = frozenset({"id", "fingerprint"})

    id: list[str] = []
    fingerprint: list[Fingerprint] = []


def from_address(given: Iterable[tuple[str, str]], kind: type[AnyRequest]) -> dict[str, object]:
    """Query parameters for wire.convert. Raises BadInput if one that is not repeated is given twice."""
    values: dict[str, object] = {}
    several: dict[str, list[str]] = {}
    for name, value in given:
        if name in kind.repeated:
            several.setdefault(name, []).append(value)
        elif name in values:
            raise BadInput(f"{name!r} is given twice")
        else:
            values[name] = _CONVERTED.get(name, str)(value)
    return values | several


def _truth(text: str) -> bool | str:
    return text == "true" if text in ("true", "false") else text


def _number(text: str) -> int | float | str:
    if re.fullmatch("-?[0-9]{1,9}", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?[0-9]{1,9}\.[0-9]{1,99}", text) else text


_CONVERTED: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys(("k", "min_similarity", "limit", "min_size"), _number),
    "chains": _truth,
}
