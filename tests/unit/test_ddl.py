"""What HBase tables should be, as data: names, attributes, splits, differences, scripts."""

import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.errors import SchemaDiffers, TablesMissing, UsageError
from simhbase.stores.hbase import schema as ddl
from simhbase.stores.hbase.administration import _attributes, idl
from simhbase.stores.hbase.schema import BLOOM_PREFIX, Attributes, Options, TableSpec

SCHEMA = Path(__file__).parents[2] / "schema"


class Listed:
    """Tables that exist by name only: what is created and dropped, in order."""

    def __init__(self, *tables: TableSpec) -> None:
        self.live: dict[str, dict[str, dict[str, str]]] = {}
        self.live_regions: dict[str, int] = {}
        self.durabilities: dict[str, str] = {}
        self.calls: list[tuple[str, str]] = []
        for table in tables:
            self._make(table)

    def _make(self, table: TableSpec) -> None:
        self.live[table.full_name] = {table.family: dict(table.attributes)}
        self.live_regions[table.full_name] = len(table.splits) + 1

    def families(self, table: TableSpec) -> Mapping[str, Attributes] | None:
        return self.live.get(table.full_name)

    def create(self, table: TableSpec) -> None:
        self.calls.append(("create", table.name))
        if table.full_name not in self.live:
            self._make(table)

    def drop(self, table: TableSpec) -> None:
        self.calls.append(("drop", table.name))
        del self.live[table.full_name]

    def regions(self, table: TableSpec) -> int:
        return self.live_regions[table.full_name]

    def drop_namespace(self, table: TableSpec) -> None:
        self.calls.append(("drop_namespace", table.namespace))

    def durability(self, table: TableSpec) -> str:
        return self.durabilities.get(table.full_name, "USE_DEFAULT")


class Raced(Listed):
    """Where somebody else creates a table just before each that is created here."""

    def __init__(self, *others: TableSpec) -> None:
        super().__init__()
        self.others = list(others)

    def create(self, table: TableSpec) -> None:
        if self.others:
            super().create(self.others.pop(0))
        super().create(table)


def tables(**options: object) -> dict[str, TableSpec]:
    return dict(zip(ddl.TABLES, ddl.schema("default", "p", Options(**options)), strict=True))


def test_tables_are_named_by_prefix_and_namespace():
    assert [table.full_name for table in ddl.schema("default", "p")] == [
        "p_index",
        "p_fingerprints",
        "p_documents",
        "p_obsolete",
        "p_meta",
    ]
    assert ddl.table_spec("index", "ns", "p").full_name == "ns:p_index"


def test_only_the_index_has_family_i():
    assert {name: table.family for name, table in tables().items()} == {
        "index": "i",
        "fingerprints": "d",
        "documents": "d",
        "obsolete": "d",
        "meta": "d",
    }


def test_time_to_live_and_splits_are_never_those_of_meta():
    chosen = tables(ttl=3600, regions=8)
    assert {name: table.attributes["TTL"] for name, table in chosen.items()} == {
        "index": "3600",
        "fingerprints": "3600",
        "documents": "3600",
        "obsolete": "3600",
        "meta": "FOREVER",
    }
    assert {name: len(table.splits) for name, table in chosen.items()} == {
        "index": 7,
        "fingerprints": 7,
        "documents": 7,
        "obsolete": 3,
        "meta": 0,
    }


def test_each_table_may_have_a_number_of_regions_of_its_own():
    regions = {"index": 9, "fingerprints": 3, "documents": 2, "obsolete": 5}
    assert {name: len(table.splits) + 1 for name, table in tables(regions=regions).items()} == {
        **regions,
        "meta": 1,
    }


def test_sixteen_regions_begin_with_sixteen_digits():
    assert ddl.even_splits(16) == tuple(bytes([16 * digit]) for digit in range(1, 16))
    assert ddl.even_splits(1) == ()


@given(st.integers(1, ddl.MOST_REGIONS))
def test_splits_part_the_key_space_evenly(regions):
    splits = ddl.even_splits(regions)
    starts = [0, *(int.from_bytes(split.ljust(4, b"\x00")) for split in splits), 1 << 32]
    widths = {after - before for before, after in pairwise(starts)}
    assert len(splits) == regions - 1
    assert list(splits) == sorted(set(splits))
    assert max(widths) - min(widths) <= 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"regions": 0},
        {"regions": 10_001},
        {"regions": {"index": 1, "fingerprints": 0, "documents": 1, "obsolete": 1}},
        {"compression": "gz"},
        {"ttl": 0},
    ],
)
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(UsageError):
        Options(**wrong)


