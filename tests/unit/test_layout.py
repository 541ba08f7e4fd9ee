"""Names of layouts, their tables and the errors for what is none."""

import re

import numpy as np
import pytest

from simhbase.drawers.layout import MAX_TABLES, Layout, layout, require_within_guarantee
from simhbase.drawers.rowkeys import prefixes, probes
from simhbase.errors import UsageError
from tests import examples


@pytest.mark.parametrize(
    ("name", "tables", "guarantee"),
    [
        ("5x2", 10, 3),
        ("4x1", 4, 3),
        ("4x4", 16, 3),
        ("6x3", 20, 3),
        ("7x3", 35, 4),
        ("8x4", 70, 4),
        ("10x3", 120, 7),
        ("2x1", 2, 1),
        ("64x1", 64, 63),
        ("2x1p1", 2, 3),
        ("3x1p1", 3, 5),
        ("5x2p1", 10, 4),
    ],
)
def test_a_layout_has_a_table_a_combination_and_guarantees_the_blocks_left(name, tables, guarantee):
    found = layout(name)
    assert (found.name, found.bits, len(found.tables), found.guarantee) == (name, 64, tables, guarantee)
    assert len(set(found.tables)) == tables


@pytest.mark.parametrize("bits", [64, 128])
@pytest.mark.parametrize("name", ["5x2", "4x1", "4x4", "6x3", "7x3", "9x2"])
def test_the_runs_of_a_table_lie_apart_within_the_fingerprint(name, bits):
    for table in layout(name, bits).tables:
        positions = [p for run in table for p in range(run.start, run.start + run.width)]
        assert len(set(positions)) == len(positions)
        assert set(positions) <= set(range(bits))


@pytest.mark.parametrize("name", ["5x2", "4x1", "6x3", "7x3"])
def test_every_bit_is_in_some_table_and_left_out_of_another(name):
    tables = [
        {p for run in table for p in range(run.start, run.start + run.width)} for table in layout(name).tables
    ]
    for bit in range(64):
        assert any(bit in table for table in tables)
        assert any(bit not in table for table in tables)


def test_the_same_name_is_the_same_layout():
    assert layout("5x2") is layout("5x2")
    assert layout("5x2") != layout("5x2", 128)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "5",
        "x",
        "5x",
        "x2",
        "0x1",
        "5x0",
        "05x2",
        "5X2",
        "5x2 ",
        "5x2x1",
        "-5x2",
        "100x1",
        "2x1p",
        "2x1p2",
        "p1",
    ],
)
def test_what_is_no_layout_is_refused_with_its_form(name):
    with pytest.raises(UsageError, match=r"layout: must be NxM"):
        layout(name)


@pytest.mark.parametrize("name", ["5x5", "2x3", "1x1", "3x9"])
def test_a_layout_that_leaves_no_block_out_guarantees_nothing(name):
    with pytest.raises(UsageError, match="guarantees nothing"):
        layout(name)


@pytest.mark.parametrize("name", ["11x4", "12x5", "24x2"])
def test_more_tables_than_a_flag_can_number_are_refused(name):
    with pytest.raises(UsageError, match=f"at most {MAX_TABLES} fit"):
        layout(name)


@pytest.mark.parametrize("k", [2, 4, 10, 21])
def test_a_k_that_is_too_large_is_answered_with_a_layout_that_guarantees_it(k):
    with pytest.raises(UsageError, match=f"k: must be .* with layout 2x1, not {k}") as refused:
        require_within_guarantee(k, layout("2x1"))
    suggested = str(refused.value).split("such as ")[1].split()[0]
    assert layout(suggested).guarantee == k


@pytest.mark.parametrize("k", [-1, 22, 63])
def test_a_k_that_no_layout_of_two_blocks_guarantees_is_answered_without_one(k):
    with pytest.raises(UsageError, match="k: must be 0 to 3") as refused:
        require_within_guarantee(k, layout("5x2"))
    assert "such as" not in str(refused.value)


def test_a_k_within_the_guarantee_is_fine():
    for k in range(4):
        require_within_guarantee(k, layout("5x2"))


def bits_of_segments(found: Layout) -> list[set[int]]:
    """Per flag, the bits of a fingerprint that its segment depends on: flipping one gives another prefix."""
    ones = np.uint64(1) << np.arange(found.bits, dtype=np.uint64)
    moved = (prefixes(ones, found) != prefixes(np.zeros(1, np.uint64), found)).any(axis=2)
    return [set(np.flatnonzero(flips).tolist()) for flips in moved.T]


def can_be_kept_apart(segments: list[set[int]], bits: int, flips: int, chosen: frozenset[int]) -> bool:
    """Whether so many more differing bits can leave no segment with `flips` or fewer of them."""
    equal = next((each for each in segments if len(each & chosen) <= flips), None)
    if equal is None or bits == 0:
        return equal is None
    # Of bits that the same segments hold, which one differs is all the same.
    places = {tuple(bit in each for each in segments): bit for bit in equal - chosen}
    return any(can_be_kept_apart(segments, bits - 1, flips, chosen | {bit}) for bit in places.values())


def test_the_layouts_of_the_docs_have_the_figures_that_the_docs_give():
    page = examples.page("docs/how.md")
    rows = re.findall(r"^\|([^|]*)\|[^|]*\| `(\w+)`[^|]*\|(.*)\|$", page, re.MULTILINE)
    articles = {"4x1": "4-way", "5x2": "5-way", "4x4": "nested, 4 by 4", "6x3": "6-way"}
    ours = dict.fromkeys(("6x2", "7x3", "2x1p1"), "")
    assert {name: kind.strip() for kind, name, _ in rows} == articles | ours
    for _, name, figures in rows:
        found = layout(name)
        segments = bits_of_segments(found)
        widths = sorted({len(each) for each in segments})
        k = next(k for k in range(64) if can_be_kept_apart(segments, k + 1, found.flips, frozenset()))
        read = probes(np.zeros(1, np.uint64), found).shape[1]
        named = " to ".join(map(str, dict.fromkeys((widths[0], widths[-1]))))
        assert [each.strip() for each in figures.split("|")] == [str(len(segments)), str(read), named, str(k)]
        assert found.guarantee == k
