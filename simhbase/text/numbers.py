"""Hashes of the numbers in texts."""

from __future__ import annotations

import re
from collections.abc import Sequence

import mmh3
import numpy as np
from numpy.typing import NDArray

from simhbase.text.features import FeatureOptions
from simhbase.text.normalise import normalise

_DIGITS = re.compile("[0-9]+")


def hashes_of_numbers(texts: Sequence[str], options: FeatureOptions) -> NDArray[np.uint32]:
    """Hash the set of runs of digits of each text: uint32 (n,)."""
    if options.boilerplate is not None:
        texts = options.boilerplate.strip(texts, options.variants)
    found = (sorted(set(_DIGITS.findall(normalise(text, options.variants)))) for text in texts)
    hashes = [mmh3.hash(" ".join(numbers), signed=False) for numbers in found]
    return np.array(hashes, dtype=np.uint32)