def test_a_table_as_it_should_be_does_not_differ():
    table = tables()["index"]
    live = {"i": {**table.attributes, "COMPRESSION": "GZ", "TTL": "5"}, "other": {}}
    assert ddl.compare(live, table) == []


@pytest.mark.parametrize("attribute", sorted(ddl.table_spec("index", "default", "p").attributes))
def test_each_attribute_that_differs_is_named(attribute):
    table = tables()["index"]
    other = {"i": {**table.attributes, attribute: "other"}}
    none = {"i": {name: value for name, value in table.attributes.items() if name != attribute}}
    wanted = table.attributes[attribute]
    assert list(map(str, ddl.compare(other, table))) == [f"p_index: {attribute} is other, not {wanted}"]
    assert list(map(str, ddl.compare(none, table))) == [f"p_index: {attribute} is missing, not {wanted}"]


def test_a_chosen_compression_and_time_to_live_are_compared():
    table = tables(compression="ZSTD", ttl=60)["documents"]
    live = {"d": {**table.attributes, "COMPRESSION": "NONE", "TTL": "FOREVER"}}
    assert [found.attribute for found in ddl.compare(live, table)] == ["COMPRESSION", "TTL"]


def test_a_table_without_the_family_differs():
    table = tables()["index"]
    assert list(map(str, ddl.compare({"d": table.attributes}, table))) == ["p_index: NAME is missing, not i"]


def test_creating_completes_what_is_half_made():
    wanted = list(tables().values())
    live = Listed(wanted[0], wanted[2])
    missing = ["p_fingerprints", "p_obsolete", "p_meta"]
    assert ddl.create(wanted, live) == missing
    assert ddl.create(wanted, live) == []
    assert live.calls == [("create", name) for name in missing]


def test_attributes_of_who_creates_tables_at_the_same_time_are_compared():
    theirs, ours = tables(compression="GZ"), tables(compression="ZSTD")
    with pytest.raises(SchemaDiffers, match="p_index: COMPRESSION is GZ, not ZSTD"):
        ddl.create(list(ours.values()), Raced(theirs["index"]))


def test_regions_of_who_creates_tables_at_the_same_time_are_told():
    theirs, ours = tables(regions=2), list(tables(regions=4).values())
    live = Raced(theirs["index"], theirs["fingerprints"])
    ddl.create(ours, live)
    assert str(ddl.other_regions(ours, live)).startswith(
        "regions: p_index has 2, not 4; p_fingerprints has 2, not 4. Existing tables keep"
    )
    assert ddl.other_regions(list(tables(regions=4).values()), Listed(*ours)) is None


def test_tables_that_may_lose_writes_are_told_with_the_commands_that_change_it():
    wanted = list(tables().values())
    live = Listed(*wanted)
    live.durabilities |= {"p_documents": "SYNC_WAL", "p_meta": "FSYNC_WAL"}
    assert ddl.lossy(wanted, live) is None
    live.durabilities |= {"p_index": "SKIP_WAL", "p_documents": "ASYNC_WAL"}
    said = str(ddl.lossy(wanted, live))
    assert "DURABILITY of p_index (SKIP_WAL), p_documents (ASYNC_WAL). " in said
    assert [line for line in said.splitlines() if line.startswith("  ")] == [
        "  alter 'p_index', DURABILITY => 'USE_DEFAULT'",
        "  alter 'p_documents', DURABILITY => 'USE_DEFAULT'",
    ]


def test_nothing_is_created_beside_a_table_that_differs():
    wanted = tables()
    live = Listed(wanted["index"])
    live.live["p_index"] = {"i": {**wanted["index"].attributes, "VERSIONS": "3", "BLOCKSIZE": "65536"}}
    with pytest.raises(SchemaDiffers, match="VERSIONS is 3, not 1; p_index: BLOCKSIZE is 65536, not 16384"):
        ddl.create(list(wanted.values()), live)
    assert live.calls == []


def test_a_difference_is_told_with_the_command_that_mends_it():
    wanted = tables()
    live = Listed(*wanted.values())
    live.live["p_index"]["i"] |= {"VERSIONS": "3", ddl.BLOOM_PREFIX: "4"}
    live.live["p_meta"] = {}
    with pytest.raises(SchemaDiffers) as caught:
        ddl.check(list(wanted.values()), live)
    commands = [line.strip() for line in str(caught.value).splitlines() if line.startswith("  ")]
    assert commands == [
        "alter 'p_index', {NAME => 'i', VERSIONS => '1', "
        "CONFIGURATION => {'RowPrefixBloomFilter.prefix_length' => '5'}}",
        "alter 'p_meta', {NAME => 'd', VERSIONS => '1', DATA_BLOCK_ENCODING => 'FAST_DIFF', "
        "BLOCKSIZE => '16384', BLOCKCACHE => 'true', KEEP_DELETED_CELLS => 'FALSE', BLOOMFILTER => 'ROW', "
        "TTL => 'FOREVER'}",
    ]


