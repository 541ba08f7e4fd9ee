"""What the guard of Spark's executors says, and that it travels without this package."""

import platform
import subprocess
import sys
from importlib.metadata import version
from time import process_time

import pytest
from pyspark import cloudpickle

from simhbase.errors import BadInput, SimhbaseError
from simhbase.profile.profile import Profile
from simhbase.spark.failures import raised_clearly
from simhbase.spark.guard import TEXT, checking, guarded

DIGEST = Profile(scheme="minhash").fingerprinter().fingerprint_many([TEXT]).fingerprints.values.tolist()
PAYLOAD = cloudpickle.dumps(lambda batches: [each + 1 for each in batches])


def test_work_runs_where_all_is_as_in_the_driver():
    assert list(guarded(lambda batches: (each + 1 for each in batches))([1, 2])) == [2, 3]


@pytest.mark.parametrize(
    ("wanted", "machine", "digest", "said"),
    [
        ("0.0.1", platform.machine(), DIGEST, r"has simhbase \S+, the driver 0\.0\.1: send it with the job"),
        (version("simhbase"), platform.machine(), [1], "computes other fingerprints than the driver"),
        ("0.0.1", "z80", DIGEST, r"its processor is \S+, the driver's z80\. Send simhbase for"),
    ],
)
def test_an_executor_that_differs_is_named_with_what_differs(wanted, machine, digest, said):
    with pytest.raises(RuntimeError, match=rf"^the executor on \S+ \(.+\) .*{said}"):
        list(checking(PAYLOAD, wanted, machine, TEXT, digest)([1]))


def test_a_python_without_this_package_can_say_so(tmp_path):
    """A fresh interpreter that has PySpark's cloudpickle and nothing else of ours."""
    (tmp_path / "work").write_bytes(cloudpickle.dumps(guarded(lambda batches: batches)))
    code = (
        "import sys, pickle\n"
        "class Missing:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name.partition('.')[0] == 'simhbase': raise ModuleNotFoundError('gone')\n"
        "sys.meta_path.insert(0, Missing())\n"
        f"list(pickle.load(open({str(tmp_path / 'work')!r}, 'rb'))([]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "RuntimeError: the executor on " in done.stderr
    assert "has no simhbase (gone): send it with the job" in done.stderr


class Failed(Exception):
    """As Py4J raises it."""

    java_exception = None


@pytest.mark.parametrize(
    ("raised", "kind", "said"),
    [
        (
            "x\nRuntimeError: the executor on h (p) has no simhbase: y\n\tat z",
            SimhbaseError,
            "the executor on",
        ),
        (
            "Python in worker has different version 3.9 than that in driver 3.11, PySpark cannot run",
            SimhbaseError,
            r"executors have Python 3\.9, the driver 3\.11: name a Python 3\.11",
        ),
        (
            'Caused by: java.io.IOException: Cannot run program "/no/python": error=2',
            SimhbaseError,
            "executors have no /no/python: PYSPARK_PYTHON must name",
        ),
        (
            "Python in worker has different version (3, 9) than that in driver 3.11, PySpark cannot run",
            SimhbaseError,
            r"^executors have Python 3\.9, the driver 3\.11: name",
        ),
        (
            "Python in worker has different version: 3.9 than that in driver: 3.11, PySpark cannot run",
            SimhbaseError,
            r"^executors have Python 3\.9, the driver 3\.11: name",
        ),
        ("a\nsimhbase.errors.BadInput: line 3 is wrong\n", BadInput, "^line 3 is wrong$"),
        (
            "java.lang.Exception: a\nCaused by: java.io.IOException: full\n",
            SimhbaseError,
            "IOException: full",
        ),
    ],
)
def test_failures_of_tasks_are_one_sentence(raised, kind, said):
    with pytest.raises(kind, match=said), raised_clearly():
        raise Failed(raised)
    with pytest.raises(ZeroDivisionError), raised_clearly():
        _ = 1 / 0


def test_a_failure_of_many_empty_lines_takes_linear_time_to_read():
    begun = process_time()
    with pytest.raises(SimhbaseError), raised_clearly():
        raise Failed("\n" * 40_000)
    assert process_time() - begun < 1
