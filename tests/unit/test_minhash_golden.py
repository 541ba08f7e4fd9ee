"""Known answers: signatures, sketches, bands and fingerprints of the fixed texts.

To add texts or forms:
python -m tests.unit.test_minhash_golden > tests/golden/minhash.json
"""

from pathlib import Path

import numpy as np
import orjson
import pytest

from simhbase.drawers import banding
from simhbase.drawers.bands import bands
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.fingerprint.pipeline import Fingerprinter
from simhbase.fingerprint.sketches import fingerprints
from simhbase.index.stored_profile import probes
from simhbase.text.features import FeatureOptions

GOLDEN = Path(__file__).parents[1] / "golden" / "minhash.json"
FEATURES = ("chars:3", "words:2", "chars:1-3", "chars:growing")
BITS = (1, 8)
BANDS = ("20x6", "16x8")


def hexadecimal(rows: np.ndarray) -> list[str]:
    """Each row's bytes, integers big-endian."""
    return [row.astype(row.dtype.newbyteorder(">")).tobytes().hex() for row in rows]


def answers(kind: str) -> dict[str, object]:
    options = FeatureOptions(kind=kind)
    of_bits = {
        bits: Fingerprinter(options, 64, 1, SketchParameters(128, bits), is_minhash=True)
        for bits in (*BITS, 32)
    }
    sketches = {bits: each.fingerprint_many(probes()).fingerprints.sketches for bits, each in of_bits.items()}
    return {
        "slots": hexadecimal(sketches[32]),
        **{f"sketches of {bits} bits": hexadecimal(sketches[bits]) for bits in BITS},
        **{f"segments {name}": hexadecimal(banding.segments(bands(name), sketches[8], 8)) for name in BANDS},
        **{f"fingerprints of {bits} bits": hexadecimal(fingerprints(sketches[bits])) for bits in BITS},
    }


@pytest.mark.parametrize("kind", FEATURES)
def test_signatures_and_all_that_is_made_of_them_are_the_known_ones(kind):
    assert answers(kind) == orjson.loads(GOLDEN.read_bytes())[kind]


if __name__ == "__main__":
    known = {kind: answers(kind) for kind in FEATURES}
    print(orjson.dumps(known, option=orjson.OPT_INDENT_2).decode())
