"""Texts put aside on disk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.bulk.texts import Texts
from simhbase.errors import SimhbaseError

TEXTS = st.lists(st.text(st.characters(exclude_categories=[])), max_size=20)


@given(batches=st.lists(TEXTS, max_size=5), data=st.data())
def test_any_of_the_texts_can_be_read_again_in_any_order(tmp_path_factory, batches, data):
    texts = [text for batch in batches for text in batch]
    numbers = data.draw(st.lists(st.integers(0, len(texts) - 1))) if texts else []
    with Texts(tmp_path_factory.getbasetemp()) as shelf:
        for batch in batches:
            shelf.add(batch)
        assert shelf.read(numbers) == [texts[number] for number in numbers]


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    with pytest.raises(SimhbaseError, match=r"texts aside in .*missing: No such file"):
        Texts(tmp_path / "missing")
