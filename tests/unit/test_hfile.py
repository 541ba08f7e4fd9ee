"""HFiles, by their bytes. In tests/integration/test_hbase_hfiles.py HBase itself reads them."""

import errno
import gzip
import io
import os
import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.errors import StoreFailed, UsageError
from simhbase.stores.hbase.hfile import GZ, Family, HFileWriter, _Blocks
from simhbase.stores.hbase.hfiles import TableRows, even_borders, sampled_borders
from simhbase.stores.strings import Strings

TIME = 0x19200000001
HEADER = 33
STRINGS = st.lists(st.binary(max_size=40), max_size=30)


def hfile(rows: dict[bytes, bytes], family: Family, **options: int) -> bytes:
    file = io.BytesIO()
    writer = HFileWriter(file, family, TIME, **options)
    writer.put(Strings.of(list(rows)), Strings.of(list(rows.values())))
    writer.close()
    return file.getvalue()


def blocks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Magic, and content without checksums, of each block; the trailer last."""
    place = 0
    while content[place : place + 8] != b'TRABLK"$':
        end = place + HEADER + int.from_bytes(content[place + 8 : place + 12])
        length = int.from_bytes(content[place + 29 : place + 33])
        sums = [zlib.crc32(content[place : place + length])] if length <= 16_384 else []
        assert b"".join(each.to_bytes(4) for each in sums) == content[place + length : end] or not sums
        yield content[place : place + 8], content[place + HEADER : place + length]
        place = end
    yield b'TRABLK"$', content[place + 8 :]


ROWS = {b"ka": b"\1", b"kb": b"\2\3", b"kbc": b""}


def test_blocks_of_a_small_file():
    content = hfile(ROWS, Family(b"d", bloom=0))
    data, bloom, root, meta_root, _, about, trailer = blocks(content)
    assert content[:HEADER].hex() == (
        "44415441424c4b45" "0000002f" "0000002b"  # DATABLKE, 47 bytes behind the header, 43 of content
        "ffffffffffffffff" "01" "00004000" "0000004c"  # the first of its kind; CRC-32 for 16,384 bytes; 76
    )  # fmt: skip
    key = "00026b610164000001920000000104"  # row ka, family d, time, put
    assert data[1].hex() == (
        "0004" "00000049" "00" "0f" "01" "00" + key + "01"  # FAST_DIFF, 73 bytes of cells; the first cell
        "2f" "02" "03" "62" "01" "0203"  # length of value differs: 2; 3 bytes as before; b, time, value
        "27" "10" "00" "00" "0003" "6b6263" "01"  # both lengths differ: 16, 0; nothing as before
    )  # fmt: skip
    assert bloom == (b"BLMFBLK2", bytes.fromhex("e2088889c1a01a00"))
    assert root == (b"IDXROOT2", bytes.fromhex("0000000000000000000000500f" + key))
    assert meta_root == (b"IDXROOT2", b"")
    assert about == (
        b"BLMFMET2",
        bytes.fromhex(
            "00000003" "0000000000000008" "00000007" "00000001"  # version, 8 bytes, 7 hashes, Murmur
            "0000000000000003" "0000000000000006" "00000001" "00"  # 3 rows, room for 6, one block
            "0000000000000050" "0000002d" "02" "6b61"
        ),
    )  # fmt: skip
    message = (
        "08e301" "107d" "181c" "20df25" "2801" "3000" "3803" "4001" "4800" "5000" "5a2e"
        + b"org.apache.hadoop.hbase.KeyValue$KeyComparator".hex() + "6002"
    )  # fmt: skip
    assert trailer[1].hex() == ("48" + message).ljust(2 * 4084, "0") + "03000003"


def test_what_a_file_says_of_itself():
    (info,) = (
        content for magic, content in blocks(hfile(ROWS, Family(b"d", bloom=0))) if magic == b"FILEINF2"
    )
    assert info.startswith(bytes.fromhex("504255468c030a180a11") + b"BLOOM_FILTER_TYPE\x12\x03ROW")
    for name, value in (
        (b"DATA_BLOCK_ENCODING", b"FAST_DIFF"),
        (b"LAST_BLOOM_KEY", b"kbc"),
        (b"TIMERANGE", TIME.to_bytes(8) * 2),
        (b"hfile.LASTKEY", b"\0\3kbc\1d" + TIME.to_bytes(8) + b"\4"),
    ):
        assert bytes([len(name)]) + name + b"\x12" + bytes([len(value)]) + value in info


def test_an_index_of_three_levels():
    rows = {f"k{number:02}".encode(): b"" for number in range(20)}
    found = list(blocks(hfile(rows, Family(b"d", block_bytes=1), index_bytes=1)))
    leaves = [content for magic, content in found if magic == b"IDXLEAF2"]
    inner = [content for magic, content in found if magic == b"IDXINTE2"]
    assert leaves[0].hex() == (
        "00000001" "00000000" "0000001c" "0000000000000000" "0000003f"  # one entry of 28 bytes: a block
        "0003" "6b3030" "0164" "0000019200000001" "04"
    )  # fmt: skip
    assert [int.from_bytes(content[:4]) for content in inner] == [16, 4]
    before = "00036b3031007fffffffffffffffff"  # before all cells of the row k01
    assert before in inner[0].hex()
    root = next(content for magic, content in found if magic == b"IDXROOT2")
    middle = "00000000000005230000004c00000000"  # the leaf of the tenth block
    assert root.hex().endswith(middle)


def test_content_is_compressed_where_the_family_is():
    plain, packed = (dict(blocks(hfile(ROWS, Family(b"d", compression=each)))) for each in (2, GZ))
    assert gzip.decompress(packed[b"DATABLKE"]) == plain[b"DATABLKE"]


@pytest.mark.parametrize(
    "rows", [[b"b", b"a"], [b"a", b"a"], [b"a" * 70 + b"b", b"a" * 70 + b"a"], [b"a\0", b"a"]]
)
def test_rows_out_of_order_are_refused(rows):
    writer = HFileWriter(io.BytesIO(), Family(b"d"), TIME)
    with pytest.raises(ValueError, match="ascending order"):
        writer.put(Strings.of(rows))


LIVE = {
    "BLOOMFILTER": "ROWPREFIX_FIXED_LENGTH",
    "RowPrefixBloomFilter.prefix_length": "5",
    "BLOCKSIZE": "8192",
}


def test_a_family_is_kept_as_the_live_table_says():
    assert Family.of("t", b"i", LIVE) == Family(b"i", 8192, 5, 2)
    assert Family.of("t", b"i", {"BLOOMFILTER": "ROW", "COMPRESSION": "ZSTD"}) == Family(b"i", 16_384, 0, GZ)
    assert Family.of("t", b"i", {"BLOOMFILTER": "NONE"}) == Family(b"i")


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        (
            "ENCRYPTION",
            "AES",
            r"cannot write HFiles for t: .*encrypted \(ENCRYPTION AES\).*through the gateways instead",
        ),
        ("IS_MOB", "true", "large values in files of their own"),
        ("COMPRESS_TAGS", "true", "cells have tags"),
        ("BLOOMFILTER", "ROWCOL", "rows and columns"),
    ],
)
def test_a_family_that_files_would_break_is_refused(attribute, value, message):
    with pytest.raises(UsageError, match=message):
        Family.of("t", b"i", {**LIVE, attribute: value})


# Rows on their way to files


@given(STRINGS)
def test_strings_are_sorted_as_bytes_are(strings):
    found = Strings.of(strings)
    order, repeated = found.order()
    assert found.take(order).to_list() == sorted(strings)
    assert found.take(order[~repeated]).to_list() == sorted(set(strings))


@given(STRINGS, st.data())
def test_strings_are_joined_padded_and_cut(strings, data):
    found, other = Strings.of(strings), Strings.of(strings[::-1])
    joined = Strings.joined(found, other)
    assert joined.to_list() == [a + b for a, b in zip(strings, strings[::-1], strict=True)]
    start = data.draw(st.integers(0, len(strings)))
    end = data.draw(st.integers(start, len(strings)))
    assert found.between(start, end).to_list() == strings[start:end]
    assert [row.tobytes() for row in found.padded()] == [each.ljust(found.longest, b"\0") for each in strings]


@pytest.mark.parametrize(
    "borders", [even_borders(1), even_borders(4), sampled_borders(np.array([5], np.uint64), 9)]
)
def test_rows_in_buckets_come_in_order_and_once(tmp_path, borders):
    rng = np.random.default_rng(1)
    rows = [row.tobytes() for row in rng.integers(0, 256, (500, 9), dtype=np.uint8)]
    aside = TableRows("documents", Family(b"d"), TIME, tmp_path / "rows", borders)
    for part in (rows[:300], rows[200:]):
        aside.put(Strings.of(part), Strings.of([row[:3] for row in part]))
    found = [
        pair
        for keys, values in aside._sorted()
        for pair in zip(keys.to_list(), values.to_list(), strict=True)
    ]
    assert found == [(row, row[:3]) for row in sorted(rows)]
    files = aside.write(tmp_path / "hfiles", [b"", b"\x40", b"\x40\1", b"\xff\xff"])
    assert [(file.samples[0], file.samples[-1]) for file in files] == [
        (min(some), max(some))
        for some in ([r for r in rows if r < b"\x40"], [r for r in rows if r > b"\x40\1"])
    ]
    assert sum(file.rows for file in files) == 500
    assert sorted(path.name for path in (tmp_path / "hfiles").iterdir()) == [file.name for file in files]
    aside.close()
    assert not (tmp_path / "rows").exists()  # the next round begins with the same names


def test_a_full_disk_says_what_to_do(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    aside = TableRows("documents", Family(b"d"), TIME, tmp_path / "rows", even_borders(1))
    aside.put(Strings.of([b"a"]), Strings.of([b""]))
    monkeypatch.setattr(_Blocks, "write", full)
    with pytest.raises(StoreFailed, match=r"cannot write .*hfiles: No space left on device.*work folder"):
        aside.write(tmp_path / "hfiles", [b""])
    aside.close()


def test_buckets_that_were_cut_short_are_noticed(tmp_path):
    aside = TableRows("documents", Family(b"d"), TIME, tmp_path / "rows", even_borders(1))
    for row in (b"a", b"b"):
        aside.put(Strings.of([row]), Strings.of([b"x" * 10_000]))
    (path,) = (tmp_path / "rows").iterdir()
    aside._files[0].flush()  # Python 3.14 buffers more
    for size in (path.stat().st_size, path.stat().st_size // 2):
        os.truncate(path, size - 1)
        with pytest.raises(StoreFailed, match=r"has lost [12] of 2 rows.*the same command again"):
            aside.write(tmp_path / f"hfiles-{size}", [b""])
    aside.close()
