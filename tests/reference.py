"""The definition of everything that a profile asks for, one character, one word and one bit at a time, with
jieba itself for the words; and the real texts.

Nothing here is imported from the code that computes fingerprints, but the values of options. `fingerprint` is
what `Profile.fingerprinter` has to answer.

Unicode: normal forms and lower case are those of Python, all properties those of the package regex. Both know
the characters that Python's own version of Unicode has; of others a table of a later version may say
something else, so a comparison leaves out texts that are not `is_settled`.
"""

import gzip
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import log2
from pathlib import Path

import jieba
import mmh3
import orjson
import pytest
import regex

from simhbase.fingerprint.minhash import SketchParameters
from simhbase.profile.profile import Profile
from simhbase.text.boilerplate import Boilerplate
from simhbase.text.features import FeatureOptions
from simhbase.text.idf import IdfTable
from simhbase.text.variants import CharacterTable

jieba.setLogLevel("ERROR")

DATA = Path(os.environ.get("SIMHBASE_DATA", Path(__file__).parents[2] / "shared" / "data"))
CORPORA = ("xwlb_chinadata", "xwlb_duckburn", "laws", "versioned_docs_en")

# Scripts in which joiners belong to words, and those without spaces, where U+200B ends a word.
JOINED = (
    *("Arabic", "Syriac", "Mandaic", "Mongolian", "Nko", "Phags_Pa", "Adlam", "Hanifi_Rohingya"),
    *("Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam"),
    *("Sinhala", "Khmer", "Myanmar", "Tibetan", "Balinese", "Javanese", "Brahmi", "Grantha"),
)
UNSPACED = ("Thai", "Lao", "Khmer", "Myanmar")
WINDOW = 8  # units of a phrase of boilerplate
GOLDEN = 0x9E3779B97F4A7C15


# Characters


def is_settled(text: str) -> bool:
    """True if Python and the package regex know the same characters of a text, and so all later versions of
    Unicode agree about them."""
    return all(map(_is_settled, text))


@cache
def _is_settled(character: str) -> bool:
    return (unicodedata.category(character) == "Cn") == bool(regex.match(r"\p{Cn}", character))


@cache
def has(properties: str, character: str) -> bool:
    """True if a character is in a set of the package regex."""
    return bool(regex.fullmatch(f"[{properties}]", character, regex.V1))


def is_han(character: str) -> bool:
    return "\u4e00" <= character <= "\u9fff" or "\u3400" <= character <= "\u4dbf"


def is_written_as_han(character: str) -> bool:
    return is_han(character) or character in "々〇" or "\U00020000" <= character <= "\U0003ffff"


def is_kana(character: str) -> bool:
    return has(r"\p{L}&&[\p{Hiragana}\p{Katakana}ー]", character) or "\U0001aff0" <= character <= "\U0001b16f"


def is_word(character: str) -> bool:
    return has(r"\p{L}\p{M}\p{Nd}\u200c\u200d", character)


def is_unseen(character: str) -> bool:
    """Zero-width characters, soft hyphens, direction marks, variation selectors and the like; skin tones, the
    key box, and marks of annotations."""
    return has(r"\p{Default_Ignorable_Code_Point}\p{Emoji_Modifier}\u20e3\ufff9-\ufffb", character)


@cache
def is_letter_of(character: str, scripts: tuple[str, ...]) -> bool:
    return has(r"\p{L}\p{M}", character) and any(has(rf"\p{{scx={script}}}", character) for script in scripts)


# Normal form


def normalise(text: str, variants: CharacterTable | None = None) -> str:
    """The folded text with a space for white space, and none at the ends, between Han and beside kana."""
    spaced = " ".join(fold(text, variants).split())
    return "".join(
        character
        for place, character in enumerate(spaced)
        if character != " " or not says_nothing(spaced[place - 1], spaced[place + 1])
    )


def fold(text: str, variants: CharacterTable | None = None) -> str:
    """NFKC and lower case, without what is not seen, with variants replaced; white space stays."""
    text = nfkc("".join(map(plain, text)))
    text = nfkc(what_is_seen(nfkc(lower(text))))
    if variants is not None:
        table = replacements(variants)
        text = nfkc("".join(table.get(character, character) for character in text))
    return text


