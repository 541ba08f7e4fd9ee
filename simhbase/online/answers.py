"""What requests and answers look like: the one shape of a match, and everything around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from simhbase.comparison import Comparison
from simhbase.index import Index
from simhbase.index.explain import Explanation, Verdict
from simhbase.index.mute import MOST_IN_NOTE, Muted
from simhbase.index.stats import Stats
from simhbase.model import AddReport, Claim, Document, Lookup, Match, Outcome

Fingerprint = Annotated[str, StringConstraints(pattern="^[0-9a-f]{16}$")]
Distance = Annotated[int, Field(ge=0, le=1 << 16)]
Similarity = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

TEXT = "The council has decided to build a new bridge across the river."
NEAR = "The council has decided to build a new bridge across the river!"
PROFILE = "3f9c2c6fb8b1d2aa"
FINGERPRINT = "0123456789abcdef"
_MATCH = {
    "id": "news/1",
    "distance": 0,
    "similarity": None,
    "fingerprint": FINGERPRINT,
    "drawers": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
}
_MUTED = {
    "id": "news/1",
    "fingerprint": None,
    "since": "2026-01-31T18:00:00Z",
    "until": "2099-01-31T18:00:00Z",
    "note": "asked for by the editors",
}
_LOOKUP = {"fingerprint": FINGERPRINT, "matches": [_MATCH], "truncated": False, "reason": None}


def _asked(**extra: Any) -> ConfigDict:
    """Of what a request holds: nothing is converted into what it might have meant."""
    return ConfigDict(frozen=True, strict=True, extra="forbid", json_schema_extra=extra)


def _example(value: Mapping[str, Any]) -> ConfigDict:
    return ConfigDict(frozen=True, json_schema_extra={"examples": [dict(value)]})


def _either(one: str, many: str, *examples: Mapping[str, Any]) -> ConfigDict:
    """Of a request that is about one thing or several."""
    required = [{"required": one.split()}, {"required": [many]}]
    return _asked(examples=list(map(dict, examples)), oneOf=required)


def _no_number(value: object) -> object:
    """A time as it was given. Raises ValueError for a number, which pydantic takes for one."""
    if isinstance(value, (int, float)):
        raise ValueError("a time with its zone is needed, as 2026-01-31T18:00:00Z")
    return value


# --- requests ---


class Bounds(BaseModel):
    """What counts as near; where it is left out, as the store's profile says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    k: Distance | None = Field(None, description="Maximum Hamming distance in bits (scheme simhash).")
    min_similarity: Similarity | None = Field(None, description="Least estimated Jaccard similarity.")
    since: AwareDatetime | None = Field(
        None,
        strict=False,
        description="Only documents last written then or later: a time with its zone (RFC 3339).",
    )

    @field_validator("since", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        return _no_number(value)

    def arguments(self) -> tuple[int | None, float | None, datetime | None]:
        """Those of Index.find."""
        return self.k, self.min_similarity, self.since


class NeighboursBounds(Bounds):
    """The same, and tags as a query has them."""

    tag: list[Annotated[str, StringConstraints(pattern="^[^=]+=")]] = Field(
        [], description="Only documents with this tag, NAME=VALUE; of several, with all."
    )

    @field_validator("tag")
    @classmethod
    def _one_value(cls, given: list[str]) -> list[str]:
        names = [each.partition("=")[0] for each in given]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"{min(twice)!r} comes twice: a tag has one value")
        return given

    @property
    def tags(self) -> dict[str, str]:
        """By name."""
        return {name: value for name, _, value in (each.partition("=") for each in self.tag)}


class FindRequest(Bounds):
    """One text, or several."""

    model_config = _either(
        "text", "texts", {"text": NEAR, "tags": {"tenant": "a"}}, {"texts": [TEXT, NEAR], "k": 2}
    )

    text: str | SkipJsonSchema[None] = None
    texts: list[str] | SkipJsonSchema[None] = None
    tags: dict[str, str] = Field({}, description="Only documents that have all of these tags.")

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        given = self.model_fields_set & {"text", "texts"}
        if len(given) != 1 or getattr(self, *given) is None:
            raise ValueError("give either text or texts")
        return self

    def all(self) -> list[str]:
        """The texts."""
        return self.texts if self.texts is not None else [self.text or ""]


class GivenDocument(BaseModel):
    """A text under its id."""

    model_config = _asked(examples=[{"id": "news/1", "text": TEXT, "tags": {"tenant": "a"}}])

    id: str
    text: str
    tags: dict[str, str] = {}

    def document(self) -> Document:
        """The same for the index."""
        return Document(self.id, self.text, self.tags)


