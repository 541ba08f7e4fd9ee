import os
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.errors import SimhbaseError
from simhbase.process import spool
from simhbase.process.spool import Spool, SpooledRows
from tests.limits import files_up_to


def add_to_what_refuses_it(folder):
    with closing(Spool(folder)) as spool:
        os.close(spool._file.fileno())  # refuses what is written to it, as a full disk does
        spool.append([b"text"])


def test_what_could_not_be_written_is_told_once_and_clearly(tmp_path):
    with pytest.raises(SimhbaseError, match=tmp_path.name):
        add_to_what_refuses_it(tmp_path)


@pytest.mark.parametrize("in_memory", [0, 100, 1 << 20])
@pytest.mark.parametrize(
    "nothing", [np.empty(0, np.uint64), np.empty((0, 3), np.uint8), np.empty((0, 0), np.uint8)]
)
@given(data=st.data())
def test_rows_are_those_of_an_array_in_memory_and_on_disk(in_memory, nothing, tmp_path_factory, data):
    parts = data.draw(st.lists(st.integers(0, 40), max_size=6))
    n = sum(parts)
    rows = np.random.default_rng(n).integers(0, 256, (n, *nothing.shape[1:])).astype(nothing.dtype)
    with (
        pytest.MonkeyPatch.context() as patch,
        closing(SpooledRows(tmp_path_factory.getbasetemp(), nothing)) as spooled,
    ):
        patch.setattr(spool, "IN_MEMORY", in_memory)
        for part in np.split(rows, np.cumsum(parts)[:-1]) if parts else []:
            spooled.append(part)
        assert len(spooled) == n
        for _ in range(3):
            most = 0 if n == 0 else data.draw(st.sampled_from([3, 60]))
            numbers = data.draw(st.lists(st.integers(0, max(n - 1, 0)), max_size=most))
            chosen = np.array(numbers, dtype=np.int64)
            assert np.array_equal(spooled[chosen], rows[chosen])


def test_a_full_disk_names_the_folder(tmp_path):
    with (
        closing(SpooledRows(tmp_path, np.empty((0, 1024), np.uint8))) as rows,
        files_up_to(8 << 20),
        pytest.raises(SimhbaseError, match=f"spool documents to {tmp_path}"),
    ):
        rows.append(np.zeros((80 << 10, 1024), np.uint8))
