"""Requests that are put together from pieces are the ones that happybase's client would write."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from thriftpy2.transport import TCyMemoryBuffer

from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.stores.hbase.interface import BatchMutation, Mutation, Thrift1, client
from simhbase.stores.hbase.requests import Table

NAME, COLUMN = b"ns:100%d_index", b"i:"
TABLE = Table(NAME.decode(), COLUMN)
KEYS = st.one_of(st.binary(max_size=40), st.sampled_from([b"\xd1key\xd1", b"%b", b"\xff" * 300]))
INDEX_KEYS = st.lists(st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES), max_size=5)
VERSIONS = st.integers(0, 2**63 - 1)


def index_keys(rows: list[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, KEY_BYTES)


def batch(row: bytes, **fields: object) -> object:
    return BatchMutation(row=row, mutations=[Mutation(column=COLUMN, **fields)])


def written(method: str, batches: list[object], **more: object) -> bytes:
    buffer = TCyMemoryBuffer()
    client(Thrift1, buffer)._send(method, tableName=NAME, rowBatches=batches, attributes={}, **more)
    return buffer.getvalue()


@given(st.lists(st.tuples(KEYS, KEYS), max_size=5), VERSIONS)
def test_putting_rows(rows, version):
    batches = [batch(key, value=value) for key, value in rows]
    assert TABLE.put(rows, None).message == written("mutateRows", batches)
    assert TABLE.put(rows, version).message == written("mutateRowsTs", batches, timestamp=version)


@given(INDEX_KEYS)
def test_putting_rows_of_the_index(rows):
    batches = [batch(row, value=b"") for row in rows]
    assert TABLE.put_keys(index_keys(rows)).message == written("mutateRows", batches)


@given(st.lists(KEYS, max_size=5), VERSIONS)
def test_deleting_rows_up_to_a_version(keys, version):
    batches = [batch(key, isDelete=True) for key in keys]
    assert TABLE.delete(keys, version).message == written("mutateRowsTs", batches, timestamp=version)


@given(INDEX_KEYS, VERSIONS)
def test_deleting_rows_of_the_index_up_to_a_time(rows, time):
    batches = [batch(row, isDelete=True) for row in rows]
    assert TABLE.delete_keys(index_keys(rows), time).message == written(
        "mutateRowsTs", batches, timestamp=time
    )


def test_keys_may_be_a_view_of_other_bytes():
    rows = np.arange(4 * KEY_BYTES, dtype=np.uint8).reshape(4, KEY_BYTES)[::-2]
    assert TABLE.put_keys(rows) == TABLE.put_keys(rows.copy())


def test_the_errors_of_all_calls_say_whether_another_attempt_may_help():
    for method in Thrift1.thrift_services:
        fields = {
            name: kind for _, name, kind, *_ in getattr(Thrift1, f"{method}_result").thrift_spec.values()
        }
        assert "io" not in fields or "canRetry" in {name for _, name, *_ in fields["io"].thrift_spec.values()}
