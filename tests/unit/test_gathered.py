"""Sources of which one document stands for most."""

from random import Random

import pytest

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.record import Record, Reject
from simhbase.jobs.source_report import COUNTED, GATHERED_FROM, Gathered


def said_of(kept: list[str | None], more: int = 0) -> list[str]:
    found = Gathered(Inputs("a.jsonl"))
    records = [Record("a.jsonl", number, f"d{number}", text="") for number in range(len(kept))]
    for start in range(0, len(kept), 7):  # batches
        found.add(
            [*records[start : start + 7], *[Reject("a.jsonl", 0, None, "bad")] * more],
            kept[start : start + 7],
        )
    return found.warnings()


def test_a_document_that_stands_for_more_than_half_is_named_with_an_example():
    kept = [None] * 9 + ["x"] * 11
    assert said_of(kept, more=1) == [
        "a.jsonl: 11 of its 20 documents are near-duplicates of x, such as d9. Compare these two before you "
        "discard them"
    ]
    assert said_of([None] * 10 + ["x"] * 10) == []
    assert said_of(["x"] * (GATHERED_FROM - 1)) == []


@pytest.mark.parametrize("seed", range(5))
def test_among_many_that_stand_for_one_or_two_it_is_found_in_bounded_memory(seed):
    chance = Random(seed)
    kept = ["x"] * 700 + [f"y{number % 250}" for number in range(300)]
    chance.shuffle(kept)
    (said,) = said_of(kept)
    count = int(said.split(": ")[1].split()[0])
    assert 700 - len(kept) / (COUNTED + 1) <= count <= 700
    found = Gathered(Inputs("a.jsonl"))
    found.add([Record("a.jsonl", n, f"d{n}", text="") for n in range(1000)], kept)
    assert len(found._taken["a.jsonl"]) <= COUNTED
