"""Normal form of texts, from which features are computed. core/src/normal.rs has its rules."""

from __future__ import annotations

from functools import lru_cache

from simhbase._core import Form
from simhbase.text.variants import CharacterTable

NORMALISATION = "nfkc-lower-v1"  # name of this normal form in profiles


@lru_cache(maxsize=8)
def form(variants: CharacterTable | None = None) -> Form:
    """The normal form with a table of variants that count as equal."""
    return Form(None if variants is None else variants.points)


def normalise(text: str, variants: CharacterTable | None = None) -> str:
    """Normalise a text: NFKC, lower case, without invisible characters; runs of white space become one space,
    and are removed at the ends, between Han and beside kana. Idempotent, unless a letter has marks of
    different scripts with a joiner between them. variants: replaced by this table."""
    return form(variants).normalise(text)
