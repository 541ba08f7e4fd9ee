"""Boilerplate from end to end: learnt from a corpus, kept in a store, left out of every text."""

import os
from hashlib import sha256

import pytest

import simhbase
from simhbase import Document, Profile
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.record import InputOptions
from simhbase.errors import BadInput
from simhbase.jobs import learn_boilerplate
from simhbase.text.boilerplate import Boilerplate
from simhbase.text.userfile import read_boilerplate
from tests.command_line import documents, result, run, texts, write_lines

STORE = ("--store", "rocksdb:s.db")
LEARN = ("--yes", "--boilerplate", "own.txt")
OWN = ("--set", "boilerplate=own.txt")
MINHASH = ("--set", "scheme=minhash", "--set", "threshold=0.7")
HEAD = "央视网消息（新闻联播）：中国中央电视台为您报道今天的国内国际新闻。"
FOOT = "Subscribe\nCopyright 2020 Example Incorporated. All rights reserved, worldwide and for ever."


def framed(body: str) -> str:
    return f"{HEAD}\n{body}\n{FOOT}"


@pytest.fixture
def bodies(tmp_path):
    """Thirty texts that have nothing in common; in the file a.jsonl they are in one frame, and there is a
    copy of the first."""
    made = texts(30, words=6)
    documents(tmp_path / "a.jsonl", list(map(framed, [*made, made[0]])))
    return made


def learn(tmp_path, *options):
    return result("idf", *LEARN, "a.jsonl", *options, cwd=tmp_path)


def test_what_many_documents_have_is_learnt_and_reported(tmp_path, bodies):
    told = learn(tmp_path)
    learnt = told["boilerplate"]
    assert (told["documents"], told["rejected"], learnt["texts"], learnt["least"]) == (31, 0, 30, 10)
    assert (learnt["lines"], learnt["phrases"], learnt["file"]) == (1, 2, "own.txt")
    assert learnt["most_frequent"][0] == {"documents": 30, "kind": "line", "text": "subscribe"}
    assert learnt["most_frequent"] == [
        entry._asdict() for entry in read_boilerplate(tmp_path / "own.txt").entries
    ]
    assert 50 < learnt["percent_of_characters"] < 90
    assert learnt["documents_of_nothing_else"] == 0


@pytest.mark.parametrize("looks", [1, 2])
def test_files_that_change_between_two_looks_are_told(tmp_path, bodies, monkeypatch, looks):
    """What others have was counted among the documents that were left, or its share was that of them."""
    documents(tmp_path / "b.jsonl", list(map(framed, texts(3))))
    read, passes = learn_boilerplate.read_each, iter(range(3))

    def read_each(*arguments, **how):
        if next(passes) == looks:
            (tmp_path / "b.jsonl").unlink()
        return read(*arguments, **how)

    monkeypatch.setattr(learn_boilerplate, "read_each", read_each)
    inputs = Inputs([tmp_path], InputOptions(id_from="line", format="jsonl"))
    with pytest.raises(BadInput, match="they had 34 documents, and 31 when they were read again"):
        simhbase.learn_boilerplate(inputs, tmp_path.with_suffix(".txt"))
    assert not tmp_path.with_suffix(".txt").exists()


def test_documents_that_are_boilerplate_alone_are_counted(tmp_path, bodies):
    documents(tmp_path / "a.jsonl", [*map(framed, bodies), framed("")])
    assert learn(tmp_path)["boilerplate"]["documents_of_nothing_else"] == 1


