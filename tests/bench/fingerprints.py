"""Fingerprints a second, from raw text, against the two usual ways to get them in Python."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np
import simhash
from datasketch import MinHash
from rensa import RMinHash

import simhbase
from simhbase.fingerprint.minhash import SLOTS
from simhbase.fingerprint.pipeline import Fingerprinter
from simhbase.process.parallel import map_in_threads
from simhbase.profile.profile import Profile, make_profile
from simhbase.text.normalise import normalise
from tests import reference
from tests.bench.report import Cell, Table, interleaved, peak_memory_mb

TEXTS = 3_000
PEER_TEXTS = 300
POOL_TEXTS = 72_000
PAGES, PAGE = 1_000, (4_000, 6_000)  # pages of documentation, and their characters
POOL_BATCH = 500
RUNS = 5


def jieba_loop(texts: list[str]) -> list[int]:
    """As blogs have it: jieba's keywords with their weights, then a loop over bits."""
    import jieba.analyse

    return [reference.simhash(jieba.analyse.extract_tags(text, topK=64, withWeight=True)) for text in texts]


def simhash_package(texts: list[str]) -> list[int]:
    """The `simhash` package over jieba's words with their counts."""
    return [
        simhash.Simhash([token for token in reference.tokens(text) if len(token) > 1]).value for text in texts
    ]


def measure(scale: float = 1.0) -> list[Table]:
    """One thread against its peers, then two threads against one."""
    every = round(74_545 / (TEXTS * scale))
    texts = [text for _, text in reference.documents("xwlb_chinadata", every)]
    wanted = round(POOL_TEXTS * scale)
    pages = [text for _, text in reference.documents("versioned_docs_en") if PAGE[0] <= len(text) <= PAGE[1]]
    kinds = {"news, Chinese": texts, "documentation, English": pages[: round(PAGES * scale)]}
    return [
        against_peers(texts),
        against_minhash(texts),
        growing(kinds),
        alone(texts),
        threads(texts, wanted),
    ]


