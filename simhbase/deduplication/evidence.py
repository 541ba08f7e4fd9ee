"""Evidence for a removed document: the rule, and how its text differs from the kept one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from simhbase.corpus.outputs.files import Duplicate, duplicate_line, shown_similarity
from simhbase.text.difference import difference, notes
from simhbase.text.variants import CharacterTable

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


class ComparedTexts(NamedTuple):
    """The texts of a removed and a kept document, with the exact similarity of their shingles.
    variants: count as equal."""

    removed: str
    kept: str
    jaccard: float
    variants: CharacterTable | None


def evidence_line(duplicate: Duplicate, rule: Rule, texts: ComparedTexts | None = None) -> bytes:
    """A line of the evidence file. texts: None if they are unknown."""
    same_text = texts is not None and texts.removed == texts.kept
    said = rule.of(duplicate.distance, duplicate.similarity, same_text=same_text)
    return duplicate_line(
        duplicate._replace(group=None), {"rule": said, **(_difference(texts) if texts else {})}
    )


def _difference(texts: ComparedTexts) -> dict[str, Any]:
    """How two texts differ: the words that one has more often than the other, largest difference first, with
    the number of those left out, and the number of places that differ, and
    what explains their similarity."""
    found = difference(texts.removed, texts.kept, _ALL_WORDS, texts.variants)
    removed = [each.word for each in found.words if each.left > each.right][:WORDS]
    kept = [each.word for each in found.words if each.left < each.right][:WORDS]
    more = len(found.words) - len(removed) - len(kept)
    return {
        "jaccard": shown_similarity(texts.jaccard),
        "words": {"removed": removed, "kept": kept, "more": more},
        "stretches": sum(not each.same for each in found.stretches),
        "notes": list(notes(texts.removed, texts.kept, found, texts.variants)),
    }
