"""A check beside writers, in every store."""

from contextlib import AbstractContextManager

import numpy as np
import pytest

import simhbase
from simhbase import Profile
from simhbase.admin.check import Checker
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index.part import Part
from tests.contract.conftest import Backend

IDS = [f"d{number}" for number in range(40)]
VALUES = np.arange(1, 41, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


@pytest.mark.parametrize("repair", [False, True])
@pytest.mark.parametrize("part", [(1, 1), (1, 2), (2, 2)])
def test_what_is_deleted_meanwhile_is_no_problem(backend: Backend, part: tuple[int, int], repair: bool):
    """Rows that were read before they are judged may be gone by then, with all that belongs to them."""
    with simhbase.open(backend.url(0), create=Profile(verify=False)) as index:
        for number in range(1, 30):
            index.add_batch(IDS, FingerprintBatch.bare(VALUES))
            exclusive, calls = index.store.exclusive, 0

            def deleting() -> AbstractContextManager[object]:
                nonlocal calls
                calls += 1
                if calls == number:
                    index.delete(IDS)
                return exclusive()

            index.store.exclusive = deleting
            try:
                checker = Checker(index.store, index.profile.index_scheme, repair, clock=index.clock)
                report = checker.check(Part(*part))
            finally:
                del index.store.exclusive
            assert report.clean, (number, report)
            if calls < number:
                break
        else:
            raise AssertionError("a check takes the lock more often than that")
