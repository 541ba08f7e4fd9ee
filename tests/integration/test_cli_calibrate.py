"""`simhbase calibrate` and `simhbase evaluate`, from files to a recommendation that holds."""

import json
import os
import shlex
from math import floor
from pathlib import Path

import numpy as np
import pytest

from simhbase.quality.exact_join import similar_pairs
from simhbase.text.jaccard import shingle_sets
from tests.command_line import documents, result, run, texts
from tests.near import versions
from tests.short import near_pairs

GOAL = ["--jaccard", 0.8, "--recall", 0.9, "--precision", 0.9, "--threads", 1]


@pytest.fixture(scope="module")
def halves(tmp_path_factory) -> list[Path]:
    """Two halves of one corpus."""
    folder = tmp_path_factory.mktemp("halves")
    corpus = list(versions(300))
    return [
        documents(folder / f"{name}.jsonl", half, prefix=name)
        for name, half in (("a", corpus[:600]), ("b", corpus[600:]))
    ]


@pytest.fixture(scope="module")
def calibration(halves) -> dict:
    return result("calibrate", *GOAL, "--plots", "plots", halves[0], cwd=halves[0].parent)


def truth(path: Path, least: float) -> tuple[Path, int]:
    """A file of the pairs that are so similar, and their number."""
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    pairs = similar_pairs(shingle_sets([record["text"] for record in records]), least)
    lines = [
        f"{similarity:.4f}\t{records[left]['id']}\t{records[right]['id']}\n"
        for left, right, similarity in zip(pairs.left, pairs.right, pairs.score, strict=True)
    ]
    file = path.with_suffix(".tsv")
    file.write_text("".join(lines))
    return file, len(lines)


