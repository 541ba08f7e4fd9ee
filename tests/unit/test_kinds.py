"""What a load says of texts that its profile serves badly."""

import numpy as np
import pytest

import simhbase
from simhbase.corpus.watcher import Watcher
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.jobs.kinds import Kinds
from simhbase.jobs.pipeline import Batch, joined
from simhbase.profile.profile import Profile, make_profile
from tests.command_line import documents, texts

DEFAULT = make_profile({})
LONG = [text * 3 for text in texts(120)]
KANA = "まちのとしょかんはきんようびとどようびにおやすみします" * 5
THAI = "ห้องสมุดประจำเมืองจะปิดในวันศุกร์และวันเสาร์เพื่อทาสีห้องอ่านหนังสือ" * 3


def hints(contents, profile=DEFAULT):
    return Kinds.of(contents).hints(profile)


def test_texts_that_a_profile_serves_well_have_no_hints():
    assert hints(LONG) == []
    assert hints([text[:60] for text in LONG], make_profile({}, "short")) == []
    assert hints([KANA + str(number) for number in range(120)], make_profile({}, "complete"))[1:] == []
    assert hints([f"{number:<40}{THAI}{number:>40}" for number in range(120)]) == []


@pytest.mark.parametrize(
    ("contents", "names"),
    [
        ([text[:60] for text in LONG], "profile short"),
        (["An opening line that all of these have in common. " + text for text in LONG], "idf --boilerplate"),
        ([f"{text} And a footer that all of these have in common." for text in LONG], "idf --boilerplate"),
        ([text.replace(" ", "&nbsp;") for text in LONG], "read them as HTML"),
        ([f"{number:<40}{KANA}{number:>40}" for number in range(120)], "profile complete"),
    ],
)
def test_others_name_what_does_better(contents, names):
    (hint,) = hints(contents)
    assert names in hint
    assert f"of {len(contents)} texts" in hint


def test_few_texts_tell_nothing():
    assert hints([text[:60] for text in LONG[:20]]) == []


def test_chunks_add_up():
    halves = [Kinds.of(LONG[:50]), Kinds.of([text[:60] for text in LONG[50:]])]
    nothing = FingerprintBatch.bare(np.empty(0, dtype=np.uint64))
    (both,) = joined([Batch([], nothing, 0, kinds=each) for each in halves], 2, 2)
    assert both.kinds == Kinds(120, 70, 0, 0, 0)


def test_a_load_tells_what_the_store_will_miss_and_what_would_do_better(tmp_path):
    told = []

    class Hints(Watcher):
        def hint(self, text):
            told.append(text)

    file = documents(tmp_path / "a.jsonl", [text[:60] for text in LONG])
    inputs = simhbase.Inputs([file], watcher=Hints())
    simhbase.load(inputs, f"rocksdb:{tmp_path}/a.db")
    assert "complete" in told[0]
    assert "profile short" in told[-1]
    told.clear()
    simhbase.load(inputs, f"rocksdb:{tmp_path}/b.db", {"preset": "short"})
    assert told == []


def test_presets_are_profiles_by_name():
    with simhbase.open("memory:", create="default") as index:
        assert (index.profile.reach, index.profile.threshold, index.profile.weights) == (7, 0.65, "capped")
    with simhbase.open("memory:", create={"verify": False}) as index:
        assert index.profile == Profile(verify=False)
    assert make_profile({"scheme": "minhash"}) == Profile(scheme="minhash")
    assert make_profile({"layout": "10x2", "k": 8}).reach == 8
    with pytest.raises(simhbase.UsageError, match="no preset 'defualt'"):
        simhbase.open("memory:", create="defualt")
