"""rjieba, which runs, against jieba, which is the reference, on real documents."""

from collections import Counter

import pytest

from simhbase.text.features import _bag, tokens
from tests import reference


def assert_same_tokens(corpus: str, every: int) -> int:
    compared = 0
    for document, text in reference.documents(corpus, every):
        expected = reference.tokens(text)
        assert tokens(text) == expected, document
        bag = Counter(_bag(text))
        del bag["\n"]
        assert bag == Counter(expected), document
        compared += 1
    return compared


@pytest.mark.parametrize(
    ("corpus", "every"), [("xwlb_chinadata", 300), ("laws", 35), ("versioned_docs_en", 60)]
)
def test_rjieba_gives_the_tokens_of_jieba(corpus, every):
    assert assert_same_tokens(corpus, every) >= 99


@pytest.mark.full
@pytest.mark.parametrize("corpus", reference.CORPORA)
def test_rjieba_gives_the_tokens_of_jieba_on_whole_corpora(corpus):
    assert assert_same_tokens(corpus, 1) > 3_000
