"""Tables in a real HBase: created through Thrift 2 and by the shell, compared, dropped."""

import json
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import happybase
import pytest
from thriftpy2.rpc import client_context

from simhbase.errors import SchemaDiffers, StoreFailed, StoreUnreachable, TablesMissing, UsageError
from simhbase.stores import create_store, drop_store, open_store
from simhbase.stores.hbase import HBaseBackend
from simhbase.stores.hbase import schema as ddl
from simhbase.stores.hbase.administration import idl
from simhbase.stores.hbase.schema import Options
from simhbase.stores.meta import Meta
from tests.cluster import Cluster, Shell
from tests.command_line import result, run, run_alone
from tests.relay import LOCALHOST

pytestmark = pytest.mark.hbase

TABLES = ["index", "fingerprints", "documents", "obsolete", "meta"]
SCHEMA = Path(__file__).parents[2] / "schema"
SMALL = Options(regions=2)


@pytest.fixture
def url(hbase: Cluster) -> Iterator[str]:
    """Of tables that do not exist, before and after."""
    url = hbase.url("created")
    with suppress(TablesMissing):
        drop_store(url)
    yield url
    with suppress(TablesMissing):
        drop_store(url)


@pytest.fixture
def connection(hbase: Cluster) -> Iterator[happybase.Connection]:
    with closing(happybase.Connection(*hbase.gateway, timeout=60_000)) as connection:
        yield connection


