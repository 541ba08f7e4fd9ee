"""Some tests of Spark run again with PySpark 4. All run with 3.5."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import ROOT

CHOSEN = (
    "test_spark.py::test_a_kept_row_has_its_columns_and_says_how_many_it_stands_for",
    "test_spark.py::test_rows_that_are_kept_are_not_shuffled_but_for_some_that_are_equal",
    "test_spark_unique_load.py::test_files_are_loaded_with_the_lists_and_the_report_of_the_command",
    "test_spark_answers.py::test_stored_documents_are_found_as_by_the_command[profile0-query0-options0-how0]",
    "test_spark_answers.py::test_documents_are_matched_among_others_as_by_the_command[profile1-options1-how1]",
    "test_spark_command.py::test_files_have_the_lists_and_the_report_of_one_machine",
    "test_spark_command.py::test_commands_have_a_session_with_the_settings_of_the_one_given_and_plans_of_their_own",
)


@pytest.mark.full
@pytest.mark.spark
def test_pyspark_4_has_the_same_answers(tmp_path: Path) -> None:
    folder = tmp_path / "pyspark"
    install = ("pip", "install", "--quiet", "--target", str(folder), "pyspark>=4,<5")
    subprocess.run([sys.executable, "-m", *install], check=True)
    environ = {**os.environ, "PYTHONPATH": str(folder)}  # before what is installed
    shown = [sys.executable, "-c", "import pyspark; print(pyspark.__version__)"]
    assert subprocess.check_output(shown, env=environ, text=True).startswith("4.")
    tests = [f"tests/integration/{each}" for each in CHOSEN]
    options = ("-p", "no:cacheprovider", "--spark", "--timeout", "3000")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert f"{len(CHOSEN)} passed" in done.stdout
