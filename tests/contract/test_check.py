"""A check beside writers, in every store."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from unittest.mock import patch

import numpy as np
import pytest

import simhbase
from simhbase import Index, Profile
from simhbase.admin.check import Checker
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index.part import Part
from tests.contract.conftest import Backend

IDS = [f"d{number}" for number in range(40)]
VALUES = np.arange(1, 41, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


@contextmanager
def deleting_before_lock(index: Index, number: int) -> Iterator[list[str]]:
    """All documents are deleted before a lock is taken for the time of this number. The list that it yields
    has an item for each time."""
    exclusive, locked = index.store.exclusive, list[str]()

    def deleting() -> AbstractContextManager[object]:
        locked.append("taken")
        if len(locked) == number:
            index.delete(IDS)
        return exclusive()

    with patch.object(index.store, "exclusive", deleting):
        yield locked


@pytest.mark.parametrize("repair", [False, True])
@pytest.mark.parametrize("part", [(1, 1), (1, 2), (2, 2)])
def test_what_is_deleted_meanwhile_is_no_problem(
    backend: Backend, part: tuple[int, int], repair: bool
) -> None:
    """Rows that were read before they are judged may be gone by then, with all that belongs to them."""
    with simhbase.open(backend.url(0), create=Profile(verify=False)) as index:
        for number in count(1):
            index.add_batch(IDS, FingerprintBatch.bare(VALUES))
            with deleting_before_lock(index, number) as locked:
                checker = Checker(index.store, index.profile.index_scheme, repair, clock=index.clock)
                report = checker.check(Part(*part))
            assert report.clean, (number, report)
            if len(locked) < number:
                break
