"""The index rows of a store in memory."""

import numpy as np
import pytest

import simhbase
from simhbase.drawers.layout import layout
from simhbase.drawers.rowkeys import encode
from simhbase.errors import TablesMissing
from simhbase.stores import create_store


def test_rows_that_are_removed_and_added_again_are_there_once():
    keys = encode(np.arange(100, dtype=np.uint64) << np.uint64(40), layout("5x2"))
    store = create_store("memory:")
    store.drawers.add(keys)
    for _ in range(3):
        store.drawers.remove(keys[7], np.zeros(10, dtype=np.int64))
        assert (store.drawers.times(keys)[7] == -1).all()
        store.drawers.add(keys[7])
    (part,) = store.drawers.read(keys[7, :, :5], limit=1_000)
    rows = np.split(part.fingerprints, part.offsets[1:-1])
    assert all((each == 7 << 40).sum() == 1 for each in rows)
    assert store.drawers.approximate_size().rows == 1_000


def test_who_opens_one_is_told_how_to_make_it():
    with pytest.raises(TablesMissing, match=r"simhbase\.open\('memory:', create=\"default\"\) makes a store"):
        simhbase.open("memory:")
