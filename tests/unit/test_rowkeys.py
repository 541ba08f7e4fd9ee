"""Fingerprints to row keys and back: fixed bytes, shapes, and the way back for any fingerprint."""

from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.drawers.layout import layout
from simhbase.drawers.rowkeys import KEY_BYTES, PREFIX_BYTES, decode, encode, fingerprints_of, prefixes

GOLDEN = orjson.loads((Path(__file__).parents[1] / "golden" / "rowkeys.json").read_bytes())
LAYOUTS = ["5x2", "4x1", "4x4", "6x3", "7x3", "8x4", "10x3", "2x1", "3x2", "64x1", "2x1p1"]
FINGERPRINTS = st.lists(st.integers(0, 2**64 - 1), max_size=20).map(
    lambda values: np.array(values, np.uint64)
)


@pytest.mark.parametrize("name", GOLDEN)
def test_row_keys_are_the_golden_ones(name):
    for fingerprint, rows in GOLDEN[name].items():
        keys = encode(np.array([int(fingerprint, 16)], np.uint64), layout(name))
        assert [key.tobytes().hex() for key in keys[0]] == [row.replace(" ", "") for row in rows]


def test_the_golden_file_is_complete():
    assert {name: {len(rows) for rows in answers.values()} for name, answers in GOLDEN.items()} == {
        "5x2": {10},
        "4x1": {4},
        "4x4": {16},
        "6x3": {20},
        "2x1p1": {2},
    }


@pytest.mark.parametrize("name", LAYOUTS)
@given(fingerprints=FINGERPRINTS)
def test_decoding_gives_back_what_was_encoded(name, fingerprints):
    keys = encode(fingerprints, layout(name))
    tables = len(layout(name).tables)
    segments, flags, decoded = decode(keys.reshape(-1, KEY_BYTES))
    assert decoded.tolist() == np.repeat(fingerprints, tables).tolist()
    assert flags.tolist() == list(range(1, tables + 1)) * len(fingerprints)
    assert fingerprints_of(keys.tobytes()).tolist() == decoded.tolist()
    assert [key[:4] for key in map(bytes, keys.reshape(-1, KEY_BYTES))] == [
        segment.to_bytes(4) for segment in segments.tolist()
    ]


@pytest.mark.parametrize("name", LAYOUTS)
@given(fingerprints=FINGERPRINTS)
def test_a_segment_is_the_bits_of_its_runs_from_the_left(name, fingerprints):
    segments, _, _ = decode(encode(fingerprints, layout(name)).reshape(-1, KEY_BYTES))
    expected = []
    for fingerprint in fingerprints.tolist():
        bits = f"{fingerprint:064b}"
        for table in layout(name).tables:
            chosen = "".join(bits[run.start : run.start + run.width] for run in table)
            expected.append(int(chosen[:32].ljust(32, "0"), 2))
    assert segments.tolist() == expected


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("count", [0, 1, 7])
def test_keys_and_prefixes_have_the_promised_shapes(name, count):
    fingerprints = np.arange(count, dtype=np.uint64) << np.uint64(50)
    tables = len(layout(name).tables)
    keys, starts = encode(fingerprints, layout(name)), prefixes(fingerprints, layout(name))
    assert (keys.dtype, keys.shape) == (np.uint8, (count, tables, KEY_BYTES))
    assert (starts.dtype, starts.shape) == (np.uint8, (count, tables, PREFIX_BYTES))
    assert np.array_equal(starts, keys[..., :PREFIX_BYTES])


@pytest.mark.parametrize("name", LAYOUTS)
@given(fingerprints=FINGERPRINTS)
def test_a_fingerprint_alone_has_the_prefixes_that_it_has_among_others(name, fingerprints):
    together = prefixes(fingerprints, layout(name))
    for i in range(len(fingerprints)):
        assert np.array_equal(prefixes(fingerprints[i : i + 1], layout(name))[0], together[i])


def test_encoding_leaves_its_input_alone():
    fingerprints = np.array([0x0123456789ABCDEF], np.uint64)
    encode(fingerprints, layout("5x2"))
    prefixes(fingerprints, layout("5x2"))
    assert fingerprints.tolist() == [0x0123456789ABCDEF]