def alone(texts: list[str]) -> Table:
    """Each text by itself."""
    some = texts[:: max(1, len(texts) // PEER_TEXTS)]
    fingerprinter = Profile().fingerprinter()
    with (
        TemporaryDirectory(prefix="simhbase-bench-") as folder,
        simhbase.open(f"rocksdb:{folder}/store", create=Profile()) as index,
    ):
        index.add([simhbase.Document(str(number), text) for number, text in enumerate(texts)])
        asked = {
            "fingerprint": lambda: [fingerprinter.fingerprint_many([text]) for text in some],
            "find, in RocksDB": lambda: [index.find(text) for text in some],
        }
        rows: list[list[Cell]] = []
        for name, ask in asked.items():
            (seconds,) = interleaved(RUNS, ask)
            rows.append([name, 1e6 * seconds / len(some)])
    return Table(
        "One text by itself",
        ["what", "microseconds"],
        rows,
        [f"{len(some)} of {len(texts):,} stored texts; medians of {RUNS} interleaved runs of one process."],
    )


def against_peers(texts: list[str]) -> Table:
    profiles = {
        "simhbase, default": Profile(),
        "simhbase, saturated counts (verify = false)": Profile(verify=False),
        "simhbase, TF-IDF, top 64 (classic)": make_profile({}, "classic"),
        "simhbase, words:2": Profile(verify=False, features="words:2"),
        "simhbase, chars:3": Profile(verify=False, features="chars:3"),
    }
    fingerprinters = [profile.fingerprinter() for profile in profiles.values()]
    for fingerprinter in fingerprinters:
        fingerprinter.fingerprint_many(texts)  # dictionaries loaded, digests cached: as in a long run
    few = texts[:: len(texts) // PEER_TEXTS]
    seconds = interleaved(
        RUNS,
        lambda: jieba_loop(few),
        lambda: simhash_package(few),
        *(lambda one=fingerprinter: one.fingerprint_many(texts) for fingerprinter in fingerprinters),
        clock=process_time,
    )
    names = ["jieba.analyse.extract_tags + loop", "simhash package over jieba's words", *profiles]
    costs = [elapsed / len(few if position < 2 else texts) for position, elapsed in enumerate(seconds)]
    characters = sum(map(len, texts)) / len(texts)
    return Table(
        "Fingerprints from raw text, one thread",
        ["pipeline", "us of processor time a text", "times as fast as the first"],
        [[name, 1e6 * cost, costs[0] / cost] for name, cost in zip(names, costs, strict=True)],
        [
            f"{len(texts):,} items of Chinese television news of {characters:.0f} characters on average, "
            f"{len(few)} for the peers; medians of {RUNS} interleaved runs; "
            f"peak memory {peak_memory_mb():,.0f} MB."
        ],
    )


def against_minhash(texts: list[str]) -> Table:
    """Peers get texts in normal form, and cut the same shingles from them."""
    ours = {
        "simhbase, from raw text to sketches (complete with chars:3)": {"features": "chars:3"},
        "simhbase, from raw text to sketches (complete)": {},
    }
    normal = ["".join(normalise(text).split()) for text in texts]
    few = normal[:: len(normal) // PEER_TEXTS]
    shared = MinHash(num_perm=SLOTS)

    def datasketch() -> None:
        for text in few:
            shared.copy().update_batch([text[at : at + 3].encode() for at in range(len(text) - 2)])

    def rensa() -> None:
        for text in normal:
            RMinHash(num_perm=SLOTS, seed=1).update([text[at : at + 3] for at in range(len(text) - 2)])

    fingerprinters = [make_profile(each, "complete").fingerprinter() for each in ours.values()]
    seconds = interleaved(
        RUNS,
        datasketch,
        rensa,
        *(lambda one=one: one.fingerprint_many(texts) for one in fingerprinters),
        clock=process_time,
    )
    costs = [elapsed / len(few if position == 0 else texts) for position, elapsed in enumerate(seconds)]
    names = [
        "datasketch, update_batch with shared permutations",
        "rensa, update",
        *ours,
    ]
    return Table(
        f"MinHash sketches of {SLOTS} slots from texts, one thread",
        ["", "us of processor time a text", "times as fast as datasketch", "times as fast as rensa"],
        [
            [name, 1e6 * cost, costs[0] / cost, costs[1] / cost]
            for name, cost in zip(names, costs, strict=True)
        ],
        [
            f"{len(texts):,} items of Chinese television news ({len(few)} for datasketch) of "
            f"{np.mean([len(text) - 2 for text in normal]):.0f} shingles of 3 characters on average; "
            f"medians of {RUNS} interleaved runs."
        ],
    )


def growing(kinds: Mapping[str, list[str]]) -> Table:
    """What growing shingles cost against triples of characters, in sketches and beside fingerprints."""
    rows: list[list[Cell]] = []
    for kind, texts in kinds.items():
        profiles = [
            make_profile({}, "complete"),
            make_profile({"features": "chars:3"}, "complete"),
            Profile(),
            Profile(verify=False),
        ]
        fingerprinters = [profile.fingerprinter() for profile in profiles]
        seconds = interleaved(
            RUNS,
            *(partial(each.fingerprint_many, texts) for each in fingerprinters),
            clock=process_time,
        )
        complete, triples, default, bare = (1e6 * each / len(texts) for each in seconds)
        characters = round(sum(map(len, texts)) / len(texts))
        rows.append([kind, characters, complete, triples, complete / triples, default, bare, default / bare])
    return Table(
        "Growing shingles",
        [
            *("texts", "characters", "complete, us", "with triples, us", "times as long"),
            *("default, us", "without sketches, us", "times as long"),
        ],
        rows,
        [f"Processor time a text, one thread; medians of {RUNS} interleaved runs."],
    )


def threads(texts: list[str], wanted: int) -> Table:
    many = (texts * (wanted // len(texts) + 1))[:wanted]
    batches = [many[start : start + POOL_BATCH] for start in range(0, len(many), POOL_BATCH)]

    def run(number: int) -> None:
        for _ in map_in_threads(_fingerprint, batches, number):
            pass

    seconds = interleaved(3, lambda: run(1), lambda: run(2))
    return Table(
        "Fingerprints in threads",
        ["threads", "texts/s", "times one"],
        [[count, len(many) / elapsed, seconds[0] / elapsed] for count, elapsed in enumerate(seconds, 1)],
        [f"{len(many):,} texts."],
    )


@cache
def _fingerprinter() -> Fingerprinter:
    return Profile().fingerprinter()


def _fingerprint(texts: list[str]) -> object:
    return _fingerprinter().fingerprint_many(texts).values
