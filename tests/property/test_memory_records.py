"""Rows of the memory store are those that were put and not deleted since, in the order of their keys."""

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from simhbase.stores import create_store, memory

KEYS = st.binary(min_size=1, max_size=2)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(KEYS, max_size=5)), st.tuples(st.just("delete"), st.lists(KEYS))
    )
)


@given(changes=CHANGES, prefix=KEYS, limit=st.integers(1, 5), bounds=st.tuples(KEYS, KEYS | st.just(b"")))
def test_reads_see_all_keys_in_order(changes, prefix, limit, bounds):
    expected = set()
    with patch.object(memory, "BATCH_ROWS", 2):
        records = create_store("memory:").records("meta")
        for change, keys in changes:
            if change == "put":
                records.put([(key, b"") for key in keys])
                expected.update(keys)
            else:
                records.delete(keys)
                expected.difference_update(keys)
        (found,) = records.scan([prefix], limit)
        assert [key for key, _ in found] == sorted(key for key in expected if key.startswith(prefix))[:limit]
        start, stop = bounds
        iterated = [key for batch in records.iterate(start, stop) for key, _ in batch]
        assert iterated == sorted(key for key in expected if start <= key and (not stop or key < stop))
        assert records.approximate_size().rows == len(expected)
