"""Shares of what there is a limited amount of, and turns."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from simhbase.process.queue import SHARED, Queue, QueuedRequest, Shares, Turns


def test_who_has_less_than_an_equal_share_is_given_more_beyond_the_limit() -> None:
    shares = Shares(12)
    assert shares.take("greedy", 12)
    assert not shares.take("greedy", 1)
    assert [shares.take("modest", 3) for _ in range(3)] == [True, True, False]
    assert [shares.take("late", 2) for _ in range(3)] == [True, True, False]
    shares.give_back("greedy", 12)
    assert shares.take("late", 2)


def test_one_request_may_be_larger_than_the_limit_while_nothing_is_held() -> None:
    shares = Shares(5)
    assert shares.take("a", 9)
    assert not shares.take("b", 2)
    assert shares.take("b", 1)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20))), st.integers(1, 40))
def test_together_they_hold_at_most_twice_the_limit(asked: list[tuple[int, int]], most: int) -> None:
    shares = Shares(most)
    taken = [each for each in asked if shares.take(*each)]
    assert shares.total == sum(size for _, size in taken) <= max(2 * most, 20)
    for source, size in taken:
        shares.give_back(source, size)
    assert shares.total == 0
    assert shares.take("another", 2 * most)


def test_sources_take_turns_and_one_that_may_not_is_passed_over() -> None:
    """Who has asked for much does not hold up who asks for little."""
    turns = Turns[str]()
    for name in ("a1", "a2", "a3", "b1", "c1", "b2"):
        turns.setdefault(name[0], deque()).append(name)
    taken = [turns.next(lambda source: source != "b") for _ in range(2)]
    while item := turns.next(lambda source: True):
        taken.append(item)
    assert [name for _, name in taken] == ["a1", "c1", "b1", "a2", "b2", "a3"]
    assert not turns


def test_nobody_waits_with_what_is_heavy_of_others() -> None:
    """One text of a million characters held up all lookups that were read with it."""
    queue = Queue[QueuedRequest[str, None]](0, "requests")

    def put(source: str, weight: int) -> QueuedRequest[str, None]:
        request: QueuedRequest[str, None]
        request = QueuedRequest(kind="find", records=[source], source=source, weight=weight)
        assert queue.put(request, is_due=True)
        return request

    heavy, light, other = put("heavy", 90), put("light", 1), put("other", 1)
    more, part = put("heavy", 5), put("part", 100 // SHARED - 2)
    taken = [queue.take(10, heaviest=100) for _ in range(3)]
    assert taken == [[heavy], [light, other, part], [more]]