def test_a_text_that_was_copied_a_thousand_times_is_no_boilerplate(tmp_path):
    documents(tmp_path / "a.jsonl", [framed("once")] * 1000 + texts(30))
    done = run("idf", *LEARN, "a.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert "no boilerplate file was written" in done.stderr.decode()
    assert "10 or more of 31 different texts" in done.stderr.decode()
    assert not (tmp_path / "own.txt").exists()


def test_a_share_asks_for_so_many_texts(tmp_path, bodies):
    documents(tmp_path / "a.jsonl", [*map(framed, bodies[:15]), *bodies[15:]])
    assert learn(tmp_path, "--boilerplate-share", 0.5)["boilerplate"]["least"] == 15
    assert run("idf", *LEARN, "a.jsonl", "--boilerplate-share", 0.51, cwd=tmp_path).returncode == 1


def test_an_idf_file_and_boilerplate_are_learnt_by_one_command_and_rejects_are_told_once(tmp_path, bodies):
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write("no JSON\n")
    alone = result("idf", "-o", "alone.idf", "a.jsonl", cwd=tmp_path, exit_code=3)
    both = result("idf", "-o", "x.idf", *LEARN, "a.jsonl", "--rejects", "r", cwd=tmp_path, exit_code=3)
    assert (both["words"], both["rejected"], both["boilerplate"]["phrases"]) == (alone["words"], 1, 2)
    assert (tmp_path / "x.idf").read_bytes() == (tmp_path / "alone.idf").read_bytes()
    assert len((tmp_path / "r").read_text().splitlines()) == 1


def test_what_is_learnt_depends_on_no_number_of_threads(tmp_path):
    many = [framed(body) for body in texts(1100, words=6)]
    documents(tmp_path / "a.jsonl", many)
    learn(tmp_path, "--threads", 1)
    alone = (tmp_path / "own.txt").read_bytes()
    learn(tmp_path, "--threads", 2)
    assert (tmp_path / "own.txt").read_bytes() == alone


@pytest.mark.parametrize(
    "options", [("--set", "k=7", "--set", "layout=8x1"), MINHASH], ids=["simhash", "minhash"]
)
def test_texts_of_one_frame_are_near_with_it_and_not_without(tmp_path, bodies, options):
    learn(tmp_path)
    documents(tmp_path / "b.jsonl", [framed(body[:17]) for body in bodies])
    assert result("dedup", "b.jsonl", *options, cwd=tmp_path)["unique"] < 15
    assert result("dedup", "b.jsonl", *options, *OWN, cwd=tmp_path)["unique"] == 30


def test_a_store_keeps_its_boilerplate(tmp_path, bodies):
    learn(tmp_path)
    digest = read_boilerplate(tmp_path / "own.txt").digest
    assert result("load", "a.jsonl", *STORE, *OWN, cwd=tmp_path)["loaded"] == 31
    described = result("tables", "describe", *STORE, cwd=tmp_path)["profile"]["boilerplate"]
    assert described == {"lines": 1, "phrases": 2, "digest": digest}
    (tmp_path / "own.txt").rename(tmp_path / "elsewhere.txt")
    found = result("find", *STORE, "--text", bodies[3], cwd=tmp_path)
    assert [match["id"] for match in found["matches"]] == ["d3"]
    assert [match["id"] for match in result("find", *STORE, "--id", "d0", cwd=tmp_path)["matches"]] == [
        "d0",
        "d30",
    ]
    assert (
        result("load", "a.jsonl", *STORE, "--set", "boilerplate=elsewhere.txt", cwd=tmp_path)["loaded"] == 31
    )
    assert not run("check", *STORE, cwd=tmp_path).returncode


def test_another_boilerplate_exits_12_with_both(tmp_path, bodies):
    learn(tmp_path)
    run("load", "a.jsonl", *STORE, *OWN, cwd=tmp_path)
    (tmp_path / "own.txt").write_text("line\t1\tsubscribe\n")
    done = run("load", "a.jsonl", *STORE, *OWN, cwd=tmp_path)
    assert done.returncode == 12
    assert "boilerplate is a file of 1 line and 2 phrases (SHA-256 " in done.stderr.decode()
    run("load", "a.jsonl", "--store", "rocksdb:plain.db", cwd=tmp_path)
    done = run("load", "a.jsonl", "--store", "rocksdb:plain.db", *OWN, cwd=tmp_path)
    assert done.returncode == 12
    assert "boilerplate is none, not a file of 1 line and 0 phrases (SHA-256 " in done.stderr.decode()


def test_a_document_of_nothing_else_is_rejected_with_the_reason(tmp_path, bodies):
    learn(tmp_path)
    documents(tmp_path / "b.jsonl", [framed(""), framed(bodies[0])])
    done = run("fingerprint", "b.jsonl", *OWN, cwd=tmp_path)
    assert (done.returncode, len(done.stdout.splitlines())) == (3, 1)
    assert "d0: the text is only boilerplate" in done.stderr.decode()


def test_pairs_are_found_without_their_boilerplate(tmp_path, bodies):
    learn(tmp_path)
    short = [body[:17] for body in bodies]
    documents(tmp_path / "b.jsonl", [*map(framed, short), framed(short[0][:-1] + "z")])
    (tmp_path / "pairs.tsv").write_text("d0\td30\n")
    given = ("evaluate", "b.jsonl", "--pairs", "pairs.tsv", *MINHASH)
    whole, stripped = (result(*given, *more, cwd=tmp_path) for more in ((), OWN))
    assert whole["found"] > 30
    assert stripped["found"] == 1
    assert stripped["recall"]["all"]["value"] == 1


def test_long_boilerplate_travels_with_the_store(tmp_path):
    lines = [sha256(b"%d" % number).hexdigest() for number in range(40_000)]
    own = Boilerplate("own", "".join(f"line\t1\t{line}\n" for line in lines).encode())
    url = f"rocksdb:{tmp_path}/store"
    with simhbase.open(url, create=Profile(verify=False, boilerplate=own)) as index:
        index.add([Document("a", f"{lines[5]}\nAlpha beta gamma")])
    with simhbase.open(url, access="read") as index:
        assert index.profile.boilerplate == own
        assert index.find(f"alpha beta gamma\n{lines[-1]}").matches[0].distance == 0


@pytest.mark.parametrize(
    ("arguments", "exit_code", "told"),
    [
        (("idf", "a.jsonl"), 2, "nothing to write: give -o FILE"),
        (("idf", *LEARN), 2, "'-' can only be read once: write it to a file"),
        (("idf", *LEARN, "pipe"), 2, "'pipe' can only be read once"),
        (("idf", *LEARN, "-o", "own.txt", "a.jsonl"), 2, "two options write to own.txt"),
        (("idf", "--boilerplate", "a.jsonl", "a.jsonl"), 2, "a.jsonl is an input of this command"),
        (("idf", *LEARN, "a.jsonl", "--boilerplate-share", 0), 2, "--boilerplate-share"),
        (("idf", *LEARN, "binary"), 1, "no boilerplate file was written"),
        (
            ("dedup", "a.jsonl", "--set", "boilerplate=missing.txt"),
            1,
            "cannot read the boilerplate file missing.txt",
        ),
    ],
)
def test_bad_input_is_told(tmp_path, bodies, arguments, exit_code, told):
    (tmp_path / "binary").write_bytes(bytes(range(255, 0, -1)) * 9)
    os.mkfifo(tmp_path / "pipe")
    write_lines(tmp_path / "own.txt", [])
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == exit_code, done.stderr.decode()
    assert told in done.stderr.decode()
