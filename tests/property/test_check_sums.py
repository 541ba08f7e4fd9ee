"""A check by sums finds what one finds that looks every row up, whatever is damaged, and mends it."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simhbase.admin.check import Checker, CheckReport
from simhbase.drawers.bands import bands
from simhbase.drawers.layout import layout
from simhbase.drawers.scheme import MinHashScheme, Scheme, SimHashScheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.index.part import Part
from simhbase.index.writer import DocumentBatch, Writer
from simhbase.stores import create_store
from simhbase.stores.base import Store

FORM = SketchParameters(slots=32)
SCHEMES: dict[str, Scheme] = {
    "simhash": SimHashScheme(layout("5x2"), k=3),
    "simhash, verified": SimHashScheme(layout("5x2"), k=3, sketching=FORM),
    "minhash": MinHashScheme(bands("4x8"), FORM, threshold=0.8),
}
KINDS = ["document", "listing", "row", "moved", "cut", "strange", "sketch", "other row"]
DAMAGES = st.lists(st.sampled_from(KINDS), max_size=5)


def filled(scheme: Scheme, chance: random.Random) -> Store:
    """Documents with and without tags, some of one fingerprint."""
    store = create_store("memory:")
    writer = Writer(store, scheme)
    values = [chance.getrandbits(64) for _ in range(20)]
    for tags in (None, [(("source", "wire"),)] * 20):
        chosen = [chance.choice(values) for _ in range(20)]
        size = scheme.sketching.bytes if scheme.sketching else 0
        sketches = [np.random.default_rng(value).integers(0, 256, size, np.uint8) for value in chosen]
        batch = FingerprintBatch(np.array(chosen, np.uint64), np.array(sketches).reshape(20, size))
        writer.add(DocumentBatch([f"{'b' if tags else 'a'}{number}" for number in range(20)], batch, tags))
    return store


def damage(store: Store, kind: str, chance: random.Random) -> None:
    documents, listings = store.records("documents"), store.records("fingerprints")
    # What was cut to nothing before cannot be damaged further.
    key, cell = chance.choice([row for batch in documents.iterate() for row in batch if row[1].value])
    listing, listed = chance.choice([row for batch in listings.iterate() for row in batch])
    (rows,) = list(store.drawers.iterate())
    place = chance.randrange(len(rows.keys))
    row, time = rows.keys[place : place + 1], rows.times[place : place + 1]
    if kind == "document":
        documents.delete([key])
    elif kind == "listing":
        listings.delete([listing])
    elif kind == "row":
        store.drawers.remove(row, time)
    elif kind == "moved":
        documents.put([(key, bytes([cell.value[0] ^ 1]) + cell.value[1:])], cell.version)
    elif kind == "cut":
        documents.put([(key, cell.value[: chance.randrange(len(cell.value))])], cell.version)
    elif kind == "strange":
        documents.put([(key[:-1] + b"\xff", cell.value)], cell.version)
        listings.put([(listing[:8] + b"\xff", b"")], listed.version)
    elif kind == "sketch":
        listings.put([(listing, listed.value[:-1])], listed.version)
    else:
        other = row.copy()
        other[0, chance.randrange(5)] ^= 1
        store.drawers.add(other[np.newaxis])


def by_lookups(store: Store, scheme: Scheme) -> Counter[str]:
    """The problems that are found in parts, which are not checked by sums."""
    found: list[CheckReport] = [Checker(store, scheme).check(Part(number, 3)) for number in (1, 2, 3)]
    return sum((each.problems for each in found), Counter[str]())


@pytest.mark.parametrize("name", SCHEMES)
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), damages=DAMAGES)
def test_sums_find_what_lookups_find_and_repair_mends_it(name, seed, damages):
    chance, scheme = random.Random(seed), SCHEMES[name]
    store = filled(scheme, chance)
    for kind in damages:
        damage(store, kind, chance)
    found = Checker(store, scheme).check()
    assert found.problems == by_lookups(store, scheme)
    for _ in range(5):
        if Checker(store, scheme, repair=True).check().clean:
            break
    lost = set(Checker(store, scheme).check().problems)
    assert lost == set(by_lookups(store, scheme))
    assert all("sketch is lost" in kind for kind in lost), "only the texts bring these back"