class DocumentsRequest(BaseModel):
    """One document, or several."""

    model_config = _either(
        "id text",
        "documents",
        {"id": "news/1", "text": TEXT, "tags": {"tenant": "a"}},
        {"documents": [{"id": "news/1", "text": TEXT}, {"id": "news/2", "text": NEAR}]},
    )

    id: str | SkipJsonSchema[None] = None
    text: str | SkipJsonSchema[None] = None
    tags: dict[str, str] = Field({}, description="Names and values, of the one document.")
    documents: list[GivenDocument] | SkipJsonSchema[None] = None

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        given = self.model_fields_set & {"id", "text", "documents"}
        if given not in ({"id", "text"}, {"documents"}) or None in (getattr(self, each) for each in given):
            raise ValueError("give either id and text, or documents")
        if self.tags and self.documents is not None:
            raise ValueError("give tags with each of the documents")
        return self

    def all(self) -> list[Document]:
        """The documents."""
        given = self.documents
        if given is None:
            return [Document(self.id or "", self.text or "", self.tags)]
        return [each.document() for each in given]


class ClaimRequest(DocumentsRequest):
    """One document, or several; timeout: seconds to wait for others who claim near texts, at most as long as
    the service waits for any answer."""

    timeout: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)] = 30.0


class CompareRequest(BaseModel):
    """Two texts."""

    model_config = _asked(examples=[{"left": TEXT, "right": NEAR}])

    left: str
    right: str


class ExplainRequest(BaseModel):
    """A text; id: a document that is to be among the candidates, found or not."""

    model_config = _asked(examples=[{"text": NEAR, "id": "news/1"}])

    text: str
    id: str | None = None
    k: Distance | None = Field(None, description="As of /v1/find.")
    min_similarity: Similarity | None = Field(None, description="As of /v1/find.")


