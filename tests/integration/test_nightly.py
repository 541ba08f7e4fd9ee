"""The scripts and units of examples/nightly do what they say."""

import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.command_line import documents, environment, texts
from tests.examples import ROOT

EXAMPLES = ROOT / "examples" / "nightly"


def night(folder: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    variables = environment() | {"SIMHBASE_STORE": "rocksdb:s.db"}
    command = [EXAMPLES / "load-new", "incoming", "lists", *options]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, check=False)


def bring(folder: Path, day: str, contents: list[str]) -> None:
    (folder / "incoming" / day).mkdir(parents=True)
    documents(folder / "incoming" / day / "a.jsonl", contents, prefix=f"{day}/")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lists").mkdir()
    return tmp_path


def lines(folder: Path, name: str) -> list[bytes]:
    return gzip.decompress((folder / "lists" / name).read_bytes()).splitlines()


def ids(folder: Path, name: str) -> list[str]:
    return [json.loads(line)["id"] for line in lines(folder, name)]


def test_each_night_lists_what_no_night_before_had(folder):
    first, second, third = texts(3)
    bring(folder, "2026-01-01", [first])
    assert night(folder).returncode == 0
    bring(folder, "2026-01-02", [first + " .", second])
    bring(folder, "2026-01-03", [second, third])
    bring(folder, "9999-01-01", [third])  # still grows
    for _ in range(2):  # it may be repeated
        done = night(folder)
        assert (done.returncode, done.stdout) == (0, b""), done.stderr
        assert ids(folder, "2026-01-01.new.jsonl.gz") == ["2026-01-01/0"]
        assert ids(folder, "2026-01-02.new.jsonl.gz") == ["2026-01-02/1"]
        assert ids(folder, "2026-01-02.duplicates.jsonl.gz") == ["2026-01-02/0"]
        assert ids(folder, "2026-01-03.new.jsonl.gz") == ["2026-01-03/1"]
    assert not list((folder / "lists").glob("9999*"))
    report = json.loads((folder / "lists" / "2026-01-02.report.json").read_bytes())
    assert (report["documents"], report["duplicates"]) == (2, 1)


def test_a_night_with_rejects_is_a_good_one_and_one_that_failed_says_so_and_is_made_up_for(folder):
    bring(folder, "2026-01-01", texts(1))
    with (folder / "incoming/2026-01-01/a.jsonl").open("a") as file:
        file.write("no json\n")
    assert night(folder).returncode == 0
    assert len(lines(folder, "2026-01-01.rejects.jsonl.gz")) == 1
    (folder / "incoming" / "2026-01-02").mkdir()
    bring(folder, "2026-01-03", texts(4)[3:])
    assert night(folder).returncode == 20
    assert ids(folder, "2026-01-03.new.jsonl.gz") == ["2026-01-03/0"]
    documents(folder / "incoming" / "2026-01-02" / "a.jsonl", texts(3)[2:], prefix="late/")
    assert night(folder, "--set", "scheme=minhash").returncode == 12
    assert night(folder).returncode == 0
    assert ids(folder, "2026-01-02.new.jsonl.gz") == ["late/0"]