def test_following_the_recommendation_reaches_the_predicted_recall_on_the_other_half(
    halves, calibration, tmp_path
):
    recommended = calibration["recommended"]
    done = run(*shlex.split(recommended["command"])[1:], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result("load", halves[1], cwd=tmp_path)
    pairs, number = truth(halves[1], 0.8)
    reached = result("evaluate", "--pairs", pairs, cwd=tmp_path)
    assert reached["pairs"] == number
    predicted = recommended["recall"]["all"]
    assert predicted["low"] <= reached["recall"]["all"]["value"] <= predicted["high"] + 0.001


def test_minhash_reaches_what_simhash_does_not(calibration):
    assert calibration["truth"] == "Jaccard of growing shingles"
    assert calibration["recommended"]["scheme"] == "minhash"
    assert calibration["recommended"]["reaches_goal"]


def test_a_goal_that_few_groups_reach_is_reached_without_being_sure_and_that_is_said(calibration, tmp_path):
    assert calibration["groups"] > 100
    assert calibration["recommended"]["surely_reaches_goal"]
    few = documents(tmp_path / "few.jsonl", list(versions(30)))
    done = run("calibrate", *GOAL, "--json", few, cwd=tmp_path)
    calibrated = json.loads(done.stdout)
    recommended = calibrated["recommended"]
    share = recommended["recall"]["all"]
    assert share["value"] >= 0.9 > share["low"]
    assert recommended["reaches_goal"]
    assert not recommended["surely_reaches_goal"]
    said = done.stderr.decode()
    assert f"the sample has only {calibrated['groups']} groups of near-duplicates" in said
    assert f"start at a recall of {floor(100 * share['low'])} %" in said


@pytest.mark.parametrize(
    ("options", "bound"),
    [
        (["--set", "k=6", "--set", "layout=8x2"], []),
        (["--set", "scheme=minhash", "--set", "bands=16x8"], ["--min-similarity", 0.7]),
        (["--set", "verify=true", "--set", "k=6", "--set", "layout=8x2"], ["--min-similarity", 0.8]),
    ],
)
def test_recall_of_a_corpus_is_that_of_a_store_with_the_same_profile(halves, tmp_path, options, bound):
    pairs, _ = truth(halves[1], 0.5)
    result("load", *options, halves[1], cwd=tmp_path)
    of_store = result("evaluate", "--pairs", pairs, *bound, cwd=tmp_path)
    of_corpus = result("evaluate", "--pairs", pairs, *options, *bound, halves[1], cwd=tmp_path)
    assert of_store["recall"] == of_corpus["recall"]
    assert of_store["found"] == of_corpus["found"]
    assert 0 < of_store["recall"]["all"]["value"] < 1


def test_of_documents_of_one_fingerprint_a_store_finds_what_their_own_sketches_say(tmp_path):
    # The same words in another order: one SimHash, and other shingles.
    corpus = [
        " ".join([*words[:same], *reversed(words[same:])])
        for words in (text.split() for text in texts(30, words=24))
        for same in (24, 18, 12, 0)
    ]
    path = documents(tmp_path / "corpus.jsonl", corpus)
    pairs, _ = truth(path, 0.3)
    options = ["--set", "verify=true", "--set", "threshold=0.6"]
    result("load", *options, path, cwd=tmp_path)
    of_store = result("evaluate", "--pairs", pairs, cwd=tmp_path)
    of_corpus = result("evaluate", "--pairs", pairs, *options, path, cwd=tmp_path)
    assert of_store["recall"] == of_corpus["recall"]
    assert of_store["found"] == of_corpus["found"]
    assert 0 < of_store["recall"]["all"]["value"] < 1


@pytest.mark.parametrize(
    ("options", "features", "near", "layout"),
    [
        (["verify=false"], "words, saturated", "k = 3", None),
        (["layout=4x1"], "words, capped", "k = 3, reach 7, similarity >= 0.65", "4x1"),
        (["layout=6x2", "k=4"], "words, capped", "k = 4, reach 7, similarity >= 0.65", "6x2"),
    ],
)
def test_what_calibrate_measured_is_what_evaluate_measures(
    halves, calibration, tmp_path, options, features, near, layout
):
    pairs, _ = truth(halves[0], 0.7)
    settings = [word for option in options for word in ("--set", option)]
    found = result("evaluate", "--pairs", pairs, *settings, halves[0], cwd=tmp_path)
    (measured,) = [
        each
        for each in calibration["settings"]
        if (each["features"], each["near"]) == (features, near)
        and each["layout"] in (layout or each["layout"])
    ]
    assert found["precision"] == measured["precision"]
    assert found["recall"]["0.8-0.9"] == measured["recall"]["0.8-0.9"]


def test_changed_copies_are_found_as_their_similarity_says(calibration):
    changes = calibration["changes"]
    assert [each["change"] for each in changes[:5]] == [
        f"{n} % of the words changed" for n in (1, 2, 5, 10, 20)
    ]
    similarities = [each["similarity"] for each in changes[:5]]
    assert similarities == sorted(similarities, reverse=True)
    for each in changes:
        assert each.keys() == {"change", "similarity", "default", "complete", "short", "recommended", "dedup"}
        assert each["dedup"]["pairs"] == 300
        # Half of the copies are as similar as the median, and dedup finds what reaches its threshold.
        assert (each["dedup"]["value"] >= 0.5) == (each["similarity"] >= 0.65)


def test_every_layout_of_a_wider_search_has_its_price(calibration):
    by_k = {}
    for layout in calibration["layouts"]:
        by_k.setdefault(layout["near"], []).append(layout)
    assert list(by_k) == ["k = 4", "k = 5", "k = 6", "k = 7"]
    for layouts in by_k.values():
        rows = [layout["rows"] for layout in layouts]
        candidates = [layout["candidates_per_million"] for layout in layouts]
        assert rows == sorted(rows)
        assert candidates[0] > candidates[1]


def test_people_are_shown_the_recommendation_first_and_the_rest_when_they_ask(tmp_path):
    few = documents(tmp_path / "few.jsonl", list(versions(30)))
    done = run("calibrate", *GOAL, "--profile-file", "own.toml", few, cwd=tmp_path)
    lines = done.stdout.decode().splitlines()
    (best,) = (number for number, line in enumerate(lines) if "simhbase tables create" in line)
    (settings,) = (number for number, line in enumerate(lines) if line.startswith("best settings"))
    assert best < settings
    assert len(lines) == settings + 1 + 1 + 10  # the columns' names, and the settings
    assert b"--all shows them" in done.stderr
    (changes,) = (number for number, line in enumerate(lines) if line.startswith("changes"))
    assert best < changes == settings - 9
    assert b"a threshold above the similarity leaves out most" in done.stderr
    assert done.stderr.decode().splitlines()[-1] == (
        "recommended for a store of 120 documents, as in the corpus: use --documents N for a larger one"
    )
    given = run("calibrate", *GOAL, "--all", "--documents", 120, few, cwd=tmp_path)
    assert b"--documents" not in given.stderr
    everything = given.stdout.decode().splitlines()
    assert len(everything) > len(lines) + 50
    assert any("words, tfidf, top 64" in line and "4x1" in line for line in everything)
    # The file makes the store that the line does.
    result("tables", "create", "--profile", "own.toml", "--store", "rocksdb:own.db", cwd=tmp_path)
    command = shlex.split(lines[best].partition("simhbase ")[2])
    assert run(*command, "--store", "rocksdb:own.db", cwd=tmp_path).returncode == 0


def test_labels_take_the_place_of_the_exact_join(halves, calibration, tmp_path):
    pairs, _ = truth(halves[0], 0.65)
    labelled = result("calibrate", *GOAL, "--labels", pairs, halves[0], cwd=tmp_path)
    assert labelled["settings"] == calibration["settings"]


def test_verification_costs_recall_below_its_threshold_alone_and_takes_out_what_is_wrong(calibration):
    by_name = {(each["features"], each["near"]): each for each in calibration["settings"]}
    plain = by_name["words, saturated", "k = 7"]
    verified = by_name["words, capped", "k = 7, reach 7, similarity >= 0.7"]
    assert plain["precision"]["value"] < verified["precision"]["value"]
    assert plain["recall"]["0.9-1"] == verified["recall"]["0.9-1"]
    assert plain["recall"]["0.7-0.75"]["value"] > verified["recall"]["0.7-0.75"]["value"]


def test_plots_are_drawn_and_are_the_same_each_time(halves, calibration, tmp_path):
    assert result("calibrate", *GOAL, "--plots", tmp_path, halves[0], cwd=tmp_path) == calibration
    drawn = halves[0].parent / "plots"
    names = {path.name for path in drawn.iterdir()}
    plots = ("recall-precision", "s-curves", "distances", "pareto")
    assert names == {f"{plot}.{kind}" for plot in plots for kind in ("svg", "png")}
    for name in names:
        assert (tmp_path / name).read_bytes() == (drawn / name).read_bytes()


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders away")
def test_plots_are_not_written_into_a_folder_that_another_user_has_prepared(halves, tmp_path):
    """Links in it led to files of this user."""
    tmp_path.chmod(0o1777)
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "pareto.svg").symlink_to(tmp_path / "made")
    os.chown(tmp_path / "plots", 1, -1)
    done = run("calibrate", *GOAL, "--plots", tmp_path / "plots", halves[0], cwd=tmp_path)
    assert done.returncode == 1
    assert b"cannot write plots into " in done.stderr
    assert b"it is a folder of another user" in done.stderr
    assert not (tmp_path / "made").exists()


