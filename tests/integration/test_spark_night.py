"""examples/spark/dedup-night: which exit codes are repeated, which raise the alarm, and one real night."""

from __future__ import annotations

import json
import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import environment, texts, write_lines
from tests.examples import ROOT
from tests.local_spark import FOR_FEW_ROWS

EXAMPLES = ROOT / "examples" / "spark"
REJECTED = "corpus: done, and some records were rejected: see lists/rejects\n"


def night(folder: Path, *options: str, path: str = "", **variables: str) -> tuple[int, str]:
    """Exit code and alarms of the script. path: a folder of commands in front of the others."""
    alarms = folder / "alarms"
    told = {"ALARM": f"cat >> {alarms}", "PAUSE": "0", "PATH": f"{path}:{os.environ['PATH']}", **variables}
    command = [EXAMPLES / "dedup-night", "corpus", "lists", *options]
    done = subprocess.run(command, cwd=folder, env=environment(**told), capture_output=True, check=False)
    return done.returncode, alarms.read_text("utf-8") if alarms.exists() else ""


@pytest.mark.parametrize(
    ("codes", "ended", "alarm", "runs"),
    [
        ("0", 0, "", 1),
        ("1 0", 0, "", 2),
        ("1 11 3", 0, REJECTED, 3),
        ("1 137 1 0", 1, "corpus: failed with exit code 1, 3 times\n", 3),
        ("2 0", 2, "corpus: failed with exit code 2, which needs attention\n", 1),
        ("16 0", 16, "corpus: failed with exit code 16, which needs attention\n", 1),
        ("143 0", 143, "", 1),
    ],
)
def test_failures_that_may_pass_are_repeated_and_the_others_raise_the_alarm(
    tmp_path, codes, ended, alarm, runs
):
    """The command is one that ends with these codes in turn."""
    command = tmp_path / "bin" / "simhbase"
    command.parent.mkdir()
    command.write_text(
        f'#!/bin/sh\necho "$@" >> "{tmp_path}/runs"\nset -- {codes}\n'
        f'shift $(($(wc -l < "{tmp_path}/runs") - 1))\nexit $1\n'
    )
    command.chmod(0o755)
    assert night(tmp_path, "--master", "local", path=str(command.parent)) == (ended, alarm)
    asked = (tmp_path / "runs").read_text().splitlines()
    assert len(asked) == runs
    assert asked[0].startswith("spark dedup --overwrite ")
    assert asked[0].endswith(" --master local corpus")


@pytest.mark.spark
def test_a_night_has_lists_and_a_report_and_its_rejects_raise_the_alarm(tmp_path):
    (tmp_path / "corpus").mkdir()
    records = [{"id": f"{n}", "text": text} for n, text in enumerate([*texts(2), *texts(2), "?"])]
    write_lines(tmp_path / "corpus" / "a.jsonl", records)
    settings = {**FOR_FEW_ROWS, "spark.sql.shuffle.partitions": "2"}
    options = ["--master=local[2]", *(f"--conf={name}={value}" for name, value in settings.items())]
    assert night(tmp_path, *options, path=str(Path(sys.executable).parent)) == (0, REJECTED)
    report = json.loads((tmp_path / "lists" / "report.json").read_bytes())
    assert (report["documents"], report["unique"], report["rejected"]) == (5, 2, 1)


def test_the_dag_of_airflow_is_python(tmp_path):
    """Airflow is too large to be installed for tests."""
    py_compile.compile(str(EXAMPLES / "airflow_dag.py"), cfile=str(tmp_path / "dag.pyc"), doraise=True)
