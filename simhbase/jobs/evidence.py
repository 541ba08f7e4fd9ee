"""Evidence for a removed document: the rule, and how its text differs from the kept one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from simhbase.corpus.outputs import json_line, shown_similarity
from simhbase.text.difference import difference
from simhbase.text.normalise import CURRENT, NormalForm

WORDS = 20  # differing words listed per text
_ALL_WORDS = 1 << 30


@dataclass(frozen=True)
class Rule:
    """Why documents match, as text.

    near: the bounds, such as "within 3 bits"; chains: the kept document may match only through others;
    stored: the kept document is a stored one; compares_texts: texts are compared, too.
    """

    near: str
    chains: bool = False
    stored: bool = False
    compares_texts: bool = False

    def of(self, distance: int, similarity: float | None, *, same_text: bool) -> str:
        """Why a document was removed. similarity: as the rule uses it, None if unknown."""
        if same_text:
            return "same text"
        if distance == 0 and similarity in (None, 1) and not self.compares_texts:
            rule = "same fingerprint"
        else:
            rule = f"a chain of matches {self.near}" if self.chains else self.near
        return f"{rule}, of a stored document" if self.stored else rule


@dataclass(frozen=True)
class TextDifference:
    """How the text of a removed document differs from the kept one.

    jaccard: exact similarity of their shingles; removed_words, kept_words: words that one text has more often
    than the other, largest difference first, at most WORDS each; more_words: number left out; stretches:
    number of places that differ.
    """

    same_text: bool
    jaccard: float
    removed_words: Sequence[str]
    kept_words: Sequence[str]
    more_words: int
    stretches: int

    @classmethod
    def of(cls, removed: str, kept: str, jaccard: float, form: NormalForm = CURRENT) -> Self:
        """Compare two texts in a normal form; jaccard: their similarity."""
        found = difference(removed, kept, _ALL_WORDS, form)
        of_removed = [each.word for each in found.words if each.left > each.right]
        of_kept = [each.word for each in found.words if each.left < each.right]
        listed = of_removed[:WORDS], of_kept[:WORDS]
        return cls(
            same_text=removed == kept,
            jaccard=jaccard,
            removed_words=listed[0],
            kept_words=listed[1],
            more_words=len(found.words) - sum(map(len, listed)),
            stretches=sum(not segment.same for segment in found.segments),
        )

    @property
    def fields(self) -> dict[str, Any]:
        words = {"removed": self.removed_words, "kept": self.kept_words, "more": self.more_words}
        return {"jaccard": shown_similarity(self.jaccard), "words": words, "stretches": self.stretches}


def evidence_line(
    record_id: str,
    duplicate_of: str,
    distance: int,
    similarity: float | None,
    rule: Rule,
    texts: TextDifference | None = None,
) -> bytes:
    """A line of the evidence file. texts: their difference, None if the texts are unknown."""
    line: dict[str, Any] = {"id": record_id, "duplicate_of": duplicate_of, "distance": distance}
    if similarity is not None:
        line["similarity"] = shown_similarity(similarity)
    line["rule"] = rule.of(distance, similarity, same_text=texts is not None and texts.same_text)
    return json_line(line | (texts.fields if texts else {}))
