"""Write src/unicode.rs: what the core knows of Unicode, by code point.

pip install unicodedata2==18.0.0 regex==2026.11.15 && python core/unicode.py

The core never asks the compiler or Python about a character, so that a fingerprint depends on no version but
this one. src/normal.rs says what the tables mean.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import regex
import unicodedata2 as unicode

VERSION = "18.0.0"
BLOCK = 128  # code points; equal blocks are written once
POINTS = range(sys.maxunicode + 1)

SAME, AWKWARD, SPACE, GONE, SIGMA, FIRST, SEVERAL = range(
    0, -7, -1
)  # as in src/normal.rs, and the bits below
UNSEEN, JOINED, UNSPACED, WORD, ALONE, RUN = (1 << bit for bit in range(8, 14))
CASED_BEFORE, SKIPPED_BEFORE, CASED_BEHIND, SKIPPED_BEHIND = (1 << bit for bit in range(14, 18))

# Scripts in which the joiners U+200C and U+200D count between letters (UAX #31, section 2.3; why: The Unicode
# Standard, section 23.2), and those without spaces, where U+200B ends a word.
JOINING = (
    *("Arabic", "Syriac", "Mandaic", "Mongolian", "Nko", "Phags_Pa", "Adlam", "Hanifi_Rohingya"),
    *("Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam"),
    *("Sinhala", "Khmer", "Myanmar", "Tibetan", "Balinese", "Javanese", "Brahmi", "Grantha"),
)
WITHOUT_SPACES = ("Thai", "Lao", "Khmer", "Myanmar")
UNITS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
# Default_Ignorable_Code_Point, annotation marks, skin tones of emoji and the key box.
IGNORED = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20e3\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U0001f3fb-\U0001f3ff\U000e0000-\U000e0fff"
)
CONTROL = "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"  # without white space
PRIVATE = "\ue000-\uf8ff\U000f0000-\U0010ffff"
ZEROS = (  # zero of each script; its other digits follow
    "\u0660\u06f0\u07c0\u0966\u09e6\u0a66\u0ae6\u0b66\u0be6\u0c66\u0ce6\u0d66\u0de6\u0e50\u0ed0\u0f20\u1040"
    "\u1090\u17e0\u1810\u1946\u19d0\u1a80\u1a90\u1b50\u1bb0\u1c40\u1c50\ua620\ua8d0\ua900\ua9d0\ua9f0\uaa50"
    "\uabf0\U000104a0\U00010d30\U00010d40\U00011066\U000110f0\U00011136\U000111d0\U000112f0\U00011450"
    "\U000114d0\U00011650\U000116c0\U000116d0\U000116da\U00011730\U000118e0\U00011950\U00011bf0\U00011c50"
    "\U00011d50\U00011da0\U00011de0\U00011f50\U00016130\U00016a60\U00016ac0\U00016b50\U00016d70"
    "\U0001ccf0\U0001e140\U0001e2f0\U0001e4f0\U0001e5f1\U0001e950"
)


def having(pattern: str) -> set[int]:
    found = regex.compile(f"[{pattern}]", regex.V1)
    return {point for point in POINTS if found.match(chr(point))}


def of_scripts(scripts: Iterable[str]) -> set[int]:
    """Letters and marks of some scripts, and those that several scripts share."""
    return having(r"[\p{L}\p{M}]&&[" + "".join(rf"\p{{scx={script}}}" for script in scripts) + "]")


LETTERS = having(r"\p{L}\p{M}\p{Nd}")
UNITS_ALONE, UNIT_RUNS = (having(rf"[\p{{L}}\p{{M}}\p{{N}}]{among}[{UNITS}]") for among in ("&&", "--"))
JOINED_LETTERS, UNSPACED_LETTERS = of_scripts(JOINING), of_scripts(WITHOUT_SPACES)
CASED, SKIPPED = having(r"\p{Cased}"), having(r"\p{Case_Ignorable}")
HIDDEN, DROPPED = having(IGNORED), having(CONTROL + PRIVATE)
DIGITS = {ord(zero) + value: ord("0") + value for zero in ZEROS for value in range(10)}
WHITE = {point for point in POINTS if chr(point).isspace()}


@cache
def lower_cases() -> dict[int, int]:
    """Lower case of the characters that have one: Python's, and by case folding that of newer characters."""
    small = "".join(map(chr, sorted(having(r"\p{Lowercase}"))))
    found = {}
    for point in sorted(having(r"\p{Lu}\p{Lt}\p{Other_Uppercase}")):
        lower = chr(point).lower()
        if lower == chr(point):
            same = regex.findall(regex.escape(lower), small, regex.IGNORECASE | regex.V1)
            lower = same[0] if len(same) == 1 else lower
        if len(lower) == 1 and lower != chr(point):
            found[point] = ord(lower)
    return found


def nfkc(text: str) -> str:
    return unicode.normalize("NFKC", text)


