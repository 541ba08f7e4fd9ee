"""The scripts and units of examples/nightly do what they say."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.command_line import documents, environment, read_lines, texts
from tests.examples import ROOT

EXAMPLES = ROOT / "examples" / "nightly"


def night(folder: Path, day: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    variables = environment() | {"SIMHBASE_STORE": "rocksdb:s.db", "DAY": day}
    command = [EXAMPLES / "load-new", f"incoming/{day}", "lists", *options]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    first, second = texts(2)
    (tmp_path / "lists").mkdir()
    for day, contents in (("1", [first]), ("2", [first + " .", second])):
        (tmp_path / "incoming" / day).mkdir(parents=True)
        documents(tmp_path / "incoming" / day / "a.jsonl", contents, prefix=f"{day}/")
    return tmp_path


def listed(folder: Path, name: str) -> list[str]:
    """Ids."""
    plain = folder / "plain"
    plain.write_bytes(
        subprocess.run(["gzip", "-dc", folder / "lists" / name], capture_output=True, check=True).stdout
    )
    return [line["id"] for line in read_lines(plain)]


def test_each_night_lists_what_no_night_before_had(folder):
    for day, new, again in (("1", ["1/0"], []), ("2", ["2/1"], ["2/0"])):
        for _ in range(2):  # it may be repeated
            done = night(folder, day)
            assert done.returncode == 0, done.stderr
            assert listed(folder, f"{day}.new.jsonl.gz") == new
            assert listed(folder, f"{day}.duplicates.jsonl.gz") == again
    report = json.loads((folder / "lists" / "2.report.json").read_bytes())
    assert (report["documents"], report["duplicates"]) == (2, 1)
    assert done.stdout == b""


def test_a_night_with_rejects_is_a_good_one_and_one_that_failed_says_so(folder):
    with (folder / "incoming/1/a.jsonl").open("a") as file:
        file.write("no json\n")
    assert night(folder, "1").returncode == 0
    assert (
        len(
            subprocess.run(
                ["gzip", "-dc", folder / "lists/1.rejects.jsonl.gz"], capture_output=True, check=True
            ).stdout.splitlines()
        )
        == 1
    )
    assert night(folder, "3").returncode == 1
    assert night(folder, "2", "--scheme", "minhash").returncode == 12


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_systemd_understands_the_units(tmp_path):
    for unit in EXAMPLES.glob("simhbase-load.*"):
        shutil.copy(unit, tmp_path)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "simhbase-load.timer", "simhbase-load.service"],
        cwd=tmp_path,
        env=os.environ | {"SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        capture_output=True,
        check=False,
    )
    assert b"simhbase-load" not in done.stderr, done.stderr


def test_the_line_for_cron_is_one(tmp_path):
    lines = [
        line for line in (EXAMPLES / "crontab").read_text().splitlines() if line and line[0] not in "#SP"
    ]
    assert len(lines) == 1
    fields = lines[0].split(maxsplit=5)
    assert fields[:5] == ["0", "1", "*", "*", "*"]
    command = fields[5].replace("\\%", "%")
    assert "%" not in fields[5].replace("\\%", "")  # cron takes it for the end of the line
    assert subprocess.run(["bash", "-n", "-c", command], check=False).returncode == 0
