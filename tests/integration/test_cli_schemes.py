"""The commands on stores that keep sketches."""

import random

import pytest

from tests import reference
from tests.command_line import documents, read_lines, result, run, texts

STORE = ("--store", "rocksdb:store.db")
MINHASH = ("--set", "scheme=minhash", "--set", "bands=20x6", "--set", "threshold=0.8")
SCHEMES = pytest.mark.parametrize(
    "scheme",
    [
        MINHASH,
        (
            "--set",
            "verify=true",
        ),
    ],
    ids=["minhash", "verified"],
)


def near(text: str) -> str:
    return text.replace(text[100:102], "zz", 1)


@pytest.fixture
def corpus(tmp_path):
    """d0 to d3, of which d2 is nearly d0, and d3 is d1."""
    first, second = texts(2)
    return documents(tmp_path / "in.jsonl", [first, second, near(first), second])


def test_a_minhash_store_from_its_creation_to_its_last_document(tmp_path, corpus):
    created = result("tables", "create", *STORE, *MINHASH, cwd=tmp_path)["profile"]
    assert (created["scheme"], created["bands"], created["threshold"]) == ("minhash", "20x6", 0.8)
    assert "k" not in created
    assert result("tables", "create", *STORE, cwd=tmp_path)["profile"] == created
    assert result("load", *STORE, corpus, cwd=tmp_path)["loaded"] == 4
    answers = result("find", *STORE, corpus, cwd=tmp_path)
    assert [[match["id"] for match in answer["matches"]] for answer in answers] == [
        ["d0", "d2"],
        ["d1", "d3"],
        ["d2", "d0"],
        ["d1", "d3"],
    ]
    assert answers[0]["matches"][0]["similarity"] == 1
    assert 0.9 < answers[0]["matches"][1]["similarity"] < 1
    by_id = result("find", *STORE, "--id", "d0", "--min-similarity", "0.999", cwd=tmp_path)
    assert [match["id"] for match in by_id["matches"]] == ["d0"]
    by_fingerprint = result("find", *STORE, "--fingerprint", answers[0]["fingerprint"], cwd=tmp_path)
    assert by_fingerprint["matches"] == answers[0]["matches"]
    stats = result("stats", *STORE, "--exact", cwd=tmp_path)
    assert (stats["documents"], stats["fingerprints"], stats["index_rows"]) == (4, 3, 60)
    assert result("stats", *STORE, cwd=tmp_path)["drawers"]["largest_rows"] == 2
    assert result("check", *STORE, cwd=tmp_path)["clean"]
    assert result("tables", "check", *STORE, cwd=tmp_path)["same"]
    printed = result("fingerprint", *STORE, corpus, cwd=tmp_path)
    assert [row["fingerprint"] for row in printed] == [answer["fingerprint"] for answer in answers]
    result("delete", "--yes", *STORE, "d0", "d1", "d2", "d3", cwd=tmp_path)
    assert result("stats", *STORE, "--exact", cwd=tmp_path)["index_rows"] == 0


@SCHEMES
def test_a_unique_load_tells_how_similar_duplicates_are(tmp_path, corpus, scheme):
    files = ("--yes", "--unique", "unique.jsonl", "--duplicates", "duplicates.jsonl")
    bound = ("--min-similarity", "0.8")
    report = result("load", *STORE, *scheme, "--unique-only", *bound, *files, corpus, cwd=tmp_path)
    duplicates = {line["id"]: line for line in read_lines(tmp_path / "duplicates.jsonl")}
    assert report["duplicates"] == len(duplicates) == 4 - len(read_lines(tmp_path / "unique.jsonl"))
    assert (duplicates["d3"]["duplicate_of"], duplicates["d3"]["similarity"]) == ("d1", 1)
    assert all(line["similarity"] >= 0.8 for line in duplicates.values())
    assert scheme != MINHASH or duplicates["d2"]["duplicate_of"] == "d0"


@SCHEMES
def test_dedup_tells_how_similar_duplicates_are(tmp_path, corpus, scheme):
    report = result("dedup", *scheme, "--duplicates", "duplicates.jsonl", corpus, cwd=tmp_path)
    duplicates = {line["id"]: line for line in read_lines(tmp_path / "duplicates.jsonl")}
    assert report["duplicates"] == len(duplicates)
    line = {"id": "d3", "duplicate_of": "d1", "distance": 0, "similarity": 1, "group": "d1"}
    line |= {"source": str(corpus), "line": 4, "kept_source": str(corpus), "kept_line": 2}
    assert duplicates["d3"] == line


@pytest.mark.parametrize(
    "scheme", [("--set", "k=24"), ("--set", "scheme=minhash")], ids=["simhash", "minhash"]
)
def test_dedup_counts_the_shingles_that_near_texts_share(tmp_path, scheme):
    chance = random.Random(3)
    letters = "".join(chr(chance.randrange(0x4E00, 0x9FA5)) for _ in range(400))
    contents = [
        letters[:kept] + letters[kept:].translate(dict.fromkeys(range(19968, 40870), "x"))
        for kept in (400, 380, 300)
    ]
    corpus = documents(tmp_path / "in.jsonl", [*contents, contents[2]])
    shared = reference.similarity(*contents[:2])
    for least, duplicates in ((shared, ["d1", "d3"]), (shared + 1e-9, ["d3"])):
        files = ("--yes", "--duplicates", "duplicates.jsonl", "--min-similarity", repr(least))
        result("dedup", *scheme, *files, corpus, cwd=tmp_path)
        lines = read_lines(tmp_path / "duplicates.jsonl")
        assert [line["id"] for line in lines] == duplicates
        assert [line["similarity"] for line in lines] == [round(shared, 4), 1][-len(lines) :]


