from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.corpus.fields import field_of, with_field
from simhbase.errors import BadInput

keys = st.text(alphabet="ab.", max_size=3)
records = st.recursive(
    st.one_of(st.integers(), st.none()), lambda inner: st.dictionaries(keys, inner, max_size=3), max_leaves=12
).filter(lambda value: isinstance(value, dict))


def stepped(record: object, name: str) -> object:
    """The rule in other words: the key of this name, or what is at the end of all steps."""
    if name in record:
        return record[name]
    for step in name.split("."):
        record = record[step]
    return record


@given(records, st.text(alphabet="ab.", max_size=6))
def test_a_field_is_the_key_of_its_name_or_at_the_end_of_its_steps(record, name):
    try:
        expected = stepped(record, name)
    except (KeyError, TypeError):
        with pytest.raises(BadInput, match=r"no field .* name another text field"):
            field_of(record, name, "name another text field")
    else:
        assert field_of(record, name, "name another text field") == expected


@given(records, st.text(alphabet="ab.", max_size=6))
def test_another_value_is_found_where_the_field_was(record, name):
    try:
        before = field_of(record, name, "")
    except BadInput:
        return
    changed = with_field(record, name, "new")
    assert field_of(changed, name, "") == "new"
    assert with_field(changed, name, before) == record
