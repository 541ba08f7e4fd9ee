"""A map on disk that ends with its process."""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from tempfile import gettempdir
from typing import cast

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from simhbase.errors import SimhbaseError
from simhbase.process.temporary import TemporaryFolder

_CACHE = 16 << 20  # bytes, of blocks and of filters: those of 13 million ids
_WRITE_BUFFER = 8 << 20


class Scratch:
    """Bytes by keys, in a folder among temporary files, with a bounded amount of memory.

    The folder is removed with this object. Raises SimhbaseError naming the folder where it cannot be written
    or read.
    """

    def __init__(self) -> None:
        try:
            self._folder = TemporaryFolder("scratch")
            self._rdict = Rdict(str(self._folder.path / "map"), _options())
        except Exception as error:  # rocksdict raises bare ones
            raise self._failed(error) from error
        self._end = weakref.finalize(self, _close, self._rdict, self._folder, os.getpid())

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values, None where a key is absent."""
        try:
            return cast(list[bytes | None], self._rdict.get(list(keys)))
        except Exception as error:
            raise self._failed(error) from error

    def put(self, values: Mapping[bytes, bytes]) -> None:
        batch = WriteBatch(raw_mode=True)
        try:
            deque(map(batch.put, values, values.values()), maxlen=0)
            self._rdict.write(batch, _WRITES)
        except Exception as error:
            raise self._failed(error) from error

    @staticmethod
    def _failed(error: Exception) -> SimhbaseError:
        return SimhbaseError(
            f"cannot keep ids in {gettempdir()}, by which those that come twice are found: {error}. Make "
            "room there, or name another folder with TMPDIR"
        )


def _options() -> Options:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(Cache.new_hyper_clock_cache(_CACHE, 4 << 10))
    blocks.set_format_version(6)
    blocks.set_bloom_filter(10, block_based=False)
    blocks.set_index_type(BlockBasedIndexType.two_level_index_search())
    blocks.set_partition_filters(True)
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_pin_top_level_index_and_filter(True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_size(_WRITE_BUFFER)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_stats_dump_period_sec(0)
    return options


def _unlogged() -> WriteOptions:
    options = WriteOptions()
    options.disable_wal = True  # type: ignore[method-assign,assignment]  # the stub has it as a method
    return options


_WRITES = _unlogged()


def _close(rdict: Rdict, folder: TemporaryFolder, process: int) -> None:
    if process == os.getpid():
        with suppress(Exception):  # writes what is in memory, which a full disk has no room for
            rdict.close()
    folder.remove()