@pytest.fixture
def free_port() -> int:
    """Where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def described(output: str) -> dict[str, str]:
    """Table -> what `describe` of the shell says about its column families."""
    families = re.findall(r"^COLUMN FAMILIES DESCRIPTION\n(.+?)\n\n", output, re.MULTILINE | re.DOTALL)
    tables = re.findall(r"Table (\S+) is ENABLED$", output, re.MULTILINE)
    assert len(families) == len(tables) > 0, output
    return dict(zip(tables, families, strict=True))


def starts(connection: happybase.Connection, table: str) -> list[bytes]:
    return sorted(region["start_key"] for region in connection.table(table).regions())


def test_the_files_in_schema_make_the_same_tables_in_the_shell_as_thrift_2(hbase, url):
    shelled = hbase.url("simhbase")
    with suppress(TablesMissing):
        drop_store(shelled)
    HBaseBackend(url).make(Options(counts=True))
    files = "".join(path.read_text().replace("\nexit\n", "\n") for path in sorted(SCHEMA.glob("*.rb")))
    try:
        assert_same(hbase, files, shelled, url, Options(counts=True))
    finally:
        drop_store(shelled)


def test_the_script_that_tables_ddl_prints_makes_the_same_tables_as_tables_create(hbase, url, tmp_path):
    options = Options(regions=5, compression="GZ", ttl=86400)
    chosen = ("--regions", 5, "--compression", "gz", "--ttl", "1d")
    made = run("tables", "create", "--store", url, *chosen, cwd=tmp_path)
    assert made.returncode == 0, made.stderr

    shelled = hbase.url(f"namespace{time.time_ns()}:shelled")
    by_shell = ("--store", shelled.partition("?")[0])
    script = result("tables", "ddl", *by_shell, *chosen, cwd=tmp_path)["script"].removesuffix("exit\n")
    tables = HBaseBackend(shelled).tables()
    again = ddl.render_script(tables).partition("\n\n")[0]  # the namespace is there already
    try:
        assert_same(hbase, f"{script}\n{again}", shelled, url, options)
        assert run("tables", "check", "--store", shelled, cwd=tmp_path).returncode == 10  # no profile yet
        result("tables", "create", *by_shell, cwd=tmp_path)
        checked = result("tables", "check", "--store", shelled, "--ttl", "1d", cwd=tmp_path)
        assert checked["attributes_compared"] == sum(
            len(table.attributes) for table in HBaseBackend(shelled).tables(Options(ttl=86400))
        )
        half = run("tables", "check", "--store", shelled.partition("?")[0], "--json", cwd=tmp_path)
        assert half.returncode == 15  # nothing says that the attributes are the same
        assert json.loads(half.stdout)["same"] is None
        assert "were not compared: " in half.stderr.decode()
    finally:
        drop_store(shelled)


def test_a_namespace_goes_with_the_last_tables_of_those_that_create_made(hbase, tmp_path):
    name = f"namespace{time.time_ns()}"
    one, other = hbase.url(f"{name}:one"), hbase.url(f"{name}:other")
    given = hbase.url(f"given{name}:one")
    port = hbase.description["ports"]["thrift2"]
    with client_context(idl.Administration, LOCALHOST, port, socket_timeout=60_000) as gateway:
        # Somebody else made it.
        gateway.createNamespace(idl.TNamespaceDescriptor(name=f"given{name}", configuration={}))
        for url in (one, other, given):
            HBaseBackend(url).make(Options(regions=1))
        drop_store(one)
        drop_store(given)
        assert name.encode() in gateway.listNamespaces()
        drop_store(other)
        there = gateway.listNamespaces()
        assert name.encode() not in there
        assert f"given{name}".encode() in there
        gateway.deleteNamespace(f"given{name}")


def test_a_compression_that_the_cluster_has_not_is_refused_with_its_words(url, tmp_path):
    done = run("tables", "create", "--store", url, "--regions", 1, "--compression", "lzo", cwd=tmp_path)
    assert done.returncode == 1
    assert "creating created_index failed: " in done.stderr.decode()
    assert "lzo" in done.stderr.decode().lower()  # its class, or that it failed a test before


def test_a_change_in_the_shell_is_told_until_it_is_undone(hbase, url, tmp_path):
    store = ("--store", url)
    result("tables", "create", *store, "--regions", 1, cwd=tmp_path)
    index = HBaseBackend(url).tables()[0]
    hbase.shell(
        "alter 'created_index', {NAME => 'i', BLOOMFILTER => 'ROW', "
        f"CONFIGURATION => {{'{ddl.BLOOM_PREFIX}' => '7'}}}}\n"
        f"{ddl.render_alter(index, ['BLOOMFILTER', ddl.BLOOM_PREFIX])}\n"
        "alter 'created_meta', {NAME => 'd', TTL => '60', VERSIONS => '2'}\nexit\n"
    )
    for command in ("check", "create"):
        done = run("tables", command, *store, cwd=tmp_path)
        assert done.returncode == 14
        difference = "created_meta: VERSIONS is 2, not 1; created_meta: TTL is 60, not FOREVER."
        assert done.stderr.decode().startswith(f"Error: {difference}")


def test_tables_that_may_lose_writes_are_warned_of(hbase, url, tmp_path):
    def warnings() -> list[str]:
        return result("tables", "check", "--store", url, cwd=tmp_path)["warnings"]

    def durabilities() -> list[str]:
        described = result("tables", "describe", "--store", url, cwd=tmp_path)["tables"]
        return [described[table]["durability"] for table in TABLES]

    result("tables", "create", "--store", url, "--regions", 1, cwd=tmp_path)
    assert warnings() == []
    chosen = ["SKIP_WAL", "ASYNC_WAL", "SYNC_WAL", "FSYNC_WAL", "SKIP_WAL"]
    alters = [
        f"alter 'created_{table}', DURABILITY => '{durability}'"
        for table, durability in zip(TABLES, chosen, strict=True)
    ]
    change = "alter 'created_meta', DURABILITY => 'USE_DEFAULT'"
    hbase.shell("\n".join([*alters, change, "exit\n"]))
    assert durabilities() == [*chosen[:4], "USE_DEFAULT"]
    (warning,) = warnings()
    assert "created_index (SKIP_WAL), created_fingerprints (ASYNC_WAL)." in warning
    assert change.replace("meta", "index") in warning
    done = run("tables", "check", "--store", url, cwd=tmp_path)
    assert (done.returncode, b"created_index (SKIP_WAL)" in done.stderr) == (0, True)


def test_who_asks_for_other_regions_than_there_are_is_told(url, tmp_path):
    create = ("tables", "create", "--store", url)
    assert result(*create, "--regions", 2, cwd=tmp_path)["warnings"] == []
    assert result(*create, cwd=tmp_path)["warnings"] == []
    (warning,) = result(*create, "--regions", 4, cwd=tmp_path)["warnings"]
    assert "created_index has 2, not 4; created_fingerprints has 2, not 4" in warning
    told = run(*create, "--regions", 4, cwd=tmp_path)
    assert (told.returncode, b"created_index has 2, not 4" in told.stderr) == (0, True)


def test_two_who_create_tables_at_once_with_other_regions_are_told_what_came_out(url, connection, tmp_path):
    create = ("tables", "create", "--store", url, "--json", "--regions")
    with ThreadPoolExecutor() as threads:
        said = {regions: threads.submit(run_alone, *create, regions, cwd=tmp_path) for regions in (2, 4)}
    there = {table: len(starts(connection, f"created_{table}")) for table in TABLES[:-1]}
    for regions, process in said.items():
        done = process.result()
        assert done.returncode == 0, done.stderr
        warnings = " ".join(json.loads(done.stdout)["warnings"])
        for table, count in there.items():
            told = f"created_{table} has {count}, not {regions}"
            assert (told in warnings) == (told in done.stderr.decode()) == (count != regions)


def test_drawers_that_would_be_longer_than_are_read_are_warned_of(url, tmp_path):
    create = ("tables", "create", "--store", url, "--json")
    run(*create, "--set", "layout=4x1", "--regions", 1, cwd=tmp_path)
    told = result(*create, "--documents", 10**9, cwd=tmp_path)["warnings"]
    assert any("layout 4x1 has 15,259 rows a drawer" in warning for warning in told)
    assert any("created_index has 1, not 16" in warning for warning in told)  # by the stored profile


def test_a_life_of_tables_on_the_command_line(url, connection, tmp_path):
    plain = url.partition("?")[0]

    def tables(*arguments: object, store: str = url, stdin: bytes = b"") -> tuple[int, str]:
        done = run("tables", *arguments, "--store", store, cwd=tmp_path, stdin=stdin)
        return done.returncode, done.stdout.decode() + done.stderr.decode()

    assert tables("check")[0] == tables("drop")[0] == tables("check", store=plain)[0] == 10
    code, said = tables("create", store=plain)
    assert (code, "thrift2=PORT" in said, "tables ddl" in said) == (10, True, True)

    assert tables("create", "--set", "k=9", "--regions", 3)[0] == 2
    assert not [table for table in connection.tables() if table.startswith(b"created_")]
    chosen = ("--regions", 3, "--ttl", "60m", "--compression", "zstd")
    assert tables("create", "--set", "layout=4x1", *chosen)[0] == 0
    code, said = tables("create")
    assert (code, "layout" in said) == (0, False)
    assert re.search(r"^  created_obsolete +3\n  created_meta +1$", said, re.MULTILINE)
    assert "layout" in tables("create", "-v")[1]
    said = tables("describe")[1]
    assert re.search(r"^ +DATA_BLOCK_ENCODING +FAST_DIFF$", said, re.MULTILINE)
    assert re.search(r"^ +RowPrefixBloomFilter.prefix_length +5$", said, re.MULTILINE)
    assert re.search(r"^ +bytes per region +[0-9]+$", said, re.MULTILINE)
    assert tables("create", "--set", "layout=5x2")[0] == 12
    assert tables("create", "--ttl", "61m")[0] == tables("check", "--ttl", "61m")[0] == 14

    described = result("tables", "describe", "--store", url, cwd=tmp_path)["tables"]
    assert {name: (table["name"], table["regions"]) for name, table in described.items()} == {
        "index": ("created_index", 3),
        "fingerprints": ("created_fingerprints", 3),
        "documents": ("created_documents", 3),
        "obsolete": ("created_obsolete", 3),
        "meta": ("created_meta", 1),
    }
    ttls = {name: table["attributes"]["TTL"] for name, table in described.items()}
    assert {table["attributes"]["COMPRESSION"] for table in described.values()} == {"ZSTD"}
    assert ttls == dict.fromkeys(TABLES, "3600") | {"meta": "FOREVER"}
    assert result("tables", "describe", "--store", plain, cwd=tmp_path)["tables"] == {}

    for command in ("create", "describe"):
        code, said = tables(command, store=plain)
        assert (code, "tables and regions are not shown" in said) == (0, True)

    code, said = tables("check", store=plain)
    assert (code, "not compared: VERSIONS, DATA_BLOCK_ENCODING" in said) == (15, True)

    connection.delete_table("created_fingerprints", disable=True)
    code, said = tables("check")
    assert (code, "created_fingerprints not found" in said) == (10, True)
    assert tables("check", store=plain)[0] == 10
    assert tables("create")[0] == tables("check")[0] == 0
    described = result("tables", "describe", "--store", url, cwd=tmp_path)["tables"]
    assert described["fingerprints"]["attributes"]["TTL"] == "3600"

    connection.delete_table("created_fingerprints", disable=True)
    code, said = tables("drop")
    question = (
        "delete created_index, created_documents, created_obsolete, created_meta "
        "(not complete, or damaged) of hbase://"
    )
    assert (code, question in said) == (2, True)
    assert tables("drop", "--yes", store=plain)[0] == 2
    assert tables("drop", "--yes")[0] == 0
    assert tables("drop", "--yes")[0] == 10
    assert not [table for table in connection.tables() if table.startswith(b"created_")]


def test_a_pipeline_that_answers_differently_is_refused(url, tmp_path):
    result("tables", "create", "--store", url, "--regions", 2, cwd=tmp_path)
    with closing(open_store(url, "write")) as store:
        found = Meta(store).get(b"profile")
        stored = json.loads(found)
        stored["probes"][0] = "0" * 16
        Meta(store).put([(b"profile", json.dumps(stored).encode())])
    assert run("tables", "check", "--store", url, cwd=tmp_path).returncode == 12


def assert_same(hbase: Cluster, script: str, by_shell: str, by_thrift: str, options: Options) -> None:
    """Runs a script in the shell, and compares attributes and regions."""
    pairs = [
        (shelled.full_name, created.full_name)
        for shelled, created in zip(
            *(HBaseBackend(each).tables(Options(counts=options.counts)) for each in (by_shell, by_thrift)),
            strict=True,
        )
    ]
    asking = "".join(f"describe '{name}'\n" for pair in pairs for name in pair)
    tables = described(hbase.shell(f"{script}\n{asking}exit\n"))
    # A gateway would have closed a connection from before the shell's minute.
    with closing(happybase.Connection(*hbase.gateway, timeout=60_000)) as connection:
        for shelled, created in pairs:
            assert tables[shelled] == tables[created]
            assert starts(connection, shelled) == starts(connection, created)
            assert len(starts(connection, created)) == options.regions_of(created.rpartition("_")[2])
    HBaseBackend(by_shell).check(options)
    HBaseBackend(by_thrift).check(options)


def test_creating_again_changes_nothing(url):
    assert HBaseBackend(url).make(SMALL) == [f"created_{table}" for table in TABLES]
    with closing(open_store(url, "write")) as store:
        store.records("meta").put([(b"a", b"1")])
    assert HBaseBackend(url).make(SMALL) == []
    with closing(create_store(url)) as store:
        (found,) = store.records("meta").get([b"a"])
        assert found.value == b"1"


def test_a_half_made_set_is_missing_until_it_is_completed(url, connection):
    HBaseBackend(url).make(SMALL)
    for table in ("created_fingerprints", "created_meta"):
        connection.delete_table(table, disable=True)
    with pytest.raises(TablesMissing, match=r"created_fingerprints is missing.*tables create"):
        open_store(url, "write")
    with pytest.raises(TablesMissing, match="created_fingerprints, created_meta not found"):
        HBaseBackend(url).check(SMALL)
    assert HBaseBackend(url).make(SMALL) == ["created_fingerprints", "created_meta"]
    open_store(url, "write").close()


def test_tables_made_otherwise_are_named_attribute_by_attribute(url, connection):
    connection.create_table("created_index", {"i": {"max_versions": 3, "bloom_filter_type": "ROW"}})
    connection.create_table("created_documents", {"x": {}})
    with pytest.raises(SchemaDiffers) as caught:
        HBaseBackend(url).make(SMALL)
    for difference in [
        "created_index: VERSIONS is 3, not 1",
        "created_index: DATA_BLOCK_ENCODING is NONE, not FAST_DIFF",
        "created_index: BLOCKSIZE is 65536, not 16384",
        "created_index: BLOCKCACHE is false, not true",
        "created_index: BLOOMFILTER is ROW, not ROWPREFIX_FIXED_LENGTH",
        "created_index: RowPrefixBloomFilter.prefix_length is missing, not 5",
        "created_documents: NAME is missing, not d",
    ]:
        assert difference in str(caught.value)
    assert caught.value.exit_code == 14
    created = {"created_meta", "created_fingerprints", "created_obsolete"}
    assert not created & {table.decode() for table in connection.tables()}


def test_a_chosen_compression_is_compared_and_another_left_alone(url):
    HBaseBackend(url).make(Options(regions=2, compression="GZ"))
    HBaseBackend(url).check()
    with pytest.raises(SchemaDiffers, match="created_index: COMPRESSION is GZ, not NONE"):
        HBaseBackend(url).check(Options(compression="NONE"))


def test_dropping_deletes_everything_and_then_says_that_nothing_is_there(url, connection):
    HBaseBackend(url).make(SMALL)
    connection.disable_table("created_documents")
    drop_store(url)
    assert not [table for table in connection.tables() if table.startswith(b"created_")]
    with pytest.raises(TablesMissing, match="none of created_index"):
        drop_store(url)
    with pytest.raises(TablesMissing):
        open_store(url, "read")


def test_other_tables_with_the_same_beginning_stay(url, hbase):
    HBaseBackend(url).make(SMALL)
    other = hbase.url("created_meta")
    HBaseBackend(other).make(SMALL)
    try:
        drop_store(url)
        open_store(other, "read").close()
    finally:
        drop_store(other)


def test_without_thrift_2_tables_are_used_but_not_made(url):
    plain = url.partition("?")[0]
    with pytest.raises(TablesMissing, match="created_index is missing"):
        create_store(plain)
    for administer in (HBaseBackend(plain).make, HBaseBackend(plain).check, HBaseBackend(plain).drop):
        with pytest.raises(UsageError, match="name a Thrift 2 gateway with thrift2=PORT"):
            administer()
    HBaseBackend(url).make(SMALL)
    create_store(plain).close()


def test_a_disabled_table_is_named(url, connection):
    HBaseBackend(url).make(SMALL)
    connection.disable_table("created_fingerprints")
    with pytest.raises(StoreFailed, match="created_fingerprints is disabled: in the hbase shell, enable"):
        open_store(url, "read")


def test_a_table_that_is_dropped_under_an_open_store_is_missing(url):
    HBaseBackend(url).make(SMALL)
    with closing(open_store(url, "write")) as store:
        drop_store(url)
        for use in (
            lambda: store.records("documents").put([(b"a", b"1")], version=1),
            lambda: store.records("documents").get([b"a"]),
            lambda: store.records("documents").scan([b"a"], 1),
            lambda: store.records("documents").increment(b"a"),
            lambda: store.records("documents").compare_and_set(b"a", None, b"1"),
        ):
            with pytest.raises(TablesMissing, match="created_documents is missing"):
                use()


def test_a_gateway_of_the_other_version_is_named(hbase, url):
    host, port = hbase.gateway
    thrift2 = hbase.description["ports"]["thrift2"]
    with pytest.raises(StoreFailed, match=f"{host}:{thrift2} is a Thrift 2 gateway, and a Thrift 1 gateway"):
        open_store(f"hbase://{host}:{thrift2}/created", "read")
    with pytest.raises(StoreFailed, match=f"{host}:{port} is a Thrift 1 gateway, and a Thrift 2 gateway"):
        HBaseBackend(f"hbase://{host}:{port}/created?thrift2={port}").make()


def test_no_thrift_2_gateway_is_said_within_the_time_allowed(hbase, free_port):
    host, port = hbase.gateway
    with pytest.raises(StoreUnreachable, match="no Thrift 2 gateway for created_index answered within 1 s"):
        HBaseBackend(f"hbase://{host}:{port}/created?thrift2={free_port}&timeout=1").make()


@pytest.mark.parametrize("counts", [False, True])
def test_scripts_for_the_shell_take_the_table_of_counts_where_it_is(hbase, url, connection, counts):
    HBaseBackend(url).make(Options(regions=1, counts=counts))
    name = f"counts{time.time_ns()}"
    hbase.shell(HBaseBackend(url).compaction_script())
    hbase.shell(HBaseBackend(url).snapshot_script(name))
    drop_store(url)
    hbase.shell(HBaseBackend(url).clone_script(name))
    there = {table.decode() for table in connection.tables()} & {"created_meta", "created_met"}
    assert there == ({"created_meta", "created_met"} if counts else {"created_meta"})
    HBaseBackend(url).check(Options(counts=counts))
    gone = [*TABLES, "met"] if counts else TABLES
    hbase.shell("".join(f"delete_snapshot '{name}-{table}'\n" for table in gone) + "exit\n")


def test_a_snapshot_that_loses_its_lock_on_a_table_is_taken_again(hbase, url):
    """HBase loses it by chance, and a minute later: here the shell's own command fails twice, at once."""
    failing = """
    def self.snapshot(table, name)
      (@asked ||= []) << table
      return if @asked.count(table) > 2
      raise org.apache.hadoop.hbase.snapshot.HBaseSnapshotException.new(
        "due to exception:#{@refusal || 'Could not acquire shared lock on table'} #{table}")
    end
    """
    script = HBaseBackend(url).snapshot_script("again").removesuffix("exit\n")
    shell = Shell(hbase.command("shell"))
    with closing(shell):
        said = shell.run(f"{failing}\n{script}\nputs @asked.inspect\n")
        asked = json.loads(said.splitlines()[-1])
        in_order = ("meta", "documents", "fingerprints", "index", "obsolete")
        assert asked == [f"created_{table}" for table in in_order for _ in range(3)]
        with pytest.raises(AssertionError, match="no such table"):
            shell.run(f"@asked = []; @refusal = 'no such table'\n{script}")
