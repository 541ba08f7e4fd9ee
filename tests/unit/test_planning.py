"""How many regions tables need, and when drawers become too long."""

import pytest

from simhbase.drawers.layout import layout
from simhbase.drawers.sizes import drawer_rows, oversized_drawers
from simhbase.profile.profile import MinHashProfile, Profile
from simhbase.stores.hbase.planning import REGION_BYTES, Content
from simhbase.stores.hbase.schema import TABLES, Options

BILLION = 1_000_000_000


def test_each_table_has_regions_of_its_own_size():
    simhash = Content(BILLION, drawers=10)
    assert simhash.regions() == {"index": 40, "fingerprints": 8, "documents": 9, "obsolete": 3}
    assert [Options(regions=simhash.regions()).regions_of(table) for table in TABLES] == [40, 8, 9, 3, 1]


def test_sketches_and_drawers_of_a_profile_count():
    plain, sketched = Content(BILLION, drawers=10), Content(BILLION, drawers=20, sketch_bytes=128)
    assert sketched.table_bytes()["index"] == 2 * plain.table_bytes()["index"]
    assert sketched.table_bytes()["documents"] - plain.table_bytes()["documents"] == 128 * BILLION
    assert sketched.table_bytes()["fingerprints"] == plain.table_bytes()["fingerprints"]


def test_sketches_count_in_the_table_that_has_them():
    simhash = Content.of(BILLION, Profile().index_scheme).regions()
    assert (simhash["fingerprints"], simhash["documents"]) == (8, 21)
    plain = Content(BILLION, drawers=20).table_bytes()
    minhash = Content.of(BILLION, MinHashProfile().index_scheme).table_bytes()
    assert minhash["fingerprints"] - plain["fingerprints"] == 256 * BILLION
    assert minhash["documents"] == plain["documents"]


def test_few_documents_need_one_region_and_too_many_get_what_is_allowed():
    assert set(Content(0, 10).regions().values()) == set(Content(10_000_000, 10).regions().values()) == {1}
    assert Content(10**15, 10).regions()["index"] == 10_000


@pytest.mark.parametrize("documents", [10**8, 10**9, 10**10])
def test_regions_are_nearly_full_and_never_overfull(documents):
    content = Content(documents, 10)
    for table, size in content.table_bytes().items():
        regions = content.regions()[table]
        assert (regions - 1) * REGION_BYTES < max(size, 1) <= regions * REGION_BYTES


@pytest.mark.parametrize(("name", "bits"), [("4x1", 16), ("5x2", 25), ("4x4", 28), ("6x3", 31), ("8x5", 32)])
def test_the_rows_of_a_drawer_follow_from_its_shortest_segment(name, bits):
    assert drawer_rows(3 << bits, layout(name)) == 3


def test_longer_drawers_than_are_read_are_told_with_a_layout_that_has_shorter_ones():
    assert oversized_drawers(10_000 << 16, layout("4x1"), 10_000) is None
    assert oversized_drawers(BILLION, layout("4x1"), 10_000) == (
        "layout 4x1 has 15,259 rows a drawer with 1,000,000,000 documents, and lookups read 10,000 of them: "
        "take layout 5x2, with 30"
    )
    assert str(oversized_drawers(10_001 << 25, layout("5x2"), 10_000)).endswith("take layout 6x3, with 157")
    assert str(oversized_drawers(BILLION, layout("3x1"), 10)).endswith("take layout 4x2, with 1")
    assert "split the documents" in str(oversized_drawers(10_001 << 32, layout("5x2"), 10_000))
