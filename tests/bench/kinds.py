"""What each preset finds and misses among texts of many kinds, against all near-duplicates by an exact join.

Corpora that are not beside the repository come from packages, which `scripts/corpora FOLDER` fetches; the
variable SIMHBASE_CORPORA names the folder. Without it these kinds are left out.
"""

from __future__ import annotations

import gzip
import os
import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time

from simhbase.errors import BadInput
from simhbase.model.thresholds import RIGHT, SIMILAR
from simhbase.profile.profile import PRESETS, Profile, make_profile
from simhbase.quality.calibration import Goal, find_truth
from simhbase.quality.sample import Sample
from simhbase.quality.schemes import fingerprint_texts, pairs_found_by
from simhbase.quality.truth import Truth
from simhbase.text.jaccard import shingle_sets
from tests.bench.quality import CORPORA, sampled
from tests.bench.report import Cell, Table, shown
from tests.bench.short import read_items

LIMIT = 20_000  # texts of a kind
FEWEST_BYTES, MOST_BYTES = 1_000, 200_000  # of a file of source code
ROFF = re.compile(r'^[.\'](\\"|TH|so).*$|^[.\'][A-Za-z]+ ?|\\f[A-Z]|\\-', re.MULTILINE)
MESSAGE = re.compile(r'^msgstr(?:\[\d\])? ((?:".*"\n)+)', re.MULTILINE)
LANGUAGES = {"Japanese": "ja", "Chinese": "zh", "Arabic": "ar", "Russian": "ru"}
BINS = ((SIMILAR, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 1.0))
FORMER = make_profile({"verify": False})  # SimHash within 3 bits, as stores were made before

Documents = Iterable[tuple[str, str]]


def measure(scale: float = 1.0) -> list[Table]:
    rows: list[list[Cell]] = []
    profiles = {"within 3 bits, saturated": FORMER} | {name: make_profile({}, name) for name in PRESETS}
    for title, documents in kinds().items():
        start = perf_counter()
        try:
            sample, truth = known(documents(), int(LIMIT * scale))
        except BadInput as error:
            print(f"{title}: left out, {error}", file=sys.stderr)
            continue
        rows += [measured(title, name, profile, sample, truth) for name, profile in profiles.items()]
        print(f"{title}: {perf_counter() - start:.0f} s", file=sys.stderr)
    return [
        Table(
            "What each preset finds, by kind of text",
            [
                *("texts", "preset", "rows"),
                *(f"recall {low:g}-{high:g}" for low, high in BINS),
                *("precision", "milliseconds of processor time a text"),
            ],
            rows,
            [
                f"At most {LIMIT:,} different texts of each kind. In per cent with 95 % intervals; a pair "
                f"found is right from a Jaccard similarity of {RIGHT} on, which is that of growing shingles, "
                "of short texts of pairs of characters."
            ],
        )
    ]


def known(documents: Documents, limit: int) -> tuple[Sample, Truth]:
    sample = sampled(documents, limit)
    sets = shingle_sets(sample.texts, sample.shingles)
    return sample, find_truth(sample, sets, Goal(sample.read))


def measured(title: str, name: str, profile: Profile, sample: Sample, truth: Truth) -> list[Cell]:
    start = process_time()
    (fingerprinted,) = fingerprint_texts(sample.texts, [profile], 1)
    spent = process_time() - start
    found = pairs_found_by(profile, fingerprinted, None)
    return [
        title,
        name,
        profile.index_scheme.tables,
        *(shown(truth.recall(found, *bounds)) for bounds in BINS),
        shown(truth.precision(found)),
        f"{1000 * spent / len(sample.texts):.2f}",
    ]


def kinds() -> Mapping[str, Callable[[], Documents]]:
    found: dict[str, Callable[[], Documents]] = {
        "news, Chinese": CORPORA["news"].documents,
        "laws, Chinese": CORPORA["laws"].documents,
        "documentation, English": CORPORA["docs"].documents,
        "titles of news, Chinese": titles,
        "source code, Python": source_code,
        "licences, English": licences,
    }
    if folder := os.environ.get("SIMHBASE_CORPORA"):
        for name, language in LANGUAGES.items():
            found[f"manuals, {name}"] = partial(manuals, Path(folder), language)
            found[f"messages, {name}"] = partial(messages, Path(folder), language)
    return found


def titles() -> Documents:
    return ((item.id, item.title) for item in read_items(1.0) if item.title)


def _files(folder: Path, pattern: str) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob(pattern)):
        if path.is_file() and FEWEST_BYTES <= path.stat().st_size <= MOST_BYTES:
            yield str(path), path.read_text("utf-8", errors="replace")


def source_code() -> Documents:
    """Of the Pythons that this machine has, and what is installed there."""
    return islice(_files(Path("/usr/lib"), "*.py"), 3 * LIMIT)


def licences() -> Documents:
    for folder, pattern in ((Path("/usr/share/doc"), "copyright"), (Path(sys.prefix), "LICEN[CS]E*")):
        yield from _files(folder, pattern)


def manuals(folder: Path, language: str) -> Documents:
    """The manual pages of a Debian package, without their markup."""
    for path in sorted(folder.glob(f"manpages-{language}/**/man[1-9]/*.gz")):
        if not path.is_symlink():
            text = gzip.decompress(path.read_bytes()).decode("utf-8", errors="replace")
            yield str(path), ROFF.sub("", text)


def messages(folder: Path, language: str) -> Documents:
    """The translated messages of two versions of Django."""
    for wheel in sorted(folder.glob("[Dd]jango-*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(f"/locale/{language}/LC_MESSAGES/django.po"):
                    po = archive.read(name).decode()
                    for number, found in enumerate(MESSAGE.findall(po)):
                        text = "".join(re.findall(r'"(.*)"', found)).replace("\\n", "\n").replace('\\"', '"')
                        if len(text) >= 20:
                            yield f"{wheel.name}/{name}/{number}", text
