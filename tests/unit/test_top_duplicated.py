"""What keeps out the most, in bounded memory."""

import random
from collections import Counter

from simhbase.deduplication.report import GroupSize
from simhbase.loads import top_duplicated
from simhbase.loads.top_duplicated import TopDuplicated


def test_counts_are_exact_where_few_keep_others_out():
    found = TopDuplicated()
    found.add({"a": 2, "b": 1})
    found.add({"b": 1, "c": 7})
    assert found.largest() == (GroupSize("c", 8), GroupSize("a", 3), GroupSize("b", 3))


def test_where_many_do_memory_is_bounded_and_so_is_what_counts_miss(monkeypatch):
    monkeypatch.setattr(top_duplicated, "MOST_COUNTED", 50)
    chance = random.Random(1)
    exact: Counter[str] = Counter()
    found = TopDuplicated()
    for _ in range(200):
        batch = Counter(f"d{int(chance.paretovariate(0.6))}" for _ in range(20))
        exact += batch
        found.add(batch)
        assert len(found._counts) <= 50
    assert len(exact) > 300
    missed = [exact[each.group] + 1 - each.documents for each in found.largest()]
    assert all(0 <= each <= exact.total() / 50 for each in missed)
    assert [each.group for each in found.largest()][:2] == [each for each, _ in exact.most_common(2)]