def test_a_link_in_place_of_a_day_is_not_followed(folder):
    """Who writes to the folder of days would have got the texts of another one in the lists."""
    first, other = texts(2)
    bring(folder, "2026-01-01", [first])
    documents(folder / "other.jsonl", [other])
    for day, place in {"2026-01-02": folder, "2026-01-03": folder / "other.jsonl"}.items():
        (folder / "incoming" / day).symlink_to(place)
    done = night(folder)
    assert (done.returncode, done.stderr.count(b"is a link")) == (20, 2)
    assert {path.name[:10] for path in (folder / "lists").iterdir()} == {"2026-01-01"}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_systemd_understands_the_units(tmp_path):
    for unit in EXAMPLES.glob("simhbase-load.*"):
        (tmp_path / unit.name).write_text(unit.read_text().replace("/srv/simhbase", str(EXAMPLES)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "simhbase-load.timer", "simhbase-load.service"],
        cwd=tmp_path,
        env=os.environ | {"SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        capture_output=True,
        check=False,
    )
    assert b"simhbase-load" not in done.stderr, done.stderr


def test_the_line_for_cron_is_one(tmp_path):
    entries = [
        line for line in (EXAMPLES / "crontab").read_text().splitlines() if line and line[0] not in "#SP"
    ]
    assert len(entries) == 1
    fields = entries[0].split(maxsplit=5)
    assert fields[:5] == ["0", "1", "*", "*", "*"]
    command = fields[5].replace("\\%", "%")
    assert "%" not in fields[5].replace("\\%", "")  # cron takes it for the end of the line
    assert subprocess.run(["bash", "-n", "-c", command], check=False).returncode == 0


def test_a_wrong_call_says_how_to_call_it(tmp_path):
    done = subprocess.run(
        [EXAMPLES / "load-new", "nowhere", "lists"], cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode, b"usage: " in done.stderr) == (2, True)


def test_a_day_with_a_file_that_is_not_what_it_should_be_is_not_finished(folder):
    first, second, *others = texts(12)
    bring(folder, "2026-01-01", [first])
    bring(folder, "2026-01-02", [second])
    wrong = folder / "incoming" / "2026-01-01" / "b.csv"
    wrong.write_bytes(b"id,text\n" + b"".join(b"%d,caf\xe9 au lait\n" % number for number in range(10)))
    for _ in range(2):
        done = night(folder)
        assert done.returncode == 21
        assert b"b.csv: only 0 of its 10 records could be used" in done.stderr
        assert not (folder / "lists" / "2026-01-01.new.jsonl.gz").exists()
        assert ids(folder, "2026-01-02.new.jsonl.gz") == ["2026-01-02/0"]
    wrong.write_text("id,text\n" + "".join(f"x{number},{text}\n" for number, text in enumerate(others)))
    assert night(folder).returncode == 0
    assert len(ids(folder, "2026-01-01.new.jsonl.gz")) == 11


def test_a_day_with_a_file_that_cannot_be_read_is_not_finished(folder):
    first, second = texts(2)
    bring(folder, "2026-01-01", [first])
    wrong = folder / "incoming" / "2026-01-01" / "b.jsonl.gz"
    wrong.write_bytes(b"no gzip")
    assert night(folder).returncode == 21
    assert not (folder / "lists" / "2026-01-01.new.jsonl.gz").exists()
    wrong.write_bytes(gzip.compress(json.dumps({"id": "b", "text": second}).encode()))
    assert night(folder).returncode == 0
    assert ids(folder, "2026-01-01.new.jsonl.gz") == ["2026-01-01/0", "b"]


def test_a_share_of_rejects_that_is_too_large_leaves_a_day_unfinished_until_it_is_mended(folder):
    bring(folder, "2026-01-01", texts(9))
    day = folder / "incoming" / "2026-01-01" / "a.jsonl"
    whole = day.read_text()
    day.write_text(whole + "no json\n")
    assert night(folder, "--max-rejects", "10%").returncode == 0
    bring(folder, "2026-01-02", texts(8, seed=1))
    day = folder / "incoming" / "2026-01-02" / "a.jsonl"
    whole = day.read_text()
    day.write_text(whole + "no json\n")
    for _ in range(2):
        done = night(folder, "--max-rejects", "10%")
        assert (done.returncode, b"Error: --max-rejects: 1 of 9 records" in done.stderr) == (20, True)
        assert not (folder / "lists" / "2026-01-02.new.jsonl.gz").exists()
    day.write_text(whole)
    done = night(folder, "--max-rejects", "10%")
    assert (done.returncode, b"simhbase loads forget nightly-2026-01-02" in done.stderr) == (20, True)