def nfkc(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def lower(text: str) -> str:
    """Lower case. Which letters are cased beside a sigma is asked of the package regex: versions of Unicode,
    and so of Python, differ about U+0295."""
    return "".join(
        ("ς" if is_at_the_end(text, place) else "σ") if character == "Σ" else character.lower()
        for place, character in enumerate(text)
    )


def is_at_the_end(text: str, place: int) -> bool:
    """True for a sigma at the end of a word (The Unicode Standard, table 3-17, Final_Sigma)."""
    before, behind = (
        next((each for each in some if not has(r"\p{Case_Ignorable}", each)), " ")
        for some in (text[:place][::-1], text[place + 1 :])
    )
    return has(r"\p{Cased}", before) and not has(r"\p{Cased}", behind)


@cache
def plain(character: str) -> str:
    """Digits as those of ASCII; nothing for control characters, private use and noncharacters beside it."""
    if has(r"\p{Nd}", character) and nfkc(character) == character:
        first = ord(character)
        while has(r"\p{Nd}", chr(first - 1)):  # some scripts have theirs one behind the other
            first -= 1
        return str((ord(character) - first) % 10)
    hidden = unicodedata.category(character) in ("Cc", "Co") or character >= "\U000f0000"
    return "" if hidden and not character.isspace() else character


def what_is_seen(text: str) -> str:
    """Without unseen characters, but the joiners and borders of words that orthography needs."""
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


def says_nothing(before: str, behind: str) -> bool:
    """Of a space between two characters."""
    if is_kana(before) or is_kana(behind):
        return is_kana(behind) or behind not in "\u3099\u309a"
    return is_written_as_han(before) and is_written_as_han(behind)


@cache
def replacements(variants: CharacterTable) -> Mapping[str, str]:
    """Of a table's lines: a character, a tab, and what replaces it, or nothing. A replacement that has one of
    its own becomes that."""
    table: dict[str, str] = {}
    for line in variants.content.decode().splitlines():
        character, tab, others = line.partition("\t")
        if tab:
            table[character] = others[:1]
    return {character: table.get(other, other) for character, other in table.items()}


# Words and n-grams


def tokens(text: str, variants: CharacterTable | None = None) -> list[str]:
    """Runs of Han through jieba itself, of scripts without spaces as pairs of characters, and other runs of
    letters, marks and digits whole. A joiner belongs to the run that it is in."""
    found: list[str] = []
    run, kind = "", None
    for character in normalise(text, variants) + " ":
        this = kind if kind and character in "\u200c\u200d" else kind_of(character)
        if this != kind and run:
            found += words_of_run(run, kind)
            run = ""
        kind = this
        run += character if this else ""
    return found


def kind_of(character: str) -> str | None:
    if is_han(character):
        return "han"
    if not is_word(character):
        return None
    return "unspaced" if has("".join(rf"\p{{{script}}}" for script in UNSPACED), character) else "word"


def words_of_run(run: str, kind: str | None) -> list[str]:
    if kind == "han":
        return list(jieba.cut(run, HMM=True))
    if kind == "unspaced" and len(run) > 1:
        return [run[place : place + 2] for place in range(len(run) - 1)]
    return [run]


def words(text: str, options: FeatureOptions) -> list[str]:
    """The tokens that count."""
    return [
        token
        for token in tokens(text, options.variants)
        if len(token) >= options.min_length and token not in options.stop_words
    ]


def digest(token: str, bits: int = 64) -> int:
    return int.from_bytes(mmh3.mmh3_x64_128_digest(token.encode())[: bits // 8], "big")


def ngrams(values: list[int], size: int, width: int, seed: int) -> list[int]:
    """A hash of 64 bits of each run of `size` values of `width` bits. As many as fit are put into a word of
    64 bits, the first highest, and a word after the other is mixed in."""
    in_word = 64 // width
    found = []
    for start in range(len(values) - size + 1):
        run = values[start : start + size]
        state = GOLDEN * (2 * size + 16 * seed + 1) % 2**64
        for first in range(0, size, in_word):
            word = 0
            for value in run[first : first + in_word]:
                word = word << width | value
            state = fmix64(state ^ word)
        found.append(state)
    return found


def character_ngrams(bare: str, size: int, bits: int) -> list[int]:
    """Digests of the runs of `size` characters of a text without white space."""
    return side_by_side([ngrams([*map(ord, bare)], size, 21, seed) for seed in range(bits // 64)])


def word_ngrams(some: list[str], size: int, bits: int) -> list[int]:
    """Digests of the runs of `size` words. The second 64 bits are made of those of the words' digests."""
    digests = [digest(word, bits) for word in some]
    columns = [[each >> shift & (2**64 - 1) for each in digests] for shift in range(bits - 64, -1, -64)]
    return side_by_side([ngrams(column, size, 64, seed) for seed, column in enumerate(columns)])


def side_by_side(columns: list[list[int]]) -> list[int]:
    if len(columns) == 1:
        return columns[0]
    return [first << 64 | second for first, second in zip(*columns, strict=True)]


def up_to_triples(bare: str, bits: int) -> list[int]:
    """All pairs and triples of characters, and single characters by their digests: all in texts of up to 16
    characters, none from 64 on, and in between a share that falls with the logarithm of the length."""
    share = round(256 * min(1.0, log2(64 / max(1, min(len(bare), 64))) / 2))
    singles = [
        each
        for each in character_ngrams(bare, 1, bits)
        if (each >> (bits - 64)) * GOLDEN % 2**64 >> 56 < share
    ]
    return singles + character_ngrams(bare, 2, bits) + character_ngrams(bare, 3, bits)


def growing_shingles(bare: str) -> list[tuple[int, int]]:
    """Start and length of the growing shingles of a text without white space."""
    found: list[tuple[int, int]] = []
    taken: set[str] = set()
    occurred: set[str] = set()
    for start in range(len(bare) - 2):
        longest = bare[start : start + 34]
        if len(longest) == 34:
            if longest in occurred:
                continue
            occurred.add(longest)
        for length in (3, 5, 8, 13, 21, 34):
            shingle = bare[start : start + length]
            if len(shingle) == length and shingle not in taken:
                taken.add(shingle)
                found.append((start, length))
                break
    return found


def growing(bare: str, bits: int) -> list[int]:
    """Digests of the growing shingles: that of the triple, into which three characters at a time are mixed on
    the way to the length, at most those that belong to one step."""
    first = [growing_digest(bare[start : start + length]) for start, length in growing_shingles(bare)]
    return side_by_side([first, [fmix64(GOLDEN ^ each) for each in first]][: bits // 64])


def growing_digest(shingle: str) -> int:
    state = GOLDEN * 7 % 2**64
    steps = [(0, 3), (3, 5), (5, 8), (8, 13), (13, 21), (21, 34)]
    for begin, end in steps[: [to for _, to in steps].index(len(shingle)) + 1]:
        for first in range(begin, end, 3):
            word = 0
            for character in shingle[first : min(first + 3, end)]:
                word = word << 21 | ord(character)
            state = fmix64(state ^ word)
    return state


def fmix64(word: int) -> int:
    """The finaliser of MurmurHash3."""
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD % 2**64
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 % 2**64
    return word ^ word >> 33


def fmix32(word: int) -> int:
    word = (word ^ word >> 16) * 0x85EBCA6B % 2**32
    word = (word ^ word >> 13) * 0xC2B2AE35 % 2**32
    return word ^ word >> 16


# Weights


def weighted_words(text: str, options: FeatureOptions) -> list[tuple[str, int]]:
    """Words and their weights, as integers in any unit: the `top` heaviest, of equal ones the first by their
    code points."""
    counts = Counter(words(text, options))
    weights = {word: weight(word, counts, options) for word in counts}
    heaviest = sorted((word for word in counts if weights[word]), key=lambda word: (-weights[word], word))
    heaviest = heaviest[: options.top]
    if options.weights == "levels" and heaviest:
        most = weights[heaviest[0]]
        return [(word, -(-5 * weights[word] // most)) for word in heaviest]
    return [(word, weights[word]) for word in heaviest]


def weight(word: str, counts: Counter[str], options: FeatureOptions) -> int:
    count = counts[word]
    match options.weights:
        case "count":
            return count
        case "capped":
            return min(count, 1 + len(counts) // 4)
        case "saturated":
            return saturated(count, sum(counts.values()))
    assert options.idf is not None
    table, median = idf_weights(options.idf, options.variants)
    return count * table.get(word, median)


def saturated(count: int, of_words: int) -> int:
    """Halves of c K / (c + K), rounded, with K = 6 (1024 / words)^4, but at least 6. Counts end at 32,768."""
    count = min(count, 1 << 15)
    bound, scale = 6 * 1024**4, min(of_words, 1024) ** 4  # K = bound / scale
    numerator, denominator = 2 * count * bound, count * scale + bound
    return (2 * numerator + denominator) // (2 * denominator)


@cache
def idf_weights(idf: IdfTable, variants: CharacterTable | None) -> tuple[Mapping[str, int], int]:
    """IDF times 65,536 by word (of words that fold to one, the least), and their upper median for others."""
    table: dict[str, int] = {}
    for line in idf.content.decode().splitlines():
        if line.strip():
            word, _, value = line.strip().rpartition(" ")
            table[word] = round(float(value) * 65536)
    median = sorted(table.values())[len(table) // 2]
    replaced = {} if variants is None else replacements(variants)
    folded: dict[str, int] = {}
    for word, each in table.items():
        one = "".join(replaced.get(character, character) for character in word)
        folded[one] = min(each, folded.get(one, each))
    return folded, median


# Features, fingerprints and sketches


def features(text: str, options: FeatureOptions, bits: int = 64) -> list[tuple[int, int]]:
    """Digests and weights. N-grams may repeat, each with a weight of 1."""
    if options.boilerplate is not None:
        text = without_boilerplate(text, options.boilerplate, options.variants)
    kind, _, size = options.kind.partition(":")
    if options.kind == "words":
        return [(digest(word, bits), each) for word, each in weighted_words(text, options)]
    if kind == "words":
        return [(each, 1) for each in word_ngrams(words(text, options), int(size), bits)]
    bare = normalise(text, options.variants).replace(" ", "")
    if size == "1-3":
        return [(each, 1) for each in up_to_triples(bare, bits)]
    if size == "growing":
        return [(each, 1) for each in growing(bare, bits)]
    return [(each, 1) for each in character_ngrams(bare, int(size), bits)]


def simhash(weighted: Iterable[tuple[str, float]], bits: int = 64) -> int:
    """SimHash of tokens."""
    return simhash_of([(digest(token, bits), each) for token, each in weighted], bits)


def simhash_of(weighted: list[tuple[int, float]], bits: int = 64) -> int:
    """Adds or takes a digest's weight for each of its bits; 1 where the sum is positive."""
    value = 0
    for bit in range(bits):
        total = sum(each if feature >> bit & 1 else -each for feature, each in weighted)
        value |= (total > 0) << bit
    return value


def signature(digests: Iterable[int], slots: int, seed: int = 0) -> list[int]:
    """MinHash of digests of 64 bits, of which the upper half counts; zeros without any."""
    shingles = {each >> 32 for each in digests}
    found = []
    for slot in range(1, slots + 1):
        factor, term = divmod(fmix64(GOLDEN * ((seed << 32) + slot) % 2**64), 2**32)
        least = min(((factor | 1) * each + term) % 2**32 for each in shingles) if shingles else 0
        found.append(fmix32(least))
    return found


def sketch(text: str, options: FeatureOptions, sketching: SketchParameters, seed: int = 0) -> bytes:
    """The low bits of each slot, the first highest; then the number of distinct features, at most 128, and a
    hash of the text's numbers, if asked for. Zeros for a text without features."""
    digests = {each for each, _ in features(text, options)}
    if not digests:
        return bytes(sketching.bytes)
    packed = 0
    for slot in signature(digests, sketching.slots, seed):
        packed = packed << sketching.bits | slot % 2**sketching.bits
    found = packed.to_bytes(sketching.slots * sketching.bits // 8, "big")
    if sketching.sized:
        found += bytes([min(len(digests), 128)])
    if sketching.numbered:
        found += hash_of_numbers(text, options).to_bytes(4, "big")
    return found


def hash_of_numbers(text: str, options: FeatureOptions) -> int:
    if options.boilerplate is not None:
        text = without_boilerplate(text, options.boilerplate, options.variants)
    numbers = set(re.findall("[0-9]+", normalise(text, options.variants)))
    return mmh3.hash(" ".join(sorted(numbers)), signed=False)


def hash_of_sketch(found: bytes) -> int:
    """Of its words of 64 bits, the last filled up with zeros."""
    state = GOLDEN
    for start in range(0, len(found), 8):
        state = fmix64(state ^ int.from_bytes(found[start : start + 8].ljust(8, b"\0"), "big"))
    return state


# Boilerplate


def units(folded: str) -> list[tuple[int, int]]:
    """Where the units of a folded text begin and end: characters of scripts without spaces, and runs of other
    letters, marks and numbers."""
    found: list[tuple[int, int]] = []
    is_open = False
    for place, character in enumerate(folded):
        is_run = is_unit(character) and not stands_alone(character)
        if is_run and is_open:
            found[-1] = (found[-1][0], place + 1)
        elif is_unit(character):
            found.append((place, place + 1))
        is_open = is_run
    return found


def is_unit(character: str) -> bool:
    return has(r"\p{L}\p{M}\p{N}", character)


def stands_alone(character: str) -> bool:
    return has(r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}", character)


def windows(some: list[str]) -> list[tuple[str, ...]]:
    return [tuple(some[start : start + WINDOW]) for start in range(len(some) - WINDOW + 1)]


@cache
def known(boilerplate: Boilerplate, variants: CharacterTable | None) -> tuple[set[object], set[object]]:
    """Windows of the phrases, and units of the lines."""
    phrases, lines = set[object](), set[object]()
    for row in boilerplate.content.decode().split("\n"):
        if row.strip() and not row.startswith("#"):
            kind, _, entry = row.rstrip("\r").split("\t", 2)
            folded = fold(entry, variants)
            some = [folded[start:end] for start, end in units(folded)]
            if kind == "phrase":
                phrases.update(windows(some))
            else:
                lines.add(tuple(some))
    return phrases, lines


def without_boilerplate(text: str, boilerplate: Boilerplate, variants: CharacterTable | None = None) -> str:
    """The folded text, with a space for each run of boilerplate: lines with the units of a known line, and
    windows of a known phrase, with all characters up to the next unit. The text itself if it has none."""
    phrases, lines = known(boilerplate, variants)
    folded = fold(text, variants)
    places = units(folded)
    gone = [False] * len(folded)
    for first, window in enumerate(windows([folded[start:end] for start, end in places])):
        if window in phrases:
            begin, behind = places[first][0], [*places, (len(folded), 0)][first + WINDOW][0]
            gone[begin:behind] = [True] * (behind - begin)
    begin = 0
    for line in folded.split("\n"):
        if tuple(line[start:end] for start, end in units(line)) in lines:
            gone[begin : begin + len(line)] = [True] * len(line)
        begin += len(line) + 1
    if not any(gone):
        return text
    left = ""
    for place, character in enumerate(folded):
        if not gone[place]:
            left += character
        elif place == 0 or not gone[place - 1]:
            left += " "
    return left


# Answers


@dataclass(frozen=True)
class Answer:
    """Of a text: fingerprint and sketch, or the reason why it has none (then these are zeros)."""

    value: int
    sketch: bytes
    reason: str | None = None


def fingerprint(text: str, profile: Profile, seed: int = 0) -> Answer:
    """The answer to a text. seed: of the sketch; that of profiles is 0."""
    sketching, bits = profile.sketching, profile.bits
    found = features(text, profile.feature_options, bits)
    sketched = b"" if sketching is None else sketch(text, profile.shingles, sketching, seed)
    if reason := rejected(text, profile, len({each for each, _ in found}), sketched):
        return Answer(0, bytes(len(sketched)), reason)
    value = hash_of_sketch(sketched) if profile.scheme == "minhash" else simhash_of(found, bits)
    return Answer(value, sketched)


def rejected(text: str, profile: Profile, count: int, sketched: bytes) -> str | None:
    """Why a text with so many distinct features has no fingerprint."""
    if count >= profile.min_features and (any(sketched) or profile.sketching is None):
        return None
    if not text.strip():
        return "the text is empty"
    boilerplate = profile.boilerplate
    is_stripped = boilerplate is not None and (
        without_boilerplate(text, boilerplate, profile.variants) != text
    )
    without = " without its boilerplate" if is_stripped else ""
    if count >= profile.min_features:
        return f"the text is too short for a sketch{without}"
    if is_stripped and not count:
        return "the text is only boilerplate"
    short = FeatureOptions("chars:1-3", boilerplate=boilerplate, variants=profile.variants)
    is_taken = len({each for each, _ in features(text, short)}) >= profile.min_features
    taker = "; the profile short takes it" if is_taken else ""
    return (
        f"the text has {count} distinct feature{'s' * (count != 1)} ({profile.features}){without}, at least "
        f"{profile.min_features} are needed{taker}"
    )


def shingles(text: str, size: int | str = "growing") -> set[str]:
    bare = normalise(text).replace(" ", "")
    if size == "growing":
        return {bare[start : start + length] for start, length in growing_shingles(bare)}
    return {bare[start : start + size] for start in range(len(bare) - size + 1)}


def similarity(one: str, other: str, size: int | str = "growing") -> float:
    """The Jaccard similarity of two texts by their runs of `size` characters or their growing shingles, 0 if
    neither has any."""
    a, b = shingles(one, size), shingles(other, size)
    return len(a & b) / max(1, len(a | b))


def containment(one: str, other: str, options: FeatureOptions) -> float:
    """The share of the characters of one text that lie in runs which the other has, too: of 13 characters, or
    of 6 that are all Han. 1 for a text that the other has as a whole."""
    if options.boilerplate is not None:
        known = options.boilerplate, options.variants
        one, other = without_boilerplate(one, *known), without_boilerplate(other, *known)
    bare, within = (normalise(text, options.variants).replace(" ", "") for text in (one, other))
    if bare in within:
        return 1.0
    counted = set[int]()
    for start in range(len(bare)):
        for length in (6, 13):
            run = bare[start : start + length]
            if len(run) == length and run in within and (length == 13 or all(map(is_written_as_han, run))):
                counted.update(range(start, start + length))
    return len(counted) / len(bare)


# Real texts


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
