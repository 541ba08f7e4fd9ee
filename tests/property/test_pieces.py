"""Of every text: cut into pieces it has the features of the whole."""

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simhbase.text import features
from simhbase.text import normalise as texts
from simhbase.text.features import Extractor, FeatureBatch, FeatureOptions, document_frequencies, tokens
from simhbase.text.idf import IdfTable
from simhbase.text.normalise import normalise, pieces
from tests.roads import road

TABLE = IdfTable("mine", "北京 1.5\n大学 0.25\nhello 2\n".encode())
OPTIONS = [
    FeatureOptions(),
    FeatureOptions(min_length=1, stop_words=frozenset(["北京"])),
    FeatureOptions(top=2),
    FeatureOptions(weights="tfidf", idf=TABLE),
    FeatureOptions(weights="levels", idf=TABLE, top=3),
    *(FeatureOptions(kind=f"{kind}:{size}") for kind in ("words", "chars") for size in (1, 2, 3, 9)),
]

# Words that jieba joins and parts, separators, and characters that change with their neighbours.
mixed = st.lists(
    st.sampled_from(
        [
            "か",
            "カナ",
            "\x00",
            "\ue000",
            "٣",
            "\u200b",
            "\u200c",
            "\ufe0f",
            "می\u200cروم",
            "ภาษา\u200bไทย",
            "㈱",
            "々",
        ]
    )
    | st.sampled_from(
        ["北京", "大学", "北京大学", "研究", "生命", "起源", "hello", "ΑΣ", "ß", "が", "İ", "12"]
    )
    | st.sampled_from([*" \n\u3000\x85,;!?，；！？、。", "：", ":", "'", ".", "·", "\u0301", "\u3099", "Σ"]),
    max_size=40,
).map("".join)
anything = st.text(st.characters(exclude_categories=["Cs"]))


def extracted(options: FeatureOptions, bits: int, text: str, size: int) -> FeatureBatch:
    """The features of three texts, cut into pieces of a size and hashed so many windows at a time."""
    with road("plain"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "PIECE", size)
        patch.setattr(features, "_WINDOWS", size)
        return Extractor(options, bits).extract([text, "", text[::-1]])


def in_one_order(batch: FeatureBatch) -> list[list[tuple[bytes, int]]]:
    """The features of each text; the order of words that are only counted means nothing."""
    weights = np.ones(len(batch.digests), dtype=np.int64) if batch.weights is None else batch.weights
    weighted = list(zip(map(bytes, batch.digests), weights.tolist(), strict=True))
    ends = np.cumsum(batch.counts).tolist()
    return [sorted(weighted[start:end]) for start, end in zip([0, *ends], ends, strict=False)]


@pytest.mark.parametrize(
    ("options", "bits"),
    [*((each, 64) for each in OPTIONS), (OPTIONS[0], 128), (OPTIONS[-1], 128)],
    ids=lambda each: str(getattr(each, "kind", each)),
)
@given(text=mixed | anything, size=st.integers(1, 8))
def test_pieces_have_the_features_of_the_whole(options, bits, text, size):
    cut, whole = extracted(options, bits, text, size), extracted(options, bits, text, 1 << 16)
    assert cut.counts.tolist() == whole.counts.tolist()
    assert in_one_order(cut) == in_one_order(whole)
    if options.kind != "words":
        assert np.array_equal(cut.digests, whole.digests), "in the order of the text"


@example(text="ΑΣ'Α ΑΣ, Α ΑΣ:Α ΑΣ.Α", size=1)  # final only before what is no part of a word
@given(text=mixed | anything, size=st.integers(1, 8))
def test_pieces_have_the_tokens_and_the_normal_form_of_the_whole(text, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "PIECE", size)
        cut = list(pieces(text))
        assert document_frequencies([text, text]) == dict.fromkeys(tokens(text), 2)
    assert "".join(cut) == text
    assert [token for piece in cut for token in tokens(piece)] == tokens(text)
    bare = "".join(normalise(piece).replace(" ", "") for piece in cut)
    assert bare == normalise(text).replace(" ", "")


@given(text=mixed | anything, size=st.integers(1, 8))
def test_a_piece_ends_at_the_first_separator_behind_its_size(text, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "PIECE", size)
        cut = list(pieces(text))
    separator = re.compile(r"[,;!?，；！？、。]|(?<=[!-~])\s+(?=[!-~])")
    for number, piece in enumerate(cut):
        assert not separator.search(piece, size), "it could have ended here"
        assert number == 0 or re.match(r"[\s,;!?，；！？、。]", piece)
        assert number == len(cut) - 1 or len(piece) >= size
