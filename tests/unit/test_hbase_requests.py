"""Requests that are put together from pieces are the ones that thriftpy2 would write."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.rowkeys import KEY_BYTES
from simhbase.stores.hbase import requests
from simhbase.stores.hbase.requests import TableRequests, idl, request

TABLE = TableRequests("ns:100%d_index", b"i:")
NAME, COLUMN = b"ns:100%d_index", b"i:"
KEYS = st.one_of(
    st.binary(max_size=40), st.sampled_from([b"\xd1key\xd1", b"\xd2end\xd2", b"%b", b"\xff" * 300])
)
INT = st.integers(0, 2**31 - 1)


def index_keys(rows: list[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, KEY_BYTES)


INDEX_KEYS = st.lists(st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES), max_size=5)


def mutations(rows: list[bytes], **fields: object) -> list[object]:
    return [idl.BatchMutation(row=row, mutations=[idl.Mutation(column=COLUMN, **fields)]) for row in rows]


@given(KEYS, KEYS, INT)
def test_opening_a_scanner(start, stop, rows):
    for opening, cache in [(TABLE.open_scanner, True), (TABLE.open_passing_scanner, False)]:
        scan = idl.Scan(startRow=start, stopRow=stop, columns=[COLUMN], caching=rows, cacheBlocks=cache)
        assert opening(start, stop, rows) == request(
            "scannerOpenWithScan", tableName=NAME, scan=scan, attributes={}
        )


@given(INT, INT)
def test_reading_and_closing_a_scanner(scanner, rows):
    assert requests.next_rows(scanner, rows) == request("scannerGetList", id=scanner, nbRows=rows)
    assert requests.next_keys(scanner, rows) == request("scannerGetList", idl.Keys, id=scanner, nbRows=rows)
    assert requests.close_scanner(scanner) == request("scannerClose", id=scanner)


@given(st.lists(KEYS, max_size=5))
def test_getting_rows(keys):
    wanted = {"tableName": NAME, "rows": keys, "columns": [COLUMN], "attributes": {}}
    assert TABLE.get(keys) == request("getRowsWithColumns", **wanted)


@given(INDEX_KEYS)
def test_looking_for_rows_of_the_index(rows):
    wanted = {"tableName": NAME, "rows": rows, "columns": [COLUMN], "attributes": {}}
    assert TABLE.get_keys(index_keys(rows)) == request("getRowsWithColumns", idl.Keys, **wanted)


@given(st.lists(st.tuples(KEYS, KEYS), max_size=5))
def test_putting_rows(rows):
    batches = [
        idl.BatchMutation(row=key, mutations=[idl.Mutation(column=COLUMN, value=value)])
        for key, value in rows
    ]
    assert TABLE.put(rows) == request("mutateRows", tableName=NAME, rowBatches=batches, attributes={})


@given(INDEX_KEYS)
def test_putting_rows_of_the_index(rows):
    batches = mutations(rows, value=b"")
    assert TABLE.put_keys(index_keys(rows)) == request(
        "mutateRows", tableName=NAME, rowBatches=batches, attributes={}
    )


@given(st.lists(KEYS, max_size=5), st.integers(0, 2**63 - 1))
def test_deleting_rows_up_to_a_time(keys, timestamp):
    batches = mutations(keys, isDelete=True)
    assert TABLE.delete(keys, timestamp) == request(
        "mutateRowsTs", tableName=NAME, rowBatches=batches, timestamp=timestamp, attributes={}
    )


@given(INDEX_KEYS, st.integers(0, 2**63 - 1))
def test_deleting_rows_of_the_index_up_to_a_time(rows, timestamp):
    batches = mutations(rows, isDelete=True)
    assert TABLE.delete_keys(index_keys(rows), timestamp) == request(
        "mutateRowsTs", tableName=NAME, rowBatches=batches, timestamp=timestamp, attributes={}
    )


def test_keys_may_be_a_view_of_other_bytes():
    rows = np.arange(4 * KEY_BYTES, dtype=np.uint8).reshape(4, KEY_BYTES)[::-2]
    assert TABLE.put_keys(rows) == TABLE.put_keys(rows.copy())


@pytest.mark.parametrize("service", [idl.Gateway, idl.Keys])
def test_answers_have_the_fields_of_their_calls(service):
    for method in service.thrift_services:
        spec = getattr(service, f"{method}_result").thrift_spec
        errors = [name for number, (_, name, *_) in spec.items() if number > 0]
        assert errors in ([], ["io"], ["io", "ia"]), "these names are the ones that are looked at"
