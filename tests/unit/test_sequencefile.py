"""SequenceFiles for HBase's Import, by the bytes that Hadoop reads."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simhbase.stores.hbase.sequencefile import MARKED_RECORDS, SequenceFile, header, read_keys, records
from tests.sequencefile import read

SYNC = bytes(range(0xA0, 0xB0))
ROWS = st.lists(st.tuples(st.binary(min_size=1, max_size=300), st.binary(max_size=300)), max_size=20)
TIMES = st.integers(0, 2**63 - 1)


def array(*rows: bytes) -> np.ndarray:
    return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)


def test_the_beginning_of_a_file():
    assert header(SYNC) == (
        b"SEQ\x06"
        b"\x31org.apache.hadoop.hbase.io.ImmutableBytesWritable"
        b"\x25org.apache.hadoop.hbase.client.Result"
        b"\x00\x00"  # nothing is compressed
        b"\x00\x00\x00\x00"  # no metadata
        b"\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac\xad\xae\xaf"
    )


def test_a_record_of_the_index():
    """The row 012345400123456789abcdef01 of family i, at 0x19200000001."""
    row = bytes.fromhex("01234540010123456789abcdef")
    found = records(b"i", array(row), np.empty((1, 0), np.uint8), 0x19200000001, SYNC)
    assert found.hex() == (
        "ffffffff" + SYNC.hex()  # the mark
        + "00000033" "00000011"  # 51 bytes, of which 17 are the key
        "0000000d" "01234540010123456789abcdef"  # its row, with the length
        "21"  # 33 bytes of Result
        "0a1f"  # a Cell of 31 bytes
        "0a0d" "01234540010123456789abcdef"
        "120169" "1a00"  # family i, no qualifier
        "2081808080a032"  # the time
        "2804" "3200"  # put, no value
    )  # fmt: skip


def test_a_record_with_a_value():
    found = records(b"d", array(b"\x34\x94\x97\x7aa1"), array(b"\x01\x02"), 1, SYNC)
    assert found.hex().removeprefix("ffffffff" + SYNC.hex()) == (
        "00000022" "0000000a" "00000006" "3494977a6131"
        "17" "0a15" "0a06" "3494977a6131" "120164" "1a00" "2001" "2804" "3202" "0102"
    )  # fmt: skip


@given(ROWS, TIMES)
def test_what_is_put_can_be_read(tmp_path_factory, rows, time):
    path = tmp_path_factory.mktemp("rows") / "part"
    file = SequenceFile(path.open("wb"), b"d")
    file.put(rows, time)
    file.close()
    assert sorted(read(path)) == sorted((key, b"d", time, value) for key, value in rows)
    assert sorted(read_keys(path)) == sorted(key for key, _ in rows)


def test_many_rows_have_marks_between_them(tmp_path):
    keys = np.arange(13 * (2 * MARKED_RECORDS + 1), dtype=np.uint32).astype(np.uint8).reshape(-1, 13)
    file = SequenceFile((tmp_path / "part").open("wb"), b"i")
    file.put_keys(keys, 5)
    file.close()
    assert list(read_keys(tmp_path / "part")) == [key.tobytes() for key in keys]
    content = (tmp_path / "part").read_bytes()
    sync = content[len(header(SYNC)) - len(SYNC) : len(header(SYNC))]
    assert content.count(b"\xff\xff\xff\xff" + sync) == 3