def lower(text: str) -> str:
    return "".join(
        "i\u0307" if each == "İ" else chr(lower_cases().get(ord(each), ord(each))) for each in text
    )


def decompositions() -> dict[int, str]:
    hangul = range(0xAC00, 0xD7A4)  # by arithmetic
    every = ((point, unicode.normalize("NFKD", chr(point))) for point in POINTS if point not in hangul)
    return {point: text for point, text in every if text != chr(point)}


def compositions() -> dict[tuple[int, int], int]:
    found = {}
    for point in POINTS:
        parts = unicode.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            one, other = (int(part, 16) for part in parts)
            if unicode.normalize("NFC", chr(one) + chr(other)) == chr(point):
                found[one, other] = point
    return found


JAMO = {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}
COMPOSING = {other for _, other in compositions()} | JAMO  # with the character before


def is_awkward(text: str) -> bool:
    return any(ord(each) in COMPOSING or unicode.combining(each) or ord(each) in HIDDEN for each in text)


def becomes(point: int, several: list[int]) -> int:
    """Normal form of a character that does not interact with its neighbours."""
    if point in DROPPED:
        return GONE
    if point in DIGITS or point in HIDDEN:
        return DIGITS.get(point, AWKWARD)
    composed = nfkc(chr(point))
    normal = nfkc(lower(composed))
    if normal.isspace():
        return SPACE
    if is_awkward(composed) or is_awkward(normal) or any(map(str.isspace, normal)):
        return AWKWARD if is_awkward(composed[0] + normal[0]) else FIRST
    if composed == "Σ":
        return SIGMA
    assert "Σ" not in composed
    if len(normal) == 1:
        return SAME if normal == chr(point) else ord(normal)
    several += [len(normal), *map(ord, normal)]
    return SEVERAL - (len(several) - len(normal) - 1)


def properties(point: int) -> int:
    composed = unicode.normalize("NFKC", chr(point))
    first = ord(nfkc(lower(composed))[0])
    bits = unicode.combining(chr(point))
    members = ((UNSEEN, HIDDEN), (WORD, LETTERS), (ALONE, UNITS_ALONE), (RUN, UNIT_RUNS))
    bits |= sum(bit for bit, those in members if point in those)
    bits |= JOINED * (first in JOINED_LETTERS) | UNSPACED * (first in UNSPACED_LETTERS)
    bits |= casing(reversed(composed), CASED_BEFORE, SKIPPED_BEFORE, point)
    return bits | casing(composed, CASED_BEHIND, SKIPPED_BEHIND, point)


def casing(text: Iterable[str], cased: int, skipped: int, point: int) -> int:
    """Whether a character decides about a final sigma, as the first of `text` that does."""
    counts = [each for each in map(ord, text) if each not in SKIPPED]
    if not counts or point in DROPPED:
        return skipped
    return cased * (counts[0] in CASED)


def two_stages(name: str, kind: str, values: Sequence[int]) -> Iterator[str]:
    blocks: dict[tuple[int, ...], int] = {}
    places = [
        blocks.setdefault(tuple(values[start : start + BLOCK]), len(blocks))
        for start in range(0, len(values), BLOCK)
    ]
    yield from array(f"{name}_BLOCKS", "u16", places)
    yield from array(name, kind, [value for block in blocks for value in block])


def array(name: str, kind: str, values: Sequence[object]) -> Iterator[str]:
    yield f"pub static {name}: [{kind}; {len(values)}] = ["
    line = ""
    for value in values:
        written = str(value).replace(" ", "") + ","
        if len(line) + len(written) > 110:
            yield line
            line = ""
        line += written
    yield from (line, "];")


def source() -> Iterator[str]:
    yield f"// Unicode {VERSION}, written by unicode.py."
    several: list[int] = []
    yield from two_stages("BECOMES", "i32", [becomes(point, several) for point in POINTS])
    yield from array("SEVERAL", "u32", several)
    yield from two_stages("PROPERTIES", "u32", [properties(point) for point in POINTS])
    parts = [0]
    places = [0] * len(POINTS)
    for point, text in decompositions().items():
        places[point] = len(parts)
        parts += [len(text), *map(ord, text)]
    yield from two_stages("DECOMPOSED_AT", "u16", places)
    yield from array("DECOMPOSED", "u32", parts)
    pairs = sorted((one << 32 | other, point) for (one, other), point in compositions().items())
    yield from array("COMPOSED", "(u64, u32)", pairs)
    yield from array("LOWER", "(u32, u32)", sorted(lower_cases().items()))


if __name__ == "__main__":
    if unicode.unidata_version != VERSION:
        sys.exit(f"the tables are those of Unicode {VERSION}, and unicodedata2 has {unicode.unidata_version}")
    if having(r"\p{Cn}") != {point for point in POINTS if unicode.category(chr(point)) == "Cn"}:
        sys.exit("regex has another version of Unicode than unicodedata2: install the one named above")
    Path(__file__).with_name("src").joinpath("unicode.rs").write_text("\n".join(source()) + "\n")