@pytest.mark.parametrize("chains", ["--chains", "--no-chains"])
def test_texts_of_one_fingerprint_are_near_where_they_share_enough_shingles(tmp_path, chains):
    words = texts(1)[0].split()
    backwards = " ".join(reversed(words))  # the same SimHash
    contents = [" ".join(words), backwards, backwards.replace(" ", "  "), backwards]
    file = documents(tmp_path / "in.jsonl", contents)
    files = ("--yes", chains, "--duplicates", "duplicates.jsonl")
    least = ("--min-similarity", "0.8")
    wide = ("--set", "bits=128", "--set", "verify=true", "--set", "threshold=0.8")
    for verified in (
        least,
        ("--set", "verify=true", *least),
        ("--set", "verify=true", "--set", "threshold=0.8"),
        wide,
    ):
        assert result("dedup", *verified, *files, file, cwd=tmp_path)["unique"] == 2
        lines = read_lines(tmp_path / "duplicates.jsonl")
        assert [(line["id"], line["duplicate_of"]) for line in lines] == [("d2", "d1"), ("d3", "d1")]
        assert [line["similarity"] for line in lines] == [1, 1]


def test_people_read_how_similar_a_match_is(tmp_path, corpus):
    result("load", *STORE, *MINHASH, corpus, cwd=tmp_path)
    assert b"  about 1.00 similar  " in run("find", *STORE, "--id", "d0", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("tables", "create", "--set", "scheme=minhash", "--set", "k=3"),
        ("load", "--min-similarity", "0.8", "in.jsonl"),
        ("load", "--set", "verify=false", "--unique-only", "--min-similarity", "0.8", "in.jsonl"),
        ("load", "--set", "scheme=minhash", "--fingerprint-field", "f", "in.jsonl"),
    ],
)
def test_options_that_do_not_apply_to_the_scheme_end_with_usage(tmp_path, corpus, arguments):
    done = run(*arguments, *STORE, cwd=tmp_path)
    assert done.returncode == 2, done.stderr.decode()
    assert not (tmp_path / "store.db").exists()


def test_dedup_by_sketches_needs_texts(tmp_path, corpus):
    dedup = ("dedup", "--set", "scheme=minhash", "--fingerprint-field", "f", corpus)
    assert run(*dedup, cwd=tmp_path).returncode == 2


def test_bounds_that_a_store_does_not_know_end_with_usage(tmp_path, corpus):
    result("load", "--set", "verify=false", *STORE, corpus, cwd=tmp_path)
    refused = run("find", *STORE, "--min-similarity", "0.8", "--id", "d0", cwd=tmp_path)
    assert refused.returncode == 2
    assert b"--min-similarity: the store keeps no sketches" in refused.stderr
    result("load", "--store", "rocksdb:minhash.db", *MINHASH, corpus, cwd=tmp_path)
    assert run("find", "--store", "rocksdb:minhash.db", "-k", "2", "--id", "d0", cwd=tmp_path).returncode == 2


def test_a_similarity_below_what_the_bands_find_says_what_to_expect(tmp_path, corpus):
    result("load", *STORE, *MINHASH, corpus, cwd=tmp_path)
    low, usual = (
        run("find", *STORE, "--id", "d0", "--min-similarity", least, cwd=tmp_path) for least in (0.3, 0.85)
    )
    said = (
        "of texts with a similarity of 0.3, the bands 20x6 find about 1%, and more of those with a higher "
        "one (bands=auto takes bands for the threshold)"
    )
    assert said in low.stderr.decode()
    assert usual.stderr == b""
    done = run("dedup", "--set", "bands=20x6", "--min-similarity", 0.3, corpus, cwd=tmp_path)
    assert said in done.stderr.decode()
    assert b"bands" not in run("dedup", "--min-similarity", 0.3, corpus, cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            ["threshold=0.5"],
            "of texts with a similarity below 0.65, drawers by SimHash may miss more than half",
        ),
        (["scheme=minhash", "threshold=0.3"], "similarity of 0.3, the bands 20x5 find about 5%"),
        (["scheme=minhash", "threshold=0.3", "bands=auto"], None),
        (["threshold=0.8"], None),
        (["verify=false"], None),
    ],
)
def test_a_new_store_says_what_its_drawers_miss_of_its_threshold(tmp_path, corpus, settings, said):
    """A lowered threshold did nothing, and nobody said so."""
    options = [part for setting in settings for part in ("--set", setting)]
    made = run("tables", "create", *STORE, *options, cwd=tmp_path)
    loaded = run("load", "--store", "rocksdb:other.db", *options, corpus, cwd=tmp_path)
    for done in made, loaded:
        assert done.returncode == 0
        if said is None:
            assert b"of texts with a similarity" not in done.stderr
        else:
            assert said in done.stderr.decode()


@pytest.mark.parametrize("given", ["rocksdb:other.db", "hbase://gateway/news", "memory:", "redis://host/0"])
def test_a_store_in_the_place_of_a_file_is_refused_before_anything_is_made(tmp_path, corpus, given):
    """`simhbase load FILE rocksdb:NAME` loaded the file into the default store."""
    done = run("load", corpus, given, cwd=tmp_path)
    assert done.returncode == 2
    assert b"is the URL of a store, and inputs are files" in done.stderr
    assert not (tmp_path / "simhbase.db").exists()
