"""RocksDB options.

They were chosen by measurement: 300,000 and a million documents of ten random rows, inserted a thousand at a
time, on two cores. Level compaction with its defaults was kept: universal compaction inserted no faster and
left lookups twice as slow until compacted.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    ReadOptions,
    SliceTransform,
    WriteOptions,
)

from simhbase.drawers.rowkeys import PREFIX_BYTES
from simhbase.errors import StoreFailed
from simhbase.stores.base import ATOMIC_TABLES, MET
from simhbase.stores.rocksdb.memory import Memory

L0_FILES = 4  # level-0 files per table that trigger merging: RocksDB's default
MERGED_FILES = "level0_file_num_compaction_trigger"
CONFIGURATION = "rocksdict-config.json"
INDEX = "index"
TABLES = (INDEX, *ATOMIC_TABLES)
_PROCESSES: set[int] = set()  # processes that opened a store: this one and its ancestors by fork


def open_rdict(
    path: Path,
    options: Options,
    access: AccessType,
    memory: Memory,
    tables: Sequence[str] | None = None,
) -> Rdict:
    """Open a database with all its tables, or only some for reading. Raises StoreFailed in a process forked
    from one that had opened a store, and the exceptions of rocksdict."""
    _PROCESSES.add(os.getpid())
    if len(_PROCESSES) > 1:
        raise StoreFailed(
            f"{path} cannot be opened here: this process was forked from one that had opened a store, and "
            "RocksDB does not survive a fork. Start processes with multiprocessing's 'spawn'"
        )
    if tables is None:
        tables = TABLES
        with suppress(Exception):  # what is wrong is told below
            # Not with the given options: their folder of logs may be a temporary one.
            tables = (*TABLES, *{MET}.intersection(Rdict.list_cf(str(path), Options(raw_mode=True))))
    index = index_options(memory.blocks, memory.holds_filters)
    # Most rows, and so most filters, belong to the last level: 12 MB for a million documents. Without them
    # an empty drawer costs one read, like any other.
    index.set_optimize_filters_for_hits(not memory.has_room_for_filters(path))
    records = {table: records_options(memory.blocks) for table in (*ATOMIC_TABLES, MET)}
    # Adding reads documents only.
    records["fingerprints"] = records_options(memory.blocks, memory.holds_filters)
    families = {INDEX: index} | records
    chosen = {table: families[table] for table in tables}
    return Rdict(str(path), options, column_families=chosen, access_type=access)


def database_options() -> Options:
    options = Options(raw_mode=True)
    # The log is kept until every table is flushed, and an opening reader replays it: 1 microsecond per row,
    # 2 s at worst.
    options.set_max_total_wal_size(32 << 20)
    # A log that was cut by a crash opens with all writes before the cut. By default a damaged byte also hides
    # all writes behind it.
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    # It replays the manifest, too.
    options.set_max_manifest_file_size(1 << 20)
    # By default 16 threads are started for every table whenever a reader catches up, which takes 3 to 20 ms
    # instead of 0.05.
    options.set_max_file_opening_threads(1)
    # For the cache hit rate; reading drawers takes a tenth longer.
    options.enable_statistics()
    options.set_keep_log_file_num(3)
    options.set_stats_dump_period_sec(0)
    return options


def index_options(cache: Cache, holds_filters: bool = True) -> Options:
    # A lookup reads one block per non-empty drawer. With 4 KiB blocks, disk reads are 0.8 times as fast as
    # with 8 KiB, and the index is 7 % larger.
    # Filters are most of the memory of a large store: 10 MB a million documents with 8 bits a drawer, which
    # take one drawer in 45 without rows for one with some, instead of one in 100 with 10 bits.
    options = records_options(cache, holds_filters, block_size=4 << 10, filter_bits=8)
    # 16 MB inserted 0.9 times as fast, 64 MB no faster.
    options.set_write_buffer_size(32 << 20)
    options.set_max_write_buffer_number(3)
    options.set_prefix_extractor(SliceTransform.create_fixed_prefix(PREFIX_BYTES))
    # Lookups of absent keys take 10 microseconds in memory tables instead of 30; inserts are 0.9 times as
    # fast.
    options.set_memtable_prefix_bloom_ratio(0.02)
    return options


def records_options(
    cache: Cache, holds_filters: bool = True, *, block_size: int = 8 << 10, filter_bits: int = 10
) -> Options:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(cache)
    blocks.set_block_size(block_size)
    blocks.set_format_version(6)
    blocks.set_bloom_filter(filter_bits, block_based=False)
    # Indexes and filters are unpartitioned and held outside the cache: a drawer with rows takes one read,
    # an empty one none. Partitioned, in a cache too small for them, each took a separate read on each level:
    # 27 for a text among 10 million. For appending alone they would be 12 MB of memory a million documents.
    blocks.set_cache_index_and_filter_blocks(not holds_filters)
    # No prefix extractor: scans look for existing keys, and took 9 microseconds instead of 6.
    options = Options(raw_mode=True)
    options.set_write_buffer_size(8 << 20)
    # Bytes per document in the index: 237 uncompressed, 140 with lz4 (lookups as fast), 118 with zstd
    # (lookups that miss the cache take 1.7 times as long).
    options.set_compression_type(DBCompressionType.lz4())
    options.set_block_based_table_factory(blocks)
    return options


def _within_drawer() -> ReadOptions:
    options = ReadOptions()
    options.set_prefix_same_as_start(True)
    return options


def _in_order() -> ReadOptions:
    options = ReadOptions()
    options.set_total_order_seek(True)
    return options


def _scanning() -> ReadOptions:
    """For full scans: their blocks would evict others from the cache."""
    options = _in_order()
    options.fill_cache(False)  # type: ignore[call-arg]  # the stub lacks the argument
    return options


def _sorted_writes() -> WriteOptions:
    options = WriteOptions()
    options.memtable_insert_hint_per_batch = True
    return options


WITHIN_DRAWER = _within_drawer()
IN_ORDER = _in_order()
SCANNING = _scanning()
WRITES = _sorted_writes()
