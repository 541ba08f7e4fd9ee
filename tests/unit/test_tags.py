"""What documents can be tagged with."""

from time import process_time

import pytest

from simhbase.errors import UsageError
from simhbase.index.tags import MOST_TAGS, required_tags, tags_of, tags_problem
from simhbase.model.wire import Unfitting, convert
from simhbase.online.asked import NeighboursRequest


def test_tags_are_pairs_by_name():
    assert tags_of({"tenant": "a", "source": "wire"}) == (("source", "wire"), ("tenant", "a"))
    assert tags_of({}) == required_tags(None) == ()


@pytest.mark.parametrize(
    "given", ["tenant=a", [("tenant", "a")], {"tenant": 1}, {1: "a"}, {"tenant": None}, 7]
)
def test_what_maps_no_strings_to_strings_is_refused(given):
    with pytest.raises(UsageError, match="use a dict of strings"):
        tags_of(given)


@pytest.mark.parametrize(
    ("tags", "problem"),
    [
        ({"": "a"}, "the name of a tag is empty"),
        ({"tenant": ""}, "the tag 'tenant' is empty"),
        ({"a=b": "c"}, "'a=b' contains ="),
        ({"名" * 22: "a"}, "the name of a tag has 66 bytes in UTF-8, at most 64"),
        ({"tenant": "名" * 86}, "the tag 'tenant' has 258 bytes in UTF-8, at most 255"),
        ({"tenant": "\udc00"}, "the tag 'tenant' is not valid Unicode"),
        ({str(number): "a" for number in range(MOST_TAGS + 1)}, "17 tags, at most 16"),
        ({"n" * 64: "v" * 255}, None),
        ({str(number): "a=b" for number in range(MOST_TAGS)}, None),
    ],
)
def test_tags_are_few_and_short(tags, problem):
    found = tags_problem(tags_of(tags))
    assert (found is None) == (problem is None)
    if problem is not None:
        assert problem in found
        with pytest.raises(UsageError, match="invalid tags"):
            required_tags(tags)


def test_a_tag_has_one_value_in_a_query_too():
    with pytest.raises(ValueError, match="'tenant' is given twice: a tag has one value"):
        NeighboursRequest(id="a", tag=["tenant=a", "tenant=b"])


def test_the_error_of_a_query_takes_time_linear_in_its_length():
    """A request of 64 kB stopped the service for a second."""
    name = " - at `$" * 20_000
    start = process_time()
    with pytest.raises(Unfitting, match="query"):
        convert({"id": "a", "tag": [f"{name}=1", f"{name}=2"]}, NeighboursRequest, "query")
    assert process_time() - start < 1
