"""Of every text: with compiled loops it has the features that it has without them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.fingerprint.minhash import signatures
from simhbase.fingerprint.simhash import simhash
from simhbase.text.features import Extractor, FeatureBatch, FeatureOptions
from simhbase.text.idf import IdfTable
from simhbase.text.variants import CharacterTable, character_table
from tests.property.test_pieces import anything, in_one_order, mixed
from tests.property.test_text import awkward
from tests.roads import road

TABLE = IdfTable("mine", "北京 1.5\n大学 0.25\nhello 2\n研究 0\n".encode())
FOLD = CharacterTable("hant", "學\t学\n龍\t龙\n㈱\t株\n".encode())
GOING = CharacterTable("hant", "學\t\n式\t\n龍\t龙\n".encode())
OPTIONS = [
    FeatureOptions(),
    FeatureOptions(weights="saturated"),
    FeatureOptions(weights="capped"),
    FeatureOptions(weights="capped", top=2, min_length=1),
    FeatureOptions(min_length=1, stop_words=frozenset(["北京", "of"])),
    FeatureOptions(top=2),
    FeatureOptions(weights="saturated", top=3, min_length=1),
    FeatureOptions(weights="tfidf", idf=TABLE),
    FeatureOptions(weights="levels", idf=TABLE, top=3, variants=FOLD),
    FeatureOptions(kind="chars:2", variants=FOLD),
    FeatureOptions(variants=GOING, min_length=1),
    FeatureOptions(kind="chars:2", variants=GOING),
    FeatureOptions(variants=character_table("arabic")),
    *(FeatureOptions(kind=kind) for kind in ("words:1", "words:3", "chars:2", "chars:1-3")),
]

# Runs of Han: those that many words hold, any, and those that jieba does not cut.
common = (
    "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出"
    "就分对成会可主发年动同工也能下过子说产种面而方后多定行学"
)
han = st.lists(
    st.sampled_from(common)
    | st.sampled_from(
        ["中华人民共和国", "研究生命起源", "结婚的和尚未结婚的", "南京市长江大桥", "乒乓球拍卖完了"]
    )
    | st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF)
    | st.characters(min_codepoint=0x3400, max_codepoint=0x4DBF)
    | st.sampled_from("㐀龦鿿𠀀豈々〇，a1 \n學龍㈱㍿…℃Ⅷ")
    | st.sampled_from("かなカナーｶ\uff9e\u3099゛𛀁 \x00\x1f\x7f\ue000\U0010fffd١७๒ـأَ")
    | st.sampled_from(["Python を", "メモリ 16", "日本\nの", "٣ か"]),
    max_size=60,
).map("".join)
texts = st.lists(han | mixed | awkward | anything, max_size=4)


def extracted(name: str, options: FeatureOptions, bits: int, some: list[str]) -> FeatureBatch:
    with road(name):
        return Extractor(options, bits).extract(some)


def hashed(name: str, batch: FeatureBatch) -> tuple[list[object], list[object]]:
    with road(name):
        sketches = signatures(batch, slots=8).tolist() if batch.digests.shape[1] == 8 else []
        return simhash(batch).tolist(), sketches


@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: f"{each.kind} {each.weights} top {each.top}")
@given(bits=st.sampled_from([64, 128]), some=texts)
def test_the_features_and_fingerprints_are_those_without_compiled_loops(options, bits, some):
    plain, compiled = (extracted(name, options, bits, some) for name in ("plain", "compiled"))
    assert [min(found, 2) for found in compiled.distinct(2)] == [min(found, 2) for found in plain.distinct(2)]
    if plain.weights is None and options.weights == "count":
        assert compiled.counts.tolist() == plain.counts.tolist()
        assert in_one_order(compiled) == in_one_order(plain)
    if options.kind != "words":
        assert np.array_equal(compiled.digests, plain.digests), "in the order of the text"
    if options.weights in ("tfidf", "levels"):
        assert in_one_order(compiled) == in_one_order(plain)
    answers = [hashed(name, batch) for name in ("plain", "compiled") for batch in (plain, compiled)]
    assert all(answer == answers[0] for answer in answers)