class MuteRequest(BaseModel):
    """Documents that are to be no matches: by their ids, or all of a fingerprint."""

    model_config = _asked(
        examples=[
            {"ids": ["news/1"], "until": "2099-01-31T18:00:00Z", "note": "asked for by the editors"},
            {"fingerprints": [FINGERPRINT]},
        ]
    )

    ids: list[str] = []
    fingerprints: list[Fingerprint] = []
    until: AwareDatetime | None = Field(
        None, strict=False, description="When it ends: a time to come with its zone (RFC 3339); null: never."
    )
    note: str = Field("", max_length=MOST_IN_NOTE, description="Why, in one line.")

    @field_validator("until", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        return _no_number(value)


class UnmuteRequest(BaseModel):
    """Ids and fingerprints, each as often as there are any."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: list[str] = []
    fingerprint: list[Fingerprint] = []


# --- answers ---


class FoundMatch(BaseModel):
    """A stored document near the query, the same everywhere.

    drawers: the flags of the drawers that it shares with the query; null where fingerprints alone do not tell
    (scheme minhash).
    """

    model_config = _example(_MATCH)

    id: str
    distance: int
    similarity: float | None
    fingerprint: Fingerprint
    drawers: list[int] | None


class FoundLookup(BaseModel):
    """The answer to one query, the nearest match first.

    fingerprint: null where the text has none, and `reason` says why. truncated: there may be more matches
    than the limits of a read allowed to see.
    """

    model_config = _example(_LOOKUP)

    fingerprint: Fingerprint | None
    matches: list[FoundMatch]
    truncated: bool
    reason: str | None


class Answer(BaseModel):
    """profile: the digest of the parameters by which the store compares."""

    model_config = ConfigDict(frozen=True)

    profile: str


class FindAnswer(Answer):
    """A lookup for each text, in their order."""

    model_config = _example({"profile": PROFILE, "lookups": [_LOOKUP]})

    lookups: list[FoundLookup]


class NeighboursAnswer(Answer):
    """The documents near a stored one, without itself."""

    model_config = _example({"profile": PROFILE, "id": "news/2", **_LOOKUP})

    id: str
    fingerprint: Fingerprint | None
    matches: list[FoundMatch]
    truncated: bool
    reason: str | None


class RejectedDocument(BaseModel):
    """A document that was not stored, and why."""

    id: str
    reason: str


class AddAnswer(Answer):
    """How many documents are new, have another fingerprint than before or the same, and what was rejected."""

    model_config = _example({"profile": PROFILE, "added": 1, "moved": 0, "unchanged": 0, "rejected": []})

    added: int
    moved: int
    unchanged: int
    rejected: list[RejectedDocument]


class DecidedClaim(BaseModel):
    """The answer to one claim; see simhbase.model.Claim. match: of a duplicate; reason: of what else is not
    accepted."""

    id: str
    outcome: Outcome
    fingerprint: Fingerprint | None
    match: FoundMatch | None
    reason: str | None


class ClaimAnswer(Answer):
    """A claim for each document, in their order."""

    model_config = _example(
        {
            "profile": PROFILE,
            "claims": [
                {
                    "id": "news/2",
                    "outcome": "duplicate",
                    "fingerprint": FINGERPRINT,
                    "match": _MATCH,
                    "reason": None,
                }
            ],
        }
    )

    claims: list[DecidedClaim]


class DocumentAnswer(Answer):
    """A stored document."""

    model_config = _example(
        {"profile": PROFILE, "id": "news/1", "fingerprint": FINGERPRINT, "tags": {"tenant": "a"}}
    )

    id: str
    fingerprint: Fingerprint
    tags: dict[str, str]


class DeleteAnswer(Answer):
    """What was deleted."""

    model_config = _example({"profile": PROFILE, "id": "news/1", "deleted": True})

    id: str
    deleted: Literal[True] = True


class MutedEntry(BaseModel):
    """A document that is no match, by its id, or all of a fingerprint; until: null for ever."""

    id: str | None
    fingerprint: Fingerprint | None
    since: AwareDatetime
    until: AwareDatetime | None
    note: str


class MutedAnswer(Answer):
    """What is muted, the oldest entries first."""

    model_config = _example({"profile": PROFILE, "muted": [_MUTED]})

    muted: list[MutedEntry]


class MuteAnswer(Answer):
    """How many were muted that were not before."""

    model_config = _example({"profile": PROFILE, "added": 1})

    added: int


class UnmuteAnswer(Answer):
    """How many were muted before, and are no more."""

    model_config = _example({"profile": PROFILE, "removed": 1})

    removed: int


class Stretch(BaseModel):
    """A stretch of both texts; same: whether it has the same words in both. One of the two may be empty."""

    same: bool
    left: str
    right: str


class DifferingWord(BaseModel):
    """How often a word is in each of two texts, in its normal form."""

    word: str
    left: int
    right: int


class CompareAnswer(Answer):
    """How near two texts are, and where they differ.

    fingerprints, reasons: of the left and the right one; distance and similarity as of a match; jaccard: the
    exact similarity of their features; drawers: the flags of those that they share, of `tables`; match:
    whether one is found by the other. segments: the stretches of both texts, in order; words: those that
    one text has more often; more_words: how many of them are left out; whole: whether a stretch was too
    long to be compared word by word.
    """

    fingerprints: tuple[Fingerprint | None, Fingerprint | None]
    reasons: tuple[str | None, str | None]
    distance: int | None
    similarity: float | None
    jaccard: float
    drawers: list[int]
    tables: int
    match: bool
    segments: list[Stretch]
    words: list[DifferingWord]
    more_words: int
    whole: bool


class ReadDrawer(BaseModel):
    """A drawer that a lookup reads.

    flag: of its table; bits: those of the fingerprint that name it, or the slots of the sketch (scheme
    minhash), as runs of [first, number]; prefix: the hexadecimal digits that its row keys begin with; rows:
    how many were read; candidates: those of them that are near by their bits; truncated: whether it has more
    rows than the limit.
    """

    flag: int
    bits: list[tuple[int, int]]
    prefix: str
    rows: int
    candidates: int
    truncated: bool


class FoundCandidate(BaseModel):
    """A match, or what might have been one.

    id: null for a fingerprint that no document is listed under; distance and fingerprint: null where they are
    not known; verdict: what became of it.
    """

    id: str | None
    distance: int | None
    similarity: float | None
    fingerprint: Fingerprint | None
    drawers: list[int]
    verdict: Verdict


class ExplainAnswer(Answer):
    """What a lookup does: the drawers that it reads, and the nearest of what is in them; more_candidates: how
    many fingerprints there are farther away."""

    fingerprint: Fingerprint | None
    drawers: list[ReadDrawer]
    candidates: list[FoundCandidate]
    more_candidates: int
    truncated: bool
    reason: str | None


class Counts(BaseModel):
    """How large the store is, by its own estimates."""

    documents: int
    fingerprints: int
    index_rows: int
    bytes: int


class StatusAnswer(Answer):
    """What the store is, and how large.

    parameters: of the profile; counts: estimates, as they were at `counted_at`. Lookups see every write that
    was acknowledged before.
    """

    version: str
    parameters: dict[str, Any]
    access: Literal["read", "write"]
    counts: Counts
    counted_at: datetime
    operations: dict[str, int]


class Alive(BaseModel):
    """The process answers, or the store does."""

    status: Literal["ok"] = "ok"


class Detail(BaseModel):
    """What is wrong with one part of a request."""

    where: str
    problem: str


class Failure(BaseModel):
    """Why there is no answer. code: for programs, message: for people."""

    code: str
    message: str
    request_id: str
    details: list[Detail] = []


class FailureAnswer(BaseModel):
    """The one shape of errors."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "error": {
                        "code": "not_found",
                        "message": "no document is stored under this id",
                        "request_id": "5f0c6ad7c8de4f0e9a3a",
                        "details": [],
                    }
                }
            ]
        }
    )

    error: Failure


