"""Unrelated texts are not taken for duplicates because they are long, and edited ones are."""

from itertools import islice
from random import Random

import pytest

import simhbase
from simhbase.model.thresholds import SIMILAR
from simhbase.profile.profile import make_profile
from tests import reference, unrelated
from tests.command_line import documents, read_lines, run


def duplicates(texts: list[str], preset: str) -> int:
    """Documents that a store of this preset takes for duplicates of earlier ones."""
    with simhbase.open("memory:", create=make_profile({}, preset).parameters()) as index:
        claims = [index.claim(str(number), text) for number, text in enumerate(texts)]
    return sum(claim.match is not None for claim in claims)


@pytest.mark.parametrize("kind", [*unrelated.GENERATED, "books"])
def test_unrelated_texts_are_no_duplicates(kind):
    texts = unrelated.books() if kind == "books" else unrelated.texts_of(kind)
    assert simhbase.dedup([(str(number), text) for number, text in enumerate(texts)]).duplicates == 0
    assert duplicates(texts, "complete") == 0
    assert duplicates(texts, "default") == 0


def replaced(text: str, chance: Random) -> str:
    """The text with 1 % of its characters replaced."""
    characters = list(text)
    for place in chance.sample(range(len(text)), len(text) // 100):
        characters[place] = chr(0x4E00 + chance.randrange(5000))
    return "".join(characters)


def test_long_texts_that_are_doubled_edited_or_begin_with_boilerplate_are_found_by_complete():
    chance = Random(3)
    texts = [
        text[:4000]
        for corpus in reference.CORPORA
        for _, text in islice(reference.documents(corpus, 29), 300)
        if len(text) >= 1500
    ]
    boilerplate = texts[0]  # Chinese
    edits = [
        (0.99, [text * 2 for text in texts]),
        (0.95, [replaced(text, chance) for text in texts]),
        # Of texts that repeat themselves the boilerplate is a larger part: 0.97 of these are similar enough.
        (0.95, [boilerplate[: len(text) * 3 // 10] + text for text in texts]),
    ]
    with simhbase.open("memory:", create=make_profile({}, "complete").parameters()) as index:
        index.add([(str(number), text) for number, text in enumerate(texts)])
        for least, edited in edits:
            found = index.find_many(edited)
            met = [str(n) in {match.id for match in each.matches} for n, each in enumerate(found)]
            assert sum(met) >= least * len(texts)


def test_a_text_that_repeats_a_few_patterns_says_so_and_most_of_a_source_is_named(tmp_path):
    """Logs of three messages are near-duplicates by any set of shingles: what is removed names its reason."""
    chance = Random(5)
    messages = [f"message {number} of the service was sent and received" for number in range(3)]
    contents = ["\n".join(chance.choices(messages, k=300)) for _ in range(25)]
    assert reference.similarity(*contents[:2]) > SIMILAR
    documents(tmp_path / "rows.jsonl", contents)
    done = run("dedup", "--evidence", "e.jsonl", "rows.jsonl", cwd=tmp_path)
    said = done.stderr.decode()
    assert "of its 25 documents are near-duplicates of d0, such as d1. Compare these two" in said
    assert "the text repeats a few patterns: its similarity says little" in said
    assert all("similarity says little" in line["notes"][-1] for line in read_lines(tmp_path / "e.jsonl"))
    loaded = run(
        *("load", "--unique-only", "--profile", "complete", "--store", "rocksdb:x.db", "rows.jsonl"),
        cwd=tmp_path,
    )
    assert "of its 25 documents are near-duplicates of d0, such as d1" in loaded.stderr.decode()
