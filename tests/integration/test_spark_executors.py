"""A master and a worker of Spark as processes of their own, whose Python lacks what the driver has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep

import pyspark
import pytest

import simhbase
from tests.command_line import COMMAND, environment, read_lines, texts, write_lines
from tests.examples import ROOT, Reader, blocks, page

pytestmark = [pytest.mark.spark, pytest.mark.full]

SPARK = Path(pyspark.__file__).parent
PACKAGES = Path(pyspark.__file__).parents[1]
HERE = "127.0.0.1"


# What a cluster on one small machine needs.
DEFAULTS = f"spark.driver.host {HERE}\nspark.executor.memory 512m\nspark.sql.shuffle.partitions 1\n"


@contextmanager
def started(folder: Path, name: str, *options: str, said: str) -> Iterator[re.Match[str]]:
    """A process of Spark without this one's environment, until it has said something."""
    log = folder / f"{name}.log"
    variables = {"SPARK_HOME": str(SPARK), "PATH": os.environ["PATH"], "SPARK_LOCAL_DIRS": str(folder)}
    if "JAVA_HOME" in os.environ:
        variables["JAVA_HOME"] = os.environ["JAVA_HOME"]
    command = [SPARK / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *options]
    with log.open("w") as messages, subprocess.Popen(command, env=variables, stderr=messages) as process:
        try:
            end = monotonic() + 120
            while not (found := re.search(said, log.read_text())):
                assert process.poll() is None, log.read_text()
                assert monotonic() < end, log.read_text()
                sleep(0.2)
            yield found
        finally:
            process.terminate()
            process.wait()


@pytest.fixture(scope="module")
def master(tmp_path_factory) -> Iterator[str]:
    """The URL of a cluster with one worker."""
    folder = tmp_path_factory.mktemp("cluster")
    here = ("--host", HERE, "--webui-port", "0")
    with ExitStack() as stack:
        begun = started(folder, "master.Master", *here, "--port", "0", said=r"Starting Spark master at (\S+)")
        url = stack.enter_context(begun)[1]
        work = ("--work-dir", str(folder / "work"), "--cores", "1", "--memory", "1g", url)
        stack.enter_context(started(folder, "worker.Worker", *here, *work, said="Successfully registered"))
        yield url


def python(folder: Path, *, without: str = "simhbase") -> Path:
    """An interpreter with the packages of this one except some."""
    site = folder / "site"
    site.mkdir()
    for entry in PACKAGES.iterdir():
        if not entry.name.startswith((without, "_", "simhbase")):
            (site / entry.name).symlink_to(entry)
    made = folder / "python"
    base = Path(sys.executable).resolve()
    made.write_text(f'#!/bin/sh\nPYTHONPATH="{site}:$PYTHONPATH" exec "{base}" -s "$@"\n')
    made.chmod(0o755)
    return made


def add_simhbase(folder: Path, version: str = simhbase.__version__, *ignored: str) -> None:
    package = Path(simhbase.__file__).parent
    ignoring = shutil.ignore_patterns("__pycache__", "docs", *ignored)
    shutil.copytree(package, folder / "site" / "simhbase", ignore=ignoring)
    named = folder / "site" / f"simhbase-{version}.dist-info"
    named.mkdir()
    (named / "METADATA").write_text(f"Metadata-Version: 2.1\nName: simhbase\nVersion: {version}\n")


def dedup(folder: Path, master: str, interpreter: Path) -> tuple[int, str]:
    write_lines(folder / "a.jsonl", [{"id": f"{n}", "text": text} for n, text in enumerate(texts(2))])
    settings = {
        "spark.driver.host": HERE,
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "1",
        "spark.task.maxFailures": "1",
    }
    set_to = [f"--conf={name}={value}" for name, value in settings.items()]
    variables = environment(PYSPARK_PYTHON=str(interpreter), SPARK_LOCAL_IP=HERE)
    command = [*COMMAND, "spark", "dedup", "--master", master, *set_to, "a.jsonl"]
    # In a process of its own: this one may have a Spark already.
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    (last,) = re.findall("^Error: .*|^read 2 documents.*", done.stderr, re.MULTILINE)[-1:] or [""]
    return done.returncode, last or done.stderr


def test_an_executor_with_all_of_it_works(tmp_path, master):
    interpreter = python(tmp_path)
    add_simhbase(tmp_path)
    assert dedup(tmp_path, master, interpreter) == (0, "read 2 documents, rejected 0")


def test_an_executor_without_simhbase_is_named(tmp_path, master):
    code, said = dedup(tmp_path, master, python(tmp_path))
    assert code == 1
    assert re.fullmatch(
        r"Error: the executor on \S+ \(\S+\) has no simhbase \(No module named 'simhbase'\): send it with "
        r"the job \(docs/spark\.md, On a cluster\)",
        said,
    )


def test_an_executor_with_another_version_is_named(tmp_path, master):
    interpreter = python(tmp_path)
    add_simhbase(tmp_path, "0.0.9")
    code, said = dedup(tmp_path, master, interpreter)
    assert code == 1
    assert f" has simhbase 0.0.9, the driver {simhbase.__version__}: send it with the job" in said


def test_a_package_without_its_compiled_module_is_named(tmp_path, master):
    """As from a zip."""
    interpreter = python(tmp_path)
    add_simhbase(tmp_path, simhbase.__version__, "_core*")
    code, said = dedup(tmp_path, master, interpreter)
    assert code == 1
    assert re.search(r"cannot compute a fingerprint \(\w+Error: .*_core", said)


def test_another_python_is_named(tmp_path, master):
    interpreter = python(tmp_path)
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import sys\nfrom collections import namedtuple\n"
        "fields = namedtuple('fields', 'major minor micro releaselevel serial')\n"
        "sys.version_info = fields(3, 9, 1, 'final', 0)\n"
    )
    code, said = dedup(tmp_path, master, interpreter)
    assert code == 1
    assert said.startswith("Error: executors have Python 3.9, the driver 3.")


def test_a_python_that_executors_do_not_have_is_named(tmp_path, master):
    code, said = dedup(tmp_path, master, tmp_path / "none" / "python")
    assert code == 1
    assert said.startswith(f"Error: executors have no {tmp_path}/none/python: PYSPARK_PYTHON must name")


def test_packages_that_are_sent_as_the_page_shows_are_all_that_a_bare_python_needs(tmp_path, master):
    """It fetches the packages that simhbase needs."""
    build = f"import maturin; maturin.build_wheel({str(tmp_path)!r}, {{'build-args': '--profile dev'}})"
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "bare"], check=True)
    (tmp_path / "spark-defaults.conf").write_text(DEFAULTS)
    (tmp_path / "pages").mkdir()
    (text,) = texts(1)
    write_lines(tmp_path / "pages" / "a.jsonl", [{"id": each, "text": text + each} for each in ".!"])
    (shown,) = [block for language, block in blocks(page("docs/spark.md")) if language == "sh spark cluster"]
    here = {
        "pip ": f"{tmp_path}/bare/bin/pip ",
        "python3.11": f"{tmp_path}/bare/bin/python",
        "spark://master:7077": master,
        "hdfs:///corpus": str(tmp_path),
    }
    for name, place in here.items():
        assert name in shown
        shown = shown.replace(name, place)
    reader = Reader(tmp_path)
    reader.variables = {"PIP_FIND_LINKS": str(tmp_path), "SPARK_CONF_DIR": str(tmp_path)}
    assert "found 1 duplicates in 1 groups" in reader.shell(shown)
    (listed,) = (tmp_path / "duplicates").glob("part-*")
    assert [line["id"] for line in read_lines(listed)] == ["!"]