def test_rows_of_one_document_expire_together():
    wanted = list(tables().values())
    live = Listed(*tables(ttl=60).values())
    ddl.check(wanted, live)
    live.live["p_documents"]["d"]["TTL"] = "50"
    with pytest.raises(SchemaDiffers, match=r"^p_documents: TTL is 50, not 60\. "):
        ddl.check(wanted, live)
    del live.live["p_documents"]
    ddl.create(wanted, live)
    assert live.live["p_documents"]["d"]["TTL"] == "60"


def test_live_tables_are_described_and_missing_ones_named():
    wanted = list(tables(regions=4).values())
    described = ddl.describe(wanted, Listed(*wanted))
    assert [(table.name, table.regions) for table in described] == [
        ("p_index", 4),
        ("p_fingerprints", 4),
        ("p_documents", 4),
        ("p_obsolete", 4),
        ("p_meta", 1),
    ]
    assert {table.durability for table in described} == {"USE_DEFAULT"}
    assert [table.attributes for table in described] == [table.attributes for table in wanted]
    with pytest.raises(TablesMissing, match="p_fingerprints not found"):
        ddl.describe(wanted, Listed(wanted[0]))


def test_the_table_with_the_profile_is_created_last_and_dropped_first():
    wanted = list(tables().values())
    live = Listed()
    ddl.create(wanted, live)
    assert live.calls[-1] == ("create", "p_meta")
    live.calls.clear()
    ddl.drop(wanted, live)
    assert live.calls[0] == ("drop", "p_meta")
    assert live.live == {}


def test_dropping_goes_on_where_it_stopped_and_says_when_nothing_is_there():
    wanted = list(tables().values())
    live = Listed(wanted[1])
    assert ddl.drop(wanted, live) == ["p_fingerprints"]
    with pytest.raises(TablesMissing, match="p_index, p_fingerprints, p_documents, p_obsolete, p_meta"):
        ddl.drop(wanted, live)


def test_checking_names_all_missing_tables():
    wanted = list(tables().values())
    with pytest.raises(TablesMissing, match="p_fingerprints, p_documents, p_obsolete, p_meta not found"):
        ddl.check(wanted, Listed(wanted[0]))
    ddl.check(wanted, Listed(*wanted))


def test_a_command_for_the_shell_says_everything():
    table = ddl.table_spec("index", "ns", "p", Options(regions=4, compression="GZ", ttl=86400))
    assert ddl.render_shell(table) == (
        "create 'ns:p_index',\n"
        "  {NAME => 'i',\n"
        "   VERSIONS => '1',\n"
        "   DATA_BLOCK_ENCODING => 'FAST_DIFF',\n"
        "   BLOCKSIZE => '16384',\n"
        "   BLOCKCACHE => 'true',\n"
        "   KEEP_DELETED_CELLS => 'FALSE',\n"
        "   BLOOMFILTER => 'ROWPREFIX_FIXED_LENGTH',\n"
        "   CONFIGURATION => {'RowPrefixBloomFilter.prefix_length' => '5'},\n"
        "   COMPRESSION => 'GZ',\n"
        "   TTL => '86400'},\n"
        "  SPLITS => ['\\x40', '\\x80', '\\xC0']"
    )


def test_a_script_creates_the_namespace_first():
    script = ddl.render_script(ddl.schema("ns", "p", Options(regions=1)))
    namespace, index, *_ = script.split("\n\n")
    assert "create_namespace 'ns'" in namespace
    assert index.startswith("create 'ns:p_index'")
    assert "create_namespace" not in ddl.render_script(ddl.schema("default", "p"))


def test_the_files_in_schema_are_what_is_rendered(tmp_path):
    subprocess.run([sys.executable, "-m", "simhbase.stores.hbase.schema", str(tmp_path)], check=True)
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert {path.name: path.read_text() for path in SCHEMA.glob("*.rb")} == written


def test_a_gateway_puts_nothing_into_the_commands_that_are_shown():
    """It had a time to live of a column family that was another command of the shell."""
    configuration = {b"TTL": b"5'}; system('id'); #", BLOOM_PREFIX.encode(): b"5", b"\xff": b"\xff"}
    for seconds, shown in ((50, {"TTL": "50"}), (None, {})):
        column = idl.TColumnFamilyDescriptor(
            name=b"d", timeToLive=seconds, configuration=configuration, attributes={b"IS_MOB": b"true"}
        )
        assert _attributes(column) == shown | {BLOOM_PREFIX: "5", "IS_MOB": "true", "\ufffd": "\ufffd"}