# --- from values of the library ---


def digits(fingerprint: int | None) -> str | None:
    """A fingerprint as 16 hexadecimal digits."""
    return None if fingerprint is None else f"{fingerprint:016x}"


def found_matches(index: Index, fingerprint: int | None, matches: Sequence[Match]) -> list[FoundMatch]:
    """The matches of a query with this fingerprint."""
    if fingerprint is None:
        return []
    shared = index.shared_drawers(fingerprint, matches)
    return [
        FoundMatch.model_construct(
            id=match.id,
            distance=match.distance,
            similarity=match.similarity,
            fingerprint=f"{match.fingerprint:016x}",
            drawers=None if drawers is None else list(drawers),
        )
        for match, drawers in zip(matches, shared, strict=True)
    ]


def found_lookups(index: Index, lookups: Iterable[Lookup]) -> list[FoundLookup]:
    """Lookups with their matches."""
    return [
        FoundLookup.model_construct(
            fingerprint=digits(lookup.fingerprint),
            matches=found_matches(index, lookup.fingerprint, lookup.matches),
            truncated=lookup.truncated,
            reason=lookup.reason,
        )
        for lookup in lookups
    ]


def neighbours(index: Index, profile: str, document: str, found: Lookup) -> NeighboursAnswer:
    """The others near a stored document."""
    others = [match for match in found.matches if match.id != document]
    return NeighboursAnswer.model_construct(
        profile=profile,
        id=document,
        fingerprint=digits(found.fingerprint),
        matches=found_matches(index, found.fingerprint, others),
        truncated=found.truncated,
        reason=found.reason,
    )


def claimed(index: Index, profile: str, claims: Iterable[Claim]) -> ClaimAnswer:
    """What became of claims."""
    return ClaimAnswer(
        profile=profile,
        claims=[
            DecidedClaim(
                id=each.id,
                outcome=each.outcome,
                fingerprint=digits(each.fingerprint),
                match=next(iter(found_matches(index, each.fingerprint, [each.match])), None)
                if each.match
                else None,
                reason=each.reason,
            )
            for each in claims
        ],
    )


def added(profile: str, report: AddReport) -> AddAnswer:
    """What an add did."""
    return AddAnswer(
        profile=profile,
        added=report.added,
        moved=report.moved,
        unchanged=report.unchanged,
        rejected=[RejectedDocument(id=each.id, reason=each.reason) for each in report.rejected],
    )


def muted(profile: str, entries: Iterable[Muted]) -> MutedAnswer:
    """What is muted."""
    return MutedAnswer(
        profile=profile,
        muted=[
            MutedEntry(
                id=each.id,
                fingerprint=digits(each.fingerprint),
                since=_time(each.since),
                until=None if each.until is None else _time(each.until),
                note=each.note,
            )
            for each in entries
        ],
    )


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def counts(stats: Stats) -> Counts:
    """How large the store is."""
    return Counts(
        documents=stats.documents,
        fingerprints=stats.fingerprints,
        index_rows=stats.index_rows,
        bytes=stats.bytes,
    )


def compared(profile: str, request: CompareRequest, found: Comparison) -> CompareAnswer:
    """How near two texts are."""
    left, right = found.fingerprints
    return CompareAnswer(
        profile=profile,
        fingerprints=(digits(left), digits(right)),
        reasons=found.reasons,
        distance=found.distance,
        similarity=found.similarity,
        jaccard=found.jaccard,
        drawers=list(found.drawers),
        tables=found.tables,
        match=found.match,
        segments=[
            Stretch(
                same=each.same,
                left=request.left[slice(*each.left)],
                right=request.right[slice(*each.right)],
            )
            for each in found.difference.segments
        ],
        words=[
            DifferingWord(word=each.word, left=each.left, right=each.right) for each in found.difference.words
        ],
        more_words=found.difference.more_words,
        whole=found.difference.whole,
    )


def explained(profile: str, found: Explanation) -> ExplainAnswer:
    """What a lookup does."""
    return ExplainAnswer(
        profile=profile,
        fingerprint=digits(found.fingerprint),
        drawers=[
            ReadDrawer(
                flag=each.flag,
                bits=[(run.start, run.width) for run in each.runs],
                prefix=each.prefix.hex(),
                rows=each.rows,
                candidates=each.candidates,
                truncated=each.truncated,
            )
            for each in found.drawers
        ],
        candidates=[
            FoundCandidate(
                id=each.id,
                distance=each.distance,
                similarity=each.similarity,
                fingerprint=digits(each.fingerprint),
                drawers=list(each.drawers),
                verdict=each.verdict,
            )
            for each in found.candidates
        ],
        more_candidates=found.more_candidates,
        truncated=found.truncated,
        reason=found.reason,
    )
