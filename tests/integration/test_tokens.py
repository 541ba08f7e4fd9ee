"""The core's words against jieba, which is the reference, on real documents."""

import pytest

from simhbase.text.features import document_frequencies, tokens
from tests import reference


def assert_same_tokens(corpus: str, every: int) -> int:
    compared = 0
    for document, text in reference.documents(corpus, every):
        expected = reference.tokens(text)
        assert tokens(text) == expected, document
        assert document_frequencies([text]) == dict.fromkeys(expected, 1), document
        compared += 1
    return compared


@pytest.mark.parametrize(
    ("corpus", "every"), [("xwlb_chinadata", 1000), ("laws", 70), ("versioned_docs_en", 130)]
)
def test_the_core_gives_the_tokens_of_jieba(corpus, every):
    assert assert_same_tokens(corpus, every) >= 49


@pytest.mark.full
@pytest.mark.parametrize("corpus", reference.CORPORA)
def test_the_core_gives_the_tokens_of_jieba_on_whole_corpora(corpus):
    assert assert_same_tokens(corpus, 1) > 3_000
