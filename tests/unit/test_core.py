"""The compiled core at its edges: its tables, its errors, and the time that it takes."""

from random import Random
from threading import Event, Thread
from time import perf_counter, process_time

import numpy as np
import pytest

from simhbase._core import DICTIONARY, Dictionary, Form, Pipeline, build_dictionary, unicode_sum
from simhbase.errors import CoreFailed
from simhbase.profile.profile import Profile, make_profile
from simhbase.text.features import SHINGLES, FeatureOptions, tokens
from simhbase.text.normalise import normalise

UNICODE_18 = 17437359757176573072
MODEL = ([0.0] * 4, [[0.0] * 4] * 4, [{}, {}, {}, {}])


def test_the_tables_are_those_of_one_unicode_version():
    """A sum over the normal form and the properties of every code point. Another sum is another normal form,
    with another name in profiles."""
    assert unicode_sum() == UNICODE_18


def with_its_sum(block: np.ndarray) -> bytes:
    """A dictionary's block with the sum that the core checks."""
    lanes = np.arange(1, 9, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for start in range(2, len(block), 8):
            words = block[start : start + 8]
            turned = lanes[: len(words)] << np.uint64(29) | lanes[: len(words)] >> np.uint64(35)
            lanes[: len(words)] = (turned ^ words) * np.uint64(0x9E3779B97F4A7C15)
    state = len(block) - 2
    for lane in lanes.tolist():
        state ^= lane
        for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53), (33, 1)):
            state = (state ^ state >> shift) * factor & (2**64 - 1)
    block[1] = state
    return block.tobytes()


def test_a_fault_of_the_core_is_an_error_that_asks_for_a_report():
    """A dictionary of which a node leads out of the table makes the core panic."""
    block = np.frombuffer(build_dictionary("北京 3\n", *MODEL), np.uint64).copy()
    assert with_its_sum(block.copy()) == block.tobytes()
    first = 2 + 5
    block[first + 1 : first + 3] |= np.uint64(((1 << 24) - 1) << 16)  # the base of all children
    broken = Pipeline(
        *(Form(None), Dictionary(with_its_sum(block)), "words", "count", 0, 1, [], {}, 0, 64, 1, None, None)
    )
    with pytest.raises(CoreFailed, match="report"):
        broken.fingerprint(["北京"])
    assert broken.fingerprint(["hello"])[2] == np.array([1], np.uint32).tobytes(), "and it still works"


@pytest.mark.parametrize("cut", [0, 8, 63, 1000, -8, -1])
def test_a_damaged_dictionary_is_refused(cut):
    block = build_dictionary("北京 3\n", *MODEL)
    with pytest.raises(ValueError, match="damaged"):
        Dictionary(block[:cut])
    flipped = bytearray(block)
    flipped[cut % len(block)] ^= 1
    with pytest.raises(ValueError, match="damaged"):
        Dictionary(bytes(flipped))
    assert DICTIONARY == 1


def test_a_dictionary_with_a_malformed_line_names_it():
    with pytest.raises(ValueError, match="line 2: expected a word and a count"):
        build_dictionary("北京 3\n北京大学\n", *MODEL)


def test_surrogates_stay_in_characters_and_are_in_no_word():
    assert normalise("\ud800Ａ\udc00 \ud83d\ude00") == "\ud800a\udc00 \ud83d\ude00"
    assert tokens("ab\ud800cd") == ["ab", "cd"]
    profile = Profile(scheme="minhash")
    assert profile.fingerprinter().fingerprint("ab\ud800cd") != profile.fingerprinter().fingerprint("abxcd")


HOSTILE = {
    "marks out of order": "\u0301\u0316\u0327\u0345",
    "one letter": "a",
    "one Han character": "中",
    "Han without a stop": "北京大学研究生命起源",
    "no spaces": "abcdefgh",
    "only spaces": " ",
    "wide spaces": "\u3000\u2003\xa0",
    "spaces between Han": "中 ",
    "sigmas with marks": "Σ\u0301'",
    "sigmas": "Σ",
    "sigmas and what is skipped": "ΑΣ" + "'" * 50,
    "surrogates": "\ud800\udc00",
    "alternating scripts": "a中кかกا",
    "what is not seen": "\u200b\u200d\xad",
    "joiners": "م\u200c",
    "fractions": "½ﷺ",
    "numbers": "12 345 ",
    "line breaks": "\n",
    "lines": "line\n",
    "Hangul in parts": "\u1100\u1161\u11a8",
    "control characters": "\x00\ue000",
    "different words": "",
    "two letters": "",
}


def made(name: str, size: int) -> str:
    if name == "different words":
        return " ".join(f"w{number:x}" for number in range(size // 6))
    if name == "two letters":
        return "".join(Random(7).choices("ab", k=size))
    return HOSTILE[name] * (size // len(HOSTILE[name]))


def seconds(text: str, profile: Profile) -> float:
    """Processor time a character, the least of three."""
    fingerprinter = profile.fingerprinter()
    spent = []
    for _ in range(3):
        start = process_time()
        fingerprinter.fingerprint_many([text])
        spent.append(process_time() - start)
    return min(spent) / len(text)


PROFILES = {
    "default": Profile(same_numbers=True),
    "classic": make_profile({}, "classic"),
    "short": make_profile({"fold": "arabic"}, "short"),
    "growing": Profile(scheme="minhash", features="chars:growing", threshold=0.65),
}


@pytest.mark.parametrize("profile", [PROFILES["default"], PROFILES["growing"]], ids=["default", "growing"])
@pytest.mark.parametrize("name", HOSTILE)
def test_time_is_linear_in_the_length_of_any_text(name, profile):
    """A character of a text costs the same whatever the length: a square would cost 16 times as much."""
    small, large = 1 << 13, 1 << 17
    assert seconds(made(name, large), profile) < 3 * seconds(made(name, small), profile)


@pytest.mark.parametrize("name", HOSTILE)
def test_containment_takes_time_linear_in_the_length_of_any_text(name):
    """As above, in a text that has all but the last character."""
    pair = np.array([0]), np.array([1])

    def spent(size: int) -> float:
        text = made(name, size)
        pipeline, times = FeatureOptions(SHINGLES).pipeline(), []
        for _ in range(10):  # beside others that fill the processor's cache
            start = process_time()
            pipeline.containment([text + "x", text], *pair)
            times.append(process_time() - start)
        return min(times) / size

    assert spent(1 << 17) < 3 * spent(1 << 13)


@pytest.mark.full
@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
@pytest.mark.parametrize("name", HOSTILE)
def test_time_is_linear_up_to_16_million_characters(name, profile):
    """As above, with weights by IDF, n-grams of characters and folded spellings, too."""
    small, large = 1 << 14, 1 << 24
    assert seconds(made(name, large), profile) < 3 * seconds(made(name, small), profile)


def test_the_interpreter_is_free_while_a_long_text_is_read():
    """A thread that ticks is never held for long."""
    text = "北京大学的研究，" * 1_000_000
    fingerprinter = Profile().fingerprinter()
    done, longest = Event(), [0.0]

    def tick() -> None:
        last = perf_counter()
        while not done.wait(0.001):
            longest[0], last = max(longest[0], perf_counter() - last), perf_counter()

    ticking = Thread(target=tick)
    ticking.start()
    start = perf_counter()
    fingerprinter.fingerprint_many([text])
    spent = perf_counter() - start
    done.set()
    ticking.join()
    assert longest[0] < spent / 4
