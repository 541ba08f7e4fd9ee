"""How RocksDB is set.

The options were chosen by measurement: 300,000 and a million documents of ten random rows, inserted a
thousand at a time, on two cores. Level compaction with its defaults stayed: universal inserted no faster
and left lookups twice as slow until compacted.
"""

from __future__ import annotations

import os
from pathlib import Path

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    SliceTransform,
    WriteOptions,
)

from simhbase.drawers.rowkeys import PREFIX_BYTES
from simhbase.errors import StoreFailed
from simhbase.stores.base import ATOMIC_TABLES

CACHE_BYTES = 128 << 20
ENTRY_BYTES = 4 << 10  # parts of filters and indexes are the smallest
L0_FILES = 4  # that may hold any key, of each table, before they are merged with others: RocksDB's default
CONFIGURATION = "rocksdict-config.json"
INDEX = "index"
TABLES = (INDEX, *ATOMIC_TABLES)
_PROCESSES: set[int] = set()  # those that have opened a store: this one, and whichever it was forked from


def open_rdict(path: Path, options: Options, access: AccessType) -> Rdict:
    """A database with all its tables. Raises StoreFailed in a process that was forked from one that had
    opened a store, and what rocksdict raises."""
    _PROCESSES.add(os.getpid())
    if len(_PROCESSES) > 1:
        raise StoreFailed(
            f"{path} cannot be opened here: this process was forked from one that had opened a store, and "
            "the threads of RocksDB do not outlive a fork. Start processes by multiprocessing's 'spawn'"
        )
    # The LRU cache, the default, took 1.5 times as long.
    cache = Cache.new_hyper_clock_cache(CACHE_BYTES, ENTRY_BYTES)
    families = {INDEX: index_options(cache)} | {table: records_options(cache) for table in ATOMIC_TABLES}
    return Rdict(str(path), options, column_families=families, access_type=access)


def database_options() -> Options:
    """Of a store as a whole."""
    options = Options(raw_mode=True)
    # The log is kept until every table has flushed what is in it, and a reader that opens replays it:
    # 1 microsecond a row, so 2 s at worst.
    options.set_max_total_wal_size(32 << 20)
    # It replays the manifest too.
    options.set_max_manifest_file_size(1 << 20)
    # 16 threads, the default, are started anew for every table whenever a reader catches up: that
    # takes 3 to 20 ms instead of 0.05.
    options.set_max_file_opening_threads(1)
    options.set_keep_log_file_num(3)
    options.set_stats_dump_period_sec(0)
    return options


def index_options(cache: Cache) -> Options:
    """Of the table index."""
    options = records_options(cache)
    # 16 MB inserted 0.9 times as fast, 64 MB no faster.
    options.set_write_buffer_size(32 << 20)
    options.set_max_write_buffer_number(3)
    options.set_prefix_extractor(SliceTransform.create_fixed_prefix(PREFIX_BYTES))
    # Lookups of what is not there: 10 microseconds in memory tables instead of 30, for inserts 0.9
    # times as fast.
    options.set_memtable_prefix_bloom_ratio(0.02)
    return options


def records_options(cache: Cache) -> Options:
    """Of the other tables."""
    # No prefix extractor: scans look for what is there, and took 9 microseconds each instead of 6.
    options = Options(raw_mode=True)
    options.set_write_buffer_size(8 << 20)
    # Bytes a document in the index: 237 uncompressed, 140 with lz4, which costs lookups nothing,
    # 118 with zstd, which makes those that miss the cache 1.7 times as long.
    options.set_compression_type(DBCompressionType.lz4())
    options.set_block_based_table_factory(_blocks(cache))
    return options


def _blocks(cache: Cache) -> BlockBasedOptions:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(cache)
    # 4 KiB: 140 bytes a document, 8: 130, 16: 123, but lookups that miss the cache take 1.6 times as long.
    blocks.set_block_size(8 << 10)
    blocks.set_bloom_filter(10, block_based=False)
    # Filters in the cache, and in parts: held beside it they answer a lookup of what is not there in
    # 10 microseconds instead of 18, but take 13 MB for every million documents; whole ones do not fit
    # into a shard of the cache and are read from the disk each time.
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    blocks.set_index_type(BlockBasedIndexType.two_level_index_search())
    blocks.set_partition_filters(True)
    return blocks


def _within_drawer() -> ReadOptions:
    options = ReadOptions()
    options.set_prefix_same_as_start(True)
    return options


def _in_order() -> ReadOptions:
    options = ReadOptions()
    options.set_total_order_seek(True)
    return options


def _sorted_writes() -> WriteOptions:
    options = WriteOptions()
    options.memtable_insert_hint_per_batch = True
    return options


WITHIN_DRAWER = _within_drawer()
IN_ORDER = _in_order()
WRITES = _sorted_writes()
