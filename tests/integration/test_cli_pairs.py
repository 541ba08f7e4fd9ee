"""All pairs of near-duplicates of a corpus, against a comparison of all texts; and the command."""

from itertools import combinations
from pathlib import Path

import pytest

import simhbase
from simhbase import BadInput, Pair, SimhbaseError, UsageError
from simhbase.drawers import pairs as drawers_pairs
from tests.command_line import documents, fingerprints, result, run
from tests.near import versions

COPIES = 4
DISTINCT = list(versions(5, words=60))
TEXTS = [text for number, text in enumerate(DISTINCT) for _ in range(1 if number % 5 else COPIES)]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawers_pairs, "_AT_ONCE", 5)


def chains(pairs: list[Pair]) -> set[frozenset[int]]:
    """Connected components."""
    group = {number: frozenset([number]) for number in range(len(TEXTS))}
    for pair in pairs:
        both = group[pair.id_a] | group[pair.id_b]
        group |= dict.fromkeys(both, both)
    return {members for members in group.values() if len(members) > 1}


@pytest.mark.parametrize("profile", [{}, {"scheme": "simhash", "k": 5, "bits": 128}])
def test_they_are_those_of_all_texts(profile: dict[str, object]) -> None:
    rows = [{"id": number, "text": text} for number, text in enumerate(TEXTS)]
    with simhbase.pairs(rows, profile) as found:
        pairs = list(found)
        assert set(found) == set(pairs)  # again
    assert found.counts.parsed == len(TEXTS)

    exact = {
        (one, other): 1.0 if one == other else simhbase.compare(one, other).jaccard
        for one, other in combinations([*DISTINCT, *DISTINCT], 2)
    }
    alike = {
        (one, other): exact[TEXTS[one], TEXTS[other]] for one, other in combinations(range(len(TEXTS)), 2)
    }
    near = {pair for pair, similarity in alike.items() if similarity >= 0.65}
    named = {(pair.id_a, pair.id_b): pair.similarity for pair in pairs}
    assert len(named) == len(pairs)
    assert named == {pair: pytest.approx(alike[pair]) for pair in named}
    assert named.keys() <= near
    assert len(named) > len(near) * (0.9 if not profile else 0.4)
    assert sum(similarity == 1 for similarity in named.values()) >= 4 * COPIES * (COPIES - 1) / 2

    groups: dict[int, set[int]] = {}
    for row, label in enumerate(simhbase.dedup(rows, profile, chains=True).labels):
        groups.setdefault(label, set()).add(row)
    assert chains(pairs) == {frozenset(each) for each in groups.values() if len(each) > 1}


def test_pairs_that_were_closed_say_so() -> None:
    found = simhbase.pairs(texts=[TEXTS[0], TEXTS[0]])
    assert repr(found) == "<pairs of 2 documents>"
    found.close()
    with pytest.raises(SimhbaseError, match="this result was closed"):
        list(found)


def test_without_a_similarity_only_fingerprints_decide() -> None:
    with simhbase.pairs([(0, TEXTS[0]), (1, TEXTS[1])], {"verify": False, "k": 0}, min_similarity=0) as found:
        assert list(found) == [Pair(0, 1, 0, None)]


def test_the_command_prints_columns_that_evaluate_reads(tmp_path: Path) -> None:
    documents(tmp_path / "in.jsonl", [TEXTS[0], f"{TEXTS[0]}!", DISTINCT[4], DISTINCT[8]])
    done = run("pairs", "in.jsonl", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.decode() == "id_a\tid_b\tdistance\tsimilarity\nd0\td1\t0\t0.9944\n"
    (tmp_path / "pairs.tsv").write_bytes(done.stdout)
    assert result("evaluate", "--pairs", "pairs.tsv", "in.jsonl", "--json", cwd=tmp_path)["pairs"] == 1

    fingerprints(tmp_path / "prints.jsonl", {"a": 0, "b": 3, "c": 1 << 40, "tab\there": 0})
    done = run("pairs", "--fingerprint-field", "f", "--set", "k=2", "prints.jsonl", cwd=tmp_path)
    assert sorted(done.stdout.decode().splitlines()[1:]) == [
        *("a\tb\t2\t", "a\tc\t1\t", "a\ttab\\x09here\t0\t"),
        *("b\ttab\\x09here\t2\t", "c\ttab\\x09here\t1\t"),
    ]
    found = result(
        "pairs", "--fingerprint-field", "f", "--set", "k=0", "--json", "prints.jsonl", cwd=tmp_path
    )
    assert found == {"id_a": "a", "id_b": "tab\there", "distance": 0, "similarity": None}


def test_the_command_lists_the_pairs_of_a_store(tmp_path: Path) -> None:
    with simhbase.open(f"rocksdb:{tmp_path}/s.db", create="classic") as index:
        index.add_fingerprints(["b", "a", "c"], [0, 1, 3], [{"n": "1"}] * 2 + [{}])
    done = run("pairs", "--store", "rocksdb:s.db", cwd=tmp_path)
    assert sorted(done.stdout.decode().splitlines()[1:]) == ["a\tb\t1\t", "a\tc\t1\t", "b\tc\t2\t"]
    assert done.stderr.decode().startswith("3 documents. What was written since ")
    found = result(
        "pairs", "--tag", "n=1", "--since", "1h", "--json", "--store", "rocksdb:s.db", cwd=tmp_path
    )
    assert found == {"id_a": "a", "id_b": "b", "distance": 1, "similarity": None}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--since", "1d", "in.jsonl"), "give --store"),
        (("--store", "memory:", "in.jsonl"), "leave out files"),
        (("--store", "memory:", "--min-similarity", "0.7"), "leave out files"),
        (("--store", "rocksdb:none.db"), "none.db"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    documents(tmp_path / "in.jsonl", TEXTS[:2])
    done = run("pairs", *arguments, cwd=tmp_path)
    assert done.returncode in (2, 10)
    assert said in done.stderr.decode()


def test_rejects_end_with_their_exit_code(tmp_path: Path) -> None:
    documents(tmp_path / "in.jsonl", [*TEXTS[:2], "?"])
    assert run("pairs", "in.jsonl", cwd=tmp_path).returncode == 3
    (tmp_path / "none.jsonl").write_text("?\n")
    assert run("pairs", "none.jsonl", cwd=tmp_path).returncode == 1
    with pytest.raises(BadInput, match="no row could be read: the text"):
        simhbase.pairs([("a", None)])
    prepared = simhbase.Inputs(["in.jsonl"], simhbase.InputOptions(fingerprint_field="f"))
    with pytest.raises(UsageError, match="fingerprint_field"):
        simhbase.pairs(prepared, min_similarity=0.7)
