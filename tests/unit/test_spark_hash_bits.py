"""Sets of hashes that tasks hold."""

import numpy as np
import pyarrow as pa

from simhbase.spark.hash_bits import HashBits, hashes_of


def test_all_that_was_added_is_there_and_little_else():
    chance = np.random.default_rng(3)
    hashes = chance.integers(0, 2**64, 3000, dtype=np.uint64)
    names = HashBits.of_size(1000)
    names.add(hashes[:1000])
    found = names.contain(hashes)
    assert found[:1000].all()
    assert 0 < found[1000:].sum() < 2000 * 3 / 128
    assert not HashBits.of_size(0).contain(hashes).any()


def test_the_hash_of_a_digest_is_its_first_bytes():
    digests = [bytes(range(16)), b"\xff" * 16]
    assert hashes_of(pa.array(digests)).tolist() == [0x0001020304050607, 2**64 - 1]