def test_texts_without_words_are_measured_by_their_characters(tmp_path):
    chance = np.random.default_rng(0)
    marks = ["".join(chance.choice(list("!?.,;:-+*/"), 200)) for _ in range(100)]
    path = documents(tmp_path / "corpus.jsonl", [text for mark in marks for text in (mark, f"{mark}!?")])
    found = result("calibrate", "--threads", 1, path, cwd=tmp_path)
    by_words = [each for each in found["settings"] if each["features"] == "words, saturated"]
    assert all(each["recall"]["all"]["value"] == 0 for each in by_words)
    assert found["recommended"]["features"] == "chars:3"


def test_labels_need_the_whole_corpus(halves, tmp_path):
    pairs, _ = truth(halves[0], 0.8)
    done = run("calibrate", "--labels", pairs, "--sample", 100, halves[0], cwd=tmp_path)
    assert done.returncode == 1
    assert "use a sample of 600" in done.stderr.decode()


def test_binary_files_are_no_corpus(tmp_path):
    path = tmp_path / "picture.jsonl"
    path.write_bytes(np.random.default_rng(0).bytes(10_000))
    done = run("calibrate", path, cwd=tmp_path)
    assert done.returncode == 1
    assert "no document could be read" in done.stderr.decode()


def test_a_store_without_the_ids_of_the_labels_is_named(halves, tmp_path):
    result("load", halves[0], cwd=tmp_path)
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a1\tnobody\n")
    done = run("evaluate", "--pairs", pairs, cwd=tmp_path)
    assert done.returncode == 1
    assert "not stored in rocksdb:simhbase.db: 'nobody'" in done.stderr.decode()


def test_a_wrong_option_is_refused_before_anything_is_read(tmp_path):
    done = run("calibrate", "--right", 0.9, "--jaccard", 0.8, "missing.jsonl", cwd=tmp_path)
    assert (done.returncode, b"--right: must be at most 0.8" in done.stderr) == (2, True)


def test_short_texts_get_a_store_that_finds_them(tmp_path):
    # Two characters changed leave a similarity of 0.6 and more; others are not near at all.
    pairs = [pair for length in range(16, 40) for pair in near_pairs(20, length)]
    halves = [
        documents(tmp_path / f"{name}.jsonl", [text for pair in half for text in pair], prefix=name)
        for name, half in (("a", pairs[::2]), ("b", pairs[1::2]))
    ]
    calibrated = result("calibrate", "--threads", 1, halves[0], cwd=tmp_path)
    recommended = calibrated["recommended"]
    assert recommended["reaches_goal"]
    assert calibrated["truth"] == "Jaccard of pairs of characters"
    assert "--set features=chars:1-3" in recommended["command"]
    result(*shlex.split(recommended["command"])[1:], cwd=tmp_path)
    result("load", halves[1], cwd=tmp_path)
    labels = tmp_path / "pairs.tsv"
    labels.write_text("".join(f"b{2 * number}\tb{2 * number + 1}\n" for number in range(len(pairs) // 2)))
    reached = result("evaluate", "--pairs", labels, cwd=tmp_path)["recall"]["all"]["value"]
    predicted = recommended["recall"]["all"]
    assert predicted["low"] <= reached <= predicted["high"]
