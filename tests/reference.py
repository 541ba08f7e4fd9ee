"""Plain re-statements of the definitions, one token and one bit at a time, and the real texts."""

import gzip
import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import jieba
import mmh3
import orjson
import pytest
import regex

jieba.setLogLevel("ERROR")

JOINED = (  # scripts in which joiners count between letters
    *("Arabic", "Syriac", "Mandaic", "Mongolian", "Nko", "Phags_Pa", "Adlam", "Hanifi_Rohingya"),
    *("Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam"),
    *("Sinhala", "Khmer", "Myanmar", "Tibetan", "Balinese", "Javanese", "Brahmi", "Grantha"),
)
UNSPACED = ("Thai", "Lao", "Khmer", "Myanmar")  # scripts in which a zero-width space ends a word

DATA = Path(os.environ.get("SIMHBASE_DATA", Path(__file__).parents[2] / "shared" / "data"))
CORPORA = ("xwlb_chinadata", "xwlb_duckburn", "laws", "versioned_docs_en")


def is_han(character: str) -> bool:
    return "\u4e00" <= character <= "\u9fff" or "\u3400" <= character <= "\u4dbf"


def is_word(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "LM" or category == "Nd" or character in "\u200c\u200d"


def normalise(text: str) -> str:
    text = "".join(plain(character) for character in text)
    lowered = unicodedata.normalize("NFKC", text).lower()
    seen = unicodedata.normalize("NFKC", what_is_seen(unicodedata.normalize("NFKC", lowered)))
    spaced = " ".join(seen.split())
    return "".join(
        character
        for place, character in enumerate(spaced)
        if character != " " or not says_nothing(spaced[place - 1], spaced[place + 1])
    )


def plain(character: str) -> str:
    """Digits as those of ASCII; nothing for control characters, private use and noncharacters beside it."""
    if regex.match(r"\p{Nd}", character) and unicodedata.normalize("NFKC", character) == character:
        first = ord(character)
        while regex.match(r"\p{Nd}", chr(first - 1)):  # some scripts have theirs one behind the other
            first -= 1
        return str((ord(character) - first) % 10)
    hidden = unicodedata.category(character) in ("Cc", "Co") or character >= "\U000f0000"
    return "" if hidden and not character.isspace() else character


def says_nothing(before: str, behind: str) -> bool:
    """Of a space between two characters."""
    if is_kana(before) or is_kana(behind):
        return is_kana(behind) or behind not in "\u3099\u309a"
    return is_written_as_han(before) and is_written_as_han(behind)


def is_kana(character: str) -> bool:
    return bool(
        regex.match(r"[\p{L}&&[\p{Hiragana}\p{Katakana}ー]]|[\U0001aff0-\U0001b16f]", character, regex.V1)
    )


def what_is_seen(text: str) -> str:
    """One character at a time, with the properties that the regex package knows."""
    kept = ""
    hidden = ""
    for character in text + "\n":
        if is_unseen(character):
            hidden += character
            continue
        before, hidden, run = kept[-1:], "", hidden
        joiners = [each for each in run if each in "\u200c\u200d"]
        if joiners and is_letter_of(before, JOINED) and is_letter_of(character, JOINED):
            kept += joiners[0]
        elif "\u200b" in run and is_letter_of(before, UNSPACED) and is_letter_of(character, UNSPACED):
            kept += " "
        kept += character
    return kept[:-1]


def is_unseen(character: str) -> bool:
    return bool(
        regex.match(r"\p{Default_Ignorable_Code_Point}|\p{Emoji_Modifier}|[\u20e3\ufff9-\ufffb]", character)
    )


def is_letter_of(character: str, scripts: tuple[str, ...]) -> bool:
    return any(regex.match(rf"(?=[\p{{L}}\p{{M}}])\p{{scx={script}}}", character) for script in scripts)


def is_written_as_han(character: str) -> bool:
    return is_han(character) or character in "々〇" or "\U00020000" <= character <= "\U0003ffff"


def tokens(text: str) -> list[str]:
    """Runs of Han through jieba itself, other runs of letters, marks and digits whole."""
    found: list[str] = []
    run, kind = "", None
    for character in normalise(text) + " ":
        this = "han" if is_han(character) else "word" if is_word(character) else None
        if this != kind and run:
            found += jieba.cut(run, HMM=True) if kind == "han" else [run]
            run = ""
        kind = this
        run += character if this else ""
    return found


def simhash(weighted: list[tuple[str, int]], bits: int = 64) -> int:
    """Adds or takes a token's weight for each bit of its digest; 1 where the sum is positive."""
    sums = [0] * bits
    for token, weight in weighted:
        digest = int.from_bytes(mmh3.mmh3_x64_128_digest(token.encode())[: bits // 8], "big")
        for bit in range(bits):
            sums[bit] += weight if digest >> bit & 1 else -weight
    return sum(1 << bit for bit in range(bits) if sums[bit] > 0)


def shingles(text: str) -> set[str]:
    bare = normalise(text).replace(" ", "")
    return {bare[start : start + 3] for start in range(len(bare) - 2)}


def similarity(one: str, other: str) -> float:
    """The Jaccard similarity of two texts of three characters and more."""
    a, b = shingles(one), shingles(other)
    return len(a & b) / len(a | b)


def documents(corpus: str, every: int = 1) -> Iterator[tuple[str, str]]:
    """(id, text) of every so-manieth document of a corpus; skips the test where it is not here."""
    path = DATA / f"{corpus}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"the corpus {path.name} is not in {DATA}")
    with gzip.open(path) as lines:
        for number, line in enumerate(lines):
            if number % every == 0:
                record = orjson.loads(line)
                yield record["id"], record["text"]
