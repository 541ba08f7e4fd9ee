"""Known answers: tokens and fingerprints of the fixed texts under every kind of profile.

To add texts or profiles:
python -m tests.unit.test_golden > tests/golden/fingerprints.json
"""

from pathlib import Path

import orjson
import pytest

from simhbase.index.stored_profile import probe_answers, probes
from simhbase.profile.profile import Profile, make_profile
from simhbase.text.feature_extractor import FeatureExtractor
from simhbase.text.features import tokens
from tests import reference

GOLDEN = Path(__file__).parents[1] / "golden" / "fingerprints.json"
PROFILES = {
    "default": Profile(verify=False),
    "capped": Profile(verify=False, weights="capped"),
    "capped, top 8": Profile(verify=False, weights="capped", top=8),
    "default, 128 bits": Profile(verify=False, bits=128),
    "classic": make_profile({}, "classic"),
    "tfidf, all words, 128 bits": Profile(verify=False, weights="tfidf", bits=128),
    "levels": Profile(verify=False, weights="levels"),
    "count, top 8": Profile(verify=False, top=8),
    "all lengths": Profile(verify=False, min_length=1),
    "words:2": Profile(verify=False, features="words:2"),
    "chars:3": Profile(verify=False, features="chars:3"),
    "chars:3, 128 bits": Profile(verify=False, features="chars:3", bits=128),
    "chars:5": Profile(verify=False, features="chars:5"),
    "chars:1-3, 128 bits": Profile(verify=False, features="chars:1-3", bits=128),
    "chars:growing, 128 bits": Profile(verify=False, features="chars:growing", bits=128),
    "short": make_profile({}, "short"),
    "short, 128 slots": make_profile({"slots": 128}, "short"),
}


def answers() -> dict[str, object]:
    return {
        "tokens": [{"text": text, "tokens": tokens(text)} for text in probes()],
        "fingerprints": {name: probe_answers(profile.fingerprinter()) for name, profile in PROFILES.items()},
    }


def golden() -> dict[str, object]:
    return orjson.loads(GOLDEN.read_bytes())


def test_tokens_and_fingerprints_are_the_known_ones():
    assert answers() == golden()


def test_the_known_tokens_are_those_of_jieba():
    for known in golden()["tokens"]:
        assert reference.tokens(known["text"]) == known["tokens"]


@pytest.mark.parametrize("name", [name for name, profile in PROFILES.items() if profile.features == "words"])
def test_the_known_fingerprints_of_words_are_those_of_the_definition(name):
    profile = PROFILES[name]
    extractor = FeatureExtractor(profile.feature_options)
    for text, known in zip(probes(), golden()["fingerprints"][name], strict=True):
        value = reference.simhash(extractor.words(text), profile.bits)
        assert known == f"{value:0{profile.bits // 4}x}"


if __name__ == "__main__":
    print(orjson.dumps(answers(), option=orjson.OPT_INDENT_2).decode())
