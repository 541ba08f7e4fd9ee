from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest

from simhbase._core import Drawers, Records, SortedDrawers, near_in_memory
from simhbase.drawers.layout import layout
from simhbase.drawers.rowkeys import PREFIX_BYTES, encode, probes, probes_of
from simhbase.stores.base import Cell, NearLimits

LAYOUT = layout("5x2")
ROUNDS = 30


def values(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 1 << 20, 300, dtype=np.uint64)  # they share drawers


@pytest.mark.parametrize("name", ["5x2", "4x1", "2x1p1", "4x4"])
def test_the_core_names_the_drawers_of_one_fingerprint_as_arrays_do(name):
    fingerprints = np.random.default_rng(1).integers(0, 1 << 64, 50, dtype=np.uint64)
    wanted = probes(fingerprints, layout(name))
    made = [probes_of(value, layout(name)) for value in fingerprints.tolist()]
    assert made == [[prefix.tobytes() for prefix in some] for some in wanted]


def test_threads_add_remove_and_look_up_at_the_same_time():
    drawers, nothing, is_done = Drawers(), Records(Cell), Event()
    limits = NearLimits(3, None, 1)
    kept = encode(values(0), LAYOUT)
    drawers.add(kept)

    def change(number: int) -> None:
        keys = encode(values(number) | np.uint64(number << 40), LAYOUT)
        for _ in range(ROUNDS):
            drawers.add(keys)
            assert all(drawers.contain(keys))
            drawers.remove(keys)

    def look_up() -> int:
        count = 0
        prefixes = np.ascontiguousarray(kept[:, 0, :PREFIX_BYTES])
        while not is_done.is_set():
            for value in values(0)[:20].tolist():
                named = probes_of(value, LAYOUT)
                (bits, *_), *_ = near_in_memory(drawers, nothing, nothing, value, named, limits)
                assert bits[value] == 0
            lengths, fingerprints, _ = drawers.read(prefixes, 0, None, 1 << 20)
            assert np.frombuffer(lengths, np.int64).sum() == len(fingerprints) // 8 >= len(prefixes)
            count += 1
        return count

    with ThreadPoolExecutor(5) as threads:
        looking = [threads.submit(look_up) for _ in range(2)]
        changing = [threads.submit(change, number) for number in (1, 2, 3)]
        try:
            for each in changing:
                each.result()
        finally:
            is_done.set()
        assert all(each.result() > 0 for each in looking)
    assert len(drawers) == len(np.unique(kept.reshape(-1, kept.shape[-1]), axis=0))


def test_other_arrays_are_refused():
    drawers = Drawers()
    for wrong in (np.zeros((2, 12), np.uint8), np.zeros((4, 13), np.uint8)[:, ::-1]):
        with pytest.raises(ValueError, match=r"rows of 13 bytes|not a contiguous array"):
            drawers.add(wrong)
    assert len(drawers) == 0


def test_other_arrays_for_drawers_that_do_not_change_are_refused():
    drawers = SortedDrawers(2, 3)
    segments, values = np.zeros((3, 2), np.uint32), np.zeros(3, np.uint64)
    with pytest.raises(ValueError, match="no places"):
        drawers.put(1, segments)
    with pytest.raises(ValueError, match="no such table"):
        drawers.sort(2)
    for given in ((segments, [0, 2], None), (segments, [], None)):
        with pytest.raises(ValueError, match="no such tables"):
            drawers.near(given[0], given[1], None, given[2], 0, 10)
    for compared in ((values[:2], values, 3), (values, values[:2], 3)):
        with pytest.raises(ValueError, match="other lengths"):
            drawers.near(segments, [0, 1], None, compared, 0, 10)
    with pytest.raises(ValueError, match="too many members"):
        SortedDrawers(1, 1 << 32)
