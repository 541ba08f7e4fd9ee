"""`simhbase profiles`."""

from __future__ import annotations

from collections.abc import Mapping

from simhbase.cli.options import command
from simhbase.cli.output import Output, json_option

MEANINGS: Mapping[str, str] = {
    "scheme": "simhash (compare bits of fingerprints), minhash (estimate Jaccard similarity)",
    "bits": "length of a fingerprint: 64, or 128 (dedup and fingerprint only)",
    "layout": "NxM: drawers are named by every M of N blocks: 5x2, 6x3; 4x4: nested; 2x1p1: few rows",
    "k": "maximum Hamming distance of a match, in bits",
    "features": "words, words:N or chars:N (N-grams), chars:growing, chars:1-3",
    "weights": "weight of words: count, capped (in short texts), saturated (in long), tfidf, levels",
    "top": "use only the N words of highest weight",
    "min_length": "ignore words of fewer characters",
    "min_features": "reject texts with fewer distinct features",
    "stop_words": "file of words to ignore",
    "boilerplate": "file of lines and phrases to ignore ('simhbase idf' learns one)",
    "idf": "file of IDF weights ('simhbase idf' learns one); default: jieba's",
    "verify": "true: keep a sketch of each text, and verify matches by it",
    "reach": "with verify and threshold: also match texts this many bits apart that share a drawer",
    "slots": "numbers in a sketch; more give better estimates",
    "sketch_bits": "bits per slot of a sketch",
    "bands": "BxR: B bands of R slots, one of which matches share; auto: by threshold",
    "threshold": "minimum Jaccard similarity of a match; 0.54-0.7: for short and long texts",
    "same_numbers": "true: texts with different numbers do not match, whatever their similarity",
    "fold": "hant: Traditional and Simplified Chinese are the same; arabic: spellings of Arabic",
}


@command()
@json_option
def profiles(output: Output) -> None:
    """List presets and parameters of profiles.

    A profile defines how texts become fingerprints, and which match. Choose a preset or file with --profile,
    and change single parameters with --set, e.g. --profile classic --set k=2.
    """
    from simhbase.profile.profile import NAMES, PRESETS, make_profile

    simhash, minhash = (make_profile({"scheme": scheme}).describe() for scheme in ("simhash", "minhash"))
    output.summary(
        {
            "presets": [
                {
                    "name": name,
                    "sets": " ".join(f"{each}={value}" for each, value in preset.items())
                    or "the defaults below",
                }
                for name, preset in PRESETS.items()
            ],
            "parameters": [
                {
                    "name": name,
                    "simhash": simhash.get(name) or None,
                    "minhash": minhash.get(name) or None,
                    "meaning": MEANINGS.get(name, ""),
                }
                for name in NAMES
            ],
        }
    )
